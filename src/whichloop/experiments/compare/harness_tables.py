"""How much of accuracy is the loop and how much the model, as sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence

from whichloop.metrics.harness import Harness, SourcePart
from whichloop.protocol.values import counted
from whichloop.text.numbers import interval
from whichloop.text.table import Table


def harness_sentences(harnesses: Sequence[Harness]) -> list[str]:
    """Return a sentence for each suite: whether the loop or the model moves accuracy more."""
    return [f"{each.suite}: {each.sentence}" if len(harnesses) > 1 else each.sentence for each in harnesses]


def harness_tables(harnesses: Sequence[Harness]) -> list[Table]:
    """Return for each suite what accuracy varies by, and how often rankings reverse."""
    return [_table(each) for each in harnesses]


def _table(harness: Harness) -> Table:
    rows = [(part.source.replace("model", harness.kind), _deviation(part), f"{100 * part.share:.1f} %") for part in harness.parts]
    rows += [
        (f"two loops change places under another {harness.kind}", f"{harness.loops_reverse:.2f}", ""),
        (f"two {harness.kind}s change places under another loop", f"{harness.conditions_reverse:.2f}", ""),
    ]
    crossed = (
        f"{counted(len(harness.loops), 'loop')} × {len(harness.conditions)} {harness.kind}s × {counted(harness.tasks, 'task')}"
    )
    return Table(
        f"How much is the harness, {harness.suite}: {crossed}",
        ("source", "standard deviation of accuracy, or share of pairs", "share of variance"),
        tuple(rows),
    )


def _deviation(part: SourcePart) -> str:
    return interval(part.deviation, 3) if part.has_interval else f"{part.deviation.value:.3f}, no interval"
