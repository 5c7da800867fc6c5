"""A trial as most tools log it, a conversation: what was said to the model, its replies, and what came of its calls.

Each format is read into this and no further; here it becomes events, by the same rules for all of them:

- A reply with calls is an act. Arguments that are not a JSON object make it unreadable, as they do in the loops of this package.
- A reply without calls is the answer if it is the last; if another reply follows, the model thought aloud (role `reason`); if
  somebody says something next, the reply was to them (role `answer`).
- A prompt is all that was said, replied and returned before. Whether the agent really showed all of it is not told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from whichloop.experiments.import_runs.values import TokenUsage, located, mapping, objects_at, short_value
from whichloop.metrics.trace import UNTOLD, ModelExchange, RequestError, ToolRun, TracedCall, TraceEvent
from whichloop.protocol import Message, Role, WireError
from whichloop.protocol.chat import NativeCall
from whichloop.protocol.values import one_line
from whichloop.protocol.wire import read_call

MAX_DEPTH = 64
"""Levels of nesting of a call's arguments; deeper ones are kept as text."""
MAX_ITEMS = 100_000
"""Maximum number of messages, replies and results of one trial."""


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
    """Return the events of a conversation. Raises ValueError for more than MAX_ITEMS items."""
    if len(items) > MAX_ITEMS:
        raise ValueError(f"{len(items)} messages, replies and results, more than {MAX_ITEMS}")
    reading = _Reading()
    for item, following in zip(items, _following(items), strict=True):
        if isinstance(item, SaidToModel):
            reading.history.append(Message(item.role, item.text))
        elif isinstance(item, CallResult):
            reading.result(item)
        else:
            reading.turn(item, following)
    reading.close()
    return tuple(reading.events)


def _following(items: Sequence[ConversationItem]) -> list[ConversationItem | None]:
    """Return for each item the next one that is not a result."""
    next_items: list[ConversationItem | None] = []
    following: ConversationItem | None = None
    for item in reversed(items):
        next_items.append(following)
        following = following if isinstance(item, CallResult) else item
    return next_items[::-1]


def answer_in(items: Sequence[ConversationItem]) -> str:
    """Return the last reply, if nothing came after it and it calls nothing; else an empty text."""
    last = items[-1] if items else None
    return last.text if isinstance(last, ModelTurn) and not last.calls else ""


def beyond_parts_in(items: Sequence[ConversationItem]) -> int:
    """Return what the totals of the requests' tokens have more, or less, than their inputs and outputs."""
    return sum(item.tokens.beyond_parts for item in items if isinstance(item, ModelTurn) and item.tokens is not None)


def untold_of(events: Sequence[TraceEvent]) -> frozenset[str]:
    """Return `tool` if the outcome of any run before the last reply is not told: rates of failures would be too low.

    Calls of the last reply may have ended the trial, as `submit` does, so that nothing came of them.
    """
    last = max((place for place, event in enumerate(events) if isinstance(event, ModelExchange)), default=0)
    return frozenset({"tool"} if any(isinstance(event, ToolRun) and event.status == UNTOLD for event in events[:last]) else ())


@dataclass(slots=True)
class _OpenCall:
    """A call without a result so far."""

    id: str
    call: TracedCall


