"""Tables of trials, a row each: CSV, TSV, JSON lines, a JSON array as pandas writes it, or Parquet, with the same columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from whichloop.experiments.import_runs.column_hints import melt_hint
from whichloop.experiments.import_runs.columns import unit_in
from whichloop.experiments.import_runs.pooled import copies_told, repeats_counted
from whichloop.experiments.import_runs.table_rows import (
    answers_cut,
    arm_of,
    error_in,
    list_of_rows,
    renumbered,
    scores_in_words,
    status_in_score,
    status_of,
    trial_keys,
)
from whichloop.experiments.import_runs.values import ToldTotal, total_is_less, total_is_more
from whichloop.experiments.trace_formats.row_messages import (
    MessagesOfRows,
    RowMessages,
    chats_left_out,
    failed_calls,
    messages_of,
    with_messages,
)
from whichloop.experiments.trace_formats.smolagents_memory import is_memory
from whichloop.metrics.arm_warnings import blank_score
from whichloop.protocol import StopReason
from whichloop.protocol.digest import digest
from whichloop.protocol.values import counted

from ..column_hints import how_to_read, maps_hint, opened, taken_as_seconds
from ..columns import NoColumnError, columns_of, names_errors, places_of_tokens
from ..foreign_file import ROWS, ForeignFile
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrial, Format, ReadingOptions, Status, TrialKey
from ..places import with_filled_places, with_places
from ..pooled import PooledBy, pooled_by, repeated_tasks
from ..table_rows import FileRow, rows_of
from ..values import (
    answer_of,
    count,
    is_nothing,
    label_of,
    located,
    name_of,
    names_in_a_line,
    number_from_zero,
    off_scale,
    reason_line,
    score,
    share,
    short_value,
)
from ..written_numbers import NUMERIC, WHOLE, NumberColumn, NumbersRead, read_numbers

SUITE = "table"


NOT_ROWS = ({"resourceSpans"}, {"info", "data"}, {"run_type", "id"}, {"schema_version", "steps"})
"""Keys of lines that are not rows of trials: spans of OTLP, traces of MLflow, runs of LangSmith, trajectories."""
NOT_ROWS_OF_AN_ARRAY = (*NOT_ROWS, {"task_id", "reward", "traj", "trial"}, {"version", "eval"})
"""Keys of what else is a JSON array: also results of tau-bench, logs of Inspect."""
LISTED = ("cases", "simulations", "results")
"""Keys under which documents of other tools list their trials."""


def recognizes(file: ForeignFile) -> bool:
    if file.suffix == ".json":
        try:
            data = file.json_value
        except ValueError:
            return False
        if not isinstance(data, list) or not data or is_memory(data):
            return False
        first = data[0]
        return (
            isinstance(first, dict)
            and not any(keys <= first.keys() for keys in NOT_ROWS_OF_AN_ARRAY)
            and not any(isinstance(first.get(key), list) for key in LISTED)
        )
    return file.suffix in ROWS and not any(keys <= file.first_row.keys() for keys in NOT_ROWS)


class _Table(NamedTuple):
    """The rows of a table, by their columns and by what these mean, and what was read of them."""

    names_in_file: Sequence[str]
    """Names of the columns as the file has them."""
    by_column: Sequence[FileRow]
    """Rows with name of a column → cell."""
    columns: Mapping[str, str]
    """Meaning → name of its column."""
    by_meaning: Sequence[FileRow]
    """Rows with meaning → cell as it is written."""
    numbers: NumbersRead
    """The same rows with their numbers read."""
    chats: MessagesOfRows
    pooled: PooledBy | None
    default_arm: str
    """The arm of rows that name none."""
    reading: ReadingOptions

    @property
    def rows(self) -> Sequence[FileRow]:
        return self.numbers.rows


def read_table(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read a table. Raises ValueError with a one-line message that names the row and the error."""
    names_in_file, whole_rows = rows_of(file, reading)
    names, by_column = with_places(names_in_file, whole_rows, reading)
    names, by_column = with_filled_places(names, by_column, places_of_tokens(names, reading))
    columns = _columns(names, by_column, reading)
    by_column, blank = _with_values(by_column, columns)
    is_one_arm = reading.is_one_arm or reading.columns.get("arm") == ""
    pooled = None if is_one_arm else pooled_by(*opened(names, by_column), columns)
    by_meaning = [FileRow(row.place, {meaning: row.cells.get(name) for meaning, name in columns.items()}) for row in by_column]
    numbers = read_numbers(by_meaning, _number_columns(columns, reading))
    _check_scale(numbers.rows, columns["score"], reading)
    chats = _messages(numbers.rows, columns, reading)
    _check_tasks(numbers.rows, columns["task"])
    table = _Table(names_in_file, by_column, columns, by_meaning, numbers, chats, pooled, file.path.stem, reading)
    keys = trial_keys(table.rows, table.default_arm, _cure_of_copies(columns, pooled))
    trials, questions = _trials(table, keys)
    notes = tuple(_notes(table, trials, blank))
    return ForeignLog(
        _suite(table.rows),
        _arms(table.rows, table.default_arm),
        tuple(trials),
        questions,
        notes=notes,
        readings=(*_inside(file, reading), *_readings(table, keys)),
        cluster=columns.get("cluster", ""),
    )


