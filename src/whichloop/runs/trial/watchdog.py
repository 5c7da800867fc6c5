"""Interrupt a trial that blocks the event loop, so that neither its time limit nor Ctrl-C could take effect.

A thread checks whether the event loop still turns, and signals the main thread if it does not. The signal's handler
runs inside of whatever holds the loop up, sees by a context variable which trial that is, and interrupts a trial that has held it
for longer than its time limit. The signal is SIGURG: nothing happens to a process that does not expect it, and libraries leave it
alone; Go's `src/runtime/signal_unix.go` uses it for these reasons.

The time for which one trial blocks does not count for the others: the event loop's clock stops meanwhile, and with it every time
limit in the run. Nor does time count in which this process was stopped or got no processor: the thread's checks come late then,
although the process computes nothing. If the event loop does not run in the main thread, or code in C holds on to the interpreter,
the watchdog can only report it, with the place where the code is; the pool then kills a worker process.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from threading import get_ident
from types import FrameType

from whichloop.protocol.own_code import running_at
from whichloop.runs.silent_end import interrupted

LOOK_S = 0.25
"""Seconds between two checks by the thread, which asks the event loop to show that it turns."""
STUCK_S = 0.5
"""Seconds without a turn after which an event loop counts as blocked."""
GRACE_S = 1.0
"""Seconds beyond the time limit before a trial is interrupted."""
HANGS_S = 10.0
"""Seconds without a turn of the event loop after which the trial that holds it up is told, or half of its limit if that is less."""
HOPELESS_S = 5.0
"""Seconds after which an interruption counts as failed, and after which that is reported again."""
MAX_PAUSE_S = 1.0
"""Seconds between two checks by the thread, beyond which this process was not running, unless it computed all that time."""
SLEEPING_SHARE = 0.01
"""Share of a processor below which a trial that holds the event loop sleeps. One that uses more computes, and what it uses counts:
how much that is in a second depends on what else the machine does."""
SLOWEST = 10
"""Multiple of a trial's time limit that may pass on the clock before one that computes is interrupted, however little it gets."""
MAX_INTERRUPTIONS = 10
"""Maximum number of interruptions of one trial, which may swallow them."""


class LoopActivity:
    """The last sign that the trials of this process move on: with hundreds in flight that are all ready, one turn of the event loop
    may take long although nobody holds it up."""

    at = 0.0
    """Monotonic time at which a trial last came to a request or a call."""
    thread = 0
    """The thread of the event loop that is watched."""


LAST_ACTIVITY = LoopActivity()


class Interrupted(BaseException):
    """Raised inside a trial that blocked the event loop for longer than its time limit."""


@dataclass(slots=True, eq=False)
class BlockingTime:
    """How long one trial has blocked the event loop."""

    name: str
    seconds: float = 0.0
    interruptions: int = 0
    at: str = ""
    """File and line of the user's code that it was in when it was first interrupted; empty where that is not known."""
    task: asyncio.Task[object] | None = None
    """The trial's task, which is cancelled, too: a toolbox takes the interruption of a tool for the tool's failure."""

    @property
    def reason(self) -> str:
        """Return why the trial was interrupted; empty if it was not."""
        return interrupted(self.seconds, self.at) if self.interruptions else ""

    @contextlib.contextmanager
    def inherited(self) -> Iterator[None]:
        """Attribute tasks that are made inside this block, and all that they make, to this trial."""
        token = CURRENT_BLOCKING.set(self)
        try:
            yield
        finally:
            CURRENT_BLOCKING.reset(token)


CURRENT_BLOCKING: ContextVar[BlockingTime | None] = ContextVar("whichloop_blocking", default=None)
"""The blocking time of the trial that the running code belongs to."""


class HangingTrials:
    """The trials that were told to let nothing else run, long before their time was up."""

    def __init__(self, limit_s: float) -> None:
        """`limit_s`: of a trial."""
        self._limit_s = limit_s
        self._warned = set[str]()

    def warning(self, trial: str, stuck_s: float) -> str:
        """Return what is to be said of a trial that has held an event loop up for so long; empty where that is nothing."""
        if stuck_s < min(HANGS_S, self._limit_s / 2) or not trial or trial in self._warned:
            return ""
        self._warned.add(trial)
        return (
            f"{trial} has let nothing else run for {stuck_s:.0f} s: it computes, or waits without await; it is interrupted after "
            f"{self._limit_s:g} s (trial_timeout_s), and where that cannot be, its process is killed some seconds later"
        )


