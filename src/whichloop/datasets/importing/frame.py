"""A suite from a pandas DataFrame or from rows that are dicts, in Python: `suite_from_frame`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, Unpack

from whichloop.protocol import Tool
from whichloop.protocol.values import own_copy, shown_short

from ..task import Suite, Task
from .columns import RowOptions
from .own_tools import NO_TOOLS, own_tools
from .rows import suite_of
from .table import Cells, RowTable, check_columns

if TYPE_CHECKING:
    import pandas

FrameOrRows: TypeAlias = "pandas.DataFrame | Sequence[Mapping[str, Any]]"


class FrameTable(RowTable):
    """The rows of a frame; its index does not count."""

    def __init__(self, frame: pandas.DataFrame, name: str) -> None:
        """Read the columns. Raises ValueError for names that are not text, or appear twice."""
        self.source = self.name = name
        for label in frame.columns:
            if not isinstance(label, str):
                raise ValueError(f"{name}: a column is called {label!r}, and names must be text")
        self.columns = tuple(frame.columns)
        check_columns(name, self.columns)
        self._frame = frame

    def keep(self, columns: Collection[str]) -> None:
        """Copy the columns as they are now: later changes of the frame change no task."""
        frame = self._frame[[name for name in self._frame.columns if name in columns]]
        plain = frame.astype(object).where(frame.notna(), None)  # NA, NaT and NaN are missing cells
        self._rows: list[Cells] = [
            dict(zip(plain.columns, record, strict=True)) for record in plain.itertuples(index=False, name=None)
        ]
        del self._frame

    def rows(self) -> Iterator[tuple[int, int, Cells]]:
        """Read (index, row, cells) of each row."""
        for index, cells in enumerate(self._rows):
            yield index, index + 1, cells

    def row(self, place: int) -> Cells:
        return self._rows[place]


class DictTable(RowTable):
    """Rows that are dicts from names of columns to cells, as JSON lines are; later changes of them change no task."""

    def __init__(self, rows: Sequence[Any], name: str) -> None:
        """Raises ValueError for a row that is no such dict."""
        self.source = self.name = name
        self._rows: list[Cells] = [own_copy(dict(cells)) for cells in rows_given(name, rows)]

    def rows(self) -> Iterator[tuple[int, int, Cells]]:
        """Read (index, row, cells) of each row."""
        for index, cells in enumerate(self._rows):
            yield index, index + 1, cells

    def row(self, place: int) -> Cells:
        return self._rows[place]


def is_frame(value: object) -> TypeGuard[pandas.DataFrame]:
    """Tell a DataFrame without importing pandas."""
    return hasattr(value, "to_csv") and hasattr(value, "columns") and hasattr(value, "index")


def rows_given(name: str, rows: Sequence[Any]) -> Sequence[Cells]:
    """Return rows that a program hands over. Raises ValueError for the first that is no dict from names of columns to cells."""
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping) or not all(isinstance(column, str) for column in row):
            raise ValueError(f"{name}: row {number}: give a dict from names of columns to cells; got {shown_short(row)}")
    return rows


def suite_from_frame(
    frame: FrameOrRows,
    tools: Sequence[Tool | Callable[..., object]] | Callable[[Task], object] = (),
    *,
    name: str = "frame",
    **options: Unpack[RowOptions],
) -> Suite:
    """Return the suite of a frame's rows; see `whichloop.datasets.importing.columns` for what a column means.

    `frame`: a DataFrame, or a list of dicts, a row each, which needs no pandas and may hold whole tasks, as JSON lines do.
    `tools`: functions that all trials share, or a function of the task that gives each trial's environment. `name`: of the suite.
    `options`: see `RowOptions`.

    On the command line such a suite is `package.module:function`, of a function that gives it.

    Raises ValueError that names row and column for what is wrong, TypeError for a tool that is none.
    """
    table: RowTable
    if is_frame(frame):
        table = FrameTable(frame, name)
    elif isinstance(frame, list | tuple):
        table = DictTable(frame, name)
    else:
        raise ValueError(f"frame: give a DataFrame, or a list of dicts, a row each; got {shown_short(frame)}")
    own = own_tools(name, tools) if tools else NO_TOOLS
    return suite_of(table, "suite_from_frame", own, options)
