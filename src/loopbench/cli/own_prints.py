"""Where what code of the user's own prints goes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout


@contextmanager
def own_prints_aside() -> Iterator[None]:
    """What tools and loops of the user's own print goes to stderr: stdout is for results, which a program may read."""
    with redirect_stdout(sys.stderr):
        yield
