"""A run's tasks in two halves: one that a profile is fitted to, and one that is held out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from whichloop.metrics.record import Record


class Halves(NamedTuple):
    """Ids of tasks, sorted."""

    fitted: tuple[str, ...]
    held_out: tuple[str, ...]


def clusters_of(records: Iterable[Record]) -> dict[str, str]:
    """Return task → the unit that it belongs to: its cluster, or itself. Of the records nothing else is looked at."""
    return {record.task: record.cluster or record.task for record in records}


def halves(units: Mapping[str, str], seed: int) -> Halves:
    """Split tasks in halves, by their names and the seed alone; tasks of one unit stay together.

    `units`: task → unit. Raises ValueError for fewer than two units.
    """
    ordered = sorted(set(units.values()), key=lambda unit: hashlib.sha256(f"{seed}/{unit}".encode("utf-8", "replace")).digest())
    if len(ordered) < 2:
        raise ValueError("a run needs two independent tasks or more to be split in halves")
    first = set(ordered[: len(ordered) // 2])
    return Halves(
        tuple(sorted(task for task, unit in units.items() if unit in first)),
        tuple(sorted(task for task, unit in units.items() if unit not in first)),
    )
