"""SQLite connections that only the thread that opened them may use, while tools run on threads of their own."""

from __future__ import annotations

import contextlib
import inspect
import sqlite3
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from whichloop.protocol import Tool

CURE = "open it with sqlite3.connect(…, check_same_thread=False)"
_SAME_THREAD = "SQLite objects created in a thread can only be used in that same thread"
"""What SQLite's module says to another thread; it goes on with the threads' numbers, which differ from run to run."""


def bound_connection(tool: Tool) -> str:
    """Return, with its cure, which connection that no other thread may use a tool would use now; empty if there is none.

    Looks at what the tool's module or object holds, at what the functions of that module that the tool calls use, and at what they
    keep in a cache: a tool that opens its connection on its first call has one from then on.
    """
    for label, value in _values_used(tool.function) if tool.blocking else ():
        if isinstance(value, sqlite3.Connection) and _is_bound_to_its_thread(value):
            return f"{tool.name} uses {label}, a SQLite connection that no other thread may use; {CURE}"
    return ""


def cured(error: str) -> str:
    """Return the message of a tool's error with the cure in front, where a connection was used on another thread than its own."""
    return f"{CURE} ({_SAME_THREAD})" if error.startswith(_SAME_THREAD) else error


def _values_used(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a function uses of its module, what it closes over, and what its object holds, with names."""
    plain = inspect.unwrap(function.__func__ if inspect.ismethod(function) else function)
    if inspect.iscoroutinefunction(plain):
        return  # it runs on the event loop's thread
    waiting, met = [plain], {plain}
    while waiting:
        for label, value in _variables(waiting.pop()).items():
            yield label, value
            helper = inspect.unwrap(value) if callable(value) else None
            if isinstance(helper, FunctionType) and helper.__module__ == plain.__module__ and helper not in met:
                met.add(helper)
                waiting.append(helper)
                yield from _cached(label, value, helper)
    yield from getattr(getattr(function, "__self__", None), "__dict__", {}).items()


def _variables(function: Callable[..., Any]) -> dict[str, Any]:
    with contextlib.suppress(TypeError, ValueError):  # no function, or a name that it closes over has no value yet
        variables = inspect.getclosurevars(function)
        return {**variables.globals, **variables.nonlocals}
    return {}


def _cached(label: str, value: Any, helper: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what a function without arguments keeps in the cache of `functools`, where it has been called."""
    is_filled = hasattr(value, "cache_info") and value.cache_info().currsize > 0
    if is_filled and not inspect.signature(helper).parameters:
        yield f"{label}()", value()


def _is_bound_to_its_thread(connection: sqlite3.Connection) -> bool:
    """Ask for a cursor, which changes nothing, from this thread and from another: the connection's own may have ended, and one of
    the two may have its number."""
    refused = []

    def ask() -> None:
        try:
            connection.cursor().close()
        except sqlite3.ProgrammingError as error:
            refused.append("thread" in str(error))

    ask()
    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()
    return any(refused)
