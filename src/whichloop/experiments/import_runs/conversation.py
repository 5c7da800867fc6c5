"""A trial as most tools log it, a conversation: what was said to the model, its replies, and what came of its calls.

Each format is read into this and no further; here it becomes events, by the same rules for all of them:

- A reply with calls is an act. Arguments that are not a JSON object make it unreadable, as they do in the loops of this package.
- A reply without calls is the answer if it is the last; if another reply follows, the model thought aloud (role `reason`); if
  somebody says something next, the reply was to them (role `answer`).
- A prompt is all that was said, replied and returned before. Whether the agent really showed all of it is not told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from whichloop.metrics.trace import UNTOLD, ModelExchange, RequestError, ToolRun, TracedCall, TraceEvent
from whichloop.protocol import Message, Role, WireError
from whichloop.protocol.chat import NativeCall
from whichloop.protocol.values import one_line
from whichloop.protocol.wire import read_call

from .values import TokenUsage

MAX_DEPTH = 64
"""Levels of nesting of a call's arguments; deeper ones are kept as text."""
MAX_ITEMS = 100_000


@dataclass(frozen=True, slots=True)
class SaidToModel:
    """A message of the system or of a user."""

    role: Literal["system", "user"]
    text: str


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One reply of the model, or the failure that came in its place."""

    text: str = ""
    calls: tuple[NativeCall, ...] = ()
    """Arguments are the raw text where the format has it, and else JSON of what it has."""
    thought: str = ""
    """Reasoning that the format keeps apart from the text."""
    tokens: TokenUsage | None = None
    seconds: float = 0.0
    error: RequestError | None = None
    prompt: tuple[Message, ...] | None = None
    """The messages that the request showed; None: the format does not say, and all that came before is taken."""
    is_told: bool = True
    """Whether the format has the reply's content; without it nothing is read from the reply."""
    problem: str = ""
    """Why the agent could not read the reply, if the format says so."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call."""

    text: str
    call_id: str = ""
    """The call that it answers; empty: the format does not say which, and it answers the next open one."""
    tool: str = ""
    """The tool, if the result says so."""
    failed: bool | None = None
    """None: the format does not say."""
    error_type: str | None = None
    arguments: Any = None
    """What the tool ran with, if the model did not call it and the format says it."""
    never_ran: bool = False
    """The agent itself answered in the tool's place, such as to a call of a tool that does not exist."""


ConversationItem = SaidToModel | ModelTurn | CallResult


def events_of(items: Sequence[ConversationItem]) -> tuple[TraceEvent, ...]:
    """Return the events of a conversation."""
    if len(items) > MAX_ITEMS:
        raise ValueError(f"{len(items)} messages, replies and results, more than {MAX_ITEMS}")
    reading, following = _Reading(), list[ConversationItem | None]()
    after: ConversationItem | None = None
    for item in reversed(items):  # after each item, the next one that is not a result
        following.append(after)
        after = after if isinstance(item, CallResult) else item
    for item, after in zip(items, following[::-1], strict=True):
        if isinstance(item, SaidToModel):
            reading.history.append(Message(item.role, item.text))
        elif isinstance(item, CallResult):
            reading.result(item)
        else:
            reading.turn(item, after)
    reading.close()
    return tuple(reading.events)


def answer_in(items: Sequence[ConversationItem]) -> str:
    """Return the last reply, if nothing came after it and it calls nothing; else an empty text."""
    last = items[-1] if items else None
    return last.text if isinstance(last, ModelTurn) and not last.calls else ""


def untold_of(events: Sequence[TraceEvent]) -> frozenset[str]:
    """Return `tool` if the outcome of any run before the last reply is not told: rates of failures would be too low.

    Calls of the last reply may have ended the trial, as `submit` does, so that nothing came of them.
    """
    last = max((place for place, event in enumerate(events) if isinstance(event, ModelExchange)), default=0)
    return frozenset({"tool"} if any(isinstance(event, ToolRun) and event.status == UNTOLD for event in events[:last]) else ())


