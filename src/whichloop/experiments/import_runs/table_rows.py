"""The rows of a table, whatever file they stand in: CSV, TSV, JSON lines, one JSON array, or Parquet."""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from whichloop.datasets.parquet import ParquetTable
from whichloop.metrics.arm_warnings import BLANK_SCORE
from whichloop.protocol.values import counted

from .columns import NEEDED, columns_named
from .foreign_file import JSON_LINES, PARQUET, ForeignFile, parse_line
from .foreign_trials import ReadingOptions, Status, TrialKey
from .values import (
    MAX_ANSWER_CHARS,
    UNIT,
    ScoreScale,
    is_cut,
    is_nothing,
    is_number,
    located,
    name_of,
    names_in_a_line,
    reason_line,
    score,
    short_value,
)

MAX_LOOKED_AT = 100
"""First rows of a list whose fields tell whether it holds trials."""
MAX_LEVELS = 8
"""Most objects, one in the other, in which a list of rows is looked for."""
MAX_NAMED = 3
"""Most lists that a message names."""


@dataclass(frozen=True, slots=True)
class RowList:
    """A list that may hold trials."""

    place: str
    """Keys with points between, such as `results.results`; empty for the whole file."""
    rows: Sequence[Any]

    def holds_trials(self, reading: ReadingOptions) -> bool:
        """Tell whether its rows have a field for the task and one for the score, by their names or as the user named them."""
        names = list(dict.fromkeys(name for row in self.rows[:MAX_LOOKED_AT] for name in row))
        named_columns = {"score": reading.scorer or "", **reading.columns}
        return all(
            _is_among(named_columns[meaning], names) if named_columns.get(meaning) else columns_named(meaning, names)
            for meaning in NEEDED
        )


def list_of_rows(data: Any, reading: ReadingOptions) -> RowList:
    """Return the one list of a file's JSON value that holds trials. Raises ValueError if there is none, or several."""
    if isinstance(data, list):
        return RowList("", data)
    lists = list(_lists_in(data)) if isinstance(data, Mapping) else []
    if reading.rows is not None:
        return _at_place([row_list for row_list in lists if row_list.place], reading.rows)
    fitting = [row_list for row_list in lists if row_list.holds_trials(reading)]
    lists = [row_list for row_list in lists if row_list.place] or lists  # objects around a list look like a table by its columns
    if len(fitting) == 1 or (fitting and not fitting[0].place):  # a table by its columns is the whole
        return fitting[0]
    names = _places_named(fitting or lists)
    if fitting:
        raise ValueError(f"several lists in it hold trials: {names}; say which is meant: --rows {shlex.quote(fitting[0].place)}")
    if lists:
        cure = "say which fields of its rows are the task and the score: --map task=FIELD,score=FIELD"
        raise ValueError(f"no list in it has trials by its names, of {names}; {cure}")
    raise ValueError("not a JSON array of rows")


def _at_place(lists: Sequence[RowList], place: str) -> RowList:
    """Return the list at the place that the user named. Raises ValueError if none stands there, with those that do."""
    row_list = next((one for one in lists if one.place == place), None)
    if row_list is None:
        raise ValueError(f"--rows: no list of rows stands at {short_value(place)}; there are {_places_named(lists) or 'none'}")
    return row_list


def _places_named(lists: Sequence[RowList]) -> str:
    more = f" and {counted(len(lists) - MAX_NAMED, 'other')}" if len(lists) > MAX_NAMED else ""
    return (
        ", ".join(f"{short_value(row_list.place)} ({counted(len(row_list.rows), 'row')})" for row_list in lists[:MAX_NAMED]) + more
    )


def holds_lists(data: Any) -> bool:
    """Tell whether an object has a list that may be a table, or is one by its columns."""
    return isinstance(data, Mapping) and next(_lists_in(data), None) is not None


def _lists_in(data: Mapping[str, Any]) -> Iterator[RowList]:
    """Yield the object itself where it is a table by columns, and the lists of objects in it, below objects alone."""
    by_column = _by_columns(data)
    if by_column:
        yield RowList("", by_column)
    yield from _lists_below(data, "")


