"""Tables of trials, a row each: CSV, TSV, JSON lines, a JSON array as pandas writes it, or Parquet, with the same columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from loopbench.experiments.trace_formats.row_messages import (
    MessagesOfRows,
    RowMessages,
    chats_left_out,
    failed_calls,
    messages_of,
    with_messages,
)
from loopbench.experiments.trace_formats.smolagents_memory import is_memory
from loopbench.metrics.left_out import blank_score
from loopbench.protocol import StopReason
from loopbench.protocol.counts import counted
from loopbench.protocol.digest import digest

from ..cells_told import answers_cut, scores_told
from ..column_hints import how_to_read, maps_hint, opened, taken_as_seconds
from ..columns import NoColumnError, columns_of, names_errors, places_of_tokens
from ..counted_repeats import copies_told, repeats_counted
from ..foreign_file import ROWS, ForeignFile
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrial, Format, ReadingOptions, Status, TrialKey
from ..json_rows import list_of_rows
from ..places import with_places, with_those_there
from ..pooled import PooledBy, pooled_by, repeated_tasks
from ..statuses import error_in, status_in_score, status_of
from ..table_rows import Row, rows_of
from ..token_counts import ToldTotal, total_is_less, total_is_more
from ..units import unit_in
from ..values import (
    amount,
    answer_of,
    count,
    is_nothing,
    label_of,
    located,
    name_of,
    names_in_a_line,
    off_scale,
    one_line,
    score,
    share,
    shown,
)
from ..wide_table import melt_hint
from ..written_numbers import NUMERIC, WHOLE, NumberColumn, read_numbers

SUITE = "table"


NOT_ROWS = ({"resourceSpans"}, {"info", "data"}, {"run_type", "id"}, {"schema_version", "steps"})
"""Keys of lines that are not rows of trials: spans of OTLP, traces of MLflow, runs of LangSmith, trajectories."""
NOT_ROWS_OF_AN_ARRAY = (*NOT_ROWS, {"task_id", "reward", "traj", "trial"}, {"version", "eval"})
"""Keys of what else is a JSON array: also results of tau-bench, logs of Inspect."""
LISTED = ("cases", "simulations", "results")
"""Keys under which documents of other tools list their trials."""


def recognizes(file: ForeignFile) -> bool:
    if file.suffix == ".json":
        return _is_array_of_rows(file)
    return file.suffix in ROWS and not any(keys <= file.first_row.keys() for keys in NOT_ROWS)


def _is_array_of_rows(file: ForeignFile) -> bool:
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


def read_table(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read a table. Raises ValueError with a one-line message that names the row and the error."""
    default_arm = file.path.stem
    found, given = rows_of(file, reading)
    names, table = with_places(found, given, reading)
    names, table = with_those_there(names, table, places_of_tokens(names, reading))
    columns = _columns(names, table, reading)
    table, blank = _with_values(table, columns)
    pooled = None if reading.is_one_arm or reading.columns.get("arm") == "" else pooled_by(*opened(names, table), columns)
    named = [Row(row.place, {meaning: row.cells.get(name) for meaning, name in columns.items()}) for row in table]
    numbers = read_numbers(named, _number_columns(columns, reading))
    rows = numbers.rows
    cells = [(row.place, row.cells["score"]) for row in rows]
    if reading.scale is None and (off := off_scale(cells, f"column {shown(columns['score'])}")):
        raise ValueError(off)
    trials, questions, said = list[ForeignTrial](), dict[str, str](), _messages(rows, columns, reading)
    _check_tasks(rows, columns["task"])
    keys = _keys(rows, default_arm, _cure_of_copies(columns, pooled))
    for row, key, messages in zip(rows, keys, said.each, strict=True):
        with located(row.place):
            trials.append(_trial(row.cells, key, columns, reading, messages))
            task, question = key[1], row.cells.get("asked")
            digested = "" if is_nothing(question) else digest(str(question))
            previous = questions.get(task) or digested
            if digested and previous != digested:
                raise ValueError(f"task {shown(task)} asks something else than in an earlier row")
            questions[task] = previous
    holding = {name.split(".")[0] for name in columns.values() if name not in found}
    unused = [name for name in found if name and name not in columns.values() and name not in holding]
    left_out = {meaning: "" for meaning, name in reading.columns.items() if not name}
    notes = (f"columns left out: {names_in_a_line(unused)}{how_to_read(unused, table, columns | left_out)}",) if unused else ()
    chats = () if "messages" in {*columns, *reading.columns} else chats_left_out(unused, table)
    notes = (*notes, *chats, *said.notes(columns.get("messages", "")))
    notes = (*notes, *_totals(rows, trials, columns), *blank, *numbers.notes, *taken_as_seconds(columns, named))
    notes = (*notes, *_answers_cut(rows, trials, said, columns))
    if pooled is not None:
        notes = (*notes, pooled.note("within each arm" if "arm" in columns else f"as one arm, {default_arm}"))
    elif not ({"arm", "repeat"} & (columns.keys() | reading.columns.keys()) or reading.is_one_arm):
        notes = (*notes, *_counted_rows(table, columns, default_arm))
    counting = () if "repeat" in columns else repeats_counted(table, columns)
    copies = () if "repeat" in columns else copies_told(table, columns)
    return ForeignLog(
        _suite(rows),
        _arms(rows, default_arm),
        tuple(trials),
        questions,
        notes=(*notes, *copies),
        readings=(
            *_inside(file, reading),
            _read_as(columns, _blank(table, columns), reading),
            *counting,
            *numbers.readings,
            *scores_told(rows, columns["score"], reading.scale),
            *failed_calls([one for one in said.each if one is not None]),
            *_renumbered(rows, keys),
        ),
        cluster=columns.get("cluster", ""),
    )


