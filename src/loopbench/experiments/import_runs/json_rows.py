"""The list of trials in a JSON file: the file itself, or a list inside of an object, as results of promptfoo or DeepEval have it.

An object may also be a table by its columns, as `DataFrame.to_json` writes it: `{"task": {"0": "x"}}`, `{"task": ["x"]}`, or
`{"columns": ["task"], "data": [["x"]]}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopbench.protocol.counts import counted

from .columns import NEEDED, columns_named
from .foreign_trials import ReadingOptions

MAX_LOOKED_AT = 100
"""First rows of a list whose fields tell whether it holds trials."""
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
        asked = {"score": reading.scorer or "", **reading.columns}
        return all(_is_among(asked[meaning], names) if asked.get(meaning) else columns_named(meaning, names) for meaning in NEEDED)


def list_of_rows(data: Any, reading: ReadingOptions) -> RowList:
    """Return the one list of a file's JSON value that holds trials. Raises ValueError if there is none, or several."""
    if isinstance(data, list):
        return RowList("", data)
    lists = list(_lists_in(data)) if isinstance(data, Mapping) else []
    fitting = [found for found in lists if found.holds_trials(reading)]
    if len(fitting) == 1:
        return fitting[0]
    named = ", ".join(f"{found.place!r} ({counted(len(found.rows), 'row')})" for found in (fitting or lists)[:MAX_NAMED])
    if fitting:
        raise ValueError(f"several lists in it hold trials: {named}; write the one that is meant into a file of its own")
    if lists:
        cure = "say which fields of its rows are the task and the score: --map task=FIELD,score=FIELD"
        raise ValueError(f"no list in it has trials by its names, of {named}; {cure}")
    raise ValueError("not a JSON array of rows")


def holds_lists(data: Any) -> bool:
    """Tell whether an object has a list that may be a table, or is one by its columns."""
    return isinstance(data, Mapping) and next(_lists_in(data), None) is not None


def _lists_in(data: Mapping[str, Any]) -> Iterator[RowList]:
    """Yield the lists of objects in an object, at most two levels deep, and the object itself where it is a table by columns."""
    by_column = _by_columns(data)
    if by_column:
        yield RowList("", by_column)
        return
    for key, value in data.items():
        inside = value.items() if isinstance(value, Mapping) else ()
        for place, rows in ((key, value), *((f"{key}.{inner}", held) for inner, held in inside)):
            if isinstance(rows, list) and rows and all(isinstance(row, Mapping) for row in rows):
                yield RowList(place, rows)


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
