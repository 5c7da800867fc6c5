"""The first divergence of two designs on a task, and the cause of a loss.

Names that run trials again load on first use: what only reads a run needs neither designs nor suites.
"""

from __future__ import annotations

from whichloop._lazy import lazy

_HOMES = {
    "whichloop.experiments.why.minimal": ("minimal_faults",),
    "whichloop.experiments.why.replay": ("replayable_run",),
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
