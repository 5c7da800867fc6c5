"""Lines of `trials.jsonl` as a table of records. Of lines that differ only in a trial's own numbers, one is read as JSON."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loopbench.metrics.record import Record, Shared
from loopbench.metrics.record_table import ROW, UNTRACED, Places, RecordStore, RecordTable, kind_of
from loopbench.runs.store.each_record import record_of

_NUMBER = rb"-?\d{1,15}\.\d{1,40}(?:e-\d\d)?"
_REPEAT = b',"repeat":'
_FIRST = re.compile(rb'(\d{1,9}),"seed":(-?\d{1,18}),')
_WALL = b',"wall_s":'
_LAST = re.compile(
    rb'(%b)(,"simulated_s":%b),"started_at":(%b),"attempt":(\d{1,9}),'
    rb'"trace_at":(?:null|\[(\d{1,18}),(\d{1,18}),(\d{1,18}),(\d{1,18}),(\d{1,18})\])(,"unknown":.*)' % ((_NUMBER,) * 3),
    re.DOTALL,
)
"""What follows `_WALL` in a line as a journal writes it. The quotes in both are those of JSON, because a text's are escaped."""
_CHUNK = 65_536
"""Rows that are packed into an array at a time."""


class RecordReader:
    """Takes in lines one by one, and gives their table."""

    def __init__(self) -> None:
        self.kinds: list[Record] = []
        self._codes: dict[bytes, int] = {}
        """A line without what is the trial's own → its kind."""
        self._whole: set[int] = set()
        self._packed: list[np.ndarray[tuple[int], np.dtype[np.void]]] = []
        self._rows: list[tuple[object, ...]] = []
        self._shared = Shared()

    def add(self, line: bytes, path: Path, number: int) -> None:
        """Take in a line without its checksum. Raises RunError, which names file and line, for what is not a record."""
        head, _, rest = line.partition(_REPEAT)
        first, (body, _, end) = _FIRST.match(rest), rest.rpartition(_WALL)
        last = _LAST.fullmatch(end)
        if first is None or last is None:
            self._add_whole(record_of(line, f"{path}:{number}", self._shared))
            return
        own = last.groups()
        common = b"\n".join((head, body[first.end() :], own[1], own[9]))
        kind = self._codes.get(common)
        if kind is None:
            kind = self._codes[common] = len(self.kinds)
            self.kinds.append(kind_of(record_of(line, f"{path}:{number}", self._shared)))
        at = UNTRACED if own[4] is None else tuple(map(int, own[4:9]))
        self._put((kind, int(first[1]), int(first[2]), float(own[0]), float(own[2]), int(own[3]), at))

    def _add_whole(self, record: Record) -> None:
        self._whole.add(len(self.kinds))
        own = float(record.wall_s), float(record.started_at), record.attempt, record.trace_at or UNTRACED
        self._put((len(self.kinds), record.repeat, 0, *own))
        self.kinds.append(record)

    def _put(self, row: tuple[object, ...]) -> None:
        self._rows.append(row)
        if len(self._rows) == _CHUNK:
            self._pack()

    def _pack(self) -> None:
        self._packed.append(np.array(self._rows, dtype=ROW))
        self._rows = []

    def store(self) -> RecordStore:
        """Return all rows that were taken in."""
        self._pack()
        rows = np.concatenate(self._packed)
        self._packed = [rows]
        return RecordStore(self.kinds, rows, frozenset(self._whole))


def by_trial(store: RecordStore) -> tuple[Places, NDArray[np.bool_]]:
    """Return the rows sorted by trial, those of one in the order of the file, and which of them are the first of theirs."""
    cells: dict[tuple[str, str], int] = {}
    cell_of = np.array([cells.setdefault((kind.arm, kind.task), len(cells)) for kind in store.kinds], dtype=np.int64)
    cell, repeat = cell_of[store.rows["kind"]], store.rows["repeat"]
    order = np.lexsort((repeat, cell))  # a stable sort
    differs = (np.diff(cell[order]) != 0) | (np.diff(repeat[order]) != 0)
    return order, np.concatenate((np.ones(min(len(repeat), 1), dtype=np.bool_), differs))


def latest(store: RecordStore) -> RecordTable:
    """Return the last record of each trial, in the order in which trials first ended."""
    order, begins = by_trial(store)
    first, last = order[begins], order[np.roll(begins, -1)]
    return RecordTable(store, last[np.argsort(first)])