@dataclass(slots=True)
class _Reading:
    """The events so far."""

    events: list[TraceEvent] = field(default_factory=list)
    history: list[Message] = field(default_factory=list)
    shown: dict[str, int | list[Message]] = field(default_factory=dict)
    """Role → messages that its last request has shown, or how many, as long as messages are only added."""
    open: list[_OpenCall] = field(default_factory=list)
    requests: int = 0

    def turn(self, turn: ModelTurn, following: ConversationItem | None) -> None:
        self.close()
        role = _role(turn, following)
        if turn.prompt is not None:
            self.history = list(turn.prompt)
        same = self._same(role)
        self.shown[role] = self.history[:] if turn.prompt is not None else len(self.history)
        self.requests += 1
        event = ModelExchange(
            role,
            same,
            tuple(self.history[same:]),
            seconds=turn.seconds,
            tokens=None if turn.tokens is None else (turn.tokens.input, turn.tokens.output),
            error=turn.error,
            number=self.requests,
        )
        if turn.error is None:
            arguments = [_arguments(call) for call in turn.calls]
            event = _replied(event, turn, arguments)
            self.history.append(Message("assistant", turn.text, turn.calls))
            self.open = [
                _OpenCall(call.id, TracedCall(call.name, value)) for call, (value, _) in zip(turn.calls, arguments, strict=True)
            ]
        self.events.append(event)

    def _same(self, role: str) -> int:
        """Return how many messages the last request of this role has shown already."""
        before = self.shown.get(role, 0)
        if isinstance(before, int):
            return min(before, len(self.history))
        pairs = zip(before, self.history, strict=False)
        return next((place for place, (old, new) in enumerate(pairs) if old != new), min(len(before), len(self.history)))

    def result(self, result: CallResult) -> None:
        self.history.append(Message("tool", result.text, call_id=result.call_id))
        open_call = next((one for one in self.open if _answers(result, one)), None)
        if open_call is not None:
            self.open.remove(open_call)
            if not result.never_ran:
                self._run(open_call.call, result)
        elif result.tool:
            self._run(TracedCall(result.tool, result.arguments), result)

    def _run(self, call: TracedCall, result: CallResult) -> None:
        status = UNTOLD if result.failed is None else "error" if result.failed else "success"
        self.events.append(ToolRun(call, status, result.text, result.error_type if status == "error" else None))

    def close(self) -> None:
        """Note calls whose result is not in the log: whether they ran, and what came of it, is not told."""
        self.events.extend(ToolRun(one.call, UNTOLD, "") for one in self.open)
        self.open = []


def _answers(result: CallResult, one: _OpenCall) -> bool:
    """Tell whether a result may be that of a call: by its id, or else by the tool."""
    return result.call_id == one.id if result.call_id else result.tool in ("", one.call.tool)


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


ResultReader = Callable[[Mapping[str, Any], str], CallResult]
"""A function of a tool's message and its text that says what came of the call."""


def untold_result(message: Mapping[str, Any], text: str) -> CallResult:
    """Read a tool's message that does not say whether the call failed."""
    call_id = message.get("tool_call_id")
    name = message.get("name")
    return CallResult(text, call_id if isinstance(call_id, str) else "", name if isinstance(name, str) else "")


def items_of(messages: Sequence[Any], read_result: ResultReader = untold_result) -> Iterator[ConversationItem]:
    """Yield what a list of messages says. Raises ValueError that names the message."""
    for number, message in enumerate(messages, 1):
        with located(f"message {number}"):
            item = _item(mapping(message, "the message"), read_result)
        if item is not None:
            yield item


def _item(message: Mapping[str, Any], read_result: ResultReader) -> ConversationItem | None:
    role, text = message.get("role"), text_in(message.get("content"))
    if role in ("system", "developer"):
        return SaidToModel("system", text)
    if role == "user":
        return SaidToModel("user", text)
    if role == "assistant":
        thought = message.get("reasoning_content")
        turn = ModelTurn(text, calls_of(message), thought if isinstance(thought, str) else "")
        old = message.get("function_call")
        return turn if turn.calls or not isinstance(old, Mapping) else replace(turn, calls=(_call({"id": "", "function": old}),))
    if role in ("tool", "function"):
        return read_result(message, text)
    raise ValueError(f"role is {short_value(role)}, not system, user, assistant or tool")


def calls_of(message: Mapping[str, Any]) -> tuple[NativeCall, ...]:
    """Return a message's calls, in OpenAI's form or with name and arguments beside the id. Raises ValueError."""
    return tuple(map(_call, objects_at(message, "tool_calls", "a tool call")))


def _call(call: Mapping[str, Any]) -> NativeCall:
    function = mapping(call.get("function"), "function") or call
    name, call_id = function.get("name"), call.get("id")
    if not isinstance(name, str):
        raise ValueError(f"the name of a tool call is not a text: {short_value(name)}")
    return NativeCall(call_id if isinstance(call_id, str) else "", name, raw_arguments(function.get("arguments")))


def raw_arguments(arguments: Any) -> str:
    """Return a call's arguments as text: as the model wrote them where the log has that, and else as JSON."""
    return arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments, ensure_ascii=False)


def text_in(content: Any) -> str:
    """Return a message's content as text; parts that are not text by their kind. Raises ValueError."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise ValueError(f"content is neither a text nor a list of parts: {short_value(content)}")
    return "\n".join(map(_part, content))


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    data = mapping(part, "a part of the content")
    text = data.get("text")
    return text if isinstance(text, str) else f"[{data.get('type')}]"
