"""Bootstrap intervals over units of inference: tasks, or clusters of tasks that share a template."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike

from .statistics import ALPHA, Clusters, Floats, Interval, unit_groups

DRAWS = 9_999
"""Draws of a bootstrap, of few units."""
Statistic = Callable[[Floats], Floats]
"""counts[draw, unit], how often each unit was drawn, to one estimate per draw; NaN where a draw allows none."""


def bca(
    statistic: Statistic,
    units: int,
    alpha: float = ALPHA,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    left_out: Callable[[], Floats] | None = None,
) -> tuple[float, float]:
    """Return the bias-corrected and accelerated interval (low, high) over units (Efron 1987), as `scipy.stats.bootstrap` does.

    `left_out` gives the estimates without each unit where there is a shorter way than to count all others. A draw that allows no
    estimate counts as one that gives that of the whole sample. Where the correction does not exist (units that are all equal, an
    estimate beyond all draws), the plain percentiles stand; one unit gives low = high. Of many units fewer draws are taken, see
    `draws_of`. Raises ValueError for no units, or where the whole sample allows no estimate.
    """
    whole = float(statistic(np.ones((1, units)))[0]) if units else np.nan
    if np.isnan(whole):
        raise ValueError(f"no estimate from {units} units")
    if units == 1:
        return whole, whole
    drawn = np.concatenate([statistic(counts) for counts in draw_counts(units, draws_of(draws, units), seed)])
    return bca_ends(drawn, _left_out(statistic, units) if left_out is None else left_out(), whole, alpha)


def bca_ends(drawn: Floats, alone: Floats, whole: float, alpha: float) -> tuple[float, float]:
    """Return the ends of the interval from known estimates: those of the draws, those without each unit, and the whole's."""

    def settled(estimates: Floats) -> Floats:
        # The correction counts draws below the whole.
        same = np.isnan(estimates) | (np.abs(estimates - whole) <= _ROUNDING * abs(whole))
        return np.where(same, whole, estimates)

    drawn, alone = settled(drawn), settled(alone)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        levels = _bca_levels(drawn, alone, whole, alpha)
    if np.isnan(levels).any():
        levels = np.array((alpha / 2, 1 - alpha / 2))
    low, high = np.quantile(drawn, levels)
    return float(low), float(high)


def _bca_levels(drawn: Floats, alone: Floats, whole: float, alpha: float) -> Floats:
    """Return the percentiles of the draws that are the interval's ends (Efron & Tibshirani 1993, 14.10); NaN where there are none.

    `alone`: the estimates without each unit.
    """
    below = (np.count_nonzero(drawn < whole) + np.count_nonzero(drawn <= whole)) / (2 * len(drawn))
    bias = scipy.special.ndtri(below)
    influence = alone.mean() - alone
    acceleration = (influence**3).sum() / (6 * (influence**2).sum() ** 1.5)
    shifted = bias + scipy.special.ndtri(np.array((alpha / 2, 1 - alpha / 2)))
    return np.asarray(scipy.special.ndtr(bias + shifted / (1 - acceleration * shifted)), dtype=np.float64)


def _left_out(statistic: Statistic, units: int) -> Floats:
    """Return the estimate without each unit in turn."""
    rows = _rows(units)
    estimates = []
    for start in range(0, units, rows):
        counts = np.ones((min(rows, units - start), units))
        counts[np.arange(len(counts)), start + np.arange(len(counts))] = 0.0
        estimates.append(statistic(counts))
    return np.concatenate(estimates)


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


def _rows(units: int) -> int:
    return max(1, min(_MAX_AT_ONCE, _MAX_COUNTS // units))


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

    def statistic(counts: Floats) -> Floats:
        return ratio(counts @ sums)

    low, high = bca(statistic, len(sums), expanded(alpha, len(sums)), draws=draws, left_out=lambda: ratio(without_each(sums)))
    value = float(statistic(np.ones((1, len(sums))))[0])
    return Interval(value, min(low, value), max(high, value), len(parts))


def without_each(parts: Floats) -> Floats:
    """Return the sum of `parts[unit, …]` without each of them; what rounding alone leaves counts as 0."""
    whole = parts.sum(0)
    sums = whole - parts
    return np.where(np.abs(sums) <= _ROUNDING * np.abs(whole), 0.0, sums)


def unit_sums(values: Floats, clusters: Clusters) -> Floats:
    """Return the sums of `values[task, …]` over the tasks of each unit, as `[unit, …]`."""
    groups = unit_groups(clusters, len(values))
    if groups is None:
        return values
    sums = np.zeros((int(groups.max()) + 1, *values.shape[1:]))
    np.add.at(sums, groups, values)
    return sums


def draw_counts(units: int, draws: int, seed: int) -> Iterator[Floats]:
    """Yield counts[draw, unit] of so many bootstrap draws with replacement, some at a time; they are not to be changed."""
    return iter(_kept_counts(units, draws, seed)) if units * draws <= _MAX_KEPT else _drawn_counts(units, draws, seed)


_MAX_KEPT = 1_000_000
"""Counts up to which draws are kept, 8 MB: the same units are drawn anew for each arm and each quantity."""


@lru_cache(maxsize=2)
def _kept_counts(units: int, draws: int, seed: int) -> tuple[Floats, ...]:
    kept = tuple(_drawn_counts(units, draws, seed))
    for counts in kept:
        counts.flags.writeable = False
    return kept


def _drawn_counts(units: int, draws: int, seed: int) -> Iterator[Floats]:
    generator, rows = np.random.default_rng(seed), _rows(units)
    for start in range(0, draws, rows):
        drawn = generator.integers(0, units, (min(rows, draws - start), units))
        flat = (drawn + units * np.arange(len(drawn))[:, None]).ravel()
        yield np.bincount(flat, minlength=drawn.size).reshape(drawn.shape).astype(np.float64)


def draw_sums(sums: Floats, draws: int, seed: int) -> Floats:
    """Return the sums of `sums[unit, …]` in each of so many bootstrap draws; of many units there are fewer draws, see
    `draws_of`."""
    return np.concatenate([counts @ sums for counts in draw_counts(len(sums), draws_of(draws, len(sums)), seed)])
