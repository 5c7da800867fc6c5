"""How many times as much one arm costs as another in all, over the same tasks: costs are paid in sums.

Whether there is a difference at all is decided by the exact sign-flip test of the differences, whose null is that both arms are
alike. Against a ratio other than 1, the mean of above - ratio x below is judged by `AmountLaw` (Fieller 1954).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from .bootstrap import sign_flip
from .comparison import ArmResult, Comparison
from .paired import AmountLaw, Side
from .statistics import ALPHA, NO_SPREAD, Clusters, Floats, as_array, unit_values

MAX_LOG = 700.0
"""e to the power of more has no floating point number."""


class PairedSums:
    """The ratio Σabove/Σbelow over tasks of amounts that are never negative, with its tests and bounds.

    Tasks of one cluster are one unit. A sum of 0 counts as half the smallest positive amount of a task; where there is nothing but
    zeros the ratio is 1. Raises ValueError for no tasks, negative amounts, or lists of different lengths.
    """

    def __init__(self, above: ArrayLike, below: ArrayLike, clusters: Clusters = None) -> None:
        first, second = as_array(above), as_array(below)
        if len(first) != len(second) or min(first.min(), second.min()) < 0:
            raise ValueError("two lists of equal length are needed, without negative values")
        self._above, self._below = unit_values(first, clusters), unit_values(second, clusters)
        self.tasks, self.units = len(first), len(self._above)
        self._flip = sign_flip(first - second, clusters)
        self.value = _ratio(first, second)
        self._nothing = not (first.any() or second.any())

    def p(self, ratio: float, side: Side) -> float:
        """Return the one-sided p of the null that the ratio does not lie on this side of `ratio`: small where it is `greater`, or
        `less`."""
        null = self._flip.greater if side == "greater" else self._flip.less
        if ratio == 1:
            return null
        nearer = (ratio < 1) == (side == "greater")  # then the claim is weaker than that the two sums differ
        p_value = self._law(ratio, side)
        return min(p_value, null) if nearer else max(p_value, null)

    def bounds(self, alpha: float = ALPHA) -> tuple[float, float]:
        """Return one-sided bounds, each at level alpha: the ratio is shown to lie above those below `low`, and below those above
        `high`.

        0 or infinite where too little is known. Where only the sign-flip test keeps an end from 1, or draws it there, it is 1.
        """
        middle = math.log(self.value)
        low = math.exp(-_turning_point(lambda place: self._law(math.exp(-place), "greater"), -middle, alpha))
        high = math.exp(_turning_point(lambda place: self._law(math.exp(place), "less"), middle, alpha))
        low = max(low, 1 + NO_SPREAD) if self._flip.greater < alpha else min(low, 1.0)
        high = min(high, 1 - NO_SPREAD) if self._flip.less < alpha else max(high, 1.0)
        return min(low, self.value), max(high, self.value)

    def _law(self, ratio: float, side: Side) -> float:
        """Return p without the sign-flip test. What is to be the larger sum must itself be shown to be above 0."""
        if self._nothing:
            return 0.5**self.units if (ratio < 1) == (side == "greater") and ratio != 1 else 1.0
        larger, smaller = (self._above, ratio * self._below) if side == "greater" else (self._below, self._above / ratio)
        return max(AmountLaw(larger - smaller).p(0.0), AmountLaw(larger).p(0.0))


def _ratio(first: Floats, second: Floats) -> float:
    positive = np.concatenate((first[first > 0], second[second > 0]))
    if not len(positive):
        return 1.0
    least = float(positive.min()) / 2
    return max(math.fsum(first), least) / max(math.fsum(second), least)


def _turning_point(p: Callable[[float], float], start: float, alpha: float) -> float:
    """Return the first place from `start` on at which p, which falls, is under alpha; infinite where there is none."""
    end, step = start, 2.0**-6
    while p(end) >= alpha:
        end, step = start + step, 2 * step
        if abs(end) > MAX_LOG:
            return math.inf
    return start if end == start else scipy.optimize.brentq(lambda place: p(place) - alpha, start, end, xtol=1e-12)


def ranked(comparison: Comparison) -> Comparison:
    """Return the same comparison, the most accurate arm of each suite and profile first, the cheaper one of two equally accurate.

    The first arm of a pair is the one that stands higher, and pairs are in the order of their arms.
    """
    groups: dict[tuple[str, str], list[ArmResult]] = {}
    for arm in comparison.arms:
        groups.setdefault((arm.info.suite, arm.info.profile), []).append(arm)
    arms = tuple(arm for members in groups.values() for arm in sorted(members, key=_height))
    place = {arm.info.arm: number for number, arm in enumerate(arms)}
    metrics = {metric: number for number, metric in enumerate(dict.fromkeys(pair.metric for pair in comparison.pairs))}
    turned = (pair.turned if place[pair.a] > place[pair.b] else pair for pair in comparison.pairs)
    pairs = tuple(sorted(turned, key=lambda pair: (metrics[pair.metric], place[pair.a], place[pair.b])))
    return replace(comparison, arms=arms, pairs=pairs)


def _height(arm: ArmResult) -> tuple[float, float, str]:
    accuracy, tokens = arm.summary.accuracy, arm.summary.means["tokens"]
    mean = -math.inf if accuracy is None else round(accuracy.value, 9)  # the order of a sum changes its last digits
    return -mean, math.inf if tokens is None else tokens.value, arm.info.arm
