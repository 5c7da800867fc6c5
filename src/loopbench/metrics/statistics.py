"""Estimates, intervals, tests and verdicts over tasks.

The unit of inference is the task: repeats are reduced to one mean per task first. `clusters` names, per task, the template that it
shares with others; an empty name is a cluster of its own. Tasks of one cluster count as one unit wherever a spread is estimated;
the estimate itself stays the mean over tasks. Where all tasks share one cluster no spread between clusters can be had, and the
tasks are the units again: the numbers then speak about that template only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special  # its distribution functions; the classes of scipy.stats take 50 µs per call
from statsmodels.stats.proportion import proportion_confint

ALPHA = 0.05
NO_SPREAD = 1e-12
"""A standard error of scores, or a relative one, that is no more than a rounding error."""

Floats = NDArray[np.float64]
Clusters = Sequence[str] | None
VerdictWord = Literal["better", "worse", "equivalent", "undecided"]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence interval: low <= value <= high."""

    value: float
    low: float
    high: float
    n: int
    """What was counted: tasks, or events where the interval is one of events."""

    def as_dict(self) -> dict[str, float | int]:
        """Plain JSON."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


# One arm.


def wilson(successes: float, n: float, alpha: float = ALPHA) -> tuple[float, float]:
    """Score interval of a proportion (Wilson 1927), (low, high); both counts may be real-valued, as effective sizes are.

    Raises ValueError unless 0 <= successes <= n and n > 0.
    """
    if not (n > 0 and 0 <= successes <= n):
        raise ValueError(f"{successes!r} successes of {n!r}")
    low, high = proportion_confint(successes, n, alpha, method="wilson")
    share = successes / n
    return min(max(float(low), 0.0), share), max(min(float(high), 1.0), share)


def event_rate(events: int, n: int, alpha: float = ALPHA) -> Interval | None:
    """Return the share of independent events with Wilson's interval; None for no events."""
    if n == 0:
        return None
    low, high = wilson(events, n, alpha)
    return Interval(events / n, low, high, n)


def accuracy_interval(scores: Sequence[Sequence[float]], clusters: Clusters = None, alpha: float = ALPHA) -> Interval:
    """Mean over tasks of scores in [0, 1], `scores[task][repeat]`; never of zero width.

    0/1 scores, one per task, no cluster shared: Wilson on tasks. Otherwise Wilson on n_eff = p(1-p)/SE², of 0/1 scores at most the
    number of trials, and the number of tasks where SE = 0, since no score in [0, 1] varies more than a 0/1 score of the same mean.
    SE is clustered (`clustered_error`). Few clusters cost degrees of freedom, and so do few tasks where SE is not bound to p, as of
    graded scores: n_eff x (z/t)² (Korn & Graubard 1998).
    Raises ValueError for no tasks, a task without score, or scores outside of [0, 1].
    """
    means, flat = _task_means(scores), np.concatenate([np.asarray(task, float) for task in scores])
    if flat.min() < 0 or flat.max() > 1:
        raise ValueError("scores must lie in [0, 1]")
    n, value = len(means), float(np.clip(means.mean(), 0.0, 1.0))
    units = _units(means, clusters)
    error = _error(units)
    binary = bool(np.isin(flat, (0.0, 1.0)).all())
    effective = float(n)
    if error >= NO_SPREAD and not (binary and len(flat) == len(units)):
        effective = value * (1 - value) / error**2
        if len(units) < n or not binary:
            effective *= (_z(alpha / 2) / _t(alpha / 2, len(units) - 1)) ** 2
        if binary:
            effective = min(effective, float(len(flat)))
    low, high = wilson(value * effective, effective, alpha)
    return Interval(value, low, high, n)


def mean_interval(means: Sequence[float], clusters: Clusters = None, alpha: float = ALPHA) -> Interval:
    """Mean over tasks of a quantity that is never negative, with Student's t; low is cut at 0.

    One task, or tasks that are all equal, show no spread: then low = value = high. Raises ValueError for no tasks.
    """
    values = as_array(means)
    value, half = _t_interval(values, clusters, alpha)
    return Interval(value, max(value - half, min(value, 0.0)), value + half, len(values))


