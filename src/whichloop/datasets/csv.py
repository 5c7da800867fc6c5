"""Tasks of your own from a CSV file with a header: a question and its answer in each record."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Unpack

from .importing.columns import Cells, RowOptions, RowTable, check_columns
from .importing.json_files import MAX_BYTES, JsonLinesFile, TextFile
from .importing.own_tools import OwnTools
from .importing.rows import suite_of
from .task import Suite

DELIMITERS = (",", "\t", ";", "|")
_SEPARATOR = re.compile(r"\s*\"?sep=(.)\"?\s*", re.IGNORECASE | re.DOTALL)
"""The line in which Excel is told the delimiter, before that of the names."""


def separator_in(line: str) -> str:
    """Return the delimiter that a line says, as Excel wants it: `sep=;`; empty for any other line."""
    match = _SEPARATOR.fullmatch(line)
    return match[1] if match else ""


def delimiter_in(line: str) -> str:
    """Return the sign between cells that the first line of a file says, or has most often: comma, tab, semicolon or bar."""
    return separator_in(line) or max(DELIMITERS, key=line.count)


class CsvTable(RowTable):
    """A CSV file (RFC 4180) as a table; a record may span lines, and counts by its first."""

    unit = "line"
    cells = "text"

    def __init__(self, path: Path, delimiter: str | None = None, *, decimal_comma: bool = False) -> None:
        """Read the header. Raises OSError for an unreadable file, ValueError for a bad header."""
        self.source = str(path)
        self.name = path.stem
        self.decimal_comma = decimal_comma
        self._file = TextFile(path)
        csv.field_size_limit(max(csv.field_size_limit(), MAX_BYTES))  # of the process; a record is bounded by `JsonLinesFile`
        with self._file.lines() as lines:
            first = next((line for line in lines if line.strip()), "")
        self._delimiter = delimiter or delimiter_in(first)
        self._head = 2 if separator_in(first) else 1
        with self._file.lines() as lines:
            head = [(number, record) for (_, number, record), _ in zip(self._records(lines), range(self._head), strict=False)]
        number, header = head[-1] if len(head) == self._head else (0, [])
        if not header:
            raise ValueError(f"{self.source}: the file is empty")
        names = [name.strip() for name in header]
        self.columns = tuple(name for name in names if name)  # one without a name, such as pandas writes, is left alone
        check_columns(f"{self.source}, line {number}", self.columns)
        self._width = len(names)
        self._cell_of_column = {name: index for index, name in enumerate(names) if name}

    def keep(self, columns: Collection[str]) -> None:
        self._cell_of_column = {name: index for name, index in self._cell_of_column.items() if name in columns}

    def rows(self) -> Iterator[tuple[int, int, Cells]]:
        """Read (byte, line, cells) of each record after the header. Raises ValueError."""
        with self._file.lines() as lines:
            for place, number, record in islice(self._records(lines), self._head, None):
                yield place, number, self._cells(record, number)

    def row(self, place: int) -> Cells:
        """Read one record. Raises ValueError if the file has changed."""
        with self._file.lines_from(place) as lines:
            _, number, record = next(self._records(lines))
            return self._cells(record, number)

    def _records(self, lines: JsonLinesFile) -> Iterator[tuple[int, int, list[str]]]:
        """Read (byte, line, fields) of each record that is not blank, as those are that a spreadsheet leaves below a table."""
        reader = csv.reader(lines, delimiter=self._delimiter, strict=True)
        while True:
            place, number, lines.record = lines.place, lines.number + 1, 0
            try:
                record = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise ValueError(f"{self.source}, line {number}: not CSV ({error})") from None
            if any(map(str.strip, record)):
                yield place, number, record

    def _cells(self, record: list[str], number: int) -> dict[str, str]:
        while len(record) > self._width and not record[-1].strip():  # of columns that a spreadsheet once had
            record.pop()
        if len(record) != self._width:
            counts = f"{len(record)} cells, and the header has {self._width} columns"
            raise ValueError(f"{self.source}, line {number}: the record has {counts}")
        return {name: record[index] for name, index in self._cell_of_column.items()}


def load(
    data: str | Path,
    tools: OwnTools | None = None,
    delimiter: str | None = None,
    decimal_comma: bool = False,
    **options: Unpack[RowOptions],
) -> Suite:
    """Read the suite of a CSV file in UTF-8; see `whichloop.datasets.importing.columns` for what a column means.

    `data`: `--data FILE`. `tools`: `--tools MODULE`. `delimiter`: the sign between cells; None: the one that the first
    line says, or has most of. `decimal_comma`: numbers are written as 1.310,50. `options`: see `RowOptions`.

    Raises OSError where the file cannot be read, and ValueError that names file, line and column for what is wrong in it.
    """
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n\0'):
        raise ValueError(f"csv: delimiter is {delimiter!r}, and must be one character, neither a quote nor a line end")
    return suite_of(CsvTable(Path(data), delimiter, decimal_comma=decimal_comma), "csv", tools, options)


SUITE = load
