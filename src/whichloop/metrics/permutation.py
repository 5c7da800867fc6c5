"""The sign-flip law: under the null that two arms are alike, each unit's difference may as well have the other sign (Fisher 1935).

The sum of the differences is then that of independent two-point laws, and its distribution their convolution. Only sums of
probabilities are added up, so that the smallest p is as exact as the largest, at any number of units.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from .statistics import NO_SPREAD, Clusters, Floats, as_array, unit_groups

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
    return _tails(sums) if len(sums) > MAX_UNITS else _tails_of_few(sums.tobytes())


@lru_cache(maxsize=1024)  # a run's results are read more than once, and many pairs of its arms differ in the same tasks
def _tails_of_few(sums: bytes) -> FlipTails:
    return _tails(np.frombuffer(sums, dtype=np.float64))


def _tails(sums: Floats) -> FlipTails:
    """Return the tails of the sign-flip test of sums, none of which is 0."""
    steps = _steps(sums)
    if steps is None:
        return FlipTails(_saddlepoint(sums), _saddlepoint(-sums))
    return _flip_steps(steps)


def _flip_steps(steps: NDArray[np.int64]) -> FlipTails:
    """Test whole numbers: a sum of signs x sizes is twice the sum of those with a plus, less the sum of all."""
    law = _subset_sums(np.abs(steps))
    positive = int(steps[steps > 0].sum())
    return FlipTails(min(1.0, float(law[positive:].sum())), min(1.0, float(law[: positive + 1].sum())))


def _subset_sums(sizes: NDArray[np.int64]) -> Floats:
    """Return the probability of each sum, from 0, where each size counts with a chance of one half."""
    law = np.ones(1)
    for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
        if count == 1:  # as of nearly all sizes of costs: this gives the same sums in fewer calls
            longer, half = np.zeros(len(law) + int(size)), 0.5 * law
            longer[: len(law)] = half
            longer[int(size) :] += half
            law = longer
            continue
        weights = _coins(int(count))
        longer = np.zeros(len(law) + int(size) * int(count))
        for place in np.flatnonzero(weights):
            start = int(place) * int(size)
            longer[start : start + len(law)] += weights[place] * law
        law = longer
    return law


@lru_cache(maxsize=256)
def _coins(n: int) -> Floats:
    """Return the chance of each number of heads among n fair coins."""
    heads, gammaln = np.arange(n + 1.0), scipy.special.gammaln
    return np.asarray(
        np.exp(gammaln(n + 1) - gammaln(heads + 1) - gammaln(n - heads + 1) - n * math.log(2)),
        dtype=np.float64,
    )


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
