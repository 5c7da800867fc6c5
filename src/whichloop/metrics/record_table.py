"""Records that fit, in some order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from .record import Record


def alike(records: Iterable[Record]) -> Iterable[Record]:
    return records


def distinct(records: Iterable[Record]) -> Iterable[Record]:
    return records


def where(records: Iterable[Record], fits: Callable[[Record], bool]) -> list[Record]:
    """Return the records that fit."""
    return [record for record in records if fits(record)]


def of_tasks(records: Sequence[Record], tasks: Collection[str]) -> list[Record]:
    """Return the records of these tasks."""
    return where(records, lambda record: record.task in tasks)


def by_key(records: Sequence[Record]) -> list[Record]:
    """Return the records in the order of arm, task and repeat."""
    return sorted(records, key=lambda record: record.key)
