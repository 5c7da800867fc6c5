"""The trials of a run: one SQLite file, which grows by whole batches and can be read meanwhile.

What trials have in common that went alike is one row of `kinds`; a row of `trials` names its kind and has what is the trial's own.
Of several rows for one trial the last counts. Each row has a CRC-32; the manifest says how many trials there are.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import struct
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Self
from zlib import crc32

import zstandard

from whichloop.metrics.record import MAX_COUNT, Record
from whichloop.metrics.trace import Trace, TraceError
from whichloop.protocol.files import open_regular
from whichloop.protocol.json_text import load_json
from whichloop.protocol.names import meant, most_like, several
from whichloop.protocol.values import one_line

from .files import (
    MANIFEST,
    MAX_TEXT,
    CutShort,
    RunError,
    TracePolicy,
    locked,
    own_file,
    read_manifest_json,
    why_untraced,
    write_manifest_json,
)

TRIALS = "trials.sqlite"
SCHEMA = (
    "CREATE TABLE kinds (kind INTEGER PRIMARY KEY, record TEXT NOT NULL, crc INTEGER NOT NULL) STRICT",
    "CREATE TABLE traces (number INTEGER PRIMARY KEY, trace BLOB NOT NULL, crc INTEGER NOT NULL) STRICT",
    """CREATE TABLE trials (number INTEGER PRIMARY KEY, kind INTEGER NOT NULL, repeat INTEGER NOT NULL, seed INTEGER NOT NULL,
wall_s REAL NOT NULL, started_at REAL NOT NULL, attempt INTEGER NOT NULL,
trace_at INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT""",
    """CREATE VIEW records AS SELECT record ->> 'arm' AS arm, record ->> 'task' AS task, repeat, record ->> 'status' AS status,
record ->> '$.scores.accuracy' AS accuracy, record FROM trials JOIN kinds USING (kind)""",
)
"""`trace_at` is a number in `traces`, 0 for none; `records` is for whoever opens the file with SQLite."""
MAX_VALUE = MAX_TEXT + (1 << 17)
"""Bytes of the longest value, a trace that cannot be compressed; a file with a longer one is refused."""
MAX_KINDS = 8_192
"""Kinds that a writer remembers; then it forgets them all, and writes them anew."""
LEVEL = 3
"""Level of compression. Higher ones save a quarter, and take three times as long."""
FOLDS_S = 2.0
"""Seconds within which a finished run is folded into one file, unless somebody goes on reading it."""
MAX_LIKENED = 2_000
"""Trials among which the one is looked for that is most like a mistyped name: some tenths of a second."""
OWN = ("repeat", "seed", "wall_s", "started_at", "attempt", "trace_at")
"""Fields in which trials differ that went alike."""
_BLANK = dict.fromkeys(OWN, 0)
GUARDED = struct.Struct("<qIqqddqqq")
"""What the CRC-32 of a trial is of: all else of its row, and last the CRC-32 of its kind."""
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Tell in one line of the file what SQLite, the disk, or a value of another kind raises within the block."""
    try:
        yield
    except RunError:
        raise
    except (
        *(sqlite3.Error, zstandard.ZstdError, struct.error, OSError),
        *(ValueError, KeyError, TypeError, AttributeError, RecursionError),
    ) as error:
        why = one_line(str(getattr(error, "strerror", None) or error))
        raise RunError(f"{folder / TRIALS}: {why if isinstance(error, sqlite3.Error | OSError) else f'damaged: {why}'}") from None


@contextmanager
def _opened(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the trials of a run to read them, and check what the manifest says of them. Raises RunError for what cannot be read."""
    path = folder / TRIALS
    with _told(folder), ExitStack() as stack:
        if not path.exists():  # a writer is about to begin
            yield _begun(stack.enter_context(closing(sqlite3.connect(":memory:"))), folder)
            return
        db = stack.enter_context(closing(_connected(path, "ro")))
        try:
            _begun(db, folder)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname in ("SQLITE_BUSY", "SQLITE_LOCKED"):
                raise
            # Killed while it was written: a connection that only reads cannot fold in what its journal holds.
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for each in map(path.with_name, (TRIALS, f"{TRIALS}-wal")):
                if each.exists():
                    with open_regular(each) as source, (scratch / each.name).open("wb") as copy:
                        shutil.copyfileobj(source, copy)
            db = stack.enter_context(closing(_connected(scratch / TRIALS, "rw")))
            _begun(db, folder)
        yield db


SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""How a rollback journal ends that names another file, which SQLite then removes (sqlite.org/fileformat2.html)."""


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    """Open a file that may come from anywhere. Raises RunError and OSError."""
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-journal")):
        try:
            file = open_regular(each)
        except FileNotFoundError:  # a writer's journal comes and goes
            if each.is_symlink():
                raise
            continue
        with file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - len(SUPER_JOURNAL)))
            if each.name.endswith("-journal") and file.read() == SUPER_JOURNAL:
                raise RunError(f"{each}: it names a file to remove; remove it by hand if that is yours")
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False)
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    db.execute("PRAGMA trusted_schema=OFF")
    return db


