"""A plant whose tools fail, ask for patience, give garbage and change their mind: the task is to recover, and not to write twice.

The trouble comes from the environment, the same in every trial of a task; no fault profile is needed. `plant.py` draws a plant and
holds the tools, `repair.py` what the stories share, `stories.py` the stories.
"""

from __future__ import annotations

from functools import partial

from ..generating import SNAPSHOTS, Source, generate
from .repair import open_plant
from .stories import TEMPLATES, UNANSWERABLE

SOURCE = Source(
    "repairs",
    "1",
    partial(generate, "repairs", templates=TEMPLATES, unanswerable=UNANSWERABLE),
    open_plant,
    snapshots=SNAPSHOTS,
)
SUITE = load = SOURCE.suite
