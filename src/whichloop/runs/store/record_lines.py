"""Lines of `trials.jsonl` as a table of records. Of lines that differ only in a trial's own numbers, one is read as JSON."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from whichloop.metrics.record import Record, Shared
from whichloop.metrics.record_table import ROW, Places, RecordStore, RecordTable, shared_fields

from .each_record import record_of
from .index import INDEX, IndexBlock

OwnFields = tuple[int, int, float, float, int, int, int, int, int, int]
"""Repeat, seed, wall_s, started_at, attempt, and the five numbers of `trace_at`."""
UNTRACED = (-1, 0, 0, 0, 0)
"""In the place of `trace_at` where there is no trace."""

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


def parted(line: bytes) -> tuple[bytes, OwnFields] | None:
    """Return both parts of a line without its checksum; None for one that does not look as a journal writes it."""
    head, _, rest = line.partition(_REPEAT)
    first, (body, _, end) = _FIRST.match(rest), rest.rpartition(_WALL)
    last = _LAST.fullmatch(end)
    if first is None or last is None:
        return None
    wall_s, simulated_s, started_at, attempt, *place, behind = last.groups()
    common = b"\n".join((head, body[first.end() :], simulated_s, behind))
    at = UNTRACED if place[0] is None else map(int, place)
    return common, (int(first[1]), int(first[2]), float(wall_s), float(started_at), int(attempt), *at)


_PLACE = ("offset", "size", "begin", "text", "crc")
"""The numbers of `trace_at` in a row of the index."""
_OWN_TYPES = {"repeat": "<i8", "seed": "<i8", "wall_s": "<f8", "started_at": "<f8", "attempt": "<i8"}
_INDEXED = np.dtype([("kind", "<u4"), *_OWN_TYPES.items(), *((name, "<i8") for name in _PLACE), ("length", "<u4")])
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
        self._block_kinds: list[int] = []
        """What the kinds of the index are here."""

    def add(self, line: bytes, path: Path, number: int) -> None:
        """Take in a line without its checksum. Raises RunError, which names file and line, for what is not a record."""
        parts = parted(line)
        if parts is None:
            self._add_whole(record_of(line, f"{path}:{number}", self._shared))
            return
        common, (repeat, seed, wall_s, started_at, attempt, *at) = parts
        kind = self._codes.get(common)
        if kind is None:
            kind = self._codes[common] = len(self.kinds)
            self.kinds.append(shared_fields(record_of(line, f"{path}:{number}", self._shared)))
        self._put((kind, repeat, seed, wall_s, started_at, attempt, at))

    def add_block(self, block: IndexBlock) -> None:
        """Take in the lines that a block of the index is about.

        Raises ValueError, IndexError, ZstdError and RunError for a block that does not fit; nothing may be read of it then.
        """
        header = block.header
        self._block_kinds[header.base :] = [self._code_of(line) for line in block.kinds()]
        indexed = np.frombuffer(block.rows(), dtype=_INDEXED)
        if len(indexed) != header.lines - header.first or indexed["length"].sum() != header.end - header.begin:
            raise ValueError("a block has rows for other lines")
        rows = np.empty(len(indexed), dtype=ROW)
        rows["trace_at"] = np.stack([indexed[name] for name in _PLACE], axis=-1)
        for name in ("repeat", "seed", "wall_s", "started_at", "attempt"):
            rows[name] = indexed[name]
        rows["kind"] = np.array(self._block_kinds, dtype=np.uint32)[indexed["kind"]]
        for code in self._whole.intersection(rows["kind"].tolist()):
            rows[rows["kind"] == code] = _whole_row(code, self.kinds[code])
        self._pack()
        self._packed.append(rows)

    def _code_of(self, line: bytes) -> int:
        """Return the kind of a line that stands for all lines of it."""
        parts = parted(line)
        code = None if parts is None else self._codes.get(parts[0])
        if code is not None:
            return code
        record = record_of(line, INDEX, self._shared)
        if parts is None:
            self._whole.add(len(self.kinds))
        else:
            self._codes[parts[0]] = len(self.kinds)
        self.kinds.append(record if parts is None else shared_fields(record))
        return len(self.kinds) - 1

    def _add_whole(self, record: Record) -> None:
        self._whole.add(len(self.kinds))
        self._put(_whole_row(len(self.kinds), record))
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


def _whole_row(code: int, record: Record) -> tuple[object, ...]:
    own = float(record.wall_s), float(record.started_at), record.attempt, record.trace_at or UNTRACED
    return (code, record.repeat, 0, *own)


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
