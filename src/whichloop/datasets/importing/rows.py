"""Tasks from a file of rows, or from rows in Python: one pass checks all rows, and a task is read when it is asked for.

A format is a `RowTable`: it gives rows with the place where each is found again. The pass keeps 8 bytes per row, and 8 more for an
id that stands in the file, so that a file of any size fits; a task is made of its row anew each time it is asked for.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, Unpack, overload

import numpy as np

from whichloop.datasets.task import DEFAULT_PLAN_CALLS, SPARE_TOOL_STEPS, Suite, Task, described_tools, is_by_construction, restates
from whichloop.protocol import Tool
from whichloop.protocol.digest import canonical_json, digest
from whichloop.protocol.redact import logger_of
from whichloop.protocol.values import own_copy, shown_short

from .columns import Cells, Columns, RowOptions, RowTable, check_columns, has_decimal_comma
from .json_files import check_limit
from .own_tools import ALLOWED, NO_TOOLS, OwnTools, own_tools
from .plan_model import refused_call
from .reader import RowReader

if TYPE_CHECKING:
    import pandas


logger = logger_of(__name__)

MAX_SCORERS = 1_000
"""Largest number of different scorers in one file."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What one pass over all rows finds out, so that none has to be read again for it."""

    places: array[int]
    """The place of each row, as its table counts."""
    digest: str
    """sha256 over all tasks."""
    longest_plan: int | None
    """Calls of the longest plan; None if no task has a plan."""
    unplanned: int
    """Number of tasks that have no plan and are not quarantined."""
    by_construction: int
    """Number of tasks that a scripted model solves by construction."""
    restated: int
    """Number of tasks whose plans state an answer in another way than the expected one."""
    refused: int
    """Number of tasks whose plans hold a call that the tools refuse."""
    scorers: Mapping[str, str]
    """Scorer → where it is first named."""
    remark: str
    """What to tell of answers that are texts, though they may be meant as numbers; empty if none are."""


class Rows(Sequence[Task]):
    """The tasks of a table; a slice is another such sequence."""

    def __init__(self, reading: RowReader, facts: Facts, span: range | array[int] | None = None) -> None:
        """`span`: which of the rows, 0-based; all if left out."""
        self._reading = reading
        self._all = facts
        self._span: range | array[int] = range(len(facts.places)) if span is None else span

    def where(self, keep: Callable[[Task], bool]) -> Rows:
        """Return the tasks that are to be kept; each is read once to find out."""
        return Rows(self._reading, self._all, array("Q", (at for at, task in zip(self._span, self, strict=True) if keep(task))))

    @property
    def facts(self) -> Facts | None:
        """What the first pass has found out; None for a slice."""
        return self._all if len(self._span) == len(self._all.places) else None

    def place_of(self, task_id: str) -> str:
        """Return the row of a task in words; of the file alone where it has no such task."""
        for index, (_, number, cells) in enumerate(self._reading.table.rows()):
            if self._reading.task(index, cells).id == task_id:
                return self._reading.at(number)
        return self._reading.table.source

    def __len__(self) -> int:
        return len(self._span)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> Task | Rows:
        if isinstance(index, slice):
            return Rows(self._reading, self._all, self._span[index])
        at = self._span[index]
        place = self._all.places[at]
        return self._reading.task(at, self._reading.table.row(place))


@dataclass(frozen=True)
class RowSuite(Suite):
    """A suite over `Rows`, which is not read again for what the first pass has found out."""

    tools: OwnTools = NO_TOOLS

    def __post_init__(self) -> None:
        if self._facts is None:
            super().__post_init__()

    @property
    def _facts(self) -> Facts | None:
        return self.tasks.facts if isinstance(self.tasks, Rows) else None

    @cached_property
    def max_tool_steps(self) -> int:
        """The one step limit that every arm of a comparison gets."""
        if self._facts is None or self.step_limit is not None:
            return super().max_tool_steps
        longest = self._facts.longest_plan
        return (DEFAULT_PLAN_CALLS if longest is None else longest) + SPARE_TOOL_STEPS

    @cached_property
    def digest(self) -> str:
        """sha256 of tasks, version and tools: two suites of equal digest ask the same."""
        if self._facts is None:
            return super().digest
        everything = replace(self.tasks[0], world={key: item for key, item in self.tasks[0].world.items() if key != ALLOWED})
        tools = described_tools(self.tools.open(everything))
        return digest([self.name, self.version, self.max_tool_steps, tools, self._facts.digest])


