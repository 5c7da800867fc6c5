"""Parts of a comparison that are judged by themselves, by the verdicts of the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loopbench.metrics.arm_info import ArmInfo
from loopbench.metrics.comparison import Comparison

from .measured_forms import applies


def that_apply(comparison: Comparison) -> Comparison:
    """Return the arms whose profile applies to their loop, and their pairs."""
    return comparison if all(applies(arm.info) for arm in comparison.arms) else part_of(comparison, applies)


def under_profile(comparison: Comparison, profile: str) -> Comparison:
    """Return the arms under one profile that it applies to, and their pairs; nothing is pooled."""
    own = part_of(comparison, lambda info: info.profile == profile and applies(info))
    return replace(own, pooled=())


def part_of(comparison: Comparison, belongs: Callable[[ArmInfo], bool]) -> Comparison:
    """Return the arms that belong to a part, their pairs, and which of them did the same."""
    arms = tuple(arm for arm in comparison.arms if belongs(arm.info))
    names = {arm.info.arm for arm in arms}
    pairs = tuple(pair for pair in comparison.pairs if {pair.a, pair.b} <= names)
    return replace(comparison, arms=arms, pairs=pairs, same=tuple(same for same in comparison.same if names.issuperset(same)))
