"""Permutation tests of paired differences: is one arm better than the other at all?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from statsmodels.stats.contingency_tables import mcnemar

from .statistics import NO_SPREAD, Clusters, Floats, as_array, unit_groups

EXACT_LIMIT = 20
"""Up to this many non-zero differences the sign-flip test enumerates all signs."""
DRAWS = 9_999
"""Random sign vectors beyond that."""
_CHUNK = 1_000
"""Sign vectors drawn at a time: bounds memory at about 8 kB per task."""


def sign_flip(d: ArrayLike, clusters: Clusters = None, *, draws: int = DRAWS, seed: int = 0) -> float:
    """Two-sided p of the paired permutation test (Fisher 1935): under the null each unit's difference may as well be negated.

    Exact where all differences other than 0 are of one size, when it is McNemar's test, and where at most 20 units differ from 0;
    else p = (1+#)/(draws+1) over random signs (Phipson & Smyth 2010). All zero: p = 1. The order of tasks changes nothing.
    """
    values = as_array(d)
    groups = unit_groups(clusters, len(values))
    sums = values if groups is None else np.bincount(groups, weights=values)
    sums = sums[sums != 0.0]
    sizes = np.sort(np.abs(sums))
    if not len(sizes):
        return 1.0
    if sizes[-1] - sizes[0] <= NO_SPREAD * sizes[-1]:
        return mcnemar_exact(int(np.count_nonzero(sums > 0)), int(np.count_nonzero(sums < 0)))
    threshold = abs(float(sums.sum())) - 1e-9 * float(sizes.sum())  # sums equal but for rounding count as equal
    if len(sizes) <= EXACT_LIMIT:
        return _exact_flips(sizes, threshold)
    return _random_flips(sizes, threshold, draws, seed)


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Two-sided exact p of McNemar's test (1947) from the counts of tasks that only one of two arms solved; one repeat per task."""
    return min(1.0, float(mcnemar([[0, only_a], [only_b, 0]], exact=True).pvalue))


def _exact_flips(sizes: Floats, threshold: float) -> float:
    """Share of all sign vectors whose sum is at least the threshold in size: each half's sums, one sorted, meet in the middle."""
    left, right = _signed_sums(sizes[::2]), np.sort(_signed_sums(sizes[1::2]))
    above = len(left) * len(right) - int(np.searchsorted(right, threshold - left, side="left").sum())
    return float(min(1.0, 2 * above / (len(left) * len(right))))


def _signed_sums(sizes: Floats) -> Floats:
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate((sums + size, sums - size))
    return sums


def _random_flips(sizes: Floats, threshold: float, draws: int, seed: int) -> float:
    """p over random signs, a bit each: what eight sizes sum to is looked up by the byte of their signs."""
    generator = np.random.default_rng(seed)
    total, reached = float(sizes.sum()), 0
    places = (len(sizes) + 7) // 8
    eights = np.pad(sizes, (0, 8 * places - len(sizes))).reshape(places, 8)
    sums = (eights @ _SIGNS.T).ravel()  # [place x byte]
    starts = 256 * np.arange(places)
    for start in range(0, draws, _CHUNK):
        rows = min(_CHUNK, draws - start)
        positive = sums[starts + generator.integers(0, 256, (rows, places), np.uint8)].sum(1)
        reached += int(np.count_nonzero(np.abs(2 * positive - total) >= threshold))
    return (1 + reached) / (draws + 1)


_SIGNS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)
"""[byte, bit]"""
