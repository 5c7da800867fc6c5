"""A comparison's answer on the terminal: a matrix of loops × profiles and a few sentences, in about twelve lines at 80 columns."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.text import Text

from loopbench.experiments.compare.results import Results
from loopbench.experiments.compare.tables import INVALID_RUN
from loopbench.experiments.compare.verdict.answer import ComparisonAnswer
from loopbench.experiments.compare.verdict.clustered import clusters_sentence, unit_sentences
from loopbench.experiments.compare.verdict.crashed_arms import crashed_sentences
from loopbench.experiments.compare.verdict.deciding import deciding_command
from loopbench.experiments.compare.verdict.few_tasks_table import FewTasksTable
from loopbench.experiments.compare.verdict.framework_defaults import defaults_sentence
from loopbench.experiments.compare.verdict.matrix import (
    NOT_APPLICABLE,
    SIGNS,
    AnswerCell,
    AnswerRow,
    Place,
    cost_in_words,
    cost_text,
    counted_in,
)
from loopbench.experiments.compare.verdict.sentence import AnswerSentence, leading
from loopbench.experiments.compare.verdict.warned import warned
from loopbench.metrics.left_out import MAX_LEFT_OUT
from loopbench.metrics.statistics import Interval
from loopbench.metrics.views import Unit
from loopbench.protocol.counts import counted
from loopbench.text.numbers import hundredths, interval, interval_of
from loopbench.text.plain_text import plain_line

from .columns import GAP, Rows, folded, side_by_side, widest_fitting, with_folded_heads
from .console import WIDE

MAX_LINES = 12
"""Of an answer at 80 columns: what gives way is cut to reach it, and no loop of a few, nor what is undecided."""
CONTINUED = " \\"
"""What stands at the end of a line of a command that goes on."""
MIN_ROWS = 7
"""Loops that are shown however long the sentences are."""
MIN_NAME = 16
"""Columns of a loop's name on however narrow a terminal."""
MAX_WARNINGS = 2
NO_ROOM = "{} a trial have no room here: -v, a wider terminal and the page show them"
"""Stands below a matrix without costs that are known."""
NO_ROOM_FOR_TASKS = "The page and -v show what each {} solved of each task"
"""Stands in the place of the table of a few tasks."""
STYLES: Mapping[Place | None, str] = {
    "highest": "bold green",
    "not told apart": "",
    "lower": "red",
    NOT_APPLICABLE: "dim",
    None: "",
}
LEGEND = "accuracy: * highest, = not told apart"


@dataclass(frozen=True, slots=True)
class CellForm:
    """How numbers are written: a wide terminal has room for more of an interval than a narrow one."""

    accuracy: Callable[[Interval], str]
    cost: Callable[[Interval, Unit], str] | None
    head: str = "{} a trial"
    """What stands above costs, with the place of their unit."""


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
    CellForm(in_hundredths, _mean_cost, "{}"),
    CellForm(in_hundredths, None),
    CellForm(lambda value: hundredths(value.value), None),
)
"""The widest form comes first; the last one is without intervals."""
WITH_COSTS = sum(form.cost is not None for form in FORMS)
"""How many of them have costs; before those are left out, heads are folded."""


def share_form(answer: ComparisonAnswer, width: int) -> Callable[[Interval], str]:
    """Return how the matrix of an answer writes its shares at this width, for what stands beside it."""
    has_room = widest_fitting([matrix_cells(answer, answer.rows, WIDEST, _row_names(answer))], width)[1]
    return in_thousandths if has_room else in_hundredths


