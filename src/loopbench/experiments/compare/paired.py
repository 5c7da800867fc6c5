"""The paired difference of two arms in words, and that clusters of tasks are too few to show any."""

from __future__ import annotations

from collections.abc import Sequence

from loopbench.metrics.comparison import Pair, too_few_units
from loopbench.protocol.counts import counted
from loopbench.text.numbers import interval, p_value


def difference_in_words(pair: Pair, a: str, b: str) -> tuple[str, str]:
    """Return a minus b with its interval, p and the number of common tasks, and the same in brief. `a`, `b`: their names."""
    tasks, p = counted(pair.difference.n, "common task"), p_value(pair.p_holm)
    clusters = f" in {counted(pair.units, 'cluster')}" if pair.units < pair.difference.n else ""
    gap = f"{a} minus {b}: {interval(pair.difference, 3)}"
    tested = f"paired over {tasks}{clusters} (p {p if p.startswith('<') else f'= {p}'})"
    return f"{gap} in accuracy, {tested}", f"{gap}, {tested}"


def too_few_clusters(undecided: Sequence[Pair], alpha: float) -> str:
    """Return that clusters of tasks, and not tasks, are too few to decide any of these pairs; empty where they are not."""
    units = max(pair.units for pair in undecided)
    if not all(pair.units < pair.difference.n for pair in undecided) or not too_few_units(units, alpha):
        return ""
    return f"{counted(units, 'cluster')} of tasks can show no difference, whatever the number of tasks in them"
