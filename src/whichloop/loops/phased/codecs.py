"""The wire formats: one JSON object per phase, native calls for the choice of tools, plain text for prose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from whichloop.protocol import (
    Act,
    Answer,
    Codec,
    Completion,
    Inexpressible,
    Move,
    PlanTask,
    Reply,
    Role,
    Tasks,
    Text,
    Understanding,
    WireError,
)
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.receipts import without_marks
from whichloop.protocol.wire import json_text, native_call, read_call, read_object, read_once, to_json

from .state import Reflection

MAX_CALLS = 64
"""Most calls that one choice of tools may hold."""
NO_CALL = "none"
"""The reply of a model that needs no tool; an empty reply might as well be a lost one."""

_TEXTS = {"type": "array", "items": {"type": "string"}}


class JsonCodec(Codec, Protocol):
    """A codec whose reply is one JSON object; models that take a schema get its own."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON schema of the reply."""

    @property
    def form(self) -> str:
        """The system text about the format."""


# --- one codec per phase ---


@dataclass(frozen=True, slots=True)
class UnderstandCodec:
    """`{"intent", "entities"}`. Cannot say anything but an Understanding."""

    name: str = "phased.understand"
    role: Role = Role.UNDERSTAND
    max_calls: int = 0
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"intent": {"type": "string"}, "entities": _TEXTS},
        "required": ["intent", "entities"],
    }
    form: ClassVar[str] = 'Reply with one JSON object: {"intent": "what is wanted", "entities": ["name", ...]}'

    def render(self, move: Move) -> Reply:
        if not isinstance(move, Understanding):
            raise _inexpressible(move)
        return _json_reply(self, move, {"intent": move.intent, "entities": list(move.entities)})

    @read_once
    def parse(self, reply: Reply) -> Understanding:
        data = read_object(reply.text)
        return Understanding(_text_field(data, "intent"), _texts(data, "entities"))


@dataclass(frozen=True, slots=True)
class PlanCodec:
    """`{"summary", "tasks": [{"id", "description", "taskType", "dependsOn"}]}`. Cannot say anything but Tasks."""

    name: str = "phased.plan"
    role: Role = Role.PLAN
    max_calls: int = 0
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "summary": {"type": "string"},
            "tasks": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "description": {"type": "string"},
                        "taskType": {"enum": ["use_tools", "reason"]},
                        "dependsOn": _TEXTS,
                    },
                    "required": ["id", "description", "taskType", "dependsOn"],
                },
            },
        },
        "required": ["summary", "tasks"],
    }
    form: ClassVar[str] = (
        'Reply with one JSON object: {"summary": "the plan in a sentence", "tasks": [{"id": "t1", "description": "what to do", '
        '"taskType": "use_tools" or "reason", "dependsOn": ["id of a task whose result is needed", ...]}, ...]}'
    )

    def render(self, move: Move) -> Reply:
        if not isinstance(move, Tasks):
            raise _inexpressible(move)
        tasks = [
            {"id": task.id, "description": task.description, "taskType": task.kind, "dependsOn": list(task.depends_on)}
            for task in move.tasks
        ]
        return _json_reply(self, move, {"summary": move.summary, "tasks": tasks})

    @read_once
    def parse(self, reply: Reply) -> Tasks:
        data = read_object(reply.text)
        tasks = data.get("tasks")
        if not isinstance(tasks, list):
            raise WireError('"tasks" must be a list of tasks')
        return Tasks(tuple(_plan_task(task) for task in tasks), _text_field(data, "summary", ""))


def _plan_task(data: Any) -> PlanTask:
    if not isinstance(data, dict):
        raise WireError("each task must be a JSON object")
    kind = data.get("taskType", "use_tools")
    if kind not in ("use_tools", "reason"):
        raise WireError('"taskType" must be "use_tools" or "reason"')
    return PlanTask(_text_field(data, "id"), _text_field(data, "description"), kind, _texts(data, "dependsOn"))


