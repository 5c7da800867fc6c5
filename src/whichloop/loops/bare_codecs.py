"""The wire formats of design 4: one JSON object, as in its document, or lines of text, or a native call. Standard library only."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from whichloop.protocol import Act, Answer, Inexpressible, Move, Reply, Role, ToolCall, WireError
from whichloop.protocol.wire import from_json, json_text, native_call, read_back, without_last_line

_NULL = "null"
_EXACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
TASK = "You solve tasks step by step with tools."
OBSERVATIONS = (
    'After each call you see an observation: {"status": "success" or "error", "data": "...", "tool_name": "..."}.\nTools:'
)


class BadMove(WireError):
    """A legible reply states no move; `tool_name` if it could be read."""

    def __init__(self, message: str, tool_name: str | None = None) -> None:
        super().__init__(message)
        self.tool_name = tool_name


@dataclass(frozen=True, slots=True)
class BareCodec:
    """One JSON object in the reply's text, in a code fence with prose round it only if `reads_fences`.

    Cannot say: several calls, an empty tool name, an answer of None unless it `takes_null`, a confidence, tuples or other values
    that JSON does not give back as they were.
    """

    reads_fences: bool = False
    takes_null: bool = False
    """Whether null is an answer if no tool is called beside it; otherwise it means that no answer is given (row B4-8)."""
    name: ClassVar[str] = "bare.json"
    grows_as: ClassVar[str] = "bare.json"
    role: ClassVar[Role] = Role.DECIDE
    max_calls: ClassVar[int] = 1
    schema: ClassVar[Mapping[str, Any]] = {
        "anyOf": [
            {
                "type": "object",
                "properties": {"thought": {"type": "string"}, "tool_name": {"type": "string"}, "arguments": {"type": "object"}},
                "required": ["thought", "tool_name", "arguments"],
            },
            {"type": "object", "properties": {"final_answer": {}}, "required": ["final_answer"]},
        ]
    }
    task: ClassVar[str] = TASK
    """What the model should do, free of the format."""
    typed: ClassVar[str] = 'The value of "final_answer" must follow this JSON schema: '
    """Stands before the schema of a query's answer."""
    form: ClassVar[str] = f"""\
Reply with one JSON object and nothing else, no prose and no code fence.
To call a tool: {{"thought": "why", "tool_name": "name", "arguments": {{"argument": value}}}}
To end with your answer: {{"final_answer": "the answer"}}
{OBSERVATIONS}"""

    def render(self, move: Move) -> Reply:
        if isinstance(move, Act):
            call = _only_call(move)
            data = {"thought": move.thought, "tool_name": call.name, "arguments": call.arguments}
        else:
            answer = _answer(move)
            data = ({"thought": answer.thought} if answer.thought else {}) | {"final_answer": answer.value}
        return read_back(self, move, lambda: Reply(_EXACT.encode(data)))

    def answer_so_far(self, text: str, calls: Mapping[str, str]) -> str:
        return json_text(text, "final_answer")

    def parse(self, reply: Reply) -> Act | Answer:
        fenced = None if not self.reads_fences or reply.text.lstrip().startswith("{") else _FENCE.search(reply.text)
        try:
            data = from_json(fenced.group(1) if fenced else reply.text)
        except ValueError as error:
            raise WireError(f"Invalid JSON response from LLM - {error}") from None
        if not isinstance(data, dict):
            raise WireError("Reply must be a JSON object")
        thought, name = data.get("thought"), data.get("tool_name")
        thought = thought if isinstance(thought, str) else "" if thought is None else json.dumps(thought)
        if data.get("final_answer") is not None:
            return Answer(thought, data["final_answer"], instead_of=(str(name),) if name else ())
        if name is None or name == "":
            if self.takes_null and "final_answer" in data:
                return Answer(thought)
            raise BadMove("No tool_name specified")
        name = name if isinstance(name, str) else json.dumps(name)
        return Act(thought, (ToolCall(name, _arguments(data.get("arguments"), name)),))


