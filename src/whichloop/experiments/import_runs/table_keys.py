"""Keys of a table's trials: arm, task and repeat of each row, the repeats numbered from 0."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .foreign_trials import TrialKey
from .table_rows import Row
from .values import located, name_of, names_in_a_line, short_value


def trial_keys(rows: Iterable[Row], default_arm: str, cure: str) -> list[TrialKey]:
    """Return each row's arm, task and repeat. Repeats are 0-based: in the order of their column, or counted if there is none.

    If all tasks have the same repeats, equal names are equal numbers, whatever they begin with: 0, 1, or seeds. `cure`: what to do
    about two rows of one repeat.
    """
    cells: dict[tuple[str, str], dict[str, str]] = {}
    named: list[tuple[str, str, str]] = []
    for row in rows:
        with located(row.place):
            cell = (arm_of(row, default_arm), name_of(row.cells["task"], "the task"))
            lines = cells.setdefault(cell, {})
            name = name_of(_integral(row.cells["repeat"]), "the repeat") if "repeat" in row.cells else str(len(lines))
            if name in lines:
                raise ValueError(f"arm, task and repeat {short_value(name)} are in {lines[name]} already; {cure}")
            lines[name] = row.place
            named.append((*cell, name))
    everywhere = _numbered({name for lines in cells.values() for name in lines})
    if len(everywhere) == max(map(len, cells.values()), default=0):
        return [(arm, task, everywhere[name]) for arm, task, name in named]
    within = {cell: _numbered(lines) for cell, lines in cells.items()}
    return [(arm, task, within[arm, task][name]) for arm, task, name in named]


def arm_of(row: Row, default: str) -> str:
    """Return the arm that a row names, or the default."""
    return name_of(row.cells["arm"], "the arm") if "arm" in row.cells else default


def renumbered(rows: Sequence[Row], keys: Sequence[TrialKey]) -> Iterator[str]:
    """Yield which repeat is shown as which number, where the column of the repeat has other names, such as seeds."""
    numbers: dict[str, set[int]] = {}
    for row, (_, _, repeat) in zip(rows, keys, strict=True):
        if "repeat" in row.cells:
            numbers.setdefault(name_of(_integral(row.cells["repeat"]), "the repeat"), set()).add(repeat)
    if not len(numbers) == sum(map(len, numbers.values())) == len(set().union(*numbers.values())):
        yield "repeats are numbered from 0 within each arm and task, in the order of their column"
    elif any(_order(name)[:2] != (0, *shown_as) for name, shown_as in numbers.items()):
        ordered = names_in_a_line(sorted(numbers, key=_order))
        yield f"repeat {ordered} is shown as 0" if len(numbers) == 1 else f"repeats {ordered} are shown as 0 to {len(numbers) - 1}"


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Number names: those that are numbers by size, then words."""
    return {name: number for number, name in enumerate(sorted(names, key=_order))}


def _integral(value: Any) -> Any:
    """Return 1 for 1.0, the form that data frames write for integers in a column with gaps."""
    text = str(value).strip()
    return text.removesuffix(".0") if re.fullmatch(r"\d{1,9}\.0", text) else value


def _order(name: str) -> tuple[int, int, str]:
    """Return what a repeat's name is sorted by."""
    return (0, int(name), "") if re.fullmatch(r"\d{1,15}", name, re.ASCII) else (1, 0, name)
