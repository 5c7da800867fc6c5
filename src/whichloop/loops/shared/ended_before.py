"""Work that an event ends: a loop within another one, or a request of a run that can be stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from whichloop.protocol.cancellation import stop_tasks

T = TypeVar("T")


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
