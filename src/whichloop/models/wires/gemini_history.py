"""The contents of a Gemini request as messages, and what the API refuses in a conversation with calls (sources: docs/serve.md)."""

from __future__ import annotations

import base64
import binascii
import json
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from whichloop.protocol import Message, NativeCall
from whichloop.protocol.moves import Inexpressible
from whichloop.protocol.wire import to_json

from .fields import BadRequest
from .gemini_fields import (
    MAX_SHOWN,
    broken_rule,
    flag,
    inner_message,
    inside,
    invalid_value,
    items,
    message,
    message_type,
    struct,
    text,
)
from .openai_fields import normalized_arguments

CONTENT = message_type("Content", "role parts")
PART = message_type(
    "Part",
    "text inlineData functionCall functionResponse fileData executableCode codeExecutionResult thought thoughtSignature"
    " videoMetadata partMetadata mediaResolution toolCall toolResponse",
)
CALL = message_type("FunctionCall", "id name args partialArgs willContinue")
ANSWER = message_type("FunctionResponse", "id name response parts willContinue scheduling")

_DATA = ("text", "functionCall", "functionResponse")
_OTHER_DATA = ("inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse")
_ROLES = frozenset({"", "user", "model"})
"""A content without a role is the user's."""
_RESULT_KEYS = ("result", "output", "content")
"""Under one of these clients put a result that is no object: google-genai, Google's documentation, LiteLLM and the AI SDK."""

VALID_ROLES = "Please use a valid role: SYSTEM, SYSTEM_1, USER, ASSISTANT, DEVELOPER, CONTEXT, USER_CONTEXT, MODEL, USER."
MIXED = (
    "Please ensure that function call turn contains at least one function_call part which can not be mixed with function_response"
    " parts."
)
CALL_ORDER = "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
ANSWER_ORDER = "Please ensure that function response turn comes immediately after a function call turn."
ANSWER_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the function call"
    " turn."
)


def signature(call_id: str) -> str:
    """Return the signature of a call, which holds its id: some clients send back the signature only."""
    return base64.b64encode(_SIGNED_BY + call_id.encode("utf-8", "surrogatepass")).decode("ascii")


def _signed_id(value: str) -> str:
    """Return the id in a signature of ours, in either alphabet of base64 and padded or not; empty for any other."""
    standard = value.translate(_STANDARD_ALPHABET).rstrip("=")
    try:
        signed = base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
        return signed.removeprefix(_SIGNED_BY).decode("utf-8") if signed.startswith(_SIGNED_BY) else ""
    except (binascii.Error, ValueError):
        return ""


_SIGNED_BY = b"whichloop:"
"""How a signature of ours begins; those of Google's models are in base64 too."""
_STANDARD_ALPHABET = str.maketrans("-_", "+/")


# --- parts ---


class _Answer(NamedTuple):
    """A `functionResponse`."""

    call_id: str
    name: str
    text: str


@dataclass(slots=True)
class _Turn:
    """What the parts of one content say."""

    is_model: bool
    texts: list[str] = field(default_factory=list)
    calls: list[NativeCall] = field(default_factory=list)
    answers: list[_Answer] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def kind(self) -> Literal["model", "user", "call", "answer"]:
        if self.calls:
            return "call"
        if self.answers:
            return "answer"
        return "model" if self.is_model else "user"


def _turn(item: object, where: str, calls_before: int) -> _Turn:
    """Read a content. `calls_before`: how many calls the conversation has before it."""
    data = message(item, where, CONTENT)
    role = text(data, "role", where)
    if role not in _ROLES:
        raise BadRequest(f"Role '{role[:MAX_SHOWN]}' is not supported. {VALID_ROLES}", inside(where, "role"))
    parts = items(data, "parts", where)
    if not parts:
        raise broken_rule(inside(where, "parts"), "contents.parts must not be empty.")
    turn = _Turn(role == "model")
    for part, place in parts:
        _add_part(turn, message(part, place, PART), place, calls_before)
    if turn.calls and turn.answers:
        raise BadRequest(MIXED, where)
    return turn


def _add_part(turn: _Turn, data: Mapping[str, object], where: str, calls_before: int) -> None:
    data_fields = [name for name in (*_DATA, *_OTHER_DATA) if name in data]
    if not data_fields:
        raise broken_rule(f"{where}.data", "required oneof field 'data' must have one initialized field")
    if len(data_fields) > 1:
        said = f"oneof field 'data' is already set. Cannot set '{data_fields[1]}'"
        raise BadRequest(f"Invalid value at '{where}' (oneof), {said}", where)
    if data_fields[0] in _OTHER_DATA:
        raise broken_rule(inside(where, data_fields[0]), "this model reads and writes text and function calls only.")
    if "text" in data:
        said = text(data, "text", where)
        if not flag(data, "thought", where):
            turn.texts.append(said)
    elif "functionCall" in data:
        turn.calls.append(_call(data, where, calls_before + len(turn.calls)))
    else:
        turn.answers.append(_answer(data, where))


