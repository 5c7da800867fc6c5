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
        "3ec4605637482b3ff09d4038ec279dc1148ecc7d485d8ab5125aaddbf0d5a290",
    ),
    "library": (
        {"suite": "library", "profiles": ("forgetful", "flaky-tools"), "tasks": 6},
        "dd3754510b291b99265891be6425e41214e9e41dde4a45f378521dc3196b0d1e",
    ),
    "typed": (
        {"suite": "typed", "profiles": ("stubborn", "flaky-format"), "tasks": 6},
        "d2c006ff7d583291bd00973b8d30c7b2a0af9d57b4240bbdee5c189db424a5bc",
    ),
    "repeats": (
        {"suite": "arithmetic", "profiles": FORMAT_AND_TOOLS, "tasks": 5, "repeats": 2, "seed": 7},
        "d134cce1481e3e15524645343e1f2c8e1787f7ff9f48e8c16083549ee1ca2487",
    ),
    "workers": (
        {"suite": "library", "profiles": ("clean", "forgetful"), "tasks": 4, "workers": 2, "seed": 3},
        "361a3674a074f3a38adcf9362e7cf473060922cf9dcbdea951a8000489fe5da3",
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", RUNS)
def test_the_digest_of_five_designs_does_not_move(name: str, tmp_path: Path) -> None:
    settings, digest = RUNS[name]
    experiment = prepare(CompareConfig(**settings, runs=tmp_path, mlflow=False))
    assert run(experiment, Unwatched()) == ""
    assert results(experiment.folder).digest == digest
