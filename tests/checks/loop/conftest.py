"""What checks of loops share that search the memory of the process."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(scope="module")
def only_new_memory() -> None:
    """Put what earlier tests left out of the sight of `gc`: a loop that searches memory would look through all of it."""
    gc.collect()
    gc.freeze()
