"""Defects of loops: each a mistake at one place between a loop and its model and tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from whichloop.metrics.trajectory.causes import Cause
from whichloop.protocol import (
    Act,
    Answer,
    Completion,
    Move,
    Observation,
    Outcome,
    Request,
    Toolbox,
    ToolCall,
)
from whichloop.protocol.receipts import MARK


@dataclass(slots=True)
class MutantState:
    """What a defect remembers of one run."""

    tools: Toolbox
    calls: list[ToolCall] = field(default_factory=list)
    """Calls as the loop made them."""
    results: list[Observation] = field(default_factory=list)
    replies: int = 0


class Defect:
    """A loop's mistake; override the one place at which it is made."""

    cause: Cause
    """What `why` should name."""
    profile = "clean"
    """The air in which it costs tasks."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall | None:
        """Return the call that is made; None makes none, and shows an empty result."""
        return call

    def made_before(self, call: ToolCall, state: MutantState) -> ToolCall | None:
        """Return another call that is made before a call; None makes none."""
        return None

    def result(self, seen: Observation, state: MutantState) -> Observation:
        """Return what the loop gets of a result."""
        return seen

    def request(self, request: Request, state: MutantState) -> Request:
        """Return the request that is sent."""
        return request

    def move(self, move: Move, state: MutantState) -> Move:
        """Return what the loop reads a reply as."""
        return move

    def outcome(self, outcome: Outcome, state: MutantState) -> Outcome:
        """Return what the run ends with."""
        return outcome


def _with(call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
    return replace(call, arguments=dict(arguments))


def _seen(seen: Observation, data: str) -> Observation:
    return replace(seen, data=data, value=data)


class Crashed(BaseException):
    """A mistake of the loop's own that nothing within it catches."""


class GaveUp(BaseException):
    """The run is over, at a limit of the loop's own."""


# --- other arguments ---


class AlteredCall(Defect):
    cause: Cause = "altered call"


class SwappedValues(AlteredCall):
    """The first two arguments change places."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall:
        names, values = list(call.arguments), list(call.arguments.values())
        return _with(call, dict(zip(names, values[1:2] + values[:1] + values[2:], strict=True))) if len(names) > 1 else call


class NumbersAsText(AlteredCall):
    """Numbers are handed over as text."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall:
        made = {name: str(value) if isinstance(value, int | float) else value for name, value in call.arguments.items()}
        return _with(call, made)


class ValuesInLists(AlteredCall):
    """Each value stands in a list."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall:
        return _with(call, {name: [value] for name, value in call.arguments.items()})


class LostArgument(AlteredCall):
    """The last argument is left out."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall:
        return _with(call, dict(list(call.arguments.items())[:-1]))


class AddedArgument(AlteredCall):
    """An argument is added that the tool does not have."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall:
        return _with(call, {**call.arguments, "verbose": True})


class RenamedArgument(AlteredCall):
    """The first argument is given under another name."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall:
        return _with(
            call, {f"{name}_" if place == 0 else name: value for place, (name, value) in enumerate(call.arguments.items())}
        )


class NumbersOffByOne(AlteredCall):
    """Whole numbers are one too high, and texts lack their last character."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall:
        return _with(call, {name: _off(value) for name, value in call.arguments.items()})


def _off(value: Any) -> Any:
    if isinstance(value, str):
        return value[:-1]
    return value + 1 if isinstance(value, int | float) and not isinstance(value, bool) else value


class CutTexts(AlteredCall):
    """Texts are cut after three characters, and numbers after their first digit."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall:
        return _with(call, {name: _cut(value) for name, value in call.arguments.items()})


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:3]
    return type(value)(str(value)[:1]) if type(value) in (int, float) and value > 0 else value


class StaleArguments(AlteredCall):
    """A tool that was called before is called with the arguments of then."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall:
        return next((earlier for earlier in state.calls if earlier.name == call.name), call)


class NestedArguments(AlteredCall):
    """The arguments stand within an argument of their own."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall:
        return _with(call, {"arguments": dict(call.arguments)})


