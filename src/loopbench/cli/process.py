"""What a command shares with the shell that it runs in: signals, and readers that close its output early."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, TextIO, cast

from loopbench.runs.silent_end import leave

from .codes import BAD_INPUT


class _OutlastingOutput:
    """Standard output that outlives its reader: `| head -1` neither ends the command nor changes its exit code."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._let_go()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._let_go()

    def _let_go(self) -> None:
        """Discard what is still buffered and all that follows."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def lasting_stdout() -> Iterator[None]:
    """Replace standard output by such a stream within the block."""
    stream = _OutlastingOutput(sys.stdout)
    with contextlib.redirect_stdout(cast(TextIO, stream)):
        try:
            yield
        finally:
            stream.flush()


MAX_TOLD = 3
"""Times that code is told that its time is up before the process ends."""


@contextlib.contextmanager
def given_up_after(seconds: float, what: str) -> Iterator[None]:
    """Let code of the user's own within the block raise TimeoutError when its time is up, and end the process if it goes on.

    `what`: the beginning of the sentence that says so. It does nothing on other threads than the main one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    problem, presses = f"{what} did not end within {seconds:g} s", 0

    def tell(number: int, frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses > MAX_TOLD:
            os.write(2, f"error: {problem}\n".encode())
            leave(BAD_INPUT)
        raise TimeoutError(problem)

    handler, timer = signal.signal(signal.SIGALRM, tell), signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)
