"""Families: the tests of one metric, decided together so that any wrong verdict among them is no more frequent than alpha."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .paired import PairedFlip
from .spending import ONCE, LookLevel
from .statistics import ALPHA, Interval


class HolmStep(NamedTuple):
    """What a family leaves of one test."""

    p_holm: float
    """The adjusted p."""
    level: float
    """At which it was tested: p < level iff p_holm < alpha."""


def holm_steps(p_values: Sequence[float], alpha: float = ALPHA) -> list[HolmStep]:
    """Return Holm's adjusted p values (1979), in the same order: the running maximum of (m-j+1) p_(j), at most 1.

    By hand because statsmodels' `multipletests` runs a full garbage collection per call, 30 ms and more beside a run's records.
    """
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
    """At which the family tested for a difference; where it has one pair and is looked at once, alpha."""


def judge_family(tests: Sequence[tuple[PairedFlip, float]], alpha: float = ALPHA, look: LookLevel = ONCE) -> list[PairDecision]:
    """Decide for all pairs together whether they differ, and whether they lie within their margins; `tests`: pair, margin.

    Holm's steps (1979) over both tests of all pairs, with as many true nulls as there can be (Shaffer 1986): a difference cannot be
    0 and reach the margin at once, so that m pairs have at most m true nulls, not 2m, and a pair counts until both of its
    nulls are rejected. Each interval is at the level at which its pair was tested, or the first one that was not rejected.

    At one `look` of several, each p is first what it says of all looks (`LookLevel.overall`), and levels are those of that look.
    The same boundary serves both tests: it is exact for the two-sided one, and keeps a little of alpha for one-sided ones.
    """
    p_values = [(pair.p_difference, pair.p_equivalence(margin)) for pair, margin in tests]
    steps = _steps([(look.overall(p), look.overall(within)) for p, within in p_values], alpha)
    return [
        PairDecision(pair.interval(level := look.nominal(step.level)), p, step.p_holm, within.p_holm, level)
        for (pair, _), (p, _), (step, within) in zip(tests, p_values, steps, strict=True)
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
