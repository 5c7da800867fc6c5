"""Numbers as people and spreadsheets write them: `$0.04`, `350ms`, `1m 30s`, `1,965` tokens, `85%`, `0,04`.

What can mean one thing only is read, and told. A comma is a decimal one where some cell of the column cannot mean anything else
(`0,04`), and parts thousands where some cell has a decimal point, or where the column counts whole things; `1,965` seconds alone
may be either, and is left as it is, for `values` to refuse. A column holds one of both, and units in all cells or in none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from .columns import IN_CELLS, KEPT_AS, ColumnUnit, converted
from .table_rows import FileRow
from .values import is_nothing, short_value

WHOLE = ("steps", "lm_calls", "tool_calls", "tokens", "input_tokens", "output_tokens")
NUMERIC = (*WHOLE, "cost_usd", "seconds", "score", "confidence")
"""Meanings of columns that hold numbers."""
COMPOSED = "composed"
"""In the place of the unit of a cell that has several parts: `1m 30s`, `0:01:30`."""
MAX_EXAMPLES = 3
"""Most cells of a column that are told with what they were read as."""

_SPACES = " \u00a0\u2009\u202f"
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_PLAIN = re.compile(rf"[+-]?(?:\d+(?:\.\d*)?|\.\d+){_EXPONENT}", re.ASCII)
_APART = re.compile(rf"(?<=\d)[{_SPACES}'’](?=\d{{3}}(?!\d))", re.ASCII)
"""What parts thousands and can mean nothing else."""
_DECIMAL_COMMA = re.compile(rf"[+-]?(?:\d*|[1-9]\d{{0,2}}(?:\.\d{{3}})+),\d+{_EXPONENT}", re.ASCII)
_POINTED_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+", re.ASCII)
_DIGIT = re.compile(r"\d")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+", re.ASCII)
_MANY_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:(?:,\d{3})+\.\d*|(?:,\d{3}){2,})", re.ASCII)
_DECIMAL_POINT = re.compile(rf"[+-]?\d*\.\d+{_EXPONENT}", re.ASCII)
_CELL = re.compile(rf"(?P<before>[^\d+.,-]*)(?P<number>[+-]?[\d.,]*\d\.?{_EXPONENT})(?P<after>[^\d]*)", re.ASCII)
_SIGNED = re.compile(r"(-)\s*([^\d\s.,-]+)\s*(?=[\d.])", re.ASCII)
"""A minus before a currency, `-$3`."""
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zµμ]+)[,\s]*", re.ASCII | re.IGNORECASE)
_CLOCK = re.compile(r"(?:(\d+) days?,? )?(\d{1,3}):([0-5]\d):([0-5]\d(?:\.\d+)?)", re.ASCII)
_MINUTES = re.compile(r"()()(\d{1,4}):([0-5]\d\.\d+)", re.ASCII)
"""Minutes and seconds, which only a fraction tells from hours and minutes."""

_ISO = re.compile(r"P(?:(\d+)D)?T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?", re.ASCII)
"""A duration in ISO 8601, with days at most."""


@dataclass(frozen=True, slots=True)
class WrittenCell:
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

    rows: list[FileRow]
    readings: tuple[str, ...] = ()
    """What was read as what."""
    notes: tuple[str, ...] = ()
    """What may not be as the user means it."""


@dataclass(slots=True)
class _Examples:
    """Cells that are not written as plain numbers, by the way in which they are written, each with what it was read as."""

    unit: str
    examples: dict[tuple[str, bool], str] = field(default_factory=dict)

    def add(self, cell: WrittenCell | None, text: str, value: float | None) -> None:
        if cell is None or value is None:
            return
        way = (cell.unit, "," in text)
        self.examples.setdefault(way, f"{short_value(text)} as {value:.10g}" + (f" {self.unit}" if self.unit else ""))


def read_numbers(rows: Sequence[FileRow], columns: Sequence[NumberColumn]) -> NumbersRead:
    """Return the rows, whose cells stand under the meanings of their columns, with numbers for cells that can only mean these.

    Cells that can mean several things, or none, stay as they are. Raises ValueError that names the row where a column mixes decimal
    commas and points, or cells with and without a unit.
    """
    changed: dict[int, dict[str, Any]] = {}
    readings = [column.unit.reading for column in columns if column.unit and column.unit.reading]
    for column in columns:
        values, remarks = _read_column([row.cells.get(column.meaning) for row in rows], [row.place for row in rows], column)
        readings += remarks
        for number, value in values.items():
            changed.setdefault(number, {})[column.meaning] = value
    with_numbers = [
        FileRow(row.place, {**row.cells, **changed[number]}) if number in changed else row for number, row in enumerate(rows)
    ]
    notes = tuple(column.unit.note for column in columns if column.unit and column.unit.note)
    return NumbersRead(with_numbers, tuple(readings), notes)


def _read_column(values: Sequence[Any], places: Sequence[str], column: NumberColumn) -> tuple[dict[int, float], list[str]]:
    """Return the numbers of cells that are no plain ones, by the number of the row, and what the user is told of them."""
    whole = column.meaning in WHOLE
    odd = {number: value.strip() for number, value in enumerate(values) if _is_odd(value, whole=whole)}
    if not odd and column.factor == 1:
        return {}, []
    cells = {text: _cell(text, column) for text in dict.fromkeys(odd.values())}
    try:
        comma = _has_decimal_commas(values, cells, column)
        _check_units(values, odd, cells, column)
    except _Mixed as mixed:
        place, other = places[mixed.row], places[mixed.other]
        raise ValueError(f"{place}: {column.name} is {mixed.problem.format(other=other)}") from None
    numbers = {text: _number(cell, comma, column) for text, cell in cells.items() if cell is not None}
    examples = _Examples(KEPT_AS.get(column.meaning, ""))
    bare = next((value for value in values if _is_plain(value) and float(value)), None)
    if bare is not None and any(cell is not None and cell.unit == COMPOSED for cell in cells.values()):
        examples.add(
            WrittenCell(str(bare)), str(bare).strip(), converted(float(bare), column.factor)
        )  # beside `1m 30s` it may be minutes
    for text, value in numbers.items():
        examples.add(cells[text], text, value)
    by_row = {number: value for number, text in odd.items() if (value := numbers.get(text)) is not None}
    if column.factor != 1:
        by_row |= {number: converted(float(value), column.factor) for number, value in enumerate(values) if _is_plain(value)}
    line = ", ".join(list(examples.examples.values())[:MAX_EXAMPLES])
    return by_row, [f"column {short_value(column.name)} is read so: {line}"] if line else []


class _Mixed(Exception):
    """Two cells of a column contradict each other."""

    def __init__(self, row: int, other: int, problem: str) -> None:
        super().__init__(problem)
        self.row, self.other, self.problem = row, other, problem


def _is_plain(value: Any) -> bool:
    """Tell whether a cell is a number, or the text of a plain one."""
    if isinstance(value, str):
        return _PLAIN.fullmatch(value.strip()) is not None
    return isinstance(value, int | float) and not isinstance(value, bool) and not is_nothing(value)


def _is_odd(value: Any, *, whole: bool) -> bool:
    """Tell whether a cell is a text with a digit and is not a plain number; `1.965` whole things are none either."""
    if not isinstance(value, str) or _DIGIT.search(value) is None:
        return False
    text = value.strip()
    return not _PLAIN.fullmatch(text) or (whole and _POINTED_THOUSANDS.fullmatch(text) is not None)


def _number(cell: WrittenCell, comma: bool | None, column: NumberColumn) -> float | None:
    """Return what a cell says in its field's unit; None where its number may be another one."""
    if cell.unit == COMPOSED:
        return float(cell.number)
    number = _python_number(cell.number, comma, whole=_is_whole(cell, column))
    if number is None:
        return None
    factor = column.units[cell.unit] if cell.unit else column.factor
    return float(Decimal(number) * int(factor)) if column.meaning in WHOLE else converted(float(number), factor)