def answer_lines(run: Results, width: int, *, is_whole: bool = False) -> Iterator[Text]:
    """Yield the lines of a run's answer, at 80 columns at most twelve of two loops, and about twelve of more: title, matrix,
    warnings, sentences, and the table of a few tasks if it has room.

    `is_whole`: with that table and in all words, however many lines that takes.
    Into a file or a pipe, `WIDE` columns, the answer is whole, and the cells of the matrix stand between tabs, without padding.
    """
    answer = run.answer
    title = [Text(line, style="bold") for line in textwrap.wrap(f"{plain_line(run.title)} · {LEGEND}", width)]
    room = MAX_LINES - 1 - len(title)
    beside = MAX_LINES - len(title) - len(list(_matrix(answer, width, max(MIN_ROWS, room))))
    tasks = list(task_lines(answer.on_tasks, width))
    crashed = [*crashed_sentences(run.comparison)]  # they stand among the warnings
    said = [each for each in answer.answer_sentences if each not in crashed]
    if is_whole or width >= WIDE:
        sentences = list(_sentences(run, said, width))
    else:
        sentences = _sentences_within(run, said, width, beside - len(tasks))
        if tasks and len(tasks) + len(sentences) > beside:
            where = AnswerSentence(NO_ROOM_FOR_TASKS.format(answer.subject))
            sentences = _sentences_within(run, [*said, where], width, beside)
            tasks = []
    yield from title
    yield from _matrix(answer, width, max(MIN_ROWS, room - len(sentences)))
    yield from tasks
    yield from sentences


def _sentences_within(run: Results, sentences: Sequence[AnswerSentence], width: int, room: int) -> list[Text]:
    """Return the lines of warnings and sentences: of all of them if they have room, else in fewer words, at last as one paragraph
    that leaves to the matrix which amounts have no interval."""
    needed = [each for each in sentences if not each.may_be_left_out]  # the matrix shows what is left out
    few = _in_few_words(needed)
    one = [replace(each, opens=False) for each in few]
    forms: tuple[Callable[[], Iterator[Text]], ...] = (
        lambda: _sentences(run, sentences, width),
        lambda: _sentences(run, needed, width),
        lambda: _around(run, flowing_lines(run, few, width), width),
        lambda: _around(run, flowing_lines(run, one, width), width, has_reasons=False),
    )
    lines: list[Text] = []
    for form in forms:
        lines = list(form())
        if len(lines) <= room:
            break
    return lines


def task_lines(on: FewTasksTable, width: int) -> Iterator[Text]:
    """Yield the table of loops and a few tasks below its caption: what each solved, with what was beyond the limit if it fits."""
    if not on.is_shown:
        return
    yield from wrapped(on.caption, "dim", width)
    forms = [
        _task_cells(on, TaskForm(has_limits=True, has_costs=True)),
        _task_cells(on, TaskForm(has_limits=True)),
        _task_cells(on, TaskForm()),
    ]
    yield from folded([*forms, with_folded_heads(forms[-1])], width)


@dataclass(frozen=True, slots=True)
class TaskForm:
    """What stands in a cell of loops and tasks beside the number of solved trials."""

    has_limits: bool = False
    has_costs: bool = False


def _task_cells(on: FewTasksTable, form: TaskForm) -> list[list[Text]]:
    """Return the heading and the rows of loops and tasks."""
    heads = [on.matrix.subject, *(plain_line(task) for task in on.tasks)]
    rows = [[Text(head, style="dim") for head in heads]]
    for row in on.matrix.rows:
        cells = [on.cell(row, task, has_limits=form.has_limits, has_costs=form.has_costs) for task in on.tasks]
        rows.append([Text(plain_line(row.loop)), *map(Text, cells)])
    return rows


def _in_few_words(sentences: Sequence[AnswerSentence]) -> list[AnswerSentence]:
    """Return sentences in fewer words, with the command of one run that would decide: that of the fewest tasks."""
    sizes = [each.decides.tasks for each in sentences if each.decides is not None]
    first = next((each for each in sentences if each.decides is not None and each.decides.tasks == min(sizes)), None)
    return [replace(each, text=each.brief or each.text, decides=each.decides if each is first else None) for each in sentences]


def _sentences(run: Results, sentences: Sequence[AnswerSentence], width: int) -> Iterator[Text]:
    """Yield the lines of warnings, and then of what follows from the matrix, with commands below."""
    yield from _around(run, sentence_lines(run, sentences, width), width)