class Watch:
    """Watches one event loop."""

    def __init__(self, limit_s: float, report: Callable[[str], None]) -> None:
        """Make a watch. `limit_s`: of a trial. `report`: called from another thread, once for each trial that holds the loop up for
        long, and once each time the loop stays blocked."""
        self.limit_s = limit_s + GRACE_S
        self.report = report
        self._loop = asyncio.get_running_loop()
        self._clock = _Clock()
        self._turned_at = self._looked_at = self._resumed_at = time.monotonic()
        self._computed_s = time.thread_time()
        """Processor time of the event loop's thread when it was last looked at."""
        self._last_holder: BlockingTime | None = None
        self._turn_requested = False
        self._is_over = threading.Event()
        self._hanging = HangingTrials(limit_s)

    @property
    def stuck_s(self) -> float:
        """Return for how many seconds the event loop has not turned; 0 while it does."""
        seconds = time.monotonic() - max(self._turned_at, LAST_ACTIVITY.at, self._resumed_at)
        return seconds if seconds > STUCK_S else 0.0

    @property
    def holder(self) -> str:
        """Return which trial was last seen to hold the event loop up since it last turned; empty if none was."""
        last = self._last_holder
        return "" if last is None else last.name

    @property
    def place(self) -> str:
        """Return file and line of the user's code that holds the event loop up; empty while it turns, or if that is not known."""
        return running_at(sys._current_frames().get(LAST_ACTIVITY.thread)) if self.stuck_s else ""

    @property
    def is_counting(self) -> bool:
        """Whether what holds the event loop up hears the signals, so that it is interrupted once it has computed for its limit,
        which takes longer on a machine with more to do; not where it has swallowed its interruptions."""
        last = self._last_holder
        heard = time.monotonic() - self._looked_at < HOPELESS_S
        return last is not None and heard and last.interruptions < MAX_INTERRUPTIONS

    def turn(self) -> None:
        """Note that the event loop turns. The loop calls this again and again, not by its clock, which stops at times."""
        self._turned_at, self._last_holder, self._turn_requested = time.monotonic(), None, False
        self._computed_s = time.thread_time()

    def look(self, main: int | None) -> None:
        """Check the event loop until the end, in the thread. `main`: the thread to signal, if it runs the event loop."""
        is_reported = False
        while not self._is_over.wait(LOOK_S):
            if self._clock.beat():
                self._resumed_at = time.monotonic()
            if not self._turn_requested:
                self._turn_requested = True
                with contextlib.suppress(RuntimeError):  # it is closed
                    self._loop.call_soon_threadsafe(self.turn)
            stuck_s = self.stuck_s
            if stuck_s and main is not None:
                signal.pthread_kill(main, signal.SIGURG)
            if warning := self._hanging.warning(self.holder, stuck_s):
                self.report(warning)
            if stuck_s < self.limit_s + HOPELESS_S:
                is_reported = is_reported and stuck_s > 0
            elif not is_reported:
                is_reported = True
                who = "nothing has run" if self._last_holder is None else f"{self._last_holder.name} has let nothing else run"
                self.report(
                    f"{who} for {stuck_s:.0f} s and cannot be interrupted; --workers N runs trials in processes, which can be ended"
                )

    def signalled(self, _: int = 0, frame: FrameType | None = None) -> None:
        """Handle the signal inside whatever blocks the event loop. Raises Interrupted there if a trial's time is up."""
        now = time.monotonic()
        if not self.stuck_s:
            return
        held_s = now - max(self._turned_at, LAST_ACTIVITY.at, self._resumed_at, self._looked_at)
        computed_s, self._computed_s = min(time.thread_time() - self._computed_s, held_s), time.thread_time()
        self._looked_at = now
        self._clock.stopped(held_s)
        blocking = self._last_holder = CURRENT_BLOCKING.get()
        if blocking is None:
            return
        blocking.seconds += held_s if computed_s < SLEEPING_SHARE * held_s else max(computed_s, held_s / SLOWEST)
        if blocking.seconds > self.limit_s and blocking.interruptions < MAX_INTERRUPTIONS:
            blocking.interruptions += 1
            blocking.at = blocking.at or running_at(frame)
            if blocking.task is not None:
                blocking.task.cancel()
            raise Interrupted(blocking.reason)

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
                self._is_over.set()
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
    """An event loop's clock that stands still while this process does not run, and can be stopped; it never goes back."""

    def __init__(self) -> None:
        self._behind_s = 0.0
        self._latest = 0.0
        self._beaten = 0.0, time.monotonic(), time.process_time()
        """Seconds in which this process did not run; time and processor time of the last beat. One tuple: two threads share it."""

    def beat(self) -> bool:
        """Note that this process runs, and say whether it did not for a while before; the watchdog's thread says so regularly."""
        lost_s, at, computed_s = self._beaten
        now, computes_s = time.monotonic(), time.process_time()
        paused_s = max(0.0, now - at - max(MAX_PAUSE_S, computes_s - computed_s))
        self._beaten = lost_s + paused_s, now, computes_s
        return paused_s > 0

    def _running_s(self) -> float:
        """Return the clock without the time in which this process did not run: until the next beat, at most the longest pause."""
        lost_s, at, _ = self._beaten
        return min(time.monotonic(), at + MAX_PAUSE_S) - lost_s

    def stopped(self, seconds: float) -> None:
        """Leave out the last seconds, except for those that were reported already."""
        self._behind_s = min(self._behind_s + seconds, self._running_s() - self._latest)

    def time(self) -> float:
        self._latest = max(self._latest, self._running_s() - self._behind_s)
        return self._latest

    @contextlib.contextmanager
    def of(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Let `loop` use this clock. An event loop in C may have a clock that cannot be replaced, and keeps its own."""
        try:
            loop.time = self.time  # type: ignore[method-assign]  # asyncio reads its clock by this method
        except AttributeError:
            yield
            return
        try:
            yield
        finally:
            del loop.time


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
