"""Python's collector of circular garbage, kept from looking where there is none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (200_000, 20, 50)
"""Objects made and not given back before the youngest are looked at, and after how many looks the older ones are, in turn."""


@contextmanager
def relaxed_gc() -> Iterator[None]:
    """For what makes many objects and few circles: the trials of the built-in designs leave none, reading records neither.

    What is there when it begins, all that was imported, is not looked at meanwhile. Without this the collector takes a tenth of a
    trial's time, and a quarter where hundreds are in flight.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
