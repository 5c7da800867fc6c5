"""What still runs in the process that answers must not end it in silence: `os._exit(0)` would look like success, and SIGTERM would
lose what is known of a run."""

from __future__ import annotations

import ctypes
import os
import posix
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDED_BY_THREAD = 4
"""The exit code of a process that a thread ends as a success: as of a result that is invalid."""
leave = os._exit
"""End this process at once, within such a block too."""
_AT_WORK: list[int] = []
"""The process of each block that is open."""
ORDERLY_ENDS: list[Callable[[], None]] = []
"""What ends in order, and at once, each run that is under way in this process."""


@contextmanager
def told_of_exit() -> Iterator[None]:
    """Let a call of `os._exit` within the block raise SystemExit, which says so and has an exit code other than 0.

    Code of a loop, a tool or a suite may make that call when it is imported, or while it runs in this process; in a trial it is a
    crash like any other. Processes that it forks may leave as they like.
    """
    os._exit = posix._exit = _refuse
    _AT_WORK.append(os.getpid())
    try:
        yield
    finally:
        _AT_WORK.pop()
        if not _AT_WORK:
            os._exit = posix._exit = leave


def go_on_here() -> None:
    """Let the open blocks be those of this process, which has been forked within them."""
    _AT_WORK[:] = [os.getpid()] * len(_AT_WORK)


def die_with(parent: int) -> None:
    """Let the kernel end this process, which `parent` has forked, with it. On Linux only."""
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG of prctl(2)
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _refuse(status: int) -> NoReturn:
    if os.getpid() not in _AT_WORK:
        leave(status)
    if threading.current_thread() is not threading.main_thread():
        leave(status or ENDED_BY_THREAD)  # a watchdog, to which an exception in its thread would be no end
    raise SystemExit(f"code of a loop, a tool or a suite called os._exit({status!r})")


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP of a terminal that closes, end a run at once but in order within the block: it can be resumed.

    What is not a run they end as Ctrl-C does.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    # SIG_IGN is as nohup leaves SIGHUP, and None is a handler that was set from C, which Python could not set again.
    ours = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in ours:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    ends = [*ORDERLY_ENDS]
    for end in ends:
        end()
    if ends:
        return
    if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):  # as a shell starts what it runs in the background
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


KILLED = "the loop let nothing else run for"
"""What the reason of a trial begins with whose process was killed."""


def killed(seconds: float, at: str) -> str:
    """Return why a trial's process was killed. `at`: file and line of the user's code where it was; empty if that is not known."""
    where = f"; it was at {at}" if at else "; it was in code that gave no sign, such as a long call in C"
    return f"{KILLED} {seconds:.0f} s; its process was killed, and its trace lost{where}"


def is_blocked(reason: str) -> bool:
    """Say whether this is the reason of such a trial."""
    return reason.startswith(KILLED)
