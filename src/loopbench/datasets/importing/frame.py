"""A suite from a pandas DataFrame, in Python: `suite_from_frame`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Unpack

from loopbench.protocol import Tool

from ..task import Suite, Task
from .columns import RowOptions
from .own_tools import NO_TOOLS, own_tools
from .rows import suite_of
from .table import Cells, RowTable, check_columns

if TYPE_CHECKING:
    import pandas


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


def suite_from_frame(
    frame: pandas.DataFrame,
    tools: Sequence[Tool | Callable[..., object]] | Callable[[Task], object] = (),
    *,
    name: str = "frame",
    **options: Unpack[RowOptions],
) -> Suite:
    """Return the suite of a frame's rows; see `loopbench.datasets.importing.columns` for what a column means.

    `tools`: functions that all trials share, or a function of the task that gives each trial's environment. `name`: of the suite.
    `options`: see `RowOptions`.

    On the command line such a suite is `package.module:function`, of a function that gives it.

    Raises ValueError that names row and column for what is wrong, TypeError for a tool that is none.
    """
    own = own_tools(name, tools) if tools else NO_TOOLS
    return suite_of(FrameTable(frame, name), "suite_from_frame", own, options)
