"""The trace of one trial: who it was, how it ended, and every request, tool run and note in the order in which they happened.

`to_json` gives what a run directory keeps, byte for byte; `Trace.from_json` is the one reader, and checks every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, get_args

from whichloop.protocol import Message, render_value
from whichloop.protocol.chat import MessageRole, NativeCall
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.json_text import Json
from whichloop.protocol.receipts import strip_receipts
from whichloop.protocol.tool_calls import NEVER_RAN

from .record import MAX_COUNT

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


class RequestError(NamedTuple):
    """A failure that came in a reply's place."""

    kind: str
    message: str


@dataclass(frozen=True)
class ModelExchange:
    """A request to the model and what came of it: a reply, or an error."""

    role: str
    same: int = 0
    """How many messages the last request of this role and scope has shown already."""
    messages: tuple[Message, ...] = ()
    """The others."""
    scope: str = ""
    tool_choice: str | None = None
    illegible: tuple[str, ...] = ()
    """Receipts, CALL.CONTENT, that the prompt shows without the values that a scripted model's plan uses of their results."""
    fault: str = ""
    """Kind of the fault that the reply suffered; empty: none."""
    seconds: float = 0.0
    """How long it took; 0 if under a millisecond."""
    failed_attempts: tuple[str, ...] = ()
    """Kinds of the provider's failures that were overcome, or tried to be, by sending it again."""
    reply: str | None = None
    """The reply's text; None: an error came in its place."""
    native_calls: tuple[NativeCall, ...] = ()
    """The reply's own tool calls."""
    tokens: tuple[int, int] | None = None
    """Input and output."""
    wire_error: str | None = None
    """Why the codec could not read the reply; None: it could."""
    move: Mapping[str, Any] | None = None
    """What the codec read, as plain JSON with its kind under `move`; None: nothing."""
    error: RequestError | None = None
    number: int = field(default=0, compare=False)
    """1-based among the trial's requests, as `whichloop show` counts them; the reader counts, the JSON does not hold it."""

    @cached_property
    def move_kind(self) -> str:
        """`act`, `answer`, `text`, …; empty if no move was read."""
        return str(_get(self.move, "move", str)) if self.move else ""

    @cached_property
    def calls(self) -> tuple[TracedCall, ...]:
        """The tool calls of an act."""
        if self.move is None or self.move_kind != "act":
            return ()
        return tuple(TracedCall(_get(call, "name", str), call.get("arguments")) for call in _objects(self.move, "calls", "a call"))

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
        fields: dict[str, object] = {"event": "ask", "role": self.role}
        if self.scope:
            fields["scope"] = self.scope
        fields["same"] = self.same
        fields["messages"] = [message.as_dict() for message in self.messages]
        if self.tool_choice is not None:
            fields["tool_choice"] = self.tool_choice
        if self.illegible:
            fields["illegible"] = list(self.illegible)
        if self.fault:
            fields["fault"] = self.fault
        if self.seconds:
            fields["seconds"] = self.seconds
        if self.failed_attempts:
            fields["failed_attempts"] = list(self.failed_attempts)
        if self.reply is not None:
            fields["reply"] = self.reply
        if self.native_calls:
            fields["calls"] = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in self.native_calls]
        if self.tokens is not None:
            fields["tokens"] = list(self.tokens)
        if self.wire_error is not None:
            fields["wire_error"] = self.wire_error
        if self.move is not None:
            fields["move"] = self.move
        if self.error is not None:
            fields["error"] = self.error._asdict()
        return fields

    @classmethod
    def from_json(cls, event: Mapping[str, object], number: int = 0) -> ModelExchange:
        """Read the JSON. Raises ValueError that names the field that is wrong."""
        error = _optional(event, "error", Mapping)
        exchange = cls(
            role=_get(event, "role", str),
            same=_get(event, "same", int, 0),
            messages=tuple(_message(message) for message in _objects(event, "messages", "a message")),
            scope=_get(event, "scope", str, ""),
            tool_choice=_optional(event, "tool_choice", str),
            illegible=_texts(event, "illegible"),
            fault=_get(event, "fault", str, ""),
            seconds=_seconds(event),
            failed_attempts=_texts(event, "failed_attempts"),
            reply=_optional(event, "reply", str),
            native_calls=tuple(_native(call) for call in _objects(event, "calls", "a native call", needed=False)),
            tokens=_tokens(event),
            wire_error=_optional(event, "wire_error", str),
            move=_optional(event, "move", Mapping),
            error=None if error is None else RequestError(_get(error, "kind", str), _get(error, "message", str, "")),
            number=number,
        )
        _ = exchange.calls  # reads the move
        return exchange


