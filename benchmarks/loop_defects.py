"""Defects of loops: each a mistake at one place between a loop and its model and tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from whichloop.metrics.trajectory.causes import Cause
from whichloop.protocol import Act, Answer, Completion, Move, Observation, Outcome, Request, StopReason, Toolbox, ToolCall
from whichloop.protocol.receipts import MARK

T = TypeVar("T")


class Crashed(BaseException):
    """A mistake of the loop's own that nothing within it catches."""


class GaveUp(BaseException):
    """The run is over, at a limit of the loop's own."""


@dataclass(slots=True)
class MutantState:
    """What a defect remembers of one run."""

    tools: Toolbox
    calls: list[ToolCall] = field(default_factory=list)
    """Calls as the loop made them."""
    results: list[Observation] = field(default_factory=list)
    replies: int = 0


def _same(it: T, state: MutantState) -> T:
    return it


OfCall = Callable[[ToolCall, MutantState], ToolCall | None]
OfResult = Callable[[Observation, MutantState], Observation]
OfOutcome = Callable[[Outcome, MutantState], Outcome]


@dataclass(frozen=True, slots=True)
class Defect:
    """A loop's mistake, which is made at one place. Each function returns what the loop makes of what it is given."""

    cause: Cause
    """What `why` should name."""
    call: OfCall = _same
    """None: no call is made, and an empty result is shown."""
    made_before: OfCall = lambda call, state: None
    """Another call, made before a call; None makes none."""
    result: OfResult = _same
    request: Callable[[Request, MutantState], Request] = _same
    move: Callable[[Move, MutantState], Move] = _same
    outcome: OfOutcome = _same
    profile: str = "clean"
    """The air in which it costs tasks."""


# --- calls ---


