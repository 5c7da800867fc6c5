"""Tasks from a file of rows, or from rows in Python: all rows are read and checked once, and their tasks are held."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, Unpack

from whichloop.protocol import Tool
from whichloop.protocol.json_text import canonical_json, digest
from whichloop.protocol.redact import logger_of
from whichloop.protocol.values import own_copy, shown_short

from ..task import Suite, Task, described_tools
from .columns import Cells, RowOptions, RowTable
from .json_files import check_limit
from .own_tools import ALLOWED, NO_TOOLS, OwnTools, own_tools
from .reader import RowReader

if TYPE_CHECKING:
    import pandas

logger = logger_of(__name__)
FrameOrRows: TypeAlias = "pandas.DataFrame | Sequence[Mapping[str, Any]]"


@dataclass(frozen=True)
class RowSuite(Suite):
    """A suite of a file's rows, with tools of the user's own."""

    tools: OwnTools = NO_TOOLS
    places: Mapping[str, str] | None = None
    """Task id → its row, in words."""

    def place_of(self, task_id: str) -> str:
        return (self.places or {}).get(task_id, f"suite {self.name}")

    @cached_property
    def digest(self) -> str:
        """sha256 of tasks, version and tools: two suites of equal digest ask the same."""
        everything = replace(self.tasks[0], world={key: item for key, item in self.tasks[0].world.items() if key != ALLOWED})
        tools = described_tools(self.tools.open(everything))
        return digest([self.name, self.version, self.max_tool_steps, tools, _digest(self.tasks)])


def _digest(tasks: Iterable[Task]) -> str:
    sha = hashlib.sha256()
    for task in tasks:
        sha.update(canonical_json(task.as_dict()).encode("ascii") + b"\n")
    return sha.hexdigest()


def suite_of(table: RowTable, importer: str, tools: OwnTools | None, options: RowOptions) -> Suite:
    """Return the suite of a table's tasks, all of them checked; `importer`: its name, for messages.

    The version is the beginning of the digest over the tasks. Columns that are not used are logged, as a warning. Raises ValueError
    of one line for the first thing that is wrong.
    """
    limit, own = options.get("limit"), tools or NO_TOOLS
    check_limit(importer, limit)
    reader = RowReader(table, options, importer, own)
    tasks, places = list[Task](), dict[str, str]()
    for number, cells in reader.rows():
        try:
            task = reader.task(len(tasks), cells)
        except ValueError as error:
            raise ValueError(f"{table.at(number)}, {error}") from None  # one traceback for who reads it in a notebook
        if task.id in places:
            raise ValueError(f"{table.at(number)}: id {task.id!r} stands in {places[task.id].rpartition(', ')[2]} already")
        tasks.append(task)
        places[task.id] = table.at(number)
        if len(tasks) == limit:
            break
    if not tasks:
        raise ValueError(f"{table.source}: no row")
    if unused := reader.unused():
        logger.warning("%s: %s", table.source, unused)
    return RowSuite(table.name, _digest(tasks)[:8], tuple(tasks), own.open, tools=own, places=places)


def frame_table(frame: pandas.DataFrame, name: str) -> RowTable:
    """Return the rows of a frame as they are now; its index does not count. Raises ValueError for names that are not text."""
    for label in frame.columns:
        if not isinstance(label, str):
            raise ValueError(f"{name}: a column is called {label!r}, and names must be text")
    plain = frame.astype(object).where(frame.notna(), None)  # NA, NaT and NaN are missing cells
    columns = tuple(plain.columns)
    records = [dict(zip(columns, record, strict=True)) for record in plain.itertuples(index=False, name=None)]
    return RowTable(name, name, lambda wanted: enumerate(records, 1), columns)


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

    def given(wanted: Collection[str] | None) -> Iterator[tuple[int, Cells]]:
        return enumerate((own_copy(dict(cells)) for cells in rows_given(name, frame)), 1)  # type: ignore[arg-type]  # no frame

    if is_frame(frame):
        table = frame_table(frame, name)
    elif isinstance(frame, list | tuple):
        table = RowTable(name, name, given)
    else:
        raise ValueError(f"frame: give a DataFrame, or a list of dicts, a row each; got {shown_short(frame)}")
    return suite_of(table, "suite_from_frame", own_tools(name, tools) if tools else NO_TOOLS, options)