def _columns(names: Sequence[str], table: Sequence[Row], reading: ReadingOptions) -> dict[str, str]:
    """Return the name of the column for each meaning. Raises ValueError, also with what to type instead."""
    try:
        return with_messages(names, table, columns_of(names, reading), reading)
    except NoColumnError as error:
        melt = melt_hint(names, table, reading) if error.missing == ("score",) else ""
        raise ValueError(f"{error}{melt or maps_hint(error.missing, names, table, reading)}") from None


def _totals(rows: Sequence[Row], trials: Sequence[ForeignTrial], columns: Mapping[str, str]) -> Iterator[str]:
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
        cures = f"to count input + output: --map tokens=; to count {shown(name)}: --map {parts_left_out}"
        raise ValueError(f"{total_is_less(shown(name), less, of)}; {cures}")
    if more:
        yield total_is_more(shown(name), more, of)


def _with_values(rows: Sequence[Row], columns: Mapping[str, str]) -> tuple[list[Row], list[str]]:
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
        yield f"rows read: those of {shown(place)}"


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


def _blank(table: Sequence[Row], columns: Mapping[str, str]) -> list[str]:
    """Return the columns with a meaning whose cells are all blank."""
    return [name for name in dict.fromkeys(columns.values()) if all(is_nothing(row.cells.get(name)) for row in table)]


def _read_as(columns: Mapping[str, str], blank: Sequence[str], reading: ReadingOptions) -> str:
    """Return which column was read as what: those that the user named, and those taken by their names; and which are blank."""
    asked = {"score": reading.scorer, "cluster": reading.cluster, **reading.columns}
    filled = {meaning: name for meaning, name in columns.items() if name not in blank}
    named = [f"{meaning}={name}" for meaning, name in filled.items() if asked.get(meaning)]
    found = [f"{meaning}={name}" for meaning, name in filled.items() if not asked.get(meaning)]
    nothing = f"; nothing is read of columns that are blank in every row: {names_in_a_line(blank)}" if blank else ""
    if not named:
        return f"columns read by their names: {', '.join(found)}{nothing}"
    by_name = f"; by their names: {', '.join(found)}" if found else ""
    return f"columns read: {', '.join(named)}{by_name}{nothing}"


def _renumbered(rows: Sequence[Row], keys: Sequence[TrialKey]) -> Iterator[str]:
    """Yield which repeat is shown as which number, where the column of the repeat has other names, such as seeds."""
    numbers: dict[str, set[int]] = {}
    for row, (_, _, repeat) in zip(rows, keys, strict=True):
        if "repeat" in row.cells:
            numbers.setdefault(name_of(_integral(row.cells["repeat"]), "the repeat"), set()).add(repeat)
    if not len(numbers) == sum(map(len, numbers.values())) == len(set().union(*numbers.values())):
        yield "repeats are numbered from 0 within each arm and task, in the order of their column"
    elif any(_order(name)[:2] != (0, *found) for name, found in numbers.items()):
        ordered = names_in_a_line(sorted(numbers, key=_order))
        yield f"repeat {ordered} is shown as 0" if len(numbers) == 1 else f"repeats {ordered} are shown as 0 to {len(numbers) - 1}"


