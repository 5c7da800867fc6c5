"""The rows of a table, whatever file they stand in: CSV, TSV, JSON lines, one JSON value, or Parquet."""

from __future__ import annotations

import codecs
import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from whichloop.datasets.csv import delimiter_in, separator_in
from whichloop.datasets.parquet import parquet_table
from whichloop.protocol.values import counted

from .columns import NEEDED, columns_named, named_by_user, words_of
from .foreign_file import JSON_LINES, PARQUET, ForeignFile, documents
from .foreign_trials import ReadingOptions
from .values import names_in_a_line, short_value

MAX_LOOKED_AT = 100
MAX_LEVELS = 8
MAX_CELL = 1 << 28


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
            table = parquet_table(file.path)
            rows = [FileRow(f"row {number}", json_cell(cells)) for number, cells in table.rows(None)]
        except ValueError as error:
            raise ValueError(str(error).removeprefix(f"{file.path}: ")) from None  # whoever reads a file names it
        return table.columns or (), rows
    if file.suffix == ".json":
        return _objects((f"row {number}", cells) for number, cells in enumerate(list_of_rows(file.json_value, reading)[1], 1))
    return _objects(documents(file)) if file.suffix in JSON_LINES else _csv(_decoded(file.content()))


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
    return [json_cell(item) for item in cell] if isinstance(cell, list | tuple) else str(cell)


def _objects(objects: Iterable[tuple[str, Any]]) -> tuple[Sequence[str], list[FileRow]]:
    """Return the names of all fields and the rows. `objects`: place and content of each."""
    rows = [FileRow(place, cells) for place, cells in objects]
    for row in rows:
        if not isinstance(row.cells, dict):
            raise ValueError(f"{row.place}: not a JSON object")
    return list(dict.fromkeys(name for row in rows for name in row.cells)), rows


def _decoded(raw: bytes) -> str:
    try:
        text = raw.decode("utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"line {raw[: error.start].count(10) + 1}: not UTF-8 text; save the table as CSV UTF-8") from None
    before, nul, _ = text.partition("\0")
    if nul:
        raise ValueError(f"line {before.count(chr(10)) + 1}: a NUL character; save the table as CSV UTF-8")
    return text


def _csv(text: str) -> tuple[Sequence[str], list[FileRow]]:
    first_line = next((line for line in text.splitlines() if line.strip()), "")
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))  # of the process; the file itself is bounded
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter_in(first_line), strict=True)
    names: list[str] = []
    rows: list[FileRow] = []
    begins = 1
    try:
        for number, cells in enumerate(cells for cells in lines if any(map(str.strip, cells))):
            place, begins = f"line {lines.line_num}", lines.line_num + 1
            if not number and separator_in(first_line):
                continue
            if not names:
                names = [cell.strip() for cell in cells]
                if double := next((name for name in names if name and names.count(name) > 1), None):
                    raise ValueError(f"two columns are called {short_value(double)}; give one of them another name")
                continue
            while len(cells) > len(names) and not cells[-1].strip():  # of columns that a spreadsheet once had
                cells.pop()
            if len(cells) != len(names):
                raise ValueError(f"{place}: {len(cells)} cells, and the first line names {len(names)} columns")
            rows.append(FileRow(place, dict(zip(reversed(names), reversed(cells), strict=True))))
    except csv.Error as error:
        raise ValueError(f"line {begins}: a row begins here whose quotes are not closed or not doubled ({error})") from None
    return list(dict.fromkeys(names)), rows


# --- the list in a JSON value ---


def list_of_rows(data: Any, reading: ReadingOptions) -> tuple[str, Sequence[Any]]:
    """Return the place and the rows of the one list in a file's JSON value that holds trials."""
    if isinstance(data, list):
        return "", data
    lists = lists_in(data)
    named = names_in_a_line([f"{place} ({counted(len(rows), 'row')})" for place, rows in lists.items() if place], 3)
    if reading.rows is not None:
        if reading.rows not in lists:
            raise ValueError(f"--rows: no list of rows stands at {short_value(reading.rows)}; there are {named or 'none'}")
        return reading.rows, lists[reading.rows]
    fitting = {place: rows for place, rows in lists.items() if _holds_trials(rows, reading)}
    if len(fitting) == 1 or "" in fitting:  # a table by its columns is the whole
        place = "" if "" in fitting else next(iter(fitting))
        return place, fitting[place]
    if fitting:
        raise ValueError(f"several lists in it hold trials: {named}; say which is meant: --rows {next(iter(fitting))}")
    if lists:
        raise ValueError(
            f"no list in it has a task and a score by its names, of {named or 'its columns'}: --map task=FIELD,score=FIELD"
        )
    raise ValueError("not a JSON array of rows")


def _holds_trials(rows: Sequence[Any], reading: ReadingOptions) -> bool:
    """Tell whether rows have a field for the task and one for the score, by their names or as the user named them."""
    names = list(dict.fromkeys(name for row in rows[:MAX_LOOKED_AT] for name in row))
    named, words = named_by_user(reading), {"_".join(words_of(name)) for name in names}
    return all(
        named[meaning] in names or named[meaning].partition(".")[0] in names or "_".join(words_of(named[meaning])) in words
        if named.get(meaning)
        else columns_named(meaning, names)
        for meaning in NEEDED
    )


def lists_in(data: Any) -> dict[str, Sequence[Any]]:
    """Return the lists of objects in an object, below objects alone, by place, and first itself where it is a table by columns."""
    waiting: list[tuple[str, Any]] = [*data.items()] if isinstance(data, Mapping) else []
    lists: dict[str, Sequence[Any]] = {"": by_column} if waiting and (by_column := _by_columns(data)) else {}
    while waiting:
        place, value = waiting.pop(0)
        if isinstance(value, Mapping) and place.count(".") < MAX_LEVELS - 1:
            waiting[:0] = [(f"{place}.{key}", item) for key, item in value.items()]
        elif isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
            lists[place] = value
    return lists


def _by_columns(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a table that is written by its columns; none where it is no such table."""
    names, rows, columns = data.get("columns"), data.get("data"), list(data.values())
    if isinstance(names, list) and isinstance(rows, list) and {*data} <= {"columns", "index", "data"}:
        fits = all(isinstance(row, list) and len(row) == len(names) for row in rows)
        return [dict(zip(map(str, names), row, strict=True)) for row in rows] if fits else []
    if columns and all(isinstance(column, Mapping) for column in columns) and len({tuple(column) for column in columns}) == 1:
        return [{name: column[row] for name, column in data.items()} for row in columns[0]]
    if columns and all(isinstance(column, list) for column in columns) and len({len(column) for column in columns}) == 1:
        is_flat = not any(isinstance(cell, Mapping) for column in columns for cell in column)
        return [dict(zip(data, cells, strict=True)) for cells in zip(*columns, strict=True)] if is_flat else []
    return []
