"""The losses of a run: each lost trial's cause, and where it parts from a trial of the same task that another arm solved.

Traces are read one by one, each once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any, TypeVar

from whichloop.experiments.compare.results import Results
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import ALPHA, fisher_greater
from whichloop.metrics.tasks import GroupFindings, task_findings
from whichloop.metrics.trajectory.causes import Cause, Divergence, Loss
from whichloop.metrics.trajectory.divergence import divergence, explain
from whichloop.metrics.trajectory.traced_trial import TracedTrial
from whichloop.metrics.trajectory.trajectory import TracedStep, course
from whichloop.protocol.names import meant, several
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import Traces

Example = TypeVar("Example", bound=Loss)
ArmPair = tuple[str, str]
MAX_SOLVED = 150
"""Solved trials of a run that are looked at, as many of each arm, evenly spread over its tasks: to read all takes several times as
long as to explain the losses."""
MIN_SOLVED = 30
"""Solved trials of an arm that are looked at however many arms there are."""
AS_OFTEN = 0.5
"""Of the share of lost trials: a cause that a smaller share of solved trials shows is not called in doubt."""
LOST_ONLY: frozenset[Cause] = frozenset({"time limit", "budget", "crash", "answer refused", "other"})
"""Causes that only a lost trial can have, so that they have no base rate."""


@dataclass(frozen=True, kw_only=True)
class LostTrial(Loss):
    """A trial that was not solved, with its own cause."""

    task: str
    repeat: int
    stop: str | None
    solved_by: int = 0
    """Number of arms of the same suite and profile that solved the same trial."""


@dataclass(frozen=True, slots=True)
class BaseRate:
    """How many lost and how many solved trials of an arm show one cause, each by itself."""

    lost: int
    """Lost trials that were lost to it."""
    of_lost: int
    """Lost trials with a trace."""
    solved: int
    """Solved trials in which the same rules name it."""
    of_solved: int
    """Solved trials that were looked at; at least one."""
    is_sample: bool
    """There are more solved trials with a trace."""

    @property
    def p(self) -> float:
        """The chance of at least so many among the lost if solved trials had it as often: Fisher's exact test, one-sided."""
        return fisher_greater((self.lost, self.of_lost), (self.solved, self.of_solved))

    @property
    def is_doubtful(self) -> bool:
        """Not shown to be a cause: solved trials show it at least half as often, and the test does not tell the shares apart."""
        return self.solved / self.of_solved >= AS_OFTEN * self.lost / self.of_lost and self.p >= ALPHA

    def to_json(self) -> dict[str, Any]:
        counts = {"lost": self.lost, "of_lost": self.of_lost, "solved": self.solved, "of_solved": self.of_solved}
        return counts | {"sample": self.is_sample, "p": self.p, "doubtful": self.is_doubtful}


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
    findings: tuple[GroupFindings, ...]
    """Findings from all arms of the selected suites and profiles."""

    @property
    def untraced(self) -> int:
        """Number of unsolved trials without a trace that could show the cause."""
        return sum(sum(arm.ended.values()) for arm in self.arms)

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


# --- causes ---


def losses_explained(
    run: Results,
    *,
    pairs: Sequence[ArmPair] | None = None,
    arms: Sequence[str] | None = None,
    task: str | None = None,
) -> Why:
    """Explain the losses of a run.

    `pairs`: pairs of arm names; None: all comparable ones. `arms`: arms whose losses are explained on their own; None: those of the
    pairs, or all if there is no pair. `task`: only its trials; a part of its id will do if no other has it.

    Raises RunError for a task that is unknown or not the only one, and for an invalid trace.
    """
    records = run.records
    if task is not None:
        named = meant(task, list(dict.fromkeys(record.task for record in records)))
        if len(named) != 1:
            found = f"matches {len(named)} tasks: {several(named)}" if named else "is no task of its trials"
            raise RunError(f"{run.folder}: {task!r} {found}")
        records = [record for record in records if record.task == named[0]]
    matched = comparable(run) if pairs is None else list(pairs)
    paired = {arm for pair in matched for arm in pair}
    infos = {info.arm: info for info in run.comparison.infos}
    alone = list(arms) if arms is not None else [arm for arm in infos if not paired or arm in paired]
    groups = {_group(infos[arm]) for arm in (*paired, *alone)}
    concerned = {arm: info for arm, info in infos.items() if _group(info) in groups}
    collected = _Collected(run, concerned, matched, alone)
    cells: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        if record.status == "scored" and record.arm in concerned and (len(concerned) > 1 or not record.is_solved):
            cells.setdefault((record.task, record.repeat), []).append(record)
    for key in sorted(cells):
        collected.add(cells[key])
    of_arms = [record for record in records if record.arm in concerned]
    findings = task_findings(of_arms, list(concerned.values()), alpha=run.comparison.alpha)
    return Why(tuple(map(collected.pair, matched)), collected.arms(records), findings)


def _group(info: ArmInfo) -> tuple[str, str]:
    return info.suite, info.profile


def kinds_of(losses: Iterable[Loss]) -> dict[Cause, dict[str, int]]:
    """Return cause → kind of fault → number of losses, the most common causes and kinds first, equals by name."""
    kinds: dict[Cause, dict[str, int]] = {}
    faults = Counter((loss.cause, loss.fault) for loss in losses)
    for (cause, fault), many in sorted(faults.items(), key=lambda item: (-item[1], item[0])):
        kinds.setdefault(cause, {})[fault] = many
    return dict(sorted(kinds.items(), key=lambda item: (-sum(item[1].values()), item[0])))


