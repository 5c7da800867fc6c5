"""A call of the user's own that lacks its `await`, told by what came out of a run: an exception, or the call's coroutine itself."""

from __future__ import annotations

import asyncio
import inspect
import linecache
import re
from types import FrameType
from typing import Any

from .own_code import is_theirs, place_of, raised_at


def missing_await(result: object) -> str:
    """Return which call lacks its `await` if a result or an exception came of that, of an exception also where; empty otherwise.

    The coroutine is closed: Python would warn later that nobody awaited it, and name whatever line of ours runs then.
    """
    if isinstance(result, BaseException):
        return _cause_of(result)
    if not inspect.iscoroutine(result):
        return ""
    result.close()
    return f"an await is missing before {result.__name__}(…), whose coroutine was returned"


def _cause_of(error: BaseException) -> str:
    if not isinstance(error, AttributeError | TypeError) or not _OF_A_COROUTINE.search(str(error)):
        return ""
    frames = _frames(error)
    held = [(frame, line, value) for frame, line in frames for value in frame.f_locals.values() if _is_unawaited(value)]
    coroutine: Any = error.obj if isinstance(error, AttributeError) else next((value for _, _, value in held), None)
    if not _is_unawaited(coroutine):
        return ""
    coroutine.close()
    name = coroutine.__name__
    at = next((_called_at(frame, line, name) for frame, line, value in held if value is coroutine), raised_at(error))
    return f"an await is missing before {name}(…){f' at {at}' if at else ''}"


_OF_A_COROUTINE = re.compile(r"'coroutine'|, not coroutine\b|, coroutine found")
"""How Python says that a coroutine stands where its result was meant; an error of the user's own may speak of coroutines, too."""


def _frames(error: BaseException) -> list[tuple[FrameType, int]]:
    """Return the frames of the user's code that an exception passed, the outermost first, each with its line."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        if is_theirs(trace.tb_frame.f_code.co_filename):
            frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return frames


def _is_unawaited(value: Any) -> bool:
    """Return whether this is a coroutine that has not begun, and that no task will begin, or one that was closed, as by an earlier
    look at the exception."""
    states = (inspect.CORO_CREATED, inspect.CORO_CLOSED)
    return inspect.iscoroutine(value) and inspect.getcoroutinestate(value) in states and not _is_a_tasks(value)


def _is_a_tasks(coroutine: Any) -> bool:
    try:
        return any(task.get_coro() is coroutine for task in asyncio.all_tasks())
    except RuntimeError:  # no event loop runs in this thread
        return False


def _called_at(frame: FrameType, line: int, name: str) -> str:
    """Return where a frame, which came as far as a line, called a function: the last such call without `await` before it."""
    file = frame.f_code.co_filename
    call = re.compile(rf"(?<!await )(?<![\w.])[\w.]*\b{re.escape(name)}\(")
    lines = range(line, frame.f_code.co_firstlineno, -1)
    return place_of(file, next((number for number in lines if call.search(linecache.getline(file, number))), line))
