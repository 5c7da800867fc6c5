"""Alpha spent over several looks at one run, exactly (Lan & DeMets 1983, Biometrika 70:659-663).

The statistics of the looks are those of a Brownian motion: what one look adds is independent of what was there before. So the
chance of crossing a boundary at a look, and at none before, is an integral over the last look's density within its boundary
(Armitage, McPherson & Rowe 1969, J. R. Statist. Soc. A 132:235-244), and each boundary is set so that it is
what may be spent there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np
import scipy

from .statistics import ALPHA, Floats

MIN_SPENT = 1e-6
"""Share of alpha that a look at all tasks would have at least, so that no quantile is infinite."""
_FAR = 8.0
"""Standard deviations beyond which no density is left."""
_ALPHAS = np.concatenate((np.geomspace(1e-10, 0.5, 41), (1.0,)))
"""Levels between which those of a look are interpolated."""


def spent(share: float, alpha: float = ALPHA) -> float:
    """Return the alpha that is spent up to a share of the tasks: 2 - 2Φ(z_{α/2}/√t) (Lan & DeMets 1983), of the O'Brien-Fleming
    type: little at first, most at the end, where it is all.

    Raises ValueError unless 0 < share <= 1 and 0 < alpha < 1.
    """
    if not (0 < share <= 1 and 0 < alpha < 1):
        raise ValueError(f"share {share!r} and alpha {alpha!r} must lie between 0 and 1")
    if share == 1:
        return alpha
    return max(2 * float(scipy.special.ndtr(scipy.special.ndtri(alpha / 2) / math.sqrt(share))), MIN_SPENT * share * alpha)


@cache
def _rule() -> tuple[Floats, Floats]:
    """Return nodes and weights by which densities are integrated over [-1, 1], as Gauss and Legendre do."""
    nodes, weights = np.polynomial.legendre.leggauss(161)
    return nodes, weights


@lru_cache(maxsize=4096)
def levels(shares: tuple[float, ...], alpha: float = ALPHA) -> tuple[float, ...]:
    """Return the two-sided level of the test at each look, from the shares of the tasks after which they are, which rise.

    The chance that any test rejects, where there is nothing to find, is what is spent up to the last share.
    """
    nominal_levels: list[float] = []
    nodes, weights = _rule()
    places, density, before = np.zeros(1), np.ones(1), 0.0
    sums = [0.0, *(spent(share, alpha) for share in shares)]
    for share, (earlier, now) in zip(shares, pairwise(sums), strict=True):
        step, allowed = math.sqrt(share - before), now - earlier
        nominal_levels.append(
            min(2 * float(scipy.special.ndtr(-_boundary(places, density, step, allowed) / math.sqrt(share))), alpha)
        )
        half = min(-math.sqrt(share) * float(scipy.special.ndtri(nominal_levels[-1] / 2)), _FAR * math.sqrt(share))
        fresh = half * nodes
        steps = (fresh[:, None] - places[None, :]) / step
        density = half * weights * (np.exp(-(steps**2) / 2) @ density) / (step * math.sqrt(2 * math.pi))
        places, before = fresh, share
    return tuple(nominal_levels)


def _boundary(places: Floats, density: Floats, step: float, allowed: float) -> float:
    """Return the height that a motion from `places`, with `density` there, leaves on either side with so much chance in one
    step."""

    def excess(height: float) -> float:
        beyond = scipy.special.ndtr((-height - places) / step) + scipy.special.ndtr((places - height) / step)
        return math.log(max(float(density @ beyond), 1e-300)) - math.log(allowed)

    return float(scipy.optimize.brentq(excess, 0.0, 40.0 * (step + float(np.abs(places).max())), xtol=1e-10))


@dataclass(frozen=True, slots=True)
class LookLevel:
    """One look at a run: what its tests and intervals have of alpha."""

    shares: tuple[float, ...] = (1.0,)
    """Of the tasks, after which this look and those before it are."""

    def nominal(self, alpha: float) -> float:
        """Return the level of the test at this look where all looks together have alpha; it rises with alpha."""
        return alpha if self.shares == (1.0,) else _interpolated(_ALPHAS, _table(self.shares))(alpha)

    def overall(self, p: float) -> float:
        """Return the least alpha at which this look's test rejects: overall(p) < alpha iff p < nominal(alpha)."""
        return p if self.shares == (1.0,) else _interpolated(_table(self.shares), _ALPHAS)(p)


ONCE = LookLevel()
"""A run that is looked at when it has come to its end."""


@lru_cache(maxsize=256)
def _table(shares: tuple[float, ...]) -> Floats:
    """Return the last look's level for each of `_ALPHAS`; it rises strictly."""
    last_levels = [*(levels(shares, float(alpha))[-1] for alpha in _ALPHAS[:-1]), 1.0]
    return np.array(last_levels)


def _interpolated(x: Floats, y: Floats) -> Callable[[float], float]:
    """Return a function that is linear between the points in logarithms, and in proportion below the first point."""

    def interpolated(at: float) -> float:
        if at <= x[0]:
            return float(at * y[0] / x[0])
        return float(np.exp(np.interp(math.log(min(at, 1.0)), np.log(x), np.log(y))))

    return interpolated