def standard_error(values: ArrayLike) -> float:
    """√(Σ(x - x̄)²/(n(n-1))), the error of a mean of independent values (Miller 2024, arXiv:2411.00640, §2); 0 for one value."""
    return _error(as_array(values))


def clustered_error(values: ArrayLike, clusters: Sequence[str], form: Literal["miller", "CR0", "CR1"] = "CR1") -> float:
    """Error of a mean of clustered values.

    `miller`: Miller 2024 (arXiv:2411.00640, §2.2). `CR0`: (1/n)√Σ_c(Σ_i(x_ic - x̄))² (Liang & Zeger 1986). `CR1`: CR0 x √(G/(G-1))
    for G clusters, what Inspect reports. Raises ValueError for one cluster.
    """
    data = as_array(values)
    groups = _groups(clusters, len(data))
    sums = np.bincount(groups, weights=data - data.mean())
    n, g = len(data), len(sums)
    if g < 2:
        raise ValueError("a clustered error needs at least two clusters")
    within = float(np.sum(sums**2))
    if form == "miller":
        squares = float(np.sum((data - data.mean()) ** 2))
        return math.sqrt(max(squares / (n * (n - 1)) + (within - squares) / n**2, 0.0))
    return math.sqrt(within) / n * (math.sqrt(g / (g - 1)) if form == "CR1" else 1.0)


# Pairs: d holds one difference per task, a's mean minus b's.


def score_difference(d: ArrayLike, clusters: Clusters = None, alpha: float = ALPHA) -> Interval:
    """Mean difference of scores in [0, 1]; never of zero width.

    The interval is the normal one after a pseudo-unit of +1 and one of -1 are added (adjusted Wald, Bonett & Price 2012); `value`
    stays the plain mean. Raises ValueError for no tasks.
    """
    values = as_array(d)
    value = float(values.mean())
    center, error = _with_pseudo_units(_units(values, clusters))
    half = _z(alpha / 2) * error
    low, high = max(center - half, -1.0), min(center + half, 1.0)
    return Interval(value, min(low, value), max(high, value), len(values))


def mean_difference(d: ArrayLike, clusters: Clusters = None, alpha: float = ALPHA) -> Interval:
    """Mean difference of an unbounded quantity, paired Student's t; low = value = high for one task or equal differences.

    Raises ValueError for no tasks.
    """
    values = as_array(d)
    value, half = _t_interval(values, clusters, alpha)
    return Interval(value, value - half, value + half, len(values))


def score_exceeds(d: ArrayLike, bound: float, clusters: Clusters = None) -> float:
    """p of the one-sided test that a mean difference of scores lies above `bound`; below it: turn the signs of both.

    Pseudo-units are added as in `score_difference`. Against a bound below 0 the larger p of two counts, the other being that of
    Wilson's test for a share of units, each lost whole: where hardly any differ the units show too little spread, and the normal
    test alone would call 115 units that all agree a proof that fewer than 2 % are lost (true of 10 % of the time).
    """
    values = as_array(d)
    units = _units(values, clusters)
    center, error = _with_pseudo_units(units)
    p = float(special.ndtr((bound - center) / error))
    return max(p, _not_lost(float(values.mean()), -bound, len(units))) if bound < 0 else p


def mean_exceeds(d: ArrayLike, bound: float, clusters: Clusters = None) -> float:
    """p of the one-sided t test that a mean difference lies above `bound`; below it: turn the signs of both.

    Never under 2⁻ⁿ, the sign test's smallest p for n units: a few that happen to agree would make t all too sure.
    """
    values = as_array(d)
    units, beyond = _units(values, clusters), float(values.mean()) - bound
    smallest = 0.5 ** len(units)
    if _is_constant(units, bound):
        return smallest if beyond > _rounding(units, bound) else 1.0
    return max(float(special.stdtr(len(units) - 1, -beyond / _error(units))), smallest)