def _arguments(change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> OfCall:
    return lambda call, state: replace(call, arguments=dict(change(call.arguments)))


def _values(change: Callable[[Any], Any]) -> OfCall:
    return _arguments(lambda given: {name: change(value) for name, value in given.items()})


def _swapped(given: Mapping[str, Any]) -> Mapping[str, Any]:
    values = list(given.values())
    return dict(zip(given, values[1:2] + values[:1] + values[2:], strict=True))


def _renamed(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {f"{name}_" if place == 0 else name: value for place, (name, value) in enumerate(given.items())}


def _off(value: Any) -> Any:
    if isinstance(value, str):
        return value[:-1]
    return value + 1 if isinstance(value, int | float) and not isinstance(value, bool) else value


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:3]
    return type(value)(str(value)[:1]) if type(value) in (int, float) and value > 0 else value


def _stale(call: ToolCall, state: MutantState) -> ToolCall:
    return next((earlier for earlier in state.calls if earlier.name == call.name), call)


def _neighbour(call: ToolCall, state: MutantState) -> ToolCall:
    names = state.tools.names
    return replace(call, name=names[(names.index(call.name) + 1) % len(names)]) if call.name in names else call


def _at_third(error: type[BaseException]) -> OfCall:
    def call(call: ToolCall, state: MutantState) -> ToolCall:
        if len(state.calls) >= 2:
            raise error
        return call

    return call


# --- results ---

_ONE_UP = str.maketrans("0123456789", "1234567890")


def _seen(seen: Observation, data: str) -> Observation:
    return replace(seen, data=data, value=data)


def _shown(change: Callable[[str], str]) -> OfResult:
    return lambda seen, state: _seen(seen, change(seen.data)) if seen.ok else seen


def _marks(data: str) -> list[str]:
    return [found[0] for found in MARK.finditer(data)]


def _digits_between(data: str) -> str:
    front, *back = _marks(data)
    return f"{front}{data.removeprefix(front).removesuffix(''.join(back)).translate(_ONE_UP)}{''.join(back)}"


def _as_error(seen: Observation, state: MutantState) -> Observation:
    if not seen.ok or not len(state.results) % 2:
        return seen
    return replace(seen, status="error", data="the tool failed", error_type="RuntimeError", value=None)


def _as_success(seen: Observation, state: MutantState) -> Observation:
    return seen if seen.ok else replace(_seen(seen, "ok"), status="success", error_type=None)


def _last_two(request: Request, state: MutantState) -> Request:
    head = [message for message in request.messages if message.role == "system"]
    rest = [message for message in request.messages if message.role != "system"]
    return request if len(rest) < 4 else replace(request, messages=(*head, rest[0], *rest[-2:]))


# --- the end ---


def _answered(change: Callable[[str], str]) -> OfOutcome:
    return lambda outcome, state: replace(outcome, answer=change(str(outcome.answer)))


def _not_taken(outcome: Outcome, state: MutantState) -> Outcome:
    problem = f"answer: {outcome.answer!r} is not of the type that was asked for"
    return replace(outcome, answer=None, stop=StopReason.PARSE_FAILED, details={"error": problem, "answer": outcome.answer})


def _last_result(outcome: Outcome, state: MutantState) -> Outcome:
    return replace(outcome, answer=f"{state.results[-2:][0].data} again") if state.results else outcome


def _too_soon(move: Move, state: MutantState) -> Move:
    if len(state.calls) < 2:
        return move
    if isinstance(move, Completion):
        return Completion(True, "It is done.")
    return Answer("", "done") if isinstance(move, Act) else move


def _ignored(move: Move, state: MutantState) -> Move:
    return Act("", tuple(state.calls[-1:])) if isinstance(move, Answer) else move


def _altered(call: OfCall) -> Defect:
    return Defect("altered call", call)


def _dropped(is_dropped: Callable[[ToolCall, MutantState], bool]) -> Defect:
    """The call is not made, and shown as done."""
    return Defect("dropped call", lambda call, state: None if is_dropped(call, state) else call)


def _lost(result: OfResult) -> Defect:
    return Defect("lost observation", result=result)


DEFECTS: Mapping[str, Defect] = {
    "SwappedValues": _altered(_arguments(_swapped)),
    "NumbersAsText": _altered(_values(lambda it: str(it) if isinstance(it, int | float) else it)),
    "ValuesInLists": _altered(_values(lambda value: [value])),
    "LostArgument": _altered(_arguments(lambda it: dict(list(it.items())[:-1]))),
    "AddedArgument": _altered(_arguments(lambda it: {**it, "verbose": True})),
    "RenamedArgument": _altered(_arguments(_renamed)),
    "NumbersOffByOne": _altered(_values(_off)),
    "CutTexts": _altered(_values(_cut)),
    "StaleArguments": _altered(_stale),
    "NestedArguments": _altered(_arguments(lambda it: {"arguments": dict(it)})),
    "NeighbourTool": _altered(_neighbour),
    "ShoutedTool": _altered(lambda call, state: replace(call, name=call.name.upper())),
    "FirstToolAlways": _altered(lambda call, state: replace(call, name=state.calls[0].name) if state.calls else call),
    "SecondCallDropped": _dropped(lambda call, state: bool(len(state.calls) % 2)),
    "LaterCallsDropped": _dropped(lambda call, state: len(state.calls) >= 3),
    "RefusedCalls": _dropped(lambda call, state: any(isinstance(value, str) for value in call.arguments.values())),
    "TwiceMade": Defect("added call", made_before=_same),
    "MadeUpCall": Defect("added call", made_before=_values(lambda value: value if isinstance(value, str) else _off(value))),
    "DigitsChanged": Defect("altered result", result=_shown(lambda data: data.translate(_ONE_UP))),
    "DigitsChangedByReceipt": Defect("altered result", result=_shown(_digits_between)),
    "PreviousResult": _lost(lambda seen, state: _seen(seen, state.results[-1].data) if seen.ok and state.results else seen),
    "ResultHidden": _lost(lambda seen, state: _seen(seen, "done") if seen.ok and len(state.results) % 2 else seen),
    "ResultCut": _lost(_shown(lambda data: data[:8])),
    "ValueLost": _lost(_shown(lambda data: " ".join(_marks(data)))),
    "ValueNotedAsStored": _lost(_shown(lambda data: " stored ".join(_marks(data)))),
    "ResultAsError": _lost(_as_error),
    "HistoryForgotten": Defect("lost observation", request=_last_two),
    "AnswerCut": Defect("altered answer", outcome=_answered(lambda it: it[:-1])),
    "AnswerPadded": Defect("altered answer", outcome=_answered(lambda answer: f"Result no. 7: {answer}")),
    "AnswerOfLastTool": Defect("altered answer", outcome=_last_result),
    "AnswerLost": Defect("altered answer", outcome=_answered(lambda it: "None")),
    "AnswerRefused": Defect("answer refused", outcome=_not_taken),
    "EndedTooSoon": Defect("termination", move=_too_soon),
    "LimitTooLow": Defect("termination", _at_third(GaveUp)),
    "AnswerIgnored": Defect("termination", move=_ignored),
    "CrashAtThird": Defect("crash", _at_third(Crashed)),
    "ErrorsHidden": Defect("error not shown", result=_as_success, profile="flaky-tools"),
}
"""Every kind of defect by its name."""