def _notes(table: _Table, trials: Sequence[ForeignTrial], blank: Sequence[str]) -> Iterator[str]:
    """Yield what the user is told of the table: first what is left out of it, then how its trials were read.

    `blank`: what to tell of rows with nothing in them. Raises ValueError for totals of tokens that cannot be.
    """
    columns, rows = table.columns, table.rows
    yield from _columns_left_out(table)
    yield from table.chats.notes(columns.get("messages", ""))
    yield from _totals(rows, trials, columns)
    yield from blank
    yield from table.numbers.notes
    yield from taken_as_seconds(columns, table.by_meaning)
    for meaning, in_chat in (("messages", True), ("answer", False)):
        each = zip(rows, trials, table.chats.each, strict=True)
        answers = [(row.place, trial.answer) for row, trial, chat in each if bool(chat and chat.answer) is in_chat]
        yield from answers_cut(answers, columns.get(meaning, ""))
    yield from _rows_in_one_arm(table)
    if "repeat" not in columns:
        yield from copies_told(table.by_column, columns)


def _columns_left_out(table: _Table) -> Iterator[str]:
    """Yield which columns are not read, and which of them hold chats."""
    columns, reading = table.columns, table.reading
    holding = {name.split(".")[0] for name in columns.values() if name not in table.names_in_file}
    unused = [name for name in table.names_in_file if name and name not in columns.values() and name not in holding]
    if unused:
        left_out = {meaning: "" for meaning, name in reading.columns.items() if not name}
        hint = how_to_read(unused, table.by_column, {**columns, **left_out})
        yield f"columns left out: {names_in_a_line(unused)}{hint}"
    if "messages" not in {*columns, *reading.columns}:
        yield from chats_left_out(unused, table.by_column)


def _rows_in_one_arm(table: _Table) -> Iterator[str]:
    """Yield which rows were taken together as repeats, where no column tells them apart."""
    columns, reading = table.columns, table.reading
    if table.pooled is not None:
        yield table.pooled.note("within each arm" if "arm" in columns else f"as one arm, {table.default_arm}")
    elif not ({"arm", "repeat"} & (columns.keys() | reading.columns.keys()) or reading.is_one_arm):
        yield from _counted_rows(table.by_column, columns, table.default_arm)


def _readings(table: _Table, keys: Sequence[TrialKey]) -> Iterator[str]:
    """Yield what was read as what: columns, repeats, numbers, scores and calls."""
    columns, rows = table.columns, table.rows
    yield _read_as(columns, _blank(table.by_column, columns), table.reading)
    if "repeat" not in columns:
        yield from repeats_counted(table.by_column, columns)
    yield from table.numbers.readings
    yield from scores_in_words(rows, columns["score"], table.reading.scale)
    yield from failed_calls([chat for chat in table.chats.each if chat is not None])
    yield from renumbered(rows, keys)


