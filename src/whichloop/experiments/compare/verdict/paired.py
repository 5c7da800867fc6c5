"""The paired difference of two arms in words, and that tasks or clusters of them are too few to show any."""

from __future__ import annotations

from collections.abc import Sequence

from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import are_too_few_to_plan
from whichloop.protocol.values import counted
from whichloop.text.numbers import difference_text, p_value


def difference_in_words(pair: Pair, a: str, b: str) -> tuple[str, str]:
    """Return a minus b with its interval, p and the number of common tasks, and the same in brief. `a`, `b`: their names."""
    tasks, p = counted(pair.difference.n, "common task"), p_value(pair.p_holm)
    clusters = f" in {counted(pair.units, 'cluster')}" if pair.units < pair.difference.n else ""
    gap = f"{a} minus {b}: {difference_text(pair.difference, 3)}"
    tested = f"paired over {tasks}{clusters} (p {p if p.startswith('<') else f'= {p}'})"
    return f"{gap} in accuracy, {tested}", f"{gap}, {tested}"


FIRST_TASKS = 50
"""Tasks to run first where there are too few to say anything: from as many, the variance is known well enough to plan with."""


def too_few_to_plan(undecided: Sequence[Pair], alpha: float) -> str:
    """Return that tasks, or clusters of them, are too few to decide any of these pairs or to tell how many would; empty where they
    are not."""
    most = max(undecided, key=lambda pair: pair.units)
    is_clustered = all(pair.units < pair.difference.n for pair in undecided)
    if not are_too_few_to_plan(most.units, alpha, is_clustered=is_clustered):
        return ""
    if not is_clustered:
        few = counted(most.units, "task is", "tasks are")
        return f"{few} too few to tell how many would decide; run about {FIRST_TASKS} first"
    return f"{counted(most.units, 'cluster')} of tasks can show no difference, whatever the number of tasks in them"
