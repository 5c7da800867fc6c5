"""Numbers as people and spreadsheets write them: `$0.04`, `350ms`, `1m 30s`, `1,965` tokens, `85%`, `0,04`.

What can mean one thing only is read, and told. A comma is a decimal one where some cell of the column cannot mean anything else
(`0,04`), and parts thousands where some cell has a decimal point, or where the column counts whole things; `1,965` seconds alone
may be either, and is left as it is, for `values` to refuse. A column holds one of both, and units in all cells or in none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .table_rows import Row
from .units import IN_CELLS, KEPT_AS, ColumnUnit, converted
from .values import is_nothing, located, shown

WHOLE = ("steps", "lm_calls", "tool_calls", "tokens", "input_tokens", "output_tokens")
NUMERIC = (*WHOLE, "cost_usd", "seconds", "score", "confidence")
"""Meanings of columns that hold numbers."""
MAX_EXAMPLES = 3
"""Most cells of a column that are told with what they were read as."""

_SPACES = " \u00a0\u2009\u202f"
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_PLAIN = re.compile(rf"[+-]?(?:\d+(?:\.\d*)?|\.\d+){_EXPONENT}", re.ASCII)
_APART = re.compile(rf"(?<=\d)[{_SPACES}'’](?=\d{{3}}(?!\d))", re.ASCII)
"""What parts thousands and can mean nothing else."""
_DECIMAL_COMMA = re.compile(
    rf"[+-]?(?:\d*|[1-9]\d{{0,2}}(?:\.\d{{3}})+),\d+{_EXPONENT}|[+-]?[1-9]\d{{0,2}}(?:\.\d{{3}}){{2,}}", re.ASCII
)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+", re.ASCII)
_MANY_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:(?:,\d{3})+\.\d*|(?:,\d{3}){2,})", re.ASCII)
_DECIMAL_POINT = re.compile(rf"[+-]?\d*\.\d+{_EXPONENT}", re.ASCII)
_CELL = re.compile(rf"(?P<before>[^\d+.,-]*)(?P<number>[+-]?[\d.,]*\d\.?{_EXPONENT})(?P<after>[^\d]*)", re.ASCII)
_SIGNED = re.compile(r"(-)\s*([^\d\s.,-]+)\s*(?=[\d.])", re.ASCII)
"""A minus before a currency, `-$3`."""
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zµμ]+)[,\s]*", re.ASCII | re.IGNORECASE)
_CLOCK = re.compile(r"(?:(\d+) days?,? )?(\d{1,3}):([0-5]\d):([0-5]\d(?:\.\d+)?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell's number as it is written, and its unit."""

    number: str
    unit: str = ""
    """In small letters; empty where the cell says none."""


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A column of numbers, as the table is read."""

    meaning: str
    name: str
    unit: ColumnUnit | None
    """The unit that its name says."""
    has_scale: bool = False
    """Whether the user said what the scale of its scores is."""

    @property
    def factor(self) -> float:
        return self.unit.factor if self.unit else 1.0

    @property
    def units(self) -> Mapping[str, float]:
        """Units that its cells may say: a percentage is none of a scale."""
        return {} if self.has_scale else IN_CELLS.get(self.meaning, {})


@dataclass(frozen=True, slots=True)
class NumbersRead:
    """The rows of a table with their numbers as numbers, and what the user is told of them."""

    rows: list[Row]
    readings: tuple[str, ...] = ()
    """What was read as what."""
    notes: tuple[str, ...] = ()
    """What may not be as the user means it."""


@dataclass(slots=True)
class _Told:
    """Cells that are not written as plain numbers, by the way in which they are written, each with what it was read as."""

    unit: str
    examples: dict[tuple[str, bool], str] = field(default_factory=dict)

    def add(self, cell: Cell, text: str, value: float, *, comma: bool) -> None:
        way = (cell.unit, comma and "," in text)
        self.examples.setdefault(way, f"{shown(text)} as {value:.10g}" + (f" {self.unit}" if self.unit else ""))


def read_numbers(rows: Sequence[Row], columns: Sequence[NumberColumn]) -> NumbersRead:
    """Return the rows, whose cells stand under the meanings of their columns, with numbers for cells that can only mean these.

    Cells that can mean several things, or none, stay as they are. Raises ValueError that names the row where a column mixes decimal
    commas and points, or cells with and without a unit.
    """
    kept, readings = list(rows), list[str]()
    for column in columns:
        kept, said = _read_column(kept, column)
        readings += said
    units = [column.unit for column in columns if column.unit]
    readings = [*(unit.reading for unit in units if unit.reading), *readings]
    return NumbersRead(kept, tuple(readings), tuple(unit.note for unit in units if unit.note))


def _read_column(rows: list[Row], column: NumberColumn) -> tuple[list[Row], list[str]]:
    odd = [row for row in rows if _is_odd(row.cells.get(column.meaning))]
    if not odd and column.factor == 1:
        return rows, []
    comma = _has_decimal_commas(rows, column)
    _check_units(rows, column, odd)
    told, kept = _Told(KEPT_AS.get(column.meaning, "")), list[Row]()
    for row in rows:
        with located(row.place):
            value = _value(row.cells.get(column.meaning), column, comma, told)
        kept.append(Row(row.place, {**row.cells, column.meaning: value}))
    if not told.examples:
        return kept, []
    said = ", ".join(list(told.examples.values())[:MAX_EXAMPLES])
    return kept, [f"column {shown(column.name)} is read so: {said}"]


def _is_odd(value: Any) -> bool:
    """Tell whether a cell is a text with a digit and is not a plain number."""
    return isinstance(value, str) and not _PLAIN.fullmatch(value.strip()) and any(map(str.isdecimal, value))


def _value(value: Any, column: NumberColumn, comma: bool | None, told: _Told) -> Any:
    """Return the number of a cell in its field's unit; the cell itself where it is none, or not a clear one."""
    if isinstance(value, bool) or is_nothing(value):
        return value
    if isinstance(value, int | float):
        return value if column.factor == 1 else converted(value, column.factor)
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not _is_odd(value):
        return converted(float(text), column.factor) if column.factor != 1 and _PLAIN.fullmatch(text) else value
    seconds = _composed(text) if column.meaning == "seconds" else None
    cell = Cell(text, "composed") if seconds is not None else _cell(text, column)
    if cell is None:
        return value
    number = str(seconds) if seconds is not None else _plain(cell.number, comma, whole=column.meaning in WHOLE)
    if number is None:
        return value
    factor = 1.0 if seconds is not None else column.units[cell.unit] if cell.unit else column.factor
    read = converted(float(number), factor)
    told.add(cell, text, read, comma=bool(comma))
    return read


