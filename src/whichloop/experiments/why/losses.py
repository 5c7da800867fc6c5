"""The losses of a run: each lost trial's cause, and where it parts from a trial of the same task that another arm solved.

Traces are read one by one, each once; only counts and some examples are kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any, Generic, TypeVar

from whichloop.experiments.compare.results import Results
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import same_pairs
from whichloop.metrics.record import Record, records_by_arm
from whichloop.metrics.tasks import GroupFindings, task_findings
from whichloop.metrics.trajectory.causes import Cause, Divergence, Loss
from whichloop.metrics.trajectory.divergence import divergence, explain
from whichloop.metrics.trajectory.traced_trial import TracedTrial
from whichloop.metrics.trajectory.trajectory import TracedStep, course
from whichloop.protocol.names import meant, several
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import Traces

from .base_rates import BaseRate, base_rates

Example = TypeVar("Example", bound=Loss)
ArmPair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class LostTrial(Loss):
    """A trial that was not solved, with its own cause."""

    task: str
    repeat: int
    stop: str | None
    solved_by: int = 0
    """Number of arms of the same suite and profile that solved the same trial."""


@dataclass(frozen=True, slots=True)
class PairLosses:
    """Two arms on the trials (same task and repeat) that are scored in both."""

    a: str
    b: str
    both: int
    """Number of trials that both solved."""
    only_a: int
    only_b: int
    neither: int
    tasks: int
    """Number of tasks on which they differ in any repeat."""
    causes: Mapping[str, Mapping[Cause, int]]
    """Loser → cause, held against the winner's trial → trials, the most common first; fewer than it lost if traces are missing."""
    divergences: tuple[Divergence, ...] = field(repr=False)
    """The divergences, those of the most common causes first."""


@dataclass(frozen=True, slots=True)
class ArmLosses:
    """The losses of one arm, whether or not another arm solved the trials."""

    arm: str
    trials: int
    """Number of scored trials."""
    lost: int
    causes: Mapping[Cause, int]
    """Cause → trials, the most common first; fewer than it lost if traces are missing."""
    kinds: Mapping[Cause, Mapping[str, int]]
    """Cause → kind of fault that it came from, such as `wire.fenced` → trials; empty text: none is known."""
    examples: tuple[LostTrial, ...] = field(repr=False)
    ended: Mapping[str, int]
    """How those without a trace ended → trials: the text of the error, else the stop; empty where nothing says it."""
    errored: Mapping[str, int]
    """Reason → errored trials, which are left out."""
    base_rates: Mapping[Cause, BaseRate]
    """Cause → how many solved trials show it, too; without those that only a lost trial can have."""

    def stands(self, cause: Cause) -> bool:
        """Whether the arm lost trials to a cause, and solved trials do not show it as often."""
        return cause in self.causes and not (cause in self.base_rates and self.base_rates[cause].is_doubtful)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"base_rates": {cause: rate.to_json() for cause, rate in self.base_rates.items()}}


@dataclass(frozen=True, slots=True)
class Why:
    """The losses of a run and their causes."""

    pairs: tuple[PairLosses, ...]
    arms: tuple[ArmLosses, ...]
    untraced: int
    """Number of unsolved trials without a trace that could show the cause."""
    findings: tuple[GroupFindings, ...]
    """Findings from all arms of the selected suites and profiles."""

    def to_json(self) -> dict[str, Any]:
        pairs, arms = [asdict(pair) for pair in self.pairs], [arm.to_json() for arm in self.arms]
        return {"pairs": pairs, "arms": arms, "untraced": self.untraced, "findings": [group.to_json() for group in self.findings]}


# --- names ---


def required_arms(run: Results, name: str) -> list[str]:
    """Return the arm of that name, or the arms of that loop; a part of a name will do if only one loop, or only one arm, has it.

    Raises RunError, with the names of the arms, if none has it or several have.
    """
    infos = run.comparison.infos
    arms = [info.arm for info in infos]
    matching = [name] if name in arms else [arm for arm in arms if arm.startswith(f"{name}/")]
    if matching:
        return matching
    loops = meant(name, list(dict.fromkeys(info.without_profile for info in infos)))
    if len(loops) == 1:
        return [info.arm for info in infos if info.without_profile == loops[0]]
    matching = meant(name, arms)
    if len(matching) != 1:
        found = (
            f"{name!r} names {len(matching)} arms: {several(matching)}"
            if matching
            else f"no arm {name!r}; there are {', '.join(arms)}"
        )
        raise RunError(f"{run.folder}: {found}")
    return matching


def pairs_named(run: Results, a: str, b: str) -> list[ArmPair]:
    """Return the comparable pairs between two arms or loops.

    Raises RunError for an unknown name, and for arms without the same tasks and profile.
    """
    known = set(comparable(run))
    pairs = [(one, two) for one in required_arms(run, a) for two in required_arms(run, b) if {(one, two), (two, one)} & known]
    if not pairs:
        raise RunError(f"{run.folder}: {a} and {b} are not two arms with the same tasks and profile")
    return pairs


