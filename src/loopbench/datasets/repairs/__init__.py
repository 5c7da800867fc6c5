"""A plant whose tools fail, ask for patience, give garbage and change their mind: the task is to recover, and not to write twice.

The trouble comes from the environment, the same in every trial of a task; no fault profile is needed. `plant.py` draws a plant and
holds the tools, `stories.py` the tasks.
"""

from .stories import SOURCE, load

SUITE = load

__all__ = ["SOURCE", "SUITE", "load"]
