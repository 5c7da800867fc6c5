"""The matrix of an answer on the terminal: loops × profiles, as wide as a terminal has room for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from whichloop.experiments.compare.verdict.answer import ComparisonAnswer
from whichloop.experiments.compare.verdict.matrix import (
    NOT_APPLICABLE,
    SIGNS,
    AnswerCell,
    AnswerRow,
    Place,
    cost_in_words,
    cost_text,
    counted_in,
)
from whichloop.metrics.arm_warnings import MAX_LEFT_OUT
from whichloop.metrics.statistics import Interval
from whichloop.metrics.views import Unit
from whichloop.protocol.values import counted, joined
from whichloop.text.numbers import hundredths, interval, interval_of
from whichloop.text.output import plain_line, without_middle

from .console import WIDE, wrapped
from .tables import GAP, Rows, folded, side_by_side, widest_fitting, with_folded_heads

MIN_NAME = 16
"""Columns of a loop's name on however narrow a terminal."""
NO_ROOM = "No room here for {}: -v and the page show them"
"""Stands below a matrix without costs or intervals that are known."""
STYLES: Mapping[Place | None, str] = {
    "highest": "bold green",
    "not told apart": "",
    "lower": "red",
    NOT_APPLICABLE: "dim",
    None: "",
}


@dataclass(frozen=True, slots=True)
class CellForm:
    """How numbers are written: a wide terminal has room for more of an interval than a narrow one."""

    accuracy: Callable[[Interval], str]
    cost: Callable[[Interval, Unit], str] | None
    head: str = "{} a trial"
    """What stands above costs, with the place of their unit."""
    lacks_of_costs: str = ""
    """What it leaves out of costs, with the place of their unit."""
    has_intervals: bool = True
    """Whether accuracies have theirs."""

    def lacks(self, unit: Unit, *, are_costs_known: bool) -> str:
        """Return what a matrix in this form leaves out: `tokens a trial and intervals`; empty where it has all that is known."""
        costs = [self.lacks_of_costs.format(counted_in(unit))] if are_costs_known and self.lacks_of_costs else []
        return joined([*costs, *([] if self.has_intervals else ["intervals"])], "and")


def in_thousandths(value: Interval) -> str:
    """Return a share and its interval with three digits each: `0.833 [0.778, 0.881]`."""
    return interval(value, 3)


def in_hundredths(value: Interval) -> str:
    """Return the same with two digits and without zeros before the point, for a narrow terminal: `.83 [.78, .88]`."""
    return interval_of(value, hundredths)


def _cost(value: Interval, unit: Unit) -> str:
    return cost_in_words(value, unit)


def _mean_cost(value: Interval, unit: Unit) -> str:
    return cost_text(value.value, unit)


WIDEST = CellForm(in_thousandths, _cost)
FORMS = (
    WIDEST,
    CellForm(in_hundredths, _cost),
    CellForm(in_hundredths, _mean_cost, "{}", lacks_of_costs="intervals of {}"),
    CellForm(in_hundredths, None, lacks_of_costs="{} a trial"),
    CellForm(lambda value: hundredths(value.value), None, lacks_of_costs="{} a trial", has_intervals=False),
)
"""The widest form comes first; the last one is without intervals."""
WITH_COSTS = sum(form.cost is not None for form in FORMS)
"""How many of them have costs; before those are left out, heads are folded."""


def share_form(answer: ComparisonAnswer, width: int) -> Callable[[Interval], str]:
    """Return how the matrix of an answer writes its shares at this width, for what stands beside it."""
    has_room = widest_fitting([matrix_cells(answer, answer.rows, WIDEST, _row_names(answer))], width)[1]
    return in_thousandths if has_room else in_hundredths


@dataclass(frozen=True, slots=True)
class RowNames:
    """The columns that name the rows of a matrix."""

    heads: tuple[str, ...]
    of: Callable[[AnswerRow], tuple[str, ...]]


def _row_names(answer: ComparisonAnswer) -> RowNames:
    """Return the column that names the rows of one run's matrix: its loops."""
    return RowNames((answer.subject,), lambda row: (row.loop,))


def matrix_lines(answer: ComparisonAnswer, width: int, room: int, *, has_ties: bool = True) -> Iterator[Text]:
    """Yield the heading and the rows, as many as there is room for and, with `has_ties`, all that tie with the best."""
    shown_rows = answer.rows if len(answer.rows) <= room or width >= WIDE else _first_rows(answer, room - 1, has_ties=has_ties)
    lines, form = _shown_cells(answer, shown_rows, width, room)
    yield from lines
    are_costs_known = any(cost is not None for row in shown_rows for cost in answer.costs_of(row))
    if lacks := form.lacks(answer.unit, are_costs_known=are_costs_known):
        yield from wrapped(NO_ROOM.format(lacks), "dim", width)
    if hidden := [row for row in answer.rows if row not in shown_rows]:
        open_ones = sum(_ties_wherever_compared(row) for row in hidden)
        ties = f", {open_ones} not told apart from the best" if open_ones else ""
        are_less = all(row.accuracy < shown_rows[-1].accuracy for row in hidden)
        how = "less accurate on average" if are_less else "none more accurate on average than the first"
        yield from wrapped(f"and {counted(len(hidden), f'more {answer.subject}')}, {how}{ties}", "dim", width)


def _ties_wherever_compared(row: AnswerRow) -> bool:
    """Return whether a loop is compared with others under some profile, and not told apart from the best under any of these."""
    places = [cell.place for cell in row.cells if cell is not None and cell.place is not None]
    return bool(places) and all(place in ("highest", "not told apart") for place in places)


