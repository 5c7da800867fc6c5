"""Where what loops, and code of the user's own, have to say goes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout


@contextmanager
def own_prints_aside() -> Iterator[None]:
    """What tools and loops of the user's own print goes to stderr: stdout is for results, which a program may read."""
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def quiet_loops() -> Iterator[None]:
    """What a loop warns of stands in its trial's trace; thousands of trials would flood the terminal with it."""
    loops = logging.getLogger("loopbench.loops")
    level = loops.level
    loops.setLevel(logging.ERROR)
    try:
        yield
    finally:
        loops.setLevel(level)
