"""What a server has to say of requests, a line each and seldom: a program may repeat its mistake a thousand times."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from whichloop.protocol.redact import redact
from whichloop.protocol.values import counted
from whichloop.text.output import plain_line

SAME_AFTER_S = 60.0
"""Seconds after which a line that was told is told again."""
MAX_LINES, WITHIN_S = 10, 10.0
"""Lines that are told within so many seconds."""
MAX_CHARS = 400
MAX_REMEMBERED = 1_000


class RateLimitedHandler(logging.Handler):
    """Passes on what is logged, and says how many lines it has held back."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.INFO)
        self._tell = tell
        self._clock = clock
        self._told_at: dict[str, float] = {}
        self._latest: deque[float] = deque(maxlen=MAX_LINES)
        self._held_back = 0

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        reason = "" if error is None else f": {type(error).__name__}: {error}"
        line, now = plain_line(redact(f"{record.getMessage()}{reason}"))[:MAX_CHARS], self._clock()
        is_often = len(self._latest) == MAX_LINES and now < self._latest[0] + WITHIN_S
        if is_often or (line in self._told_at and now < self._told_at[line] + SAME_AFTER_S):
            self._held_back += 1
            return
        if len(self._told_at) >= MAX_REMEMBERED:
            self._told_at.clear()
        self._told_at[line] = now
        self._latest.append(now)
        more, self._held_back = self._held_back, 0
        self._tell(f"{line} ({counted(more, 'line')} held back before it)" if more else line)