def _columns(names: Sequence[str], table: Sequence[FileRow], reading: ReadingOptions) -> dict[str, str]:
    """Return the name of the column for each meaning. Raises ValueError, also with what to type instead."""
    try:
        return with_messages(names, table, columns_of(names, reading), reading)
    except NoColumnError as error:
        melt = melt_hint(names, table, reading) if error.missing == ("score",) else ""
        raise ValueError(f"{error}{melt or maps_hint(error.missing, names, table, reading)}") from None


def _totals(rows: Sequence[FileRow], trials: Sequence[ForeignTrial], columns: Mapping[str, str]) -> Iterator[str]:
    """Yield what the user is told of totals of tokens that have more than input and output.

    Raises ValueError for totals that have less than what is told of both.
    """
    more, less = list[ToldTotal](), list[ToldTotal]()
    for row, trial in zip(rows, trials, strict=True):
        parts = [tokens for tokens in (trial.input_tokens, trial.output_tokens) if tokens is not None]
        if trial.tokens is None or not parts or trial.tokens == sum(parts):
            continue
        if trial.tokens < sum(parts):
            less.append(ToldTotal(row.place, trial.tokens, sum(parts)))
        elif len(parts) > 1:
            more.append(ToldTotal(row.place, trial.tokens, sum(parts)))
    name, of = columns.get("tokens", ""), counted(len(rows), "row")
    if less:
        parts_left_out = ",".join(f"{meaning}=" for meaning in ("input_tokens", "output_tokens") if meaning in columns)
        cures = f"to count input + output: --map tokens=; to count {short_value(name)}: --map {parts_left_out}"
        raise ValueError(f"{total_is_less(short_value(name), less, of)}; {cures}")
    if more:
        yield total_is_more(short_value(name), more, of)


def _with_values(rows: Sequence[FileRow], columns: Mapping[str, str]) -> tuple[list[FileRow], list[str]]:
    """Return the rows that have something in a column that is read, and what to tell of the others, such as heads of a log."""
    filled = [row for row in rows if not all(is_nothing(row.cells.get(name)) for name in columns.values())]
    if len(filled) == len(rows):
        return filled, []
    whole = {row.place for row in filled}
    first = next(row.place for row in rows if row.place not in whole)
    return filled, [
        f"{counted(len(rows) - len(filled), 'row has', 'rows have')} nothing in the columns read, such as {first}: left out"
    ]


def _inside(file: ForeignFile, reading: ReadingOptions) -> Iterator[str]:
    """Yield which list of a JSON object the rows are."""
    place = list_of_rows(file.json_value, reading).place if file.suffix == ".json" else ""
    if place:
        yield f"rows read: those of {short_value(place)}"


def _number_columns(columns: Mapping[str, str], reading: ReadingOptions) -> list[NumberColumn]:
    """Return the columns of numbers, each with the unit that its name says; the score of a scale has none."""
    scaled = {"score"} if reading.scale else set()
    return [
        NumberColumn(
            meaning, columns[meaning], None if meaning in scaled else unit_in(meaning, columns[meaning]), meaning in scaled
        )
        for meaning in NUMERIC
        if meaning in columns
    ]


def _blank(table: Sequence[FileRow], columns: Mapping[str, str]) -> list[str]:
    """Return the columns with a meaning whose cells are all blank."""
    return [name for name in dict.fromkeys(columns.values()) if all(is_nothing(row.cells.get(name)) for row in table)]


def _read_as(columns: Mapping[str, str], blank: Sequence[str], reading: ReadingOptions) -> str:
    """Return which column was read as what: those that the user named, and those taken by their names; and which are blank."""
    typed = {"score": reading.scorer, "cluster": reading.cluster, **reading.columns}
    filled = {meaning: name for meaning, name in columns.items() if name not in blank}
    named = [f"{meaning}={name}" for meaning, name in filled.items() if typed.get(meaning)]
    by_name = [f"{meaning}={name}" for meaning, name in filled.items() if not typed.get(meaning)]
    nothing = f"; nothing is read of columns that are blank in every row: {names_in_a_line(blank)}" if blank else ""
    if not named:
        return f"columns read by their names: {', '.join(by_name)}{nothing}"
    rest = f"; by their names: {', '.join(by_name)}" if by_name else ""
    return f"columns read: {', '.join(named)}{rest}{nothing}"


