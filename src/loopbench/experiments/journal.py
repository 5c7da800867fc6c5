"""The journal of a run: one line per trial, its trace before it. Append-only; what was written survives a kill at any moment.

manifest.json   configuration, versions, digests, seed
trials.jsonl    one record per trial; of several for one trial the last counts
traces.zst      compressed traces, see `traces.py`; a record holds where its own stands
run.lock        held while a process writes
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from threading import Condition, Thread
from types import TracebackType
from typing import Self

from loopbench.metrics.record import Record, Shared

from .run_files import MANIFEST, RunError, append_whole, new_file, open_repaired, own_file, read_manifest, write_manifest
from .traces import MAX_TEXT, TRACES, TracePolicy, TraceWriter, read_trace, referenced_end

__all__ = [
    "MANIFEST",
    "MAX_UNSYNCED",
    "MAX_UNSYNCED_S",
    "TRACES",
    "TRIALS",
    "Journal",
    "RunError",
    "append_whole",
    "each_record",
    "find_trial",
    "locked",
    "new_file",
    "one_of",
    "open_repaired",
    "read_manifest",
    "read_records",
    "read_trace",
    "write_manifest",
]

TRIALS = "trials.jsonl"
LOCK = "run.lock"

MAX_UNSYNCED = 256
"""Finished trials that may wait for the disk; after a kill they run again."""
MAX_UNSYNCED_S = 1.0
BATCH = 64
"""Finished trials after which writing begins, and"""
BATCH_S = MAX_UNSYNCED_S / 2
"""how long the first of fewer waits for others: what is left is for the disk."""


# --- reading ---


def read_records(folder: Path) -> list[Record]:
    """The records of a run, the last one of each trial, in the order in which trials first ended.

    A torn last line, left by a kill, is skipped. Raises RunError for any other line that is no record.
    """
    latest: dict[tuple[str, str, int], Record] = {}
    for record in each_record(folder):
        latest[record.key] = record
    return list(latest.values())


def each_record(folder: Path) -> Iterator[Record]:
    """Every line of a run as it was written, also those that a later one of the same trial replaces. Raises as `read_records`."""
    path = folder / TRIALS
    shared = Shared()
    for number, line in enumerate(_lines(path), 1):
        yield record_of(line, f"{path}:{number}", shared)


def _lines(path: Path) -> Iterator[bytes]:
    """The whole lines of a file; none where there is no file."""
    try:
        with path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    return  # torn by a kill
                yield line
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from None


def record_of(line: bytes, where: str, shared: Shared | None = None) -> Record:
    """One line of `trials.jsonl`. `where`: for the RunError that is raised where it is no record."""
    try:
        data = json.loads(line)
        record = Record.from_json(data if shared is None else shared.of(data))
        hash(record.key)  # TypeError where a name is a list
        return record
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        hint = "without this line the run is whole but for that trial, which `loopbench resume` runs again"
        raise RunError(f"{where}: no record of a trial: {type(error).__name__}: {error}; {hint}") from None


def find_trial(folder: Path, trial: str) -> Record:
    """The record of `ARM/TASK/REPEAT`, or a part of that as `one_of` takes it; of all other lines only names are read.

    Raises RunError where none or several match.
    """
    path = folder / TRIALS
    places: dict[str, tuple[int, int]] = {}
    start = 0
    for number, line in enumerate(_lines(path), 1):
        places[_name(line, f"{path}:{number}")] = (number, start)
        start += len(line)
    number, start = places[one_of(places, trial, folder)]
    with path.open("rb") as file:
        file.seek(start)
        return record_of(file.readline(), f"{path}:{number}")


def one_of(names: Collection[str], trial: str, folder: Path) -> str:
    """The name `ARM/TASK/REPEAT` that is meant: the repeat may be left out, and so may all but a unique end or a task's id.

    Raises RunError where none or several match.
    """
    if trial in names:
        return trial
    matching = [name for name in names if f"/{trial}/" in f"/{name}/"] or [name for name in names if trial in name]
    if len(matching) == 1:
        return matching[0]
    if not matching:
        raise RunError(f"{folder}: no trial {trial!r}; a trial is ARM/TASK/REPEAT, such as {next(iter(names), '(none)')}")
    shown = ", ".join(matching[:4]) + (", …" if len(matching) > 4 else "")
    raise RunError(f"{folder}: {trial!r} matches {len(matching)} trials: {shown}")


def _name(line: bytes, where: str) -> str:
    """ARM/TASK/REPEAT of a line, by its beginning where that is as a journal writes it."""
    found = _HEAD.match(line)
    if found is None:
        return record_of(line, where).name
    arm, task, repeat = found.groups()
    return f"{arm.decode()}/{task.decode()}/{int(repeat)}"


_TEXT = rb'"([ !#-\[\]-~]*)"'
"""In JSON, of ASCII without an escape."""
_HEAD = re.compile(
    rb'\{"arm": ?%b, ?"suite": ?"[^"\\]*", ?"suite_digest": ?"[^"\\]*", ?"task": ?%b, ?"repeat": ?(\d{1,9}),' % (_TEXT, _TEXT)
)


# --- the lock ---


def _lock(folder: Path) -> FileIO:
    """Held until it is closed. Raises RunError where another process holds it."""
    lock = own_file(folder / LOCK, os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise RunError(f"{folder}: another process is writing to this run") from None
    return lock


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """No other process writes to a run directory meanwhile. Raises RunError where one does."""
    with _lock(folder):
        yield


# --- writing ---


@dataclass(frozen=True, slots=True)
class _Finished:
    record: Record
    trace: bytes
    """Empty where none is to be kept."""


class Journal:
    """Appends finished trials to a run directory. One process at a time: a second one gets RunError.

    A thread of its own encodes, compresses and writes: whoever appends waits only where the disk falls behind. After a write that
    failed every call raises what it failed with; the run can be resumed.
    """

    def __init__(self, folder: Path, kept: TracePolicy | None = None) -> None:
        self.folder = folder
        self._kept = kept or TracePolicy()
        with ExitStack() as opened:
            self._lock = opened.enter_context(_lock(folder))
            self._trials = opened.enter_context(open_repaired(folder / TRIALS))
            self._traces = TraceWriter(folder / TRACES, referenced_end(folder / TRIALS))
            opened.pop_all()  # nothing failed: `close` closes them
        self._changed = Condition()
        """Guards all below."""
        self._pending: list[_Finished] = []
        self._writing = 0
        """Finished trials on their way to the disk."""
        self._since = 0.0
        """When the first one that is pending came."""
        self._hurried = False
        self._closing = False
        self._failure: BaseException | None = None
        self._writer = Thread(target=self._write_on, name=f"journal of {folder}", daemon=True)
        self._writer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def append(self, record: Record, trace: bytes) -> None:
        """Take a finished trial: it is on the disk in about a second. Waits while as many as may be are not. Raises RunError."""
        is_kept = 0 < len(trace) <= MAX_TEXT and self._kept.keeps(record)
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
        """Wait until all that was appended is on the disk. Raises RunError."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._failure is not None or self._unsynced == 0)
            self._hurried = False
            self._check()

    def close(self) -> None:
        """Write what is pending, and let another process write. Raises RunError."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._writer.join()
        self._trials.close()
        self._traces.close()
        self._lock.close()
        self._check()

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
                self._write(batch)
        except BaseException as error:  # whoever appends is told
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _next(self) -> Sequence[_Finished]:
        """What is to be written now, once there is some; nothing at the end."""
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
        many = len(self._pending) >= BATCH or self._hurried or self._closing
        return many or time.monotonic() >= self._since + BATCH_S

    def _write(self, batch: Sequence[_Finished]) -> None:
        """Traces first, so that no record points at a trace that was lost."""
        places = iter(self._traces.append([item.trace for item in batch if item.trace]))
        lines = [item.record.line(next(places) if item.trace else item.record.trace_at) for item in batch]
        append_whole(self._trials, b"".join(lines), self.folder / TRIALS)
