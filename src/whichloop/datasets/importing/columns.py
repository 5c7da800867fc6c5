"""What columns mean, the options with which a user says so, and what a cell holds.

A column is found by its name (`NAMES`, the first one there) or named by an option, in any case. What a cell means:

- `answer`: text as it is, in a CSV file a number or a JSON list or object as that value. A task without one can only be scored by
  a scorer of the user's own.
- `scorer`: for this row; else the option `scorer`; else by the answer: `schema` where the row has a schema, `numeric` for numbers
  (whole ones exactly), `exact` for lists and objects (as JSON), `normalized` for text.
- `tools`: names of the only tools that the task has, with commas between them or as a JSON list; all if left out.
- `schema`, `plan`, `world`, `end_state`: JSON, as `Task.as_dict` writes it.

A row of JSON lines with an object in `query` is a whole task, as `Task.as_dict` writes it: a learned suite is one.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from whichloop.protocol.values import shown_short

from .json_files import json_value

NAMES: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "prompt", "input", "query"),
    "answer": ("answer", "expected", "gold", "target", "output"),
    **{name: (name,) for name in ("id", "context", "schema", "tools", "scorer", "split", "plan", "end_state", "world")},
}
"""What a column may mean, and the names by which it is found, the first one there."""
MAX_EXACT_DIGITS = 15
"""A whole number of so many digits is one float, and no other number is."""
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?P<rest>(?:\.\d+)?(?:[eE][-+]?\d+)?)", re.ASCII)
_WITH_COMMA = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d*)(?:,\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+", re.ASCII)

Cells = Mapping[str, Any]
"""A row: the cell under each column; None for an empty cell."""


class RowOptions(TypedDict, total=False):
    """The options that every importer of rows takes; None is the same as leaving one out."""

    question: str | None
    """name of the column with the question; left out, it is found by its name"""
    answer: str | None
    """name of the column with the answer; left out, it is found by its name"""
    columns: Mapping[str, str] | None
    """names of the others, by what they mean; an empty name: there is none, whatever the columns are called"""
    scorer: str | None
    """of rows that name none"""
    labels: str | Sequence[str] | None
    """columns that become labels, as a list or with commas between them"""
    limit: int | None
    """only the first so many rows"""


@dataclass(frozen=True)
class RowTable:
    """Rows of one format. All errors are ValueErrors of one line that name the source and, if possible, the row."""

    source: str
    """File, or what stands for one, for messages."""
    name: str
    """The suite's name."""
    rows: Callable[[Collection[str] | None], Iterable[tuple[int, Cells]]]
    """Gives number and cells of each row; of these columns alone, where they are named."""
    columns: tuple[str, ...] | None = None
    """The same for all rows; None: each row has its own."""
    unit: Literal["line", "row"] = "row"
    """What a row's number counts, from 1 on."""
    cells: Literal["text", "json", "python"] = "python"
    """What cells are: text, of which numbers and JSON have to be read; JSON; or objects that JSON has yet to be made of."""
    decimal_comma: bool = False
    """Whether numbers in texts are written as 1.310,50."""

    def __post_init__(self) -> None:
        for name in self.columns or ():
            if (self.columns or ()).count(name) > 1:
                raise ValueError(f"{self.source}: two columns are called {shown_short(name)}")

    def at(self, number: int) -> str:
        """Return a row's place in words."""
        return f"{self.source}, {self.unit} {number}"


class CellError(ValueError):
    """What is wrong with a cell; `column`: its name, empty for the row as a whole."""

    def __init__(self, column: str, problem: str) -> None:
        super().__init__(f"column {column!r}: {problem}" if column else problem)


def between_commas(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def column_named(name: str, columns: Collection[str]) -> str | None:
    """Find the column that the user means: by its exact name, else the only one that differs from it in case."""
    alike = [column for column in columns if column.strip().casefold() == name.strip().casefold()]
    return name if name in columns else alike[0] if len(alike) == 1 else None


def quoted(columns: Iterable[str]) -> str:
    """Return names in quotes, the first 30."""
    names = [repr(name if len(name) <= 40 else f"{name[:40]}…") for name in columns]
    return (", ".join(names[:30]) or "none") + (", …" if len(names) > 30 else "")


def json_cell(value: Any) -> Any:
    """Return a cell of a typed format as JSON: dates as ISO text, NaN as None. Raises ValueError for what JSON cannot express."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError("infinity is not JSON")
        return None if math.isnan(value) else value
    if isinstance(value, decimal.Decimal):
        return json_cell(int(value) if value == value.to_integral_value() else float(value)) if value.is_finite() else None
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        if any(not isinstance(key, str) for key in value):
            raise ValueError("a key is not text")
        return {key: json_cell(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_cell(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return json_cell(value.tolist())
    raise ValueError(f"{type(value).__name__} is no JSON value")


def read_value(text: str) -> Any:
    """Return what a text of a format without types stands for: a number, a JSON list or object, else itself."""
    bare = text.strip()
    number = _NUMBER.fullmatch(bare)
    if number is not None:
        if not number["rest"]:
            return int(bare) if len(bare.lstrip("-")) <= MAX_EXACT_DIGITS else text
        return float(bare) if math.isfinite(float(bare)) else text
    if bare[:1] in ("[", "{"):
        try:
            return json_value(bare)
        except ValueError:
            return text
    return text


def with_point(text: str) -> str:
    """Return a number that is written with a decimal comma, 1.310,50, with a point; any other text as it is."""
    bare = text.strip()
    return bare.replace(".", "").replace(",", ".") if _WITH_COMMA.fullmatch(bare) else text


def has_decimal_comma(text: str) -> bool:
    """Tell whether a text can only be a number with a decimal comma: 39,9, but not 1,310."""
    bare = text.strip()
    return "," in bare and _WITH_COMMA.fullmatch(bare) is not None and _THOUSANDS.fullmatch(bare) is None
