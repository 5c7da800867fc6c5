"""Lines of the user's own code: where an error came up, and where code runs or waits."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType
from typing import Any

from .values import error_text

_NOT_THEIRS = tuple(f"{Path(file).parents[1]}/" for file in (importlib.__file__, __file__))
"""Folders of Python's own modules and of ours."""


def is_theirs(file: str) -> bool:
    """Return whether a file is the user's own: neither Python's, nor installed, nor ours."""
    return not file.startswith("<") and "site-packages" not in file and not file.startswith(_NOT_THEIRS)


def refuse_in_import() -> None:
    """Raise RuntimeError in a process that imports a program: what it does there, it would do in each of its own processes."""
    if name := os.environ.get("WHICHLOOP_IMPORTING"):
        raise RuntimeError(f"{name} asks whichloop as it is imported: put that under if __name__ == '__main__'")


def own_words(error: Exception) -> str:
    """Return what an exception from a user's code says, and the user's line: `KeyError: 'k' at mine.py:7`.

    Empty for an OSError, which names its file, and for a ValueError that passed no line of the user's.
    """
    at = raised_at(error)
    if isinstance(error, OSError) or (isinstance(error, ValueError) and not at):
        return ""
    return f"{type(error).__name__}: {error_text(error)}{f' at {at}' if at else ''}"


def place_of(file: str, line: int) -> str:
    """Return a line of a file as `shop/loop.py:12`, seen from the current directory; of a file elsewhere by its name alone."""
    path = Path(file)
    try:
        return f"{path.resolve().relative_to(Path.cwd()).as_posix()}:{line}"
    except (ValueError, OSError):  # elsewhere, or the directory is gone
        return f"{path.name}:{line}"


def place_in(reason: str) -> tuple[str, int] | None:
    """Return the file and the line that a reason ends with, as `place_of` writes them; None for a file that is not there."""
    file, _, line = reason.rpartition(" at ")[2].rpartition(":")
    is_line = line.isascii() and line.isdecimal() and len(line) < 10
    return (file, int(line)) if is_line and not os.path.isabs(file) and os.path.isfile(file) else None


def raised_at(error: BaseException) -> str:
    """Return the innermost line of a user's file that an exception passed, as `place_of` writes it; empty where it passed none."""
    return _innermost(walk_tb(error.__traceback__))


def running_at(frame: FrameType | None) -> str:
    """Return the innermost line of a user's file on a stack, like `raised_at`."""
    return _innermost(reversed(list(walk_stack(frame)))) if frame is not None else ""


def waiting_at(task: asyncio.Task[Any]) -> str:
    """Return the innermost line of a user's file where a task waits, like `raised_at`."""
    return _innermost(_awaited(task.get_coro()))


def raised_in(error: BaseException | None) -> tuple[Path, int] | None:
    """Return the user's file and line where an error came up, or one that led to it; of a syntax error the line that it names."""
    while error is not None:
        lines = _theirs(walk_tb(error.__traceback__))
        if isinstance(error, SyntaxError) and error.filename and error.lineno and is_theirs(error.filename):
            lines.append((error.filename, error.lineno))
        if lines:
            return Path(lines[-1][0]), lines[-1][1]
        error = error.__cause__ or error.__context__
    return None


def _awaited(coroutine: Any) -> Iterator[tuple[FrameType, int]]:
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        yield frame, frame.f_lineno
        coroutine = coroutine.cr_await


def _theirs(frames: Iterable[tuple[FrameType, int]]) -> list[tuple[str, int]]:
    lines = ((frame.f_code.co_filename, line) for frame, line in frames)
    return [(file, line) for file, line in lines if is_theirs(file)]


def _innermost(frames: Iterable[tuple[FrameType, int]]) -> str:
    lines = _theirs(frames)
    return place_of(*lines[-1]) if lines else ""
