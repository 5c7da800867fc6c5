"""Estimates, intervals, tests and verdicts over tasks.

The unit of inference is the task: repeats are reduced to one mean per task first. `clusters` names, per task, the template that it
shares with others; an empty name is a cluster of its own. Tasks of one cluster count as one unit wherever a spread is estimated;
the estimate itself stays the mean over tasks. Where all tasks share one cluster no spread between clusters can be had, and the
tasks are the units again: the numbers then speak about that template only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

ALPHA = 0.05
NO_SPREAD = 1e-12
"""A standard error of scores, or a relative one, that is no more than a rounding error."""

Floats = NDArray[np.float64]
Clusters = Sequence[str] | None
VerdictWord = Literal["better", "worse", "equivalent", "undecided"]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence interval: low <= value <= high. Where there is none, its ends are infinite."""

    value: float
    low: float
    high: float
    n: int
    """What was counted: tasks, or events where the interval is one of events."""
    units: int | None = None
    """Clusters that the tasks are in, where tasks share them: then they are the units. None otherwise."""

    @property
    def is_known(self) -> bool:
        """Whether there is an interval: too few tasks have none."""
        return math.isfinite(self.low)

    @property
    def ends(self) -> tuple[float, ...]:
        """The finite ends, which a chart can show."""
        return tuple(end for end in (self.low, self.high) if math.isfinite(end))

    def as_dict(self) -> dict[str, float | int | None]:
        """Return plain JSON, whose zeros have no sign; an end that only a test keeps from 0 is 0, and an infinite one None.

        `clusters` stands in it only where tasks share them.
        """
        low, high = (None if math.isinf(end) else 0.0 if abs(end) <= NO_SPREAD else end for end in (self.low, self.high))
        plain = {"value": self.value + 0.0, "low": low, "high": high, "n": self.n}
        return plain if self.units is None else plain | {"clusters": self.units}

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Interval:
        """Return the interval that `as_dict` wrote."""
        low, high = written["low"], written["high"]
        ends = -math.inf if low is None else low, math.inf if high is None else high
        return cls(written["value"], *ends, written["n"], written.get("clusters"))

    @property
    def turned(self) -> Interval:
        """The interval of the negative: of b minus a where this is one of a minus b."""
        return Interval(0.0 - self.value, 0.0 - self.high, 0.0 - self.low, self.n, self.units)


def interval_json(interval: Interval | None) -> dict[str, float | int | None] | None:
    """Return an interval as plain JSON; None, where nothing is known, stays None."""
    return None if interval is None else interval.as_dict()


class Plain:
    """A dataclass that JSON writes by the names of its fields, with intervals as `Interval.as_dict` has them."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        names = (field.name for field in fields(self))  # type: ignore[arg-type]  # each class of this kind is a dataclass
        return {name: plain(getattr(self, name)) for name in names}


def plain(value: Any) -> Any:
    """Return a result, or what is made of several, as plain JSON; what knows its own form has that."""
    if isinstance(value, Interval):
        return value.as_dict()
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def wilson(successes: float, n: float, alpha: float = ALPHA) -> tuple[float, float]:
    """Score interval of a proportion (Wilson 1927), (low, high); both counts may be real-valued, as effective sizes are.

    Raises ValueError unless 0 <= successes <= n and n > 0.
    """
    if not (n > 0 and 0 <= successes <= n):
        raise ValueError(f"{successes!r} successes of {n!r}")
    share, z = successes / n, float(scipy.special.ndtri(1 - alpha / 2))
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return min(max(middle - half, 0.0), share), max(min(middle + half, 1.0), share)


def clopper_pearson(successes: float, n: float, alpha: float = ALPHA) -> tuple[float, float]:
    """Return the exact interval of a proportion (Clopper & Pearson 1934), (low, high); both counts may be real-valued, as effective
    sizes are.

    Raises ValueError unless 0 <= successes <= n and n > 0.
    """
    if not (n > 0 and 0 <= successes <= n):
        raise ValueError(f"{successes!r} successes of {n!r}")
    low = float(scipy.special.betaincinv(successes, n - successes + 1, alpha / 2)) if successes > 0 else 0.0
    high = float(scipy.special.betaincinv(successes + 1, n - successes, 1 - alpha / 2)) if successes < n else 1.0
    share = successes / n
    return min(low, share), max(high, share)


def event_rate(events: int, n: int, alpha: float = ALPHA) -> Interval | None:
    """Return the share of independent events with Clopper and Pearson's interval; None for no events."""
    if n == 0:
        return None
    low, high = clopper_pearson(events, n, alpha)
    return Interval(events / n, low, high, n)


