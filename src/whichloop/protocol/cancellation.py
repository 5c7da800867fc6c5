"""How a CancelledError is judged, which leaves a run only if somebody cancels the run itself, and how tasks are stopped.

A tool that awaits a task of somebody else's gets that task's CancelledError. To the run it is an error like any other: whoever
waits for the run has cancelled nothing, and would lose it without a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from .model import ModelError, ProviderError

T = TypeVar("T")


def is_being_cancelled() -> bool:
    """Return whether somebody cancels the task that runs: a caller, a time limit, a task group."""
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


async def stop_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, such as the siblings of one that failed, and wait until all have ended, whatever they raise."""
    stopping = list(tasks)
    for task in stopping:
        if not task.cancelling():  # a second cancellation would interrupt its clean-up
            task.cancel()
    await asyncio.gather(*stopping, return_exceptions=True)


async def ended_before(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> asyncio.Task[T] | None:
    """Return the task of `work` once that has ended, or None once the event is set.

    Nothing goes on running afterwards, nor after a cancellation. Raises RuntimeError for an event of another event loop.
    """
    running, watcher = asyncio.create_task(work), asyncio.create_task(event.wait())
    try:
        await asyncio.wait({running, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running
        watcher.result()  # raises for an event of another event loop, which is not set
        return None
    finally:
        await stop_tasks((running, watcher))
