"""The same input gives the same records, from one version of the code to the next.

A digest moves only with a deliberate change of the tunnel, the designs, the suites or the records. Whoever makes one raises the
version that belongs to it (`PROFILES_VERSION`, a suite's version) and writes the new digests here: `loopbench compare` with these
settings prints them under `--json`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loopbench.experiments.compare.prepare import prepare
from loopbench.experiments.compare.results import results
from loopbench.experiments.compare.run import run
from loopbench.runs.config import CompareConfig
from loopbench.runs.engine.runner import Unwatched

FORMAT_AND_TOOLS = ("flaky-format", "flaky-tools")
RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "arithmetic": (
        {"suite": "arithmetic", "profiles": FORMAT_AND_TOOLS, "tasks": 8},
        "5ba33f5d8d858cc3d148af802b511abfba31398edd4ee244394abc9ea16a68a0",
    ),
    "library": (
        {"suite": "library", "profiles": ("forgetful", "flaky-tools"), "tasks": 6},
        "6321f99a7ac106f52925a921ecde0d68c0dcd2aa0b0283158f89670fb58b8970",
    ),
    "typed": (
        {"suite": "typed", "profiles": ("stubborn", "flaky-format"), "tasks": 6},
        "6d10ffb1e1ce582c72714f5f8c21db96f132d1011e92022da9ce640c475d85a2",
    ),
    "repeats": (
        {"suite": "arithmetic", "profiles": FORMAT_AND_TOOLS, "tasks": 5, "repeats": 2, "seed": 7},
        "7dcb6d16aa617091f8c83f0131dae1dc5ed051edbafa651b987d7cf990696d50",
    ),
    "workers": (
        {"suite": "library", "profiles": ("clean", "forgetful"), "tasks": 4, "workers": 2, "seed": 3},
        "b355fc8b740712da9e01d07ea1373d89f0a77e2349ddf0dd6df5c55dfca588dd",
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", RUNS)
def test_the_digest_of_five_designs_does_not_move(name: str, tmp_path: Path) -> None:
    settings, digest = RUNS[name]
    experiment = prepare(CompareConfig(**settings, runs=tmp_path, mlflow=False))
    assert run(experiment, Unwatched()) == ""
    assert results(experiment.folder).digest == digest