FORMAT = Format("csv", recognizes, read_table, mapped=True)


def _counted_rows(table: Sequence[Row], columns: Mapping[str, str], arm: str) -> Iterator[str]:
    """Yield that rows of one task count as repeats, where no column names the arm or the repeat."""
    if many := repeated_tasks(table, columns):
        several = f"{counted(many, 'task has', 'tasks have')} several rows, which count as repeats of one arm, {arm}"
        yield f"{several}; if they are of several arms, or repeats have numbers: --map arm=COLUMN, --map repeat=COLUMN"


# --- trials ---


def _arm(row: Row, default: str) -> str:
    return name_of(row.cells["arm"], "the arm") if "arm" in row.cells else default


def _check_tasks(rows: Sequence[Row], column: str) -> None:
    """Raise ValueError for rows without a task, which says how to leave them out."""
    blank = [row.place for row in rows if row.cells["task"] is None or row.cells["task"] == ""]
    if blank:
        in_pandas = f": frame.dropna(subset=[{column!r}])" if blank[0].startswith("row ") else ""
        without = f"{counted(len(blank), 'row')} of {len(rows):,} without a task"
        raise ValueError(f"{blank[0]}: the task is empty; leave out the {without}{in_pandas}")


def _keys(rows: Iterable[Row], default_arm: str, cure: str) -> list[TrialKey]:
    """Return each row's arm, task and repeat. Repeats are 0-based: in the order of their column, or counted if there is none.

    If all tasks have the same repeats, equal names are equal numbers, whatever they begin with: 0, 1, or seeds. `cure`: what to do
    about two rows of one repeat.
    """
    cells: dict[tuple[str, str], dict[str, str]] = {}
    named: list[tuple[str, str, str]] = []
    for row in rows:
        with located(row.place):
            cell = (_arm(row, default_arm), name_of(row.cells["task"], "the task"))
            lines = cells.setdefault(cell, {})
            name = name_of(_integral(row.cells["repeat"]), "the repeat") if "repeat" in row.cells else str(len(lines))
            if name in lines:
                raise ValueError(f"arm, task and repeat {shown(name)} are in {lines[name]} already; {cure}")
            lines[name] = row.place
            named.append((*cell, name))
    everywhere = _numbered({name for lines in cells.values() for name in lines})
    if len(everywhere) == max(map(len, cells.values()), default=0):
        return [(arm, task, everywhere[name]) for arm, task, name in named]
    within = {cell: _numbered(lines) for cell, lines in cells.items()}
    return [(arm, task, within[arm, task][name]) for arm, task, name in named]


def _cure_of_copies(columns: Mapping[str, str], pooled: PooledBy | None) -> str:
    """Return what to do about two rows of one arm, task and repeat."""
    remove = "remove one of the two rows if it is a copy"
    if "arm" not in columns or "repeat" not in columns or pooled is not None:
        return f"if the rows are of several arms: {'--map arm=COLUMN' if pooled is None else pooled.cure}; otherwise {remove}"
    repeat = shown(columns["repeat"])
    return f"{remove}; if it is another repeat, number it in column {repeat}, or count the rows of each task: --map repeat="


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Number names: those that are numbers by size, then words."""
    return {name: number for number, name in enumerate(sorted(names, key=_order))}


def _integral(value: Any) -> Any:
    """Return 1 for 1.0, the form that data frames write for integers in a column with gaps."""
    text = str(value).strip()
    return text.removesuffix(".0") if re.fullmatch(r"\d{1,9}\.0", text) else value


def _order(name: str) -> tuple[int, int, str]:
    return (0, int(name), "") if re.fullmatch(r"\d{1,15}", name, re.ASCII) else (1, 0, name)


def _trial(
    cells: Mapping[str, Any],
    key: TrialKey,
    columns: Mapping[str, str],
    reading: ReadingOptions,
    messages: RowMessages | None,
) -> ForeignTrial:
    said = status_in_score(cells["score"])
    value = score(cells["score"], reading.scale) if said is None else None
    status = status_of(cells.get("status"), value, said, columns.get("status", "status"))
    measures = _measures(cells, columns, reading)
    error, reason = error_in(cells.get("error")), _reason(cells.get("reason"), columns)
    names_one = bool(error or (reason and names_errors(columns["reason"])))
    answered = "" if messages is None else answer_of(messages.answer)
    ended_by_error = names_one or said is not None or not is_nothing(cells.get("status"))
    return ForeignTrial(
        *key,
        status=status,
        reason=error or reason or (_unscored(cells["score"], said) if status == "errored" and value is None else ""),
        score=value if status == "scored" else None,
        stop=measures.pop("stop") or _stop(status, ended_by_error=ended_by_error, answered=bool(answered)),
        answer=answered or None if is_nothing(cells.get("answer")) else answer_of(cells["answer"]),
        trace=None if messages is None else messages.trace,
        cluster="" if is_nothing(cells.get("cluster")) else label_of(cells["cluster"], columns["cluster"]),
        **measures,
    )


def _messages(rows: Sequence[Row], columns: Mapping[str, str], reading: ReadingOptions) -> MessagesOfRows:
    """Return what the rows' messages say. Raises ValueError where the user named their column and a cell of it cannot be read."""
    found = messages_of(rows)
    if found.odd and reading.columns.get("messages"):
        place, reason = found.odd[0]
        raise ValueError(f"{place}: {columns['messages']}: {reason}; to leave the column out: --map messages=")
    return found


