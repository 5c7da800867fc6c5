"""Output of loops and of the user's own code: kept away from stdout, or from the terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout


@contextmanager
def own_prints_aside() -> Iterator[None]:
    """Redirect what the user's own tools and loops print to stderr: stdout is for results, which a program may read."""
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def quiet_loops() -> Iterator[None]:
    """Silence the loops' warnings: each is in its trial's trace, and thousands of trials would flood the terminal."""
    loops = logging.getLogger("whichloop.loops")
    level = loops.level
    loops.setLevel(logging.ERROR)
    try:
        yield
    finally:
        loops.setLevel(level)
