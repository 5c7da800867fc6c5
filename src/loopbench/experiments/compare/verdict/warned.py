"""The warnings of a comparison as an answer tells them, the weightiest first: those of its arms, crashes, unknown costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from loopbench.metrics.arm_warnings import of_each
from loopbench.metrics.comparison import ArmResult, Comparison
from loopbench.text.counts import reasons


def warned(comparison: Comparison) -> list[str]:
    """Return all warnings, a line each; that costs are not known of all trials comes last."""
    main, costs = ([f"Warning: {each}" for each in told] for told in (comparison.main_warnings, comparison.cost_warnings))
    return [*main, *crashed(comparison.arms), *costs]


def crashed(arms: Sequence[ArmResult]) -> list[str]:
    """Return one line on the arms whose loops crashed, the largest share of trials first, with the most frequent reasons."""
    ordered = sorted((arm for arm in arms if arm.summary.crashes), key=lambda arm: -_crashes(arm) / arm.summary.scored)
    if not ordered:
        return []
    why: Counter[str] = Counter()
    for arm in ordered:
        why.update(arm.summary.crashes)
    each = {arm.info.arm: f"{_crashes(arm):,} of the {arm.summary.scored:,}" for arm in ordered}
    return [f"Crashed: {of_each(each, 'trials')} ({reasons(why)})"]


def _crashes(arm: ArmResult) -> int:
    return sum(arm.summary.crashes.values())
