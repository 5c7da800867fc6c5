"""The process that the user has started, once the command needs code of the user's own: it answers for a child that goes on.

Such code may end the process that it runs in, when it is imported or later: by `_exit(0)` of the C library, a program that takes
the process over, an abort, a segmentation fault. The first process runs none of it. It hands on the exit code of a command that
came to its end, and says so if there is none. Where a module has started threads, and on systems other than Linux, the command
stays in one process.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from typing import NoReturn

from whichloop.protocol.own_code import before_own_code
from whichloop.runs.silent_end import die_with, go_on_here, leave

from .codes import DONE, FAILED, INTERRUPTED, INVALID
from .main import main as commands

_HANDED_ON = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
_ONE_WISH_S = 1.0
"""Seconds within which several signals are one wish: `timeout` sends its own to a command, and then to the command's group."""
_CHILD: dict[int, int] = {}
"""The child's process number → where it writes its exit code."""


def main() -> None:
    """Run the command as a process of its own."""
    before_own_code(_go_on_in_child)
    code = FAILED  # as Python ends after an exception
    try:
        commands()
        code = DONE
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else DONE if left.code is None else FAILED
        raise
    except KeyboardInterrupt:
        code = INTERRUPTED
        raise
    finally:
        _announce(code)


def _go_on_in_child() -> None:
    """Fork, and return in the child only; this process waits, and ends with the exit code that the child has announced."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return
    parent, timer = os.getpid(), signal.setitimer(signal.ITIMER_REAL, 0)  # a child has none
    read, write = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_HANDED_ON, signal.SIGCHLD})
    child = os.fork()
    if child:
        _answer_for(child, read)
    os.close(read)
    _CHILD[os.getpid()] = write
    go_on_here()
    die_with(parent)
    signal.setitimer(signal.ITIMER_REAL, *timer)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _announce(code: int) -> None:
    """Tell the first process the command's exit code; in a process that has none, do nothing."""
    write = _CHILD.pop(os.getpid(), None)  # not in a process that code of the user's own has forked
    if write is not None:
        with contextlib.suppress(OSError):  # that code has closed it, too: there is no exit code, then
            os.write(write, bytes([code & 0xFF]))


def _answer_for(child: int, read: int) -> NoReturn:
    """Wait for the child, and end this process in its place. Signals of a process, not of the terminal, are handed on."""
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number != read:  # a lock that the child lets go must be free
            with contextlib.suppress(OSError):  # the listing's own
                os.close(number)
    handed_on_at = -math.inf
    while True:
        ended_child, status = os.waitpid(child, os.WNOHANG)
        if ended_child:
            break
        came = signal.sigwaitinfo({*_HANDED_ON, signal.SIGCHLD})
        is_news = time.monotonic() > handed_on_at + _ONE_WISH_S
        if came.si_signo in _HANDED_ON and came.si_code <= 0 and is_news:  # a terminal sends it to both
            os.kill(child, came.si_signo)
            handed_on_at = time.monotonic()
    os.set_blocking(read, False)
    with contextlib.suppress(BlockingIOError):
        if announced := os.read(read, 1):
            leave(announced[0])
    code = os.waitstatus_to_exitcode(status)
    how = f"exit code {code}" if code >= 0 else f"signal {-code}, {signal.strsignal(-code)}"
    why = "code of a loop, a tool or a suite has ended it, or someone else has"
    os.write(2, f"error: the command's process ended before it had a result ({how}): {why}\n".encode())
    leave(INVALID)
