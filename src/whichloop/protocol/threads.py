"""How synchronous code runs a coroutine, and how a coroutine calls a function that blocks.

| to run a coroutine | inside an event loop | synchronous tools run |
|---|---|---|
| `run_sync`, for users | RuntimeError, except in a notebook's cell | here |
| `run_here`, where a design's document lets its synchronous face be called anywhere | that event loop waits | here |
| `run_blocking`, for our own calls | that event loop waits | on threads of their own |

`beside_event_loop` calls a function here if the caller is a `run_sync` or `run_here` that waits, else `in_thread`.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
import threading
from asyncio.events import _set_running_loop
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

_WAITS: ContextVar[bool] = ContextVar("whichloop_caller_waits", default=False)
"""Whether a synchronous caller waits on this thread, so that blocking it holds nobody up."""


def is_async_function(function: object) -> bool:
    """Return whether a call of a function, a partial, a method or a callable object only makes a coroutine."""
    return any(map(inspect.iscoroutinefunction, _called(function)))


def is_generator_function(function: object) -> bool:
    """Return whether a call of a function, a partial, a method or a callable object only makes a generator, async or not."""
    return any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in _called(function))


def _called(function: object) -> tuple[Any, Any]:
    """Return what a call of a function may run: itself, and its method if it is an object."""
    while isinstance(function, partial):
        function = function.func
    return function, None if inspect.isclass(function) else getattr(function, "__call__", None)  # noqa: B004


def caller_waits() -> bool:
    """Return whether the event loop was started by `run_sync` or `run_here`, on the thread of its caller."""
    return _WAITS.get()


def run_here(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on this thread, and its synchronous tools with it, also where an event loop runs already."""
    with _outside_event_loop(caller_waits=True):
        return asyncio.run(coroutine)


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, such as `loop.run(…)`, to its end on this thread, and its synchronous tools with it.

    A notebook's cell may call it. Raises RuntimeError inside a coroutine: its event loop would serve nobody until the run ends.
    """
    interactive = getattr(sys.modules.get("IPython"), "get_ipython", None)  # whose cells are coroutines
    if not in_event_loop() or (interactive is not None and interactive() is not None):
        return run_here(coroutine)
    coroutine.close()
    raise RuntimeError("run_sync inside a coroutine holds its event loop up: write `await loop.run(…)`")


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on this thread; an event loop that runs here already waits. Its tools get threads of their own."""
    result: T = call_here(asyncio.run, coroutine)
    return result


def in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def call_here(function: Callable[..., object], *args: object, **kwargs: object) -> Any:
    """Call a function on the event loop's own thread as if no event loop ran: it may start one itself."""
    with _outside_event_loop(caller_waits=False):
        return function(*args, **kwargs)


@contextmanager
def _outside_event_loop(*, caller_waits: bool) -> Iterator[None]:
    """Let synchronous code run as if no event loop ran on this thread, in the way that the documentation of asyncio's
    `_enter_task` and `_leave_task` ("Extending asyncio") gives to those who switch between tasks themselves."""
    before = _WAITS.set(caller_waits)
    loop = asyncio.get_running_loop() if in_event_loop() else None
    task = None if loop is None else asyncio.current_task()
    if loop is not None and task is not None:
        asyncio._leave_task(loop, task)
    _set_running_loop(None)
    try:
        yield
    finally:
        _set_running_loop(loop)
        if loop is not None and task is not None:
            asyncio._enter_task(loop, task)
        _WAITS.reset(before)


async def beside_event_loop(function: Callable[..., object], *args: object, **kwargs: object) -> Any:
    """Call a function that blocks: on the thread of a synchronous caller if one waits, else on a thread of its own."""
    return call_here(function, *args, **kwargs) if caller_waits() else await in_thread(function, *args, **kwargs)


async def in_thread(function: Callable[..., object], *args: object, **kwargs: object) -> object:
    """Call a function like `asyncio.to_thread`, on a new daemon thread: no other call, nor the exit, waits for one that hangs."""
    value, error = await begin_in_thread(function, *args, **kwargs)
    if error is not None:
        raise error
    return await value if inspect.isawaitable(value) else value  # a plain function may wrap an async one


def begin_in_thread(
    function: Callable[..., object], *args: object, **kwargs: object
) -> asyncio.Future[tuple[Any, BaseException | None]]:
    """Begin a call on a new daemon thread, and return what comes of it: a value, or the error that it raised instead."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()
    context.run(_WAITS.set, False)

    def deliver(value: object, error: BaseException | None = None) -> None:
        if not done.done():
            done.set_result((value, error))

    def work() -> None:
        try:
            came: tuple[Any, ...] = (context.run(function, *args, **kwargs),)
        except BaseException as error:  # carried to the caller, who sorts it
            came = (None, error)
        with suppress(RuntimeError):  # the caller gave up and its event loop has closed
            loop.call_soon_threadsafe(deliver, *came)

    threading.Thread(target=work, name=f"call-{getattr(function, '__name__', 'call')}", daemon=True).start()
    return done
