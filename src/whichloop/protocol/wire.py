"""A loop's own wire format: strict JSON for codecs, in which a value comes back unchanged; and the predictors that ask in it, what
each of their requests begins with, and how it is asked.

Loops on DSPy render demonstrations in DSPy's format (`whichloop.dspy_seam.ask`). In the others, a demonstration is a conversation:
a field of JSON, which is shown as turns.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol, TypeVar

from .chat import Message, MessageRole, NativeCall, Reply
from .json_text import Json
from .json_text import from_json as from_json
from .model import Model, Request
from .moves import Act, Codec, Inexpressible, Move, Recovery, Role, WireError
from .program import Demo, Prompt, Prompted
from .tool_calls import ToolCall


def to_json(value: object) -> str:
    """Write JSON. Raises Inexpressible for a value that would not come back the same: NaN, tuples, objects, keys of other types."""
    try:
        text = _ENCODER.encode(value)
        same = from_json(text) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise Inexpressible(f"no JSON: {error}") from None
    if not same:
        raise Inexpressible("a value that JSON does not give back as it was")
    return text


def read_object(text: str) -> dict[str, Any]:
    """Read a reply that is one JSON object. Raises WireError for anything else."""
    try:
        data = from_json(text)
    except ValueError as error:
        raise WireError(f"The reply is no JSON: {error}") from None
    if not isinstance(data, dict):
        raise WireError("The reply must be one JSON object")
    return data


def read_back(codec: Codec, move: Move, write: Callable[[], Reply]) -> Reply:
    """Return the reply that `write` makes of a move. Raises Inexpressible where the codec does not read it as that move."""
    try:
        reply = write()
        same = codec.parse(reply) == move
    except (WireError, TypeError, ValueError, RecursionError) as error:
        raise Inexpressible(str(error)) from None
    if not same:
        raise Inexpressible("a move that the format does not give back as it was")
    return reply


def native_call(call: ToolCall, place: int = 0) -> NativeCall:
    """Return a call in a provider's form. `place`: 0-based, among the reply's calls. Raises Inexpressible as `to_json` does."""
    try:
        return NativeCall(f"call_{place}", call.name, to_json(dict(call.arguments)))
    except Inexpressible as error:
        raise Inexpressible(f"arguments: {error}") from None


def read_call(call: NativeCall) -> ToolCall:
    """Read a call; empty arguments are an empty object. Raises WireError for arguments that are not a JSON object."""
    try:
        arguments = from_json(call.arguments or "{}")
    except ValueError as error:
        raise WireError(f"The arguments of {call.name} are no JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise WireError(f"The arguments of {call.name} must be a JSON object")
    return ToolCall(call.name, arguments, call.id)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def calls_in(move: Move | None) -> tuple[ToolCall, ...]:
    """Return the calls that a move makes, or asks to make again."""
    if isinstance(move, Act):
        return move.calls
    return (move.call,) if isinstance(move, Recovery) and move.call is not None else ()


# --- the text of an answer in a reply that is still coming ---
# A codec that says where its format holds it has `answer_so_far(text, calls)`: the reply's text and the arguments of its calls by
# name, as far as they have come, give the answer's text as far as it has come. What comes later only adds to it.


def json_text(text: str, name: str) -> str:
    """Return the text of a property in JSON that may be cut off; empty where there is none yet, or something else."""
    try:
        value = import_module("pydantic_core").from_json(text, allow_partial="trailing-strings")  # only a stream needs pydantic
    except ValueError:
        return ""
    answer = value.get(name) if isinstance(value, dict) else None
    return answer if isinstance(answer, str) else ""


def section(text: str, name: str) -> str:
    """Return what a section of DSPy's chat format holds; a last line that may become the next header is left out."""
    _, header, content = f"\n{text}".partition(f"\n[[ ## {name} ## ]]")
    return without_last_line(content.partition("\n[[ ##")[0].strip(), "[[ ## ") if header else ""