def fisher_greater(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Return the one-sided p-value of Fisher's exact test (1935): the chance that one share is this much larger, were both equal.

    `one`, `other`: events, and the independent trials that they are of. Raises ValueError unless 0 <= events <= trials.
    """
    (a, n), (b, m) = one, other
    if not (0 <= a <= n and 0 <= b <= m):
        raise ValueError(f"{a!r} of {n!r} and {b!r} of {m!r}")
    counts = np.arange(a, min(n, a + b) + 1)
    logs = log_choices(n, counts) + log_choices(m, a + b - counts) - log_choices(n + m, a + b)
    return min(float(np.exp(logs).sum()), 1.0)


def log_choices(n: float, k: ArrayLike) -> Floats:
    """Return the logarithms of the numbers of ways to choose k of n."""
    counts, gammaln = np.asarray(k, dtype=np.float64), scipy.special.gammaln
    return np.asarray(gammaln(n + 1.0) - gammaln(counts + 1.0) - gammaln(n - counts + 1.0), dtype=np.float64)


def accuracy_interval(scores: Sequence[Sequence[float]], clusters: Clusters = None, alpha: float = ALPHA) -> Interval:
    """Return the mean over tasks of scores in [0, 1], `scores[task][repeat]`; never of zero width.

    Clopper & Pearson's interval (1934) on the effective number of tasks, as Korn & Graubard (1998) do. For one 0/1 score per task
    that is their number; else n p(1-p)/s², of 0/1 scores at most the number of trials, where n units (tasks, or clusters that share
    a template) have the variance s². A unit that goes wholly the rarer way is added for it: near the ceiling the few that failed do
    not show how unlike units are.
    Raises ValueError for no tasks, a task without score, or scores outside of [0, 1].
    """
    if not scores or not all(len(task) for task in scores):
        raise ValueError("at least one task is needed, and at least one score per task")
    means = np.array([math.fsum(task) / len(task) for task in scores])
    flat = np.concatenate([np.asarray(task, float) for task in scores])
    if flat.min() < 0 or flat.max() > 1:
        raise ValueError("scores must lie in [0, 1]")
    value = float(np.clip(means.mean(), 0.0, 1.0))
    units = unit_values(means, clusters)
    rare = 1 - units if value > 0.5 else units
    mean = (float(rare.sum()) + 1) / (len(rare) + 1)
    variance = (float((rare**2).sum()) + len(units) / equal_units(clusters, len(means))) / (len(rare) + 1) - mean**2
    effective = len(units) * mean * (1 - mean) / variance
    if np.isin(flat, (0.0, 1.0)).all():
        effective = min(effective, float(len(flat)))
    low, high = clopper_pearson(value * effective, effective, alpha)
    return Interval(value, low, high, len(means), shared_units(len(units), len(means)))


def equal_units(clusters: Clusters, n: int) -> float:
    """Return how many units of equal size the n tasks are worth: n²/Σm² for units of m tasks (Kish 1965)."""
    groups = unit_groups(clusters, n)
    return float(n) if groups is None else n**2 / float((np.bincount(groups) ** 2).sum())


def standard_error(values: ArrayLike, clusters: Clusters = None) -> float:
    """Return the error of a mean over tasks: √(Σ(x - x̄)²/(n(n-1))) (Miller 2024, arXiv:2411.00640, §2), of clustered values the
    one over clusters, CR1 (Liang & Zeger 1986), which Inspect reports; 0 for one value."""
    units = unit_values(as_array(values), clusters)
    return float(np.std(units, ddof=1)) / math.sqrt(len(units)) if len(units) > 1 else 0.0


def independent_difference(a: Interval, b: Interval) -> Interval:
    """Return a minus b of two independent samples, at the confidence of either interval, by MOVER (Zou & Donner 2008, Statistics in
    Medicine 27, 1693), which takes each end's distance from its estimate for what chance does on that side."""
    value = a.value - b.value
    below, above = math.hypot(a.value - a.low, b.high - b.value), math.hypot(a.high - a.value, b.value - b.low)
    return Interval(value, value - below, value + above, a.n + b.n)


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """What may be said of a against b."""

    word: VerdictWord
    within_margin: bool
    """The difference is shown to be smaller than the margin; it may be significant all the same."""


def verdict(advantage: float, p_holm: float, p_equivalence_holm: float, alpha: float = ALPHA) -> PairVerdict:
    """Return the verdict: better or worse iff p_holm < alpha; else equivalent iff both one-sided tests pass; else undecided.

    `advantage`: a minus b, turned so that positive is good. Both p values are adjusted over the family.
    """
    within = p_equivalence_holm < alpha
    if p_holm < alpha and advantage != 0:
        return PairVerdict("better" if advantage > 0 else "worse", within)
    return PairVerdict("equivalent" if within else "undecided", within)


def unit_count(clusters: Sequence[str]) -> int:
    """Return how many units of inference the tasks make that belong to these clusters."""
    groups = unit_groups(clusters, len(clusters))
    return len(clusters) if groups is None else int(groups.max()) + 1


def shared_units(units: int, tasks: int) -> int | None:
    """Return the number of units where tasks share them; None where each task is one."""
    return units if units < tasks else None


def same_units(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether clusters of the same tasks, named in two ways, make the same units of inference."""
    groups = (unit_groups(clusters, len(clusters)) for clusters in (one, other))
    own, others = (np.arange(len(one)) if group is None else group for group in groups)
    return np.array_equal(own, others)


def unit_groups(clusters: Clusters, n: int) -> NDArray[np.int64] | None:
    """Return the number of each task's unit, from 0; None where each task is one: no clusters, none shared, or one that all share.

    Raises ValueError where `clusters` does not name one for each of the n tasks.
    """
    if clusters is None or (len(clusters) == n and not any(clusters)):
        return None
    if len(clusters) != n:
        raise ValueError(f"{len(clusters)} clusters for {n} tasks")
    numbers: dict[str | int, int] = {}
    groups = np.array([numbers.setdefault(name or place, len(numbers)) for place, name in enumerate(clusters)])
    return None if int(groups.max()) + 1 in (1, n) else groups


@lru_cache(maxsize=64)
def z_quantile(tail: float) -> float:
    """Return the normal quantile above which this share of the values lies."""
    return -float(scipy.special.ndtri(tail))


@lru_cache(maxsize=1024)
def student_quantile(tail: float, df: int) -> float:
    """Return the quantile of Student's t above which this share of the values lies."""
    return -float(scipy.special.stdtrit(df, tail))


def as_array(values: ArrayLike) -> Floats:
    """Return the values of tasks as an array. Raises ValueError where there are none."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise ValueError("at least one task is needed")
    return array


def unit_values(values: Floats, clusters: Clusters) -> Floats:
    """Return one value per unit; their mean is the mean over tasks, their standard error the clustered one (CR1).

    The value of a cluster of average size is its mean; the deviation of a larger one weighs more.
    """
    groups = unit_groups(clusters, len(values))
    if groups is None:
        return values
    mean = values.mean()
    sums = np.bincount(groups, weights=values - mean)
    return np.asarray(mean + sums * (len(sums) / len(values)), dtype=np.float64)


MIN_PLANNED_FROM = 20
"""Tasks below which the variance is not known well enough to name a number of tasks at all."""


def too_few_units(units: int, alpha: float) -> bool:
    """Tell whether the sign-flip test over so many units cannot show any difference: its smallest p, 2/2ⁿ, is alpha or more."""
    return 2 * 0.5**units >= alpha


def are_too_few_to_plan(units: int, alpha: float, *, is_clustered: bool) -> bool:
    """Whether from so many tasks, or clusters of them, no number of tasks that would decide is told."""
    return too_few_units(units, alpha) or (not is_clustered and units < MIN_PLANNED_FROM)
