"""Means of amounts: steps, calls, tokens, dollars, seconds. They have no upper end, and a few trials may cost as much as
all others.

Student's t takes means for normal, which those of skewed amounts are not: at a log-normal spread of 1.5 its 95 % interval of
thirty tasks covers 0.79. Every bound here is the farther one of Student's t and of Hall's transformation of t for skewed data (Hall
1992, J. R. Statist. Soc. B 54:221-228), with half as much again of the skewness that the sample shows: a sample shows too little
of it, having at most √n. Of few units the transformation is extreme: it may reach five times as far as t, and covers hardly more
for it. So it reaches at most `farthest` times as far. A tail that no task of the sample shows is in no bound.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike

from .statistics import ALPHA, NO_SPREAD, Clusters, Floats, Interval, as_array, shared_units, student_quantile, unit_values

SKEW_FACTOR = 1.5
"""What the skewness of a sample is multiplied by. Of 1, 1.25, 1.5, 1.75 and 2 it is the one with which the interval of a log-normal
mean covers nearest to 0.95."""
FARTHEST, UNITS_A_TIME = 2.0, 8
"""How many times as far as Student's t a bound reaches at most: `FARTHEST` times over up to 16 units, beyond once for each 8."""


def mean_interval(means: ArrayLike, clusters: Clusters = None, alpha: float = ALPHA) -> Interval:
    """Return the mean over tasks of a quantity that is never negative, with its interval, whose low end is cut at 0.

    One task, or tasks that are all equal, show no spread: then low = value = high. Units so few that even the sign test of all of
    them could not be sure enough, under 6 at an alpha of 0.05, have no interval: its ends are infinite. Raises ValueError for no
    tasks.
    """
    values = as_array(means)
    units, value = unit_values(values, clusters), float(values.mean())
    if value - units.min() <= NO_SPREAD * value and units.max() - value <= NO_SPREAD * value:
        return Interval(value, value, value, len(values), shared_units(len(units), len(values)))
    if are_too_few(len(units), alpha):
        return no_interval(value, len(values), len(units))
    low, high = AmountLaw(units).low(alpha / 2), -AmountLaw(-units).low(alpha / 2)
    ends = max(min(low, value), min(value, 0.0)), max(high, value)
    return Interval(value, *ends, len(values), shared_units(len(units), len(values)))


def are_too_few(units: int, alpha: float = ALPHA) -> bool:
    """Tell whether even the sign test of all units could not be sure enough: of under 6 at an alpha of 0.05."""
    return 0.5**units > alpha / 2


def no_interval(value: float, tasks: int, units: int) -> Interval:
    """Return the estimate of so few units that it has no interval."""
    return Interval(value, -math.inf, math.inf, tasks, shared_units(units, tasks))


def farthest(units: int) -> float:
    """Return how many times as far from the mean as Student's t a bound over so many units reaches at most."""
    return max(FARTHEST, units / UNITS_A_TIME)


class AmountLaw:
    """Lower-sided law of the mean of n units that have no upper end; for the upper side, turn their signs.

    p is never under 2⁻ⁿ, the sign test's smallest: a few units that happen to agree would make t all too sure.
    """

    def __init__(self, units: Floats) -> None:
        self._n, self._mean = len(units), float(units.mean())
        self._largest = float(np.abs(units).max())
        apart = units - self._mean
        spread = math.sqrt(float(np.mean(apart**2)))
        self._error = spread / math.sqrt(self._n - 1) if self._n > 1 else 0.0
        skew = float(np.mean((apart / spread) ** 3)) if spread > NO_SPREAD * self._largest else 0.0
        self._farthest = farthest(self._n)
        # A long lower tail would leave the lower bound too near the mean.
        self._skew = min(SKEW_FACTOR * skew / math.sqrt(self._n), 0.0)

    def p(self, bound: float) -> float:
        """Return the p-value of the null hypothesis that the mean is at most `bound`."""
        rounding = NO_SPREAD * max(abs(bound), self._largest)
        if self._error <= rounding:
            return 0.5**self._n if self._mean - bound > rounding else 1.0
        t = (self._mean - bound) / self._error
        skewed = min(t, _transformed(t, self._skew))
        p_value = float(scipy.special.stdtr(self._n - 1, -(max(skewed, t / self._farthest) if t > 0 else skewed)))
        return max(p_value, 0.5**self._n)

    def low(self, alpha: float) -> float:
        """Return the bound at which p is alpha, minus infinity where no bound has such a p."""
        if 0.5**self._n > alpha:
            return -math.inf
        t = student_quantile(alpha, self._n - 1) if self._n > 1 else 0.0
        reach = max(t, _untransformed(t, self._skew))
        return self._mean - (min(reach, self._farthest * t) if t > 0 else reach) * self._error


def _transformed(t: float, skew: float) -> float:
    """Return t + skew t²/3 + skew² t³/27 + skew/6, nearly normal and rising with t (Hall 1992). `skew`: skewness over √n."""
    return t + skew * t**2 / 3 + skew**2 * t**3 / 27 + skew / 6


def _untransformed(value: float, skew: float) -> float:
    """Return the t whose transform is `value`."""
    if abs(skew) < NO_SPREAD:
        return value
    return 3 / skew * (float(np.cbrt(1 + skew * (value - skew / 6))) - 1)