def _begun(db: sqlite3.Connection, folder: Path) -> sqlite3.Connection:
    """Return the connection. Raises RunError where the trials are not those of a run, or fewer than its manifest tells of."""
    found = {sql for (sql,) in db.execute("SELECT sql FROM sqlite_schema")}
    if not found:
        db.executescript(";".join(("BEGIN", *SCHEMA, "COMMIT")))
    elif found != set(SCHEMA):
        raise RunError(f"{folder / TRIALS}: not the trials of a run")
    told = read_manifest_json(folder).get("rows") if (folder / MANIFEST).exists() else None
    if isinstance(told, int) and told > (there := _rows(db)):
        why = f"it was damaged or edited, or copied without {TRIALS}-wal"
        raise RunError(f"{folder / TRIALS}: {MANIFEST} tells of {told} rows, and {there} are there: {why}")
    return db


def _rows(db: sqlite3.Connection) -> int:
    (count,) = db.execute("SELECT count(*) FROM trials").fetchone()
    return int(count)


def count_rows(folder: Path) -> int:
    """Return how many rows a run has, those of earlier attempts included. Raises RunError."""
    with _opened(folder) as db:
        return _rows(db)


def each_record(folder: Path, after: int = 0) -> list[Record]:
    """Return every record as it was written, also those that a later one of the same trial replaces.

    `after`: without so many first ones. Raises RunError for a row that is damaged or not a record.
    """
    with _opened(folder) as db:
        db.execute("BEGIN")  # one snapshot
        kinds, records = dict[int, tuple[Record, int]](), list[Record]()
        for kind, text, crc in db.execute("SELECT kind, record, crc FROM kinds"):
            if crc32(text.encode()) != crc:
                raise _damaged(folder, f"kind {kind}")
            try:
                kinds[kind] = Record.from_json({**load_json(text, finite=True), **_BLANK}), crc
            except (ValueError, TypeError, RecursionError) as error:
                raise RunError(f"{folder / TRIALS}: kind {kind}: not a record of a trial: {one_line(str(error))}") from None
        for *row, crc in db.execute("SELECT * FROM trials WHERE number > ? ORDER BY number", (after,)):
            record, kind_crc = kinds.get(row[1], (None, -1))
            if record is None or crc32(GUARDED.pack(*row, kind_crc)) != crc:
                raise _damaged(folder, f"row {row[0]}")
            repeat, _, wall_s, started_at, attempt, trace_at = own = row[2:]
            if min(repeat, attempt, trace_at) < 0 or max(repeat, attempt, trace_at, abs(wall_s), abs(started_at)) > MAX_COUNT:
                raise RunError(f"{folder / TRIALS}: row {row[0]}: a number is out of bounds")
            records.append(replace(record, **dict(zip(OWN, own, strict=True))))
        return records


def _damaged(folder: Path, where: str) -> RunError:
    return RunError(f"{folder / TRIALS}: {where}: its checksum does not fit, so it was damaged or edited after it was written")


def read_records(folder: Path) -> list[Record]:
    """Return the records of a run, the last one of each trial, in the order in which trials first ended. Raises RunError."""
    return list({record.key: record for record in each_record(folder)}.values())


def find_trial(folder: Path, trial: str) -> Record:
    """Return the record of `ARM/TASK/REPEAT`, or a part of that, see `name_meant`. Raises RunError if none or several match."""
    records = read_records(folder)
    names = [record.name for record in records]
    return records[names.index(name_meant(names, trial, folder))]


