"""A plant whose tools fail, ask for patience, give garbage and change their mind: the task is to recover, and not to write twice.

The trouble comes from the environment, the same in every trial of a task; no fault profile is needed. `plant.py` draws a plant and
holds the tools, `repair.py` what the stories share, `stories.py` the stories.
"""

from __future__ import annotations

from functools import partial

from ..generating import SNAPSHOTS, Source, generate
from ..task import Task, WorldEnvironment
from .plant import TOOLS, Plant, draw_plant
from .stories import TEMPLATES, UNANSWERABLE


def _open(task: Task) -> WorldEnvironment[Plant]:
    plant = draw_plant(task.world["plant"])
    plant.trouble = task.world["trouble"]
    return WorldEnvironment(TOOLS.bound_to(plant), plant, Plant.state)


SOURCE = Source(
    "repairs",
    "1",
    partial(generate, "repairs", templates=TEMPLATES, unanswerable=UNANSWERABLE),
    _open,
    snapshots=SNAPSHOTS,
    templates="strata",
)
SUITE = load = SOURCE.suite
