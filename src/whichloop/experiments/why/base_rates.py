"""How common the causes of an arm's losses are among the trials that it solved.

The rules that name the cause of a loss are asked about solved trials, too: what would they have named, had the trial been lost? A
cause that they name there as often has cost nothing that the counts can show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whichloop.metrics.record import Record
from whichloop.metrics.statistics import ALPHA, fisher_greater
from whichloop.metrics.trajectory.causes import Cause
from whichloop.metrics.trajectory.divergence import explain
from whichloop.metrics.trajectory.traced_trial import TracedTrial
from whichloop.runs.store.trials import Traces

MAX_SOLVED = 150
"""Solved trials of a run that are looked at, as many of each arm, evenly spread over its tasks: to read all takes several times as
long as to explain the losses."""
MIN_SOLVED = 30
"""Solved trials of an arm that are looked at however many arms there are."""
AS_OFTEN = 0.5
"""Of the share of lost trials: a cause that a smaller share of solved trials shows is not called in doubt."""
LOST_ONLY: frozenset[Cause] = frozenset({"time limit", "budget", "crash", "answer refused", "other"})
"""Causes that only a lost trial can have, so that they have no base rate."""


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


def base_rates(
    traces: Traces, records: Sequence[Record], named: Mapping[str, Mapping[Cause, int]]
) -> dict[str, dict[Cause, BaseRate]]:
    """Return the base rates of each arm's causes; none of those in `LOST_ONLY`, nor of an arm without the trace of a solved trial.

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
