"""Parts of a comparison that are judged by themselves, by the verdicts of the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison

from .measured_forms import applies


def that_apply(comparison: Comparison) -> Comparison:
    """Return the arms whose profile applies to their loop, and their pairs."""
    return comparison if all(applies(arm.info) for arm in comparison.arms) else part_of(comparison, applies)


def under_profile(comparison: Comparison, profile: str) -> Comparison:
    """Return the arms under one profile that it applies to, and their pairs."""
    return part_of(comparison, lambda info: info.profile == profile and applies(info))


def part_of(comparison: Comparison, belongs: Callable[[ArmInfo], bool]) -> Comparison:
    """Return the arms that belong to a part, their pairs, and which of them did the same.

    A pair over all profiles together stays where every arm of both loops belongs: any other one rests on arms that the part lacks.
    """
    arms = tuple(arm for arm in comparison.arms if belongs(arm.info))
    names = {arm.info.arm for arm in arms}
    incomplete_loops = {arm.info.without_profile for arm in comparison.arms if arm.info.arm not in names}
    return replace(
        comparison,
        arms=arms,
        pairs=tuple(pair for pair in comparison.pairs if {pair.a, pair.b} <= names),
        pooled=tuple(pair for pair in comparison.pooled if incomplete_loops.isdisjoint((pair.a, pair.b))),
        same=tuple(pair for pair in comparison.same if names.issuperset(pair)),
    )