def suite_of(table: RowTable, importer: str, tools: OwnTools | None, options: RowOptions) -> Suite:
    """Return the suite of a table's tasks, all of them checked; `importer`: its name, for messages.

    The version is the beginning of the digest over the tasks. Columns that are not used are logged, as a warning. Raises ValueError
    of one line for the first thing that is wrong.
    """
    limit = options.get("limit")
    check_limit(importer, limit)
    own = tools or NO_TOOLS
    reading = RowReader(table, Columns(options), importer, own)
    facts = _facts(reading, limit)
    for remark in filter(None, (reading.unused(), facts.remark)):
        logger.warning("%s: %s", table.source, remark)
    return RowSuite(table.name, facts.digest[:8], Rows(reading, facts), own.open, tools=own)


def _facts(reading: RowReader, limit: int | None) -> Facts:
    places, ids = array("Q"), array("Q")
    sha = hashlib.sha256()
    longest, unplanned, by_construction, restated, refused = -1, 0, 0, 0, 0
    tools = {tool.name: tool for tool in reading.tools.fixed}
    scorers: dict[str, str] = {}
    answers = _Answers()
    for place, number, cells in reading.table.rows():
        task = reading.checked(len(places), number, cells)
        places.append(place)
        ids.append(int.from_bytes(hashlib.blake2b(task.id.encode(), digest_size=8).digest(), "little"))
        sha.update(canonical_json(task.as_dict()).encode("ascii") + b"\n")
        if task.plan is not None:
            longest = max(longest, len(task.plan.calls))
        elif not task.quarantined:
            unplanned += 1
        by_construction += is_by_construction(task)
        restated += restates(task)
        refused += bool(refused_call(task, tools))
        answers.add(task, f"{reading.table.unit} {number}")
        if task.scorer not in scorers:
            if len(scorers) == MAX_SCORERS:
                raise ValueError(f"{reading.at(number)}: more than {MAX_SCORERS} different scorers")
            scorers[task.scorer] = reading.at(number)
        if len(places) == limit:
            break
    if not places:
        raise ValueError(f"{reading.table.source}: no row")
    _check_ids(reading, ids)
    digest_of_all, longest_plan, remark = sha.hexdigest(), None if longest < 0 else longest, answers.remark(reading.importer)
    return Facts(places, digest_of_all, longest_plan, unplanned, by_construction, restated, refused, scorers, remark)


@dataclass(slots=True)
class _Answers:
    """The answers so far that are scored by what they are: numbers, and texts that may be meant as numbers."""

    numbers: int = 0
    texts: int = 0
    commas: int = 0
    """Texts that can only be numbers with a decimal comma."""
    first_text: str = ""
    first_comma: str = ""

    def add(self, task: Task, place: str) -> None:
        if isinstance(task.expected, str) and task.scorer == "normalized":
            told = f"{place}: {shown_short(task.expected)}"
            self.texts, self.first_text = self.texts + 1, self.first_text or told
            if has_decimal_comma(task.expected):
                self.commas, self.first_comma = self.commas + 1, self.first_comma or told
        elif isinstance(task.expected, int | float) and not isinstance(task.expected, bool):
            self.numbers += 1

    def remark(self, importer: str) -> str:
        """Return what to tell of them: decimal commas, or a text where (nearly) all other answers are numbers."""
        if self.commas:
            cure = "csv(decimal_comma=true)" if importer == "csv" else "write them with a point"
            return f"answers with a decimal comma are texts, {self.commas} in all, {self.first_comma}; to read numbers: {cure}"
        if self.numbers > 1 and 0 < self.texts <= max(1, self.numbers // 10):
            return f"answers that are texts beside {self.numbers} numbers, {self.texts} in all, {self.first_text}"
        return ""


def _check_ids(reading: RowReader, hashes: array[int]) -> None:
    """Raise ValueError for a duplicate id, which names both rows."""
    values = np.frombuffer(hashes, dtype=np.uint64)
    ordered = np.sort(values)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(twice):
        return
    suspects = set(np.flatnonzero(np.isin(values, twice)).tolist())
    first: dict[str, int] = {}
    for index, (_, number, cells) in enumerate(reading.table.rows()):
        if index in suspects:  # equal hashes may still be two ids
            name = reading.task(index, cells).id
            earlier = first.setdefault(name, number)
            if earlier != number:
                raise ValueError(f"{reading.at(number)}: id {name!r} stands in {reading.table.unit} {earlier} already")


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