def _call(data: Mapping[str, Any], where: str, number: int) -> NativeCall:
    """Read a call. `number`: 0-based, in the conversation: the model numbers its calls, and its client may drop their ids."""
    call, place = inner_message(data, "functionCall", where, CALL) or {}, inside(where, "functionCall")
    name = text(call, "name", place)
    if not name:
        raise broken_rule(inside(place, "name"), "Name cannot be empty.")
    call_id = text(call, "id", place) or _signed_id(text(data, "thoughtSignature", where)) or f"call_{number}"
    return NativeCall(call_id, name, normalized_arguments(_json(struct(call, "args", place), inside(place, "args"))))


def _answer(data: Mapping[str, object], where: str) -> _Answer:
    answer, place = inner_message(data, "functionResponse", where, ANSWER) or {}, inside(where, "functionResponse")
    name = text(answer, "name", place)
    if not name:
        raise broken_rule(inside(place, "name"), "Name cannot be empty.")
    if answer.get("parts"):
        raise broken_rule(inside(place, "parts"), "this model reads text only.")
    result = _result(struct(answer, "response", place), name)
    result_text = result if isinstance(result, str) else _json(result, inside(place, "response"))
    return _Answer(text(answer, "id", place), name, result_text)


def _result(response: Mapping[str, object], name: str) -> object:
    """Return what a client has wrapped into an object, because the API takes nothing else; any other object as it is."""
    inner = [key for key in response if key != "name" or response[key] != name]
    return response[inner[0]] if len(inner) == 1 and inner[0] in _RESULT_KEYS else response


def _json(value: object, where: str) -> str:
    try:
        return to_json(value)
    except Inexpressible:
        raise invalid_value(where, "Struct", json.dumps(value)) from None


# --- the conversation ---


def read_contents(data: Mapping[str, object], where: str) -> list[Message]:
    """Return the messages of a conversation. Raises BadRequest.

    Every call is answered in the content right after it. An answer names its call by the id, else by the function's name, in order.
    """
    contents = items(data, "contents", where)
    if not contents:
        raise broken_rule(inside(where, "contents"), "contents is not specified")
    messages: list[Message] = []
    before, waiting, number = "", list[NativeCall](), 0
    for item, place in contents:
        turn = _turn(item, place, number)
        _check_order(turn, before, len(waiting), place)
        messages += _messages(turn, waiting)
        waiting, before = turn.calls, turn.kind
        number += len(turn.calls)
    if waiting:
        raise BadRequest(ANSWER_COUNT, inside(where, "contents"))
    return messages


def _check_order(turn: _Turn, before: str, waiting: int, where: str) -> None:
    """Check that a turn may follow what is before it. `waiting`: the calls that it has to answer."""
    if turn.answers and before != "call":
        raise BadRequest(ANSWER_ORDER, where)
    if len(turn.answers) != waiting:
        raise BadRequest(ANSWER_COUNT, where)
    if turn.calls and before not in ("user", "answer"):
        raise BadRequest(CALL_ORDER, where)


def _messages(turn: _Turn, waiting: list[NativeCall]) -> list[Message]:
    if turn.calls or turn.is_model:
        return [Message("assistant", turn.text, tuple(turn.calls))]
    messages = [Message("tool", answer.text, call_id=call_id) for answer, call_id in _answered(turn.answers, waiting)]
    return [*messages, Message("user", turn.text)] if turn.text or not messages else messages


_SHARED: Sequence[tuple[Callable[[_Answer], str], Callable[[NativeCall], str]]] = (
    (lambda answer: answer.call_id, lambda call: call.id),
    (lambda answer: answer.name, lambda call: call.name),
    (lambda answer: "", lambda call: ""),
)
"""What an answer and its call have in common; the first of these counts most, and the last is nothing but their order."""


def _answered(answers: list[_Answer], waiting: list[NativeCall]) -> list[tuple[_Answer, str]]:
    """Return each answer with the id of its call; there are as many of the one as of the other."""
    unanswered, call_ids = dict(enumerate(waiting)), dict[int, str]()
    for of_answer, of_call in _SHARED:
        ready: dict[str, deque[int]] = defaultdict(deque)
        for number, call in unanswered.items():
            ready[of_call(call)].append(number)
        for place, answer in enumerate(answers):
            if place not in call_ids and (fitting := ready.get(of_answer(answer))):
                call_ids[place] = unanswered.pop(fitting.popleft()).id
    return [(answer, call_ids[place]) for place, answer in enumerate(answers)]


def system_text(data: Mapping[str, object], where: str) -> str:
    """Return the text of the instruction for the system, empty if there is none."""
    instruction = inner_message(data, "systemInstruction", where, CONTENT)
    if instruction is None:
        return ""
    place = inside(where, "systemInstruction")
    read = [(message(part, inner, PART), inner) for part, inner in items(instruction, "parts", place)]
    for part, inner in read:
        if "text" not in part:
            raise broken_rule(inner, "a system instruction has text only.")
    return "".join(text(part, "text", inner) for part, inner in read)
