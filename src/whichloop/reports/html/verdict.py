"""The first section: the matrix of loops and profiles, and which loop to adopt; of an ablation its effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from whichloop.experiments.ablate.ablation import AblationResult
from whichloop.experiments.ablate.tables import ablation_notes, ablation_tables
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.tables import INVALID_RUN, comparison_notes
from whichloop.experiments.compare.verdict_old.answer import ComparisonAnswer
from whichloop.experiments.compare.verdict_old.clustered import defaults_sentence, unit_sentences
from whichloop.experiments.compare.verdict_old.few_tasks_table import FewTasksTable
from whichloop.experiments.compare.verdict_old.matrix import (
    NOT_APPLICABLE,
    AnswerCell,
    AnswerRow,
    Place,
    cost_in_words,
    cost_text,
    counted_in,
)
from whichloop.experiments.compare.verdict_old.sentence import leading
from whichloop.metrics.statistics import Interval
from whichloop.metrics.summary import METRICS, PRIMARY
from whichloop.metrics.views import Unit
from whichloop.protocol.values import counted
from whichloop.text.numbers import interval

from .charts import effects
from .document import UNKNOWN, Amount, Banner, Block, Cell, Figure, Folded, Grid, Items, PageSection, Paragraph
from .grouping import group_by

WARNING = "Warning: "
BROKEN = ("This run is invalid", "The test is invalid")
"""Beginnings of notes that the page shows in a banner."""
PLACES: dict[Place, str] = {"highest": "best", "not told apart": "not told apart", "lower": "worse", NOT_APPLICABLE: NOT_APPLICABLE}


def verdict_section(results: Results, conclusions: Sequence[str] | None = None) -> PageSection:
    """Return the first section: warnings, the matrix and the answer that follows from it.

    `conclusions`: what to say instead of both.
    """
    answer = results.answer
    if conclusions is not None:
        blocks: list[Block] = [Items(tuple(f"{line}." for line in conclusions), "verdicts")]
    else:
        is_scored = any(arm.summary.accuracy is not None for arm in results.comparison.arms)
        standing_out = len(leading(answer.answer_sentences))
        blocks = [matrix(answer) if is_scored else Paragraph("No trial was scored.")]
        blocks += [
            Paragraph(f"{line}.", "strong" if place < standing_out else "plain") for place, line in enumerate(answer.sentences)
        ]
        if defaults := defaults_sentence(results.manifest):
            blocks.append(Paragraph(defaults))
        if not results.comparison.invalid:
            blocks += map(Paragraph, unit_sentences(results.manifest, results.comparison))
        if answer.on_tasks.is_shown:
            blocks.append(_of_tasks(answer.on_tasks))
    reading = how_to_read(comparison_notes(results.comparison))
    return PageSection("verdict", "Verdict", (*_banners(results), *blocks, *reading))


def matrix(answer: ComparisonAnswer) -> Grid:
    """Return the table of loops and profiles, the most accurate loop first; bars begin at 0."""
    names, costs = [answer.heading(column) for column in answer.columns], f"{counted_in(answer.unit)} a trial"
    heads = (answer.subject, *answer.with_costs(names, [f"{costs} under {name}" for name in names] if answer.is_apart else [costs]))
    several = bool(answer.compared)
    order = f", the most accurate {answer.subject} on average first" if len(answer.columns) > 1 and len(answer.rows) > 1 else ""
    marks = "; worse: than the best, beyond chance; not told apart: from the best" if several else ""
    of = "of each agent" if answer.subject == "agent" else "under each fault profile"
    caption = f"Accuracy {of}, with its interval in brackets{order}{marks}"
    return Grid(caption, heads, tuple(_row(row, answer) for row in answer.rows))


def _of_tasks(on: FewTasksTable) -> Grid:
    """Return the table of loops and a few tasks, with the trials beyond the limit and mean costs."""
    caption = (
        f"{on.caption[0].upper()}{on.caption[1:]}; behind it the trials over the limit, if any, and what a trial cost on average"
    )
    cells = [[on.cell(row, task, has_limits=True, has_costs=True) for task in on.tasks] for row in on.matrix.rows]
    rows = tuple((row.loop, *own) for row, own in zip(on.matrix.rows, cells, strict=True))
    return Grid(caption, (on.matrix.subject, *on.tasks), rows)


def _row(row: AnswerRow, answer: ComparisonAnswer) -> tuple[Cell, ...]:
    costs: list[Cell] = [UNKNOWN if cost is None else _cost(cost, answer.unit) for cost in answer.costs_of(row)]
    return row.loop, *answer.with_costs([_cell(cell) for cell in row.cells], costs)


def _cell(cell: AnswerCell | None) -> Cell:
    accuracy = None if cell is None else cell.accuracy
    if cell is None or accuracy is None:
        return NOT_APPLICABLE if cell is not None and cell.place == NOT_APPLICABLE else UNKNOWN
    note = "" if cell.place is None else PLACES[cell.place]
    return Amount(interval(accuracy, 3), accuracy.value, note, is_best=cell.place == "highest")


def _cost(value: Interval, unit: Unit) -> str:
    return cost_text(value.value, unit) if cost_text(value.low, unit) == cost_text(value.high, unit) else cost_in_words(value, unit)


# --- warnings and notes ---


def warning_banners(invalid: str, warnings: tuple[str, ...]) -> list[Banner]:
    """Return a banner with the warnings, if any. `invalid`: the title for an invalid run, empty for a valid one."""
    if invalid:
        return [Banner(invalid, warnings, "invalid")]
    return [Banner("Keep in mind", warnings)] if warnings else []


def how_to_read(notes: Sequence[str]) -> list[Folded]:
    """Return the notes that the page does not show in a banner, folded."""
    plain = tuple(note for note in notes if not note.startswith((WARNING, *BROKEN)))
    return [Folded("How to read these numbers", (Items(plain, "quiet"),))] if plain else []


def _banners(results: Results) -> Iterator[Banner]:
    comparison = results.comparison
    yield from warning_banners(INVALID_RUN if comparison.invalid else "", comparison.warnings)
    if not results.is_complete:
        missing = results.scheduled - len(results.records)
        every = counted(results.scheduled, "trial")
        yield Banner("This run is incomplete", (f"{counted(missing, f'of {every} has', f'of {every} have')} no result yet.",))


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
