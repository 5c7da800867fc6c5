"""Readers of all kinds of artefacts, fuzzed for `--fuzz-seconds`: no traceback, at most 512 MB, at most 10 s a reading."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fuzzing import MAX_MB
from tests.hostile_artefacts import READERS


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", READERS)
def test_no_artefact_takes_its_reader_down(name: str, pytestconfig: pytest.Config) -> None:
    seconds = pytestconfig.getoption("--fuzz-seconds") / len(READERS)
    command = [sys.executable, "-m", "tests.fuzzing", name, str(seconds)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (ended.returncode, ended.stderr[-4_000:])
    drawn, peak = map(int, ended.stdout.split())
    assert drawn > 0
    assert peak <= MAX_MB
