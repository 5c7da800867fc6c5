"""Causes of losses of one arm to another: the trials with different results, their first divergence, and its cause.

Traces are read one by one, each once; only counts and sentences are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Generic, TypeVar

from whichloop.experiments.compare.results import Results
from whichloop.metrics.arm_info import IMPORTED
from whichloop.metrics.comparison import same_pairs
from whichloop.metrics.record import Record
from whichloop.metrics.record_table import alike, records_by_arm, where
from whichloop.metrics.tasks import TaskFindings, task_findings
from whichloop.metrics.trajectory.causes import Cause, Divergence, Loss
from whichloop.metrics.trajectory.divergence import divergence, explain, read_trial
from whichloop.metrics.trajectory.failures import TracedTrial
from whichloop.metrics.trajectory.trajectory import TracedStep, course
from whichloop.protocol.names import meant, several
from whichloop.runs.store.files import RunError
from whichloop.runs.store.traces import Traces

from .base_rates import BaseRates, base_rates

Example = TypeVar("Example")
Group = tuple[str, str]
"""Suite and profile of an arm."""
Kinds = Mapping[Cause, Mapping[str, int]]
"""Cause → kind of fault that it came from, such as `wire.fenced` → trials, the most common first; empty text: none is known."""


def _as_dicts(kinds: Kinds) -> dict[Cause, dict[str, int]]:
    return {cause: dict(many) for cause, many in kinds.items()}


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
    """Loser → cause → trials, the most common first; fewer than they lost if traces are missing."""
    divergences: tuple[Divergence, ...] = field(repr=False)
    """The divergences, those of the most common causes first."""
    kinds: Mapping[str, Kinds]
    """Loser → what its causes came from."""
    own_causes: Mapping[str, Mapping[Cause, int]] = field(repr=False)
    """Loser → the causes of the same trials, each explained by itself, as the sums explain it."""
    own_kinds: Mapping[str, Kinds] = field(repr=False)

    @property
    def counts(self) -> str:
        """The numbers of trials that both, one or neither of the two solved, in words."""
        return f"both solved {self.both}, only {self.a} {self.only_a}, only {self.b} {self.only_b}, neither {self.neither}"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "a": self.a,
            "b": self.b,
            "both": self.both,
            "only_a": self.only_a,
            "only_b": self.only_b,
            "neither": self.neither,
            "tasks": self.tasks,
            "causes": {arm: dict(causes) for arm, causes in self.causes.items()},
            "kinds": {arm: _as_dicts(kinds) for arm, kinds in self.kinds.items()},
            "own_causes": {arm: dict(causes) for arm, causes in self.own_causes.items()},
            "own_kinds": {arm: _as_dicts(kinds) for arm, kinds in self.own_kinds.items()},
            "divergences": [item.to_json() for item in self.divergences],
        }


@dataclass(frozen=True, slots=True)
class LostTrial:
    """A trial that was not solved, with its own cause."""

    task: str
    repeat: int
    stop: str | None
    loss: Loss
    solved_by: int = 0
    """Number of arms of the same suite and profile that solved the same trial."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        loss = self.loss
        head = {"task": self.task, "repeat": self.repeat, "stop": self.stop, "solved_by": self.solved_by}
        return head | {"step": loss.step, "cause": loss.cause, "detail": loss.detail, "fault": loss.fault}


