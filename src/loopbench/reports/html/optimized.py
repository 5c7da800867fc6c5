"""Sections on an optimization: what each design gained, the ranking before and after, what it cost."""

from __future__ import annotations

import shlex

from loopbench.experiments.optimize.result import OptimizationResult
from loopbench.experiments.optimize.tables import notes, tables, verdicts

from .charts import gains
from .document import Banner, Block, Code, Figure, Grid, Items, PageSection, Paragraph
from .verdict import BROKEN, WARNING


def optimization_sections(found: OptimizationResult) -> tuple[PageSection, ...]:
    """The verdict first."""
    return (_verdict(found), *_numbers(found), *_programs(found))


def _verdict(found: OptimizationResult) -> PageSection:
    said = notes(found)
    warnings = tuple(note.removeprefix(WARNING) for note in said if note.startswith(WARNING))
    blocks: list[Block] = []
    if found.invalid:
        blocks.append(Banner("The test is invalid: no verdict of it holds.", warnings, "invalid"))
    elif warnings:
        blocks.append(Banner("Keep in mind", warnings))
    blocks += [Paragraph(f"{line}.", "strong") for line in verdicts(found)]
    blocks.append(Items(tuple(note for note in said if not note.startswith((WARNING, *BROKEN))), "quiet"))
    return PageSection("verdict", "Verdict", tuple(blocks))


def _numbers(found: OptimizationResult) -> list[PageSection]:
    blocks: list[Block] = []
    tests = {gain.design: gain.test for gain in (found.gains.gains if found.gains else ()) if gain.test is not None}
    if tests and found.test is not None:
        read = "After minus before on the test tasks; right of the line the optimized program is more accurate."
        blocks.append(Figure(gains(tests, found.test.comparison.margin), read))
    blocks += [Grid(table.title, table.columns, table.rows) for table in tables(found)]
    return [PageSection("gains", "Gains, ranking and cost", tuple(blocks))] if blocks else []


def _programs(found: OptimizationResult) -> list[PageSection]:
    """Where the optimized programs are, and how to read them."""
    rows = tuple(
        (
            design.design,
            design.ended.digest[:12],
            Code(f"loopbench compare --loop {shlex.quote(f'{design.design}@{design.program.relative_to(found.folder)}')}"),
        )
        for design in found.designs
        if design.ended is not None and design.program is not None
    )
    columns = ("design", "digest", "in use, from the run directory")
    return [PageSection("programs", "Optimized programs", (Grid("One file per design", columns, rows),))] if rows else []
