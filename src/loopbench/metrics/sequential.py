"""Sequential stopping: a comparison that is looked at several times on its way, and may end early, at no more error than once.

Tasks are asked in an order drawn from the run's seed, so that the first ones are a random sample of all; a look follows after each
equal share of them. Alpha is spent over the looks by a spending function of the O'Brien-Fleming type (Lan & DeMets 1983, Biometrika
70:659-663): little at first, most at the end. Each look tests, and draws its intervals, at its own part of alpha. The parts add up
to alpha, so the bound on the familywise error holds however the looks depend on each other; a boundary computed from their
correlation would spend a little more.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

from scipy import stats

from loopbench.datasets.generating import Draw

from .comparison import Comparison
from .statistics import ALPHA

MIN_SPENT = 1e-6
"""Share of alpha that a look at all tasks would have at least, so that no quantile is infinite."""


def spent(share: float, alpha: float = ALPHA) -> float:
    """Alpha that is spent up to a share of the tasks: 2 - 2Φ(z_{α/2}/√t) (Lan & DeMets 1983); all of it at the end.

    Raises ValueError unless 0 < share <= 1 and 0 < alpha < 1.
    """
    if not (0 < share <= 1 and 0 < alpha < 1):
        raise ValueError(f"share {share!r} and alpha {alpha!r} must lie between 0 and 1")
    if share == 1:
        return alpha
    return max(float(2 * stats.norm.sf(stats.norm.isf(alpha / 2) / math.sqrt(share))), MIN_SPENT * share * alpha)


def levels(shares: Sequence[float], alpha: float = ALPHA) -> tuple[float, ...]:
    """The level of each look, from the shares of the tasks after which they are, which rise; their sum is at most alpha."""
    sums = [0.0, *(spent(share, alpha) for share in shares)]
    return tuple(after - before for before, after in pairwise(sums))


@dataclass(frozen=True)
class Looks:
    """When a run is looked at, and at what level."""

    order: tuple[str, ...]
    """The ids of all tasks, as they are asked."""
    ends: tuple[int, ...]
    """How many tasks of them a look has seen; the last one has seen all."""
    levels: tuple[float, ...]

    @classmethod
    def planned(cls, tasks: Sequence[str], looks: int, alpha: float, seed: int) -> Looks:
        """Equal shares of the tasks, in an order drawn from the seed. Raises ValueError for fewer tasks than looks."""
        if len(tasks) < looks:
            raise ValueError(f"looks: {looks} of them need as many tasks, and there are {len(tasks)}")
        ends = tuple(len(tasks) * look // looks for look in range(1, looks + 1))
        return cls(tuple(Draw(seed, "looks").shuffled(tasks)), ends, levels([end / len(tasks) for end in ends], alpha))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Looks:
        """Raises KeyError, TypeError or ValueError for what is no such plan."""
        made = cls(tuple(data["order"]), tuple(data["ends"]), tuple(data["levels"]))
        rising = all(before < after for before, after in pairwise((0, *made.ends, len(set(made.order)) + 1)))
        if not (rising and made.ends[-1:] == (len(made.order),) and len(made.ends) == len(made.levels)):
            raise ValueError("the plan of looks does not fit its tasks")
        return made

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; `from_json` reads it back."""
        return {"order": list(self.order), "ends": list(self.ends), "levels": list(self.levels)}

    @property
    def count(self) -> int:
        return len(self.ends)

    @cached_property
    def _look_of(self) -> Mapping[str, int]:
        """Task → the first look, from 1, that has seen it."""
        return {task: look for look in range(1, self.count + 1) for task in self.stage(look)}

    def stage(self, look: int) -> tuple[str, ...]:
        """The tasks that a look, from 1, is the first to see."""
        return self.order[self.ends[look - 2] if look > 1 else 0 : self.ends[look - 1]]

    def look_of(self, task: str) -> int:
        """The first look, from 1, that has seen a task. Raises KeyError for one that is not planned."""
        return self._look_of[task]

    def reached(self, done: Collection[str]) -> int:
        """The last look, from 1, all of whose tasks are done; 0 where that is none."""
        missing = next((task for task in self.order if task not in done), None)
        return self.count if missing is None else self.look_of(missing) - 1


@dataclass(frozen=True, slots=True)
class Looked:
    """How far a run has come that is looked at on its way."""

    reached: int
    """The last look whose tasks are done; 0 before the first."""
    planned: int
    tasks: int
    """That the last look has seen."""
    level: float
    """Of tests and intervals: of that look, or on the way to the next, of that one."""
    between: bool
    """On the way from one look to the next: what is seen there decides nothing."""
    stopped: bool = False
    """Ended before the last look, every pair being decided."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @property
    def remark(self) -> str:
        """What a reader has to know of the numbers."""
        share = f"level {self.level:.2g}, its part of alpha (O'Brien-Fleming-type spending)"
        if self.between:
            return f"On the way to look {self.reached + 1} of {self.planned}: nothing is decided before it; {share}."
        return f"Look {self.reached} of {self.planned}, after {self.tasks} tasks: tests and intervals are at {share}."


def looked(looks: Looks, trials: Mapping[str, int], per_task: int) -> Looked:
    """`trials`: task → trials that have come to an end, of `per_task` for each. Whether the run stopped there, its verdicts say.

    Raises KeyError for a task that is not planned.
    """
    reached = looks.reached({task for task, count in trials.items() if count >= per_task})
    between = not reached or any(looks.look_of(task) > reached for task in trials)
    level = looks.levels[reached if between else reached - 1]
    return Looked(reached, looks.count, looks.ends[reached - 1] if reached else 0, level, between)


def all_decided(found: Comparison) -> bool:
    """Whether every pair that the comparison is about has a verdict on the primary metric."""
    air = [(arm.info.suite, arm.info.profile) for arm in found.arms]
    wanted = sum(a == b for a, b in combinations(air, 2))
    words = [pair.verdict.word for pair in found.pairs if pair.family == "primary"]
    return not found.invalid and 0 < len(words) == wanted and "undecided" not in words
