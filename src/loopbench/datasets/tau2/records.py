"""A database that all trials share, and the records that one trial has changed: a trial costs what it changes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from .domain import NotFound

Record = dict[str, Any]
Tables = Mapping[str, Mapping[str, Record]]
"""Table → id → record, plain JSON. Nobody changes it."""


class TrialTables:
    """Tables as one trial sees them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._own: dict[str, dict[str, Record]] = {table: {} for table in tables}

    def get(self, table: str, key: str) -> Record:
        """Return a record to read. Raises NotFound."""
        if isinstance(key, str):
            for known in (self._own[table], self._tables[table]):
                if key in known:
                    return known[key]
        raise NotFound(f"There is no {table.removesuffix('s')} {key!r}")

    def edit(self, table: str, key: str) -> Record:
        """Return a record to change, the trial's own copy. Raises NotFound."""
        own = self._own[table]
        if key not in own:
            own[key] = copy.deepcopy(self.get(table, key))
        return own[key]

    def add(self, table: str, key: str, record: Record) -> None:
        """Add a record."""
        self._own[table][key] = record

    def each(self, table: str) -> Iterator[Record]:
        """Yield the records of a table, those that were added last."""
        own, shared = self._own[table], self._tables[table]
        yield from (own.get(key, record) for key, record in shared.items())
        yield from (record for key, record in own.items() if key not in shared)

    def changes(self) -> dict[str, dict[str, Record]]:
        """Return a copy of the records that are not as they were in the beginning, by table and id; both sorted."""
        found = {
            table: {key: copy.deepcopy(own[key]) for key in sorted(own) if own[key] != self._tables[table].get(key)}
            for table, own in sorted(self._own.items())
        }
        return {table: records for table, records in found.items() if records}
