"""Real kills, at random moments: nothing is lost, nothing done twice, and nothing is left running."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.kept import rows
from tests.prepared import Prepared
from tests.processes import is_alive
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare, run

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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_workers_killed_while_a_run_goes_on_change_nothing(ran, told, workers_of, seed):
    asked = {"loops": ("bare", "finish"), "suite": "arithmetic(size=60)", "repeats": 3}
    whole = ran(**asked)
    draws, killed = random.Random(seed), []
    moments = set(draws.sample(range(1, 360), 8))

    def kill(count: int) -> None:
        if count in moments:
            killed.append(draws.choice(workers_of(os.getpid())))
            with contextlib.suppress(ProcessLookupError):
                os.kill(killed[-1], signal.SIGKILL)

    found = ran(told(each=kill), **asked, workers=2)
    assert len(killed) == 8
    assert found.is_whole
    assert found.digest == whole.digest
    assert workers_of(os.getpid()) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_a_run_that_is_killed_leaves_no_worker_and_is_gone_on_with(ran, configured, told, workers_of, seed, tmp_path):
    asked = {"loops": ("bare", "finish"), "suite": "arithmetic(size=60)", "repeats": 2}
    whole = ran(**asked)
    folder = prepare(configured(**asked, workers=2)).folder
    file, draws = tmp_path / "run.py", random.Random(seed)
    file.write_text(RUN)
    for _ in range(2):
        process = subprocess.Popen([sys.executable, str(file), str(folder)])
        until(lambda process=process: len(workers_of(process.pid)) == 2)
        workers = workers_of(process.pid)
        time.sleep(draws.uniform(0, 4))
        process.kill()
        process.wait()
        until(lambda workers=workers: not any(map(is_alive, workers)))
    assert run(reopen(folder), told()) == ""
    assert results(folder).digest == whole.digest
    keys = [(row["arm"], row["task"], row["repeat"]) for row in rows(folder)]
    assert len(keys) == len(set(keys))


@pytest.mark.thorough
@pytest.mark.parametrize("loop", ["Spins", "Matches"])
def test_no_worker_outlives_its_parent_by_more_than_a_trials_limit_though_its_event_loop_is_stuck(
    nasty, configured, workers_of, tmp_path, loop
):
    experiment = prepare(
        configured(loops=(f"nasty:{loop}",), suite="arithmetic(size=1)", profiles=("clean",), workers=1, trial_timeout_s=5)
    )
    (tmp_path / "run_it.py").write_text(RUN)
    command = [sys.executable, "-m", "run_it", str(experiment.folder), f"nasty:{loop}"]
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
