"""The lines of the user's own code that errors passed, or where it runs."""

from __future__ import annotations

import asyncio
import importlib
import os
from pathlib import Path
from types import FrameType
from typing import Any, cast

from .values import error_text

_NOT_THEIRS = tuple(f"{Path(file).parents[1]}/" for file in (importlib.__file__, __file__))
"""Folders of Python's own modules and of ours."""
MAX_DIGITS = 9
"""Digits of a line's number."""


def refuse_in_import() -> None:
    """Raise RuntimeError in a process that imports a program: what it does there, it would do in each of its own processes."""
    if name := os.environ.get("WHICHLOOP_IMPORTING"):
        raise RuntimeError(f"{name} asks whichloop as it is imported: put that under if __name__ == '__main__'")


def own_words(error: Exception) -> str:
    """Return what an exception from a user's code says, and the user's line: `KeyError: 'k' at mine.py:7`.

    Empty for what tells all by itself: an OSError, which names its file, and a ValueError that passed no
    line of the user's.
    """
    at = raised_at(error)
    if isinstance(error, OSError) or (isinstance(error, ValueError) and not at):
        return ""
    return f"{type(error).__name__}: {error_text(error)}{f' at {at}' if at else ''}"


def raised_at(error: BaseException) -> str:
    """Return the innermost line of a user's file that an exception passed, as `shop/loop.py:12`; empty where it passed none.

    A file below the current directory is named as seen from there, any other by its name alone.
    """
    place = _innermost(error)
    return "" if place is None else place_of(*place)


def running_at(frame: FrameType | None) -> str:
    """Return the innermost line of a user's file on a stack, like `raised_at`: down to where the event loop runs it."""
    while frame is not None and frame.f_code.co_filename != asyncio.events.__file__:
        if is_theirs(frame.f_code.co_filename):
            return place_of(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return ""


def waiting_at(task: asyncio.Task[Any]) -> str:
    """Return the innermost line of a user's file where a task waits, like `raised_at`; empty where there is none."""
    place, awaited = "", cast(Any, task.get_coro())
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        if is_theirs(frame.f_code.co_filename):
            place = place_of(frame.f_code.co_filename, frame.f_lineno)
        awaited = getattr(awaited, "cr_await", None)
    return place


def place_of(file: Path | str, line: int) -> str:
    """Return a line of a file as `raised_at` writes it."""
    path = Path(file)
    try:
        return f"{path.resolve().relative_to(Path.cwd()).as_posix()}:{line}"
    except (ValueError, OSError):  # elsewhere, or the directory is gone
        return f"{path.name}:{line}"


def place_in(reason: str) -> tuple[str, int] | None:
    """Return the file and the line that a reason ends with, as `raised_at` writes them; None for a file that is not there."""
    file, _, line = reason.rpartition(" at ")[2].rpartition(":")
    is_place = line.isascii() and line.isdecimal() and len(line) <= MAX_DIGITS and not Path(file).is_absolute()
    try:
        return (file, int(line)) if is_place and Path(file).is_file() else None
    except OSError:  # what is no name of a file
        return None


def raised_in(error: BaseException | None) -> tuple[Path, int] | None:
    """Return the user's file, and the line in it, where an error came up, or one that led to it; None where no such file is known.

    Of a syntax error that is the line that cannot be read.
    """
    while error is not None:
        place = _innermost(error)
        if isinstance(error, SyntaxError) and error.filename and error.lineno and is_theirs(error.filename):
            place = Path(error.filename), error.lineno
        if place is not None:
            return place
        error = error.__cause__ or error.__context__
    return None


def _innermost(error: BaseException) -> tuple[Path, int] | None:
    place, trace = None, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if is_theirs(file):
            place = Path(file), trace.tb_lineno
        trace = trace.tb_next
    return place


def is_theirs(file: str) -> bool:
    """Return whether a file is the user's own: neither Python's, nor installed, nor ours."""
    return not file.startswith("<") and "site-packages" not in file and not file.startswith(_NOT_THEIRS)
