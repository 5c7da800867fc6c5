"""How much of the growth of an amount is of trials that are solved now and were not, in words."""

from __future__ import annotations

from whichloop.metrics.gate import GateLine
from whichloop.metrics.summary import METRICS
from whichloop.protocol.values import counted

from ..data.growth import Growth
from ..data.literal import literal
from ..data.names import short_arm
from ..data.outcome import GateResult
from .line_words import amount_in_words


def growth_of(result: GateResult, line: GateLine) -> Growth | None:
    """Return the growth of a line's amount; None where no trial is solved now that was not, or the amount did not grow."""
    return next((growth for growth in result.growths if (growth.arm, growth.metric) == (line.arm, line.metric)), None)


def growth_in_words(growth: Growth) -> str:
    """Return how much of the growth is of trials that are solved now and were not, and what a solved trial takes; without a full
    stop."""
    metric, before = growth.metric, growth.per_solved_before
    digits = METRICS[metric].digits
    was = "–" if before is None else f"{before:,.{digits}f}"
    solved = f"{growth.solved_before:,} → {counted(growth.solved_now, 'solved trial')}"
    course = f"{was} → {growth.per_solved_now:,.{digits}f} ({solved})"
    return f"{short_arm(growth.arm)}: {_of_newly_solved(growth)}; {metric} per solved trial {course}"


def growth_text(result: GateResult, line: GateLine) -> str:
    """Return the growth of a line's amount as a sentence; empty where there is none to tell of."""
    growth = growth_of(result, line)
    return "" if growth is None else literal(f"{growth_in_words(growth)}.")


def _of_newly_solved(growth: Growth) -> str:
    trials = counted(growth.newly_solved, "trial that is solved now and was not", "trials that are solved now and were not")
    part, whole = (amount_in_words(growth.metric, value) for value in (growth.of_newly_solved, growth.of_all))
    if growth.of_newly_solved > growth.of_all:
        return f"the {trials} took {part} more in {growth.metric}, all trials together {whole} more"
    of_whole = "none" if growth.of_newly_solved <= 0 else "all" if growth.of_newly_solved == growth.of_all else part
    return f"the {trials} took {of_whole} of the {whole} more in {growth.metric}"
