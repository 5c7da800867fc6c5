"""A checkpoint that is a file."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

from whichloop.protocol.cancellation import to_its_end
from whichloop.protocol.files import check_regular, open_regular
from whichloop.protocol.threads import begin_in_thread, caller_waits

from .checkpoint import Checkpoint, Entry, NeedsApproval, RunUnderWay


class CheckpointFile(Checkpoint):
    """A checkpoint that is a file of JSON lines, which survives the end of the process at any moment.

    Each entry is on the disk before the run goes on; a thread writes it, so that the event loop goes on meanwhile. A run or a
    decision holds the file's lock (`flock`) and begins with what others have written. A last line without its end, over which its
    writer has died, is taken out.
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
        super().__init__(needs_approval=needs_approval, refusals=refusals)
        self.path = Path(path)
        self._file = -1
        self._writing = threading.Lock()
        if self.path.exists():
            with open_regular(self.path) as file:
                self._read(file.read())

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Raises RunUnderWay also where another process holds the file, ValueError for what is no checkpoint, and OSError."""
        with super().held():
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
            try:
                check_regular(file, self.path)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise RunUnderWay(f"{self.path} is in use: its run is under way elsewhere") from None
                os.ftruncate(file, self._read(os.pread(file, os.fstat(file).st_size, 0)))
                self._file = file
                yield
            finally:
                with self._writing:  # of a call that its design has not waited for
                    self._file = -1
                    os.close(file)

    async def keep(self, entry: Entry) -> None:
        """A cancellation is raised once the entry is stored: nobody may go on with the run while something is on its way."""
        if caller_waits():
            return self._keep_now(entry)
        line = json.dumps(entry)
        stored = begin_in_thread(self._store, line)
        try:
            _, error = await to_its_end(stored)
        finally:
            if stored.done() and stored.result()[1] is None:
                self._add(json.loads(line))
        if error is not None:
            raise error

    def _read(self, stored: bytes) -> int:
        """Take the entries of whole lines, and return where the last one ends. Raises ValueError."""
        *lines, torn = stored.split(b"\n")
        try:
            self.take(json.loads(line) for line in lines)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{self.path}: line {len(self.entries) + 1}: {error}") from None
        return len(stored) - len(torn)

    def _store(self, line: str) -> None:
        data = line.encode() + b"\n"
        with self._writing:
            size = os.fstat(self._file).st_size
            try:
                while data:  # a disk that is full takes a part
                    data = data[os.write(self._file, data) :]
                os.fsync(self._file)
            except BaseException:  # whoever reads the file must not find what this process says that it has not kept
                os.ftruncate(self._file, size)
                raise
