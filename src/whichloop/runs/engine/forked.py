"""Forks, and workers that are forks of the command's process: they have imported and looked up all that it has."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn, Protocol, TypeVar

from whichloop.protocol.names import parse_spec
from whichloop.runs.config import CompareConfig
from whichloop.runs.permissions import own_code
from whichloop.runs.registry import is_generated, starts_nothing
from whichloop.runs.silent_end import die_with, go_on_here, leave

from .job import Job
from .worker_process import Pipes, serve

FOR_COMMAND = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
"""Signals that a fork leaves to the command: it ends with it."""
SETTLES_S = 1.0
"""Seconds within which threads that end at a fork have left the process."""

Work = Callable[[int, int], int]
"""What a fork does, with the pipes that it reads orders from and writes answers to; it returns the fork's exit code."""


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork, and this process's ends of its pipes."""

    pid: int
    orders: int
    """File descriptor for what it reads."""
    answers: int
    """File descriptor for what it writes."""

    def end(self) -> None:
        """End the fork, whatever it does, and wait for that."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):  # code of the user's own has waited for it
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


class Closable(Protocol):
    """A fork that can be ended."""

    def close(self) -> None:
        """End it, if it has not ended, and wait for that."""


SomeFork = TypeVar("SomeFork", bound=Closable)


def safe_forks(make: Callable[[], SomeFork], count: int) -> list[SomeFork]:
    """Return so many forks as `make` makes them; none if they cannot be had, or if another thread may have run at a fork.

    A fork must do nothing before its first order, which it may be given once this function has returned it.
    """
    if not count or not may_fork():
        return []  # without a fork no thread ends, and to look whether this process is alone would take its second
    forks: list[SomeFork] = []
    is_safe = False
    try:
        while len(forks) < count:
            forks.append(make())
        is_safe = is_alone()
    except OSError:  # no pipe, process or memory is left
        pass
    finally:
        if not is_safe:
            for fork in forks:
                fork.close()
    return forks if is_safe else []


def may_fork() -> bool:
    """Say whether a fork of this process is safe, as far as Python knows: on Linux, and without other threads."""
    return sys.platform == "linux" and threading.active_count() == 1


def is_alone() -> bool:
    """Say whether this process runs one thread, those included that Python does not know; False where that cannot be told.

    To be called after a fork: it makes OpenBLAS, which NumPy and SciPy load, end its threads, and they take a moment to leave. Any
    other thread may have held a lock at the fork.
    """
    until = time.monotonic() + SETTLES_S
    try:
        while len(os.listdir("/proc/self/task")) > 1:
            if time.monotonic() >= until:
                return False
            time.sleep(0.001)
    except OSError:
        return False
    return True


def fork(work: Work) -> Fork:
    """Fork this process; the fork does its work and ends, also with this process.

    Raises OSError if the system grants no pipe or no process; all is as before, then.
    """
    sys.stdout.flush()  # the fork would write it, too
    sys.stderr.flush()
    parent, pipes = os.getpid(), list[int]()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, FOR_COMMAND)
        for _ in range(2):
            pipes += os.pipe()
        child = os.fork()
        if child == 0:
            _do(work, pipes, parent)
    except OSError:
        for end in pipes:
            os.close(end)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    orders_read, orders, answers, answers_write = pipes
    os.close(orders_read)
    os.close(answers_write)
    return Fork(child, orders, answers)


def _do(work: Work, pipes: list[int], parent: int) -> NoReturn:
    """Do the work, and leave this process, whatever happens."""
    code = 1
    try:
        for number in FOR_COMMAND:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FOR_COMMAND)
        die_with(parent)
        go_on_here()
        orders, orders_write, answers_read, answers = pipes
        os.close(orders_write)
        os.close(answers_read)
        gc.freeze()  # a collection would otherwise copy every page that it looks at
        code = work(orders, answers)
    finally:
        leave(code)


MIN_TRIALS = 300
"""Trials below which one process is as quick: two take turns with the command, and each replays the plans of its tasks itself."""
_USUAL = ("engine", "workers", "concurrency", "models", "user", "real_time", "data", "tools", "cassette", "budget")
"""Settings that must be the usual ones."""
MAX_FORKS = 4
"""Most forks: one process hands out the trials and writes what came of them."""


@dataclass(slots=True)
class ForkedWorker:
    """A fork that waits for its first message, as a process of the event loop."""

    process: Fork
    pipes: tuple[int, int] | None
    """File descriptors of its answers and its orders, until a link takes them over."""
    end_descriptor: int
    """File descriptor that can be read once it has ended."""
    _exit_code: asyncio.Future[int] | None = field(default=None, init=False)
    _is_reaped: bool = field(default=False, init=False)

    @classmethod
    def make(cls, job: Job) -> ForkedWorker:
        """Fork a worker. Raises OSError if the system grants none, or none that can be watched."""
        process = fork(partial(_work, job))
        with contextlib.suppress(OSError):  # it has done so itself, or has ended
            os.setpgid(process.pid, process.pid)
        try:
            end_descriptor = os.pidfd_open(process.pid)
        except OSError:
            process.end()
            for pipe in (process.answers, process.orders):
                os.close(pipe)
            raise
        return cls(process, (process.answers, process.orders), end_descriptor)

    @property
    def pid(self) -> int:
        return self.process.pid

    def take(self) -> tuple[int, int]:
        """Return the file descriptors of its answers and its orders; whoever takes them closes them."""
        assert self.pipes is not None
        pipes, self.pipes = self.pipes, None
        return pipes

    async def wait(self) -> int:
        """Wait for its end, and return its exit code, or below 0 the signal that ended it."""
        if self._exit_code is None:
            loop = asyncio.get_running_loop()
            self._exit_code = loop.create_future()
            loop.add_reader(self.end_descriptor, self._reap, loop)
        return await asyncio.shield(self._exit_code)

    def _reap(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self.end_descriptor)
        _, status = os.waitpid(self.pid, 0)
        self._is_reaped = True
        assert self._exit_code is not None
        self._exit_code.set_result(os.waitstatus_to_exitcode(status))

    def close(self) -> None:
        """End it, if it has not ended, and close what is open."""
        if not self._is_reaped:
            self.process.end()
        for opened in (*(self.pipes or ()), self.end_descriptor):
            os.close(opened)


def _work(job: Job, orders: int, answers: int) -> int:
    """Run trials on order, and return the exit code. In a process group of its own: a terminal's Ctrl-C is for the command."""
    os.setpgid(0, 0)
    os.dup2(2, 1)
    return serve(Pipes(orders, answers), job)