_FENCE = re.compile(r"^[ \t]*```\w*[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class FieldsCodec:
    """Lines of text: `Thought:`, then `Tool:` and `Arguments:` (a JSON object), or `Answer:`; a code fence round them is left out.

    Cannot say: several calls, an empty tool name or one of several lines, an answer that is not text, a confidence, texts that
    begin or end with white space or hold a line that begins like a field. If it `takes_null`, it says an answer of None, and not
    the text "null".
    """

    takes_null: bool = False
    """Whether the text "null" is an answer of None."""
    name: ClassVar[str] = "bare.fields"
    grows_as: ClassVar[str] = "bare.fields"
    role: ClassVar[Role] = Role.DECIDE
    max_calls: ClassVar[int] = 1
    task: ClassVar[str] = TASK
    typed: ClassVar[str] = 'What follows "Answer:" must be JSON that follows this schema, a string without its quotation marks: '
    form: ClassVar[str] = f"""\
Reply with these lines and nothing else.
To call a tool:
Thought: why
Tool: name
Arguments: {{"argument": value}}
To end with your answer:
Thought: why
Answer: the answer
{OBSERVATIONS}"""

    def render(self, move: Move) -> Reply:
        return read_back(self, move, lambda: Reply("\n".join(f"{label}: {text}" for label, text in self._fields(move).items())))

    def _fields(self, move: Move) -> dict[str, str]:
        if isinstance(move, Act):
            call = _only_call(move)
            return {"Thought": move.thought, "Tool": call.name, "Arguments": _EXACT.encode(call.arguments)}
        answer = _answer(move)
        return {"Thought": answer.thought, "Answer": _answer_text(answer)}

    def answer_so_far(self, text: str, calls: Mapping[str, str]) -> str:
        marks = list(_FIELD.finditer(text))
        first = next((place for place, mark in enumerate(marks) if mark[1] == "Answer"), None)
        if first is None:
            return ""
        end = marks[first + 1].start() if first + 1 < len(marks) else _end_of_fence(text, marks[0].start())
        return without_last_line(text[marks[first].end() : end].strip(), "Thought:", "Tool:", "Arguments:", "Answer:", "```")

    def parse(self, reply: Reply) -> Act | Answer:
        marks = list(_FIELD.finditer(reply.text))
        if not marks:
            raise WireError("The reply must have lines that begin with Thought:, Tool: and Arguments:, or with Answer:")
        ends = [*(mark.start() for mark in marks[1:]), _end_of_fence(reply.text, marks[0].start())]
        fields: dict[str, str] = {}
        for mark, end in zip(marks, ends, strict=True):
            fields.setdefault(mark.group(1), reply.text[mark.end() : end].strip())
        thought, name = fields.get("Thought", ""), fields.get("Tool", "")
        if "Answer" in fields:
            return Answer(thought, _read_answer(fields["Answer"], self.takes_null), instead_of=(name,) if name else ())
        if not name:
            raise BadMove("No Tool: line")
        try:
            arguments = from_json(fields.get("Arguments") or _NULL)
        except ValueError as error:
            raise BadMove(f"Arguments: no JSON - {error}", name) from None
        return Act(thought, (ToolCall(name, _arguments(arguments, name)),))


_FIELD = re.compile(r"^(Thought|Tool|Arguments|Answer):", re.MULTILINE)


def _end_of_fence(text: str, start: int) -> int:
    """Return where the fields end that begin at `start`: at the closing fence, if they stand in one."""
    fenced = re.search(r"^```\w*\n\Z", text[:start], re.MULTILINE)
    closing = text.rfind("\n```") if fenced else -1
    return closing if closing >= start else len(text)


@dataclass(frozen=True, slots=True)
class NativeCallCodec:
    """A native tool call, with the thought as text beside it; text without a call is the answer.

    Cannot say: several calls, an empty tool name, an answer with a thought or a confidence, one that is empty or not text. If it
    `takes_null`, it says an answer of None, and not the text "null".
    """

    takes_null: bool = False
    """Whether the text "null" is an answer of None."""
    name: ClassVar[str] = "bare.native"
    grows_as: ClassVar[str] = "bare.native"
    role: ClassVar[Role] = Role.DECIDE
    max_calls: ClassVar[int] = 1
    task: ClassVar[str] = "You solve tasks step by step with tools, one call at a time."
    typed: ClassVar[str] = "Your answer must be JSON that follows this schema, a string without its quotation marks: "
    form: ClassVar[str] = f"""\
Reply with your answer as plain text when you have it.
{OBSERVATIONS}"""

    def render(self, move: Move) -> Reply:
        if isinstance(move, Act):
            reply = Reply(move.thought, (native_call(_only_call(move)),), None, "tool_calls")
            return read_back(self, move, lambda: reply)
        return read_back(self, move, lambda: Reply(_answer_text(_answer(move))))

    def parse(self, reply: Reply) -> Act | Answer:
        if not reply.calls:
            if not reply.text:
                raise WireError("The reply is empty: call a tool, or answer in text")
            return Answer("", _read_answer(reply.text, self.takes_null))
        if len(reply.calls) > 1:
            raise BadMove("Call one tool at a time")
        call = reply.calls[0]
        if not call.name:
            raise BadMove("No tool name specified")
        try:
            arguments = from_json(call.arguments or _NULL)
        except ValueError as error:
            raise BadMove(f"Invalid JSON in the arguments - {error}", call.name) from None
        return Act(reply.text, (ToolCall(call.name, _arguments(arguments, call.name), call.id),))


CODEC = BareCodec()
FORMATS: Mapping[str, BareCodec | FieldsCodec | NativeCallCodec] = {
    "json": CODEC,
    "fields": FieldsCodec(),
    "native": NativeCallCodec(),
}
INSTRUCTIONS = f"{CODEC.task} {CODEC.form}"


def _only_call(move: Act) -> ToolCall:
    if len(move.calls) != 1:
        raise Inexpressible("exactly one named call")
    return move.calls[0]


def _answer(move: Move) -> Answer:
    if not isinstance(move, Answer):
        raise Inexpressible("it takes an Act or an Answer")
    return move


def _answer_text(answer: Answer) -> str:
    text = _NULL if answer.value is None else answer.value
    if not isinstance(text, str):
        raise Inexpressible("an answer that is no text")
    return text


def _read_answer(text: str, takes_null: bool) -> str | None:
    return None if takes_null and text.strip() == _NULL else text


def _arguments(value: Any, tool_name: str) -> Mapping[str, Any]:
    """Check the arguments: absent ones are empty, anything but an object is an error (row B4-5)."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadMove("arguments must be an object", tool_name)
    return value