@dataclass(frozen=True, slots=True)
class ReflectCodec:
    """`{"isComplete", "reasoning", "missingInfo", "suggestedNextSteps"}`. Cannot say a confidence."""

    name: str = "phased.reflect"
    role: Role = Role.REFLECT
    max_calls: int = 0
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "isComplete": {"type": "boolean"},
            "reasoning": {"type": "string"},
            "missingInfo": _TEXTS,
            "suggestedNextSteps": _TEXTS,
        },
        "required": ["isComplete", "reasoning", "missingInfo", "suggestedNextSteps"],
    }
    form: ClassVar[str] = (
        'Reply with one JSON object: {"isComplete": true or false, "reasoning": "why", "missingInfo": ["what is missing", ...], '
        '"suggestedNextSteps": ["what to do next", ...]}'
    )

    def render(self, move: Move) -> Reply:
        if not isinstance(move, Completion):
            raise _inexpressible(move)
        fields = {"isComplete": move.done, "reasoning": move.reason, "missingInfo": list(move.missing), "suggestedNextSteps": []}
        return _json_reply(self, move, fields)

    @read_once
    def parse(self, reply: Reply) -> Completion:
        read = self.reflection(reply)
        return Completion(read.isComplete, read.reasoning, read.missingInfo)

    def reflection(self, reply: Reply) -> Reflection:
        """Return all that the reply says; the move has no place for the next steps. Raises WireError."""
        data = read_object(reply.text)
        if not isinstance(data.get("isComplete"), bool):
            raise WireError('"isComplete" must be true or false')
        return Reflection(
            data["isComplete"], _text_field(data, "reasoning", ""), _texts(data, "missingInfo"), _texts(data, "suggestedNextSteps")
        )


@dataclass(frozen=True, slots=True)
class ContextsCodec:
    """`{"contexts": [label], "why"}`: which results the answer needs.

    The move is the reason, a Text; the labels are those of the results whose last word, marks of data aside, stands in it. Cannot
    say anything else.
    """

    contents: tuple[tuple[str, str], ...]
    """Label and content of each result to choose from."""
    name: str = "phased.contexts"
    role: Role = Role.SUMMARIZE
    max_calls: int = 0
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"contexts": _TEXTS, "why": {"type": "string"}},
        "required": ["contexts", "why"],
    }
    form: ClassVar[str] = 'Reply with one JSON object: {"contexts": ["label of a result", ...], "why": "what they say"}'

    def render(self, move: Move) -> Reply:
        if not isinstance(move, Text):
            raise _inexpressible(move)
        labels = [label for label, content in self.contents if _last_word(without_marks(content)) in move.text]
        return _json_reply(self, move, {"contexts": labels, "why": move.text})

    @read_once
    def parse(self, reply: Reply) -> Text:
        data = read_object(reply.text)
        if not isinstance(data.get("contexts"), list):
            raise WireError('"contexts" must be a list of labels')
        return Text(_text_field(data, "why", ""))

    def chosen(self, reply: Reply) -> tuple[str, ...]:
        """Return the labels in the order of the results without unknown ones. Raises WireError, also if all are unknown."""
        self.parse(reply)
        wanted = read_object(reply.text)["contexts"]
        labels = tuple(label for label, _ in self.contents if label in wanted)
        if wanted and not labels:
            raise WireError(f'"contexts" holds no label of a result; they are {", ".join(label for label, _ in self.contents)}')
        return labels


def _last_word(text: str) -> str:
    words = text.rsplit(None, 1)
    return words[-1] if words else ""


@dataclass(frozen=True, slots=True)
class SchemaAnswerCodec:
    """`{"reasoning", "answer"}`, the answer following the query's schema.

    Cannot say a confidence, or an answer of None unless it `takes_null`.
    """

    answer_schema: str
    """Canonical JSON of the query's schema."""
    takes_null: bool = False
    """Whether null is an answer; otherwise it means that none is given."""
    name: str = "phased.answer.json"
    role: Role = Role.ANSWER
    max_calls: int = 0

    @classmethod
    def of(cls, schema: Mapping[str, Any], takes_null: bool = False) -> SchemaAnswerCodec:
        return cls(canonical_json(schema), takes_null)

    @property
    def schema(self) -> Mapping[str, Any]:
        properties = {"reasoning": {"type": "string"}, "answer": json.loads(self.answer_schema)}
        return {"type": "object", "properties": properties, "required": ["reasoning", "answer"]}

    @property
    def form(self) -> str:
        return (
            'Reply with one JSON object: {"reasoning": "why", "answer": the answer}. '
            f"The answer follows this JSON schema: {self.answer_schema}"
        )

    def render(self, move: Move) -> Reply:
        if not isinstance(move, Answer):
            raise _inexpressible(move)
        return _json_reply(self, move, {"reasoning": move.thought, "answer": move.value})

    def answer_so_far(self, text: str, calls: Mapping[str, str]) -> str:
        return json_text(text, "answer")

    @read_once
    def parse(self, reply: Reply) -> Answer:
        data = read_object(reply.text)
        if "answer" not in data or (data["answer"] is None and not self.takes_null):
            raise WireError('"answer" is missing')
        return Answer(_text_field(data, "reasoning", ""), data["answer"])