def _answers_cut(
    rows: Sequence[Row], trials: Sequence[ForeignTrial], messages: MessagesOfRows, columns: Mapping[str, str]
) -> Iterator[str]:
    """Yield how many answers of each column that gave some are cut."""
    for meaning, is_said in (("messages", True), ("answer", False)):
        found = zip(rows, trials, messages.each, strict=True)
        answers = [(row.place, trial.answer) for row, trial, chat in found if bool(chat and chat.answer) is is_said]
        yield from answers_cut(answers, columns.get(meaning, ""))


def _reason(cell: Any, columns: Mapping[str, str]) -> str:
    """Return why a trial ended as it did; of a column that is called as errors are, its error."""
    if is_nothing(cell):
        return ""
    return error_in(cell) if names_errors(columns["reason"]) else one_line(cell)


def _measures(cells: Mapping[str, Any], columns: Mapping[str, str], reading: ReadingOptions) -> dict[str, Any]:
    """Return what a row says of its trial besides score and status. Raises ValueError that says how to leave a column out."""
    measures: dict[str, Any] = {}
    for meaning, parsed in _MEASURES.items():
        try:
            measures[meaning] = parsed(cells.get(meaning), columns.get(meaning, meaning))
        except ValueError as error:
            asked = reading.columns.get(meaning)
            raise ValueError(str(error) if asked else f"{error}; to leave the column out: --map {meaning}=") from None
    return measures


def _unscored(cell: Any, said: Status | None) -> str:
    if said is None:
        return blank_score(cell.strip() if isinstance(cell, str) else "")
    return f"the score is {one_line(cell)}"


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
        raise ValueError(f"stop {shown(text)} is none of {', '.join(StopReason)}") from None


_MEASURES: Mapping[str, Callable[[Any, str], Any]] = {
    **dict.fromkeys(WHOLE, count),
    **dict.fromkeys(("cost_usd", "seconds"), amount),
    "confidence": share,
    "stop": _stop_in,
}
"""Meaning of a column → what reads its cell, which is also given the column's name."""


def _arms(rows: Iterable[Row], default: str) -> tuple[ForeignArm, ...]:
    """Return the arms in the order of the table."""
    models: dict[str, set[str]] = {}
    for row in rows:
        names = models.setdefault(_arm(row, default), set())
        if not is_nothing(row.cells.get("model")):
            names.add(name_of(row.cells["model"], "the model"))
    model_of = {arm: next(iter(names)) if len(names) == 1 else "several" if names else "unknown" for arm, names in models.items()}
    return tuple(ForeignArm(arm, model=model) for arm, model in model_of.items())


def _suite(rows: Iterable[Row]) -> str:
    """Return the suite of the column, or a fixed name, because a gate requires equal ones."""
    names = sorted({name_of(row.cells["suite"], "the suite") for row in rows if "suite" in row.cells})
    if len(names) > 1:
        raise ValueError(f"suites {names_in_a_line(names)} in one table; import one at a time")
    return names[0] if names else SUITE
