"""What a command shares with the shell: exit codes, and standard output that is for results and may end early."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TextIO, cast

DONE = 0
FAILED = 1
"""A check or a gate failed."""
BAD_INPUT = 2
UNDECIDED = 3
INVALID = 4
"""The run supports no verdict."""
INTERRUPTED = 130
"""The run can be resumed."""


class _OutlastingOutput:
    """Standard output or error that outlives its reader, and characters that it cannot encode.

    `| head -1` neither ends the command nor changes its exit code, and a dash where the output is ASCII does not either.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        encoding = self._stream.encoding or "utf-8"  # a stream in memory has none
        try:
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
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
def lasting_output() -> Iterator[None]:
    """Replace standard output and error by such streams within the block."""
    out, err = (_OutlastingOutput(stream) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(cast(TextIO, out)), contextlib.redirect_stderr(cast(TextIO, err)):
        try:
            yield
        finally:
            out.flush()
            err.flush()


@contextmanager
def own_prints_aside() -> Iterator[None]:
    """Redirect what the user's own tools and loops print to stderr: stdout is for results, which a program may read."""
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def quiet_loops() -> Iterator[None]:
    """Silence the loops' warnings: each is in its trial's trace, and thousands of trials would flood the terminal."""
    loops = logging.getLogger("whichloop.loops")
    level = loops.level
    loops.setLevel(logging.ERROR)
    try:
        yield
    finally:
        loops.setLevel(level)


def load_env() -> None:
    """Set the variables of the current directory's `.env` that the environment lacks; nothing in them is replaced."""
    from dotenv import load_dotenv

    load_dotenv(Path(".env"), interpolate=False, encoding="utf-8-sig")
