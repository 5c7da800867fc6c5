"""The warnings of a comparison as an answer tells them, the weightiest first: those of its arms, crashes, trials that ran out of
time, unknown costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from loopbench.metrics.arm_warnings import of_each
from loopbench.metrics.comparison import ArmResult, Comparison
from loopbench.protocol import StopReason
from loopbench.text.counts import reasons


def warned(comparison: Comparison) -> list[str]:
    """Return all warnings, a line each; those about unknown costs come last."""
    main, costs = ([f"Warning: {each}" for each in warnings] for warnings in (comparison.main_warnings, comparison.cost_warnings))
    is_told = StopReason.TIMEOUT in comparison.limits.stops  # by the answer, which says who reached a limit of the run's own
    late = [] if is_told else timed_out(comparison.arms)
    return [*main, *crashed(comparison.arms), *late, *costs]


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


def timed_out(arms: Sequence[ArmResult]) -> list[str]:
    """Return one line on the arms of which trials ended because their time was up, the largest share of trials first."""
    late = {arm.info.arm: (arm.summary.stops.get(StopReason.TIMEOUT, 0), arm.summary.scored) for arm in arms}
    ordered = sorted((name for name, (many, _) in late.items() if many), key=lambda name: -late[name][0] / late[name][1])
    each = {name: f"{late[name][0]:,} of the {late[name][1]:,}" for name in ordered}
    return [f"Out of time, and so not solved: {of_each(each, 'trials')}"] if each else []


def _crashes(arm: ArmResult) -> int:
    return sum(arm.summary.crashes.values())