def _around(run: Results, sentences: Iterator[Text], width: int, *, has_reasons: bool = True) -> Iterator[Text]:
    """Yield the lines of sentences between those of warnings and of what else there is to know.

    `has_reasons`: with why amounts have no interval, of which the matrix says only that they have none.
    """
    yield from warning_lines(run, width)
    yield from sentences
    yield from wrapped(defaults_sentence(run.manifest), "", width)
    if not run.comparison.invalid:
        unit_lines = (
            unit_sentences(run.manifest, run.comparison) if has_reasons else [clusters_sentence(run.manifest, run.comparison)]
        )
        for sentence in unit_lines:
            yield from wrapped(sentence, "", width)


def warning_lines(run: Results, width: int) -> Iterator[Text]:
    """Yield the lines that say what is wrong with a run."""
    comparison = run.comparison
    if comparison.invalid:
        yield from wrapped(INVALID_RUN, "bold red", width)
    for sentence in crashed_sentences(comparison):
        yield from wrapped(f"{sentence.text}.", "bold red", width)
    warnings = warned(comparison)
    hidden = len(warnings) - MAX_WARNINGS
    more = [f"{counted(hidden, 'more warning')}: loopbench report {shlex.quote(str(run.folder))} -v"] if hidden > 0 else []
    for warning in [*warnings[:MAX_WARNINGS], *more]:
        yield from wrapped(warning, "yellow", width)


def sentence_lines(run: Results, sentences: Sequence[AnswerSentence], width: int, *, leads: bool = True) -> Iterator[Text]:
    """Yield sentences, the first one bold if it leads, each with its command below."""
    standing_out = leading(sentences) if leads else ()
    for number, sentence in enumerate(sentences):
        command = _command_of(run, sentence)
        is_bold = number < len(standing_out)
        yield from wrapped(f"{sentence.text}{':' if command else '.'}", "bold" if is_bold else "", width)
        yield from (Text(line, style="dim") for line in command_lines(command, width))


def _command_of(run: Results, sentence: AnswerSentence) -> Sequence[str]:
    """Return the words of the command that stands below a sentence; none where there is none."""
    return sentence.command if sentence.decides is None else deciding_command(run.manifest, sentence.decides)


def flowing_lines(run: Results, sentences: Sequence[AnswerSentence], width: int) -> Iterator[Text]:
    """Yield what a verdict rests on, the other sentences as paragraphs, the first one bold, and then those with a command."""
    rests_on = [each for each in sentences if each.is_basis]
    yield from sentence_lines(run, rests_on, width)
    sentences = [each for each in sentences if not each.is_basis]
    with_command = [each for each in sentences if _command_of(run, each)]
    flowing = [each for each in sentences if each not in with_command]
    for number, paragraph in enumerate(_paragraphs(flowing)):
        yield from _paragraph_lines([f"{plain_line(each.text)}." for each in paragraph], width, leads=number == 0)
    yield from sentence_lines(run, with_command, width, leads=not flowing)


def _paragraphs(sentences: Sequence[AnswerSentence]) -> list[list[AnswerSentence]]:
    """Return sentences that follow one another; one that opens begins a paragraph."""
    paragraphs: list[list[AnswerSentence]] = []
    for each in sentences:
        if each.opens or not paragraphs:
            paragraphs.append([])
        paragraphs[-1].append(each)
    return paragraphs


def _paragraph_lines(texts: Sequence[str], width: int, *, leads: bool) -> Iterator[Text]:
    """Yield sentences in lines of a terminal, the first sentence bold if it leads."""
    paragraph, at = " ".join(texts), 0
    for part in textwrap.wrap(paragraph, width, break_on_hyphens=False):
        at = paragraph.index(part, at)
        line = Text(part)
        if leads:
            line.stylize("bold", 0, max(0, len(texts[0]) - at))
        yield line
        at += len(part)


def command_lines(words: Sequence[str], width: int) -> list[str]:
    """Return a command in lines that a shell reads as one, each but the last ending with a backslash; flags keep their values."""
    parts: list[str] = []
    for word in words:
        if not parts or word.startswith("--"):
            parts.append(shlex.quote(plain_line(word)))
        else:
            parts[-1] += f" {shlex.quote(plain_line(word))}"
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1]) + 1 + cell_len(part) <= width - cell_len(CONTINUED):
            lines[-1] += f" {part}"
        else:
            lines.append(f"  {part}" if lines else part)
    return [f"{line}{CONTINUED}" for line in lines[:-1]] + lines[-1:]


