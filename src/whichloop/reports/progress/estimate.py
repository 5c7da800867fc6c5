"""How long a run will take, told once, as soon as its first trials show it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from whichloop.text.numbers import duration

AFTER_S = 4.0
"""Seconds after the first result before the estimate is made."""
LONG_S = 60.0
"""A run that takes less says nothing about it."""
MIN_TASKS = 10
"""Fewer tasks are not proposed: they would decide nothing."""


def about(seconds: float) -> str:
    """Return a time as exactly as an estimate is."""
    return f"about {duration(max(10.0, round(seconds, -1)))}"


def fewer_tasks(tasks: int, seconds: float) -> str:
    """Return how many of a run's tasks take about a minute, as a hint; empty if there are none to leave out."""
    fitting = int(tasks * LONG_S / seconds)
    step = 5 * 10 ** max(0, len(str(fitting)) - 2)
    proposed = max(MIN_TASKS, fitting // step * step)
    return f"; --tasks {proposed} would take {about(seconds * proposed / tasks)}" if proposed < tasks else ""


@dataclass(slots=True)
class Pace:
    """How fast a run moves on; it is asked whenever something has been done."""

    began_at: float | None = None
    """Monotonic time of the first result: what starts before, such as worker processes, starts once."""
    done_at_first: float = 0.0
    is_told: bool = False

    def tell(self, done: float, total: float, say: Callable[[float], None]) -> None:
        """Call `say` once with the seconds that the run takes from now on, if it is long. `done`, `total`: in any one unit."""
        if self.is_told:
            return
        now = time.monotonic()
        if self.began_at is None:
            self.began_at, self.done_at_first = now, done
        elif now - self.began_at >= AFTER_S and done > self.done_at_first:
            self.is_told = True
            left_s = (total - done) * (now - self.began_at) / (done - self.done_at_first)
            if left_s > LONG_S:
                say(left_s)
