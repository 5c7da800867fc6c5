"""The rows of a table, whatever file they stand in: CSV, TSV, JSON lines, one JSON array, or Parquet."""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from whichloop.datasets.parquet import ParquetTable

from .foreign_file import JSON_LINES, PARQUET, ForeignFile, parse_line
from .foreign_trials import ReadingOptions
from .json_rows import list_of_rows
from .values import located, short_value

_DELIMITERS = (",", "\t", ";", "|")
_SEPARATOR = re.compile(r"\s*\"?sep=(.)\"?\r?\n", re.IGNORECASE)
"""The line in which Excel is told the delimiter, before that of the names."""
GRADER = "Grader Reason"
"""A column that promptfoo's CSV has once for each of its prompts."""
PROMPTFOO = "of promptfoo, whose CSV has a column per prompt, import the JSON: promptfoo eval -o results.json"
RENAME = "give one of them another name"
_NO_END = "unexpected end of data"
"""What `csv` says of a quote that is never closed."""
_LINE_END = re.compile(r"\r\n|\r|\n")
MAX_CELL = 1 << 28
"""Most characters of a cell."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row."""

    place: str
    """Where it stands: `line 3`, its last line in a file of lines, or `row 3`."""
    cells: Mapping[str, Any]
    """Cells by column name, later by the meaning of the column."""


def rows_of(file: ForeignFile, reading: ReadingOptions) -> tuple[Sequence[str], list[Row]]:
    """Return the names of the columns and the rows. Raises ValueError that names the place of what is wrong.

    `reading`: which of several lists of a JSON object holds the trials may depend on the columns that the user named.
    """
    if file.suffix == PARQUET:
        return _parquet(file)
    if file.suffix == ".json":
        return _array(list_of_rows(file.json_value, reading).rows)
    text = _decoded(file.content())
    return _json_lines(text) if file.suffix in JSON_LINES else _csv(text)


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
    if isinstance(cell, list | tuple):
        return [json_cell(item) for item in cell]
    return str(cell)


def _parquet(file: ForeignFile) -> tuple[Sequence[str], list[Row]]:
    try:
        table = ParquetTable(file.path)
        rows = [Row(f"row {number}", {name: json_cell(cell) for name, cell in cells.items()}) for _, number, cells in table.rows()]
    except ValueError as error:
        error.args = (str(error).removeprefix(f"{file.path}: "),)  # whoever reads a file names it
        raise
    return table.columns or (), rows


def _array(data: Sequence[Any]) -> tuple[Sequence[str], list[Row]]:
    return _objects([(f"row {number}", cells) for number, cells in enumerate(data, 1)])


def _objects(objects: Sequence[tuple[str, Any]]) -> tuple[Sequence[str], list[Row]]:
    """Return the names of all fields and the rows. `objects`: place and content of each."""
    rows = []
    for place, cells in objects:
        if not isinstance(cells, dict):
            raise ValueError(f"{place}: not a JSON object")
        rows.append(Row(place, cells))
    return list(dict.fromkeys(name for row in rows for name in row.cells)), rows


def _json_lines(text: str) -> tuple[Sequence[str], list[Row]]:
    objects = []
    for line, raw in enumerate(text.split("\n"), 1):
        if raw.strip():
            with located(f"line {line}"):
                objects.append((f"line {line}", parse_line(raw)))
    return _objects(objects)


def _decoded(raw: bytes) -> str:
    try:
        text = raw.decode("utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"line {raw[: error.start].count(10) + 1}: not UTF-8 text; save the table as CSV UTF-8") from None
    before, nul, _ = text.partition("\0")
    if nul:
        line = before.count("\n") + 1
        raise ValueError(f"line {line}: a NUL character, which no text has; save the table as CSV UTF-8")
    return text


def _csv(text: str) -> tuple[Sequence[str], list[Row]]:
    separator = _SEPARATOR.match(text)
    body, delimiter = (text[separator.end() :], separator[1]) if separator else (text, _delimiter(text))
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))  # of the process; the file itself is bounded
    lines, first = csv.reader(io.StringIO(body, newline=""), delimiter=delimiter, strict=True), int(bool(separator))
    names: list[str] = []
    rows: list[Row] = []
    try:
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            if not names:
                names = [cell.strip() for cell in cells]
                if double := next((name for name in names if name and names.count(name) > 1), None):
                    raise ValueError(f"two columns are called {short_value(double)}; {PROMPTFOO if double == GRADER else RENAME}")
                continue
            place = f"line {first + lines.line_num}"
            while len(cells) > len(names) and not cells[-1].strip():  # of columns that a spreadsheet once had
                cells.pop()
            if len(cells) != len(names):
                raise ValueError(f"{place}: {len(cells)} cells, and the first line names {len(names)} columns")
            rows.append(Row(place, _by_column(names, cells)))
    except csv.Error as error:
        line, opened = first + lines.line_num, _open_quote(body, delimiter)
        if opened and str(error) == _NO_END:
            cure = 'close it, or write "" for a quote in a quoted cell'
            raise ValueError(f"line {first + opened}: a quote is opened here and never closed; {cure}") from None
        before = f"; the quote before it is opened in line {first + opened}" if opened and first + opened < line else ""
        raise ValueError(f"line {line}: {error}{before}") from None
    return list(dict.fromkeys(names)), rows


def _open_quote(text: str, delimiter: str) -> int:
    """Return the line in which the first quoted cell begins that does not end as one; 0 if there is none."""
    apart = re.escape(delimiter)
    cell = re.compile(rf'"[^"]*(?:""[^"]*)*"(?=[{apart}\r\n]|\Z)|(?!")[^{apart}\r\n]*')
    at = 0
    while cell_match := cell.match(text, at):
        if cell_match.end() == len(text):
            return 0
        at = cell_match.end() + 1
    return len(_LINE_END.findall(text[:at])) + 1


def _by_column(names: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    """Return the cells of a line by the names of their columns; of columns without a name, the first one."""
    return dict(zip(reversed(names), reversed(cells), strict=True))


def _delimiter(text: str) -> str:
    """Return the delimiter of the first line: comma, tab, semicolon or bar."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max(_DELIMITERS, key=first.count)
