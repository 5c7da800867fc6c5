"""DataFrames of rows that are plain mappings, as JSON has them: one way for every table that a program is given.

A table is tidy: the first columns say what a row is about, the index counts from 0. Columns have the names of `--json`, the parts
of a name joined by a dot (`stops.finished`); an interval is four columns: `accuracy` and `accuracy_low`, `_high` and `_n`.
Text is `string`; counts, measures, yes and no are NumPy's own types. What is not known is NaN or <NA>.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whichloop._extras import needed_by
from whichloop.protocol import render_value

if TYPE_CHECKING:
    import pandas as pd  # an extra, and half a second to import: only a table needs it

_COUNTED = ("stops.", "errors.", "retries.", "calls.")
"""Columns of counts by kind: a kind that a row lacks was counted 0 times."""
_ENDS = {"": "value", "_low": "low", "_high": "high", "_n": "n"}
"""What an interval's columns have behind its name → the key of each."""
TEXTS = frozenset(
    ["against", "answer", "arm", "base_loop", "cause", "cluster", "command", "detail", "loop", "profile", "reason", "stop", "suite"]
)
"""Columns of texts, also where no row has one."""


def to_frame(rows: Iterable[Mapping[str, Any]], first: Sequence[str] = ()) -> pd.DataFrame:
    """Return rows as a DataFrame. `first`: the columns that it always has, and that come first; the others follow, by name."""
    with needed_by("a DataFrame"):
        import pandas as pd  # noqa: PLC0415  # an extra

    cells = [flat(row) for row in rows]
    others = sorted({name for row in cells for name in row} - set(first))
    return pd.DataFrame({name: _column(pd, name, [row.get(name) for row in cells]) for name in (*first, *others)})


def _column(pd: Any, name: str, values: list[Any]) -> Any:
    """Return a column: text where it has any, else numbers, and what is not known as a gap. `pd`: the package."""
    if name == "started_at":
        return pd.to_datetime(pd.Series(values, dtype="float64"), unit="s", utc=True, errors="coerce").dt.as_unit("us")
    types = {type(value) for value in values if value is not None}
    if name.startswith(_COUNTED):
        return pd.Series([value or 0 for value in values], dtype="int64")
    if not types <= {int, float, bool} or (name in TEXTS and not types):
        texts = [None if value is None else render_value(value) for value in values]
        return pd.Series(texts, dtype=pd.StringDtype())
    if types == {bool}:
        return pd.Series(values, dtype="boolean" if None in values else "bool")
    if types == {int}:
        return pd.Series(values, dtype="Int64" if None in values else "int64")
    return pd.Series(values, dtype="float64")


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a mapping with the mappings inside it flattened to keys of their own."""
    columns: dict[str, Any] = {}
    for name, item in value.items():
        if not isinstance(item, Mapping):
            columns[f"{prefix}{name}"] = item
        elif item.keys() >= {"value", "low", "high"}:
            columns |= {f"{prefix}{name}{end}": item[part] for end, part in _ENDS.items() if part in item}
        else:
            columns |= flat(item, f"{prefix}{name}.")
    return columns
