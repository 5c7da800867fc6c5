"""Faults planted into the code, one line each, are noticed by the tests: `python benchmarks/planted_faults.py` runs them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.planted_faults import planted_faults

ROOT = Path(__file__).parents[1]
FAULTS = planted_faults()


def test_there_are_enough_of_them_on_each_floor_and_no_two_are_the_same() -> None:
    floors = Counter(fault.file.partition("/")[0] for fault in FAULTS)
    assert len(set(FAULTS)) == len(FAULTS) >= 60
    assert floors.keys() == {"protocol", "loops", "models", "metrics", "runs"}
    assert min(floors.values()) >= 3


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_changes_one_line_that_is_there(fault) -> None:
    assert fault.planted().count(fault.becomes) >= 1
    assert fault.becomes != fault.line
    assert (ROOT / fault.tests).is_file()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_fault_is_noticed() -> None:
    ended = subprocess.run([sys.executable, "benchmarks/planted_faults.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
