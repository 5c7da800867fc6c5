"""The section on an ablation: the effect of each factor, and which factors depend on each other."""

from __future__ import annotations

from collections.abc import Iterator

from whichloop.experiments.ablate.ablation import AblationResult
from whichloop.experiments.ablate.tables import ablation_notes, ablation_tables
from whichloop.metrics.summary import METRICS, PRIMARY

from .charts import effects
from .document import Block, Figure, Folded, Grid, PageSection
from .grouping import group_by
from .verdict import how_to_read


def effects_section(ablation: AblationResult) -> PageSection:
    """Return the section on the effect of each change on each metric."""
    blocks: list[Block] = []
    by_metric = dict(_charts(ablation))
    if PRIMARY in by_metric:
        blocks.append(by_metric.pop(PRIMARY))
    blocks += [Grid(table.title, table.columns, table.rows) for table in ablation_tables(ablation)]
    if by_metric:
        blocks.append(Folded("Charts of the other metrics", tuple(by_metric.values())))
    return PageSection("effects", "What each factor does", (*blocks, *how_to_read(ablation_notes(ablation))))


def _charts(ablation: AblationResult) -> Iterator[tuple[str, Figure]]:
    for metric, same in group_by(ablation.effects.effects, lambda effect: effect.metric).items():
        read = f"Change of {METRICS[metric].label} with its interval; for an interaction, what both changes do beyond their sum."
        yield metric, Figure(effects(same), read)
