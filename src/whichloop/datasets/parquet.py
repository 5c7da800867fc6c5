"""Tasks of your own from a Parquet file: a question and its answer in each row."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Unpack

from whichloop._extras import needed_by
from whichloop.protocol.values import one_line

from .importing.columns import Cells, RowOptions, RowTable, check_columns
from .importing.json_files import stamp
from .importing.own_tools import OwnTools
from .importing.rows import suite_of
from .task import Suite

BATCH_BYTES = 1_000_000
"""Size of a batch, uncompressed, if rows are equally long."""
MAX_BATCH_ROWS = 1_000


class ParquetTable(RowTable):
    """A Parquet file as a table, read in small batches; only the last batch is held."""

    def __init__(self, path: Path) -> None:
        """Read the metadata. Raises OSError for an unreadable file, ValueError if it is not a Parquet file."""
        self.source = str(path)
        self.name = path.stem
        self._path = path
        self._stamp = stamp(path.stat())
        file = self._opened()
        self.columns = self._columns_read = tuple(file.schema_arrow.names)
        check_columns(self.source, self.columns)
        groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
        self._group_sizes = [group.num_rows for group in groups]
        size = sum(group.total_byte_size for group in groups) // max(1, sum(self._group_sizes))
        self._batch_rows = min(MAX_BATCH_ROWS, max(1, BATCH_BYTES // max(1, size)))
        self._batches: Iterator[tuple[int, list[Cells]]] = iter(())
        self._first, self._batch = 0, list[Cells]()

    def keep(self, columns: Collection[str]) -> None:
        self._columns_read = tuple(name for name in self._columns_read if name in columns)

    def rows(self) -> Iterator[tuple[int, int, Cells]]:
        """Read (index, row, cells) of each row. Raises ValueError."""
        for first, batch in self._from(0):
            for index, cells in enumerate(batch, start=first):
                yield index, index + 1, cells

    def row(self, place: int) -> Cells:
        """Read one row: quickly for rows in order; elsewhere the row group is read from its beginning. Raises ValueError."""
        if stamp(self._path.stat()) != self._stamp:
            raise ValueError(f"{self.source}: the file has changed since it was read")
        if not self._first <= place < self._first + 2 * len(self._batch):
            self._batches, self._batch = self._from(place), []
        while not self._first <= place < self._first + len(self._batch):
            self._first, self._batch = next(self._batches)
        return self._batch[place - self._first]

    def _from(self, place: int) -> Iterator[tuple[int, list[Cells]]]:
        """Read (index of the first row, rows) of each batch, beginning with the row group that holds the place."""
        errors = _arrow_errors()
        first = group = 0
        while group < len(self._group_sizes) and first + self._group_sizes[group] <= place:
            first += self._group_sizes[group]
            group += 1
        try:
            file = self._opened()
            for batch in file.iter_batches(self._batch_rows, row_groups=range(group, len(self._group_sizes))):
                yield first, batch.select(self._columns_read).to_pylist()
                first += len(batch)
        except errors as error:
            raise ValueError(f"{self.source}, after row {first}: not a Parquet file ({_one_line(error)})") from None

    def _opened(self) -> Any:
        self._path.open("rb").close()  # its error names the file
        try:
            return _arrow().parquet.ParquetFile(self._path, buffer_size=1_000_000, pre_buffer=False)
        except _arrow_errors() as error:
            raise ValueError(f"{self.source}: not a Parquet file ({_one_line(error)})") from None


def _arrow() -> Any:
    """Import PyArrow when the first file is read: the list of suites does not need it."""
    with needed_by("a Parquet file"):
        import pyarrow.parquet

    return pyarrow


def _arrow_errors() -> tuple[type[Exception], ...]:
    return (_arrow().ArrowException, OSError, UnicodeDecodeError)


def _one_line(error: Exception) -> str:
    return one_line(str(error))[:200]


def load(data: str | Path, tools: OwnTools | None = None, **options: Unpack[RowOptions]) -> Suite:
    """Read the suite of a Parquet file; see `whichloop.datasets.importing.columns` for what a column means.

    `data`: `--data FILE`. `tools`: `--tools MODULE`. `options`: see `RowOptions`.

    Raises OSError where the file cannot be read, and ValueError that names file, row and column for what is wrong in it.
    """
    return suite_of(ParquetTable(Path(data)), "parquet", tools, options)


SUITE = load
