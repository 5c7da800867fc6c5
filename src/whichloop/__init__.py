"""A wind tunnel for agent loops: the same tasks, tools, model behaviour and faults over interchangeable designs.

Public names load on first use; importing the package loads none of them.
"""

from __future__ import annotations

from ._lazy import lazy, stub_homes

_HOMES = stub_homes(__file__)
_NEEDS = {
    "whichloop.dspy_seam": "dspy",
    "whichloop.dspy_seam.program": "dspy",
    "whichloop.loops.react_extract": "dspy",
    "whichloop.loops.stateless": "dspy",
    "whichloop.models.local.model": "dspy",
}
__getattr__, __dir__ = lazy(__name__, _HOMES, _NEEDS)