# --- other tools ---


class NeighbourTool(AlteredCall):
    """Of each tool, the one listed after it is called."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall:
        names = state.tools.names
        return replace(call, name=names[(names.index(call.name) + 1) % len(names)]) if call.name in names else call


class ShoutedTool(AlteredCall):
    """The tool's name is written in capitals."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall:
        return replace(call, name=call.name.upper())


class FirstToolAlways(AlteredCall):
    """From the second call on, the tool of the first is called."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall:
        return replace(call, name=state.calls[0].name) if state.calls else call


# --- calls left out and made up ---


class DroppedCall(Defect):
    cause: Cause = "dropped call"


class SecondCallDropped(DroppedCall):
    """Every second call is not made, and shown as done."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall | None:
        return None if len(state.calls) % 2 else call


class LaterCallsDropped(DroppedCall):
    """After three calls no other is made."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall | None:
        return None if len(state.calls) >= 3 else call


class RefusedCalls(DroppedCall):
    """A call with text among its arguments is refused by a check that is wrong."""

    def call(self, call: ToolCall, state: MutantState) -> ToolCall | None:
        return None if any(isinstance(value, str) for value in call.arguments.values()) else call


class AddedCall(Defect):
    cause: Cause = "added call"


class TwiceMade(AddedCall):
    """Each call is made twice."""

    def made_before(self, call: ToolCall, state: MutantState) -> ToolCall:
        return call


class MadeUpCall(AddedCall):
    """Before each call the same tool is called with other numbers."""

    def made_before(self, call: ToolCall, state: MutantState) -> ToolCall:
        return _with(call, {name: _off(value) if not isinstance(value, str) else value for name, value in call.arguments.items()})


# --- results ---


class AlteredResult(Defect):
    cause: Cause = "altered result"


class DigitsChanged(AlteredResult):
    """Each digit of a result is shown one too high."""

    def result(self, seen: Observation, state: MutantState) -> Observation:
        return _seen(seen, seen.data.translate(_ONE_UP)) if seen.ok else seen


class DigitsChangedByReceipt(AlteredResult):
    """Each digit of a result is shown one too high, between the marks of its receipt as they were."""

    def result(self, seen: Observation, state: MutantState) -> Observation:
        front, *back = _marks(seen.data)
        shown = seen.data.removeprefix(front).removesuffix("".join(back))
        return _seen(seen, f"{front}{shown.translate(_ONE_UP)}{''.join(back)}") if seen.ok else seen


_ONE_UP = str.maketrans("0123456789", "1234567890")


class PreviousResult(Defect):
    """A call shows the result of the call before it."""

    cause: Cause = "lost observation"

    def result(self, seen: Observation, state: MutantState) -> Observation:
        return _seen(seen, state.results[-1].data) if state.results else seen


class ResultHidden(Defect):
    """Every second result is shown as "done"."""

    cause: Cause = "lost observation"

    def result(self, seen: Observation, state: MutantState) -> Observation:
        return _seen(seen, "done") if seen.ok and len(state.results) % 2 else seen


class ResultCut(Defect):
    """A result is cut after 8 characters."""

    cause: Cause = "lost observation"

    def result(self, seen: Observation, state: MutantState) -> Observation:
        return _seen(seen, seen.data[:8]) if seen.ok else seen


class ValueLost(Defect):
    """The receipt of a result is kept, and the value between its marks is lost."""

    cause: Cause = "lost observation"

    def result(self, seen: Observation, state: MutantState) -> Observation:
        return _seen(seen, " ".join(_marks(seen.data))) if seen.ok else seen


class ValueNotedAsStored(Defect):
    """The receipt of a result is kept, and "stored" stands between its marks."""

    cause: Cause = "lost observation"

    def result(self, seen: Observation, state: MutantState) -> Observation:
        return _seen(seen, " stored ".join(_marks(seen.data))) if seen.ok else seen


def _marks(data: str) -> list[str]:
    return [found[0] for found in MARK.finditer(data)]


class ResultAsError(Defect):
    """Every second result is shown as an error."""

    cause: Cause = "lost observation"

    def result(self, seen: Observation, state: MutantState) -> Observation:
        if not seen.ok or not len(state.results) % 2:
            return seen
        return replace(seen, status="error", data="the tool failed", error_type="RuntimeError", value=None)


class HistoryForgotten(Defect):
    """Of all results, only the last two messages are shown."""

    cause: Cause = "lost observation"

    def request(self, request: Request, state: MutantState) -> Request:
        head = [message for message in request.messages if message.role == "system"]
        rest = [message for message in request.messages if message.role != "system"]
        return request if len(rest) < 4 else replace(request, messages=(*head, rest[0], *rest[-2:]))


# --- the answer ---


class AlteredAnswer(Defect):
    cause: Cause = "altered answer"


class AnswerCut(AlteredAnswer):
    """The answer lacks its last character."""

    def outcome(self, outcome: Outcome, state: MutantState) -> Outcome:
        return replace(outcome, answer=str(outcome.answer)[:-1])


class AnswerPadded(AlteredAnswer):
    """The answer stands behind a text of the loop's own."""

    def outcome(self, outcome: Outcome, state: MutantState) -> Outcome:
        return replace(outcome, answer=f"Result no. 7: {outcome.answer}")


