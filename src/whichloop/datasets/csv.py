"""Tasks of your own from a CSV file with a header: a question and its answer in each record."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Unpack

from .importing.columns import Cells, RowOptions, RowTable, check_columns
from .importing.json_files import MAX_BYTES, JsonLinesFile, TextFile
from .importing.own_tools import OwnTools
from .importing.rows import suite_of
from .task import Suite


class CsvTable(RowTable):
    """A CSV file (RFC 4180) as a table; a record may span lines, and counts by its first."""

    unit = "line"
    cells = "text"

    def __init__(self, path: Path, delimiter: str) -> None:
        """Read the header. Raises OSError for an unreadable file, ValueError for a bad header."""
        self.source = str(path)
        self.name = path.stem
        self._file = TextFile(path)
        self._delimiter = delimiter
        csv.field_size_limit(max(csv.field_size_limit(), MAX_BYTES))  # of the process; a record is bounded by `JsonLinesFile`
        with self._file.lines() as lines:
            number, header = next(((number, record) for _, number, record in self._records(lines)), (0, []))
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
            records = self._records(lines)
            next(records)
            for place, number, record in records:
                yield place, number, self._cells(record, number)

    def row(self, place: int) -> Cells:
        """Read one record. Raises ValueError if the file has changed."""
        with self._file.lines_from(place) as lines:
            _, number, record = next(self._records(lines))
            return self._cells(record, number)

    def _records(self, lines: JsonLinesFile) -> Iterator[tuple[int, int, list[str]]]:
        """Read (byte, line, fields) of each record that is not a blank line."""
        reader = csv.reader(lines, delimiter=self._delimiter, strict=True)
        while True:
            place, number, lines.record = lines.place, lines.number + 1, 0
            try:
                record = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise ValueError(f"{self.source}, line {number}: not CSV ({error})") from None
            if record:
                yield place, number, record

    def _cells(self, record: list[str], number: int) -> dict[str, str]:
        if len(record) != self._width:
            counts = f"{len(record)} cells, and the header has {self._width} columns"
            raise ValueError(f"{self.source}, line {number}: the record has {counts}")
        return {name: record[index] for name, index in self._cell_of_column.items()}


def load(data: str | Path, tools: OwnTools | None = None, delimiter: str = ",", **options: Unpack[RowOptions]) -> Suite:
    """Read the suite of a CSV file in UTF-8; see `whichloop.datasets.importing.columns` for what a column means.

    `data`: `--data FILE`. `tools`: `--tools MODULE`. `delimiter`: the sign between cells. `options`: see `RowOptions`.

    Raises OSError where the file cannot be read, and ValueError that names file, line and column for what is wrong in it.
    """
    if len(delimiter) != 1 or delimiter in '"\r\n\0':
        raise ValueError(f"csv: delimiter is {delimiter!r}, and must be one character, neither a quote nor a line end")
    return suite_of(CsvTable(Path(data), delimiter), "csv", tools, options)


SUITE = load
