"""A comparison's answer on the terminal: a matrix of loops × profiles and a few sentences, in twelve lines at 80 columns."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.text import Text

from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.tables import INVALID_RUN
from whichloop.experiments.compare.verdict_old.clustered import clusters_sentence, defaults_sentence, unit_sentences
from whichloop.experiments.compare.verdict_old.few_tasks_table import FewTasksTable
from whichloop.experiments.compare.verdict_old.sentence import AnswerSentence, deciding_command, leading
from whichloop.experiments.compare.verdict_old.warned import dead_arm_sentences, warned
from whichloop.protocol.values import counted
from whichloop.text.output import plain_line, shortened, wrapped_words

from .console import WIDE, wrapped
from .render_matrix import matrix_lines
from .tables import folded, with_folded_heads

MAX_LINES = 12
"""Of an answer at 80 columns: what gives way is cut to reach it, and no loop of a few, nor what is undecided."""
CONTINUED = " \\"
"""What stands at the end of a line of a command that goes on."""
USUAL_WIDTH = 80
"""Columns from which on an answer has no more than `MAX_LINES`."""
MAX_LOOPS = 5
"""Loops that are all shown however long the sentences are."""
MIN_ROWS = 3
"""Loops that are shown of more than a few."""
MIN_SENTENCES = 5
"""Lines that sentences have beside the rows of more than a few loops, if they need them."""
MAX_WARNINGS = 2
FAULT_STYLE = "bold red"
WARNING_STYLE = "yellow"
NO_ROOM_FOR_TASKS = "The page and -v show what each {} solved of each task"
"""Stands in the place of the table of a few tasks."""
LEGEND = "accuracy: * highest, = not told apart"


def answer_lines(run: Results, width: int, *, is_whole: bool = False) -> Iterator[Text]:
    """Yield the lines of a run's answer, at 80 columns at most twelve: title, matrix, warnings, sentences, and the table of a few
    tasks if it has room. What has none is told by the command that prints it.

    `is_whole`: with that table and in all words, however many lines that takes.
    Into a file or a pipe, `WIDE` columns, the answer is whole, and the cells of the matrix stand between tabs, without padding.
    """
    answer = run.answer
    title = wrapped(f"{run.title} · {LEGEND}", "bold", width)
    room = MAX_LINES - 1 - len(title)
    beside = MAX_LINES - len(title) - len(list(matrix_lines(answer, width, max(MAX_LOOPS, room))))
    tasks = list(task_lines(answer.on_tasks, width))
    dead = [*dead_arm_sentences(run.comparison)]  # they stand among the warnings
    said = [each for each in answer.answer_sentences if each not in dead]
    if is_whole or width >= WIDE:
        sentences = list(
            _around(run, sentence_lines(run, said, width), width, warnings=warning_lines(run, width, are_all_told=True))
        )
    else:
        sentences = _sentences_within(run, said, width, beside - len(tasks))
        if tasks and len(tasks) + len(sentences) > beside:
            where = AnswerSentence(NO_ROOM_FOR_TASKS.format(answer.subject))
            sentences = _sentences_within(run, [*said, where], width, beside)
            tasks = []
    lines = [*title, *matrix_lines(answer, width, max(MAX_LOOPS, room - len(sentences))), *tasks, *sentences]
    is_cut = not is_whole and USUAL_WIDTH <= width < WIDE and len(lines) > MAX_LINES
    yield from [*title, *_cut_to_fit(run, said, width, MAX_LINES - len(title))] if is_cut else lines


def _cut_to_fit(run: Results, sentences: Sequence[AnswerSentence], width: int, room: int) -> list[Text]:
    """Return the lines of a matrix and of sentences that have so much room, and where the rest is: the best loops, the verdict.

    A few loops are all there; of more, some give way to the sentences, also where they tie with the best.
    """
    answer = run.answer
    most = room - 1 - min(MIN_SENTENCES, len(_sentences_within(run, sentences, width, 0)))
    matrix = list(matrix_lines(answer, width, MAX_LOOPS))
    if len(answer.rows) > MAX_LOOPS:
        sizes = (list(matrix_lines(answer, width, rows + 1, has_ties=False)) for rows in range(MAX_LOOPS, MIN_ROWS - 1, -1))
        for matrix in sizes:
            if len(matrix) <= most:
                break
    left = max(1, room - len(matrix) - 1)
    lines = _weightiest(run, sentences, width, left)
    if len(lines) > left:
        lines = [*lines[: left - 1], _cut_off(lines[left - 1], width)]
    return [*matrix, *lines, Text(f"The rest: whichloop report {shlex.quote(str(run.folder))} -v", style="dim")]


def _weightiest(run: Results, sentences: Sequence[AnswerSentence], width: int, room: int) -> list[Text]:
    """Return the lines of warnings and of the sentences that have room, in few words, the weightiest first.

    Only the verdict may need more: warnings have the lines that it leaves, at least one. A command goes before a sentence does: the
    line that says where the rest is stands for it.
    """
    needed = _needed(sentences)
    order = _by_weight(needed)
    few = [replace(each, opens=False) for each in _in_few_words(needed)]
    short = {number: replace(few[number], text=few[number].in_fewest_words, decides=None) for number in order}
    verdict = _paragraph_maker(run, width, ())({number: short[number] for number in order[:1]})
    warnings = _short_warnings(run, width, room - len(verdict))
    lines_of = _paragraph_maker(run, width, warnings)
    kept: dict[int, AnswerSentence] = {}
    without_commands = [replace(each, decides=None) for each in few]
    first_lighter = next((number for number in order[1:] if not needed[number].has_precedence), None)
    for number in order:
        if number == first_lighter:
            kept = _lengthened(kept, without_commands, lines_of, room, order[:1])  # the verdict's reasons before lighter sentences
        with_it = {**kept, number: short[number]}
        if not kept or len(lines_of(with_it)) <= room:
            kept = with_it
        elif needed[number].has_precedence:
            break  # nothing lighter stands where this has no room
    longer = _lengthened(kept, without_commands, lines_of, room)
    return lines_of(_lengthened(longer, few, lines_of, room))


def _needed(sentences: Sequence[AnswerSentence]) -> list[AnswerSentence]:
    """Return the sentences without those of which the matrix shows what matters."""
    return [each for each in sentences if each.has_precedence or not each.may_be_left_out]


def _cut_off(line: Text, width: int) -> Text:
    """Return a line with the sign that what follows it is left out."""
    return Text(shortened(f"{line.plain} {'…' * width}", width), style=line.style)


def _by_weight(sentences: Sequence[AnswerSentence]) -> list[int]:
    """Return the places of sentences, the weightiest first: the verdict, what is undecided and the fewest tasks would decide, and
    what is worse; then what the verdict rests on, what else is undecided, and the others as they stand."""
    verdict = next((each for each in sentences if not each.is_basis), None)
    sizes = [each.decides.tasks for each in sentences if each.decides is not None and each.has_precedence]

    def weight(number: int) -> int:
        each = sentences[number]
        if each is verdict:
            return 0
        if each.has_precedence:
            return 1 if each.decides is None or each.decides.tasks == min(sizes) else 3
        return 2 if each.is_basis else 4

    return sorted(range(len(sentences)), key=weight)


def _paragraph_maker(run: Results, width: int, warnings: Sequence[Text]) -> Callable[[Mapping[int, AnswerSentence]], list[Text]]:
    """Return what makes lines of warnings and of sentences by their places, as one paragraph that leaves to the matrix which
    amounts have no interval."""

    def lines_of(kept: Mapping[int, AnswerSentence]) -> list[Text]:
        chosen = [kept[number] for number in sorted(kept)]
        return list(_around(run, flowing_lines(run, chosen, width), width, warnings=warnings, has_reasons=False))

    return lines_of


def _lengthened(
    short: Mapping[int, AnswerSentence],
    longer: Sequence[AnswerSentence],
    lines_of: Callable[[Mapping[int, AnswerSentence]], list[Text]],
    room: int,
    which: Iterable[int] | None = None,
) -> dict[int, AnswerSentence]:
    """Return sentences by their places, one after the other in a longer form if all of them then still have room.

    `which`: the places of those that may be longer; None: all.
    """
    kept = dict(short)
    for number in short if which is None else which:
        with_longer = {**kept, number: longer[number]}
        if len(lines_of(with_longer)) <= room:
            kept = with_longer
    return kept


def _sentences_within(run: Results, sentences: Sequence[AnswerSentence], width: int, room: int) -> list[Text]:
    """Return the lines of warnings and sentences: of all of them if they have room, else in fewer words, at last as one paragraph
    in as few words as it takes."""
    needed = _needed(sentences)
    few = _in_few_words(needed)
    one = [replace(each, opens=False) for each in few]
    fewest = {  # where everything has room, the verdict keeps its reasons
        number: each if each.adopts else replace(each, text=each.in_fewest_words) for number, each in enumerate(one)
    }
    warnings = list(warning_lines(run, width))
    lines_of = _paragraph_maker(run, width, warnings)
    forms: tuple[Callable[[], Iterable[Text]], ...] = (
        lambda: _around(run, sentence_lines(run, sentences, width), width, warnings=warnings),
        lambda: _around(run, sentence_lines(run, needed, width), width, warnings=warnings),
        lambda: _around(run, flowing_lines(run, few, width), width, warnings=warnings),
        lambda: lines_of(_lengthened(fewest, one, lines_of, room)),
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


def _around(
    run: Results, sentences: Iterator[Text], width: int, *, warnings: Iterable[Text], has_reasons: bool = True
) -> Iterator[Text]:
    """Yield the lines of sentences between those of warnings and of what else there is to know.

    `has_reasons`: with why amounts have no interval, of which the matrix says only that they have none.
    """
    yield from warnings
    yield from sentences
    yield from wrapped(defaults_sentence(run.manifest), "", width)
    if not run.comparison.invalid:
        unit_lines = (
            unit_sentences(run.manifest, run.comparison) if has_reasons else [clusters_sentence(run.manifest, run.comparison)]
        )
        for sentence in unit_lines:
            yield from wrapped(sentence, "", width)


def warning_lines(run: Results, width: int, *, are_all_told: bool = False) -> Iterator[Text]:
    """Yield the lines that say what is wrong with a run; but for `are_all_told` the first warnings, and how many more there are."""
    faults, warnings = faults_of(run), warned(run.comparison)
    hidden = 0 if are_all_told else max(0, len(warnings) - MAX_WARNINGS)
    more = [f"{counted(hidden, 'more warning')}: whichloop report {shlex.quote(str(run.folder))} -v"] if hidden else []
    for fault in faults:
        yield from wrapped(fault, FAULT_STYLE, width)
    for warning in [*warnings[: len(warnings) - hidden], *more]:
        yield from wrapped(warning, WARNING_STYLE, width)


def faults_of(run: Results) -> list[str]:
    """Return what makes the numbers of a run, or of arms of it, mean nothing."""
    invalid = [INVALID_RUN] if run.comparison.invalid else []
    return [*invalid, *(f"{sentence.text}." for sentence in dead_arm_sentences(run.comparison))]


def _short_warnings(run: Results, width: int, room: int) -> list[Text]:
    """Return what is wrong with a run, a line each, cut at its end where it is longer; where these have no room, how many more
    there are. `room`: lines; at least one is taken, that of what is weightiest."""
    told = [*((each, FAULT_STYLE) for each in faults_of(run)), *((each, WARNING_STYLE) for each in warned(run.comparison))]
    lines = [Text(shortened(plain_line(each), width), style=style) for each, style in told]
    most = max(1, min(room, MAX_WARNINGS + 1))
    hidden = len(lines) - most + 1
    if most == 1 or hidden <= 1:
        return lines[:most]
    return [*lines[: most - 1], Text(counted(hidden, "more warning"), style=WARNING_STYLE)]


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
    for part in wrapped_words(paragraph, width):
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
