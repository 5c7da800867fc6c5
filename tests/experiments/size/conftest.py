"""The fixture that makes pilots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from loopbench.experiments.compare.results import Results
from tests.experiments.size.made_up_pilots import pilots_in


@pytest.fixture
def pilot(tmp_path: Path) -> Callable[..., Results]:
    """A run directory with records made up."""
    return pilots_in(tmp_path)
