"""Ctrl-C during a run: the first lets the trials that are under way end, the next one ends the run at once, as SIGTERM does.

And code of the user's own that would end this process as if all had gone well.
"""

from __future__ import annotations

import os
import posix
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from whichloop.protocol.threads import in_event_loop

INTERRUPTED = "interrupted"


class Interruption:
    """What signals have asked of one run. A run may be resumed after each of them."""

    def __init__(self) -> None:
        self.is_ending = False
        self.wind_down: Callable[[], object] | None = None
        """Lets what is under way end; from any thread. None where that is nothing, and once it was called."""
        self.cancel: Callable[[], object] | None = None
        """Ends the run at once, likewise."""

    @contextmanager
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
        self.is_ending = True
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


@contextmanager
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
