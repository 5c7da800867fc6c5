"""Trials of several agents that a table would silently pool as one arm: which column tells them apart."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .table_rows import FileRow
from .values import is_nothing, names_in_a_line, short_value
from .written_numbers import WHOLE

MAX_VALUES = 64
"""Most values of a column that names arms."""
ALIKE = 0.8
"""Share of the tasks with several rows in which a column has each of its values equally often, if it names arms."""
MAX_NAMED = 4
"""Values of a column that are named."""
_NAMES_ARMS = frozenset(
    [
        "agent",
        "agents",
        "approach",
        "arm",
        "config",
        "configuration",
        "design",
        "experiment",
        "framework",
        "harness",
        "loop",
        "method",
        "model",
        "pipeline",
        "policy",
        "provider",
        "prompt",
        "revision",
        "setup",
        "solver",
        "strategy",
        "system",
        "treatment",
        "variant",
        "version",
    ]
)
_LABELS = frozenset(["id", "label", "name", "tag", "type", "version"])
_NAMES_REPEATS = frozenset(
    ["attempt", "index", "n", "no", "number", "rep", "repetition", "replica", "rollout", "round", "seed", "try"]
)
"""Words of columns that tell repeats apart, besides those that are read as repeats."""


@dataclass(frozen=True, slots=True)
class PooledBy:
    """A column that tells trials apart which count as repeats of one arm."""

    column: str
    values: tuple[str, ...]

    @property
    def cure(self) -> str:
        """What makes its values arms, as it is typed."""
        text = f"arm={self.column}"
        return f"--map {shlex.quote(text)}"

    def note(self, pooled_as: str, *, kind: str = "column") -> str:
        """Return what the user is told. `pooled_as`: what the trials count as. `kind`: what tells them apart."""
        several = f"{len(self.values)} kinds of trials apart ({names_in_a_line(self.values, MAX_NAMED)})"
        return f"{kind} {short_value(self.column)} tells {several}, which are pooled {pooled_as}; to compare them: {self.cure}"


def pooled_by(names: Sequence[str], rows: Sequence[FileRow], columns: Mapping[str, str]) -> PooledBy | None:
    """Return the column that is likely to name arms, though no arm is made of it; None where there is none.

    Such a column has each of its values equally often in rows of one arm, task and repeat, or is named as agents, models or
    versions are and has several values within an arm and task, or within an arm whose tasks have no second row. `columns`:
    meaning → column, as the table is read.
    """
    repeated, doubled = (_several(rows, [columns.get(meaning) for meaning in key]) for key in (_TASK, (*_TASK, "repeat")))
    used = {column for meaning, column in columns.items() if meaning != "model"} | {columns.get("arm", "")}
    free = [name for name in names if can_be_typed(name) and name not in used]
    for name in sorted(free, key=lambda name: not _is_named_so(name)):  # stable: the table's order otherwise
        named = _is_named_so(name)
        values = _values(rows, name) if named or doubled else ()
        if len(values) > 1 and (_splits(doubled, name, values) or (named and _varies(rows, repeated, name, columns.get("arm")))):
            return PooledBy(name, values)
    return None


def can_be_typed(name: str) -> bool:
    """Tell whether `--map` takes a column's name as it is, without quotes of its own."""
    return bool(name) and name.isprintable() and not set(name) & set("',\"")


def numbers_repeats(name: str) -> bool:
    """Tell whether a column is called as what tells repeats apart: `seed`, `Run no`."""
    return _words(name)[-1] in _NAMES_REPEATS


def row_cell_text(row: FileRow, name: str) -> str:
    """Return a cell as a text on one line."""
    return " ".join(str(row.cells.get(name)).split())


def rows_of_tasks(rows: Sequence[FileRow], columns: Mapping[str, str]) -> list[list[FileRow]]:
    """Return the rows of each task of an arm."""
    return _groups(rows, [columns.get(meaning) for meaning in _TASK])


def repeated_tasks(rows: Sequence[FileRow], columns: Mapping[str, str]) -> int:
    """Return how many tasks have several rows of an arm."""
    return len(_several(rows, [columns.get(meaning) for meaning in _TASK]))


_TASK = ("arm", "task")


def _several(rows: Sequence[FileRow], key: Sequence[str | None]) -> list[list[FileRow]]:
    """Return the groups of several rows with the same cells in these columns."""
    return [group for group in _groups(rows, key) if len(group) > 1]