def score_equivalence(d: ArrayLike, margin: float, clusters: Clusters = None) -> float:
    """p of two one-sided normal tests (Schuirmann 1987) that a mean difference of scores lies within ±margin."""
    values = as_array(d)
    return max(score_exceeds(values, -margin, clusters), score_exceeds(-values, -margin, clusters))


def mean_equivalence(d: ArrayLike, margin: float, clusters: Clusters = None) -> float:
    """p of two one-sided t tests (Schuirmann 1987) that a mean difference lies within ±margin; see `mean_exceeds`.

    Differences that are all equal may reach the margin, so that nothing is equivalent to nothing at a margin of 0.
    """
    values = as_array(d)
    units = _units(values, clusters)
    if _is_constant(units, margin):
        return 0.5 ** len(units) if abs(float(values.mean())) <= margin else 1.0
    return max(mean_exceeds(values, -margin, clusters), mean_exceeds(-values, -margin, clusters))


def score_bounds(d: ArrayLike, clusters: Clusters = None, alpha: float = ALPHA) -> tuple[float, float]:
    """One-sided bounds of a mean difference of scores in [0, 1], each at level alpha: the lower one lies above `bound` iff
    `score_exceeds(d, bound)` < alpha, as far as the scale reaches."""
    values = as_array(d)
    found, units, mean = score_difference(values, clusters, 2 * alpha), len(_units(values, clusters)), float(values.mean())
    low, high = min(found.low, -_most_lost(mean, units, alpha)), max(found.high, _most_lost(-mean, units, alpha))
    return max(low, -1.0), min(high, 1.0)


def log_ratios(a: ArrayLike, b: ArrayLike) -> Floats:
    """log(a/b) task by task, of task means that are never negative; exp of its mean is the ratio of geometric means.

    A 0 counts as half the smallest positive mean, so that a task that cost nothing in one arm is not lost. Raises ValueError for
    no tasks, negative means, or lists of different lengths.
    """
    first, second = as_array(a), as_array(b)
    if len(first) != len(second) or min(first.min(), second.min()) < 0:
        raise ValueError("two lists of equal length are needed, without negative values")
    positive = np.concatenate((first[first > 0], second[second > 0]))
    if not len(positive):
        return np.zeros(len(first))
    least = max(float(positive.min()) / 2, float(np.finfo(np.float64).tiny))
    return np.asarray(np.log(np.maximum(first, least)) - np.log(np.maximum(second, least)), dtype=np.float64)


def mean_bounds(d: ArrayLike, clusters: Clusters = None, alpha: float = ALPHA) -> tuple[float, float]:
    """One-sided bounds of a mean difference, each at level alpha: Student's t with one degree of freedom less than units.

    Infinite where 2⁻ⁿ of n units is more than alpha (see `mean_exceeds`, whose p falls under alpha where the lower bound passes).
    """
    values = as_array(d)
    units = _units(values, clusters)
    if 0.5 ** len(units) > alpha:
        return -math.inf, math.inf
    value, half = _t_interval(values, clusters, 2 * alpha)
    return value - half, value + half


# Families and verdicts.


def holm(p_values: Sequence[float]) -> list[float]:
    """p values adjusted for their family, in the same order: the running maximum of (m-j+1) p_(j), at most 1 (Holm 1979).

    By hand because statsmodels' `multipletests` runs a full garbage collection per call, 30 ms and more beside a run's records.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return [float(value) for value in adjusted]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What may be said of a against b."""

    word: VerdictWord
    within_margin: bool
    """The difference is shown to be smaller than the margin; it may be significant all the same."""


def verdict(advantage: float, p_holm: float, p_equivalence_holm: float, alpha: float = ALPHA) -> Verdict:
    """better or worse iff p_holm < alpha; else equivalent iff both one-sided tests pass; else undecided.

    `advantage`: a minus b, turned so that positive is good. Both p values are adjusted over the family.
    """
    within = p_equivalence_holm < alpha
    if p_holm < alpha and advantage != 0:
        return Verdict("better" if advantage > 0 else "worse", within)
    return Verdict("equivalent" if within else "undecided", within)


