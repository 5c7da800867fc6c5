"""Advice for farms: weather, soil, crop tables and prices in different units, to be combined into one number.

Twelve stories over a region drawn anew for each task, and three that have no answer since a reading, a sample or a price is
missing. Branches over several fields or stations join in one calculation; nothing is changed, so the answer alone is judged.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..generating import SNAPSHOTS, Source, generate
from ..task import Suite, Task
from ..worlds import WorldEnvironment
from .region import TOOLS, Region
from .stories import ANSWERABLE, UNANSWERABLE


def _open(task: Task) -> WorldEnvironment[Region]:
    region = Region.of(task.world)
    return WorldEnvironment(TOOLS.over(region), region)


def _generate(seed: int) -> Iterator[Task]:
    return generate("agriculture", seed, ANSWERABLE, UNANSWERABLE)


SOURCE = Source("agriculture", "1", _generate, _open, snapshots=SNAPSHOTS)


def load(size: int | None = None, seed: int = 0) -> Suite:
    """The suite `agriculture`.

    `size`: number of tasks, 1 to 100,000; left out, 120. `seed`: another one gives other tasks. With neither, the tasks are the
    committed snapshot. Raises ValueError for values out of range.
    """
    return SOURCE.suite(size, seed)


SUITE = load
