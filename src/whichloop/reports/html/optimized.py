"""Sections on an optimization: what each design gained, the ranking before and after, what it cost, and its prompts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from whichloop.experiments.optimize.program_text import ProgramDiff, diff_lines
from whichloop.experiments.optimize.result import DesignResult, OptimizationResult
from whichloop.experiments.optimize.searched_prompts import comparing_words, kept_diff, programs_table
from whichloop.experiments.optimize.tables import gain_tables, optimization_notes, verdicts
from whichloop.protocol.values import counted, one_line

from .charts import gains
from .document import Block, Code, Diff, Figure, Folded, PageSection, Paragraph, Subsection, section_or_none
from .verdict import WARNING, how_to_read, warning_banners

MAX_OPEN = 60
"""Most lines of a diff that is not folded."""


def optimization_sections(result: OptimizationResult) -> tuple[PageSection, ...]:
    """Return the sections on an optimization, the verdict first."""
    return tuple(section for section in (_verdict(result), _numbers(result), _prompts(result)) if section is not None)


def _verdict(result: OptimizationResult) -> PageSection:
    all_notes = optimization_notes(result)
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
    blocks += gain_tables(result)
    return section_or_none("gains", "Gains, ranking and cost", blocks)


def _prompts(result: OptimizationResult) -> PageSection | None:
    """Return the section on the programs that each search tried, what changed in the prompts, and how to use them."""
    table = programs_table(result)
    blocks: list[Block] = [table] if table.rows else []
    for design in result.designs:
        if changed := list(_changes(design)):
            blocks.append(Subsection(design.design, (*changed, *_use(result, design))))
    return section_or_none("programs", "Optimized prompts", blocks)


def _changes(design: DesignResult) -> Iterator[Block]:
    """Yield how the prompts that a search kept differ from the old ones, and both in full."""
    diff = kept_diff(design)
    if diff is None:
        return
    if diff.equal:
        yield Paragraph("The old prompts were kept.")
        return
    lines = tuple(diff_lines(diff))
    block = Diff(lines)
    yield Folded(f"What changed in the prompts ({counted(len(lines), 'line')})", (block,)) if len(lines) > MAX_OPEN else block
    yield Folded("The instructions in full, before and after", tuple(_in_full(diff)))


def _in_full(diff: ProgramDiff) -> Iterator[Block]:
    """Yield the instructions of each predictor that changed."""
    for predictor in diff.predictors:
        if predictor.instructions:
            for program in (diff.a, diff.b):
                yield Paragraph(f"{one_line(predictor.name)}, {program.name}:", "quiet")
                yield Code(program.predictors[predictor.name].instructions)


def _use(result: OptimizationResult, design: DesignResult) -> Iterator[Block]:
    """Yield the command that runs the test of a design again."""
    if words := comparing_words(result, design):
        yield Paragraph("Old and new prompts on the test tasks again, typed in the folder where the search was begun:", "quiet")
        yield Code(shlex.join(words))
