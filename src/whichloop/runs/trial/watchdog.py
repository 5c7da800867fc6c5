"""What ends trials and runs: how their tasks are ended, the beat of an event loop, which a trial that blocks it holds up, signals;
and code of the user's own that would end this process as if all had gone well.

A worker whose event loop does not beat for as long as a trial may take writes where it hangs, and ends. In the command's own
process nothing ends such a trial.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import posix
import re
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any, NoReturn

from whichloop.protocol.own_code import is_theirs, place_of
from whichloop.protocol.threads import in_event_loop

BEAT_S = 0.1
STUCK_S = 0.5
"""Seconds without a beat from which on the time counts for no trial."""

MAX_DUMP = 1 << 20


class Blocked:
    """The time for which the event loop of this process did not turn."""

    seconds = 0.0
    """They count for no trial that waited meanwhile."""


@contextlib.contextmanager
def beating(beat: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Call `beat` ten times a second within this block while the running event loop turns, and count the time when it does not."""
    loop = asyncio.get_running_loop()
    due = loop.time()

    timer: asyncio.Handle

    def turn() -> None:
        nonlocal due, timer
        if (late := loop.time() - due) > STUCK_S:
            Blocked.seconds += late
        due = loop.time() + BEAT_S
        timer = loop.call_at(due, turn)
        beat()

    timer = loop.call_soon(turn)
    try:
        yield
    finally:
        timer.cancel()


def hangs_at(hang_file: int) -> str | None:
    """Return the user's line where a thread hangs, as `raised_at` writes it; empty if it is in none, None if nothing is written.

    `hang_file`: descriptor of a file with the thread's number, and on the next lines what `faulthandler` wrote.
    """
    thread, _, stacks = os.pread(hang_file, MAX_DUMP, 0).decode(errors="replace").partition("\n")
    if not stacks:
        return None
    stack = stacks.partition(f"Thread 0x{thread} ")[2].partition("\n\n")[0]
    frames = re.findall(r'^  File "(.+)", line (\d+) in ', stack, re.MULTILINE)
    return next((place_of(file, int(line)) for file, line in frames if is_theirs(file)), "")


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
        if now - self._turned_at > TURN_S:
            await asyncio.sleep(0)
            self._turned_at = time.monotonic()


async def stop(running: asyncio.Task[object], grace_s: float) -> bool:
    """Cancel a loop's task and give it `grace_s` seconds to end; False: it swallowed its cancellation and was abandoned."""
    running.cancel()
    if await ends_within(running, grace_s):
        return True
    # By force: left alone, it would run on beside other trials, and asyncio.run would wait for it without end.
    coroutine = running.get_coro()
    if coroutine is not None:
        with contextlib.suppress(RuntimeError):  # "coroutine ignored GeneratorExit"
            coroutine.close()
    running.add_done_callback(lambda task: task.cancelled() or task.exception())  # looked at, so that nothing is logged
    running.cancel()  # wakes the task, which finds its coroutine closed and ends
    return False


async def ends_within(running: asyncio.Task[object], seconds: float) -> bool:
    """Say whether a task ends within a time. Cancelled, it leaves the task alone."""
    done, _ = await asyncio.wait([running], timeout=seconds)
    return bool(done)


LEFTOVER_GRACE_S = 1.0
"""Seconds that tasks which remain at the end have to finish."""


@contextlib.asynccontextmanager
async def leaving_nothing() -> AsyncIterator[None]:
    """End, behind this block, the tasks that trials started and did not wait for; calls on threads are left alone."""
    loop, before = asyncio.get_running_loop(), asyncio.all_tasks()
    loop.set_default_executor(DaemonThreads())
    try:
        yield
    finally:
        tasks = asyncio.all_tasks() - before - {asyncio.current_task()}
        await asyncio.gather(*(stop(task, LEFTOVER_GRACE_S) for task in tasks))


