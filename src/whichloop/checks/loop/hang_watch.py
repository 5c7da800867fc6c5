"""Where a loop hangs, found out by a thread beside the check of a law, whose process is ended then."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

from whichloop.protocol.own_code import running_at, waiting_at

from .law import HANGS, Finding, hung

HELD_SHARE = 1 / 6
"""Share of a law's time after which an event loop that has not turned counts as blocked: 10 s, as for a run that only waits."""
MIN_HELD_S = 5.0
"""The least seconds of that, or the law's whole time where it is less: a law's own code computes, too, on a busy machine longer."""
LOOKS = 20
"""How often the thread looks before an event loop counts as blocked. Looks are counted, not seconds: a process may be stopped."""
MAX_MISSED = 3
"""How many looks an event loop may not have turned for without being blocked."""


class _HangWatch:
    """Watches the event loop that runs in this thread."""

    def __init__(self, limit_s: float) -> None:
        """`limit_s`: seconds for the law."""
        self.limit_s = limit_s
        self.held_s = max(HELD_SHARE * limit_s, min(limit_s, MIN_HELD_S))
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._is_over = threading.Event()
        self._missed = 0
        """Looks since the event loop last turned."""

    def end(self) -> None:
        self._is_over.set()

    def look(self, law: str, report: Callable[[Finding], None]) -> None:
        """Look until the end, or until the law's check hangs, and report that once."""
        interval_s = self.held_s / LOOKS
        left = round(self.limit_s / interval_s)
        while not self._is_over.wait(interval_s):
            left, self._missed = left - 1, self._missed + 1
            if self._missed >= LOOKS or left <= 0:
                seconds = self.limit_s if left <= 0 else self.held_s
                report(hung(law, seconds, self._blocking() if self._missed > MAX_MISSED else self._waiting()))
                return
            with contextlib.suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(self._turned)

    def _turned(self) -> None:
        self._missed = 0

    def _blocking(self) -> str:
        """Return in which line of the user's code the loop blocks the event loop, as far as that is known."""
        at = running_at(sys._current_frames().get(self._thread))
        return f"the loop blocks its thread at {at}" if at else HANGS

    def _waiting(self) -> str:
        """Return in which line of the user's code the loop waits, while the event loop goes on, as far as that is known."""
        at = next(filter(None, map(waiting_at, asyncio.all_tasks(self._loop))), "")
        return f"the loop waits for what never comes at {at}" if at else HANGS


@contextlib.contextmanager
def watched_for_hangs(law: str, limit_s: float, report: Callable[[Finding], None]) -> Iterator[None]:
    """Report within this block, from another thread, that the check of a law hangs, and where."""
    watch = _HangWatch(limit_s)
    threading.Thread(target=watch.look, args=(law, report), name="hang-watch", daemon=True).start()
    try:
        yield
    finally:
        watch.end()
