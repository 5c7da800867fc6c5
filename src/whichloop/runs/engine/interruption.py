"""Ctrl-C during a run: the first lets the trials that are under way end, the next one ends the run at once, as SIGTERM does."""

from __future__ import annotations

import asyncio
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

from whichloop.runs.silent_end import ORDERLY_ENDS

INTERRUPTED = "interrupted"
"""Why no further trial begins."""
SAME_WISH_S = 0.2
"""Seconds within which several equal signals are one wish: `timeout -s INT` sends its own to a command, and then to its process
group."""


class Interruption:
    """What signals have asked of one run. A run may be resumed after each of them."""

    def __init__(self) -> None:
        self.is_ending = False
        """Whether the run is to end."""
        self._wind_down: Callable[[], object] | None = None
        self._task: asyncio.Task[object] | None = None
        self._is_cancelled = False
        self._last_wish_at = -math.inf
        """Monotonic time of the last wish."""
        self._last_was_ctrl_c = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take Ctrl-C within the block, unless the program ignores it or has a use of its own for it."""
        is_ours = (
            threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if is_ours:
            signal.signal(signal.SIGINT, self._pressed)
        try:
            yield
        finally:
            if is_ours:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextmanager
    def of(self, task: asyncio.Task[object] | None) -> Iterator[None]:
        """Let what is asked for within the block cancel this task, or interrupt this thread if there is none, where nothing gentler
        is meant."""
        self._task = task
        _UNDER_WAY.append(self)
        ORDERLY_ENDS.append(self.end)
        try:
            yield
        finally:
            ORDERLY_ENDS.remove(self.end)
            _UNDER_WAY.remove(self)
            self._task = None

    @contextmanager
    def gentle(self, wind_down: Callable[[], None], loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Let the first Ctrl-C within the block call `wind_down` on this event loop, after which no further trial begins."""
        self._wind_down = partial(loop.call_soon_threadsafe, wind_down)
        try:
            yield
        finally:
            self._wind_down = None

    def press(self) -> None:
        """Do what Ctrl-C does. Raises KeyboardInterrupt where that is all that can be done."""
        if self._wind_down is None or self.is_ending:
            self._end(by_ctrl_c=True)
            return
        self._take_wish(by_ctrl_c=True)
        self._wind_down()

    def end(self) -> None:
        """End the run at once, as SIGTERM asks, also right after a Ctrl-C that was gentle; a wish after that waits for nothing.

        Raises KeyboardInterrupt where that is all that can be done.
        """
        self._end(by_ctrl_c=False)

    def _end(self, *, by_ctrl_c: bool) -> None:
        asks_for_more = self._last_was_ctrl_c and not by_ctrl_c
        if time.monotonic() < self._last_wish_at + SAME_WISH_S and not asks_for_more:
            return
        self._take_wish(by_ctrl_c=by_ctrl_c)
        if self._task is None or self._is_cancelled:
            raise KeyboardInterrupt
        self._is_cancelled = True
        self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def _take_wish(self, *, by_ctrl_c: bool) -> None:
        self.is_ending, self._last_wish_at, self._last_was_ctrl_c = True, time.monotonic(), by_ctrl_c

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        self.press()


_UNDER_WAY: list[Interruption] = []
"""Those of the runs under way in this process."""


def press_everywhere() -> bool:
    """Press Ctrl-C for all runs of this process, also on other threads, to which no signal comes. Say whether there are any."""
    interruptions = [*_UNDER_WAY]
    for interruption in interruptions:
        interruption.press()
    return bool(interruptions)
