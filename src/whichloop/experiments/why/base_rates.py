"""How common the causes of an arm's losses are among the trials that it solved.

The rules that name the cause of a loss are asked about solved trials, too: what would they have named, had the trial been lost? A
cause that they name there as often has cost nothing that the counts can show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whichloop.metrics.record import Record
from whichloop.metrics.record_table import where
from whichloop.metrics.statistics import ALPHA, fisher_greater
from whichloop.metrics.trajectory.causes import Cause
from whichloop.metrics.trajectory.divergence import explain, read_trial
from whichloop.runs.store.traces import Traces

MAX_SOLVED = 150
"""Solved trials of a run that are looked at, as many of each arm, evenly spread over its tasks: to read all takes several times as
long as to explain the losses."""
MIN_SOLVED = 30
"""Solved trials of an arm that are looked at however many arms there are."""
AS_OFTEN = 0.5
"""Of the share of lost trials: a cause that a smaller share of solved trials shows is not called in doubt."""
LOST_ONLY: Mapping[Cause, str] = {
    "time limit": "a trial that overran its time limit is never solved",
    "budget": "a trial that overran its budget or the model's context is never solved",
    "crash": "a trial that crashed has no answer",
    "other": "what is left is a wrong answer, or none",
}
"""Causes that only a lost trial can have → why; they have no base rate."""


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
        """Return plain JSON."""
        counts = {"lost": self.lost, "of_lost": self.of_lost, "solved": self.solved, "of_solved": self.of_solved}
        return counts | {"sample": self.is_sample, "p": self.p, "doubtful": self.is_doubtful}


BaseRates = Mapping[Cause, BaseRate]


@dataclass(frozen=True, slots=True)
class SolvedTrials:
    """What the rules name in the solved trials of one arm."""

    traced: int = 0
    """Solved trials with a trace."""
    causes: Counter[Cause] = field(default_factory=Counter)
    """Cause → in how many of those that were looked at."""


def solved_trials(traces: Traces, records: Sequence[Record], arms: Collection[str]) -> dict[str, SolvedTrials]:
    """Look at solved trials of these arms. Raises RunError for an invalid trace."""
    solved = where(records, lambda record: record.arm in arms and record.status == "scored" and record.is_solved)
    traced = Counter(record.arm for record in _traced(solved))
    looked_at = {arm: SolvedTrials(traced[arm]) for arm in arms}
    for record in _spread(_traced(solved), traced, max(MAX_SOLVED // max(len(arms), 1), MIN_SOLVED)):
        looked_at[record.arm].causes[explain(read_trial(traces.read(record), record)).cause] += 1
    return looked_at


def base_rates(traces: Traces, records: Sequence[Record], named: Mapping[str, Mapping[Cause, int]]) -> dict[str, BaseRates]:
    """Return the base rates of each arm's causes; none of those in `LOST_ONLY`, nor of an arm without the trace of a solved trial.

    `named`: arm → cause → trials lost to it. Raises RunError for an invalid trace.
    """
    solved = solved_trials(traces, records, {arm for arm, causes in named.items() if not set(causes) <= set(LOST_ONLY)})
    return {arm: _rates(causes, solved.get(arm, SolvedTrials())) for arm, causes in named.items()}


def _rates(named: Mapping[Cause, int], solved: SolvedTrials) -> BaseRates:
    of_lost, of_solved = sum(named.values()), solved.causes.total()
    return {
        cause: BaseRate(many, of_lost, solved.causes[cause], of_solved, is_sample=of_solved < solved.traced)
        for cause, many in named.items()
        if of_solved and cause not in LOST_ONLY
    }


def _traced(records: Iterable[Record]) -> Iterator[Record]:
    return (record for record in records if record.trace_at is not None)


def _spread(records: Iterable[Record], trials: Mapping[str, int], most: int) -> Iterator[Record]:
    """Yield of each arm at most so many records, evenly spread over those that it has, in one pass through the file."""
    counts: Counter[str] = Counter()
    for record in records:
        place, many = counts[record.arm], max(trials[record.arm], most)
        counts[record.arm] += 1
        if place * most // many != (place + 1) * most // many:
            yield record
