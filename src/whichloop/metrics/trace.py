"""The trace of one trial: who it was, how it ended, and every request, tool run and note in the order in which they happened.

`to_json` gives what a run directory keeps, byte for byte; `Trace.from_json` is the one reader, and checks every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, NamedTuple

from pydantic import Field, PlainValidator

from whichloop.protocol import Message, render_value
from whichloop.protocol.chat import NativeCall
from whichloop.protocol.receipts import strip_receipts
from whichloop.protocol.tool_calls import NEVER_RAN
from whichloop.protocol.values import canonical

from .record import Amount, Count, Text, read_as

UNTOLD = "untold"
"""Status of a tool's run in an imported trace that does not say whether the run failed: it is taken as one that gave a result."""
GARBAGE = "tool.garbage"
"""Kind of a fault after which a tool's status says success, and nothing came."""


class TraceError(ValueError):
    """What was read is not a trace; the message names the first event and field that is wrong."""


@dataclass(frozen=True)
class TracedCall:
    """A tool and its arguments."""

    tool: str
    arguments: Any

    @cached_property
    def key(self) -> str:
        """Equal for equal calls, in whatever order the arguments were given."""
        return canonical([self.tool, self.arguments])

    @classmethod
    def from_json(cls, data: object, name: str) -> TracedCall:
        """Read a call. `name`: what the tool's name is called. Raises ValueError."""
        if not isinstance(data, Mapping) or type(data.get(name)) is not str:
            raise ValueError(f"{name} of a call is not a text")
        return cls(data[name], data.get("arguments"))


class RequestError(NamedTuple):
    """A failure that came in a reply's place."""

    kind: Text
    message: Text = ""


def _message(data: object) -> Message:
    if not isinstance(data, Mapping):
        raise ValueError("a message is not an object")
    return Message.from_dict(data)


@dataclass(frozen=True)
class ModelExchange:
    """A request to the model and what came of it: a reply, or an error."""

    role: Text
    scope: Text = ""
    same: Count = 0
    """How many messages the last request of this role and scope has shown already."""
    messages: tuple[Annotated[Message, PlainValidator(_message)], ...] = ()
    """The others."""
    tool_choice: Text | None = None
    illegible: tuple[Text, ...] = ()
    """Receipts, CALL.CONTENT, that the prompt shows without the values that a scripted model's plan uses of their results."""
    fault: Text = ""
    """Kind of the fault that the reply suffered; empty: none."""
    seconds: Amount = 0.0
    """How long it took; 0 if under a millisecond."""
    failed_attempts: tuple[Text, ...] = ()
    """Kinds of the provider's failures that were overcome, or tried to be, by sending it again."""
    reply: Text | None = None
    """The reply's text; None: an error came in its place."""
    native_calls: Annotated[tuple[NativeCall, ...], Field(validation_alias="calls")] = ()
    """The reply's own tool calls."""
    tokens: tuple[Count, Count] | None = None
    """Input and output."""
    wire_error: Text | None = None
    """Why the codec could not read the reply; None: it could."""
    move: Mapping[str, Any] | None = None
    """What the codec read, as plain JSON with its kind under `move`; None: nothing."""
    error: RequestError | None = None
    number: int = field(default=0, compare=False)
    """1-based among the trial's requests, as `whichloop show` counts them; the reader counts, the JSON does not hold it."""

    @cached_property
    def move_kind(self) -> str:
        """`act`, `answer`, `text`, …; empty if no move was read."""
        return read_as(str, self.move.get("move")) if self.move else ""

    @cached_property
    def calls(self) -> tuple[TracedCall, ...]:
        """The tool calls of an act."""
        if self.move is None or self.move_kind != "act":
            return ()
        return tuple(TracedCall.from_json(call, "name") for call in read_as(list[Any], self.move.get("calls")))

    @property
    def value(self) -> Any:
        """What an answer states."""
        return None if self.move is None else self.move.get("value")

    @property
    def texts(self) -> tuple[str, ...]:
        """The new messages as text, their native calls included."""
        return tuple(_with_calls(message.content, message.calls) for message in self.messages)

    @property
    def reply_text(self) -> str:
        """The reply as it came, its native calls below its text."""
        return _with_calls(self.reply or "", self.native_calls).strip("\n")

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; what is not known is left out."""
        told: dict[str, Any] = {"event": "ask"}
        for name, default in _DEFAULTS:
            value = getattr(self, name)
            if name in ("role", "same", "messages") or value != default:
                told[name] = list(value) if isinstance(value, tuple) else value
        told["messages"] = [message.as_dict() for message in self.messages]
        if self.error is not None:
            told["error"] = self.error._asdict()
        if not self.native_calls:
            return told
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in self.native_calls]
        return {"calls" if name == "native_calls" else name: calls if name == "native_calls" else told[name] for name in told}

    @classmethod
    def from_json(cls, event: Mapping[str, object], number: int = 0) -> ModelExchange:
        """Read the JSON. Raises ValueError that names the field that is wrong."""
        exchange = read_as(cls, {**event, "number": number})
        _ = exchange.calls  # reads the move
        return exchange


_DEFAULTS = tuple((item.name, item.default) for item in fields(ModelExchange) if item.name != "number")


@dataclass(frozen=True)  # no slots, so that the result is cached
class ToolRun:
    """One run of a tool, and what the loop got of it."""

    call: TracedCall
    status: Text
    data: Text = ""
    error_type: Text | None = None
    fault: Text = ""
    """Kind of the fault that the run suffered; empty: none."""

    @property
    def ok(self) -> bool:
        return self.status in ("success", UNTOLD)

    @property
    def never_ran(self) -> bool:
        return self.error_type in NEVER_RAN

    @property
    def gave_result(self) -> bool:
        """Whether it gave a result: a fault may leave a success with nothing in it."""
        return self.ok and self.fault != GARBAGE

    @cached_property
    def result(self) -> str:
        """What the tool gave, without a scripted run's receipt."""
        return strip_receipts(self.data)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        fields = {"event": "tool", "tool": self.call.tool, "arguments": self.call.arguments, "status": self.status}
        if self.error_type is not None:
            fields["error_type"] = self.error_type
        fields["data"] = self.data
        if self.fault:
            fields["fault"] = self.fault
        return fields

    @classmethod
    def from_json(cls, event: Mapping[str, object]) -> ToolRun:
        """Read the JSON. Raises ValueError that names the field that is wrong."""
        return read_as(cls, {**event, "call": TracedCall.from_json(event, "tool")})


