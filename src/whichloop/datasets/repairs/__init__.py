"""A plant whose tools fail, ask for patience, give garbage and change their mind: the task is to recover, and not to write twice.

The trouble comes from the environment, the same in every trial of a task; no fault profile is needed. `plant.py` draws a plant and
holds the tools, `repair.py` what the stories share, `stories.py` the stories.
"""

from __future__ import annotations

from ..story import told_suite
from .repair import Repair, open_plant
from .stories import STORIES, UNANSWERABLE

SOURCE = told_suite("repairs", "1", Repair, (STORIES, UNANSWERABLE), open_plant)
SUITE = load = SOURCE.suite
