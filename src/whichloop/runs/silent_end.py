"""Ends that nobody else would tell of: code of the user's own that leaves its process, and a trial whose worker was killed."""

from __future__ import annotations

import os
import posix
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from whichloop.protocol.threads import in_event_loop

INVALID = 4
"""The exit code of a result that is invalid."""


@contextmanager
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


KILLED = "the loop let nothing else run for"
"""What the reason of a trial begins with whose process was killed."""


def killed(seconds: float, at: str) -> str:
    """Return why a trial's process was killed. `at`: file and line of the user's code where it was; empty if that is not known."""
    where = f"; it was at {at}" if at else "; it was in code that gave no sign, such as a long call in C"
    return f"{KILLED} {seconds:.0f} s; its process was killed, and its trace lost{where}"


def is_blocked(reason: str) -> bool:
    """Say whether this is the reason of such a trial."""
    return reason.startswith(KILLED)
