"""Time that a trial loses to its provider's failures and to limits of our own: the loop is not to blame for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextvars import ContextVar


class Waits:
    """Seconds that one trial's requests have lost. What several lose at the same time counts once."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []
        """Starts and ends on the event loop's clock, in order; no two overlap."""
        self._since: float | None = None
        self._waiting = 0

    @property
    def seconds(self) -> float:
        """Seconds lost until now, on the event loop's clock."""
        if self._since is not None:
            self._add(self._since)
        return sum(end - start for start, end in self._spans)

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count what happens inside as lost."""
        if self._since is None:
            self._since = asyncio.get_running_loop().time()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if self._waiting == 0 and self._since is not None:
                self._add(self._since)
                self._since = None

    def lost(self, seconds: float) -> None:
        """Count the seconds of a failed attempt, which is known only now."""
        self._add(asyncio.get_running_loop().time() - seconds)

    def _add(self, start: float) -> None:
        """Add the span from then until now, joined with all that it meets."""
        while self._spans and self._spans[-1][1] >= start:
            start = min(start, self._spans.pop()[0])
        self._spans.append((start, asyncio.get_running_loop().time()))


WAITS: ContextVar[Waits | None] = ContextVar("whichloop_waits", default=None)
"""The waits of the trial that the running task belongs to."""


def waits() -> Waits:
    """Return the waits of the running trial; outside of a trial, some that nobody reads."""
    return WAITS.get() or Waits()
