"""The names of whichloop.experiments.why for type checkers; `_HOMES` in `__init__.py` says the same at run time."""

from whichloop.experiments.why.minimal import minimal_faults as minimal_faults
from whichloop.experiments.why.replay import replayable_run as replayable_run