def without_last_line(text: str, *beginnings: str) -> str:
    """Return a text without a last line that is the beginning of one of these: what comes next decides what it is."""
    rest, _, last = text.rpartition("\n")
    return rest.rstrip() if last and any(beginning.startswith(last) for beginning in beginnings) else text


# --- predictors ---

CONVERSATION = "conversation"
"""The one input field of such a predictor: all messages after the system text, as JSON."""
EXAMPLES = "Examples of questions and their answers; the steps between are left out:"
NOT_SHOWN = "(What came of this call is not part of the example.)"

MoveT = TypeVar("MoveT", covariant=True)


class ReadsMoves(Protocol[MoveT]):
    """The half of a codec that reads."""

    @property
    def role(self) -> Role: ...

    def parse(self, reply: Reply) -> MoveT:
        """Raises WireError."""


@dataclass(frozen=True)
class Predictor:
    """One kind of request of a loop."""

    name: str
    prompt: Prompt

    @cached_property
    def shown(self) -> OwnPrompt:
        """The prompt as it is shown; read on first use, as few runs ask all predictors and demonstrations may be many."""
        return in_own_format(self.prompt)

    def opening(self, system: str | None) -> tuple[Message, ...]:
        """Return what requests begin with: a system message, if any, and the demonstrations."""
        return self.shown.turns if system is None else (Message("system", system), *self.shown.turns)

    def request(self, opening: Sequence[Message], messages: Sequence[Message], codec: Any, **rest: Any) -> Request:
        """Return a request whose reply `codec` reads. `messages`: those after the opening. `rest`: its further fields."""
        (output,) = self.prompt.outputs
        asked = tuple(messages)
        return Request(
            (*opening, *asked),
            role=codec.role,
            codec=codec,
            examples=len(self.shown.turns),
            prompted=Prompted(
                self.name, lambda: {CONVERSATION: conversation_text(asked)}, lambda reply: {output: reply_text(reply)}
            ),
            **rest,
        )

    async def ask(
        self,
        model: Model,
        codec: ReadsMoves[MoveT],
        opening: Sequence[Message],
        messages: Sequence[Message],
        *,
        complete: Callable[[Request], Awaitable[Reply]] | None = None,
        **rest: Any,
    ) -> tuple[MoveT, Reply]:
        """Return the move in the model's reply, and the reply. `complete`: asks in the place of `model.complete`.

        Raises WireError, whose `reply` is the one that cannot be read, ModelError where there is none, and BudgetExceeded.
        """
        try:
            reply = await (complete or model.complete)(self.request(opening, messages, codec, **rest))
        except WireError as error:  # a bug of the model's: there is no reply that a loop could keep
            raise RuntimeError(f"the model raised WireError, which is for codecs: {error}") from error
        try:
            return codec.parse(reply), reply
        except WireError as error:
            error.reply = reply
            raise


def own_prompt(instructions: str, output: str, demos: Sequence[Demo] = ()) -> Prompt:
    """Return a predictor in the loop's own wire format: a conversation in, `output` (the reply as text) out."""
    return Prompt(instructions, {CONVERSATION: str}, {output: str}, tuple(demos))


@dataclass(frozen=True, slots=True)
class OwnPrompt:
    """A predictor's state in the loop's own wire format."""

    text: str
    """The instructions, and the labelled examples below them."""
    turns: tuple[Message, ...]
    """The whole demonstrations, as turns of a conversation; they follow the system message."""


def in_own_format(prompt: Prompt) -> OwnPrompt:
    """Return what the requests of a predictor in the loop's own wire format begin with."""
    whole = [demo for demo in prompt.demos if prompt.is_whole(demo)]
    labelled = [text for demo in prompt.demos if not prompt.is_whole(demo) and (text := _labelled(demo))]
    (output,) = prompt.outputs
    turns = [
        turn
        for place, demo in enumerate(whole)
        for turn in _turns(str(demo.get(CONVERSATION, "")), str(demo[output]), f"example_{place}_")
    ]
    text = "\n\n".join([prompt.instructions, EXAMPLES, *labelled]) if labelled else prompt.instructions
    return OwnPrompt(text, tuple(turns))


