"""What a solved task costs one arm against another: a paired ratio over the tasks that both ran, with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .amounts import AmountLaw, are_too_few
from .bootstrap import unit_sums
from .statistics import ALPHA, Clusters, Floats, Interval
from .summary import TaskValues

UNITS = frozenset({"nominal_usd", "cost_usd", "tokens"})
"""Measures that the cost of a solved task is told in."""


@dataclass(frozen=True, slots=True)
class SolvedCosts:
    """What arms solved and spent on each task."""

    solved: Mapping[str, TaskValues] = field(default_factory=dict)
    """Arm → its accuracy."""
    spent: Mapping[str, Mapping[str, TaskValues]] = field(default_factory=dict)
    """Unit of costs → arm → its costs."""
    level: float = ALPHA
    """Of the interval of one pair, adjusted for all pairs of the run (Bonferroni)."""

    def ratio(self, a: Sequence[str], b: Sequence[str], unit: str) -> Interval | None:
        """Return the cost of a solved task in one loop's arms over that in another's, of which each meets the other's conditions.

        None where that is not known: costs are not, a loop solved nothing, or tasks are too few for an interval.
        """
        values = self._values(a, b, unit)
        if not values:
            return None
        clusters = {task: self.solved[arm].clusters[task] for arm in a for task in values if task in self.solved[arm].clusters}
        return log_ratio(np.array([*values.values()]), [clusters[task] for task in values], self.level)

    def _values(self, a: Sequence[str], b: Sequence[str], unit: str) -> dict[str, Floats]:
        """Return what each task adds to the costs and scores of both, every condition alike."""
        sums_by_task: dict[str, Floats] = {}
        for one, other in zip(a, b, strict=True):
            means = [
                values[arm].means for values in (self.spent.get(unit, {}), self.solved) for arm in (one, other) if arm in values
            ]
            tasks = [task for task in means[0] if all(task in each for each in means)] if len(means) == 4 else []
            if not tasks:
                return {}
            for task in tasks:
                sums_by_task[task] = sums_by_task.get(task, 0.0) + np.array([each[task] for each in means]) / len(tasks)
        return sums_by_task


NO_SOLVED_COSTS = SolvedCosts()


def log_ratio(values: Floats, clusters: Clusters, alpha: float) -> Interval | None:
    """Return Σcost_a·Σsolved_b / (Σcost_b·Σsolved_a) with the interval of its logarithm by the delta method, as of a mean amount.

    `values[task]`: cost of a, cost of b, solved by a, solved by b. None where one of the sums is 0, or units are too few.
    """
    sums = unit_sums(values, clusters)
    units, totals = len(sums), sums.sum(0)
    if np.any(totals <= 0) or are_too_few(units, alpha):
        return None
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    middle, influence = float(signs @ np.log(totals)), units * (sums / totals) @ signs
    below, above = (AmountLaw(turn * influence).low(alpha / 2) for turn in (1, -1))
    return Interval(math.exp(middle), math.exp(middle + min(below, 0.0)), math.exp(middle - min(above, 0.0)), len(values))
