"""The journal of a run: one line per trial, its trace before it. Append-only; what was written survives a kill at any moment.

manifest.json   configuration, versions, digests, seed
trials.jsonl    one record per trial; of several for one trial the last counts
trials.index    the records of a large run once more, quick to read: see `index.py`
traces.zst      compressed traces, see `traces.py`; a record holds where its own stands
run.lock        held while a process writes
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from threading import Condition, Thread
from types import TracebackType
from typing import Self
from zlib import crc32

import orjson
import zstandard

from whichloop.metrics.record import Record
from whichloop.protocol.digest import open_line
from whichloop.protocol.files import each_line
from whichloop.protocol.json_text import load_json

from .files import TRACES, TRIALS, RunError, acquire_lock, append_whole, open_repaired, own_file
from .index import BLOCK_ROWS, INDEX, LENGTHS, MAGIC, MAX_KINDS, ROW, BlockHeader, blocks_of, prefix_hash
from .record_lines import UNTRACED, parted
from .seal import break_seal, tally_of, write_seal
from .traces import MAX_TEXT, TracePolicy, TraceWriter

_NOTHING = BlockHeader(begin=0, end=0, first=0, lines=0, digest="", checksum="", base=0, repeats=(0, 0))
_LEVEL = 3
"""Level of compression."""


class IndexWriter:
    """Takes in the lines of a run as they are written. What fails here costs the index, never the run."""

    def __init__(self, folder: Path, checksum: str) -> None:
        """`checksum`: of all lines that there are, without their own, as a seal has it."""
        self._folder = folder
        self._is_off = False
        self._last = _NOTHING
        """Of the block written last."""
        self._hash = blake2b(digest_size=16)
        self._end = self._lines = 0
        self._codes: dict[bytes, int] = {}
        self._base = 0
        self._kinds: list[bytes] = []
        """Whole lines of those that no block names."""
        self._rows: list[tuple[float, ...]] = []
        with self._giving_up():
            self._go_on(checksum)

    def add(self, line: bytes) -> None:
        """Take in a line that is on the disk, with its checksum."""
        if self._is_off:
            return
        with self._giving_up():
            self._add(line)

    def flush(self, checksum: str, *, whole_blocks: bool = True) -> None:
        """Write a block of what was taken in; with `whole_blocks` if that is enough for one, else if there is an index."""
        is_due = len(self._rows) >= BLOCK_ROWS if whole_blocks else self._rows and self._last.end
        if is_due and not self._is_off:
            with self._giving_up():
                self._write(checksum)

    def _go_on(self, checksum: str) -> None:
        """Take in the lines that the index lacks, after a kill or of an older run. One that is of another file is begun anew."""
        path, index = self._folder / TRIALS, self._folder / INDEX
        sizes = [LENGTHS.size + sum(map(len, block.parts)) for block in blocks_of(self._folder)]
        *_, last = (_NOTHING, *(block.header for block in blocks_of(self._folder)))
        hasher = prefix_hash(path, last.end)
        if last.end <= path.stat().st_size and hasher.hexdigest() == last.digest:
            self._last, self._hash = last, hasher
            os.truncate(index, sum(sizes))  # a block that a kill has torn
        else:
            index.unlink(missing_ok=True)
        self._end, self._lines = self._last.end, self._last.lines
        for line in each_line(path, self._end):
            self._add(line)
            if len(self._rows) >= BLOCK_ROWS:
                self._write("")
        if self._last.end and (self._rows or not self._last.checksum):
            self._write(checksum)

    def _add(self, line: bytes) -> None:
        self._hash.update(line)
        self._end += len(line)
        self._lines += 1
        body = line.rpartition(b',"checksum":')[0] + b"}\n"
        parts = parted(body)
        common, own = (body, (int(load_json(body)["repeat"]), 0, 0.0, 0.0, 0, *UNTRACED)) if parts is None else parts
        kind = self._codes.get(common)
        if kind is None:
            kind = self._codes[common] = self._base + len(self._kinds)
            self._kinds.append(body)
        self._rows.append((kind, *own, len(line)))

    def _write(self, checksum: str) -> None:
        repeats = [int(row[1]) for row in self._rows] or [0]
        header = BlockHeader(
            begin=self._last.end,
            end=self._end,
            first=self._last.lines,
            lines=self._lines,
            digest=self._hash.hexdigest(),
            checksum=checksum,
            base=self._base,
            repeats=(min(repeats), max(repeats)),
        )
        compressor = zstandard.ZstdCompressor(level=_LEVEL)
        parts = (
            orjson.dumps(asdict(header)),
            compressor.compress(b"".join(self._kinds)),
            compressor.compress(b"".join(ROW.pack(*row) for row in self._rows)),
        )
        data = b"".join(parts)
        with own_file(self._folder / INDEX, os.O_CREAT) as file:
            append_whole(file, LENGTHS.pack(MAGIC, *map(len, parts), crc32(data)) + data, self._folder / INDEX, durable=False)
        self._last = header
        self._base += len(self._kinds)
        self._kinds, self._rows = [], []
        if self._base > MAX_KINDS:
            self._codes, self._base = {}, 0

    @contextlib.contextmanager
    def _giving_up(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, RunError, struct.error):
            self._is_off = True
            self._codes, self._kinds, self._rows = {}, [], []
            with contextlib.suppress(OSError):
                (self._folder / INDEX).unlink(missing_ok=True)


MAX_UNSYNCED = 256
"""Maximum number of finished trials that wait for the disk; after a kill they run again."""
MAX_UNSYNCED_S = 1.0
BATCH = 64
"""Finished trials that start a write."""
BATCH_S = MAX_UNSYNCED_S / 2
"""Seconds that fewer trials wait for others before they are written; the rest of the time is for the disk."""


@dataclass(frozen=True, slots=True)
class _Finished:
    record: Record
    trace: bytes
    """Empty if the trace is not kept."""


class Journal:
    """Appends finished trials to a run directory. One process at a time: a second one gets RunError.

    A thread of its own encodes, compresses and writes: whoever appends waits only where the disk falls behind. After a write that
    failed every call raises what it failed with; the run can be resumed.
    """

    def __init__(self, folder: Path, policy: TracePolicy | None = None) -> None:
        self.folder = folder
        self._policy = policy or TracePolicy()
        with ExitStack() as opened:
            self._lock = opened.enter_context(acquire_lock(folder))
            self._tally = tally_of(folder)
            """Of the lines on the disk."""
            break_seal(folder)
            self._trials = opened.enter_context(open_repaired(folder / TRIALS))
            self._traces = TraceWriter(folder / TRACES, self._tally.traces)
            opened.callback(self._traces.close)
            self._index = IndexWriter(folder, self._tally.checksum)
            opened.pop_all()  # nothing failed: `close` closes them
        self._changed = Condition()
        """Guards all fields below."""
        self._pending: list[_Finished] = []
        self._writing = 0
        """Number of finished trials on their way to the disk."""
        self._since = 0.0
        """Time at which the first pending trial came."""
        self._is_hurried = False
        self._closing = False
        self._failure: BaseException | None = None
        self._writer = Thread(target=self._write_on, name=f"journal of {folder}", daemon=True)
        self._writer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def append(self, record: Record, trace: bytes) -> None:
        """Append a finished trial, which reaches the disk in about a second. Waits while too many are pending. Raises RunError."""
        is_kept = 0 < len(trace) <= MAX_TEXT and self._policy.keeps(record)
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or self._unsynced < MAX_UNSYNCED)
            self._check()
            if self._closing:
                raise RunError(f"{self.folder}: a trial has ended after its journal was closed")
            if not self._pending:
                self._since = time.monotonic()
            self._pending.append(_Finished(record, trace if is_kept else b""))
            if len(self._pending) in (1, BATCH):
                self._changed.notify_all()

    def sync(self) -> None:
        """Wait until everything appended is on the disk. Raises RunError."""
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._failure is not None or self._unsynced == 0)
            self._is_hurried = False
            self._check()

    def close(self) -> None:
        """Write what is pending, seal the files, and let another process write. Raises RunError."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._writer.join()
        with self._lock:
            with ExitStack() as files:
                files.callback(self._traces.close)
                files.enter_context(self._trials)
            self._check()
            self._index.flush(self._tally.checksum, whole_blocks=False)
            write_seal(self.folder, self._tally.seal())

    @property
    def _unsynced(self) -> int:
        return len(self._pending) + self._writing

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    # --- in the writer's thread ---

    def _write_on(self) -> None:
        try:
            while batch := self._next():
                places = iter(self._traces.append([item.trace for item in batch if item.trace]))
                lines = [item.record.line(next(places) if item.trace else item.record.trace_at) for item in batch]
                append_whole(self._trials, b"".join(lines), self.folder / TRIALS)
                for line in lines:
                    self._tally.add(open_line(line))
                    self._index.add(line)
                self._index.flush(self._tally.checksum)
        except BaseException as error:  # whoever appends is told
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _next(self) -> Sequence[_Finished]:
        """Wait for the next trials to write; return none at the end."""
        with self._changed:
            self._writing = 0
            self._changed.notify_all()
            while not self._is_due():
                self._changed.wait(self._since + BATCH_S - time.monotonic() if self._pending else None)
            batch, self._pending = self._pending, []
            self._writing = len(batch)
            return batch

    def _is_due(self) -> bool:
        if not self._pending:
            return self._closing
        many = len(self._pending) >= BATCH or self._is_hurried or self._closing
        return many or time.monotonic() >= self._since + BATCH_S
