"""Whether `report --why` names a planted defect: loops with one defect each, on tasks that the same loop solves without it.

python benchmarks/why_mutants.py [--share S] [--write]

A defect stands between a loop and its model and tools, where a mistake of the loop's own would: what it changes, neither the model
nor a tool knows of. `--loop 'benchmarks.why_mutants:Mutant(loop=bare, defect=SwappedValues)'` runs one. It counts where it cost a
task: the trial is held against the sound loop's of the same task, and explained by itself. --write renews the table in docs/why.md.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # loops are named `benchmarks.why_mutants:…`, wherever this runs

from benchmarks.comparing import folder_of_run  # noqa: E402
from benchmarks.pages import head, make_tables, row  # noqa: E402
from whichloop.experiments.compare.results import Results, results  # noqa: E402
from whichloop.experiments.why.losses import losses_explained  # noqa: E402
from whichloop.metrics.trajectory.causes import Cause  # noqa: E402
from whichloop.models.faults import SURE, answer_options, first_expressible  # noqa: E402
from whichloop.protocol import (  # noqa: E402
    SILENT,
    Act,
    Answer,
    Chunk,
    Codec,
    Completion,
    Model,
    Move,
    Observation,
    Observer,
    Outcome,
    Query,
    Reply,
    Request,
    StopReason,
    Toolbox,
    ToolCall,
    WireError,
    WrappedLoop,
    WrappedModel,
)
from whichloop.protocol.receipts import MARK  # noqa: E402
from whichloop.protocol.tools import ToolboxAround  # noqa: E402

PAGE = ROOT / "docs" / "why.md"
LOOPS = ("bare", "bare(decision_format=native)", "finish", "phased", "react_extract", "stateless")
SUITES = ("arithmetic", "ecommerce", "events", "library")
TASKS = 10


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


def _same(it: Any, state: MutantState) -> Any:
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


# --- loops with a defect ---


class MutantToolbox(ToolboxAround):
    """Tools through which a defect is planted."""

    def __init__(self, tools: Toolbox, defect: Defect, state: MutantState) -> None:
        super().__init__(tools)
        self._defect, self._state = defect, state

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        state = self._state
        made = self._defect.call(call, state)
        state.calls.append(call)
        if made is None:
            return Observation(call.name, "success", "done", None, "done", call.call_id)
        another = self._defect.made_before(call, state)
        if another is not None:
            await self.within.call(another, validate=validate)
        seen = await self.within.call(made, validate=validate)
        shown: Observation = self._defect.result(seen, state)
        state.results.append(seen)
        return shown


class MutantModel(WrappedModel):
    """A model through which a defect is planted."""

    def __init__(self, model: Model, defect: Defect, state: MutantState) -> None:
        super().__init__(model)
        self._defect, self._state = defect, state

    async def complete(self, request: Request) -> Reply:
        reply = await self.model.complete(self._defect.request(request, self._state))
        if request.codec is None:
            return reply
        try:
            move = request.codec.parse(reply)
        except WireError:
            return reply
        read = self._defect.move(move, self._state)
        said = None if read is move else _said(read, request.codec)
        return reply if said is None else replace(said, usage=reply.usage)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


def _said(move: Move, codec: Codec) -> Reply | None:
    """Return a move as a codec says it; None if it says no such move, so that the defect is not planted into this reply.

    An answer is said in one of the ways that formats differ in, but not as prose.
    """
    answers = answer_options(move.thought, move.value, SURE) if isinstance(move, Answer) else ()
    found, said = first_expressible(codec, (move, *(form for form in answers if isinstance(form, Answer))))
    return None if found is None else said


@dataclass(frozen=True, slots=True)
class Mutant(WrappedLoop):
    """A loop with a planted defect."""

    defect: str = "SwappedValues"
    """Its name in `DEFECTS`."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        defect, state = DEFECTS[self.defect], MutantState(tools)
        try:
            outcome = await self.loop.run(query, MutantToolbox(tools, defect, state), MutantModel(model, defect, state), observer)
        except Crashed as error:
            raise LookupError("list index out of range") from error
        except GaveUp:
            return Outcome(None, StopReason.MAX_STEPS, len(state.calls), gave_up=True)
        return defect.outcome(outcome, state) if outcome.stop == StopReason.FINISHED else outcome


# --- what `why` says of them ---


@dataclass(slots=True)
class DefectCount:
    """What `why` said about trials that one kind of defect cost."""

    name: str
    against: Counter[str] = field(default_factory=Counter)
    """Cause → trials, held against the sound loop's."""
    alone: Counter[str] = field(default_factory=Counter)
    """Cause → the same trials, each by itself."""
    details: list[str] = field(default_factory=list)

    @property
    def cause(self) -> str:
        return str(DEFECTS[self.name].cause)

    @property
    def lost(self) -> int:
        return self.against.total()

    @property
    def named(self) -> tuple[float, ...]:
        """Shares of trials whose cause was named, against the sound loop's and alone; 0 where nothing was lost."""
        return tuple(counted[self.cause] / max(1, counted.total()) for counted in (self.against, self.alone))


def counted(
    defects: Iterable[str], *, loops: Sequence[str] = LOOPS, suites: Sequence[str] = SUITES, tasks: int = TASKS
) -> dict[str, DefectCount]:
    """Run each defect planted into each loop, and count what `why` says, by defect."""
    made = {defect: DefectCount(defect) for defect in defects}
    for suite, profile, loop in product(suites, sorted({DEFECTS[defect].profile for defect in made}), loops):
        mine = [defect for defect in made if DEFECTS[defect].profile == profile]
        arms = (loop, *(f'benchmarks.why_mutants:Mutant(loop="{loop}", defect={defect})' for defect in mine))
        with tempfile.TemporaryDirectory() as runs:
            _count(made, results(folder_of_run(arms, suite, (profile,), runs, tasks=tasks), paired=False))
    return made


def _count(made: Mapping[str, DefectCount], found: Results) -> None:
    """Add one run's losses; its first arm is the sound loop."""
    sound, *others = [arm.info.arm for arm in found.comparison.arms]
    reasons = losses_explained(found, pairs=[(sound, other) for other in others], arms=others)
    alone = {(arm.arm, lost.task, lost.repeat): lost.cause for arm in reasons.arms for lost in arm.examples}
    for parted in (parted for pair in reasons.pairs for parted in pair.divergences if parted.loser != sound):
        its = made[re.findall(r"defect=(\w+)", parted.loser)[0]]
        its.against[parted.cause] += 1
        its.alone[alone[parted.loser, parted.task, parted.repeat]] += 1
        its.details.append(f"{parted.loser}/{parted.task} {parted.cause}: {parted.detail}")


def table(share: float) -> Iterator[str]:
    """Yield the Markdown table: a row per cause that is planted, and the sum in its last row."""
    counts = counted(DEFECTS, tasks=round(share * TASKS)).values()
    yield from head("planted cause", "kinds", "lost", "named", "named, alone", "worst kind")
    for cause in dict.fromkeys([*(each.cause for each in counts), "all"]):
        group = [each for each in counts if cause in (each.cause, "all")]
        named = [sum(getattr(each, side)[each.cause] for each in group) for side in ("against", "alone")]
        worst = min(min(each.named) for each in group)
        yield row(cause, len(group), sum(each.lost for each in group), *named, f"{worst:.3f}")


if __name__ == "__main__":
    make_tables(__doc__, PAGE, {"mutants": table})