def _shown_cells(answer: ComparisonAnswer, rows: Sequence[AnswerRow], width: int, room: int) -> tuple[list[Text], CellForm]:
    """Return the lines of the heading and of these rows, and the form of their cells: the widest that fits."""
    names = _row_names(answer)
    whole = [FormedRows(form, matrix_cells(answer, rows, form, names)) for form in FORMS]
    forms = list(whole)
    if width < WIDE and not _fitting(forms[:WITH_COSTS], width):
        low = [each.with_folded_heads() for each in forms[1:WITH_COSTS]]
        short = [each.with_short_names(width) for each in low[-1:]] if _fitting(forms[WITH_COSTS:-1], width) else []
        forms[WITH_COSTS:WITH_COSTS] = [*low, *short]  # costs are worth the middle of a name
    if _fitting(forms[:-1], width):
        shown = _fitting(forms, width)[0]
        return list(side_by_side(shown.rows, width)), shown.form
    stacked = [each for each in whole[:-1] if _fitting([each.without_names()], width)]
    if 2 * len(rows) <= room and stacked:
        return list(folded([stacked[0].rows], width))[1:], stacked[0].form
    short = [each.with_short_names(width) for each in (*forms[1:], *(each.with_folded_heads() for each in forms[-2:]))]
    shown = (_fitting(short, width) or short[-1:])[0]
    return list(side_by_side(shown.rows, width)), shown.form


@dataclass(frozen=True, slots=True)
class FormedRows:
    """The heading and the rows of a matrix in one form."""

    form: CellForm
    rows: Rows

    def with_folded_heads(self) -> FormedRows:
        """Return the same with heads in several lines."""
        return FormedRows(self.form, with_folded_heads(self.rows))

    def with_short_names(self, width: int) -> FormedRows:
        """Return the same with loops' names so short that they fit, as far as that can be."""
        return FormedRows(self.form, _with_short_names(self.rows, width))

    def without_names(self) -> FormedRows:
        """Return what stands below names that have lines of their own."""
        return FormedRows(self.form, [[Text(""), *row[1:]] for row in self.rows])


def _fitting(forms: Sequence[FormedRows], width: int) -> list[FormedRows]:
    """Return those that fit into so many columns, the widest form first."""
    return [each for each in forms if widest_fitting([each.rows], width)[1]]


def _first_rows(answer: ComparisonAnswer, room: int, *, has_ties: bool) -> Sequence[AnswerRow]:
    """Return the rows of the loops that the answer says to adopt and as many of the first others as have room; with `has_ties`,
    also those that are the most accurate of some column or as accurate on average as the first one."""
    rows, adopted = answer.rows, {loop for sentence in answer.answer_sentences for loop in sentence.loops}
    others = [row for row in rows if row.loop not in adopted]
    kept = {row.loop for row in others[: max(0, room - (len(rows) - len(others)))]} | adopted
    if has_ties:
        kept |= {row.loop for row in rows if row.accuracy >= rows[0].accuracy or any(c and c.place == "highest" for c in row.cells)}
    return [row for row in rows if row.loop in kept]


def _with_short_names(rows: Rows, width: int) -> Rows:
    """Return rows whose loops have names so short that they fit, though no shorter than `MIN_NAME`.

    Names whose beginnings and ends are those of another one stay whole.
    """
    others = [max(row[n].cell_len for row in rows) + GAP for n in range(1, len(rows[0]))]
    room = max(width - sum(others), MIN_NAME)
    heads = sum(not row[0] for row in rows[1:])  # the further lines of folded heads have no name
    short = [without_middle(row[0].plain, room) for row in rows]
    names = short if len(set(short)) == len(rows) - max(0, heads - 1) else [row[0].plain for row in rows]
    return [[Text(name, style=row[0].style), *row[1:]] for name, row in zip(names, rows, strict=True)]


def matrix_cells(answer: ComparisonAnswer, rows: Sequence[AnswerRow], form: CellForm, names: RowNames) -> list[list[Text]]:
    """Return the heading and the rows of a matrix in one form, without costs where none is known."""
    heads = [plain_line(answer.heading(column)) for column in answer.columns]
    cost_form = form.cost if any(cost is not None for row in rows for cost in answer.costs_of(row)) else None
    if cost_form is not None:
        heads = answer.with_costs(heads, [form.head.format(counted_in(answer.unit))] * (len(heads) if answer.is_apart else 1))
    heads = [*names.heads, *heads]
    lines = [[Text(head, style="dim") for head in heads]]
    most = [_most_tasks(answer, number) for number in range(len(answer.columns))]
    for row in rows:
        line = [_cell(cell, form, of) for cell, of in zip(row.cells, most, strict=True)]
        if cost_form is not None:
            costs = [Text("–" if cost is None else cost_form(cost, answer.unit)) for cost in answer.costs_of(row)]
            line = answer.with_costs(line, costs)
        lines.append([*(Text(plain_line(name)) for name in names.of(row)), *line])
    return lines


def _most_tasks(answer: ComparisonAnswer, number: int) -> int:
    """Return how many tasks were scored in the arm of a column that has most of them."""
    column = [row.cells[number] for row in answer.rows]
    return max((cell.arm.summary.tasks for cell in column if cell is not None), default=0)


def _cell(cell: AnswerCell | None, form: CellForm, most: int) -> Text:
    """Return an arm's accuracy, with the number of its tasks if it lacks many. `most`: those of the arm that has most of them."""
    if cell is not None and cell.place == NOT_APPLICABLE:
        return Text(NOT_APPLICABLE, style="dim")
    if cell is None or cell.accuracy is None:
        return Text("–")
    own = cell.arm.summary.tasks
    tasks = f" ({own} of {most} tasks)" if own < (1 - MAX_LEFT_OUT) * most else ""
    return Text(f"{form.accuracy(cell.accuracy)}{SIGNS[cell.place]}{tasks}", style=STYLES[cell.place])
