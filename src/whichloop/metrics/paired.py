"""One engine for every comparison of paired differences: p values and the intervals that say the same.

Whether there is a difference at all is decided by the exact sign-flip test, whose null is that two arms are alike. That null says
nothing of a bound other than 0. There scores are judged by an adaptive normal law and by the binomial law of units lost whole, and
amounts by `AmountLaw`. All of it makes one p value, which falls as the bound moves away from the mean; an interval is the set of
the bounds that it does not reject. So an interval holds 0 if and only if the sign-flip test does not reject at that level, and
lies within ±margin if and only if both one-sided tests against the margin do.

Amounts (steps, calls, tokens, dollars, seconds) have no upper end, and a few trials may cost as much as all others. Student's t
takes means for normal, which those of skewed amounts are not: at a log-normal spread of 1.5 its 95 % interval of thirty tasks
covers 0.79. Every bound is the farther one of Student's t and of Hall's transformation of t for skewed data (Hall 1992, J. R.
Statist. Soc. B 54:221-228), with half as much again of the skewness that the sample shows: a sample shows too little of it, having
at most √n. Of few units the transformation is extreme, and covers hardly more for it: so it reaches at most `FARTHEST` times as
far. A tail that no task of the sample shows is in no bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from .bootstrap import FlipTails, sign_flip
from .statistics import (
    ALPHA,
    NO_SPREAD,
    Clusters,
    Floats,
    Interval,
    as_array,
    equal_units,
    shared_units,
    student_quantile,
    unit_values,
    z_quantile,
)

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
    low, high = value, value
    if np.abs(units - value).max() > NO_SPREAD * value:
        if are_too_few(len(units), alpha):
            return no_interval(value, len(values), len(units))
        low, high = AmountLaw(units).low(alpha / 2), -AmountLaw(-units).low(alpha / 2)
        low, high = max(min(low, value), min(value, 0.0)), max(high, value)
    return Interval(value, low, high, len(values), shared_units(len(units), len(values)))


def are_too_few(units: int, alpha: float = ALPHA) -> bool:
    """Tell whether even the sign test of all units could not be sure enough: of under 6 at an alpha of 0.05."""
    return 0.5**units > alpha / 2


def no_interval(value: float, tasks: int, units: int) -> Interval:
    """Return the estimate of so few units that it has no interval."""
    return Interval(value, -math.inf, math.inf, tasks, shared_units(units, tasks))


class AmountLaw:
    """Lower-sided law of the mean of n units that have no upper end; for the upper side, turn their signs.

    p is never under 2⁻ⁿ, the sign test's smallest: a few units that happen to agree would make t all too sure.
    """

    def __init__(self, units: Floats) -> None:
        self._n, self._mean, self._largest = len(units), float(units.mean()), float(np.abs(units).max())
        apart = units - self._mean
        spread = math.sqrt(float(np.mean(apart**2)))
        self._error = spread / math.sqrt(self._n - 1) if self._n > 1 else 0.0
        skew = float(np.mean((apart / spread) ** 3)) if spread > NO_SPREAD * self._largest else 0.0
        self._farthest = max(FARTHEST, self._n / UNITS_A_TIME)
        # A long lower tail would leave the lower bound too near the mean.
        self._skew = min(SKEW_FACTOR * skew / math.sqrt(self._n), 0.0)

    def p(self, bound: float) -> float:
        """Return the p-value of the null hypothesis that the mean is at most `bound`."""
        rounding = NO_SPREAD * max(abs(bound), self._largest)
        if self._error <= rounding:
            return 0.5**self._n if self._mean - bound > rounding else 1.0
        t, skew = (self._mean - bound) / self._error, self._skew
        # Hall's transformation, nearly normal and rising with t.
        reached = min(t, t + skew * t**2 / 3 + skew**2 * t**3 / 27 + skew / 6)
        if t > 0:
            reached = max(reached, t / self._farthest)
        return max(float(scipy.special.stdtr(self._n - 1, -reached)), 0.5**self._n)

    def low(self, alpha: float) -> float:
        """Return the bound at which p is alpha, minus infinity where no bound has such a p."""
        if 0.5**self._n > alpha:
            return -math.inf
        t, skew = student_quantile(alpha, self._n - 1) if self._n > 1 else 0.0, self._skew
        reach = t if abs(skew) < NO_SPREAD else max(t, 3 / skew * (float(np.cbrt(1 + skew * (t - skew / 6))) - 1))
        return self._mean - (min(reach, self._farthest * t) if t > 0 else reach) * self._error


Side = Literal["greater", "less"]
SCORES = 1.0
"""How far two scores in [0, 1] can lie apart."""


class PairedFlip:
    """The mean of one difference per task, with its tests and intervals.

    `reach`: what no single difference can exceed in size, 1 for scores (`SCORES`); None for quantities without an upper end.
    Tasks of one cluster are one unit. Raises ValueError for no tasks.
    """

    def __init__(self, differences: ArrayLike, clusters: Clusters = None, *, reach: float | None = SCORES) -> None:
        values = as_array(differences)
        units = unit_values(values, clusters)
        self.tasks, self.units, self.value = len(values), len(units), float(values.mean())
        self._flip: FlipTails = sign_flip(values, clusters)
        count = equal_units(clusters, len(values))
        self._sides: dict[Side, _Scores | AmountLaw] = (
            {"greater": AmountLaw(units), "less": AmountLaw(-units)}
            if reach is None
            else {"greater": _Scores(units, reach, count), "less": _Scores(-units, reach, count)}
        )
        self.reach = math.inf if reach is None else reach

    @property
    def p_difference(self) -> float:
        """Two-sided p of the sign-flip test: there is no difference."""
        return self._flip.two_sided

    def p(self, bound: float, side: Side) -> float:
        """Return the one-sided p of the null that the mean does not lie on this side of the bound: small where it is `greater`, or
        `less`."""
        toward, null = (bound, self._flip.greater) if side == "greater" else (-bound, self._flip.less)
        if toward == 0:
            return null
        p_value = self._sides[side].p(toward)
        return min(p_value, null) if toward < 0 else max(p_value, null)

    def p_equivalence(self, margin: float) -> float:
        """Return the larger p of two one-sided tests that the mean lies within ±margin (Schuirmann 1987)."""
        return max(self.p(-margin, "greater"), self.p(margin, "less"))

    def bounds(self, alpha: float = ALPHA) -> tuple[float, float]:
        """Return one-sided bounds, each at level alpha: the lower one lies at or above `bound` iff p(bound, "greater") < alpha.

        Infinite where an unbounded quantity has too few units for any test at that level. Where only the sign-flip test keeps an
        end from 0, or only that test draws it there, the end is 0: just outside of the interval, or inside.
        """
        low, high = self._sides["greater"].low(alpha), -self._sides["less"].low(alpha)
        low = max(low, NO_SPREAD) if self._flip.greater < alpha else min(low, 0.0)
        high = min(high, -NO_SPREAD) if self._flip.less < alpha else max(high, 0.0)
        return max(low, -self.reach), min(high, self.reach)

    def interval(self, alpha: float = ALPHA) -> Interval:
        """Return the values that no one-sided test at alpha/2 rejects.

        Where an unbounded quantity has too few units for any test at that level, there is no interval, as of its mean.
        """
        low, high = self.bounds(alpha / 2)
        if math.isinf(low):
            return no_interval(self.value, self.tasks, self.units)
        return Interval(self.value, min(low, self.value), max(high, self.value), self.tasks, shared_units(self.units, self.tasks))


class _Scores:
    """Lower-sided law of the mean of n units, each within ±reach.

    The normal one after a unit of each sign is added, as Bonett & Price (2012) do. Theirs differ by all that two scores can; here
    by √(Σu⁴/Σu²), the size of the units that make up the spread, one of full reach among them: with one trial per task they are
    theirs, and smaller where repeats leave small differences. A long lower tail moves the middle down by its skewness, as Johnson's
    modified t does (1978, JASA 73:536) at a one-sided level of about 5 %. Against a bound below 0 the larger p of that and the
    exact binomial one of units lost whole (Clopper & Pearson 1934): where losses sit in a few units, or hardly any differ, a sample
    may show none of them, and the normal law alone would call 100 units that all agree a proof that fewer than 2 % are lost.
    `count`: the units, if all were of equal size: a large cluster that is lost weighs more.
    """

    def __init__(self, units: Floats, reach: float, count: float) -> None:
        squares = units**2
        square, mean = float(squares.sum()), float(units.mean())
        self._count, self._reach, n = count, reach, len(units)
        size = (float((squares**2).sum()) + reach**4) / (square + reach**2)
        center = n * mean / (n + 2)
        skew = min((float((squares * units).sum()) - reach**3) / (square + 2 * reach**2), 0.0)
        self._center = center + skew / (n + 2)
        self._error = math.sqrt(max((square + 2 * size) / (n + 2) - center**2, 0.0) / (n + 2))
        self._gained = min(max(mean / reach, -1.0), 1.0)

    def p(self, bound: float) -> float:
        """Return p of the null that the mean is at most `bound`."""
        p_value = float(scipy.special.ndtr((bound - self._center) / self._error))
        return max(p_value, self._not_lost(-bound / self._reach)) if bound < 0 else p_value

    def low(self, alpha: float) -> float:
        """Return the bound at which p is alpha."""
        low = self._center - z_quantile(alpha) * self._error
        lost = self._most_lost(alpha)
        return min(low, -lost * self._reach) if lost > 0 else low

    def _not_lost(self, share: float) -> float:
        """Return the chance of so few units lost on balance, were `share` of them lost; what was gained on balance hides as many
        more."""
        lost = -self._gained * self._count
        if lost <= 0:
            return float(max(1.0 - share - self._gained, 0.0) ** self._count)
        if share >= 1 or lost >= self._count:
            return float(share < 1)
        return float(scipy.special.betainc(self._count - lost, lost + 1, 1 - share))

    def _most_lost(self, alpha: float) -> float:
        """Return the share at which `_not_lost` is alpha."""
        lost = -self._gained * self._count
        if lost <= 0:
            return float(1.0 - self._gained - alpha ** (1 / self._count))
        return float(scipy.special.betaincinv(lost + 1, self._count - lost, 1 - alpha)) if lost < self._count else 1.0


class HolmStep(NamedTuple):
    """What a family leaves of one test."""

    p_holm: float
    """The adjusted p."""
    level: float
    """At which it was tested: p < level iff p_holm < alpha."""


def holm_steps(p_values: Sequence[float], alpha: float = ALPHA) -> list[HolmStep]:
    """Return Holm's adjusted p values (1979), in the same order: the running maximum of (m-j+1) p_(j), at most 1."""
    return [steps[0] for steps in _steps([(p,) for p in p_values], alpha)]


