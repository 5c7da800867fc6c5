"""One engine for every comparison of paired differences: p values and the intervals that say the same.

Whether there is a difference at all is decided by the exact sign-flip test (`permutation`), whose null is that two arms are alike.
That null says nothing of a bound other than 0. There scores are judged by an adaptive normal law and by the binomial law of units
lost whole, and quantities without an upper end by a law that minds their skewness (`amounts`). All of it makes one p value, which
falls as the bound moves away from the mean; an interval is the set of the bounds that it does not reject. So an interval holds 0 if
and only if the sign-flip test does not reject at that level, and lies within ±margin if and only if both one-sided tests against
the margin do.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from .amounts import AmountLaw, no_interval
from .permutation import FlipTails, sign_flip
from .statistics import ALPHA, NO_SPREAD, Clusters, Floats, Interval, as_array, shared_units, unit_values, z_quantile

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
        self._sides: dict[Side, _Scores | AmountLaw] = (
            {"greater": AmountLaw(units), "less": AmountLaw(-units)}
            if reach is None
            else {"greater": _Scores(units, reach), "less": _Scores(-units, reach)}
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
        low = _apart(self._sides["greater"].low(alpha), self._flip.greater < alpha)
        high = -_apart(self._sides["less"].low(alpha), self._flip.less < alpha)
        return max(low, -self.reach), min(high, self.reach)

    def interval(self, alpha: float = ALPHA) -> Interval:
        """Return the values that no one-sided test at alpha/2 rejects.

        Where an unbounded quantity has too few units for any test at that level, there is no interval, as of its mean.
        """
        low, high = self.bounds(alpha / 2)
        if math.isinf(low):
            return no_interval(self.value, self.tasks, self.units)
        return Interval(self.value, min(low, self.value), max(high, self.value), self.tasks, shared_units(self.units, self.tasks))


def _apart(low: float, rejected: bool) -> float:
    """Return a lower end that lies above 0 iff the test of 0 rejects."""
    return max(low, NO_SPREAD) if rejected else min(low, 0.0)


class _Scores:
    """Lower-sided law of the mean of n units, each within ±reach.

    The normal one after a unit of each sign is added, as Bonett & Price (2012) do. Theirs differ by all that two scores can; here
    by the root mean square of the units that differ and one of full reach. So with one trial per task they are theirs, and hardly
    larger than what was seen where repeats leave small differences. Against a bound below 0 the larger p of that and the exact
    binomial one of units lost by that size each (Clopper & Pearson 1934): where hardly any differ the units show too little
    spread, and the normal law alone would call 100 units that all agree a proof that fewer than 2 % are lost.
    """

    def __init__(self, units: Floats, reach: float) -> None:
        square = float((units**2).sum())
        differ = int(np.count_nonzero(np.abs(units) > NO_SPREAD))
        self._n, self._size = len(units), math.sqrt((square + reach**2) / (differ + 1))
        seen, mean = self._n + 2, float(units.mean())
        self._center = self._n * mean / seen
        self._error = math.sqrt(max((square + 2 * self._size**2) / seen - self._center**2, 0.0) / seen)
        self._gained = min(max(mean / self._size, -1.0), 1.0)

    def p(self, bound: float) -> float:
        """Return p of the null that the mean is at most `bound`."""
        p_value = float(scipy.special.ndtr((bound - self._center) / self._error))
        return max(p_value, self._not_lost(-bound / self._size)) if bound < 0 else p_value

    def low(self, alpha: float) -> float:
        """Return the bound at which p is alpha."""
        low = self._center - z_quantile(alpha) * self._error
        lost = self._most_lost(alpha)
        return min(low, -lost * self._size) if lost > 0 else low

    def _not_lost(self, share: float) -> float:
        """Return the chance of so few units lost on balance, were `share` of them lost; what was gained on balance hides as many
        more."""
        lost = -self._gained * self._n
        if lost <= 0:
            return max(1.0 - share - self._gained, 0.0) ** self._n
        if share >= 1 or lost >= self._n:
            return float(share < 1)
        return float(scipy.special.betainc(self._n - lost, lost + 1, 1 - share))

    def _most_lost(self, alpha: float) -> float:
        """Return the share at which `_not_lost` is alpha."""
        lost = -self._gained * self._n
        if lost <= 0:
            return float(1.0 - self._gained - alpha ** (1 / self._n))
        return float(scipy.special.betaincinv(lost + 1, self._n - lost, 1 - alpha)) if lost < self._n else 1.0