FORMAT = Format("csv", recognizes, read_table, mapped=True)


def _counted_rows(table: Sequence[FileRow], columns: Mapping[str, str], arm: str) -> Iterator[str]:
    """Yield that rows of one task count as repeats, where no column names the arm or the repeat."""
    if many := repeated_tasks(table, columns):
        several = f"{counted(many, 'task has', 'tasks have')} several rows, which count as repeats of one arm, {arm}"
        yield f"{several}; if they are of several arms, or repeats have numbers: --map arm=COLUMN, --map repeat=COLUMN"


# --- trials ---


def _check_tasks(rows: Sequence[FileRow], column: str) -> None:
    """Raise ValueError for rows without a task, which says how to leave them out."""
    blank = [row.place for row in rows if row.cells["task"] is None or row.cells["task"] == ""]
    if blank:
        in_pandas = f": frame.dropna(subset=[{column!r}])" if blank[0].startswith("row ") else ""
        without = f"{counted(len(blank), 'row')} of {len(rows):,} without a task"
        raise ValueError(f"{blank[0]}: the task is empty; leave out the {without}{in_pandas}")


def _cure_of_copies(columns: Mapping[str, str], pooled: PooledBy | None) -> str:
    """Return what to do about two rows of one arm, task and repeat."""
    remove = "remove one of the two rows if it is a copy"
    if "arm" not in columns or "repeat" not in columns or pooled is not None:
        return f"if the rows are of several arms: {'--map arm=COLUMN' if pooled is None else pooled.cure}; otherwise {remove}"
    repeat = short_value(columns["repeat"])
    return f"{remove}; if it is another repeat, number it in column {repeat}, or count the rows of each task: --map repeat="


def _check_scale(rows: Sequence[FileRow], column: str, reading: ReadingOptions) -> None:
    """Raise ValueError for scores off the scale that counts where the user names none."""
    if reading.scale is None and (
        problem := off_scale([(row.place, row.cells["score"]) for row in rows], f"column {short_value(column)}")
    ):
        raise ValueError(problem)


def _trials(table: _Table, keys: Sequence[TrialKey]) -> tuple[list[ForeignTrial], dict[str, str]]:
    """Return each row's trial, and task → digest of its question, "" where no row has one."""
    trials, questions = list[ForeignTrial](), dict[str, str]()
    for row, key, messages in zip(table.rows, keys, table.chats.each, strict=True):
        with located(row.place):
            trials.append(_trial(row.cells, key, table.columns, table.reading, messages))
            _note_question(questions, key[1], row.cells.get("asked"))
    return trials, questions


def _note_question(questions: dict[str, str], task: str, question: Any) -> None:
    """Note down the digest of a task's question. Raises ValueError if an earlier row has another one."""
    question_digest = "" if is_nothing(question) else digest(str(question))
    previous = questions.get(task) or question_digest
    if question_digest and previous != question_digest:
        raise ValueError(f"task {short_value(task)} asks something else than in an earlier row")
    questions[task] = previous


def _trial(
    cells: Mapping[str, Any],
    key: TrialKey,
    columns: Mapping[str, str],
    reading: ReadingOptions,
    messages: RowMessages | None,
) -> ForeignTrial:
    score_status = status_in_score(cells["score"])
    value = score(cells["score"], reading.scale) if score_status is None else None
    status = status_of(cells.get("status"), value, score_status, columns.get("status", "status"))
    measures = _measures(cells, columns, reading)
    error, reason = error_in(cells.get("error")), _reason(cells.get("reason"), columns)
    names_one = bool(error or (reason and names_errors(columns["reason"])))
    answered = "" if messages is None else answer_of(messages.answer)
    ended_by_error = names_one or score_status is not None or not is_nothing(cells.get("status"))
    return ForeignTrial(
        *key,
        status=status,
        reason=error or reason or (_unscored(cells["score"], score_status) if status == "errored" and value is None else ""),
        score=value if status == "scored" else None,
        stop=measures.pop("stop") or _stop(status, ended_by_error=ended_by_error, answered=bool(answered)),
        answer=answered or None if is_nothing(cells.get("answer")) else answer_of(cells["answer"]),
        trace=None if messages is None else messages.trace,
        cluster="" if is_nothing(cells.get("cluster")) else label_of(cells["cluster"], columns["cluster"]),
        **measures,
    )


