"""Real kills, at random moments: nothing is lost, nothing done twice, and nothing is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.prepared import Prepared
from tests.processes import is_alive
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.run import prepare, run
from whichloop.metrics.record import records_digest
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.trials import read_records, read_trace

RUN = """
import sys
from pathlib import Path
from whichloop.experiments.compare.run import run
from whichloop.runs.engine.runner import Unwatched
from whichloop.experiments.compare.reopen import reopen
from whichloop.runs.permissions import Permissions
run(reopen(Path(sys.argv[1]), Permissions(code=sys.argv[2:])), Unwatched())
"""
LIMIT_S = 60.0
"""Far more than anything here takes."""


def until(holds) -> None:
    end = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.thorough
def test_no_worker_outlives_its_parent_by_more_than_a_trials_limit_though_its_event_loop_is_stuck(
    nasty, configured, workers_of, tmp_path
):
    experiment = prepare(
        configured(loops=("nasty:Matches",), suite="arithmetic(size=1)", profiles=("clean",), workers=1, trial_timeout_s=5)
    )
    (tmp_path / "run_it.py").write_text(RUN)
    command = [sys.executable, "-m", "run_it", str(experiment.folder), "nasty:Matches"]
    process = Prepared(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(nasty.parent)})
    until(nasty.with_suffix(".begun").exists)
    (worker,) = workers_of(process.pid)
    used = ticks(worker)
    until(lambda: ticks(worker) > used + 0.1 * os.sysconf("SC_CLK_TCK"))  # in the trial, which lets nothing else run
    process.kill()
    process.wait()
    until(lambda: not is_alive(worker))


def ticks(process: int) -> int:
    """CPU time of a process, in ticks of the system's clock."""
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[11])


@pytest.mark.thorough
def test_a_worker_that_is_stopped_is_ended_and_its_trials_run_again(ran, undisturbed, told, workers_of, monkeypatch):
    monkeypatch.setattr("whichloop.runs.engine.pool.SILENCE_GRACE_S", 0.5)
    asked = {"loops": ("bare", "finish"), "suite": "arithmetic(size=6)"}
    whole = undisturbed(**asked)

    def stop(count: int) -> None:
        if count == 8:
            os.kill(workers_of(os.getpid())[0], signal.SIGSTOP)

    found = ran(told(each=stop), **asked, workers=2, concurrency=4, trial_timeout_s=2)
    assert found.is_whole
    assert found.digest == whole.digest


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


@pytest.mark.slow
@pytest.mark.timeout(900)
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
    assert run(reopen(whole, settings={"concurrency": 64}), Unwatched()) == ""

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
