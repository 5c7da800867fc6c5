"""Streams that the shell has closed are as /dev/null, and change no exit code."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMMAND = f"{sys.executable} -m whichloop compare --loop bare --tasks 2 --profile clean"


@pytest.mark.thorough
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&-"])
def test_closed_streams_change_no_exit_code(tmp_path, closed):
    assert subprocess.run(f"{COMMAND} {closed}", shell=True, cwd=tmp_path, capture_output=True).returncode == 0
    assert len([*tmp_path.glob("runs/*/report.html")]) == 1