def _lists_below(data: Mapping[str, Any], before: str) -> Iterator[RowList]:
    for key, value in data.items():
        place = f"{before}{key}"
        if isinstance(value, Mapping) and place.count(".") < MAX_LEVELS - 1:
            yield from _lists_below(value, f"{place}.")
        elif isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
            yield RowList(place, value)


def _by_columns(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a table that is written by its columns; none where it is no such table."""
    names, rows = data.get("columns"), data.get("data")
    if isinstance(names, list) and isinstance(rows, list) and {*data} <= {"columns", "index", "data"}:
        fits = all(isinstance(row, list) and len(row) == len(names) for row in rows)
        return [dict(zip(map(str, names), row, strict=True)) for row in rows] if fits else []
    columns = list(data.values())
    if columns and all(isinstance(column, Mapping) for column in columns) and len({tuple(column) for column in columns}) == 1:
        return [{name: column[row] for name, column in data.items()} for row in columns[0]]
    if columns and all(isinstance(column, list) for column in columns) and len({len(column) for column in columns}) == 1:
        if any(isinstance(cell, Mapping) for column in columns for cell in column):
            return []
        return [dict(zip(data, cells, strict=True)) for cells in zip(*columns, strict=True)]
    return []


def _is_among(place: str, names: Sequence[str]) -> bool:
    return place in names or place.partition(".")[0] in names or bool({place.lower()} & {name.lower() for name in names})


_DELIMITERS = (",", "\t", ";", "|")
_SEPARATOR = re.compile(r"\s*\"?sep=(.)\"?\r?\n", re.IGNORECASE)
"""The line in which Excel is told the delimiter, before that of the names."""
GRADER = "Grader Reason"
"""A column that promptfoo's CSV has once for each of its prompts."""
PROMPTFOO = "of promptfoo, whose CSV has a column per prompt, import the JSON: promptfoo eval -o results.json"
RENAME = "give one of them another name"
_NO_END = "unexpected end of data"
"""What `csv` says of a quote that is never closed."""
_LINE_END = re.compile(r"\r\n|\r|\n")
MAX_CELL = 1 << 28
"""Most characters of a cell."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """One row."""

    place: str
    """Where it stands: `line 3`, its last line in a file of lines, or `row 3`."""
    cells: Mapping[str, Any]
    """Cells by column name, later by the meaning of the column."""


def rows_of(file: ForeignFile, reading: ReadingOptions) -> tuple[Sequence[str], list[FileRow]]:
    """Return the names of the columns and the rows. Raises ValueError that names the place of what is wrong.

    `reading`: which of several lists of a JSON object holds the trials may depend on the columns that the user named.
    """
    if file.suffix == PARQUET:
        try:
            table = ParquetTable(file.path)
            rows = [
                FileRow(f"row {number}", {name: json_cell(cell) for name, cell in cells.items()})
                for _, number, cells in table.rows()
            ]
        except ValueError as error:
            error.args = (str(error).removeprefix(f"{file.path}: "),)  # whoever reads a file names it
            raise
        return table.columns or (), rows
    if file.suffix == ".json":
        return _objects([(f"row {number}", cells) for number, cells in enumerate(list_of_rows(file.json_value, reading).rows, 1)])
    text = _decoded(file.content())
    return _json_lines(text) if file.suffix in JSON_LINES else _csv(text)


def json_cell(cell: Any) -> Any:
    """Return a cell as JSON has it: None for what is missing, a number of another type as a float, all else as text."""
    if hasattr(cell, "item") and getattr(cell, "ndim", None) == 0:
        cell = cell.item()  # NumPy's own numbers
    if isinstance(cell, float | Decimal):
        return float(cell) if math.isfinite(cell) else None if math.isnan(cell) else str(cell)
    if cell is None or isinstance(cell, bool | int | str):
        return cell
    if isinstance(cell, Mapping):
        return {str(name): json_cell(item) for name, item in cell.items()}
    if isinstance(cell, list | tuple):
        return [json_cell(item) for item in cell]
    return str(cell)


def _objects(objects: Sequence[tuple[str, Any]]) -> tuple[Sequence[str], list[FileRow]]:
    """Return the names of all fields and the rows. `objects`: place and content of each."""
    rows = []
    for place, cells in objects:
        if not isinstance(cells, dict):
            raise ValueError(f"{place}: not a JSON object")
        rows.append(FileRow(place, cells))
    return list(dict.fromkeys(name for row in rows for name in row.cells)), rows


def _json_lines(text: str) -> tuple[Sequence[str], list[FileRow]]:
    objects = []
    for line, raw in enumerate(text.split("\n"), 1):
        if raw.strip():
            with located(f"line {line}"):
                objects.append((f"line {line}", parse_line(raw)))
    return _objects(objects)


def _decoded(raw: bytes) -> str:
    try:
        text = raw.decode("utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"line {raw[: error.start].count(10) + 1}: not UTF-8 text; save the table as CSV UTF-8") from None
    before, nul, _ = text.partition("\0")
    if nul:
        line = before.count("\n") + 1
        raise ValueError(f"line {line}: a NUL character, which no text has; save the table as CSV UTF-8")
    return text


def _csv(text: str) -> tuple[Sequence[str], list[FileRow]]:
    separator = _SEPARATOR.match(text)
    body, delimiter = (text[separator.end() :], separator[1]) if separator else (text, _delimiter(text))
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))  # of the process; the file itself is bounded
    lines, first = csv.reader(io.StringIO(body, newline=""), delimiter=delimiter, strict=True), int(bool(separator))
    names: list[str] = []
    rows: list[FileRow] = []
    try:
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            if not names:
                names = [cell.strip() for cell in cells]
                if double := next((name for name in names if name and names.count(name) > 1), None):
                    raise ValueError(f"two columns are called {short_value(double)}; {PROMPTFOO if double == GRADER else RENAME}")
                continue
            place = f"line {first + lines.line_num}"
            while len(cells) > len(names) and not cells[-1].strip():  # of columns that a spreadsheet once had
                cells.pop()
            if len(cells) != len(names):
                raise ValueError(f"{place}: {len(cells)} cells, and the first line names {len(names)} columns")
            rows.append(FileRow(place, dict(zip(reversed(names), reversed(cells), strict=True))))
    except csv.Error as error:
        line, opened = first + lines.line_num, _open_quote(body, delimiter)
        if opened and str(error) == _NO_END:
            cure = 'close it, or write "" for a quote in a quoted cell'
            raise ValueError(f"line {first + opened}: a quote is opened here and never closed; {cure}") from None
        before = f"; the quote before it is opened in line {first + opened}" if opened and first + opened < line else ""
        raise ValueError(f"line {line}: {error}{before}") from None
    return list(dict.fromkeys(names)), rows


def _open_quote(text: str, delimiter: str) -> int:
    """Return the line in which the first quoted cell begins that does not end as one; 0 if there is none."""
    apart = re.escape(delimiter)
    cell = re.compile(rf'"[^"]*(?:""[^"]*)*"(?=[{apart}\r\n]|\Z)|(?!")[^{apart}\r\n]*')
    at = 0
    while cell_match := cell.match(text, at):
        if cell_match.end() == len(text):
            return 0
        at = cell_match.end() + 1
    return len(_LINE_END.findall(text[:at])) + 1


def _delimiter(text: str) -> str:
    """Return the delimiter of the first line: comma, tab, semicolon or bar."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max(_DELIMITERS, key=first.count)


def trial_keys(rows: Iterable[FileRow], default_arm: str, cure: str) -> list[TrialKey]:
    """Return each row's arm, task and repeat. Repeats are 0-based: in the order of their column, or counted if there is none.

    If all tasks have the same repeats, equal names are equal numbers, whatever they begin with: 0, 1, or seeds. `cure`: what to do
    about two rows of one repeat.
    """
    cells: dict[tuple[str, str], dict[str, str]] = {}
    named: list[tuple[str, str, str]] = []
    for row in rows:
        with located(row.place):
            cell = (arm_of(row, default_arm), name_of(row.cells["task"], "the task"))
            lines = cells.setdefault(cell, {})
            name = name_of(_integral(row.cells["repeat"]), "the repeat") if "repeat" in row.cells else str(len(lines))
            if name in lines:
                raise ValueError(f"arm, task and repeat {short_value(name)} are in {lines[name]} already; {cure}")
            lines[name] = row.place
            named.append((*cell, name))
    everywhere = _numbered({name for lines in cells.values() for name in lines})
    if len(everywhere) == max(map(len, cells.values()), default=0):
        return [(arm, task, everywhere[name]) for arm, task, name in named]
    within = {cell: _numbered(lines) for cell, lines in cells.items()}
    return [(arm, task, within[arm, task][name]) for arm, task, name in named]


def arm_of(row: FileRow, default: str) -> str:
    """Return the arm that a row names, or the default."""
    return name_of(row.cells["arm"], "the arm") if "arm" in row.cells else default


def renumbered(rows: Sequence[FileRow], keys: Sequence[TrialKey]) -> Iterator[str]:
    """Yield which repeat is shown as which number, where the column of the repeat has other names, such as seeds."""
    numbers: dict[str, set[int]] = {}
    for row, (_, _, repeat) in zip(rows, keys, strict=True):
        if "repeat" in row.cells:
            numbers.setdefault(name_of(_integral(row.cells["repeat"]), "the repeat"), set()).add(repeat)
    if not len(numbers) == sum(map(len, numbers.values())) == len(set().union(*numbers.values())):
        yield "repeats are numbered from 0 within each arm and task, in the order of their column"
    elif any(_order(name)[:2] != (0, *shown_as) for name, shown_as in numbers.items()):
        ordered = names_in_a_line(sorted(numbers, key=_order))
        yield f"repeat {ordered} is shown as 0" if len(numbers) == 1 else f"repeats {ordered} are shown as 0 to {len(numbers) - 1}"


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Number names: those that are numbers by size, then words."""
    return {name: number for number, name in enumerate(sorted(names, key=_order))}


def _integral(value: Any) -> Any:
    """Return 1 for 1.0, the form that data frames write for integers in a column with gaps."""
    text = str(value).strip()
    return text.removesuffix(".0") if re.fullmatch(r"\d{1,9}\.0", text) else value


def _order(name: str) -> tuple[int, int, str]:
    """Return what a repeat's name is sorted by."""
    return (0, int(name), "") if re.fullmatch(r"\d{1,15}", name, re.ASCII) else (1, 0, name)


_STATUSES: Mapping[str, Status] = {
    "scored": "scored",
    **dict.fromkeys(("ok", "success", "succeeded", "pass", "passed", "complete", "completed", "done"), "scored"),
    **dict.fromkeys(("errored", "error", "crashed"), "errored"),
    **dict.fromkeys(("excluded", "skipped"), "excluded"),
}
_FAILED = ("fail", "failed", "failure")
"""Statuses of trials that ended without success: by an error if they have no score, at the task if they have one."""
_NO_ERROR = frozenset(
    [*("false", "f", "0", "0.0", "no", "n", "no error", "[]", "{}"), *(word for word in _STATUSES if _STATUSES[word] == "scored")]
)
_SOME_ERROR = frozenset({"true", "t", "1", "1.0", "yes", "y"})
"""What a column of errors has where it only says whether there was one."""
ERROR_WITHOUT_TEXT = "an error without a text"
_WITHOUT_SCORE = {word: status for word, status in _STATUSES.items() if status != "scored"}


def status_in_score(value: Any) -> Status | None:
    """Return the status that a cell of the score says in the place of a score: `ERROR`, `skipped`; None for any other cell."""
    return _WITHOUT_SCORE.get(value.strip().lower()) if isinstance(value, str) else None


def error_in(cell: Any) -> str:
    """Return the text of the error that a cell names, also where it says only that there was one; empty where there was none."""
    word = str(cell).strip().lower()
    if is_nothing(cell) or word in _NO_ERROR:
        return ""
    return ERROR_WITHOUT_TEXT if word in _SOME_ERROR else reason_line(cell)


def is_verdict(value: Any) -> bool:
    """Tell whether a cell is a word that says how a trial was judged or ended: `PASS`, `no`, `✓`, `ERROR`."""
    if not isinstance(value, str) or any(map(str.isdecimal, value)):
        return False
    try:
        return status_in_score(value) is not None or score(value, None) is not None
    except ValueError:
        return False


def status_of(text: Any, value: float | None, from_score: Status | None = None, column: str = "status") -> Status:
    """Return a trial's status: the one that its score's cell says, or else its status's; with neither, a blank score is errored.

    `column`: the name of the status's. Raises ValueError for an unknown word, and where status and score contradict each other.
    """
    if is_nothing(text):
        return from_score or ("errored" if value is None else "scored")
    word = str(text).strip().lower()
    status = _STATUSES.get(word) if word not in _FAILED else "errored" if value is None else "scored"
    if status is None:
        problem = f"status {short_value(text)} is none of {', '.join((*_STATUSES, *_FAILED))}"
        as_errors = f"if it is an error that ended the trial: --map {shlex.quote(f'error={column},status=')}"
        raise ValueError(f"{problem}; {as_errors}; to leave the column out: --map status=")
    if status == "scored" and value is None:
        raise ValueError(f"status {short_value(text)}, and {f'the score says {from_score}' if from_score else BLANK_SCORE}")
    return status if status == "excluded" else from_score or status


MAX_WORDS = 6
"""Most different words of a column of scores that are told."""


def scores_in_words(rows: Sequence[FileRow], name: str, scale: ScoreScale | None) -> Iterator[str]:
    """Yield which words of a column of scores were read as which number, where others are numbers, and which as no score.

    `rows`: their cells stand under the meanings of the columns. Words alone, such as PASS and FAIL, are one kind of score.
    """
    words, words_without_score = dict[str, list[str]](), dict[str, list[str]]()
    read_as, ends, has_numbers = dict[str, str](), scale or UNIT, False
    for row in rows:
        cell = row.cells["score"]
        if is_nothing(cell):
            if isinstance(cell, str) and cell.strip():
                words_without_score.setdefault(short_value(cell.strip()), []).append(row.place)
        elif is_number(cell):
            has_numbers = True
        elif status_in_score(cell) is None:
            word = short_value(cell.strip() if isinstance(cell, str) else cell)
            words.setdefault(word, []).append(row.place)
            read_as[word] = f"{ends.worst + (score(cell, scale) or 0.0) * (ends.best - ends.worst):g}"
    remarks = [_read_so(word, read_as[word], places) for word, places in words.items() if has_numbers]
    remarks += [_read_so(word, "no score", places) for word, places in words_without_score.items()]
    if remarks:
        more = f" and {counted(len(remarks) - MAX_WORDS, 'other')}" if len(remarks) > MAX_WORDS else ""
        yield f"column {short_value(name)} is read so: {', '.join(remarks[:MAX_WORDS])}{more}"


def _read_so(word: str, read_as: str, places: Sequence[str]) -> str:
    """Return `'yes' as 1 in 12 cells, the first in line 8`."""
    where = f" ({places[0]})" if len(places) == 1 else f" in {len(places):,} cells (the first in {places[0]})"
    return f"{word} as {read_as}{where}"


def answers_cut(answers: Iterable[tuple[str, Any]], column: str = "") -> Iterator[str]:
    """Yield how many answers are cut. `answers`: where each stands, and what is kept of it. `column`: of a table."""
    cut = [where for where, answer in answers if is_cut(answer)]
    if cut:
        where = cut[0] if len(cut) == 1 else f"the first: {cut[0]}"
        number = counted(len(cut), "answer is", "answers are")
        of = f"column {short_value(column)}: " if column else ""
        yield f"{of}{number} cut to {MAX_ANSWER_CHARS:,} characters ({where})"
