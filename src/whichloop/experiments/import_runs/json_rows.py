"""The list of trials in a JSON file: the file itself, or a list inside of an object, as results of promptfoo or DeepEval have it.

An object may also be a table by its columns, as `DataFrame.to_json` writes it: `{"task": {"0": "x"}}`, `{"task": ["x"]}`, or
`{"columns": ["task"], "data": [["x"]]}`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whichloop.protocol.values import counted

from .columns import NEEDED, columns_named
from .foreign_trials import ReadingOptions
from .values import short_value

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
