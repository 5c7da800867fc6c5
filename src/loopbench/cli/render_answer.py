"""A comparison's answer on the terminal: a matrix of loops × profiles and a few sentences, at most twelve lines at 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.text import Text

from loopbench.experiments.compare.answer import SIGNS, WORSE, AnswerCell, AnswerRow, ComparisonAnswer, Place, amount, answer
from loopbench.experiments.compare.exposure import exposures
from loopbench.experiments.compare.results import Results
from loopbench.experiments.compare.tables import INVALID_RUN, UNITS, crashes
from loopbench.metrics.statistics import Interval
from loopbench.metrics.views import Unit
from loopbench.text.numbers import hundredths, interval, interval_of
from loopbench.text.plain_text import plain_line

from .columns import fitting, folded, side_by_side
from .console import WIDE

MAX_LINES = 11
"""Of an answer at 80 columns; one more line says where it was logged."""
MIN_ROWS = 3
"""Loops that are shown however long the sentences are."""
MAX_WARNINGS = 2
STYLES: Mapping[Place | None, str] = {"highest": "bold green", "not told apart": "", "lower": "red", None: ""}
LEGEND = "accuracy: * highest, = not told apart"


@dataclass(frozen=True, slots=True)
class CellForm:
    """How numbers are written: a wide terminal has room for more of an interval than a narrow one."""

    accuracy: Callable[[Interval], str]
    cost: Callable[[Interval, Unit], str] | None


def _thousandths(value: Interval) -> str:
    return interval(value, 3)


def _hundredths(value: Interval) -> str:
    return interval_of(value, hundredths)


def _cost(value: Interval, unit: Unit) -> str:
    return interval_of(value, lambda number: amount(number, unit))


FORMS = (
    CellForm(_thousandths, _cost),
    CellForm(_hundredths, _cost),
    CellForm(_hundredths, None),
    CellForm(lambda value: hundredths(value.value), None),
)
"""The widest form comes first; the last one is without intervals."""


def answer_lines(found: Results, width: int) -> Iterator[Text]:
    """Yield the lines of a run's answer, at most eleven at 80 columns: title, matrix, warnings, sentences.

    Into a file or a pipe, `WIDE` columns, the cells of the matrix stand between tabs, without padding.
    """
    said, exposed = answer(found.comparison), exposures(found.comparison)
    title = [Text(line, style="bold") for line in textwrap.wrap(f"{plain_line(found.title)} · {LEGEND}", width)]
    room = MAX_LINES - 1 - len(title)
    sentences = _lines(found, said, width)
    if exposed and said.sentences and width < WIDE and MIN_ROWS + len(sentences) > room:
        said = replace(said, sentences=(*said.sentences[: -len(exposed)], *(one.brief for one in exposed)))
        sentences = _lines(found, said, width)
    if width < WIDE and len(said.rows) + len(sentences) > room:
        said = replace(said, sentences=tuple(each for each in said.sentences if not each.startswith(WORSE)))  # the matrix shows it
        sentences = _lines(found, said, width)
    yield from title
    yield from _matrix(said, width, max(MIN_ROWS, room - len(sentences)))
    yield from sentences


def _lines(found: Results, said: ComparisonAnswer, width: int) -> list[Text]:
    return [line for sentence in _sentences(found, said) for line in _wrapped(sentence, width)]


def _sentences(found: Results, said: ComparisonAnswer) -> Iterator[tuple[str, str]]:
    """Yield sentences with their styles: warnings, and then what follows from the matrix."""
    comparison = found.comparison
    if comparison.invalid:
        yield INVALID_RUN, "bold red"
    warnings = [*(f"Warning: {warning}" for warning in comparison.warnings), *crashes(comparison.arms)]
    for warning in warnings[:MAX_WARNINGS]:
        yield warning, "yellow"
    hidden = len(warnings) - MAX_WARNINGS
    if hidden > 0:
        yield f"{hidden} more warnings: loopbench report {found.folder}", "yellow"
    for number, sentence in enumerate(said.sentences):
        yield f"{sentence}.", "bold" if number == 0 else ""


def _wrapped(sentence: tuple[str, str], width: int) -> list[Text]:
    words, style = sentence
    lines = textwrap.wrap(plain_line(words), width, break_on_hyphens=False)
    return [Text(line, style=style) for line in lines]


def _matrix(said: ComparisonAnswer, width: int, room: int) -> Iterator[Text]:
    """Yield the heading and the rows, as many as there is room for."""
    shown = said.rows if len(said.rows) <= room or width >= WIDE else said.rows[: room - 1]
    forms = [_cells(said, shown, form) for form in FORMS]
    _, fits = fitting(forms[:-1], width)
    if fits or 2 * len(shown) > room:
        yield from side_by_side(fitting(forms, width)[0], width)
    else:
        yield from list(folded(forms[:-1], width))[1:]  # long names stand above their intervals
    if hidden := len(said.rows) - len(shown):
        yield Text(f"and {hidden} more loops, none of them more accurate on average", style="dim")


def _cells(said: ComparisonAnswer, rows: Sequence[AnswerRow], form: CellForm) -> list[list[Text]]:
    heads = ["loop", *(plain_line(said.heading(column)) for column in said.columns)]
    if form.cost is not None:
        heads.append(f"{UNITS[said.unit]} a trial")
    made = [[Text(head, style="dim") for head in heads]]
    for row in rows:
        line = [Text(plain_line(row.loop)), *(_cell(cell, form) for cell in row.cells)]
        if form.cost is not None:
            line.append(Text("–" if row.cost is None else form.cost(row.cost, said.unit)))
        made.append(line)
    return made


def _cell(cell: AnswerCell | None, form: CellForm) -> Text:
    if cell is None or cell.arm.summary.accuracy is None:
        return Text("–")
    return Text(f"{form.accuracy(cell.arm.summary.accuracy)}{SIGNS[cell.place]}", style=STYLES[cell.place])
