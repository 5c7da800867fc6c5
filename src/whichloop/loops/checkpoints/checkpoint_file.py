"""A checkpoint in a file of JSON lines, which survives the end of the process at any moment, and lets one process at a time run."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakValueDictionary

from whichloop.protocol.cancellation import to_its_end
from whichloop.protocol.files import check_regular, open_regular
from whichloop.protocol.threads import CallOutcome, begin_in_thread, caller_waits

from .checkpoint import Checkpoint
from .checkpoint_entries import Entry, NeedsApproval


@dataclass(eq=False, slots=True)
class Batch:
    """Entries that are written together."""

    ended: asyncio.Future[None]
    """Has what writing them raised, if anything."""
    entries: list[Entry] = field(default_factory=list)
    is_written: bool = False
    """Set by the writing function, as soon as they are on the disk."""


class EntryWriter:
    """Has entries written on a thread, in the order in which they come: those that come while some are written follow together."""

    def __init__(self, write: Callable[[Batch], None]) -> None:
        self._write = write
        self._under_way: Batch | None = None
        self._next: Batch | None = None

    @property
    def unwritten(self) -> list[Entry]:
        """The entries that are not on the disk yet, in order."""
        batches = [batch for batch in (self._under_way, self._next) if batch is not None and not batch.is_written]
        return [entry for batch in batches for entry in batch.entries]

    async def write(self, entry: Entry) -> None:
        """Return once an entry is written, and all before it. Raises what the writing of it raises.

        A cancellation is raised, too, once the entry is written: nobody may take the run up while something of it is on its way.
        """
        if self._next is None:
            self._next = Batch(asyncio.get_running_loop().create_future())
        batch = self._next
        batch.entries.append(entry)
        if self._under_way is None:
            self._begin()
        await to_its_end(batch.ended)

    async def finish(self) -> None:
        """Return once all entries that have come are written. Raises as `write` does."""
        last = self._next or self._under_way
        if last is not None:
            await to_its_end(last.ended)

    def _begin(self) -> None:
        batch, self._next = self._next, None
        self._under_way = batch
        if batch is not None:
            begin_in_thread(self._write, batch).add_done_callback(self._go_on)

    def _go_on(self, done: asyncio.Future[CallOutcome]) -> None:
        batch = self._under_way
        assert batch is not None
        error = done.result().error
        if error is None:
            batch.ended.set_result(None)
        else:
            batch.ended.set_exception(error)
        self._begin()


class _ThreadLock:
    """Lets one thread at a time use a file: the lock on the file itself is one that the threads of a process share.

    A lock in a class of its own can be held weakly, as long as there is a checkpoint of the file.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()


_THREAD_LOCKS: WeakValueDictionary[str, _ThreadLock] = WeakValueDictionary()
"""By path, while there is a checkpoint of that file."""
_MAKING_THREAD_LOCKS = threading.Lock()


class CheckpointFile(Checkpoint):
    """A checkpoint that is a file: any process of the machine goes on with the run, or decides about its calls.

    Each entry is on the disk before the run goes on; it is written on a thread, so that other runs of the event loop go on
    meanwhile, or on that of `run_sync`'s caller. A run holds the file's lock (`flock`), so that no other process carries the
    same run out at the same time, and begins with what others have decided meanwhile. A decision, too, is made of what the file
    says then: of two people who decide about a call, the second is told that it no longer waits. What is left of an entry whose
    writer died over it is taken out.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        needs_approval: NeedsApproval = (),
        refusals: Collection[type[Exception]] = (),
    ) -> None:
        """`path`: the file; where there is none, a run begins, and makes it. Its owner alone may read it.

        Raises as `Checkpoint` does, ValueError for a file that holds anything else, and OSError.
        """
        self.path = Path(path)
        if self.path.is_dir():
            raise IsADirectoryError(
                f"CheckpointFile: {self.path} is a folder; give the path of a file in it, such as {self.path / 'run.jsonl'}"
            )
        self._file: int | None = None
        with _MAKING_THREAD_LOCKS:
            self._thread_lock = _THREAD_LOCKS.setdefault(os.path.realpath(self.path), _ThreadLock())
        self._writer = EntryWriter(self._write)
        super().__init__(needs_approval=needs_approval, refusals=refusals, on_entry=self._append)
        self._read()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Raises RuntimeError where the run is under way here or in another process, OSError for a file that cannot be written."""
        with super().running(), self._opened() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RuntimeError(f"the run of {self.path} is under way elsewhere: let it end") from None
            self._read()
            self._writer = EntryWriter(self._write)  # one belongs to one event loop
            yield

    async def keep(self, entry: Entry) -> None:
        if caller_waits():
            self.add(entry)
            return
        self.entries.append(entry)
        try:
            await self._writer.write(entry)
        except asyncio.CancelledError:  # the entry is written
            raise
        except BaseException:
            self._forget(entry)
            raise

    async def all_stored(self) -> None:
        await self._writer.finish()

    @contextlib.contextmanager
    def _deciding(self) -> Iterator[None]:
        """Raises ValueError for what is no checkpoint, and OSError."""
        if not self.path.exists():  # somebody has removed it: nothing waits
            self.take(())
            yield
            return
        with self._locked() as file:
            self._file = file
            try:
                self._take_lines(os.pread(file, os.fstat(file).st_size, 0))
                self.entries += self._writer.unwritten
                yield
            finally:
                self._file = None

    def _read(self) -> None:
        """Take the entries of the file. Raises ValueError."""
        stored = b""
        if self.path.exists():
            with self._thread_lock.lock, open_regular(self.path) as file:
                stored = file.read()
        self._take_lines(stored)

    def _take_lines(self, stored: bytes) -> None:
        """Take the entries that are written; of a last line without its end the writer has died over it. Raises ValueError."""
        entries: list[Entry] = []
        for number, line in enumerate(stored.split(b"\n")[:-1], 1):
            try:
                entries.append(json.loads(line))
            except ValueError:
                raise ValueError(f"{self.path}: line {number} is no JSON: {line[:80]!r}") from None
        try:
            self.take(entries)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None

    def _append(self, entry: Entry) -> None:
        self._append_all((entry,))

    def _write(self, batch: Batch) -> None:
        with self._thread_lock.lock:
            self._append_all(batch.entries)
            batch.is_written = True

    def _append_all(self, entries: Sequence[Entry]) -> None:
        lines = b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)
        with self._locked() as file:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":
                size = _end_of_lines(file, size)
                os.ftruncate(file, size)
            try:
                while lines:  # a disk that is full takes a part
                    lines = lines[os.write(file, lines) :]
                os.fsync(file)
            except BaseException:  # whoever reads the file must not find what this process says that it has not kept
                os.ftruncate(file, size)
                raise

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file for its only writer; any of its descriptors that is closed meanwhile would give up the lock."""
        with self._thread_lock.lock:
            if self._file is not None:
                yield self._file
                return
            with self._opened() as file:
                fcntl.lockf(file, fcntl.LOCK_EX)  # of processes, while `flock` is held by whoever runs
                yield file

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        opened = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        try:
            check_regular(opened, self.path)
            yield opened
        finally:
            os.close(opened)


def _end_of_lines(file: int, size: int, step: int = 1 << 16) -> int:
    """Return where the last whole line ends. `step`: bytes that are read at once."""
    end = size
    while end > 0:
        start = max(0, end - step)
        newline_at = os.pread(file, end - start, start).rfind(b"\n")
        if newline_at >= 0:
            return start + newline_at + 1
        end = start
    return 0
