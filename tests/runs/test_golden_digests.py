"""The same input gives the same records, from one version of the code to the next.

A digest moves only with a deliberate change of the tunnel, the designs, the suites or the records. Whoever makes one raises the
version that belongs to it (`PROFILES_VERSION`, a suite's version) and writes the new digests here: `whichloop compare` with these
settings prints them under `--json`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.run import run
from whichloop.metrics.record_table import records_digest
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.trials import read_records

FORMAT_AND_TOOLS = ("flaky-format", "flaky-tools")
RUNS: dict[str, tuple[dict[str, Any], dict[int, str], dict[int, str]]] = {
    "arithmetic": (
        {"suite": "arithmetic", "profiles": FORMAT_AND_TOOLS},
        {4: "cbd63f19af9f529c8a4791b94200edb06f69037761edb2aec4a969ba3baedb3d"},
        {8: "3ce140cdc155babc49f89049db82c50ca0d6731e4a41f8090fabe81fde42e63b"},
    ),
    "library": (
        {"suite": "library", "profiles": ("forgetful", "flaky-tools")},
        {3: "20715289bfeb6ca73535721281f4b23244aaf54cd99651cd4ca25d04ac76faea"},
        {6: "5b3014924c674f8854d39e3ec229783aae9fbd641286add0569d5ec2abfdbeb5"},
    ),
    "typed": (
        {"suite": "typed", "profiles": ("stubborn", "flaky-format")},
        {3: "49dd9380a5c410f04ffd7fa548d03c56bfc5d4caa715165fec2102e1f0e494e8"},
        {6: "bc7bfe1a5e6644085c470aed2554aa97e4852a2d2426ccc3f57b1d516482e0ab"},
    ),
    "repeats": (
        {"suite": "arithmetic", "profiles": FORMAT_AND_TOOLS, "repeats": 2, "seed": 7},
        {2: "24abdb05cb2474058bf5b1c8aedb4570c3db68f3ed57fd0bc8756b2e8238b251"},
        {5: "2d6dfa5c293b37a17cc38feaa80d18f6ad238855f5690881e9a21997544e5261"},
    ),
    "workers": (
        {"suite": "library", "profiles": ("clean", "forgetful"), "workers": 2, "seed": 3},
        {3: "e88f77cab2e41c36be9201808c8fe6f39cd532652a547404477f7e3dac3c3720"},
        {4: "eef190f2653a4ca3092ba2aeb3863c94b983ad0e7cb852d7ba9d4b4a6cbf7c17"},
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