@dataclass(frozen=True, slots=True)
class ArmLosses:
    """The losses of one arm, whether or not another arm solved the trials."""

    arm: str
    trials: int
    """Number of scored trials."""
    lost: int
    causes: Mapping[Cause, int]
    """Cause → trials, the most common first; fewer than it lost if traces are missing."""
    examples: tuple[LostTrial, ...] = field(repr=False)
    kinds: Kinds
    ended: Mapping[str, int]
    """How those without a trace ended → trials: the text of the error, else the stop; empty where nothing says it."""
    errored: Mapping[str, int]
    """Reason → errored trials, which are left out."""
    partly: int
    """Lost trials that have a part of the score: where scores are grades, hardly any trial has all of it."""
    base_rates: BaseRates
    """Cause → how many solved trials show it, too; without those that only a lost trial can have."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        counts = {"trials": self.trials, "lost": self.lost, "causes": dict(self.causes), "kinds": _as_dicts(self.kinds)}
        untraced = {"ended": dict(self.ended), "errored": dict(self.errored), "partly": self.partly}
        rates = {"base_rates": {cause: rate.to_json() for cause, rate in self.base_rates.items()}}
        return {"arm": self.arm} | counts | untraced | rates | {"examples": [example.to_json() for example in self.examples]}


@dataclass(frozen=True, slots=True)
class Why:
    """The losses of a run and their causes."""

    pairs: tuple[PairLosses, ...]
    arms: tuple[ArmLosses, ...]
    untraced: int
    """Number of unsolved trials without a trace that could show the cause."""
    findings: TaskFindings
    """Findings from all arms of the selected suites and profiles."""

    @property
    def is_unparted(self) -> bool:
        """Whether pairs differ, but no solved trial has a trace to compare the lost one with."""
        return any(pair.only_a or pair.only_b for pair in self.pairs) and not any(pair.divergences for pair in self.pairs)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints; its names are stable."""
        return {
            "pairs": [pair.to_json() for pair in self.pairs],
            "arms": [arm.to_json() for arm in self.arms],
            "untraced": self.untraced,
            "findings": self.findings.to_json(),
        }


