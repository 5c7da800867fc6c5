"""SIGKILLs at random moments over one run, carried out by several engines: its records are those of an undisturbed run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.prepared import Prepared
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.reopen import SessionSettings, reopen
from whichloop.experiments.compare.run import run
from whichloop.metrics.record import records_digest
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.trials import read_records, read_trace

ROOT = Path(__file__).parents[3]
SLOW = """\
name = "slow"
latency_s = 0.1
[rates]
"wire.malformed" = 0.1
"decision.no_tool" = 0.1
"tool.raises" = 0.1
"""

KILLS = 60
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_kills_leave_no_trace_in_the_records(tmp_path: Path):
    """Ray takes part where it is installed."""
    tasks = 3 * KILLS
    (tmp_path / "slow.toml").write_text(SLOW)
    config = CompareConfig(
        loops=("bare", "finish"),
        suite=f"arithmetic(size={tasks})",
        profiles=(str(tmp_path / "slow.toml"),),
        repeats=2,
        concurrency=8,
        real_time=True,
        runs=tmp_path,
        mlflow=False,
    )
    disturbed, whole = prepare(config).folder, prepare(config).folder
    assert run(reopen(whole, session=SessionSettings({"concurrency": 64})), Unwatched()) == ""

    with_ray = find_spec("ray") is not None
    module = "tests.runs.engine.killed_at_random"
    command = [sys.executable, "-m", module, str(disturbed), str(KILLS), *(["--ray"] if with_ray else [])]
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as short:  # for Ray's sockets
        own = os.environ | {"HOME": short, "TMPDIR": short, "RAY_TMPDIR": short}
        pipe = subprocess.PIPE
        with Prepared(command, cwd=ROOT, env=own, stdout=pipe, stderr=pipe, text=True) as process:
            said, erred = process.communicate()
    assert process.returncode == 0, erred
    told = json.loads(said.splitlines()[-1])
    assert told["exit"] == 0, erred
    assert sum(told["killed"].values()) >= KILLS, told
    engines = ("in process", "workers", "ray") if with_ray else ("in process", "workers")
    assert all(any(who.startswith(engine) for who in told["killed"]) for engine in engines), told

    records, expected = read_records(disturbed), read_records(whole)
    assert len(records) == len({record.key for record in records}) == len(expected) == 4 * tasks
    assert records_digest(records) == records_digest(expected)
    for record in records[::tasks]:
        assert read_trace(disturbed, record).head.task == record.task
