"""The section on an ablation: what each factor does, and which depend on each other."""

from __future__ import annotations

from collections.abc import Iterator

from loopbench.experiments.ablate.ablation import Ablated
from loopbench.experiments.ablate.tables import notes, tables
from loopbench.metrics.factors.factorial import Effect
from loopbench.metrics.summary import METRICS, PRIMARY

from .charts import effects
from .document import Block, Figure, Folded, Grid, Items, PageSection
from .verdict import BROKEN, WARNING


def effects_section(made: Ablated) -> PageSection:
    """What each change does to each metric."""
    kept = tuple(note for note in notes(made) if not note.startswith((WARNING, *BROKEN)))
    blocks: list[Block] = []
    by_metric = dict(_charts(made))
    if PRIMARY in by_metric:
        blocks.append(by_metric.pop(PRIMARY))
    blocks += [Grid(table.title, table.columns, table.rows) for table in tables(made)]
    if by_metric:
        blocks.append(Folded("Charts of the other metrics", tuple(by_metric.values())))
    return PageSection("effects", "What each factor does", (*blocks, Items(kept, "quiet")))


def _charts(made: Ablated) -> Iterator[tuple[str, Figure]]:
    by_metric: dict[str, list[Effect]] = {}
    for effect in made.effects.effects:
        by_metric.setdefault(effect.metric, []).append(effect)
    for metric, found in by_metric.items():
        read = f"Change of {METRICS[metric].label} with its interval; of an interaction, what both do beyond the sum of each."
        yield metric, Figure(effects(found), read)
