"""A trial that lets nothing else run: its event loop does not turn, so neither its time limit nor Ctrl-C gets through.

A thread looks whether the event loop still turns, and sends a signal to the main thread where it does not. The signal's handler
runs inside of whatever holds the loop up, sees by a context variable which trial that is, and interrupts a trial that has held it
for longer than its time limit. The signal is SIGURG: nothing happens to a process that does not expect it, and libraries leave it
alone; Go's `src/runtime/signal_unix.go` uses it for these reasons.

What a trial holds up is no time of the others': the event loop's clock stands still while it does not turn, and with it every time
limit in the run. Where the event loop does not run in the main thread, or code in C holds on to the interpreter, all that is left
is to say so; a worker process is killed by the pool then.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass

LOOK_S = 0.25
"""Seconds between two looks of the thread, which has the event loop show that it turns."""
STUCK_S = 0.5
"""An event loop that has not turned for so long is held up."""
GRACE_S = 1.0
"""Added to the time limit before a trial is interrupted."""
HOPELESS_S = 5.0
"""After that, and so long again, an interruption has not helped."""
MAX_INTERRUPTIONS = 10
"""Of one trial: it may swallow them."""


class _Passed:
    """When a trial of this process last came to a request or a call: with hundreds in flight that are all ready, one turn of the
    event loop may take long although nobody holds it up."""

    at = 0.0
    thread = 0
    """The thread of the event loop that is watched."""


LAST_ACTIVITY = _Passed()


class Interrupted(BaseException):
    """Raised inside of a trial that let nothing else run for longer than its time limit."""


@dataclass(slots=True, eq=False)
class BlockingTime:
    """How far one trial has kept the event loop to itself."""

    name: str
    seconds: float = 0.0
    interruptions: int = 0
    task: asyncio.Task[object] | None = None
    """Which is cancelled, too: a toolbox takes the interruption of a tool for the tool's failure."""

    @property
    def reason(self) -> str:
        """Why the trial was interrupted; empty if it was not."""
        return f"it let nothing else run for {self.seconds:.1f} s, and was interrupted" if self.interruptions else ""

    @contextlib.contextmanager
    def inherited(self) -> Iterator[None]:
        """Tasks that are made inside, and all that they make, are this trial's."""
        token = HOLD.set(self)
        try:
            yield
        finally:
            HOLD.reset(token)


HOLD: ContextVar[BlockingTime | None] = ContextVar("loopbench_hold", default=None)
"""The hold of the trial that the running code belongs to."""


class Watch:
    """Watches one event loop."""

    def __init__(self, limit_s: float, told: Callable[[str], None]) -> None:
        """`limit_s`: of a trial. `told`, from another thread: that the loop is held up and nothing can be done, once per time."""
        self.limit_s = limit_s + GRACE_S
        self.told = told
        self._loop = asyncio.get_running_loop()
        self._clock = _Clock()
        self._turned_at = self._looked_at = time.monotonic()
        self._last: BlockingTime | None = None
        self._asked = False
        self._over = threading.Event()

    @property
    def stuck_s(self) -> float:
        """Seconds that the event loop has not turned; 0 while it does."""
        seconds = time.monotonic() - max(self._turned_at, LAST_ACTIVITY.at)
        return seconds if seconds > STUCK_S else 0.0

    def turn(self) -> None:
        """Called by the event loop, again and again; not by its clock, which stands still at times."""
        self._turned_at, self._last, self._asked = time.monotonic(), None, False

    def _ask(self) -> None:
        """Have the event loop show itself, in its next turn."""
        if not self._asked:
            self._asked = True
            with contextlib.suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(self.turn)

    def look(self, main: int | None) -> None:
        """The thread's work; `main` is to be signalled, if it is the event loop's."""
        told = False
        while not self._over.wait(LOOK_S):
            self._ask()
            stuck_s = self.stuck_s
            if stuck_s and main is not None:
                signal.pthread_kill(main, signal.SIGURG)
            if stuck_s < self.limit_s + HOPELESS_S:
                told = told and stuck_s > 0
            elif not told:
                told = True
                who = "nothing has run" if self._last is None else f"{self._last.name} has let nothing else run"
                self.told(f"{who} for {stuck_s:.0f} s, and cannot be interrupted")

    def signalled(self, *_: object) -> None:
        """The signal's handler, inside of whatever holds the event loop up. Raises Interrupted there, if it is a trial's time."""
        now = time.monotonic()
        if not self.stuck_s:
            return
        held_s = now - max(self._turned_at, LAST_ACTIVITY.at, self._looked_at)
        self._looked_at = now
        self._clock.stopped(held_s)
        hold = self._last = HOLD.get()
        if hold is None:
            return
        hold.seconds += held_s
        if hold.seconds > self.limit_s and hold.interruptions < MAX_INTERRUPTIONS:
            hold.interruptions += 1
            if hold.task is not None:
                hold.task.cancel()
            raise Interrupted(hold.reason)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch within this block; the event loop must be running."""
        main = threading.main_thread().ident if threading.current_thread() is threading.main_thread() else None
        thread = threading.Thread(target=self.look, args=(main,), name="watchdog", daemon=True)
        LAST_ACTIVITY.thread = threading.get_ident()
        with self._clock.of(self._loop), self._handler(main):
            self.turn()
            thread.start()
            try:
                yield
            finally:
                self._over.set()
                thread.join()

    @contextlib.contextmanager
    def _handler(self, main: int | None) -> Iterator[None]:
        if main is None:
            yield
            return
        before = signal.signal(signal.SIGURG, self.signalled)
        try:
            yield
        finally:
            signal.signal(signal.SIGURG, before)


class _Clock:
    """An event loop's clock that can be stopped for a while; it never goes back."""

    def __init__(self) -> None:
        self._behind_s = 0.0
        self._latest = 0.0

    def stopped(self, seconds: float) -> None:
        """The last so many seconds do not count, but for what has been told of them already."""
        self._behind_s = min(self._behind_s + seconds, time.monotonic() - self._latest)

    def time(self) -> float:
        self._latest = max(self._latest, time.monotonic() - self._behind_s)
        return self._latest

    @contextlib.contextmanager
    def of(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """`loop` goes by this clock. One written in C may have a clock that cannot be replaced; it keeps its own."""
        try:
            loop.time = self.time  # type: ignore[method-assign]
        except AttributeError:
            yield
            return
        try:
            yield
        finally:
            del loop.time
