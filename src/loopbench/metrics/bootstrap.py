"""Bootstrap intervals over units of inference: tasks, or clusters of tasks that share a template."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from .statistics import ALPHA, DRAWS, Clusters, Floats, Interval, unit_groups

Places = NDArray[np.int64]
Statistic = Callable[[Floats], Floats]
"""counts[draw, unit], how often each unit was drawn, to one estimate per draw; NaN where a draw allows none."""


def bca(statistic: Statistic, units: int, alpha: float = ALPHA, *, draws: int = DRAWS, seed: int = 0) -> tuple[float, float]:
    """Bias-corrected and accelerated bootstrap interval (Efron 1987), (low, high), by `scipy.stats.bootstrap` over units.

    A draw that allows no estimate counts as one that gives that of the whole sample. Where the correction does not exist (units
    that are all equal, an estimate beyond all draws), the plain percentiles stand; one unit gives low = high.
    Raises ValueError for no units, or where the whole sample allows no estimate.
    """
    whole = float(statistic(np.ones((1, units)))[0]) if units else np.nan
    if np.isnan(whole):
        raise ValueError(f"no estimate from {units} units")
    if units == 1:
        return whole, whole

    def estimate(drawn: Places, axis: int) -> Floats:
        rows = drawn.reshape(-1, drawn.shape[axis])
        found = statistic(_counted(rows, units))
        same = np.isnan(found) | (np.abs(found - whole) <= _ROUNDING * abs(whole))  # the correction counts draws below the whole
        return np.where(same, whole, found).reshape(drawn.shape[:-1])

    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        found = stats.bootstrap(
            (np.arange(units),), estimate, vectorized=True, axis=-1, n_resamples=draws, batch=_BATCH,
            confidence_level=1 - alpha, method="BCa", rng=np.random.default_rng(seed),
        )  # fmt: skip
    low, high = found.confidence_interval
    if np.isnan(low) or np.isnan(high):
        low, high = np.quantile(found.bootstrap_distribution, (alpha / 2, 1 - alpha / 2))
    return float(low), float(high)


def expanded(alpha: float, units: int) -> float:
    """The level at which a bootstrap over few units covers what it says at alpha: 2Φ(-√(n/(n-1))·t) (Hesterberg 2015, §5.3).

    A bootstrap takes the spread of n units for that of all, short by (n-1)/n, and knows nothing of t's long tails.
    """
    if units < 2:
        return alpha
    level = 2 * float(special.ndtr(math.sqrt(units / (units - 1)) * special.stdtrit(units - 1, alpha / 2)))
    return max(level, _ROUNDING)


_ROUNDING = 1e-12
_BATCH = 1_000
"""Draws at a time: bounds memory at about 16 kB per unit."""


def bca_ratio(
    above: ArrayLike, below: ArrayLike, clusters: Clusters = None, alpha: float = ALPHA, *, draws: int = DRAWS
) -> Interval:
    """Σabove/Σbelow over tasks with the BCa interval over units at the `expanded` level; `n` counts tasks.

    Raises ValueError for no tasks, or where Σbelow = 0.
    """
    parts = np.stack((np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)), axis=1)
    sums = unit_sums(parts, clusters)

    def ratio(counts: Floats) -> Floats:
        drawn = counts @ sums
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = drawn[:, 0] / drawn[:, 1]
        return np.where(np.isfinite(found), found, np.nan)

    low, high = bca(ratio, len(sums), expanded(alpha, len(sums)), draws=draws)
    value = float(ratio(np.ones((1, len(sums))))[0])
    return Interval(value, min(low, value), max(high, value), len(parts))


def unit_sums(values: Floats, clusters: Clusters) -> Floats:
    """Sums over the tasks of each unit, `values[task, …]` to `[unit, …]`."""
    groups = unit_groups(clusters, len(values))
    if groups is None:
        return values
    sums = np.zeros((int(groups.max()) + 1, *values.shape[1:]))
    np.add.at(sums, groups, values)
    return sums


def draw_counts(units: int, draws: int, seed: int) -> Floats:
    """counts[draw, unit] of so many bootstrap draws with replacement."""
    return _counted(np.random.default_rng(seed).integers(0, units, (draws, units)), units)


def _counted(drawn: Places, units: int) -> Floats:
    """How often each unit stands in each row of `drawn[draw, place]`."""
    flat = (drawn + units * np.arange(len(drawn))[:, None]).ravel()
    return np.bincount(flat, minlength=len(drawn) * units).reshape(len(drawn), units).astype(np.float64)
