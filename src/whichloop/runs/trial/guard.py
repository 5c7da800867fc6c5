"""The guard between a loop and the trial's model and tools: it keeps the event loop turning, and shuts when the trial ends."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from threading import get_ident

from .watchdog import LAST_ACTIVITY

TURN_S = 0.05
"""Seconds that a trial may keep the event loop to itself."""


class Guard:
    """Admits each request and each call of a trial.

    A scripted model and a pure tool never wait: without a pause now and then, a loop that asks without end would keep its time
    limit, all other trials and Ctrl-C out. Once shut, it lets nothing through: what is left of a loop that swallowed its
    cancellation waits for good, and spends nothing. The same holds for a loop that has used up its number of passes.
    """

    def __init__(self, max_passes: int | None = None) -> None:
        """`max_passes`: of requests and calls together; None for no limit."""
        self.shut = False
        self.passes = 0
        """Number of requests and calls that it was asked to let through."""
        self.max_passes = sys.maxsize if max_passes is None else max_passes
        self._turned_at = time.monotonic()

    @property
    def used_up(self) -> bool:
        """Whether a request or a call came after the last one that may pass."""
        return self.passes > self.max_passes

    async def admit(self) -> None:
        """Let a request or a call through, after a pause if the trial has kept the event loop for long."""
        self.passes += 1
        if self.shut or self.passes > self.max_passes:
            await asyncio.get_running_loop().create_future()
        now = time.monotonic()
        if get_ident() == LAST_ACTIVITY.thread:  # not what a trial does in a thread while it keeps the event loop waiting for it
            LAST_ACTIVITY.at = now
        if now - self._turned_at > TURN_S:
            await asyncio.sleep(0)
            self._turned_at = time.monotonic()


async def stop(running: asyncio.Task[object], grace_s: float) -> bool:
    """Cancel a loop's task and give it `grace_s` seconds to end; False: it swallowed its cancellation and was abandoned."""
    running.cancel()
    has_ended = await ends_within(running, grace_s)
    if not has_ended:
        _abandon(running)
    return has_ended


async def ends_within(running: asyncio.Task[object], seconds: float) -> bool:
    """Say whether a task ends within a time; `asyncio.wait` for one task, in half the time. Cancelled, it leaves the task alone."""
    if running.done():
        return True
    event_loop = asyncio.get_running_loop()
    waiting = event_loop.create_future()

    def wake(_: object = None) -> None:
        if not waiting.done():
            waiting.set_result(None)

    clock = event_loop.call_later(seconds, wake)
    running.add_done_callback(wake)
    try:
        await waiting
    finally:
        clock.cancel()
        running.remove_done_callback(wake)
    return running.done()


def _abandon(running: asyncio.Task[object]) -> None:
    """End a task by force: left alone, it would run on beside other trials, and asyncio.run would wait for it without end."""
    coroutine = running.get_coro()
    if coroutine is not None:
        with contextlib.suppress(RuntimeError):  # "coroutine ignored GeneratorExit"
            coroutine.close()
    running.add_done_callback(lambda task: task.cancelled() or task.exception())  # looked at, so that nothing is logged
    running.cancel()  # wakes the task, which finds its coroutine closed and ends