def _is_whole(cell: WrittenCell, column: NumberColumn) -> bool:
    """Tell whether a cell's number itself counts whole things: that of `1.5k` does not."""
    return column.meaning in WHOLE and column.units.get(cell.unit, 1.0) == 1


def _cell(text: str, column: NumberColumn) -> WrittenCell | None:
    """Return a cell's number and unit; None where it holds anything else, such as another currency."""
    seconds = _composed(text) if column.meaning == "seconds" else None
    if seconds is not None:
        return WrittenCell(str(seconds), COMPOSED)
    parts = _CELL.fullmatch(_SIGNED.sub(r"\2\1", _APART.sub("", text.replace("−", "-"))))
    if parts is None:
        return None
    units = [parts[side].strip().lower().rstrip(".") for side in ("before", "after")]
    units_said = [unit for unit in units if unit]
    if len(units_said) > 1 and not all(column.units.get(unit) == 1 for unit in units_said):
        return None
    if any(unit not in column.units for unit in units_said) or (units[0] and column.meaning != "cost_usd"):
        return None
    return WrittenCell(parts["number"], units_said[0] if units_said else "")


def _python_number(number: str, comma: bool | None, *, whole: bool) -> str | None:
    """Return a number as Python reads it; None where its comma may part thousands or decimals."""
    if comma:
        as_decimal_comma = _DECIMAL_COMMA.fullmatch(number) or _POINTED_THOUSANDS.fullmatch(number)
        return number.replace(".", "").replace(",", ".") if as_decimal_comma else number if _PLAIN.fullmatch(number) else None
    if _PLAIN.fullmatch(number):
        return number
    if _MANY_THOUSANDS.fullmatch(number) or ((whole or comma is False) and _THOUSANDS.fullmatch(number)):
        return number.replace(",", "")
    return None


