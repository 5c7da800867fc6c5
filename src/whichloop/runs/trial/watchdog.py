"""Notices a trial that blocks the event loop, so that neither its time limit nor Ctrl-C can take effect.

A thread checks whether the event loop still turns, and knows the line of the user's code that it is at. The pool ends a worker
process whose event loop is blocked for longer than a trial's time limit; in the command's own process a hang is told, and has no
limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from threading import get_ident

from whichloop.protocol.own_code import running_at

LOOK_S = 0.25
"""Seconds between two checks by the thread, which asks the event loop to show that it turns."""
STUCK_S = 0.5
"""Seconds without a turn after which an event loop counts as blocked."""
HANGS_S = 10.0
"""Seconds without a turn after which that is told, or half of a trial's limit if that is less."""
PAUSE_S = 1.0
"""Seconds between two checks by the thread, beyond which this process was not running."""


class LoopActivity:
    """The last sign that the trials of this process move on: with hundreds in flight that are all ready, one turn of the event loop
    may take long although nobody holds it up."""

    at = 0.0
    """Monotonic time at which a trial last came to a request or a call."""
    thread = 0
    """The thread of the event loop that is watched."""
    blocked_s = 0.0
    """Seconds for which the event loop was blocked, which count for no trial that waited meanwhile."""


LAST_ACTIVITY = LoopActivity()


class Watch:
    """Watches one event loop."""

    def __init__(self, limit_s: float, report: Callable[[str], None]) -> None:
        """`limit_s`: of a trial. `report`: called from another thread, once for each time that the loop is blocked for long."""
        self.hangs_s, self.report = min(HANGS_S, limit_s / 2), report
        self._loop = asyncio.get_running_loop()
        self._turned_at = self._looked_at = self._resumed_at = time.monotonic()
        self._is_asked = self._is_told = False
        self._is_over = threading.Event()

    @property
    def stuck_s(self) -> float:
        """Return for how many seconds the event loop has not turned; 0 while it does, and while this process does not run."""
        now = time.monotonic()
        seconds = now - max(self._turned_at, LAST_ACTIVITY.at, self._resumed_at)
        return seconds if seconds > STUCK_S and now - self._looked_at < PAUSE_S else 0.0

    @property
    def place(self) -> str:
        """Return file and line of the user's code that holds the event loop up; empty while it turns, or if that is not known."""
        return running_at(sys._current_frames().get(LAST_ACTIVITY.thread)) if self.stuck_s else ""

    def turn(self) -> None:
        """Note that the event loop turns."""
        LAST_ACTIVITY.blocked_s += self.stuck_s
        self._turned_at, self._is_asked, self._is_told = time.monotonic(), False, False

    def look(self) -> None:
        """Check the event loop until the end, in the thread."""
        while not self._is_over.wait(LOOK_S):
            now = time.monotonic()
            if now - self._looked_at > PAUSE_S:
                self._resumed_at = now
            self._looked_at = now
            if not self._is_asked:
                self._is_asked = True
                with contextlib.suppress(RuntimeError):  # it is closed
                    self._loop.call_soon_threadsafe(self.turn)
            if (seconds := self.stuck_s) >= self.hangs_s and not self._is_told:
                self._is_told = True
                self.report(blocked_line(seconds, self.place))

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch within this block; the event loop must be running."""
        thread = threading.Thread(target=self.look, name="watchdog", daemon=True)
        LAST_ACTIVITY.thread = get_ident()
        self.turn()
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()


def blocked_line(seconds: float, place: str) -> str:
    """Return what is told of an event loop that has not turned for long."""
    where = f", at {place}" if place else ""
    return f"nothing else has run for {seconds:.0f} s{where}: a trial computes, or waits without await"


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