@dataclass(slots=True)
class _Reading:
    events: list[TraceEvent] = field(default_factory=list)
    history: list[Message] = field(default_factory=list)
    shown: dict[str, int | list[Message]] = field(default_factory=dict)
    """Role → messages that its last request has shown, or how many, as long as messages are only added."""
    open: list[tuple[str, TracedCall]] = field(default_factory=list)
    """Id and call of what has no result so far."""
    requests: int = 0

    def turn(self, turn: ModelTurn, following: ConversationItem | None) -> None:
        self.close()
        role = _role(turn, following)
        self.history = self.history if turn.prompt is None else list(turn.prompt)
        same = self._same(role)
        self.shown[role] = len(self.history) if turn.prompt is None else self.history[:]
        self.requests += 1
        event = ModelExchange(
            role,
            same=same,
            messages=tuple(self.history[same:]),
            seconds=turn.seconds,
            tokens=turn.tokens and (turn.tokens.input, turn.tokens.output),
            error=turn.error,
            number=self.requests,
        )
        if turn.error is None:
            arguments = [_arguments(call) for call in turn.calls]
            event = _replied(event, turn, arguments)
            self.history.append(Message("assistant", turn.text, turn.calls))
            self.open = [(call.id, TracedCall(call.name, value)) for call, (value, _) in zip(turn.calls, arguments, strict=True)]
        self.events.append(event)

    def _same(self, role: str) -> int:
        """Return how many messages the last request of this role has shown already."""
        before = self.shown.get(role, 0)
        if isinstance(before, int):
            return min(before, len(self.history))
        pairs = zip(before, self.history, strict=False)
        return next((place for place, (old, new) in enumerate(pairs) if old != new), min(len(before), len(self.history)))

    def result(self, result: CallResult) -> None:
        """Note the run of the call that a result is of: by its id, or else by the tool."""
        self.history.append(Message("tool", result.text, call_id=result.call_id))
        open_call = next(
            (one for one in self.open if (result.call_id == one[0] if result.call_id else result.tool in ("", one[1].tool))), None
        )
        call = TracedCall(result.tool, result.arguments) if open_call is None else open_call[1]
        if open_call is not None:
            self.open.remove(open_call)
        if (open_call is not None and not result.never_ran) or (open_call is None and result.tool):
            status = UNTOLD if result.failed is None else "error" if result.failed else "success"
            self.events.append(ToolRun(call, status, result.text, result.error_type if status == "error" else None))

    def close(self) -> None:
        """Note calls whose result is not in the log: whether they ran, and what came of it, is not told."""
        self.events.extend(ToolRun(call, UNTOLD, "") for _, call in self.open)
        self.open = []


def _role(turn: ModelTurn, following: ConversationItem | None) -> str:
    if turn.calls or turn.error is not None or following is None:
        return Role.DECIDE.value
    if isinstance(following, ModelTurn) and not (following.prompt and following.prompt[-1].role == "user"):
        return Role.REASON.value
    return Role.ANSWER.value


def _replied(event: ModelExchange, turn: ModelTurn, arguments: Sequence[tuple[object, str]]) -> ModelExchange:
    """Return the request with its reply, and the move that this states."""
    replied = replace(event, reply=turn.text, native_calls=turn.calls)
    if not turn.is_told:
        return replied
    problem = turn.problem or next((problem for _, problem in arguments if problem), "")
    if problem:
        return replace(replied, wire_error=problem)
    if turn.calls:
        calls = [{"name": call.name, "arguments": value} for call, (value, _) in zip(turn.calls, arguments, strict=True)]
        return replace(replied, move={"move": "act", "thought": turn.text or turn.thought, "calls": calls})
    if event.role != Role.DECIDE.value:
        return replace(replied, move={"move": "text", "text": turn.text})
    if turn.text or turn.thought:
        return replace(replied, move={"move": "answer", "thought": turn.thought, "value": turn.text})
    return replace(replied, wire_error="the reply is empty")


def _arguments(call: NativeCall) -> tuple[Any, str]:
    """Return a call's arguments and an empty text, or their raw text and what is wrong with it."""
    try:
        arguments = read_call(call).arguments
    except WireError as error:
        return call.arguments, one_line(str(error))
    return (call.arguments if _is_deeper(arguments, MAX_DEPTH) else arguments), ""


def _is_deeper(value: object, levels: int) -> bool:
    """Tell whether a JSON value is nested deeper than `levels`, without following it further."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner if isinstance(item, Mapping | list))
