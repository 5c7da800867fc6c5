"""Calling the user's hooks: an async one in place, a plain one off the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from loopbench.protocol import BudgetExceeded, ModelError
from loopbench.protocol.tools import error_text


class ParseError(Exception):
    """No valid `__finish__` within the retries."""


class HookFailed(Exception):
    """`on_step` or `on_stream` raised."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error_text(error)}")
        self.error = error


async def call_hook(hook: Callable[[Any], Any], argument: Any) -> Any:
    """What the hook returns. Raises HookFailed, except for what a branch inside it may end with (row S3-17)."""
    try:
        if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(getattr(hook, "__call__", None)):  # noqa: B004
            return await hook(argument)
        return await _off_loop(hook, argument)
    except (BudgetExceeded, ParseError, ModelError):
        raise
    except Exception as error:
        raise HookFailed(error) from error


async def _off_loop(function: Callable[[Any], Any], argument: Any) -> Any:
    """Like asyncio.to_thread, but on a daemon thread: a hook that hangs blocks neither other runs nor exit."""
    done: Future[tuple[Any, BaseException | None]] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            done.set_result((context.run(function, argument), None))
        except BaseException as error:  # carried to the caller; a future would not take a StopIteration
            done.set_result((None, error))

    done.set_running_or_notify_cancel()
    threading.Thread(target=work, name="hook", daemon=True).start()
    value, error = await asyncio.wrap_future(done)
    if error is not None:
        raise error
    return await value if inspect.isawaitable(value) else value  # a plain function may wrap an async one
