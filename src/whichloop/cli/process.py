"""What a command shares with the shell that it runs in: signals, and streams that end early or lack characters."""

from __future__ import annotations

import codecs
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, TextIO, cast

from whichloop.runs.silent_end import leave

from .codes import BAD_INPUT

STAND_INS = {
    **dict.fromkeys("\u2010\u2011–—−─━╴╶╸╺", "-"),
    **dict.fromkeys("├┤┼┬┴╞╡", "+"),
    **dict.fromkeys("│┃·", "|"),
    **dict.fromkeys("●•✓", "*"),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”", '"'),
    "○": "o",
    "×": "x",
    "…": "...",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "±": "+/-",
    "\u00a0": " ",
}
"""What is written for a character that a stream cannot encode; for any other its code, such as `\\xe9`."""
PLAIN = "whichloop.plain"
"""The name of this rule for streams."""


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for the characters that cannot be encoded, and where those after them begin."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    plain = (STAND_INS.get(character, character.encode("ascii", "backslashreplace").decode()) for character in lacking)
    return "".join(plain), error.end


codecs.register_error(PLAIN, _in_plain_characters)


class _OutlastingOutput:
    """Standard output that outlives its reader, and characters that it cannot encode.

    `| head -1` neither ends the command nor changes its exit code, and a dash where the output is ASCII does not either.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            self._stream.write(self._encodable(text))
        except BrokenPipeError:
            self._let_go()
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._let_go()

    def _encodable(self, text: str) -> str:
        """Return the text with plain characters for those that the stream cannot encode."""
        encoding = self._stream.encoding or "utf-8"  # a stream in memory has none
        try:
            text.encode(encoding, self._stream.errors or "strict")
        except UnicodeEncodeError:
            return text.encode(encoding, PLAIN).decode(encoding)
        return text

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