def comparable(run: Results) -> list[ArmPair]:
    """Return the pairs of arms of one suite and profile, by name."""
    infos = run.comparison.infos
    return [(a.arm, b.arm) for a, b in combinations(infos, 2) if (a.suite, a.profile) == (b.suite, b.profile)]


def copies(run: Results) -> dict[str, str]:
    """Return arm → the first arm of its suite and profile that did the same in every trial; an arm without one is left out."""
    by_arm = records_by_arm(run.records, run.comparison.infos)
    first_of: dict[str, str] = {}
    for first, later in same_pairs(comparable(run), by_arm):
        first_of.setdefault(later, first)
    return first_of


def _task_named(run: Results, task: str) -> str:
    """Return the id of the task that is meant. Raises RunError."""
    task_ids = meant(task, list(dict.fromkeys(record.task for record in run.records)))
    if len(task_ids) != 1:
        found = f"matches {len(task_ids)} tasks: {several(task_ids)}" if task_ids else "is no task of its trials"
        raise RunError(f"{run.folder}: {task!r} {found}")
    return task_ids[0]


# --- causes ---


def losses_explained(
    run: Results,
    *,
    pairs: Sequence[ArmPair] | None = None,
    arms: Sequence[str] | None = None,
    task: str | None = None,
    most: int | None = None,
) -> Why:
    """Explain the losses of a run.

    `pairs`: pairs of arm names; None: all comparable ones. `arms`: arms whose losses are explained on their own; None: those of the
    pairs, or all if there is no pair. `task`: only its trials; a part of its id will do if no other has it.
    `most`: maximum examples per cause, pair and loser; None: all.

    Raises RunError for a task that is unknown or not the only one, and for an invalid trace.
    """
    only = None if task is None else _task_named(run, task)
    records = run.records if only is None else [record for record in run.records if record.task == only]
    matched = comparable(run) if pairs is None else list(pairs)
    paired = {arm for pair in matched for arm in pair}
    infos = {info.arm: info for info in run.comparison.infos}
    alone = list(arms) if arms is not None else [arm for arm in infos if not paired or arm in paired]
    groups = {_group(infos[arm]) for arm in (*paired, *alone)}
    concerned = {arm: info for arm, info in infos.items() if _group(info) in groups}
    collected = _Collected(run, concerned, matched, alone, most)
    for cell in _cells(records if len(concerned) > 1 else [record for record in records if not record.is_solved], concerned):
        collected.add(cell)
    of_arms = [record for record in records if record.arm in concerned]
    findings = task_findings(of_arms, list(concerned.values()), alpha=run.comparison.alpha)
    return Why(tuple(map(collected.pair, matched)), collected.arms(records), collected.untraced, findings)


def _lost(record: Record, loss: Loss, cell: Iterable[Record], infos: Mapping[str, ArmInfo]) -> LostTrial:
    group = _group(infos[record.arm])
    solvers = (each.arm for each in cell if each.status == "scored" and each.is_solved)
    solved_by = sum(arm in infos and _group(infos[arm]) == group for arm in solvers)
    of: dict[str, Any] = {"task": record.task, "repeat": record.repeat, "stop": record.stop, "solved_by": solved_by}
    return LostTrial(**vars(loss.of(infos[record.arm].subject)), **of)


def _group(info: ArmInfo) -> tuple[str, str]:
    return info.suite, info.profile


def _cells(records: Sequence[Record], arms: Mapping[str, ArmInfo]) -> Iterator[list[Record]]:
    """Yield the scored trials of each task and repeat."""
    cells: dict[tuple[str, int], list[Record]] = {}
    for record in (record for record in records if record.status == "scored" and record.arm in arms):
        cells.setdefault((record.task, record.repeat), []).append(record)
    for key in sorted(cells):
        yield cells[key]


@dataclass(slots=True)
class _Tally(Generic[Example]):
    """Causes with their kinds of fault, and examples of each."""

    faults: Counter[tuple[Cause, str]] = field(default_factory=Counter)
    kept: dict[Cause, list[tuple[int, Example]]] = field(default_factory=dict)

    def add(self, example: Example, most: int | None, telling: int = 0) -> None:
        """Count one. Of a cause's examples `most` are kept, those that tell most, the first among equals; all of them if None."""
        self.faults[example.cause, example.fault] += 1
        examples = self.kept.setdefault(example.cause, [])
        examples.append((telling, example))
        if most is not None:
            examples.sort(key=lambda ranked: -ranked[0])
            del examples[most:]

    @property
    def kinds(self) -> dict[Cause, dict[str, int]]:
        """The kinds of fault of each cause, the most common first, equals by name."""
        kinds: dict[Cause, dict[str, int]] = {}
        for (cause, fault), many in sorted(self.faults.items(), key=lambda item: (-item[1], item[0])):
            kinds.setdefault(cause, {})[fault] = many
        return dict(sorted(kinds.items(), key=lambda item: (-sum(item[1].values()), item[0])))

    @property
    def causes(self) -> dict[Cause, int]:
        return {cause: sum(many.values()) for cause, many in self.kinds.items()}

    @property
    def examples(self) -> tuple[Example, ...]:
        return tuple(example for cause in self.kinds for _, example in self.kept[cause])


