"""What is told of a table without a column that numbers the repeats: its rows are counted, and some may be copies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from .pooled import rows_of_tasks
from .table_rows import Row
from .values import names_in_a_line
from .written_numbers import WHOLE

MAX_COPIES = 3
"""Most copies that are told with their places."""
_AMOUNTS = (*WHOLE, "cost_usd", "seconds")


def repeats_counted(rows: Sequence[Row], columns: Mapping[str, str]) -> Iterator[str]:
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


def copies_told(rows: Sequence[Row], columns: Mapping[str, str]) -> Iterator[str]:
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


def _copies(group: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Yield each row of a task that is equal to an earlier one, with that one."""
    first: dict[str, Row] = {}
    for row in group if len(group) > 1 else ():
        earlier = first.setdefault(json.dumps(row.cells, sort_keys=True, default=str), row)
        if earlier is not row:
            yield row, earlier
