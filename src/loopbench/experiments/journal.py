"""A run directory: manifest, one line per trial, traces. Append-only; what was written survives a kill at any moment.

manifest.json   configuration, versions, digests, seed
trials.jsonl    one record per trial; of several for one trial the last counts
traces.jsonl    one trace per line; a record holds where its own stands
run.lock        held while a process writes
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from loopbench.metrics.record import Record

MANIFEST = "manifest.json"
TRIALS = "trials.jsonl"
TRACES = "traces.jsonl"
LOCK = "run.lock"

MOST_UNSYNCED = 256
"""Finished trials that may wait for the disk; after a kill they run again."""
LONGEST_UNSYNCED_S = 1.0

_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False)


class RunError(ValueError):
    """A run directory that cannot be read, or written, as asked; one line that names it."""


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    scratch = folder / f"{MANIFEST}.part"
    scratch.write_text(json.dumps(manifest, indent=2, allow_nan=False) + "\n", encoding="ascii")
    with scratch.open("rb") as file:
        os.fsync(file.fileno())
    scratch.replace(folder / MANIFEST)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Raises RunError where there is none or it is no JSON object."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{folder}: no run directory (it has no {MANIFEST})") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path}: {error}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("config"), dict):
        raise RunError(f"{path}: no manifest of a run")
    return manifest


def read_records(folder: Path) -> list[Record]:
    """The records of a run, the last one of each trial, in the order in which trials first ended.

    A torn last line, left by a kill, is skipped. Raises RunError for any other line that is no record.
    """
    path = folder / TRIALS
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from None
    latest: dict[tuple[str, str, int], Record] = {}
    for number, line in enumerate(raw[: whole_lines(raw)].splitlines(), 1):
        try:
            record = Record.from_json(json.loads(line))
            latest[record.key] = record
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise RunError(f"{path}:{number}: no record of a trial: {type(error).__name__}: {error}") from None
    return list(latest.values())


def read_trace(folder: Path, record: Record) -> dict[str, Any]:
    """The trace of one trial. Raises RunError where there is none."""
    if record.trace_at is None:
        why = record.reason or "none was recorded"
        raise RunError(f"{folder}: trial {record.arm}/{record.task}/{record.repeat} has no trace: {why}")
    offset, length = record.trace_at
    try:
        with (folder / TRACES).open("rb") as file:
            file.seek(offset)
            trace = json.loads(file.read(length))
    except (OSError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise RunError(f"{folder / TRACES}: no trace at {offset}: {error}") from None
    if not isinstance(trace, dict) or not isinstance(trace.get("events"), list):
        raise RunError(f"{folder / TRACES}: no trace at {offset}")
    if (trace.get("arm"), trace.get("task"), trace.get("repeat")) != record.key:
        raise RunError(f"{folder / TRACES}: the trace at {offset} is that of another trial")
    return trace


def whole_lines(raw: bytes) -> int:
    """Length of the part that ends with a line's end."""
    return raw.rfind(b"\n") + 1


@dataclass(frozen=True, slots=True)
class _Pending:
    record: Record
    trace: bytes


def _lock(folder: Path) -> IO[str]:
    """Held until it is closed. Raises RunError where another process holds it."""
    lock = (folder / LOCK).open("a")
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


class Journal:
    """Appends finished trials to a run directory. One process at a time: a second one gets RunError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pending: list[_Pending] = []
        self._synced_at = time.monotonic()
        self._lock = _lock(folder)
        try:
            self._trials = open_repaired(folder / TRIALS)
            self._traces = open_repaired(folder / TRACES)
        except OSError:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def append(self, record: Record, trace: bytes) -> None:
        """Take a finished trial; it is on the disk within 256 trials, or with the first one that ends a second later."""
        self._pending.append(_Pending(record, trace))
        if len(self._pending) >= MOST_UNSYNCED or time.monotonic() - self._synced_at >= LONGEST_UNSYNCED_S:
            self.sync()

    def sync(self) -> None:
        """Write and fsync what is pending: traces first, so that no record points at a trace that was lost."""
        if not self._pending:
            return
        offset = self._traces.seek(0, os.SEEK_END)
        lines = []
        for item in self._pending:
            line = item.record.to_json()
            if item.trace:
                line["trace_at"] = [offset, len(item.trace)]
                offset += len(item.trace)
            lines.append(_ENCODER.encode(line).encode("ascii") + b"\n")
        append_whole(self._traces, b"".join(item.trace for item in self._pending), self.folder / TRACES)
        append_whole(self._trials, b"".join(lines), self.folder / TRIALS)
        self._pending.clear()
        self._synced_at = time.monotonic()

    def close(self) -> None:
        try:
            self.sync()
        finally:
            self._trials.close()
            self._traces.close()
            self._lock.close()


def open_repaired(path: Path) -> FileIO:
    """Open for appending; a torn last line is cut off."""
    path.touch()
    file = path.open("r+b", buffering=0)
    size = file.seek(0, os.SEEK_END)
    for start in _blocks(size):
        file.seek(start)
        whole = whole_lines(file.read(min(_BLOCK, size - start)))
        if whole or start == 0:
            file.truncate(start + whole)
            break
    return file


_BLOCK = 1 << 20


def _blocks(size: int) -> Iterator[int]:
    """Starts of the blocks of a file, the last one first."""
    yield from range(max(0, (size - 1) // _BLOCK * _BLOCK), -1, -_BLOCK)


def append_whole(file: FileIO, data: bytes, path: Path) -> None:
    """All of it on the disk, or nothing: a line that does not fit leaves no torn half behind. Raises RunError."""
    start = file.seek(0, os.SEEK_END)
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    except BaseException as error:
        file.truncate(start)
        if isinstance(error, OSError):
            raise RunError(f"{path}: {error.strerror}; what was written before is whole, and the run can be resumed") from None
        raise
