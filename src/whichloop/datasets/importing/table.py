"""Rows of one format, and what their cells hold."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

from .json_files import json_value

MAX_EXACT_DIGITS = 15
"""A whole number of so many digits is one float, and no other number is."""
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?P<rest>(?:\.\d+)?(?:[eE][-+]?\d+)?)", re.ASCII)

Cells = Mapping[str, Any]
"""A row: the cell under each column; None for an empty cell."""


class RowTable(ABC):
    """Rows of one format. All errors are ValueErrors of one line that name the source and, if possible, the row."""

    source: str
    """File, or what stands for one, for messages."""
    name: str
    """The suite's name."""
    unit: Literal["line", "row"] = "row"
    """What a row's number counts, from 1 on."""
    cells: Literal["text", "json", "python"] = "python"
    """What cells are: text, of which numbers and JSON have to be read; JSON; or objects that JSON has yet to be made of."""
    columns: tuple[str, ...] | None = None
    """The same for all rows; None: each row has its own."""

    @abstractmethod
    def rows(self) -> Iterator[tuple[int, int, Cells]]:
        """Read (place, number, cells) of each row."""

    @abstractmethod
    def row(self, place: int) -> Cells:
        """Read the row at a place. Raises ValueError if the file has changed."""

    def keep(self, columns: Collection[str]) -> None:
        """Note that only these columns will be looked at."""
        return None


def check_columns(where: str, columns: Sequence[str]) -> None:
    """Raise ValueError if two columns have the same name."""
    for name in columns:
        if columns.count(name) > 1:
            raise ValueError(f"{where}: two columns are called {name!r}")


class CellError(ValueError):
    """What is wrong with a cell; `column`: its name, empty for the row as a whole."""

    def __init__(self, column: str, problem: str) -> None:
        super().__init__(f"column {column!r}: {problem}" if column else problem)


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
    raise ValueError(f"a {type(value).__name__} is not a JSON value")


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


def kind(value: Any) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", dict: "an object", list: "a list"}
    return "nothing" if value is None else names.get(type(value), f"a {type(value).__name__}")