def _has_decimal_commas(values: Sequence[Any], cells: Mapping[str, WrittenCell | None], column: NumberColumn) -> bool | None:
    """Return whether the commas of a column are decimal ones; None where its cells do not tell.

    Raises _Mixed where some are, and other cells have a decimal point.
    """
    if not any(set(cell.number) & {",", "."} for cell in cells.values() if cell and cell.unit != COMPOSED):
        return None
    rows_by_style: dict[bool, int] = {}
    for row, value in enumerate(values):
        text = value.strip() if isinstance(value, str) else ""
        cell = cells.get(text) if text in cells else WrittenCell(text)
        style = _style(cell.number, whole=_is_whole(cell, column)) if cell and cell.unit != COMPOSED else None
        if style is not None:
            rows_by_style.setdefault(style, row)
    if len(rows_by_style) > 1:
        text, other = (short_value(str(values[rows_by_style[style]])) for style in (True, False))
        problem = f"written {_braced(text)} with a decimal comma, and in {{other}} {_braced(other)} with a point"
        raise _Mixed(rows_by_style[True], rows_by_style[False], f"{problem}; write all of them with a point")
    return next(iter(rows_by_style), None)


def _style(number: str, *, whole: bool) -> bool | None:
    """Return whether a number can only have a decimal comma, or only a decimal point; None where either may be, or none is."""
    if _THOUSANDS.fullmatch(number) and number.count(",") == 1:
        return None
    if _POINTED_THOUSANDS.fullmatch(number) and (whole or number.count(".") > 1):
        return True if number.count(".") > 1 or not float(number).is_integer() else None
    if _DECIMAL_COMMA.fullmatch(number) and not _MANY_THOUSANDS.fullmatch(number):
        return True
    return False if _MANY_THOUSANDS.fullmatch(number) or _DECIMAL_POINT.fullmatch(number) else None


def _check_units(
    values: Sequence[Any], odd: Mapping[int, str], cells: Mapping[str, WrittenCell | None], column: NumberColumn
) -> None:
    """Raise _Mixed for a cell that says no unit beside cells with another than the field's, ValueError for one with another
    unit than its column's name.
    """
    telling: int | None = None
    for row, text in odd.items():
        cell = cells[text]
        if cell is None or cell.unit in ("", COMPOSED):
            continue
        if column.unit is not None and column.units[cell.unit] != column.factor:
            raise _Mixed(row, row, f"in {column.unit.word} by its name, and {_braced(short_value(text))} in its cell")
        if column.unit is None and column.units[cell.unit] != 1 and column.meaning in KEPT_AS:
            telling = row if telling is None else telling
    if telling is None:
        return
    for row, value in enumerate(values):
        cell = cells.get(odd[row]) if row in odd else WrittenCell(str(value).strip()) if _is_plain(value) else None
        if cell is not None and not cell.unit and cell.number.strip("0.,"):
            problem = f"{_braced(short_value(value))} without a unit, and in {{other}} {_braced(short_value(values[telling]))}"
            raise _Mixed(row, telling, f"{problem}; write the unit of each")


def _braced(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _composed(text: str) -> float | None:
    """Return the seconds of `1m 30s`, `0:01:30`, `0 days 00:01:30` or `PT1M30S`; None for any other text."""
    clock = _CLOCK.fullmatch(text) or _MINUTES.fullmatch(text) or (_ISO.fullmatch(text) if text[-1:] in "HMS" else None)
    if clock is not None:
        days, hours, minutes, seconds = (part or "0" for part in clock.groups())
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
