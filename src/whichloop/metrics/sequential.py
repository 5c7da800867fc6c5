"""Sequential stopping: a comparison that is looked at several times on its way, and may end early, at no more error than once.

Tasks are asked in an order drawn from the run's seed, so that the first ones are a random sample of all; a look follows after each
equal share of them. Alpha is spent over the looks as `spending` says. Each look tests, and draws its intervals, at its own level;
what a look has decided is kept, with the numbers of that look.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

from whichloop.datasets.generating import Draw
from whichloop.protocol.values import counted

from .arm_info import ArmInfo
from .comparison import Comparison, compare
from .paired import LookLevel
from .pairs import Pair, undecided
from .record import Record
from .record_table import of_tasks
from .statistics import ALPHA
from .summary import PRIMARY


@dataclass(frozen=True)
class Looks:
    """When a run is looked at."""

    order: tuple[str, ...]
    """The ids of all tasks, as they are asked."""
    ends: tuple[int, ...]
    """How many tasks of them a look has seen; the last one has seen all."""

    @classmethod
    def planned(cls, tasks: Sequence[str], looks: int, seed: int) -> Looks:
        """Return equal shares of the tasks, in an order drawn from the seed. Raises ValueError for fewer tasks than looks."""
        if len(tasks) < looks:
            raise ValueError(f"looks: {looks} of them need as many tasks, and there are {len(tasks)}")
        ends = tuple(len(tasks) * look // looks for look in range(1, looks + 1))
        return cls(tuple(Draw(seed, "looks").shuffled(tasks)), ends)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Looks:
        """Read the JSON of a plan. Raises KeyError, TypeError or ValueError for what is no such plan."""
        looks = cls(tuple(data["order"]), tuple(data["ends"]))
        if not all(type(end) is int for end in looks.ends):
            raise TypeError("the ends of looks are whole numbers")
        rising = all(before < after for before, after in pairwise((0, *looks.ends, len(set(looks.order)) + 1)))
        if not (rising and looks.ends[-1:] == (len(looks.order),)):
            raise ValueError("the plan of looks does not fit its tasks")
        return looks

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; `from_json` reads it back."""
        return {"order": list(self.order), "ends": list(self.ends)}

    @property
    def count(self) -> int:
        return len(self.ends)

    @cached_property
    def _look_of(self) -> Mapping[str, int]:
        """Task → the first look, from 1, that has seen it."""
        return {task: look for look in range(1, self.count + 1) for task in self.stage(look)}

    def level(self, look: int) -> LookLevel:
        """Return what a look, counted from 1, may spend of alpha."""
        return LookLevel(tuple(end / len(self.order) for end in self.ends[:look]))

    def seen(self, look: int) -> frozenset[str]:
        """Return the tasks that a look, from 1, has seen."""
        return frozenset(self.order[: self.ends[look - 1]])

    def stage(self, look: int) -> tuple[str, ...]:
        """Return the tasks that a look, from 1, is the first to see."""
        return self.order[self.ends[look - 2] if look > 1 else 0 : self.ends[look - 1]]

    def look_of(self, task: str) -> int:
        """Return the first look, from 1, that has seen a task. Raises KeyError for one that is not planned."""
        return self._look_of[task]

    def reached(self, done: Collection[str]) -> int:
        """Return the last look, from 1, all of whose tasks are done; 0 where that is none."""
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
    """Of the test and interval of a single pair: at that look, or on the way to the next, at that one."""
    between: bool
    """On the way from one look to the next: what is seen there decides nothing."""
    stopped: bool = False
    """Ended before the last look, every pair being decided."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)

    @property
    def remark(self) -> str:
        """What a reader has to know of the numbers of a run that was looked at."""
        share = f"level {self.level:.2g}, what is left to it of alpha (O'Brien-Fleming-type spending)"
        if self.between:
            return f"On the way to look {self.reached + 1} of {self.planned}: nothing is decided before it; {share}."
        return f"Look {self.reached} of {self.planned}, after {counted(self.tasks, 'task')}: tests and intervals are at {share}."


def looked(looks: Looks, trials: Mapping[str, int], per_task: int, alpha: float = ALPHA) -> Looked:
    """Return how far a run is looked at. Whether it stopped there, its verdicts say.

    `trials`: task → trials that have come to an end, of `per_task` for each. Raises KeyError for a task that is not planned.
    """
    reached = looks.reached({task for task, count in trials.items() if count >= per_task})
    between = not reached or any(looks.look_of(task) > reached for task in trials)
    level = looks.level(reached + between).nominal(alpha)
    return Looked(reached, looks.count, looks.ends[reached - 1] if reached else 0, level, between)


def all_decided(comparison: Comparison) -> bool:
    """Whether every pair that the comparison is about has a verdict on the primary metric."""
    air = [(arm.info.suite, arm.info.profile) for arm in comparison.arms]
    wanted = sum(a == b for a, b in combinations(air, 2))
    words = [pair.verdict.word for pair in comparison.pairs_on(PRIMARY)]
    return not comparison.invalid and 0 < len(words) == wanted and "undecided" not in words


def compare_at_looks(
    records: Sequence[Record], arms: Sequence[ArmInfo], looks: Looks, at: Looked, *, alpha: float, margin: float
) -> Comparison:
    """Compare all that there is.

    A pair that a look has decided keeps that verdict and its numbers; no other has a verdict between looks. A look at which the run
    was invalid has decided nothing. Raises as `compare` does.
    """
    decided: dict[tuple[str, str, str], Pair] = {}
    for look in range(1, at.reached + 1):
        seen = looks.seen(look)
        then = compare(of_tasks(records, seen), arms, alpha=alpha, margin=margin, look=looks.level(look))
        for pair in () if then.invalid else then.pairs:
            if pair.verdict.word != "undecided":
                decided.setdefault((pair.a, pair.b, pair.metric), replace(pair, look=look))
    now = compare(records, arms, alpha=alpha, margin=margin, look=looks.level(at.reached + at.between))
    pairs = (decided.get((pair.a, pair.b, pair.metric), undecided(pair) if at.between else pair) for pair in now.pairs)
    pooled = tuple(map(undecided, now.pooled)) if at.between else now.pooled
    return replace(now, pairs=tuple(pairs), pooled=pooled)
