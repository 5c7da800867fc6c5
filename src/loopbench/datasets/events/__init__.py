"""Booking city events: compare, hold, book and cancel; shows that are sold out and names that look alike.

Twelve stories over a small city's programme, drawn anew for each task, and three that have no answer. The bookings in the end are
judged as well as the answer. Whoever forgets a hold that was booked and holds again books twice; whoever books a hold again is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..generating import SNAPSHOTS, Source, generate
from ..task import Suite, Task
from ..worlds import WorldEnvironment
from .service import DISTRACTORS, TOOLS, City
from .stories import ANSWERABLE, UNANSWERABLE


def _open(task: Task) -> WorldEnvironment[City]:
    city = City.of(task.world)
    return WorldEnvironment(TOOLS.over(city), city, City.state)


def _generate(seed: int) -> Iterator[Task]:
    return generate("events", seed, ANSWERABLE, UNANSWERABLE)


SOURCE = Source("events", "1", _generate, _open, distractors=DISTRACTORS, snapshots=SNAPSHOTS)

SUITE = load = SOURCE.suite