def unit_count(clusters: Sequence[str]) -> int:
    """How many units of inference tasks of these clusters make."""
    groups = unit_groups(clusters, len(clusters))
    return len(clusters) if groups is None else int(groups.max()) + 1


def unit_groups(clusters: Clusters, n: int) -> NDArray[np.int64] | None:
    """The number of each task's unit, from 0; None where each task is one: no clusters, none shared, or one that all share.

    Raises ValueError where `clusters` does not name one for each of the n tasks.
    """
    if clusters is None or (len(clusters) == n and not any(clusters)):
        return None
    groups = _groups(clusters, n)
    return None if int(groups.max()) + 1 in (1, n) else groups


# Parts.


def _z(tail: float) -> float:
    """The normal quantile with so much above it."""
    return -float(special.ndtri(tail))


def _t(tail: float, df: int) -> float:
    """The same of Student's t."""
    return -float(special.stdtrit(df, tail))


def as_array(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise ValueError("at least one task is needed")
    return array


def _task_means(scores: Sequence[Sequence[float]]) -> Floats:
    if not scores or not all(len(task) for task in scores):
        raise ValueError("at least one task is needed, and at least one score per task")
    return np.array([math.fsum(task) / len(task) for task in scores])


def _groups(clusters: Sequence[str], n: int) -> NDArray[np.int64]:
    """The number of each task's cluster, from 0."""
    if len(clusters) != n:
        raise ValueError(f"{len(clusters)} clusters for {n} tasks")
    numbers: dict[str | int, int] = {}
    return np.array([numbers.setdefault(name or place, len(numbers)) for place, name in enumerate(clusters)])


def _units(values: Floats, clusters: Clusters) -> Floats:
    """One value per unit; their mean is the mean over tasks, their standard error the clustered one (CR1).

    The value of a cluster of average size is its mean; the deviation of a larger one weighs more.
    """
    groups = unit_groups(clusters, len(values))
    if groups is None:
        return values
    mean = values.mean()
    sums = np.bincount(groups, weights=values - mean)
    return np.asarray(mean + sums * (len(sums) / len(values)), dtype=np.float64)


def _error(units: Floats) -> float:
    return float(np.std(units, ddof=1)) / math.sqrt(len(units)) if len(units) > 1 else 0.0


def _is_constant(units: Floats, bound: float) -> bool:
    return _error(units) <= _rounding(units, bound)


def _rounding(units: Floats, bound: float) -> float:
    """What may be no more than a rounding error beside such units and such a bound."""
    return NO_SPREAD * max(abs(bound), float(np.abs(units).max()))


def _t_interval(values: Floats, clusters: Clusters, alpha: float) -> tuple[float, float]:
    """Mean and half width; the width is 0 for one unit."""
    units = _units(values, clusters)
    value = float(values.mean())
    if len(units) == 1:
        return value, 0.0
    return value, _t(alpha / 2, len(units) - 1) * _error(units)


def _with_pseudo_units(units: Floats) -> tuple[float, float]:
    """Mean and standard error of the units with +1 and -1 among them."""
    values = np.append(units, (1.0, -1.0))
    return float(values.mean()), float(np.std(values)) / math.sqrt(len(values))


def _not_lost(mean: float, share: float, n: int) -> float:
    """The largest p of Wilson's tests that the difference lies above -x for any x of at least `share`; at most 0.5."""
    share = max(share, NO_SPREAD, mean / (1 + 2 * mean) if mean > 0 else 0.0)  # where (mean + x)²/(x(1-x)) is least
    return min(float(special.ndtr(-(mean + share) / math.sqrt(share * (1 - share) / n))), 0.5) if share < 1 else 0.0


def _most_lost(mean: float, n: int, alpha: float) -> float:
    """The largest share x that `_not_lost` leaves: (mean + x)² n = z² x(1-x); -1, no bound, where it leaves none."""
    z2 = _z(alpha) ** 2
    root = z2 * (z2 - 4 * n * mean * (1 + mean))
    return (z2 - 2 * n * mean + math.sqrt(root)) / (2 * (n + z2)) if root >= 0 else -1.0
