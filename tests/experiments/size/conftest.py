"""The fixture that makes pilots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.experiments.size.made_up_pilots import pilots_in
from whichloop.experiments.compare.results import Results


@pytest.fixture
def pilot(tmp_path: Path) -> Callable[..., Results]:
    """A run directory with records made up."""
    return pilots_in(tmp_path)
