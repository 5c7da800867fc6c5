"""The contracts that every other part imports; this package imports nothing of whichloop.

Names load on first use: a command's help, or a shell that completes a word, needs none of them.
"""

from __future__ import annotations

from whichloop._lazy import lazy, stub_homes

_HOMES = stub_homes(__file__)
__getattr__, __dir__ = lazy(__name__, _HOMES)
