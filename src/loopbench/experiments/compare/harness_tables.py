"""How much of accuracy is the loop and how much the model, as sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence

from loopbench.metrics.harness import Harness, SourcePart
from loopbench.protocol.counts import counted
from loopbench.text.numbers import interval
from loopbench.text.table import Table


def sentences(found: Sequence[Harness]) -> list[str]:
    """Return a sentence for each suite: whether the loop or the model moves accuracy more."""
    return [f"{each.suite}: {each.sentence}" if len(found) > 1 else each.sentence for each in found]


def harness_tables(found: Sequence[Harness]) -> list[Table]:
    """Return for each suite what accuracy varies by, and how often rankings reverse."""
    return [_table(each) for each in found]


def _table(found: Harness) -> Table:
    rows = [(part.source.replace("model", found.kind), _deviation(part), f"{100 * part.share:.1f} %") for part in found.parts]
    rows += [
        (f"two loops change places under another {found.kind}", f"{found.loops_reverse:.2f}", ""),
        (f"two {found.kind}s change places under another loop", f"{found.conditions_reverse:.2f}", ""),
    ]
    crossed = f"{counted(len(found.loops), 'loop')} × {len(found.conditions)} {found.kind}s × {counted(found.tasks, 'task')}"
    return Table(
        f"How much is the harness, {found.suite}: {crossed}",
        ("source", "standard deviation of accuracy, or share of pairs", "share of variance"),
        tuple(rows),
    )


def _deviation(part: SourcePart) -> str:
    return interval(part.deviation, 3) if part.has_interval else f"{part.deviation.value:.3f}, no interval"
