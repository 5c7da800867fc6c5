"""The wire formats: one JSON object per phase, native calls for the choice of tools, plain text for prose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from whichloop.loops.shared.json_codec import TEXT, TEXTS, Data, JsonCodec, object_of, read_flag, read_text, read_texts
from whichloop.protocol import Reply, Role
from whichloop.protocol.json_text import canonical_json
from whichloop.protocol.moves import Act, Answer, Completion, Inexpressible, Move, PlanTask, Tasks, Text, Understanding, WireError
from whichloop.protocol.receipts import without_marks
from whichloop.protocol.wire import native_call, read_back, read_call


@dataclass(frozen=True, slots=True)
class TextCodec:
    """The reply's text, whatever it says: in the role answer an Answer, otherwise a Text. Cannot say anything else."""

    name: str
    role: Role
    max_calls: ClassVar[int] = 0
    schema: ClassVar[None] = None
    form: ClassVar[str] = ""

    def render(self, move: Move) -> Reply:
        text = move.text if isinstance(move, Text) else move.value if isinstance(move, Answer) else None
        if not isinstance(text, str):
            raise Inexpressible("anything but text")
        return read_back(self, move, lambda: Reply(text))

    def answer_so_far(self, text: str, calls: Mapping[str, str]) -> str:
        return text if self.role is Role.ANSWER else ""

    def parse(self, reply: Reply) -> Any:
        return Answer("", reply.text) if self.role is Role.ANSWER else Text(reply.text)


class SelectCodec:
    """Native tool calls; the word "none", or nothing at all, calls none, and other prose is a Text.

    Cannot say more than `max_calls` calls, a thought without a call, or a Text that is empty or "none".
    """

    name: ClassVar[str] = "phased.select"
    role: ClassVar[Role] = Role.SELECT
    max_calls: ClassVar[int] = 64

    def render(self, move: Move) -> Reply:
        if isinstance(move, Text):
            return read_back(self, move, lambda: Reply(move.text))
        if not isinstance(move, Act):
            raise Inexpressible(f"the {type(move).__name__} is no move of this role")
        if not move.calls:
            return read_back(self, move, lambda: Reply("none"))  # an empty reply might as well be a lost one
        calls = tuple(native_call(call, place) for place, call in enumerate(move.calls))
        return read_back(self, move, lambda: Reply(move.thought, calls, None, "tool_calls"))

    def parse(self, reply: Reply) -> Act | Text:
        if not reply.calls:
            return Act("", ()) if reply.text.strip() in ("", "none") else Text(reply.text)
        if len(reply.calls) > self.max_calls:
            raise WireError(f"{len(reply.calls)} calls at once: at most {self.max_calls}")
        return Act(reply.text, tuple(read_call(call) for call in reply.calls))


def read_plan(data: Data) -> Tasks:
    if not isinstance(data.get("tasks"), list):
        raise WireError('"tasks" must be a list of tasks')
    return Tasks(tuple(map(read_task, data["tasks"])), read_text(data, "summary", ""))


def read_task(data: Any) -> PlanTask:
    if not isinstance(data, dict):
        raise WireError("each task must be a JSON object")
    kind = data.get("taskType", "use_tools")
    if kind not in ("use_tools", "reason"):
        raise WireError('"taskType" must be "use_tools" or "reason"')
    return PlanTask(read_text(data, "id"), read_text(data, "description"), kind, read_texts(data, "dependsOn"))


def read_judgement(data: Data) -> Completion:
    judgement = Completion(read_flag(data, "isComplete"), read_text(data, "reasoning", ""), read_texts(data, "missingInfo"))
    read_texts(data, NEXT_STEPS)
    return judgement


# --- one codec per kind of request ---

UNDERSTAND = JsonCodec(
    "phased.understand",
    Role.UNDERSTAND,
    Understanding,
    object_of(intent=TEXT, entities=TEXTS),
    'Reply with one JSON object: {"intent": "what is wanted", "entities": ["name", ...]}',
    lambda data: Understanding(read_text(data, "intent"), read_texts(data, "entities")),
    lambda move: {"intent": move.intent, "entities": list(move.entities)},
)
TASK = object_of(id=TEXT, description=TEXT, taskType={"enum": ["use_tools", "reason"]}, dependsOn=TEXTS)
PLAN = JsonCodec(
    "phased.plan",
    Role.PLAN,
    Tasks,
    object_of(summary=TEXT, tasks={"type": "array", "items": TASK}),
    'Reply with one JSON object: {"summary": "the plan in a sentence", "tasks": [{"id": "t1", "description": "what to do", '
    '"taskType": "use_tools" or "reason", "dependsOn": ["id of a task whose result is needed", ...]}, ...]}',
    read_plan,
    lambda move: {
        "summary": move.summary,
        "tasks": [
            {"id": task.id, "description": task.description, "taskType": task.kind, "dependsOn": list(task.depends_on)}
            for task in move.tasks
        ],
    },
)
NEXT_STEPS = "suggestedNextSteps"
"""The key of what a judgement says, and its move has no place for."""
REFLECT = JsonCodec(
    "phased.reflect",
    Role.REFLECT,
    Completion,
    object_of(isComplete={"type": "boolean"}, reasoning=TEXT, missingInfo=TEXTS, suggestedNextSteps=TEXTS),
    'Reply with one JSON object: {"isComplete": true or false, "reasoning": "why", "missingInfo": ["what is missing", ...], '
    '"suggestedNextSteps": ["what to do next", ...]}',
    read_judgement,
    lambda move: {"isComplete": move.done, "reasoning": move.reason, "missingInfo": list(move.missing), NEXT_STEPS: []},
)
SELECT = SelectCodec()
REASON = TextCodec("phased.text", Role.REASON)
SUMMARIZE = TextCodec("phased.text", Role.SUMMARIZE)
ANSWER = TextCodec("phased.answer", Role.ANSWER)


def contexts_codec(contents: Mapping[str, str]) -> JsonCodec:
    """Return the codec for the choice of results that the answer needs. `contents`: label → content of each to choose from.

    The move is the reason; the labels are those of the results whose last word, marks of data aside, stands in it.
    """

    def read(data: Data) -> Text:
        if not isinstance(data.get("contexts"), list):
            raise WireError('"contexts" must be a list of labels')
        return Text(read_text(data, "why", ""))

    def write(move: Text) -> Data:
        last_words = {label: "".join(without_marks(text).rsplit(None, 1)[-1:]) for label, text in contents.items()}
        return {"contexts": [label for label, word in last_words.items() if word in move.text], "why": move.text}

    form = 'Reply with one JSON object: {"contexts": ["label of a result", ...], "why": "what they say"}'
    return JsonCodec("phased.contexts", Role.SUMMARIZE, Text, object_of(contexts=TEXTS, why=TEXT), form, read, write)


def answer_codec(schema: Mapping[str, Any], takes_null: bool = False) -> JsonCodec:
    """Return the codec for an answer that follows a query's schema."""

    def read(data: Data) -> Answer:
        if "answer" not in data or (data["answer"] is None and not takes_null):
            raise WireError('"answer" is missing')
        return Answer(read_text(data, "reasoning", ""), data["answer"])

    def write(move: Answer) -> Data:
        return {"reasoning": move.thought, "answer": move.value}

    text = canonical_json(schema)
    reply = object_of(reasoning=TEXT, answer=json.loads(text))
    form = (
        'Reply with one JSON object: {"reasoning": "why", "answer": the answer}. ' + f"The answer follows this JSON schema: {text}"
    )
    return JsonCodec("phased.answer.json", Role.ANSWER, Answer, reply, form, read, write, takes_null)
