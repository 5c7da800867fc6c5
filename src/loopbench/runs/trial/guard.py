"""What stands between a loop and the trial's model and tools: it keeps the event loop turning, and shuts when the trial is over."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from threading import get_ident
from typing import cast

from loopbench.models.metering import Listener, Meter, MeteredModel, MeteredToolbox
from loopbench.models.tunnel import Tunnel
from loopbench.protocol import Chunk, Model, Observation, Reply, Request, Tool, ToolCall

from .watchdog import LAST_ACTIVITY

TURN_S = 0.05
"""Seconds that a trial may keep the event loop to itself."""


class Guard:
    """Passed by each request and each call.

    A scripted model and a pure tool never wait: without a pause now and then, a loop that asks without end would keep its time
    limit, all other trials and Ctrl-C out. Once shut, it lets nothing through: what is left of a loop that swallowed its
    cancellation waits for good, and spends nothing.
    """

    def __init__(self) -> None:
        self.shut = False
        self.passed_at = self._turned_at = time.monotonic()

    def is_free(self) -> bool:
        """Whether there is nothing to wait for. A trial that comes by holds nothing up."""
        if self.shut:
            return False
        self.passed_at = now = time.monotonic()
        if get_ident() == LAST_ACTIVITY.thread:  # not what a trial does in a thread while it keeps the event loop waiting for it
            LAST_ACTIVITY.at = now
        return now - self._turned_at <= TURN_S

    async def enter(self) -> None:
        if self.shut:
            await asyncio.get_running_loop().create_future()
        if not self.is_free():
            await asyncio.sleep(0)
            self._turned_at = time.monotonic()


class GuardedModel(MeteredModel):
    """A metered model behind a turnstile."""

    def __init__(self, turnstile: Guard, model: Model, meter: Meter, listener: Listener, tunnel: Tunnel | None) -> None:
        super().__init__(model, meter, listener, tunnel)
        self.turnstile = turnstile

    async def complete(self, request: Request) -> Reply:
        if not self.turnstile.is_free():
            await self.turnstile.enter()
        return await super().complete(request)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        await self.turnstile.enter()
        chunks = cast(AsyncGenerator[Chunk, None], super().stream(request))
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                yield chunk


class GuardedToolbox(MeteredToolbox):
    """A metered toolbox behind a turnstile."""

    def __init__(
        self, turnstile: Guard, tools: Iterable[Tool], listener: Listener, tunnel: Tunnel | None, time_limit_s: float
    ) -> None:
        super().__init__(tools, listener, tunnel, time_limit_s=time_limit_s)
        self.turnstile = turnstile

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        if not self.turnstile.is_free():
            await self.turnstile.enter()
        return await super().call(call, validate=validate)


async def stop(running: asyncio.Task[object], grace_s: float) -> bool:
    """Cancel a loop's task and give it `grace_s` seconds to end; False: it swallowed its cancellation and was abandoned."""
    running.cancel()
    done = await ends_within(running, grace_s)
    if not done:
        _abandon(running)
    return done


async def ends_within(running: asyncio.Task[object], seconds: float) -> bool:
    """Whether a task ends within a time; `asyncio.wait` for one task, in half the time. Cancelled, it leaves the task alone."""
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
    running.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # looked at, so that nothing is logged
    running.cancel()  # wakes the task, which finds its coroutine closed and ends
