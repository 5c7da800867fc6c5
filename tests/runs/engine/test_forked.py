"""Trials that are shared among forks of the command's process: the same records as in one process, and no process left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.prepared import Prepared
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.run import job_of
from whichloop.runs.config import BudgetConfig
from whichloop.runs.engine import forked as forking
from whichloop.runs.engine.forked import MAX_FORKS, MIN_TRIALS, forked_workers, forks_for

ROOT = Path(__file__).parents[3]


def _can_watch() -> bool:
    """Whether the system lets a process watch for another one's end; older containers do not."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """What came of runs in a process that has one thread."""
    if not _can_watch():
        pytest.skip("this system cannot watch for the end of a fork")
    folder = tmp_path_factory.mktemp("shared")
    command = [sys.executable, "-m", "tests.runs.engine.forked_runs", str(folder)]
    with Prepared(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate()
    assert process.returncode == 0
    return json.loads(said)


@pytest.mark.parametrize("how", ["whole", "killed", "interrupted"])
def test_trials_that_are_shared_are_those_of_one_process_whatever_happens(shared, undisturbed, how):
    found = shared[how]
    assert (found["forks"], found["left"], found["heard"]) == (2, [], True)
    here = undisturbed(loops=("bare", "finish"), suite="arithmetic(size=6)", profiles=("flaky-tools",), repeats=2)
    assert found["digest"] == here.digest


def test_a_fork_that_is_killed_is_told_of(shared):
    (note,) = shared["killed"]["notes"]
    assert note.startswith("worker 1 died (signal 9)")


def test_ctrl_c_is_for_the_command_which_goes_on_later(shared):
    said, went_on = shared["interrupted"]["notes"]
    assert said.endswith("first; Ctrl-C again ends the run at once")
    assert went_on in {f"went on after {count} of 24" for count in range(5, 24)}


def test_the_manifest_says_nothing_of_forks(shared):
    assert shared["whole"]["settings"] is None
    assert shared["whole"]["notes"] == []


def test_as_many_forks_as_processors_share_what_takes_a_while(configured, monkeypatch):
    config = configured(loops=("bare", "repeat_guard(inner=finish)"))
    counts = {}
    for processors in (1, 2, MAX_FORKS, 64):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, n=processors: set(range(n)))
        counts[processors] = forks_for(config, MIN_TRIALS)
    assert counts == {1: 0, 2: 2, MAX_FORKS: MAX_FORKS, 64: MAX_FORKS}
    assert forks_for(config, MIN_TRIALS - 1) == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"loops": ("bare", "own:Loop")},
        {"loops": ("bare", 'repeat_guard(inner="own:Loop")')},
        {"loops": ("bare", "langchain")},
        {"loops": ("program(command=agent)",)},
        {"models": ("openai/gpt-4o-mini",), "profiles": ("clean",)},
        {"suite": "own:tasks"},
        {"suite": "csv", "data": Path("tasks.csv")},
        {"suite": "csv", "data": Path("tasks.csv"), "tools": "own.tools"},
        {"workers": 2},
        {"workers": 1},
        {"engine": "ray"},
        {"concurrency": 8},
        {"cassette": Path("tape")},
        {"real_time": True},
        {"budget": BudgetConfig(calls=1_000_000)},
    ],
    ids=str,
)
def test_what_is_not_known_to_be_safe_stays_in_one_process(configured, monkeypatch, changed):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert forks_for(configured(), MIN_TRIALS) == 2
    assert forks_for(configured(**changed), MIN_TRIALS) == 0


def test_beside_another_thread_no_process_is_forked(configured, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("this process was forked"))
    with forked_workers(job_of(prepare(configured())), MIN_TRIALS) as workers:
        assert workers == []


def test_where_the_system_grants_no_process_there_is_one(configured, monkeypatch):
    def refuse() -> int:
        raise OSError("no more of them")

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(forking, "may_fork", lambda: True)
    monkeypatch.setattr(os, "fork", refuse)
    with forked_workers(job_of(prepare(configured())), MIN_TRIALS) as workers:
        assert workers == []


def test_a_run_that_shares_nothing_does_not_wait_for_threads_to_end(configured, monkeypatch):
    monkeypatch.setattr(forking, "may_fork", lambda: True)
    monkeypatch.setattr(forking, "is_alone", lambda: pytest.fail("threads end at a fork only"))
    with forked_workers(job_of(prepare(configured())), MIN_TRIALS - 1) as workers:
        assert workers == []
