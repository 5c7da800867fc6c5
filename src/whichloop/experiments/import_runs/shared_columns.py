"""The column that names the same tasks in several arms, where the one that was read as the task is another in each."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from .column_hints import is_measured
from .columns import columns_of
from .foreign_file import GivenRows, open_file
from .joining import ImportRequest
from .places import with_places
from .pooled import can_be_typed, numbers_repeats, row_cell_text
from .table_rows import Row, rows_of
from .values import MAX_NAME_CHARS, is_nothing, short_value

OTHER_TASKS = "another name of the tasks: --map task=…"
MIN_SHARED = 2
"""Fewest values in common of such a column."""
MIN_OVERLAP = 0.5
"""Least share of an arm's values that stand in another arm, too."""
MIN_VARIETY = 0.1
"""Fewest values of an arm, as a share of its rows: fewer name kinds of tasks, not tasks."""

_RowsOfArms = list[tuple[str, Row]]


def task_column_hint(paths: Sequence[Path | GivenRows], request: ImportRequest) -> str:
    """Return what names the tasks otherwise, for tables that were read and whose arms have no task in common."""
    names, rows = list[str](), _RowsOfArms()
    for number, path in enumerate(paths):
        free, rows_of_file = _table_of(path, request, number)
        names = free if not number else [name for name in names if name in free]
        rows += rows_of_file
    arms = Counter(arm for arm, _ in rows)
    shared = {name: _shared(name, rows, arms) for name in names}
    best = max(shared, key=lambda name: shared[name], default="")
    if not best or shared[best] < MIN_SHARED:
        return OTHER_TASKS
    typed = shlex.quote(f"task={best}")
    return f"column {short_value(best)} has {shared[best]} values that stand in several arms; if it names the tasks: --map {typed}"


def _table_of(path: Path | GivenRows, request: ImportRequest, number: int) -> tuple[list[str], _RowsOfArms]:
    """Return the columns of a table that may name its tasks, and its rows, each with its arm. `number`: the file's."""
    with open_file(path) as file:
        names, rows = with_places(*rows_of(file, request.reading), request.reading)
        columns = columns_of(names, request.reading)
        whole = request.arms[number] if request.arms else file.path.stem
    used = {column for meaning, column in columns.items() if meaning != "asked"}
    free = [
        name
        for name in names
        if can_be_typed(name) and name not in used and not numbers_repeats(name) and not is_measured(name, rows)
    ]
    by_row = columns.get("arm") if not request.arms else None
    return free, [(whole if by_row is None else row_cell_text(row, by_row), row) for row in rows]


def _shared(name: str, rows: _RowsOfArms, arms: Counter[str]) -> int:
    """Return how many values a column has in several arms; 0 if it names no tasks."""
    values: dict[str, dict[str, None]] = {arm: {} for arm in arms}
    for arm, value in _filled(name, rows):
        if len(value) > MAX_NAME_CHARS:
            return 0
        values[arm][value] = None
    if any(len(distinct) < MIN_VARIETY * arms[arm] or _counts_rows(list(distinct)) for arm, distinct in values.items()):
        return 0
    standing = Counter(value for distinct in values.values() for value in distinct)
    shared = {value for value, number in standing.items() if number > 1}
    is_in_all = all(len(distinct.keys() & shared) >= MIN_OVERLAP * len(distinct) for distinct in values.values())
    return len(shared) if is_in_all else 0


def _filled(name: str, rows: _RowsOfArms) -> Iterator[tuple[str, str]]:
    return ((arm, row_cell_text(row, name)) for arm, row in rows if not is_nothing(row.cells.get(name)))


def _counts_rows(values: Sequence[str]) -> bool:
    """Tell whether values are the numbers of rows in turn, from 0 or 1 on, as an index that pandas writes."""
    return any(list(values) == [str(first + number) for number in range(len(values))] for first in (0, 1))
