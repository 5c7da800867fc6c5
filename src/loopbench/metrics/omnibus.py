"""One question about three arms or more: does any of them differ? Reported beside the pairs; no verdict depends on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats
from statsmodels.stats.contingency_tables import cochrans_q

from .statistics import Floats, unit_groups
from .summary import TaskValues

MIN_ARMS = 3
_DIGITS = 9
"""Means of equal scores differ by a rounding error, which is no rank."""

Test = Literal["Cochran's Q", "Friedman"]


@dataclass(frozen=True, slots=True)
class Omnibus:
    """A test that arms of one suite and profile are all equally accurate."""

    suite: str
    profile: str
    arms: tuple[str, ...]
    test: Test
    statistic: float
    """χ² with `df` degrees of freedom where nothing differs."""
    df: int
    p: float
    n: int
    """Units of inference: the tasks scored in every arm, or their clusters."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self) | {"arms": list(self.arms)}


def omnibus(suite: str, profile: str, values: Mapping[str, TaskValues]) -> Omnibus | None:
    """Test one group of arms (arm → its scores); None under three arms with a scored task, or without a task scored in all of them.

    Cochran's Q (1950) where each task is a unit and has one 0/1 score per arm; else Friedman's test (1937) on the means of units.
    """
    known = {arm: found for arm, found in values.items() if found.values}
    tasks = _common(list(known.values()))
    if len(known) < MIN_ARMS or not tasks:
        return None
    clusters = next(iter(known.values())).clusters
    groups = unit_groups([clusters[task] for task in tasks], len(tasks))
    by_arm = [found.means for found in known.values()]
    means = np.array([[found[task] for found in by_arm] for task in tasks])
    single = all(len(found.values[task]) == 1 for found in known.values() for task in tasks)
    binary = groups is None and single and bool(np.isin(means, (0.0, 1.0)).all())
    units = means if groups is None else _unit_means(means, groups)
    test: Test = "Cochran's Q" if binary else "Friedman"
    statistic, p = cochran(units) if binary else friedman(units)
    return Omnibus(suite, profile, tuple(known), test, statistic, len(known) - 1, p, len(units))


def cochran(outcomes: Floats) -> tuple[float, float]:
    """Cochran's Q and its p from 0/1 `outcomes[task, arm]`; 0 and 1 where no task tells arms apart."""
    if (outcomes == outcomes[:, :1]).all():
        return 0.0, 1.0
    found = cochrans_q(outcomes)
    return float(found.statistic), float(found.pvalue)


def friedman(means: Floats) -> tuple[float, float]:
    """Friedman's statistic, corrected for ties, and its p from `means[unit, arm]`; 0 and 1 where no unit tells arms apart."""
    rounded = np.round(means, _DIGITS)
    if (rounded == rounded[:, :1]).all():
        return 0.0, 1.0
    found = stats.friedmanchisquare(*rounded.T)
    return float(found.statistic), float(found.pvalue)


def _common(values: Sequence[TaskValues]) -> list[str]:
    return [task for task in values[0].values if all(task in found.values for found in values)] if values else []


def _unit_means(means: Floats, groups: np.ndarray[Any, np.dtype[np.int64]]) -> Floats:
    sizes = np.bincount(groups)
    return np.stack([np.bincount(groups, weights=column) / sizes for column in means.T], axis=1)