class AnswerOfLastTool(AlteredAnswer):
    """The last result but one is given as the answer."""

    def outcome(self, outcome: Outcome, state: MutantState) -> Outcome:
        return replace(outcome, answer=f"{state.results[-2:][0].data} again") if state.results else outcome


class AnswerLost(AlteredAnswer):
    """The answer is lost, and "None" is given."""

    def outcome(self, outcome: Outcome, state: MutantState) -> Outcome:
        return replace(outcome, answer="None")


# --- the end, and what went wrong on the way ---


class EndedTooSoon(Defect):
    """After two calls the run ends as if it had finished."""

    cause: Cause = "termination"

    def move(self, move: Move, state: MutantState) -> Move:
        if len(state.calls) < 2:
            return move
        if isinstance(move, Completion):
            return Completion(True, "It is done.")
        return Answer("", "done") if isinstance(move, Act) else move


class LimitTooLow(Defect):
    """The run gives up at its third call."""

    cause: Cause = "termination"

    def call(self, call: ToolCall, state: MutantState) -> ToolCall | None:
        if len(state.calls) >= 2:
            raise GaveUp
        return call


class AnswerIgnored(Defect):
    """The answer is not noticed, and the model asked again."""

    cause: Cause = "termination"

    def move(self, move: Move, state: MutantState) -> Move:
        return Act("", (state.calls and (state.calls[-1],)) or ()) if isinstance(move, Answer) else move


class CrashAtThird(Defect):
    """The loop crashes at its third call."""

    cause: Cause = "crash"

    def call(self, call: ToolCall, state: MutantState) -> ToolCall | None:
        if len(state.calls) >= 2:
            raise Crashed
        return call


class ErrorsHidden(Defect):
    """A failure of a tool is shown as a success."""

    cause: Cause = "lost observation"
    profile = "flaky-tools"

    def result(self, seen: Observation, state: MutantState) -> Observation:
        return seen if seen.ok else replace(_seen(seen, "ok"), status="success", error_type=None)


def _leaves(kind: type[Defect]) -> list[type[Defect]]:
    under = kind.__subclasses__()
    return [leaf for each in under for leaf in _leaves(each)] if under else [kind]


DEFECTS: Mapping[str, type[Defect]] = {kind.__name__: kind for kind in _leaves(Defect)}
"""Every kind of defect by its name."""