class _Collected:
    """The causes collected so far."""

    def __init__(
        self, run: Results, infos: Mapping[str, ArmInfo], pairs: Sequence[ArmPair], alone: Sequence[str], most: int | None
    ) -> None:
        self._traces, self._limits, self._infos, self._most = Traces(run.folder), run.manifest.step_limits, infos, most
        self.untraced = 0
        self._counts: dict[ArmPair, Counter[tuple[bool, bool]]] = {pair: Counter() for pair in pairs}
        self._tasks: dict[ArmPair, set[str]] = {pair: set() for pair in pairs}
        self._parted: defaultdict[tuple[ArmPair, str], _Tally[Divergence]] = defaultdict(_Tally)
        """By pair and loser."""
        self._alone: dict[str, _Tally[LostTrial]] = {arm: _Tally() for arm in alone}
        self._ended: dict[str, Counter[str]] = {arm: Counter() for arm in alone}

    def add(self, cell: Sequence[Record]) -> None:
        """Add the trials of one task and repeat."""
        records = {record.arm: record for record in cell}
        against: dict[str, list[tuple[ArmPair, str]]] = {}
        """Loser → its lost pairs, each with the winner."""
        for pair, counts in self._counts.items():
            if records.keys() >= set(pair):
                solved = (records[pair[0]].is_solved, records[pair[1]].is_solved)
                counts[solved] += 1
                if solved[0] is not solved[1]:
                    winner, loser = pair if solved[0] else pair[::-1]
                    against.setdefault(loser, []).append((pair, winner))
                    self._tasks[pair].add(records[loser].task)
        winners = sorted({winner for lost in against.values() for _, winner in lost})
        courses = {arm: course(self._traces.read(records[arm])) for arm in winners if records[arm].trace_at}
        for record in cell:
            if not record.is_solved and (record.arm in against or record.arm in self._alone):
                self._explain(record, cell, [(pair, arm, courses.get(arm, ())) for pair, arm in against.get(record.arm, ())])

    def _explain(
        self, record: Record, cell: Sequence[Record], winners: Sequence[tuple[ArmPair, str, Sequence[TracedStep]]]
    ) -> None:
        if not record.trace_at:
            self.untraced += 1
            if record.arm in self._ended:
                self._ended[record.arm][record.reason or record.stop or ""] += 1
            return
        trial = TracedTrial(self._traces.read(record), record, limit=self._limits.get(record.arm))
        if record.arm in self._alone:
            lost = _lost(record, explain(trial), cell, self._infos)
            self._alone[record.arm].add(lost, self._most, lost.solved_by)
        for pair, winner, steps in winners:
            if steps:
                parted = divergence(winner, steps, trial) or _same_course(winner, record, len(trial.course))
                self._parted[pair, record.arm].add(parted.of(self._infos[record.arm].subject), self._most)

    def pair(self, pair: ArmPair) -> PairLosses:
        """Return what two arms lost to each other."""
        counts = self._counts[pair]
        tallies = {arm: self._parted[pair, arm] for arm in pair}
        return PairLosses(
            *pair,
            both=counts[True, True],
            only_a=counts[True, False],
            only_b=counts[False, True],
            neither=counts[False, False],
            tasks=len(self._tasks[pair]),
            causes={arm: tally.causes for arm, tally in tallies.items()},
            divergences=tuple(example for tally in tallies.values() for example in tally.examples),
        )

    def arms(self, records: Sequence[Record]) -> tuple[ArmLosses, ...]:
        """Return the losses of each arm, in order."""
        scored = [record for record in records if record.status == "scored"]
        trials = Counter(record.arm for record in scored)
        lost = Counter(record.arm for record in scored if not record.is_solved)
        errored: dict[str, Counter[str]] = {arm: Counter() for arm in self._alone}
        for record in (record for record in records if record.status == "errored" and record.arm in errored):
            errored[record.arm][record.reason] += 1
        rates = base_rates(self._traces, records, {arm: tally.causes for arm, tally in self._alone.items()})
        return tuple(
            ArmLosses(
                arm=arm,
                trials=trials[arm],
                lost=lost[arm],
                causes=tally.causes,
                kinds=tally.kinds,
                examples=tally.examples,
                ended=dict(self._ended[arm]),
                errored=dict(errored[arm]),
                base_rates=rates[arm],
            )
            for arm, tally in self._alone.items()
        )


def _same_course(winner: str, record: Record, step: int) -> Divergence:
    """Explain a loss under a scorer that does not depend on the steps."""
    detail = "both took the same course, and were scored differently"
    of: dict[str, Any] = {"loser": record.arm, "task": record.task, "repeat": record.repeat, "stop": record.stop}
    return Divergence(winner=winner, step=step, parts_at=step, cause="other", detail=detail, **of)