def _cell(text: str, column: NumberColumn) -> Cell | None:
    """Return a cell's number and unit; None where it holds anything else, such as another currency."""
    found = _CELL.fullmatch(_SIGNED.sub(r"\2\1", _APART.sub("", text.replace("−", "-"))))
    if found is None:
        return None
    units = [found[side].strip().lower().rstrip(".") for side in ("before", "after")]
    said = [unit for unit in units if unit]
    if len(said) > 1 and not all(column.units.get(unit) == 1 for unit in said):
        return None
    if any(unit not in column.units for unit in said) or (units[0] and column.meaning != "cost_usd"):
        return None
    return Cell(found["number"], said[0] if said else "")


def _plain(number: str, comma: bool | None, *, whole: bool) -> str | None:
    """Return a number as Python reads it; None where its comma may part thousands or decimals."""
    if _PLAIN.fullmatch(number):
        return number
    if comma:
        return number.replace(".", "").replace(",", ".") if _DECIMAL_COMMA.fullmatch(number) else None
    if _MANY_THOUSANDS.fullmatch(number) or ((whole or comma is False) and _THOUSANDS.fullmatch(number)):
        return number.replace(",", "")
    return None


def _has_decimal_commas(rows: Sequence[Row], column: NumberColumn) -> bool | None:
    """Return whether the commas of a column are decimal ones; None where its cells do not tell.

    Raises ValueError where some are, and other cells have a decimal point.
    """
    found: dict[bool, tuple[str, str]] = {}
    for row in rows:
        value = row.cells.get(column.meaning)
        cell = _cell(value.strip(), column) if isinstance(value, str) and set(value) & {",", "."} else None
        style = None if cell is None else _style(cell.number)
        if style is not None:
            found.setdefault(style, (row.place, str(value)))
    if len(found) > 1:
        (place, text), (other, mixed) = found[True], found[False]
        both = f"{shown(text)} with a decimal comma, and in {other} {shown(mixed)} with a point"
        raise ValueError(f"{place}: {column.name} is written {both}; write all of them with a point")
    return next(iter(found), None)


def _style(number: str) -> bool | None:
    """Return whether a number can only have a decimal comma, or only a decimal point; None where either may be, or none is."""
    if _THOUSANDS.fullmatch(number) and number.count(",") == 1:
        return None
    if _DECIMAL_COMMA.fullmatch(number) and not _MANY_THOUSANDS.fullmatch(number):
        return True
    return False if _MANY_THOUSANDS.fullmatch(number) or _DECIMAL_POINT.fullmatch(number) else None


def _check_units(rows: Sequence[Row], column: NumberColumn, odd: Sequence[Row]) -> None:
    """Raise ValueError for a cell whose unit is not its column's, or that says none beside cells with another than the field's."""
    telling: Row | None = None
    for row in odd:
        text = str(row.cells[column.meaning]).strip()
        cell = _cell(text, column)
        if cell is None or not cell.unit:
            continue
        if column.unit is not None and column.units[cell.unit] != column.factor:
            raise ValueError(f"{row.place}: column {shown(column.name)} says {column.unit.word}, and its cell {shown(text)}")
        if column.unit is None and column.units[cell.unit] != 1 and column.meaning in ("seconds", "cost_usd"):
            telling = telling or row
    if telling is None:
        return
    for row in rows:
        value = row.cells.get(column.meaning)
        if not is_nothing(value) and not _has_unit(value, column) and str(value).strip().strip("0.,"):
            said = f"{shown(value)} without a unit, and in {telling.place} {shown(telling.cells[column.meaning])}"
            raise ValueError(f"{row.place}: {column.name} is {said}; write the unit of each")


def _has_unit(value: Any, column: NumberColumn) -> bool:
    if not isinstance(value, str):
        return False
    cell = _cell(value.strip(), column)
    return bool(cell and cell.unit) or _composed(value.strip()) is not None


def _composed(text: str) -> float | None:
    """Return the seconds of `1m 30s`, `0:01:30` or `0 days 00:01:30`; None for any other text."""
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        days, hours, minutes, seconds = clock.groups(default="0")
        return int(days) * 86400 + int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    parts = list(_parts(text))
    units = [IN_CELLS["seconds"].get(unit.lower(), 0.0) for _, unit in parts]
    if len(parts) < 2 or 0.0 in units or units != sorted(set(units), reverse=True):
        return None
    return sum(converted(float(number), factor) for (number, _), factor in zip(parts, units, strict=True))


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield number and unit of each part of a text; nothing where the text holds anything else."""
    parts = list(_PART.finditer(text))
    if "".join(part[0] for part in parts) == text:
        yield from ((part[1], part[2]) for part in parts)
