"""The section on an ablation: what each factor does, and which depend on each other."""

from __future__ import annotations

from collections.abc import Iterator

from loopbench.experiments.ablation import Ablated, ablated
from loopbench.experiments.ablation_report import conclusions, notes, tables
from loopbench.experiments.compare import Results
from loopbench.metrics.factorial import Effect
from loopbench.metrics.summary import PRIMARY

from .charts import NAMES, effects
from .document import Block, Figure, Folded, Grid, Items, Section
from .verdict import BROKEN, WARNING


def effects_section(found: Results) -> Section | None:
    """None where the run is no ablation. Raises RunError for a manifest that makes no sense."""
    made = ablated(found)
    if made is None:
        return None
    kept = tuple(note for note in notes(made) if not note.startswith((WARNING, *BROKEN)))
    blocks: list[Block] = [Items(tuple(f"{line}." for line in conclusions(made)), "verdicts")]
    by_metric = dict(_charts(made))
    if PRIMARY in by_metric:
        blocks.append(by_metric.pop(PRIMARY))
    blocks += [Grid(table.title, table.columns, table.rows) for table in tables(made)]
    if by_metric:
        blocks.append(Folded("Charts of the other metrics", tuple(by_metric.values())))
    return Section("effects", "What each factor does", (*blocks, Items(kept, "quiet")))


def _charts(made: Ablated) -> Iterator[tuple[str, Figure]]:
    by_metric: dict[str, list[Effect]] = {}
    for effect in made.effects.effects:
        by_metric.setdefault(effect.metric, []).append(effect)
    for metric, found in by_metric.items():
        read = f"Change of {NAMES.get(metric, metric)} with its interval; of an interaction, what both do beyond the sum of each."
        yield metric, Figure(effects(found), read)
