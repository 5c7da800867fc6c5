"""The trial in which a metric got most worse, in words, with the commands that show both of its sides."""

from __future__ import annotations

from whichloop.metrics.gate import GateLine
from whichloop.metrics.measures import meaning_of

from ..data.literal import literal
from ..data.names import short_arm
from ..data.outcome import GateResult
from ..data.worst_trial import WorstTrial
from .line_words import amount_in_words


def worst_of(result: GateResult, line: GateLine) -> WorstTrial | None:
    """Return the worst trial of a line; None where none is told."""
    return next((worst for worst in result.worst if (worst.arm, worst.metric) == (line.arm, line.metric)), None)


def worst_in_words(worst: WorstTrial, *, paired: bool) -> str:
    """Return the trial with its values and why, and what the metric means; without a full stop.

    `paired`: whether the trial has a counterpart; else the values are means of its task.
    """
    place = f"{short_arm(worst.arm)}/{worst.task}"
    course = f"{amount_in_words(worst.metric, worst.was)} → {amount_in_words(worst.metric, worst.now)}"
    trial = f"the trial {place}/{worst.repeat}{', which was not solved in the baseline' if worst.newly_solved else ''}"
    where = f"{trial}, {course}" if paired else f"the task {place}, {course} on average"
    because = f"; {worst.cause}" if worst.cause else ""
    return f"worst in {worst.metric} ({meaning_of(worst.metric)}): {where}{because}"


def worst_lines(worst: WorstTrial, *, paired: bool) -> list[str]:
    """Return the trial as a sentence, and its commands, a line each."""
    sentence = worst_in_words(worst, paired=paired)
    return [literal(line) for line in (f"{sentence[:1].upper()}{sentence[1:]}.", *worst.commands)]


def worst_text(result: GateResult, line: GateLine) -> str:
    """Return the worst trial of a line and its commands as a text; empty where none is told."""
    worst = worst_of(result, line)
    return "" if worst is None else "\n".join(worst_lines(worst, paired=result.paired))