@dataclass(frozen=True)  # no slots, so that the result is cached
class ToolRun:
    """One run of a tool, and what the loop got of it."""

    call: TracedCall
    status: str
    data: str
    error_type: str | None = None
    fault: str = ""
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
        return cls(
            call=TracedCall(_get(event, "tool", str), event.get("arguments")),
            status=_get(event, "status", str),
            data=_get(event, "data", str, ""),
            error_type=_optional(event, "error_type", str),
            fault=_get(event, "fault", str, ""),
        )


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

    arm: str = ""
    task: str = ""
    repeat: int = 0
    query: str = ""
    expected: Any = None
    end_state: Mapping[str, Any] | None = None
    """The environment's end state under `found`, and what was expected of it; None if no score depends on it."""
    answer: Any = None
    stop: str | None = None
    status: str = ""
    reason: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    details: Any = None
    """What the loop reports about itself."""
    untold: tuple[str, ...] = ()
    """Families of faults, such as `wire`, that an imported trace cannot show: its source does not keep what they are seen by."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, what names the trial first."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        if self.end_state is None:
            del fields["end_state"]
        untold = list(fields.pop("untold"))
        return fields | {"untold": untold} if untold else fields

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> TraceHead:
        """Read the JSON. Raises ValueError that names the field that is wrong."""
        return cls(
            arm=_get(data, "arm", str, ""),
            task=_get(data, "task", str, ""),
            repeat=_get(data, "repeat", int, 0),
            query=_get(data, "query", str, ""),
            expected=data.get("expected"),
            end_state=_optional(data, "end_state", Mapping),
            answer=data.get("answer"),
            stop=_optional(data, "stop", str),
            status=_get(data, "status", str, ""),
            reason=_get(data, "reason", str, ""),
            scores=_get(data, "scores", Mapping, {}),
            details=data.get("details"),
            untold=_texts(data, "untold"),
        )


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
            head = TraceHead.from_json(data)
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


def canonical(value: object) -> str:
    """Return canonical JSON; what JSON cannot say, as text."""
    try:
        return canonical_json(value)
    except (TypeError, ValueError, RecursionError):  # NaN, a depth that is read but not written
        return render_value(value)


# --- fields ---


_ROLES: tuple[str, ...] = get_args(MessageRole)
_KINDS: Mapping[Any, str] = {str: "text", int: "a whole number", float: "a number", list: "a list", Mapping: "an object"}


def _get(data: Mapping[str, Any], name: str, kind: Any, default: Any = None) -> Any:
    value = data.get(name, default)
    if (type(value) is kind and kind is not int) or (kind is Mapping and type(value) is dict):  # nearly always
        return value
    if not isinstance(value, (int, float) if kind is float else kind) or isinstance(value, bool):
        raise ValueError(f"{name} is {f'not {_KINDS[kind]}' if name in data else 'missing'}")
    if kind is int and not 0 <= value <= MAX_COUNT:
        raise ValueError(f"{name} is not a whole number from 0 to {MAX_COUNT:.0e}")
    return value


def _optional(data: Mapping[str, object], name: str, kind: object) -> Any:
    return None if data.get(name) is None else _get(data, name, kind)


def _objects(data: Mapping[str, object], name: str, what: str, *, needed: bool = True) -> list[Mapping[str, Json]]:
    if not needed and name not in data:
        return []
    listed: list[Mapping[str, Any]] = _get(data, name, list)
    for item in listed:
        if type(item) is not dict and not isinstance(item, Mapping):  # `isinstance` with Mapping takes long
            raise ValueError(f"{what} is not an object")
    return listed


def _texts(data: Mapping[str, object], name: str) -> tuple[str, ...]:
    if name not in data:
        return ()
    listed = _get(data, name, list)
    if not all(isinstance(item, str) for item in listed):
        raise ValueError(f"{name} is not a list of texts")
    return tuple(listed)


def _seconds(event: Mapping[str, object]) -> float:
    value: float = _get(event, "seconds", float, 0.0)
    if not 0 <= value <= MAX_COUNT:
        raise ValueError("seconds is not a number from 0 on")
    return value


def _tokens(event: Mapping[str, object]) -> tuple[int, int] | None:
    listed = _optional(event, "tokens", list)
    if listed is not None and ([type(count) for count in listed] != [int, int] or min(listed) < 0 or max(listed) > MAX_COUNT):
        raise ValueError("tokens are not two whole numbers from 0 on")
    return None if listed is None else (listed[0], listed[1])


def _message(data: Mapping[str, Any]) -> Message:
    role: Any = _get(data, "role", str)
    if role not in _ROLES:
        raise ValueError(f"a message's role is not one of {', '.join(_ROLES)}")
    calls = tuple(
        NativeCall(_get(call, "id", str, ""), *_function(_get(call, "function", Mapping)))
        for call in _objects(data, "tool_calls", "a native call", needed=False)
    )
    return Message(role, _get(data, "content", str, ""), calls, _get(data, "tool_call_id", str, ""))


def _native(call: Mapping[str, object]) -> NativeCall:
    return NativeCall(_get(call, "id", str, ""), *_function(call))


def _function(data: Mapping[str, Any]) -> tuple[str, str]:
    return _get(data, "name", str), _get(data, "arguments", str)


def _with_calls(text: str, calls: tuple[NativeCall, ...]) -> str:
    return "\n".join([text, *(f"{call.name} {call.arguments}" for call in calls)])
