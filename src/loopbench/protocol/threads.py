"""Calls functions that block without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any


async def in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function like `asyncio.to_thread`, on a new daemon thread: no other call, nor the exit, waits for one that hangs."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(value: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((value, error))
        elif inspect.iscoroutine(value):
            value.close()  # too late: nobody will await it

    def work() -> None:
        try:
            outcome: tuple[Any, BaseException | None] = (context.run(function, *args, **kwargs), None)
        except BaseException as error:  # carried to the caller, who sorts it
            outcome = (None, error)
        try:
            loop.call_soon_threadsafe(deliver, *outcome)
        except RuntimeError:  # the caller gave up and its event loop has closed
            if inspect.iscoroutine(outcome[0]):
                outcome[0].close()

    threading.Thread(target=work, name=f"call-{getattr(function, '__name__', 'call')}", daemon=True).start()
    value, error = await done
    if error is not None:
        raise error
    return await value if inspect.isawaitable(value) else value  # a plain function may wrap an async one
