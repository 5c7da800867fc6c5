"""The lock that keeps a run directory to one process at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from whichloop.runs.store.files import (
    RunError,
    own_file,
)

LOCK = "run.lock"


def acquire_lock(folder: Path) -> FileIO:
    """Take the lock, which is held until it is closed. Raises RunError if another process holds it."""
    lock = own_file(folder / LOCK, os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise RunError(f"{folder}: another process is writing to this run") from None
    return lock


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a run directory within this block. Raises RunError if one does."""
    with acquire_lock(folder):
        yield
