"""The same input gives the same records, from one version of the code to the next.

A digest moves only with a deliberate change of the tunnel, the designs, the suites or the records. Whoever makes one raises the
version that belongs to it (`PROFILES_VERSION`, a suite's version) and writes the new digests here: `whichloop compare` with these
settings prints them under `--json`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whichloop.experiments.compare.run import prepare, run
from whichloop.metrics.record import records_digest
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.trials import read_records

FORMAT_AND_TOOLS = ("flaky-format", "flaky-tools")
RUNS: dict[str, tuple[dict[str, Any], dict[int, str], dict[int, str]]] = {
    "arithmetic": (
        {"suite": "arithmetic", "profiles": FORMAT_AND_TOOLS},
        {4: "4aec1d8debdd9519b9d6c58afc014184ec0123a7f26c6eb4e9dca5dadd6c8c53"},
        {8: "956e699b1b6db333799c1abb8805f75605569d02d8d2cf883d317956e9ce7142"},
    ),
    "library": (
        {"suite": "library", "profiles": ("forgetful", "flaky-tools")},
        {3: "888e5f47989964618091eb61488e1c188edebbefbe64d4b3c34e0ad5808f3178"},
        {6: "dbcabcb2936e48b64afb2101675fcf98210561698bc7653a4ef783c4eb586e95"},
    ),
    "typed": (
        {"suite": "typed", "profiles": ("stubborn", "flaky-format")},
        {3: "e23fa40efe678fdd6e7cc8ff25c8f4baa4560a45b407d71d00216fcea1e1d390"},
        {6: "25a9f14ab290219f7cc5e9ebd1c3c1247e7c1def5f4efb038521e5d64a08acb0"},
    ),
    "repeats": (
        {"suite": "arithmetic", "profiles": FORMAT_AND_TOOLS, "repeats": 2, "seed": 7},
        {2: "fb82815dfa7e9b862383bcf3606802e12667f907027ac41b3823c78638df0fc1"},
        {5: "cee96d1d9daf72ef0cc7d62c9d23daf2d38073af0c7439df6fc8abddc5a29959"},
    ),
    "workers": (
        {"suite": "library", "profiles": ("clean", "forgetful"), "workers": 2, "seed": 3},
        {3: "16b376419bfb50abbc2b61eb433fc9ce341298432e84f3136ac11eda1210598d"},
        {4: "5d540e72b163c65790752407ac665aaf90526901685689e62819e24bf6edecb4"},
    ),
}
"""Settings of each run; number of tasks → digest, of few tasks and, among the slow tests, of more."""


SLOW = ("arithmetic", "workers")
"""Runs of what others here hold as well: the same suite and profiles with repeats, and the same suite in one process."""
CASES = [
    pytest.param(
        settings | {"tasks": tasks}, digest, id=f"{name}-{tasks}", marks=pytest.mark.slow if tasks in more or name in SLOW else ()
    )
    for name, (settings, few, more) in RUNS.items()
    for tasks, digest in (few | more).items()
]


@pytest.mark.thorough
@pytest.mark.parametrize(("settings", "digest"), CASES)
def test_the_digest_of_five_designs_does_not_move(settings: dict[str, Any], digest: str, tmp_path: Path) -> None:
    experiment = prepare(CompareConfig(**settings, runs=tmp_path, mlflow=False))
    assert run(experiment, Unwatched()) == ""
    assert records_digest(read_records(experiment.folder)) == digest
