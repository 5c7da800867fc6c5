"""The journal of a run: one line per trial, its trace before it. Append-only; what was written survives a kill at any moment.

manifest.json   configuration, versions, digests, seed
trials.jsonl    one record per trial; of several for one trial the last counts
trials.index    the records of a large run once more, quick to read: see `index.py`
traces.zst      compressed traces, see `traces.py`; a record holds where its own stands
run.lock        held while a process writes
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Thread
from types import TracebackType
from typing import Self

from whichloop.metrics.record import Record
from whichloop.protocol.digest import open_line
from whichloop.runs.store.lock import acquire_lock

from .files import TRACES, TRIALS, RunError, append_whole, open_repaired
from .index_writer import IndexWriter
from .seal import break_seal, tally_of, write_seal
from .traces import MAX_TEXT, TracePolicy, TraceWriter

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
