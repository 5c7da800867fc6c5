"""The names of loopbench.experiments.why for type checkers; `_HOMES` in `__init__.py` says the same at run time."""

from loopbench.experiments.why.minimal import minimal_faults as minimal_faults
from loopbench.experiments.why.replay import replayable_run as replayable_run
