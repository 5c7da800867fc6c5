"""Errands in a town: two to six calls of a task need nothing of each other, and none may be lost or made twice.

Whoever makes them at once has to keep them apart: what was bought, sent, paid and brought back is judged in the end, and so is the
money that is left, which is counted after all of it. `town.py` draws a town and holds the tools, `errand.py` what the stories
share, `stories.py` the stories.
"""

from __future__ import annotations

from functools import partial

from ..generating import SNAPSHOTS, Source, generate
from ..task import Task, WorldEnvironment
from .errand import DISTRACTORS, TEMPLATES, TOOLS, UNANSWERABLE, Town, draw_town


def _open(task: Task) -> WorldEnvironment[Town]:
    town = draw_town(task.world["town"])
    return WorldEnvironment(TOOLS.bound_to(town), town, Town.state)


SOURCE = Source(
    "errands",
    "1",
    partial(generate, "errands", templates=TEMPLATES, unanswerable=UNANSWERABLE),
    _open,
    distractors=DISTRACTORS,
    snapshots=SNAPSHOTS,
    templates="strata",
)
SUITE = load = SOURCE.suite
