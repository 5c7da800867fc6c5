"""The designs under test; every one is usable by itself, as it is.

A design's own module has all of its names; this package offers those that a product needs. They load on first use; those that need
an extra are not among the names of `from whichloop.loops import *` where it is not installed. Rows that the designs name, such as
S3-17, are those of docs/conformance.md.
"""

from __future__ import annotations

from whichloop._lazy import lazy, stub_homes

_HOMES = stub_homes(__file__)
_NEEDS = {"whichloop.loops.react_extract": "dspy", "whichloop.loops.stateless": "dspy"}
__getattr__, __dir__ = lazy(__name__, _HOMES, _NEEDS)
