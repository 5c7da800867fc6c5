"""Forks of this process that do a part of a command's work beside it."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeVar

from whichloop.runs.silent_end import die_with, go_on_here, leave

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