def _groups(rows: Sequence[FileRow], key: Sequence[str | None]) -> list[list[FileRow]]:
    """Return the rows with the same cells in these columns; None stands for one that the table does not have."""
    groups: dict[tuple[str, ...], list[FileRow]] = {}
    for row in rows:
        groups.setdefault(tuple("" if name is None else row_cell_text(row, name) for name in key), []).append(row)
    return list(groups.values())


def _splits(doubled: Sequence[Sequence[FileRow]], name: str, values: Sequence[str]) -> bool:
    """Tell whether nearly all these groups of rows have each of these values equally often."""
    if not doubled or numbers_repeats(name):
        return False
    unlike, wanted = 0, set(values)
    for group in doubled:
        counts = Counter(row_cell_text(row, name) for row in group)
        unlike += counts.keys() != wanted or len(set(counts.values())) > 1
        if unlike > (1 - ALIKE) * len(doubled):
            return False
    return True


def _varies(rows: Sequence[FileRow], repeated: Sequence[Sequence[FileRow]], name: str, arm: str | None) -> bool:
    """Tell whether a column has several values within half of the tasks with several rows; without such tasks, within an arm."""
    if repeated:
        return 2 * sum(len({row_cell_text(row, name) for row in group}) > 1 for group in repeated) >= len(repeated)
    within: dict[str, set[str]] = {}
    for row in rows:
        within.setdefault("" if arm is None else row_cell_text(row, arm), set()).add(row_cell_text(row, name))
    return any(len(values) > 1 for values in within.values())


def _values(rows: Sequence[FileRow], name: str) -> tuple[str, ...]:
    """Return the values of a column, sorted; none where they are too many to be arms, or nearly each row has its own."""
    most, values = min(MAX_VALUES, max(len(rows) // 2, 2)), set[str]()
    for value in (row_cell_text(row, name) for row in rows if not is_nothing(row.cells.get(name))):
        values.add(value)
        if len(values) > most:
            return ()
    return tuple(sorted(values))


def _is_named_so(name: str) -> bool:
    """Tell whether a column is called as what names an agent: `agent`, `Agent version`, `model-id`, `extra.model_id`."""
    words = _words(name)
    return words[-1] in _NAMES_ARMS or (words[-1] in _LABELS and bool({words[0], *words[-2:-1]} & _NAMES_ARMS))


def _words(name: str) -> list[str]:
    return re.sub(r"[-_./\s]+", " ", name.lower()).split() or [name]


MAX_COPIES = 3
"""Most copies that are told with their places."""
_AMOUNTS = (*WHOLE, "cost_usd", "seconds")


def repeats_counted(rows: Sequence[FileRow], columns: Mapping[str, str]) -> Iterator[str]:
    """Yield how many rows the tasks have, which count as their repeats; nothing where each has one. `columns`: as they are read."""
    groups = rows_of_tasks(rows, columns)
    most, fewest = max(map(len, groups), default=0), min(map(len, groups), default=0)
    if most < 2:
        return
    several = sum(len(group) > 1 for group in groups)
    counting = (
        f"no column numbers the repeats, so that the rows of {'an arm and task' if 'arm' in columns else 'a task'} are counted"
    )
    if most == fewest:
        yield f"{counting}: each task has {most}"
    else:
        yield f"{counting}: {several:,} of {len(groups):,} {'has' if several == 1 else 'have'} several, at most {most}"


def copies_told(rows: Sequence[FileRow], columns: Mapping[str, str]) -> Iterator[str]:
    """Yield which rows that count as repeats are equal to an earlier one in every column.

    Nothing where rows have no amounts, such as costs or seconds: then repeats are often equal.
    """
    if not set(_AMOUNTS) & columns.keys():
        return
    copies = [copy for group in rows_of_tasks(rows, columns) for copy in _copies(group)]
    if not copies:
        return
    places = names_in_a_line([f"{copy.place} to {first.place}" for copy, first in copies], MAX_COPIES)
    if len(copies) == 1:
        yield f"1 row is equal to an earlier one in every column ({places}), and counts as a repeat: remove it if it is a copy"
    else:
        equal = f"{len(copies):,} rows are equal to an earlier one in every column ({places})"
        yield f"{equal}, and count as repeats: remove them if they are copies"


def _copies(group: Sequence[FileRow]) -> Iterator[tuple[FileRow, FileRow]]:
    """Yield each row of a task that is equal to an earlier one, with that one."""
    first: dict[str, FileRow] = {}
    for row in group if len(group) > 1 else ():
        earlier = first.setdefault(json.dumps(row.cells, sort_keys=True, default=str), row)
        if earlier is not row:
            yield row, earlier
