"""Bootstrap intervals over units of inference: tasks, or clusters of tasks that share a template.

The sign-flip law: under the null that two arms are alike, each unit's difference may as well have the other sign (Fisher 1935).

The sum of the differences is then that of independent two-point laws, and its distribution their convolution. Only sums of
probabilities are added up, so that the smallest p is as exact as the largest, at any number of units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from .statistics import ALPHA, NO_SPREAD, Clusters, Floats, Interval, as_array, log_choices, unit_groups

DRAWS = 9_999
"""Draws of a bootstrap, of few units."""
Statistic = Callable[[Floats], Floats]
"""sums[draw, …] to one estimate per draw; NaN where a draw allows none."""


def bca(statistic: Statistic, parts: Floats, alpha: float = ALPHA, *, draws: int = DRAWS) -> tuple[float, float]:
    """Return the bias-corrected and accelerated interval (low, high) of a statistic of sums over units (Efron 1987; Efron &
    Tibshirani 1993, 14.10), as `scipy.stats.bootstrap` gives it. `parts[unit, …]`: what is summed.

    A draw that allows no estimate counts as one that gives that of the whole sample. Where the correction does not exist (units
    that are all equal, an estimate beyond all draws), the plain percentiles stand; one unit gives low = high. Of many units fewer
    draws are taken, see `draws_of`. Raises ValueError for no units, or where the whole sample allows no estimate.
    """
    whole = float(statistic(parts.sum(0, keepdims=True))[0]) if len(parts) else np.nan
    if np.isnan(whole):
        raise ValueError(f"no estimate from {len(parts)} units")
    if len(parts) == 1:
        return whole, whole

    def settled(estimates: Floats) -> Floats:
        # The correction counts draws below the whole.
        same = np.isnan(estimates) | (np.abs(estimates - whole) <= _ROUNDING * abs(whole))
        return np.where(same, whole, estimates)

    total = parts.sum(0)
    rest = total - parts
    alone = settled(statistic(np.where(np.abs(rest) <= _ROUNDING * np.abs(total), 0.0, rest)))  # rounding alone leaves nothing
    drawn, ends = settled(statistic(draw_sums(parts, draws))), np.array((alpha / 2, 1 - alpha / 2))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bias = scipy.special.ndtri((np.count_nonzero(drawn < whole) + np.count_nonzero(drawn <= whole)) / (2 * len(drawn)))
        influence = alone.mean() - alone
        acceleration = (influence**3).sum() / (6 * (influence**2).sum() ** 1.5)
        shifted = bias + scipy.special.ndtri(ends)
        levels = scipy.special.ndtr(bias + shifted / (1 - acceleration * shifted))
    low, high = np.quantile(drawn, ends if np.isnan(levels).any() else levels)
    return float(low), float(high)


def expanded(alpha: float, units: int) -> float:
    """Return the level at which a bootstrap over few units covers what it says at alpha: 2Φ(-√(n/(n-1))·t) (Hesterberg 2015, §5.3).

    A bootstrap takes the spread of n units for that of all, short by (n-1)/n, and knows nothing of t's long tails.
    """
    if units < 2:
        return alpha
    level = 2 * float(scipy.special.ndtr(math.sqrt(units / (units - 1)) * scipy.special.stdtrit(units - 1, alpha / 2)))
    return max(level, _ROUNDING)


_ROUNDING = 1e-12
_MAX_AT_ONCE = 1_000
_MAX_COUNTS = 2_000_000
"""Counts of draws at a time: bounds memory at some 50 MB."""
_MAX_PLACES = 20_000_000
"""Places of all draws, up to which there are as many draws as asked for."""
MIN_DRAWS = 1_999


def draws_of(draws: int, units: int) -> int:
    """Return how many draws of units are made. Of more than 2,000 units there are fewer than 9,999 draws, and 1,999 at least: the
    ends then vary by a twentieth of a narrow width."""
    return min(draws, max(MIN_DRAWS, _MAX_PLACES // units))


def bca_ratio(
    above: ArrayLike, below: ArrayLike, clusters: Clusters = None, alpha: float = ALPHA, *, draws: int = DRAWS
) -> Interval:
    """Return Σabove/Σbelow over tasks with the BCa interval over units at the `expanded` level; `n` counts tasks.

    Raises ValueError for no tasks, or where Σbelow = 0.
    """
    parts = np.stack((np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)), axis=1)
    sums = unit_sums(parts, clusters)

    def ratio(totals: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratios = totals[:, 0] / totals[:, 1]
        return np.where(np.isfinite(ratios), ratios, np.nan)

    low, high = bca(ratio, sums, expanded(alpha, len(sums)), draws=draws)
    value = float(ratio(sums.sum(0, keepdims=True))[0])
    return Interval(value, min(low, value), max(high, value), len(parts))


def unit_sums(values: Floats, clusters: Clusters) -> Floats:
    """Return the sums of `values[task, …]` over the tasks of each unit, as `[unit, …]`."""
    groups = unit_groups(clusters, len(values))
    if groups is None:
        return values
    sums = np.zeros((int(groups.max()) + 1, *values.shape[1:]))
    np.add.at(sums, groups, values)
    return sums


def draw_sums(parts: Floats, draws: int) -> Floats:
    """Return the sums of `parts[unit, …]` in each of so many bootstrap draws with replacement, always the same ones; of many units
    there are fewer draws, see `draws_of`."""
    units = len(parts)
    number = draws_of(draws, units)
    made = _kept_counts(units, number) if units * number <= _MAX_KEPT else draw_counts(units, number)
    return np.concatenate([counts @ parts for counts in made])


_MAX_KEPT = 1_000_000
"""Counts up to which draws are kept, 8 MB: the same units are drawn anew for each arm and each quantity."""


@lru_cache(maxsize=2)
def _kept_counts(units: int, draws: int) -> tuple[Floats, ...]:
    return tuple(draw_counts(units, draws))


def draw_counts(units: int, draws: int) -> Iterator[Floats]:
    """Yield counts[draw, unit], how often each unit was drawn, some draws at a time."""
    generator, rows = np.random.default_rng(0), max(1, min(_MAX_AT_ONCE, _MAX_COUNTS // units))
    for start in range(0, draws, rows):
        drawn = generator.integers(0, units, (min(rows, draws - start), units))
        flat = (drawn + units * np.arange(len(drawn))[:, None]).ravel()
        yield np.bincount(flat, minlength=drawn.size).reshape(drawn.shape).astype(np.float64)


MAX_DENOMINATOR = 2_520
"""Differences of task means with r1 and r2 repeats are multiples of 1/lcm(r1, r2); more is not looked for."""
MAX_WORK = 20_000_000
"""Products of the convolution; beyond, the law is approximated (`_saddlepoint`)."""
MAX_UNITS = 2_000
"""Units of no common denominator whose law is computed on a grid; beyond, it is approximated."""
_GRID_WORK = 2_000_000
_MAX_PER_MEAN = 4_096
_NEAR = 1e-7
"""How far from a whole number a multiple may lie, by rounding."""


class FlipTails(NamedTuple):
    """One-sided p values of the null that chance alone made the observed sum; each counts that sum itself."""

    greater: float
    """Small where the sum is larger than chance makes it."""
    less: float

    @property
    def two_sided(self) -> float:
        return min(1.0, 2 * min(self))


def sign_flip(d: ArrayLike, clusters: Clusters = None) -> FlipTails:
    """Return the paired permutation test of one difference per task; a cluster's differences change their signs together.

    Exact where the differences are multiples of one fraction, as those of scores of equal repeats are; for single 0/1 scores it is
    McNemar's test (1947). Other differences are rounded to a grid first, at most a few hundredths of their mean size apart: the
    test keeps its level whatever they are rounded to, and p moves by a few hundredths of itself. Of more than 2,000 such units, or
    too many fractions, the tail is Lugannani and Rice's (1980), whose relative error falls as 1/n. All differences 0: p = 1.
    Raises ValueError for no tasks.
    """
    values = as_array(d)
    groups = unit_groups(clusters, len(values))
    sums = values if groups is None else np.asarray(np.bincount(groups, weights=values), dtype=np.float64)
    largest = float(np.abs(sums).max())
    sums = sums[np.abs(sums) > max(NO_SPREAD * largest, float(np.finfo(np.float64).tiny))]
    if not len(sums):
        return FlipTails(1.0, 1.0)
    return _tails.__wrapped__(sums.tobytes()) if len(sums) > MAX_UNITS else _tails(sums.tobytes())


@lru_cache(maxsize=1024)  # a run's results are read more than once, and many pairs of its arms differ in the same tasks
def _tails(packed: bytes) -> FlipTails:
    """Return the tails of the test of sums, none of which is 0: a sum of signs x sizes is twice the sum of those with a plus, less
    the sum of all."""
    sums = np.frombuffer(packed, dtype=np.float64)
    steps = _steps(sums)
    if steps is None:
        return FlipTails(_saddlepoint(sums), _saddlepoint(-sums))
    law, positive = _subset_sums(np.abs(steps)), int(steps[steps > 0].sum())
    return FlipTails(min(1.0, float(law[positive:].sum())), min(1.0, float(law[: positive + 1].sum())))


def _subset_sums(sizes: NDArray[np.int64]) -> Floats:
    """Return the probability of each sum, from 0, where each size counts with a chance of one half."""
    law = np.ones(1)
    for size, count in zip(*map(np.ndarray.tolist, np.unique(sizes, return_counts=True)), strict=True):
        heads = np.arange(count + 1.0)
        weights = np.exp(log_choices(count, heads) - count * math.log(2)) if count > 1 else np.array((0.5, 0.5))
        longer = np.zeros(len(law) + size * count)
        for place in np.flatnonzero(weights).tolist():
            longer[place * size : place * size + len(law)] += weights[place] * law
        law = longer
    return law


def _steps(sums: Floats) -> NDArray[np.int64] | None:
    """Return the sums as whole numbers of steps: of their common fraction, else of a grid; None where either takes too much
    work."""
    n = len(sums)
    per_mean = min(max(_GRID_WORK // n**2, 16), _MAX_PER_MEAN)
    denominator = _denominator(sums)
    if denominator:
        whole = np.rint(sums * denominator).astype(np.int64)
        whole //= int(np.gcd.reduce(whole))
        length = int(np.abs(whole).sum())
        if length <= per_mean * n or length * n <= _GRID_WORK or (n > MAX_UNITS and length * n <= MAX_WORK):
            return np.asarray(whole, dtype=np.int64)
    if n > MAX_UNITS:
        return None
    shares = sums / np.abs(sums).max()
    return np.asarray(np.rint(shares * (per_mean * n / np.abs(shares).sum())), dtype=np.int64)


def _denominator(sums: Floats) -> int:
    """Return the smallest number that makes all sums whole; 0 where there is none, and for sizes beyond exact whole numbers."""
    if float(np.abs(sums).max()) * MAX_DENOMINATOR > 2**40:
        return 0
    if _is_whole(sums).all():  # as counts are
        return 1
    candidates = np.arange(2, MAX_DENOMINATOR + 1)
    for first in sums[:8]:
        candidates = candidates[_is_whole(first * candidates)]
    return next((int(candidate) for candidate in candidates if _is_whole(sums * candidate).all()), 0)


def _is_whole(values: Floats) -> NDArray[np.bool_]:
    """Return for each value whether it is a whole number other than 0, rounding errors aside."""
    size = np.abs(values)
    return np.asarray((size > 0.5) & (np.abs(values - np.rint(values)) < _NEAR * np.maximum(1.0, size * 1e-3)), dtype=np.bool_)


def _saddlepoint(sums: Floats) -> float:
    """Return P(Σ ±|s| >= Σ s) by Lugannani and Rice (1980), from the cumulants K(t) = Σ log cosh(t s)."""
    sizes = np.abs(sums) / math.sqrt(float((sums**2).sum()))
    reached = float(sums.sum()) / math.sqrt(float((sums**2).sum()))
    if reached < 0:
        return 1.0 - _saddlepoint(-sums)
    if reached < 1e-3:  # the formula is 0/0 at the mean
        return float(scipy.special.ndtr(-reached))
    if reached >= float(sizes.sum()) * (1 - NO_SPREAD):
        return 0.5 ** len(sizes)

    def slope(t: float) -> float:
        return float((sizes * np.tanh(t * sizes)).sum()) - reached

    high = 1.0
    while slope(high) < 0:
        high *= 2
    t = float(scipy.optimize.brentq(slope, 0.0, high))
    scaled = t * sizes
    cumulant = float((np.logaddexp(scaled, -scaled) - math.log(2)).sum())
    w = math.sqrt(2 * (t * reached - cumulant))
    u = t * math.sqrt(float((sizes**2 / np.cosh(np.minimum(scaled, 300)) ** 2).sum()))
    density = math.exp(-w * w / 2) / math.sqrt(2 * math.pi)
    return min(max(float(scipy.special.ndtr(-w)) + density * (1 / u - 1 / w), 0.0), 1.0)