def losses_explained(
    run: Results,
    *,
    pairs: Sequence[tuple[str, str]] | None = None,
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
    records = run.records if only is None else where(run.records, lambda record: record.task == only)
    matched = comparable(run) if pairs is None else list(pairs)
    paired = {arm for pair in matched for arm in pair}
    infos = [arm.info for arm in run.comparison.arms]
    alone = list(arms) if arms is not None else [info.arm for info in infos if not paired or info.arm in paired]
    selected = paired | set(alone)
    groups = {(info.suite, info.profile) for info in infos if info.arm in selected}
    info_by_arm = {info.arm: info for info in infos if (info.suite, info.profile) in groups}
    names = {name: (info.suite, info.profile) for name, info in info_by_arm.items()}
    collected = _Collected(Traces(run.folder), names, matched, alone, most, run.manifest.step_limits)
    for cell in _cells(records if len(info_by_arm) > 1 else where(records, lambda record: not record.is_solved), names):
        collected.add(cell)
    findings = task_findings(
        where(records, lambda record: record.arm in info_by_arm), list(info_by_arm.values()), alpha=run.comparison.alpha
    )
    return Why(collected.parted(), collected.arm_losses(records), collected.untraced, findings)


def _task_named(run: Results, task: str) -> str:
    """Return the id of the task that is meant. Raises RunError."""
    task_ids = meant(task, list(dict.fromkeys(record.task for record in alike(run.records))))
    if len(task_ids) == 1:
        return task_ids[0]
    if not task_ids:
        raise RunError(f"{run.folder}: no trial of a task {task!r}")
    raise RunError(f"{run.folder}: {task!r} matches {len(task_ids)} tasks: {several(task_ids)}")


def comparable(run: Results) -> list[tuple[str, str]]:
    """Return the pairs of arms of one suite and profile, by name."""
    infos = [arm.info for arm in run.comparison.arms]
    return [(a.arm, b.arm) for a, b in combinations(infos, 2) if (a.suite, a.profile) == (b.suite, b.profile)]


def copies(run: Results) -> dict[str, str]:
    """Return arm → the first arm of its suite and profile that did the same in every trial; an arm without one is left out."""
    summaries = {arm.info.arm: arm.summary for arm in run.comparison.arms}
    by_arm = records_by_arm(run.records, [arm.info for arm in run.comparison.arms])
    first_of: dict[str, str] = {}
    for first, later in same_pairs(comparable(run), summaries, by_arm):
        first_of.setdefault(later, first)
    return first_of


def lost_trial(run: Results, record: Record) -> LostTrial:
    """Explain the loss of a trial on its own. Raises RunError if it has no valid trace."""
    (info,) = (arm.info for arm in run.comparison.arms if arm.info.arm == record.arm)
    loss = explain(read_trial(Traces(run.folder).read(record), record, limit=run.manifest.step_limits.get(record.arm))).of(
        info.subject
    )
    groups = {arm.info.arm: (arm.info.suite, arm.info.profile) for arm in run.comparison.arms}
    same = [each for each in where(run.records, lambda each: each.task == record.task) if each.repeat == record.repeat]
    return LostTrial(record.task, record.repeat, record.stop, loss, _solved_by(same, record, groups))


def _cells(records: Sequence[Record], arms: Mapping[str, Group]) -> Iterator[list[Record]]:
    """Yield the scored trials of each task and repeat."""
    cells: dict[tuple[str, int], list[Record]] = {}
    for record in where(records, lambda record: record.status == "scored" and record.arm in arms):
        cells.setdefault((record.task, record.repeat), []).append(record)
    for key in sorted(cells):
        yield cells[key]


def _solved_by(cell: Iterable[Record], lost: Record, groups: Mapping[str, Group]) -> int:
    """Return how many arms of the same suite and profile solved a trial that was lost."""
    group = groups[lost.arm]
    return sum(each.status == "scored" and each.is_solved and groups.get(each.arm) == group for each in cell)


def _same_course(winner: str, trial: TracedTrial) -> Divergence:
    """Explain a loss under a scorer that does not depend on the steps."""
    record, step = trial.record, len(trial.course)
    detail = "both took the same course, and were scored differently"
    return Divergence(
        winner=winner,
        loser=record.arm,
        task=record.task,
        repeat=record.repeat,
        step=step,
        parts_at=step,
        cause="other",
        detail=detail,
        stop=record.stop,
    )


@dataclass(slots=True)
class _Tally(Generic[Example]):
    """A tally of causes, with examples of each."""

    causes: Counter[Cause] = field(default_factory=Counter)
    faults: Counter[tuple[Cause, str]] = field(default_factory=Counter)
    kept_examples: dict[Cause, list[tuple[int, Example]]] = field(default_factory=dict)

    def add(self, why: tuple[Cause, str], example: Example, most: int | None, *, telling: int = 0) -> None:
        """Count a cause and its kind of fault.

        Of a cause's examples `most` are kept, those that tell most, and the first among equals; all of them if None.
        """
        cause, _ = why
        self.causes[cause] += 1
        self.faults[why] += 1
        examples = self.kept_examples.setdefault(cause, [])
        examples.append((telling, example))
        if most is not None:
            examples.sort(key=lambda ranked: -ranked[0])
            del examples[most:]

    @property
    def counted(self) -> dict[Cause, int]:
        """The causes, the most common first, equals by name."""
        return dict(sorted(self.causes.items(), key=lambda item: (-item[1], item[0])))

    @property
    def kinds(self) -> Kinds:
        """The kinds of fault of each cause, in the same order."""
        ordered = sorted(self.faults.items(), key=lambda item: (-item[1], item[0]))
        return {cause: {fault: many for (its, fault), many in ordered if its == cause} for cause in self.counted}

    @property
    def examples(self) -> list[Example]:
        return [example for cause in self.counted for _, example in self.kept_examples[cause]]


class _Collected:
    """The causes collected so far."""

    def __init__(
        self,
        traces: Traces,
        groups: Mapping[str, Group],
        pairs: Sequence[tuple[str, str]],
        alone: Sequence[str],
        most: int | None,
        limits: Mapping[str, int],
    ) -> None:
        self.traces = traces
        self.limits = limits
        self.groups = groups
        self.pairs = pairs
        self.alone = alone
        self.most = most
        self.untraced = 0
        self._counts: dict[tuple[str, str], Counter[tuple[bool, bool]]] = {pair: Counter() for pair in pairs}
        self._tasks: dict[tuple[str, str], set[str]] = {pair: set() for pair in pairs}
        self._parted: dict[tuple[str, str, str], _Tally[Divergence]] = {}
        """Tallies by pair and loser."""
        self._own: dict[tuple[str, str, str], _Tally[LostTrial]] = {}
        """The same trials, each by itself."""
        self._alone: dict[str, _Tally[LostTrial]] = {arm: _Tally() for arm in alone}
        self._ended: dict[str, Counter[str]] = {arm: Counter() for arm in alone}

    def add(self, cell: Sequence[Record]) -> None:
        """Add the trials of one task and repeat."""
        records = {record.arm: record for record in cell}
        against: dict[str, list[tuple[tuple[str, str], str]]] = {}
        """Loser → its lost pairs, each with the winner."""
        for pair in self.pairs:
            a, b = records.get(pair[0]), records.get(pair[1])
            if a is None or b is None:
                continue
            solved = (a.is_solved, b.is_solved)
            self._counts[pair][solved] += 1
            if solved[0] is not solved[1]:
                winner, loser = pair if solved[0] else (pair[1], pair[0])
                against.setdefault(loser, []).append((pair, winner))
                self._tasks[pair].add(a.task)
        courses = {arm: self._course(records[arm]) for arm in sorted({winner for lost in against.values() for _, winner in lost})}
        for record in cell:
            if not record.is_solved:
                self._explain(
                    record,
                    _solved_by(cell, record, self.groups),
                    [(pair, winner, courses[winner]) for pair, winner in against.get(record.arm, ())],
                )

    def _course(self, record: Record) -> Sequence[TracedStep]:
        """Return the trial's steps; empty if it has no trace."""
        return () if record.trace_at is None else course(self.traces.read(record))

    def _explain(self, record: Record, solved_by: int, lost: Sequence[tuple[tuple[str, str], str, Sequence[TracedStep]]]) -> None:
        if not lost and record.arm not in self._alone:
            return
        if record.trace_at is None:
            self.untraced += 1
            if record.arm in self._ended:
                self._ended[record.arm][record.reason or record.stop or ""] += 1
            return
        trial = read_trial(self.traces.read(record), record, limit=self.limits.get(record.arm))
        subject = "agent" if self.groups[record.arm][1] == IMPORTED else "loop"
        loss = explain(trial).of(subject)
        trial_alone = LostTrial(record.task, record.repeat, record.stop, loss, solved_by)
        if record.arm in self._alone:
            self._alone[record.arm].add((loss.cause, loss.fault), trial_alone, self.most, telling=solved_by)
        for pair, winner, winner_course in lost:
            if winner_course:
                self._own.setdefault((*pair, record.arm), _Tally()).add((loss.cause, loss.fault), trial_alone, 0)
                parted = divergence(winner, winner_course, trial) or _same_course(winner, trial)
                tally = self._parted.setdefault((*pair, record.arm), _Tally())
                tally.add((parted.cause, parted.fault), parted.of(subject), self.most)

    def parted(self) -> tuple[PairLosses, ...]:
        """Return the pairs, in order."""
        return tuple(self._pair(pair) for pair in self.pairs)

    def _pair(self, pair: tuple[str, str]) -> PairLosses:
        counts = self._counts[pair]
        tallies = {arm: self._parted.get((*pair, arm), _Tally[Divergence]()) for arm in pair}
        own_tallies = {arm: self._own.get((*pair, arm), _Tally[LostTrial]()) for arm in pair}
        return PairLosses(
            a=pair[0],
            b=pair[1],
            both=counts[True, True],
            only_a=counts[True, False],
            only_b=counts[False, True],
            neither=counts[False, False],
            tasks=len(self._tasks[pair]),
            causes={arm: tally.counted for arm, tally in tallies.items()},
            divergences=tuple(example for tally in tallies.values() for example in tally.examples),
            kinds={arm: tally.kinds for arm, tally in tallies.items()},
            own_causes={arm: tally.counted for arm, tally in own_tallies.items()},
            own_kinds={arm: tally.kinds for arm, tally in own_tallies.items()},
        )

    def arm_losses(self, records: Sequence[Record]) -> tuple[ArmLosses, ...]:
        """Return the arms, in order."""
        scored = Counter(record.arm for record in alike(records) if record.status == "scored")
        lost = Counter(record.arm for record in alike(records) if record.status == "scored" and not record.is_solved)
        partly = Counter(
            record.arm for record in alike(records) if record.status == "scored" and record.accuracy > 0 and not record.is_solved
        )
        errored: dict[str, Counter[str]] = {arm: Counter() for arm in self._alone}
        for record in where(records, lambda record: record.status == "errored" and record.arm in errored):
            errored[record.arm][record.reason] += 1
        rates = base_rates(self.traces, records, {arm: tally.counted for arm, tally in self._alone.items()})
        return tuple(
            ArmLosses(
                arm=arm,
                trials=scored[arm],
                lost=lost[arm],
                causes=tally.counted,
                examples=tuple(tally.examples),
                kinds=tally.kinds,
                ended=self._ended[arm],
                errored=errored[arm],
                partly=partly[arm],
                base_rates=rates[arm],
            )
            for arm, tally in self._alone.items()
        )