def name_meant(names: Sequence[str], trial: str, folder: Path) -> str:
    """Return the name `ARM/TASK/REPEAT` that is typed whole or in part, see `meant`. Raises RunError if none or several match."""
    matching = meant(trial, names)
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise RunError(f"{folder}: {trial!r} matches {len(matching)} trials: {several(matching)}; type more of ARM/TASK/REPEAT")
    near = most_like(trial, names[:MAX_LIKENED]) or next(iter(names), "(none)")
    raise RunError(f"{folder}: no trial {trial!r}; a trial is ARM/TASK/REPEAT, such as {near}")


class Traces:
    """Reads the traces of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: ExitStack | None = None
        self._db: sqlite3.Connection

    def read(self, record: Record) -> Trace:
        """Read the trace of one trial. Raises RunError if it has none, or what is there is damaged."""
        if not record.trace_at:
            raise RunError(f"{self.folder}: trial {record.name} has no trace ({why_untraced(self.folder, record)})")
        if self._opened is None:
            self._opened = ExitStack()
            self._db = self._opened.enter_context(_opened(self.folder))
        with _told(self.folder):
            row = self._db.execute("SELECT trace, crc FROM traces WHERE number = ?", (record.trace_at,)).fetchone()
            if row is None or crc32(row[0]) != row[1] or not 0 <= zstandard.frame_content_size(row[0]) <= MAX_TEXT:
                raise _damaged(self.folder, f"trace of {record.name}")
            text = zstandard.ZstdDecompressor().decompress(row[0], allow_extra_data=False)
            try:
                trace = Trace.from_json(load_json(text, finite=True))
            except (TraceError, ValueError, RecursionError) as error:
                raise RunError(f"{self.folder / TRIALS}: trial {record.name}: {one_line(str(error))}") from None
        if (trace.head.arm, trace.head.task, trace.head.repeat) != record.key:
            raise RunError(f"{self.folder / TRIALS}: the trace of {record.name} is that of another trial")
        return trace

    def __del__(self) -> None:
        if self._opened is not None:
            self._opened.close()


def read_trace(folder: Path, record: Record) -> Trace:
    """Read the trace of one trial. Raises RunError if it has none. `Traces` reads many."""
    return Traces(folder).read(record)


# --- writing ---


class TrialFile:
    """The trials of a run, to be added to by one process at a time."""

    def __init__(self, folder: Path) -> None:
        """Open the file, or make it. Raises RunError."""
        self.folder = folder
        path = folder / TRIALS
        own_file(path, os.O_CREAT).close()
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._kinds = dict[str, tuple[int, int]]()
        """The JSON of a kind → its number, and its CRC-32."""
        self._db = _connected(path, "rw")
        with self._told():
            self._db.execute("PRAGMA journal_mode=WAL")
            _begun(self._db, folder)
            self._count()

    def _count(self) -> None:
        self._kinds = {}
        (self._kind,) = self._db.execute("SELECT coalesce(max(kind), 0) FROM kinds").fetchone()
        (self._rows,) = self._db.execute("SELECT coalesce(max(number), 0) FROM trials").fetchone()

    def add(self, trials: Iterable[tuple[Record, bytes]]) -> None:
        """Add trials with their traces, empty for none, all or nothing; then the disk has them. Raises CutShort."""
        with self._told():
            self._db.execute("BEGIN IMMEDIATE")
            for record, trace in trials:
                self._add(record, trace)
            self._db.execute("COMMIT")

    def _add(self, record: Record, trace: bytes) -> None:
        text = _ENCODER.encode({name: value for name, value in record.to_json().items() if name not in OWN})
        if text not in self._kinds:
            self._kinds = {} if len(self._kinds) >= MAX_KINDS else self._kinds
            self._kind += 1
            self._kinds[text] = self._kind, crc32(text.encode())
            self._db.execute("INSERT INTO kinds VALUES (?, ?, ?)", (self._kind, text, self._kinds[text][1]))
        self._rows += 1
        own = {name: getattr(record, name) for name in OWN} | ({"trace_at": self._rows} if trace else {})
        kind, crc = self._kinds[text]
        if not all(map(math.isfinite, own.values())):
            raise ValueError(f"trial {record.name}: {own}: a number is not finite")
        row = (self._rows, kind, *own.values())
        guard = crc32(GUARDED.pack(*row, crc))
        self._db.execute("INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, guard))
        if trace:
            frame = self._compressor.compress(trace)
            self._db.execute("INSERT INTO traces VALUES (?, ?, ?)", (self._rows, frame, crc32(frame)))

    def close(self) -> None:
        """Fold all into one plain file, and let the manifest say how many rows there are. Raises RunError."""
        path = self.folder / MANIFEST
        with closing(self._db):
            with suppress(sqlite3.Error):  # where somebody goes on reading, the next writer does it
                for pragma, done in (("wal_checkpoint(TRUNCATE)", 0), ("journal_mode=DELETE", "delete")):
                    until = time.monotonic() + FOLDS_S
                    while self._db.execute(f"PRAGMA {pragma}").fetchone()[0] != done and time.monotonic() < until:
                        time.sleep(0.1)
            with self._told():
                rows = _rows(self._db)
        if path.exists():
            try:
                write_manifest_json(self.folder, read_manifest_json(self.folder) | {"rows": rows})
            except OSError as error:
                raise CutShort(f"{path}: {error.strerror}; all trials are whole, and the run can be resumed") from None

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            with suppress(sqlite3.Error):
                self._db.rollback()
                self._count()
            if isinstance(error, sqlite3.Error):
                path, why = self.folder / TRIALS, one_line(str(error))
                raise CutShort(f"{path}: {why}; what was written before is whole, and the run can be resumed") from None
            raise


MAX_UNSYNCED = 256
"""Maximum number of finished trials that wait for the disk; after a kill they run again."""
BATCH = 64
"""Finished trials that start a write."""
BATCH_S = 0.5
"""Seconds that fewer trials wait for others before they are written."""


class TrialWriter:
    """Adds finished trials to a run directory. One process at a time: a second one gets RunError.

    A thread of its own encodes, compresses and writes: whoever appends waits only where the disk falls behind. After a write that
    failed every call raises what it failed with; the run can be resumed.
    """

    def __init__(self, folder: Path, policy: TracePolicy | None = None) -> None:
        self.folder, self._policy = folder, policy or TracePolicy()
        with ExitStack() as opened:
            self._lock = opened.enter_context(locked(folder))
            count_rows(folder)  # a damaged file is not added to
            self._file = TrialFile(folder)
            opened.pop_all()
        self._queue = Queue[tuple[Record, bytes] | None](MAX_UNSYNCED - BATCH)
        """Trials to write; None: write at once what is there."""
        self._is_closed = False
        self._failure: BaseException | None = None
        self._writer = Thread(target=self._write_on, name=f"trials of {folder}", daemon=True)
        self._writer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, record: Record, trace: bytes) -> None:
        """Append a finished trial, which reaches the disk in about a second. Waits while too many are pending. Raises RunError."""
        if self._is_closed:
            raise RunError(f"{self.folder}: a trial has ended after its file was closed")
        self._queue.put((record, trace if 0 < len(trace) <= MAX_TEXT and self._policy.keeps(record) else b""))
        self._check()

    def sync(self) -> None:
        """Wait until everything appended is on the disk. Raises RunError."""
        self._queue.put(None)
        self._queue.join()
        self._check()

    def close(self) -> None:
        """Write what is pending, and let another process write. Raises RunError."""
        self._is_closed = True
        self._queue.put(None)
        self._writer.join()
        with self._lock:
            self._file.close()
            self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _write_on(self) -> None:
        """Write batches until the end, in the writer's thread; after a failure drop what comes, so that nobody waits for it."""
        while True:
            items, until = [self._queue.get()], time.monotonic() + BATCH_S
            with suppress(Empty):
                while items[-1] is not None and len(items) < BATCH:
                    items.append(self._queue.get(timeout=max(0.0, until - time.monotonic())))
            try:
                if self._failure is None and (batch := [item for item in items if item is not None]):
                    self._file.add(batch)
            except BaseException as error:  # whoever appends is told
                self._failure = error
            for _ in items:
                self._queue.task_done()
            if self._is_closed and self._queue.empty():
                return