def conversation_text(messages: Sequence[Message]) -> str:
    """Return messages as one JSON text, which `_turns` reads."""
    return json.dumps([_message_data(message) for message in messages], ensure_ascii=False)


def reply_text(reply: Reply) -> str:
    """Return a reply as text: unchanged, or as an object of `text` and `calls` if it has native calls."""
    if not reply.calls:
        return reply.text
    return json.dumps({"text": reply.text, "calls": [_call_data(call) for call in reply.calls]}, ensure_ascii=False)


def _message_data(message: Message) -> dict[str, Json]:
    data: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        data["calls"] = [{"id": call.id, **_call_data(call)} for call in message.calls]
    if message.role == "tool":
        data["call_id"] = message.call_id
    return data


def _call_data(call: NativeCall) -> dict[str, str]:
    return {"name": call.name, "arguments": call.arguments}


def _turns(conversation: str, text_of_reply: str, prefix: str) -> list[Message]:
    """Return a demonstration as messages; call ids begin with `prefix`, so that they are unique in the request.

    A text that is not a conversation, such as one that was cut, becomes one user message.
    """
    messages = _messages(conversation, prefix)
    if messages is None:
        messages = [Message("user", conversation)]
    reply = _reply_message(text_of_reply, f"{prefix}said_")
    unanswered = [Message("tool", NOT_SHOWN, call_id=call.id) for call in reply.calls]  # providers want every call answered
    return [*messages, reply, *unanswered]


def _messages(conversation: str, prefix: str) -> list[Message] | None:
    try:
        data = json.loads(conversation)
        return _numbered(data, prefix) if isinstance(data, list) and data else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


_ROLES: Mapping[str, MessageRole] = {"user": "user", "assistant": "assistant", "tool": "tool", "system": "system"}


def _numbered(items: Sequence[Any], prefix: str) -> list[Message]:
    """Return messages with numbered calls: providers differ in what an id may look like, and how long it may be.

    Raises TypeError, KeyError or ValueError for an item that is not a message, and for a call or a result without the other.
    """
    messages: list[Message] = []
    waiting: list[tuple[object, str]] = []  # old and new ids of calls
    count = 0
    for item in items:
        role, content = _ROLES[item["role"]], str(item["content"])
        if role == "tool":
            place = [was for was, _ in waiting].index(item["call_id"])
            messages.append(Message(role, content, call_id=waiting.pop(place)[1]))
            continue
        if waiting:
            raise ValueError("a call without its result")
        call_items = item.get("calls", ())
        calls = tuple(
            NativeCall(f"{prefix}{n}", str(call["name"]), str(call["arguments"])) for n, call in enumerate(call_items, count)
        )
        waiting = [(call["id"], made_call.id) for call, made_call in zip(call_items, calls, strict=True)]
        count += len(calls)
        messages.append(Message(role, content, calls))
    if waiting:
        raise ValueError("a call without its result")
    return messages


def _reply_message(text: str, prefix: str) -> Message:
    try:
        data = json.loads(text)
        if isinstance(data, dict) and data.keys() == {"text", "calls"}:
            calls = tuple(
                NativeCall(f"{prefix}{place}", str(call["name"]), str(call["arguments"]))
                for place, call in enumerate(data["calls"])
            )
            return Message("assistant", str(data["text"]), calls)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    return Message("assistant", text)


def _labelled(demo: Demo) -> str:
    """Return question and answer of a labelled example as text; empty if it lacks them."""
    if "query" not in demo or "answer" not in demo:
        return ""
    answer = demo["answer"]
    return f"Question: {demo['query']}\nAnswer: {answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)}"
