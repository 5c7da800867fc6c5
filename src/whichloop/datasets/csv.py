"""Tasks of your own from a CSV file with a header: a question and its answer in each record."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Unpack

from .importing.columns import Cells, RowOptions, RowTable
from .importing.json_files import MAX_LINE_BYTES, text_lines
from .importing.own_tools import OwnTools
from .importing.rows import suite_of
from .task import Suite

DELIMITERS = (",", "\t", ";", "|")
_SEPARATOR = re.compile(r"\s*\"?sep=(.)\"?\s*", re.IGNORECASE | re.DOTALL)
"""The line in which Excel is told the delimiter, before that of the names."""


def csv_table(path: Path, delimiter: str | None = None, *, decimal_comma: bool = False) -> RowTable:
    """Return a CSV file (RFC 4180) as a table. Raises OSError for an unreadable file, ValueError for a bad header."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))  # of the process
    first = next((line for _, line in text_lines(path) if line.strip()), "")
    said = _SEPARATOR.fullmatch(first)
    sign, head = delimiter or (said[1] if said else max(DELIMITERS, key=first.count)), 2 if said else 1
    _, header = next(islice(_records(path, sign), head - 1, None), (0, []))
    names = [name.strip() for name in header]
    if not names:
        raise ValueError(f"{path}: the file is empty")

    def rows(wanted: Collection[str] | None) -> Iterator[tuple[int, Cells]]:
        for line, record in islice(_records(path, sign), head, None):
            while len(record) > len(names) and not record[-1].strip():  # of columns that a spreadsheet once had
                record.pop()
            if len(record) != len(names):
                counts = f"{len(record)} cells, and the header has {len(names)} columns"
                raise ValueError(f"{path}, line {line}: the record has {counts}")
            yield line, {name: cell for name, cell in zip(names, record, strict=True) if name}

    columns = tuple(filter(None, names))  # one without a name, such as pandas writes, is left alone
    return RowTable(str(path), path.stem, rows, columns, "line", "text", decimal_comma)


def _records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Read line and fields of each record that is not blank, as those are that a spreadsheet leaves below a table."""
    reader = csv.reader((line for _, line in text_lines(path)), delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"{path}, line {number}: not CSV ({error})") from None
        if any(map(str.strip, record)):
            yield number, record


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
    return suite_of(csv_table(Path(data), delimiter, decimal_comma=decimal_comma), "csv", tools, options)


SUITE = load
