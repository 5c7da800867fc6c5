"""DataFrames of rows that are plain mappings, as JSON has them: one way for every table that a program is given.

A table is tidy: the first columns say what a row is about, the index counts from 0. Columns have the names of `--json`, the parts
of a name joined by a dot; an interval is four columns: `accuracy`, `accuracy_low`, `accuracy_high`, `accuracy_n`. Text is `string`,
a count `int64`, a measure `float64`, yes or no `bool`; what is not known is NaN or <NA>.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from whichloop._extras import needed_by
from whichloop.metrics.record_table import Places

if TYPE_CHECKING:
    import pandas as pd  # an extra, and half a second to import: only a table needs it

_COUNTED = ("stops.", "errors.", "retries.", "calls.")
"""Columns of counts by kind: a kind that a row lacks was counted 0 times."""


class SpreadRows(NamedTuple):
    """Rows of a table that are alike but for some columns."""

    rows: Places
    """For each row which of those that are given it is like."""
    own_columns: Mapping[str, Sequence[Any]]
    """Columns with a value of each row's own."""


def rows_frame(rows: Sequence[Mapping[str, Any]], dtypes: Mapping[str, str], spread: SpreadRows | None = None) -> pd.DataFrame:
    """Return rows as a DataFrame. `dtypes`: its constant columns, in order; what else rows have follows, by name.

    `spread`: which of the rows stand in it, and how often. Raises TypeError, ValueError or OverflowError for a value that its
    column cannot hold, and says which extra is missing where pandas is.
    """
    with needed_by("a DataFrame"):
        from .frame import column, frame

    more = sorted({name for row in rows for name in row} - dtypes.keys())
    values = {name: [row.get(name) for row in rows] for name in (*dtypes, *more)}
    types = {name: dtypes.get(name) or _dtype(name, cells) for name, cells in values.items()}
    columns = {name: column(cells, _with_gaps(name, types[name], rows)) for name, cells in values.items()}
    if spread is not None:
        columns = {name: cells.take(spread.rows).reset_index(drop=True) for name, cells in columns.items()}
        columns |= {name: column(cells, dtypes[name]) for name, cells in spread.own_columns.items()}
    return frame(columns)


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a mapping with the mappings inside it flattened to keys of their own."""
    columns: dict[str, Any] = {}
    for name, item in value.items():
        if not isinstance(item, Mapping):
            columns[f"{prefix}{name}"] = item
        elif item.keys() >= {"value", "low", "high"}:
            parts = {"": "value", **{end: end.removeprefix("_") for end in _ENDS}}
            columns |= {f"{prefix}{name}{end}": item[part] for end, part in parts.items() if part in item}
        else:
            columns |= flat(item, f"{prefix}{name}.")
    return columns


def without_none(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a row without these parts where they are None: a part that exists has several columns, not one."""
    return {key: value for key, value in row.items() if key not in names or value is not None}


def without_untold(
    rows: Sequence[Mapping[str, Any]], dtypes: Mapping[str, str], wanted: Collection[str]
) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, str]]:
    """Return rows and constant columns without measures that no row has, an interval's with its ends.

    `wanted`: measures that stay, as text does.
    """

    def is_untold(name: str) -> bool:
        measure = next((name.removesuffix(end) for end in _ENDS if name.endswith(end) and name.removesuffix(end) in dtypes), name)
        is_measure = dtypes.get(name) != "string" and measure not in wanted
        return is_measure and all(row.get(measure) in (None, "") for row in rows)

    gone = {name for name in {*dtypes, *(name for row in rows for name in row)} if is_untold(name)}
    trimmed = [{name: value for name, value in row.items() if name not in gone} for row in rows]
    return trimmed, {name: dtype for name, dtype in dtypes.items() if name not in gone}


_ENDS = ("_low", "_high", "_n")
"""What the columns of an interval's ends, and of the number that it is over, have behind its name."""


def interval_columns(*names: str) -> dict[str, str]:
    """Return the columns of intervals."""
    ends = {"": "float64", "_low": "float64", "_high": "float64", "_n": "int64"}
    return {f"{name}{end}": dtype for name in names for end, dtype in ends.items()}


def _with_gaps(name: str, dtype: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a column's dtype, which allows gaps if a row says that its value is not known; a count that a row lacks is 0."""
    gapped = {"int64": "Int64", "bool": "boolean"}.get(dtype)
    return gapped if gapped is not None and any(row.get(name, 0) is None for row in rows) else dtype


def _dtype(name: str, values: Sequence[Any]) -> str:
    """Return the dtype of a column that not every run has: a number if all values are numbers, else text."""
    types = {type(value) for value in values if value is not None}
    whole = None not in values
    if name.startswith(_COUNTED):
        return "int64"
    if types == {int}:
        return "int64" if whole else "Int64"
    if types == {bool}:
        return "bool" if whole else "boolean"
    return "float64" if types <= {int, float} else "string"