def _causes(kinds: Mapping[Cause, Mapping[str, int]]) -> dict[Cause, int]:
    return {cause: sum(many.values()) for cause, many in kinds.items()}


def _by_cause(losses: Sequence[Example]) -> tuple[Example, ...]:
    causes = list(kinds_of(losses))
    return tuple(sorted(losses, key=lambda loss: causes.index(loss.cause)))


class _Collected:
    def __init__(self, run: Results, infos: Mapping[str, ArmInfo], pairs: Sequence[ArmPair], alone: Sequence[str]) -> None:
        self._traces, self._limits, self._infos = Traces(run.folder), run.manifest.step_limits, infos
        self._counts: dict[ArmPair, Counter[tuple[bool, bool]]] = {pair: Counter() for pair in pairs}
        self._tasks: dict[ArmPair, set[str]] = {pair: set() for pair in pairs}
        self._parted: defaultdict[tuple[ArmPair, str], list[Divergence]] = defaultdict(list)
        """By pair and loser."""
        self._alone: dict[str, list[LostTrial]] = {arm: [] for arm in alone}
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
            if record.arm in self._ended:
                self._ended[record.arm][record.reason or record.stop or ""] += 1
            return
        trial = TracedTrial(self._traces.read(record), record, limit=self._limits.get(record.arm))
        if record.arm in self._alone:
            info, loss = self._infos[record.arm], explain(trial)
            solved_by = sum(each.is_solved and _group(self._infos[each.arm]) == _group(info) for each in cell)
            of: dict[str, Any] = {"task": record.task, "repeat": record.repeat, "stop": record.stop, "solved_by": solved_by}
            self._alone[record.arm].append(LostTrial(**vars(loss.of(info.subject)), **of))
        for pair, winner, steps in winners:
            if steps:
                parted = divergence(winner, steps, trial) or _same_course(winner, record, len(trial.course))
                self._parted[pair, record.arm].append(parted.of(self._infos[record.arm].subject))

    def pair(self, pair: ArmPair) -> PairLosses:
        """Return what two arms lost to each other."""
        counts = self._counts[pair]
        parted = {arm: self._parted[pair, arm] for arm in pair}
        return PairLosses(
            *pair,
            both=counts[True, True],
            only_a=counts[True, False],
            only_b=counts[False, True],
            neither=counts[False, False],
            tasks=len(self._tasks[pair]),
            causes={arm: _causes(kinds_of(own)) for arm, own in parted.items()},
            divergences=tuple(each for own in parted.values() for each in _by_cause(own)),
        )

    def arms(self, records: Sequence[Record]) -> tuple[ArmLosses, ...]:
        """Return the losses of each arm, in order."""
        scored = [record for record in records if record.status == "scored"]
        trials = Counter(record.arm for record in scored)
        lost = Counter(record.arm for record in scored if not record.is_solved)
        errored: dict[str, Counter[str]] = {arm: Counter() for arm in self._alone}
        for record in (record for record in records if record.status == "errored" and record.arm in errored):
            errored[record.arm][record.reason] += 1
        kinds = {arm: kinds_of(own) for arm, own in self._alone.items()}
        rates = base_rates(self._traces, records, {arm: _causes(own) for arm, own in kinds.items()})
        return tuple(
            ArmLosses(
                arm=arm,
                trials=trials[arm],
                lost=lost[arm],
                causes=_causes(kinds[arm]),
                kinds=kinds[arm],
                examples=_by_cause(own),
                ended=dict(self._ended[arm]),
                errored=dict(errored[arm]),
                base_rates=rates[arm],
            )
            for arm, own in self._alone.items()
        )


# --- base rates: how common the causes are among solved trials ---


def base_rates(
    traces: Traces, records: Sequence[Record], named: Mapping[str, Mapping[Cause, int]]
) -> dict[str, dict[Cause, BaseRate]]:
    """Ask the rules that name the cause of a loss about solved trials, too: what would they have named, had it been lost?

    Return the base rates of each arm's causes; none of those in `LOST_ONLY`, nor of an arm without the trace of a solved trial.

    `named`: arm → cause → trials lost to it. Raises RunError for an invalid trace.
    """
    arms = {arm for arm, causes in named.items() if not LOST_ONLY.issuperset(causes)}
    solved: dict[str, list[Record]] = {}
    for record in records:
        if record.arm in arms and record.status == "scored" and record.is_solved and record.trace_at:
            solved.setdefault(record.arm, []).append(record)
    most = max(MAX_SOLVED // max(len(arms), 1), MIN_SOLVED)
    shown: dict[str, Counter[Cause]] = {arm: Counter() for arm in named}
    for arm, own in solved.items():
        spread = own if len(own) <= most else [own[-(-place * len(own) // most) - 1] for place in range(1, most + 1)]
        shown[arm].update(explain(TracedTrial(traces.read(record), record)).cause for record in spread)
    looked_at = {arm: causes.total() for arm, causes in shown.items()}
    return {
        arm: {
            cause: BaseRate(
                many, sum(causes.values()), shown[arm][cause], looked_at[arm], is_sample=looked_at[arm] < len(solved[arm])
            )
            for cause, many in causes.items()
            if looked_at[arm] and cause not in LOST_ONLY
        }
        for arm, causes in named.items()
    }


def _same_course(winner: str, record: Record, step: int) -> Divergence:
    """Explain a loss under a scorer that does not depend on the steps."""
    detail = "both took the same course, and were scored differently"
    of: dict[str, Any] = {"loser": record.arm, "task": record.task, "repeat": record.repeat, "stop": record.stop}
    return Divergence(winner=winner, step=step, parts_at=step, cause="other", detail=detail, **of)
