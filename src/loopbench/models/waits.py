"""Time that a trial loses to its provider's failures and to limits of our own: none of it is its loop's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextvars import ContextVar


class Waits:
    """Seconds that one trial's requests have lost. What several lose at the same time counts once."""

    def __init__(self) -> None:
        self._lost_s = 0.0
        self._since: float | None = None
        self._waiting = 0

    @property
    def seconds(self) -> float:
        """Until now, on the event loop's clock."""
        return self._lost_s + (0.0 if self._since is None else asyncio.get_running_loop().time() - self._since)

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """What happens inside is lost."""
        if self._since is None:
            self._since = asyncio.get_running_loop().time()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                self._lost_s, self._since = self.seconds, None

    def lost(self, seconds: float) -> None:
        """A failed attempt took so long; known only now."""
        if self._since is None:  # else it passed while others waited
            self._lost_s += seconds


WAITS: ContextVar[Waits | None] = ContextVar("loopbench_waits", default=None)
"""Of the trial that the running task belongs to."""


def waits() -> Waits:
    """Those of the running trial; outside of any, some that nobody reads."""
    return WAITS.get() or Waits()
