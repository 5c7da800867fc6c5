"""Tasks of your own from a Parquet file: a question and its answer in each row."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Unpack

from whichloop._extras import needed_by
from whichloop.protocol.values import one_line

from .importing.columns import Cells, RowOptions, RowTable
from .importing.own_tools import OwnTools
from .importing.rows import suite_of
from .task import Suite

BATCH_ROWS = 1_000


def parquet_table(path: Path) -> RowTable:
    """Return a Parquet file as a table. Raises OSError for an unreadable file, ValueError if it is not a Parquet file."""
    with needed_by("a Parquet file"):  # imported when the first file is read: the list of suites does not need it
        pyarrow, arrow = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    path.open("rb").close()  # its error names the file
    errors = (pyarrow.ArrowException, OSError, UnicodeDecodeError)

    def told(error: Exception, number: int | None = None) -> ValueError:
        place = f"{path}" if number is None else f"{path}, after row {number}"
        return ValueError(f"{place}: not a Parquet file ({one_line(str(error))[:200]})")

    try:
        columns = tuple(arrow.ParquetFile(path).schema_arrow.names)
    except errors as error:
        raise told(error) from None

    def rows(wanted: Collection[str] | None) -> Iterator[tuple[int, Cells]]:
        number = 0
        kept = [name for name in columns if wanted is None or name in wanted]
        try:
            for batch in arrow.ParquetFile(path).iter_batches(BATCH_ROWS, columns=kept):
                for cells in batch.to_pylist():
                    number += 1
                    yield number, cells
        except errors as error:
            raise told(error, number) from None

    return RowTable(str(path), path.stem, rows, columns)


def load(data: str | Path, tools: OwnTools | None = None, **options: Unpack[RowOptions]) -> Suite:
    """Read the suite of a Parquet file; see `whichloop.datasets.importing.columns` for what a column means.

    `data`: `--data FILE`. `tools`: `--tools MODULE`. `options`: see `RowOptions`.

    Raises OSError where the file cannot be read, and ValueError that names file, row and column for what is wrong in it.
    """
    return suite_of(parquet_table(Path(data)), "parquet", tools, options)


SUITE = load
