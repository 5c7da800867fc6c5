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

SUITE = load = SOURCE.suite