def wrapped(words: str, style: str, width: int) -> list[Text]:
    """Return a sentence in lines of a terminal."""
    lines = textwrap.wrap(plain_line(words), width, break_on_hyphens=False)
    return [Text(line, style=style) for line in lines]


@dataclass(frozen=True, slots=True)
class RowNames:
    """The columns that name the rows of a matrix."""

    heads: tuple[str, ...]
    of: Callable[[AnswerRow], tuple[str, ...]]


def _row_names(answer: ComparisonAnswer) -> RowNames:
    """Return the column that names the rows of one run's matrix: its loops."""
    return RowNames((answer.subject,), lambda row: (row.loop,))


def _matrix(answer: ComparisonAnswer, width: int, room: int) -> Iterator[Text]:
    """Yield the heading and the rows, as many as there is room for and all that tie with the best."""
    shown_rows = answer.rows if len(answer.rows) <= room or width >= WIDE else _first_and_ties(answer.rows, room - 1)
    names = _row_names(answer)
    forms: list[Rows] = [matrix_cells(answer, shown_rows, form, names) for form in FORMS]
    if width < WIDE and not any(widest_fitting([rows], width)[1] for rows in forms[:WITH_COSTS]):
        low = [with_folded_heads(rows) for rows in forms[1:WITH_COSTS]]
        short = [_with_short_names(low[-1:], width)] if widest_fitting(forms[WITH_COSTS:-1], width)[1] else []
        forms[WITH_COSTS:WITH_COSTS] = [*low, *short]  # costs are worth the middle of a name
    _, fits = widest_fitting(forms[:-1], width)
    if fits:
        lines = list(side_by_side(widest_fitting(forms, width)[0], width))
    elif 2 * len(shown_rows) <= room:
        lines = list(folded(forms[:-1], width))[1:]  # long names stand above their intervals
    else:
        lines = list(side_by_side(_with_short_names(forms[1:], width), width))
    yield from lines
    if any(cost is not None for row in shown_rows for cost in answer.costs_of(row)) and not any(
        counted_in(answer.unit) in each.plain for each in lines
    ):
        yield Text(NO_ROOM.format(counted_in(answer.unit)), style="dim")
    if hidden := [row for row in answer.rows if row not in shown_rows]:
        open_ones = sum(all(cell is None or cell.place not in ("lower", NOT_APPLICABLE) for cell in row.cells) for row in hidden)
        ties = f", {open_ones} of them not told apart from the best" if open_ones else ""
        yield Text(f"and {counted(len(hidden), f'more {answer.subject}')}, less accurate on average{ties}", style="dim")


def _first_and_ties(rows: Sequence[AnswerRow], room: int) -> list[AnswerRow]:
    """Return the first rows, and those that are the most accurate of some column or as accurate on average as the first one."""
    return [
        row
        for number, row in enumerate(rows)
        if number < room or row.accuracy >= rows[0].accuracy or any(cell and cell.place == "highest" for cell in row.cells)
    ]


def _with_short_names(forms: Sequence[Rows], width: int) -> Rows:
    """Return the first form whose loops can have names so short that it fits, or else the last one.

    Names whose beginnings and ends are those of another one stay whole.
    """
    for rows in forms:
        others = [max(row[n].cell_len for row in rows) + GAP for n in range(1, len(rows[0]))]
        room = max(width - sum(others), MIN_NAME)
        short = [_cut_within(row[0].plain, room) for row in rows]
        names = short if len(set(short)) == len(rows) else [row[0].plain for row in rows]
        named_rows = [[Text(name, style=row[0].style), *row[1:]] for name, row in zip(names, rows, strict=True)]
        if widest_fitting([named_rows], width)[1]:
            break
    return named_rows


def _cut_within(name: str, room: int) -> str:
    """Return a name in at most so many characters, its middle left out: how a loop is called, and the options that come last."""
    if len(name) <= room:
        return name
    head = room // 2
    return f"{name[:head]}…{name[len(name) - (room - head - 1) :]}"


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
