"""Calling the user's hooks: an async hook in place, a plain one off the event loop.

Rows such as S3-17 are those of docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whichloop.protocol import ModelError, StopRun
from whichloop.protocol.threads import in_thread, is_async_function
from whichloop.protocol.values import error_text


class ParseError(Exception):
    """No valid `__finish__` within the retries."""


class HookFailed(Exception):
    """`on_step` or `on_stream` raised."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error_text(error)}")
        self.error = error


async def call_hook(hook: Callable[[Any], Any], argument: Any) -> Any:
    """Return what the hook returns. Raises HookFailed, except for the errors that may end a branch inside it (row S3-17)."""
    try:
        if is_async_function(hook):
            return await hook(argument)
        return await in_thread(hook, argument)
    except (StopRun, ParseError, ModelError):
        raise
    except Exception as error:
        raise HookFailed(error) from error