@dataclass(frozen=True, slots=True)
class PairDecision:
    """What a family leaves of one pair's two tests."""

    difference: Interval
    """At confidence 1 - level: holds 0 iff p_holm >= alpha."""
    p: float
    """Two-sided p of the sign-flip test."""
    p_holm: float
    """The same, adjusted."""
    p_equivalence_holm: float
    """Adjusted p of the two one-sided tests against the margin."""
    level: float
    """At which the family tested for a difference; where it has one pair, alpha."""


def judge_family(tests: Sequence[tuple[PairedFlip, float]], alpha: float = ALPHA) -> list[PairDecision]:
    """Decide for all pairs together whether they differ, and whether they lie within their margins; `tests`: pair, margin.

    Holm's steps (1979) over both tests of all pairs, with as many true nulls as there can be (Shaffer 1986): a difference cannot be
    0 and reach the margin at once, so that m pairs have at most m true nulls, not 2m, and a pair counts until both of its
    nulls are rejected. Each interval is at the level at which its pair was tested, or the first one that was not rejected.
    """
    p_values = [(pair.p_difference, pair.p_equivalence(margin)) for pair, margin in tests]
    return [
        PairDecision(pair.interval(step.level), p, step.p_holm, within.p_holm, step.level)
        for (pair, _), (p, _), (step, within) in zip(tests, p_values, _steps(p_values, alpha), strict=True)
    ]


def _steps(p_values: Sequence[tuple[float, ...]], alpha: float) -> list[list[HolmStep]]:
    """Return the steps of groups of tests, of whose nulls one at most is true: a group counts until all of its nulls are rejected.

    From the first test on that is not rejected, all are at its level.
    """
    order = sorted((p, group, place) for group, own in enumerate(p_values) for place, p in enumerate(own))
    steps = [[HolmStep(1.0, alpha)] * len(own) for own in p_values]
    nulls_left = [len(own) for own in p_values]
    highest, nulls, level = 0.0, len(p_values), alpha
    for p, group, place in order:
        if highest < alpha:
            level = alpha / nulls
        highest = max(highest, min(1.0, p * nulls))
        steps[group][place] = HolmStep(highest, level)
        nulls_left[group] -= 1
        nulls -= nulls_left[group] == 0
    return steps
