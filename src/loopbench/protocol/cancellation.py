"""Whose a CancelledError is: that of whoever cancels the run, which leaves it at once, or of some other task that was cancelled.

A tool that awaits a task of somebody else's gets that task's CancelledError. To the run it is an error like any other: whoever
waits for the run has cancelled nothing, and would lose it without a word.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from .model import ModelError, ProviderError

T = TypeVar("T")


def is_being_cancelled() -> bool:
    """Whether somebody cancels the task that runs: a caller, a time limit, a task group."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def failure_of_model(error: ModelError | asyncio.CancelledError) -> ModelError:
    """Return what a model has failed with. Raises the CancelledError itself if somebody cancels the task that runs."""
    if isinstance(error, ModelError):
        return error
    if is_being_cancelled():
        raise error
    failure = ProviderError("the model raised CancelledError: a task that it awaited was cancelled", "connection")
    failure.__cause__ = error
    return failure


async def to_its_end(future: asyncio.Future[T]) -> T:
    """Return the result of a future that no cancellation cuts off. Raises what the future has, else a cancellation of meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            cancelled = error
    result = future.result()
    if cancelled is not None:
        raise cancelled
    return result
