"""The rows of a table, whatever file they stand in: CSV, TSV, JSON lines, one JSON value, or Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whichloop.datasets.csv import csv_table
from whichloop.datasets.parquet import parquet_table
from whichloop.protocol.values import counted, shown_short

from .columns import NEEDED, columns_named, named_by_user
from .foreign_file import JSON_LINES, PARQUET, ForeignFile, documents
from .foreign_trials import ReadingOptions
from .values import names_in_a_line

MAX_LOOKED_AT = 100
MAX_LEVELS = 8


@dataclass(frozen=True, slots=True)
class FileRow:
    """One row."""

    place: str
    """Where it stands: `line 3`, its first line in a file of lines, or `row 3`."""
    cells: Mapping[str, Any]
    """Cells by column name, later by the meaning of the column."""


def rows_of(file: ForeignFile, reading: ReadingOptions) -> tuple[Sequence[str], list[FileRow]]:
    """Return the names of the columns and the rows. Raises ValueError that names the place of what is wrong.

    `reading`: which of several lists of a JSON object holds the trials may depend on the columns that the user named.
    """
    if file.suffix == ".json":
        return _objects((f"row {number}", cells) for number, cells in enumerate(list_of_rows(file.json_value, reading)[1], 1))
    if file.suffix in JSON_LINES:
        return _objects(documents(file))
    try:
        table = parquet_table(file.path) if file.suffix == PARQUET else csv_table(file.path)
        rows = [FileRow(f"{table.unit} {number}", json.loads(as_json(cells))) for number, cells in table.rows(None)]
    except ValueError as error:
        raise ValueError(str(error).removeprefix(str(file.path)).lstrip(":, ")) from None  # whoever reads a file names it
    return table.columns or (), rows


def as_json(rows: Any) -> str:
    """Return a row, or a list of them, as JSON: numbers and lists of another type as JSON has them, all else as text."""
    return json.dumps(rows, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value))


def _objects(objects: Iterable[tuple[str, Any]]) -> tuple[Sequence[str], list[FileRow]]:
    """Return the names of all fields and the rows. `objects`: place and content of each."""
    rows = [FileRow(place, cells) for place, cells in objects]
    for row in rows:
        if not isinstance(row.cells, dict):
            raise ValueError(f"{row.place}: not a JSON object")
    return list(dict.fromkeys(name for row in rows for name in row.cells)), rows


# --- the list in a JSON value ---


def list_of_rows(data: Any, reading: ReadingOptions) -> tuple[str, Sequence[Any]]:
    """Return the place and the rows of the one list in a file's JSON value that holds trials."""
    if isinstance(data, list):
        return "", data
    lists = lists_in(data)
    named = names_in_a_line([f"{place} ({counted(len(rows), 'row')})" for place, rows in lists.items()], 3)
    if reading.rows is not None:
        if reading.rows not in lists:
            raise ValueError(f"--rows: no list of rows stands at {shown_short(reading.rows)}; there are {named or 'none'}")
        return reading.rows, lists[reading.rows]
    fitting = {place: rows for place, rows in lists.items() if _holds_trials(rows, reading)}
    if len(fitting) == 1:
        return fitting.popitem()
    if fitting:
        raise ValueError(f"several lists in it hold trials: {named}; say which is meant: --rows {next(iter(fitting))}")
    if lists:
        raise ValueError(f"no list in it has a task and a score by its names, of {named}: --map task=FIELD,score=FIELD")
    raise ValueError("not a JSON array of rows")


def _holds_trials(rows: Sequence[Any], reading: ReadingOptions) -> bool:
    """Tell whether rows have a field for the task and one for the score, by their names or as the user named them."""
    names = list(dict.fromkeys(name for row in rows[:MAX_LOOKED_AT] for name in row))
    named = named_by_user(reading)
    wanted = [named.get(meaning) or next(iter(columns_named(meaning, names)), "") for meaning in NEEDED]
    return all(name in names or name.partition(".")[0] in names for name in wanted)


def lists_in(data: Any) -> dict[str, Sequence[Any]]:
    """Return the lists of objects in an object, below objects alone, by place."""
    waiting: list[tuple[str, Any]] = [*data.items()] if isinstance(data, Mapping) else []
    lists: dict[str, Sequence[Any]] = {}
    while waiting:
        place, value = waiting.pop(0)
        if isinstance(value, Mapping) and place.count(".") < MAX_LEVELS - 1:
            waiting[:0] = [(f"{place}.{key}", item) for key, item in value.items()]
        elif isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
            lists[place] = value
    return lists