@dataclass(frozen=True, slots=True)
class TextAnswerCodec:
    """The reply's text is the answer. Cannot say a thought, a confidence, or a value that is not text."""

    name: str = "phased.answer"
    role: Role = Role.ANSWER
    max_calls: int = 0

    def render(self, move: Move) -> Reply:
        if not isinstance(move, Answer) or not isinstance(move.value, str) or move.thought or move.confidence is not None:
            raise Inexpressible("anything but an answer that is plain text")
        return Reply(move.value)

    def answer_so_far(self, text: str, calls: Mapping[str, str]) -> str:
        return text

    def parse(self, reply: Reply) -> Answer:
        return Answer("", reply.text)


@dataclass(frozen=True, slots=True)
class TextCodec:
    """The reply's text, whatever it says (roles reason and summarize). Cannot say anything but a Text."""

    role: Role
    name: str = "phased.text"
    max_calls: int = 0

    def render(self, move: Move) -> Reply:
        if not isinstance(move, Text):
            raise _inexpressible(move)
        return Reply(move.text)

    def parse(self, reply: Reply) -> Text:
        return Text(reply.text)


@dataclass(frozen=True, slots=True)
class SelectCodec:
    """Native tool calls; the word "none", or nothing at all, calls none, and other prose is a Text.

    Cannot say arguments that JSON does not give back as they were, more than `max_calls` calls, a thought without a call, or a Text
    that is empty or "none".
    """

    name: str = "phased.select"
    role: Role = Role.SELECT
    max_calls: int = MAX_CALLS

    def render(self, move: Move) -> Reply:
        if isinstance(move, Text):
            return _read_back(self, move, Reply(move.text))
        if not isinstance(move, Act):
            raise _inexpressible(move)
        if not move.calls:
            return _read_back(self, move, Reply(NO_CALL))
        calls = tuple(native_call(call, place) for place, call in enumerate(move.calls))
        return _read_back(self, move, Reply(move.thought, calls, None, "tool_calls"))

    @read_once
    def parse(self, reply: Reply) -> Act | Text:
        if not reply.calls:
            return Act("", ()) if reply.text.strip() in ("", NO_CALL) else Text(reply.text)
        if len(reply.calls) > self.max_calls:
            raise WireError(f"{len(reply.calls)} calls at once: at most {self.max_calls}")
        return Act(reply.text, tuple(read_call(call) for call in reply.calls))


UNDERSTAND = UnderstandCodec()
PLAN = PlanCodec()
SELECT = SelectCodec()
REFLECT = ReflectCodec()
REASON = TextCodec(Role.REASON)
SUMMARIZE = TextCodec(Role.SUMMARIZE)
ANSWER = TextAnswerCodec()


# --- reading and writing JSON ---


def _text_field(data: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = data.get(key, default)
    if not isinstance(value, str):
        raise WireError(f'"{key}" must be text')
    return value


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Read a list of texts; a single text is a list of one, and a missing list is empty."""
    value = data.get(key)
    items = [value] if isinstance(value, str) else value if value is not None else []
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise WireError(f'"{key}" must be a list of texts')
    return tuple(items)


def _json_reply(codec: Codec, move: Move, data: Mapping[str, Any]) -> Reply:
    return _read_back(codec, move, Reply(to_json(data)))


def _read_back(codec: Codec, move: Move, reply: Reply) -> Reply:
    """Return the reply if it reads as the move. Raises Inexpressible otherwise."""
    try:
        same = codec.parse(reply) == move
    except (WireError, RecursionError) as error:
        raise Inexpressible(str(error)) from None
    if not same:
        raise Inexpressible("a move that JSON does not give back as it was")
    return reply


def _inexpressible(move: Move) -> Inexpressible:
    return Inexpressible(f"the {type(move).__name__} is no move of this role")
