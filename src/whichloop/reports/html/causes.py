"""Sections on why trials were lost: causes pair by pair, tasks worth a look, and chosen trials side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from whichloop.experiments.compare.results import Results
from whichloop.experiments.why.doc import task_tables, why_doc
from whichloop.experiments.why.losses import PairLosses, Why, losses_explained
from whichloop.metrics.record_table import of_tasks
from whichloop.metrics.trajectory.causes import Divergence, meaning_of
from whichloop.runs.folders import run_name
from whichloop.runs.store.traces import Traces
from whichloop.text import doc
from whichloop.text.numbers import short_name

from .document import Block, Folded, Grid, Items, PageSection, Paragraph, Subsection, section_or_none
from .side_by_side import side_by_side

MAX_TRACES = 8
"""Most pairs of trials that are shown side by side."""
Trial = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class LossFindings:
    """A run's losses, and which of them the page shows side by side."""

    results: Results
    why: Why
    chosen: Mapping[Trial, tuple[str, Divergence]]
    """Lost trial → its id on the page, and where it diverges from another."""


def find_losses(results: Results, prefix: str) -> LossFindings:
    """Return a run's losses. `prefix`: begins the ids that links lead to.

    Raises RunError for a missing or damaged trace.
    """
    explained = losses_explained(results, most=1)
    examples = choose_examples(explained.pairs, MAX_TRACES)
    before = f"{prefix}-" if prefix else ""
    ids = {(one.loser, one.task, one.repeat): (f"{before}trace-{number}", one) for number, one in enumerate(examples, 1)}
    return LossFindings(results, explained, ids)


def choose_examples(pairs: Sequence[PairLosses], most: int) -> list[Divergence]:
    """Return one example of each loser and cause, the costliest causes first; no trial is a duplicate."""
    weighed = [(pair.causes[divergence.loser][divergence.cause], divergence) for pair in pairs for divergence in pair.divergences]
    examples: list[Divergence] = []
    seen: set[tuple[str, str]] = set()
    for _, divergence in sorted(weighed, key=lambda item: -item[0]):
        is_new = (divergence.loser, divergence.cause) not in seen
        if (
            is_new
            and len(examples) < most
            and all((divergence.loser, divergence.task) != (chosen.loser, chosen.task) for chosen in examples)
        ):
            seen.add((divergence.loser, divergence.cause))
            examples.append(divergence)
    return examples


# --- causes and tasks ---


def why_section(losses: LossFindings) -> PageSection | None:
    """Return the section on what trials were lost to; None if none was lost."""
    if not any(arm.lost for arm in losses.why.arms):
        return None
    document = why_doc(replace(losses.results, folder=Path(run_name(losses.results.folder))), losses.why, with_tasks=False)
    causes = dict.fromkeys(cause for arm in losses.why.arms for cause in arm.causes)
    subject = losses.results.comparison.arms[0].info.subject
    meanings = Items(tuple(f"{cause}: {meaning_of(cause, subject)}" for cause in causes), "quiet")
    return PageSection("why", "Why trials were lost", (*map(_block, document.blocks), *([meanings] if causes else [])))


def tasks_section(why: Why) -> PageSection | None:
    """Return the section on tasks that are flaky, that one arm or none solves or that are falsely claimed, and on wasted steps."""
    tables = [table for group in why.findings.groups for table in task_tables(group, detail=False) if table.rows]
    return section_or_none("tasks", "Tasks, one by one", [_block(table) for table in tables])


def _block(block: doc.Block) -> Block:
    """Return a block of a document as the page has it: a detail folded."""
    if isinstance(block, doc.Table):
        shown: Block = Grid(block.title, block.columns, tuple(map(tuple, block.texts)))
    elif isinstance(block, doc.Lines):
        shown = Items(tuple(f"{label}: {text}" for label, text in block.items))
    else:
        shown = Items(block.lines)
    name = block.title if isinstance(block, doc.Table) else "Examples"
    return Folded(name, (shown,)) if block.detail else shown


# --- side by side ---


def traces_section(losses: LossFindings) -> PageSection | None:
    """Return the chosen lost trials, each beside a solved one; None if none was chosen. Raises RunError if a trace is missing."""
    infos = {arm.info.arm: arm.info for arm in losses.results.comparison.arms}
    task_records = of_tasks(losses.results.records, {one.task for _, one in losses.chosen.values()})
    records = {record.key: record for record in task_records}
    parts, called, traces = [], run_name(losses.results.folder), Traces(losses.results.folder)
    for anchor, one in losses.chosen.values():
        winner, loser = (traces.read(records[arm, one.task, one.repeat]) for arm in (one.winner, one.loser))
        both = side_by_side((winner, loser), called)
        names = f"{short_name(infos[one.winner])} and {short_name(infos[one.loser])}, {infos[one.loser].profile}"
        lost = f"{short_name(infos[one.loser])}, which lost it, at step {one.step}: {one.cause}, {one.detail}"
        summary = f"They part at step {one.parts_at} of {lost}."
        folded = Folded("Both trials, step by step", (Paragraph(loser.head.query, "quote"), both), anchor)
        parts.append(Subsection(f"{one.task}: {names}", (Paragraph(summary), folded)))
    return section_or_none("traces", "Lost trials beside solved ones", parts)