class DaemonThreads(ThreadPoolExecutor):
    """An event loop's default executor that gives each call a thread of its own, which nobody waits for in the end."""

    def submit(self, function: Callable[..., object], /, *args: object, **kwargs: object) -> Future[Any]:
        future: Future[object] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # carried to the caller
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=work, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: there is nothing to wait for."""


KILLED = "the loop let nothing else run for"
"""What the reason of a trial begins with whose process was killed."""


def killed(seconds: float, at: str) -> str:
    """Return why a trial's process was killed. `at`: file and line of the user's code where it was; empty if that is not known."""
    where = f"; it was at {at}" if at else "; it was in code that gave no sign, such as a long call in C"
    return f"{KILLED} {seconds:.0f} s; its process was killed, and its trace lost{where}"


def is_blocked(reason: str) -> bool:
    """Say whether this is the reason of such a trial."""
    return reason.startswith(KILLED)


# --- Ctrl-C during a run: the first lets the trials under way end, the next one ends the run at once, as SIGTERM does ---

INTERRUPTED = "interrupted"
SAME_WISH_S = 0.2
"""Seconds within which equal signals are one wish: `timeout -s INT` sends its own to a command, and then to its process group."""


class Interruption:
    """What signals have asked of one run. A run may be resumed after each of them."""

    def __init__(self) -> None:
        self.is_ending = False
        self.wind_down: Callable[[], object] | None = None
        """Lets what is under way end; from any thread. None where that is nothing, and once it was called."""
        self.cancel: Callable[[], object] | None = None
        """Ends the run at once, likewise."""
        self._last_wish = (-math.inf, False)
        """When it came, in monotonic time, and whether the run was to end at once."""

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take Ctrl-C within the block, unless the program ignores it or has a use of its own for it."""
        is_main = threading.current_thread() is threading.main_thread()
        is_ours = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if is_ours:
            signal.signal(signal.SIGINT, lambda number, frame: self.press())
        _UNDER_WAY.append(self)
        try:
            yield
        finally:
            _UNDER_WAY.remove(self)
            if is_ours:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    def press(self, *, at_once: bool = False) -> None:
        """Do what Ctrl-C does. Raises KeyboardInterrupt where nothing else is left to do, such as in a loop that hangs."""
        (last_at, was_at_once), now = self._last_wish, time.monotonic()
        if now < last_at + SAME_WISH_S and at_once <= was_at_once:
            return
        self._last_wish, self.is_ending = (now, at_once), True
        wind_down, self.wind_down = self.wind_down, None
        if wind_down is not None and not at_once:
            wind_down()
            return
        cancel, self.cancel = self.cancel, None
        if cancel is None:
            raise KeyboardInterrupt
        cancel()


_UNDER_WAY: list[Interruption] = []


def press_everywhere(*, at_once: bool = False) -> bool:
    """Press Ctrl-C for all runs of this process, also on other threads, to which no signal comes. Say whether there are any."""
    interruptions = [*_UNDER_WAY]
    for interruption in interruptions:
        interruption.press(at_once=at_once)
    return bool(interruptions)


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a run at once but in order within the block, and all else as Ctrl-C does."""
    # SIG_IGN is as nohup leaves SIGHUP, and None is a handler that was set from C, which Python could not set again.
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    ours = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    if threading.current_thread() is not threading.main_thread():
        ours = {}
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    if not press_everywhere(at_once=True):
        raise KeyboardInterrupt


INVALID = 4
"""The exit code of a result that is invalid."""


@contextlib.contextmanager
def told_of_exit() -> Iterator[None]:
    """Let `os._exit` within the block raise SystemExit: code of a loop, a tool or a suite must not end this process as a success.

    Processes that it forks may leave as they like, and a watchdog's thread ends this one, with no success.
    """
    leave, pid = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != pid:
            leave(status)
        if threading.current_thread() is not threading.main_thread() and not in_event_loop():
            leave(status or INVALID)
        raise SystemExit(f"code of a loop, a tool or a suite called os._exit({status!r})")

    os._exit = posix._exit = refuse
    try:
        yield
    finally:
        os._exit = posix._exit = leave
