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
        self._changed: dict[str, dict[str, Record]] = {table: {} for table in tables}

    def get(self, table: str, key: str) -> Record:
        """Return a record to read. Raises NotFound."""
        if isinstance(key, str):
            for records in (self._changed[table], self._tables[table]):
                if key in records:
                    return records[key]
        raise NotFound(f"There is no {table.removesuffix('s')} {key!r}")

    def edit(self, table: str, key: str) -> Record:
        """Return a record to change, the trial's own copy. Raises NotFound."""
        changed = self._changed[table]
        if key not in changed:
            changed[key] = copy.deepcopy(self.get(table, key))
        return changed[key]

    def add(self, table: str, key: str, record: Record) -> None:
        """Add a record."""
        self._changed[table][key] = record

    def each(self, table: str) -> Iterator[Record]:
        """Yield the records of a table, those that were added last."""
        changed, shared = self._changed[table], self._tables[table]
        yield from (changed.get(key, record) for key, record in shared.items())
        yield from (record for key, record in changed.items() if key not in shared)

    def changes(self) -> dict[str, dict[str, Record]]:
        """Return a copy of the records that are not as they were in the beginning, by table and id; both sorted."""
        by_table = {
            table: {key: copy.deepcopy(changed[key]) for key in sorted(changed) if changed[key] != self._tables[table].get(key)}
            for table, changed in sorted(self._changed.items())
        }
        return {table: records for table, records in by_table.items() if records}