def forks_for(config: CompareConfig, trials: int) -> int:
    """Return among how many forks a run shares its trials; 0 where they stay in this process.

    They stay where a fork might not do the same as this process: with code that is not of whichloop, files that tasks are read from
    as they come up, servers, recordings, budgets and models that are not scripted, and where the settings say how many run at once.
    """
    usual = CompareConfig()
    if trials < MIN_TRIALS or any(getattr(config, name) != getattr(usual, name) for name in _USUAL):
        return 0
    loops = [parse_spec(text) for text in config.loops]
    is_ours = not own_code(config) and all(map(starts_nothing, loops)) and is_generated(parse_spec(config.suite).name)
    processors = min(MAX_FORKS, len(os.sched_getaffinity(0))) if is_ours else 0
    return processors if processors > 1 else 0


@contextmanager
def forked_workers(job: Job, trials: int) -> Iterator[list[ForkedWorker]]:
    """Give the forks among which a run of so many trials shares them, as many as `forks_for` says, or none where that is not safe.

    To be called before an event loop or a thread runs.
    """
    can_watch = hasattr(os, "pidfd_open")  # not in a Python that was built on an older system
    workers = safe_forks(partial(ForkedWorker.make, job), forks_for(job.config, trials) if can_watch else 0)
    try:
        yield workers
    finally:
        for worker in workers:
            worker.close()
