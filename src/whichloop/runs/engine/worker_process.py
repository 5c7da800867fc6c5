"""A worker that is a process of this machine: `python -m whichloop.runs.engine.worker_process READ WRITE`.

It talks through two pipes, whose file descriptors it is given; see `engine.py`. Before it imports what takes a second, it sees
to it that it ends with its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import logging
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator

from whichloop.protocol.redact import redact
from whichloop.runs.silent_end import told_of_exit

from .messages import Frames, framed

_LEAVE = os._exit
"""As it is before any trial runs."""


class Pipes:
    """The pipes of a worker: one thread reads, any thread may write."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._frames = Frames()
        self._messages: deque[bytes] = deque()
        self._has_news = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, name="pipe", daemon=True).start()

    def first(self) -> bytes:
        """Wait for the first message. Blocks."""
        while not self._messages:
            self._has_news.wait()
            self._has_news.clear()
        return self._messages.popleft()

    def send(self, message: bytes) -> None:
        rest = memoryview(framed(message))
        with self._lock:
            while rest:
                rest = rest[os.write(self._write, rest) :]

    async def incoming(self) -> AsyncIterator[bytes]:
        self._loop = asyncio.get_running_loop()
        while True:
            while self._messages:
                yield self._messages.popleft()
            self._wake.clear()
            if not self._messages:  # the thread adds first, and wakes then
                await self._wake.wait()

    def _listen(self) -> None:
        """Read until the other end is closed, or its process is gone: then end this process at once, whatever it is doing."""
        while data := os.read(self._read, 1 << 16):
            self._messages.extend(self._frames.feed(data))
            self._has_news.set()
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):  # it has just been closed
                    self._loop.call_soon_threadsafe(self._wake.set)
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)
        _LEAVE(1)


def main() -> None:
    """Serve the process that started this one, over the two pipes whose descriptors are its arguments, until it says no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that the user started; it ends this one
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG of prctl(2)
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    read, write = map(int, sys.argv[1:3])
    for descriptor in (read, write):
        os.set_inheritable(descriptor, False)
    pipes = Pipes(read, write)
    sys.exit(serve(pipes))


def serve(pipes: Pipes) -> int:
    """Run trials on order until none will follow, and return the exit code."""
    setup = pipes.first()
    sys.path[:] = json.loads(setup)["path"]
    logging.getLogger("whichloop.loops").setLevel(logging.ERROR)  # the trace of a trial holds what its loop warns of
    logging.getLogger("whichloop.datasets").setLevel(logging.ERROR)  # whoever began the run has warned of its tools
    from .messages import WorkerError
    from .worker import WorkerLoop

    try:
        worker = WorkerLoop(setup)
    except WorkerError as error:
        pipes.send(json.dumps({"refused": str(error)}).encode())
        return 0
    pipes.send(json.dumps({"ready": True}).encode())
    try:
        with told_of_exit():  # a trial that calls os._exit has crashed, and its neighbours go on
            asyncio.run(worker.run(pipes.incoming(), pipes.send))
    except (Exception, KeyboardInterrupt) as error:
        # Code of a trial may have changed what all code shares; another worker takes over.
        sys.stderr.write(redact(f"a worker process cannot go on: {error!a}\n"))
        return 1
    finally:
        gc.freeze()  # else Python looks through all objects once more before it ends
    return 0


if __name__ == "__main__":
    main()
