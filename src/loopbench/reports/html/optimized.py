"""Sections on an optimization: what each design gained, the ranking before and after, what it cost."""

from __future__ import annotations

import shlex

from loopbench.experiments.optimize.result import OptimizationResult
from loopbench.experiments.optimize.tables import notes, tables, verdicts

from .charts import gains
from .document import Block, Code, Figure, Grid, PageSection, Paragraph, section_or_none
from .verdict import WARNING, how_to_read, warning_banners


def optimization_sections(result: OptimizationResult) -> tuple[PageSection, ...]:
    """Return the sections on an optimization, the verdict first."""
    return tuple(section for section in (_verdict(result), _numbers(result), _programs(result)) if section is not None)


def _verdict(result: OptimizationResult) -> PageSection:
    all_notes = notes(result)
    warnings = tuple(note.removeprefix(WARNING) for note in all_notes if note.startswith(WARNING))
    banners = warning_banners("The test is invalid: none of its verdicts holds." if result.invalid else "", warnings)
    lines = [Paragraph(f"{line}.", "strong") for line in verdicts(result)]
    return PageSection("verdict", "Verdict", (*banners, *lines, *how_to_read(all_notes)))


def _numbers(result: OptimizationResult) -> PageSection | None:
    blocks: list[Block] = []
    tests = {gain.design: gain.test for gain in (result.gains.gains if result.gains else ()) if gain.test is not None}
    if tests and result.test is not None:
        read = "After minus before on the test tasks; right of the line the optimized program is more accurate."
        blocks.append(Figure(gains(tests, result.test.comparison.margin), read))
    blocks += [Grid(table.title, table.columns, table.rows) for table in tables(result)]
    return section_or_none("gains", "Gains, ranking and cost", blocks)


def _programs(result: OptimizationResult) -> PageSection | None:
    """Return the section that says where the optimized programs are, and how to use them."""
    rows = tuple(
        (
            design.design,
            design.ended.digest[:12],
            Code(f"loopbench compare --loop {shlex.quote(f'{design.design}@{design.program.relative_to(result.folder)}')}"),
        )
        for design in result.designs
        if design.ended is not None and design.program is not None
    )
    columns = ("design", "digest", "in use, from the run directory")
    return section_or_none("programs", "Optimized programs", [Grid("One file per design", columns, rows)] if rows else [])