def _messages(rows: Sequence[FileRow], columns: Mapping[str, str], reading: ReadingOptions) -> MessagesOfRows:
    """Return what the rows' messages say. Raises ValueError where the user named their column and a cell of it cannot be read."""
    chats = messages_of(rows)
    if chats.odd and reading.columns.get("messages"):
        place, reason = chats.odd[0]
        raise ValueError(f"{place}: {columns['messages']}: {reason}; to leave the column out: --map messages=")
    return chats


def _reason(cell: Any, columns: Mapping[str, str]) -> str:
    """Return why a trial ended as it did; of a column that is called as errors are, its error."""
    if is_nothing(cell):
        return ""
    return error_in(cell) if names_errors(columns["reason"]) else reason_line(cell)


def _measures(cells: Mapping[str, Any], columns: Mapping[str, str], reading: ReadingOptions) -> dict[str, Any]:
    """Return what a row says of its trial besides score and status. Raises ValueError that says how to leave a column out."""
    measures: dict[str, Any] = {}
    for meaning, parsed in _MEASURES.items():
        try:
            measures[meaning] = parsed(cells.get(meaning), columns.get(meaning, meaning))
        except ValueError as error:
            typed = reading.columns.get(meaning)
            raise ValueError(str(error) if typed else f"{error}; to leave the column out: --map {meaning}=") from None
    return measures


def _unscored(cell: Any, score_status: Status | None) -> str:
    """Return why a trial has no score: its cell is blank, or is a status."""
    if score_status is None:
        return blank_score(cell.strip() if isinstance(cell, str) else "")
    return f"the score is {reason_line(cell)}"


def _stop(status: str, *, ended_by_error: bool, answered: bool) -> str | None:
    """Return the stop of a trial whose row says none: one that is errored has `crashed`, but not for a blank score alone."""
    if status == "errored" and ended_by_error:
        return StopReason.CRASHED
    return StopReason.FINISHED if answered else None


def _stop_in(text: Any, _: str) -> str | None:
    if is_nothing(text):
        return None
    try:
        return StopReason(str(text).strip().lower())
    except ValueError:
        raise ValueError(f"stop {short_value(text)} is none of {', '.join(StopReason)}") from None


_MEASURES: Mapping[str, Callable[[Any, str], Any]] = {
    **dict.fromkeys(WHOLE, count),
    **dict.fromkeys(("cost_usd", "seconds"), number_from_zero),
    "confidence": share,
    "stop": _stop_in,
}
"""Meaning of a column → what reads its cell, which is also given the column's name."""


def _arms(rows: Iterable[FileRow], default: str) -> tuple[ForeignArm, ...]:
    """Return the arms in the order of the table."""
    models: dict[str, set[str]] = {}
    for row in rows:
        names = models.setdefault(arm_of(row, default), set())
        if not is_nothing(row.cells.get("model")):
            names.add(name_of(row.cells["model"], "the model"))
    model_of = {arm: next(iter(names)) if len(names) == 1 else "several" if names else "unknown" for arm, names in models.items()}
    return tuple(ForeignArm(arm, model=model) for arm, model in model_of.items())


def _suite(rows: Iterable[FileRow]) -> str:
    """Return the suite of the column, or a fixed name, because a gate requires equal ones."""
    names = sorted({name_of(row.cells["suite"], "the suite") for row in rows if "suite" in row.cells})
    if len(names) > 1:
        raise ValueError(f"suites {names_in_a_line(names)} in one table; import one at a time")
    return names[0] if names else SUITE
