"""How few tasks, or clusters of them, show no difference, and from how few nothing is planned."""

from __future__ import annotations

MIN_PLANNED_FROM = 20
"""Tasks below which the variance is not known well enough to name a number of tasks at all."""


def too_few_units(units: int, alpha: float) -> bool:
    """Tell whether the sign-flip test over so many units cannot show any difference: its smallest p, 2/2ⁿ, is alpha or more."""
    return 2 * 0.5**units >= alpha


def are_too_few_to_plan(units: int, alpha: float, *, is_clustered: bool) -> bool:
    """Whether from so many tasks, or clusters of them, no number of tasks that would decide is told."""
    return too_few_units(units, alpha) or (not is_clustered and units < MIN_PLANNED_FROM)