@dataclass(frozen=True, slots=True)
class Note:
    """What the loop says of itself."""

    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {**self.data, "event": "note", "kind": self.kind}

    @classmethod
    def from_json(cls, event: Mapping[str, object]) -> Note:
        """Read a note. An event that this version does not know is a note that the word in its place is the kind of."""
        kind = event.get("kind") if event.get("event") == "note" else event.get("event")
        return cls(render_value(kind), {name: value for name, value in event.items() if name not in ("event", "kind")})


TraceEvent = ModelExchange | ToolRun | Note


@dataclass(frozen=True, slots=True)
class TraceHead:
    """Which trial it was, and how it ended."""

    arm: Text = ""
    task: Text = ""
    repeat: Count = 0
    query: Text = ""
    expected: Any = None
    end_state: Mapping[str, Any] | None = None
    """The environment's end state under `found`, and what was expected of it; None if no score depends on it."""
    answer: Any = None
    stop: Text | None = None
    status: Text = ""
    reason: Text = ""
    scores: Mapping[str, Any] = field(default_factory=dict)
    details: Any = None
    """What the loop reports about itself."""
    untold: tuple[Text, ...] = ()
    """Families of faults, such as `wire`, that an imported trace cannot show: its source does not keep what they are seen by."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, what names the trial first."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        if self.end_state is None:
            del fields["end_state"]
        untold = list(fields.pop("untold"))
        return fields | {"untold": untold} if untold else fields


NO_CONTENT = "the trace holds no content: requests were recorded without what they said"
"""What is said in the place of the steps of an imported trace whose source recorded no texts."""


@dataclass(frozen=True, slots=True)
class Trace:
    """All of one trial."""

    head: TraceHead
    events: tuple[TraceEvent, ...]

    @property
    def lacks_content(self) -> bool:
        """Whether it tells that requests were made and nothing else: no question, text, call or answer, and no failure."""
        is_told = self.head.query != "" or self.head.answer is not None or any(map(_says_something, self.events))
        return bool(self.events) and not is_told

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; `from_json` reads it back."""
        return self.head.to_json() | {"events": [event.to_json() for event in self.events]}

    @classmethod
    def from_json(cls, data: Any) -> Trace:
        """Read a trace. Raises TraceError that names the first thing in it that is wrong."""
        listed = data.get("events") if isinstance(data, Mapping) else None
        if not isinstance(listed, list):
            raise TraceError("the trace has no list of events")
        try:
            head = read_as(TraceHead, data)
        except ValueError as error:
            raise TraceError(f"the trace's {error}") from None
        events: list[TraceEvent] = []
        requests = 0
        for place, event in enumerate(listed):
            if not isinstance(event, Mapping):
                raise TraceError(f"event {place} of the trace is not an object")
            try:
                if event.get("event") == "ask":
                    requests += 1
                    events.append(ModelExchange.from_json(event, requests))
                else:
                    events.append(ToolRun.from_json(event) if event.get("event") == "tool" else Note.from_json(event))
            except ValueError as error:
                raise TraceError(f"event {place} of the trace: {error}") from None
        return cls(head, tuple(events))


def _says_something(event: TraceEvent) -> bool:
    if not isinstance(event, ModelExchange):
        return True
    return bool(event.reply_text or event.error or event.wire_error or any(event.texts))


def _with_calls(text: str, calls: tuple[NativeCall, ...]) -> str:
    return "\n".join([text, *(f"{call.name} {call.arguments}" for call in calls)])
