"""Code of the user's own, and runs that are interrupted or killed."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.kept import rows

QUICK = ["--loop", "bare", "--suite", "arithmetic(size=6)", "--profile", "clean"]
LOOP = """
from whichloop.loops import Bare
from whichloop.protocol import Outcome, StopReason

class {name}:
    name, stops = "own", frozenset()

    def with_step_limit(self, tool_steps):
        return self

    async def run(self, query, tools, model, observer=None):
        await Bare().run(query, tools, model)
        return Outcome({answer!r}, StopReason.FINISHED, 0)
"""


def lines(run: Path) -> list[tuple[str, str, int]]:
    return [(row["arm"], row["task"], row["repeat"]) for row in rows(run)]


# --- code of the user's own ---


@pytest.mark.thorough
def test_own_code_runs_when_typed_and_is_not_imported_because_a_run_names_it(machine, here):
    (here / "own_loop.py").write_text(LOOP.format(name="Mine", answer="not determined"))
    compared = machine.run("compare", *QUICK, "--suite", "arithmetic(size=12)", "--loop", "own_loop:Mine", "--json")
    assert compared.code == 0, compared.err
    accuracies = {arm["arm"]: arm["accuracy"]["value"] for arm in json.loads(compared.out)["arms"]}
    assert accuracies == {"bare/clean": 1.0, "own_loop:Mine/clean": pytest.approx(1 / 12)}
    (here / "own_loop.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    shown = machine.run("show", "latest", "own_loop:Mine/clean/arithmetic-0001")
    assert (shown.code, "finished" in shown.out) == (0, True)
    reported = machine.run("report", "latest", "--json")
    assert reported.out == compared.out
    assert not (here / "imported").exists()


def test_a_loop_of_ones_own_inside_another_is_not_imported_because_a_run_names_it(here, whichloop, monkeypatch):
    (here / "own_inner.py").write_text(LOOP.format(name="Mine", answer="1"))
    monkeypatch.syspath_prepend(here)
    guarded = 'repeat_guard(loop="own_inner:Mine")'
    assert whichloop("compare", "--loop", guarded, "--suite", "arithmetic(size=2)", "--profile", "clean", "-q").code == 0
    untyped = whichloop("resume", "latest", "-q")
    assert (untyped.code, untyped.out) == (2, "")
    assert "--allow own_inner:Mine" in untyped.err
    assert whichloop("resume", "latest", "-q", "--allow", "own_inner:Mine").code == 0


def test_a_resume_refuses_changed_code(machine, here, whichloop, monkeypatch):
    (here / "own_changing.py").write_text(LOOP.format(name="Mine", answer="1"))
    monkeypatch.syspath_prepend(here)
    whichloop("compare", "--loop", "own_changing:Mine", "--suite", "arithmetic(size=2)", "--profile", "clean", "-q")
    untyped = whichloop("resume", "latest", "-q")
    assert (untyped.code, untyped.out) == (2, "")
    assert "to let it run, type --allow own_changing:Mine" in untyped.err
    assert whichloop("resume", "latest", "-q", "--allow", "own_changing:Mine").code == 0
    (here / "own_changing.py").write_text(LOOP.format(name="Mine", answer="2") + "# changed\n")
    before = rows(machine.only_run())
    found = machine.run("resume", "latest", "--allow", "own_changing:Mine")
    assert (found.code, found.out) == (2, "")
    assert "changed since this run began: arm own_changing:Mine/clean (its code)" in found.err
    assert "results are never mixed, nothing was written" in found.err
    assert found.err.count("\n") == 1
    assert rows(machine.only_run()) == before


# --- interruption ---


def test_a_budget_stops_with_130_and_is_that_of_the_whole_run(machine, whichloop):
    whole = json.loads(whichloop("compare", *QUICK, "--runs", "whole", "--json").out)
    found = whichloop("compare", *QUICK, "--budget", "15calls", "--json")
    assert found.code == 130
    assert json.loads(found.out)["complete"] is False
    run = machine.only_run()
    assert "budget of 15 model calls used up: " in found.err
    (command,) = re.findall(rf"\n  whichloop (resume runs/{run.name} --budget \d+calls)\n", found.err)
    before = rows(run)
    again = whichloop("resume", run.name, "-q")
    assert (again.code, rows(run)) == (130, before)
    assert f"  whichloop {command}\n" in again.err
    assert whichloop(*command.split(), "-q").code == 0
    assert json.loads(whichloop("report", run.name, "--json").out)["digest"] == whole["digest"]


@pytest.mark.thorough
def test_ctrl_c_leaves_a_run_that_can_be_resumed(machine, here):
    (here / "slow.toml").write_text('name = "slow"\nlatency_s = 0.1\n')  # waits, so that the run lasts and costs little
    size = ["--suite", "arithmetic(size=40)", "--repeats", "150", "--profile", "slow.toml", "-s", "real_time=true"]
    with machine.running("compare", "--loop", "bare", *size, "--json", "-q") as child:
        run = machine.only_run()
        refused = machine.run("resume", run.name)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "another process is writing to this run" in refused.err
        child.send_signal(signal.SIGINT)
        pressed = time.monotonic()
        found = machine.ended(child)
    assert time.monotonic() - pressed < 20
    assert found.code == 130, found.err
    assert "Traceback" not in found.err
    assert re.search(r"^note: .* first; Ctrl-C again ends the run at once$", found.err, re.MULTILINE)
    assert "interrupted: " in found.err
    assert f"  whichloop resume runs/{run.name}\n" in found.err
    assert json.loads(found.out)["complete"] is False
    left = int(found.err.partition("interrupted: ")[2].split()[0].replace(",", ""))
    assert len(lines(run)) == len(set(lines(run))) == 6_000 - left


@pytest.mark.thorough
def test_kills_at_any_moment_lose_nothing_and_do_nothing_twice(machine, whichloop):
    size = ["--loop", "bare", "--suite", "arithmetic(size=50)", "--profile", "flaky-format", "--profile", "clean"]
    calm = whichloop("compare", *size, "--runs", "calm", "-s", "concurrency=1", "--json")
    moments = random.Random()
    with machine.running("compare", *size, "-s", "concurrency=64", "-q") as child:
        run = machine.only_run()
        time.sleep(moments.uniform(0, 0.2))
    kept = [len(rows(run))]
    with machine.running("resume", run.name, "-q") as child:
        waited = time.monotonic() + 30
        while child.poll() is None and time.monotonic() < waited:
            if len(rows(run)) > kept[-1]:
                time.sleep(moments.uniform(0, 0.1))
                break
            time.sleep(0.01)
    kept.append(len(rows(run)))
    finished = machine.run("resume", run.name, "--json")
    assert finished.code == 0, (kept, finished.err)
    assert len(lines(run)) == len(set(lines(run))) == 100, kept
    assert json.loads(finished.out)["digest"] == calm.json["digest"], kept
    assert json.loads(finished.out)["complete"] is True


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("workers", [(), ("--workers", "1")])
def test_a_process_that_is_stopped_for_longer_than_a_trial_may_take_gets_the_same_results(machine, whichloop, workers):
    asked = ["compare", "--loop", "finish", "--suite", "arithmetic(size=120)", "--profile", "clean", "--json"]
    asked += ["--profile", "flaky-tools", "-s", "trial_timeout_s=1"]
    calm = whichloop(*asked, "--runs", "calm")
    with machine.running(*asked, *workers) as child:
        machine.only_run()
        stopped = children(child.pid) if workers else [child.pid]
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        time.sleep(3)
        for process in stopped:
            os.kill(process, signal.SIGCONT)
        found = machine.ended(child)
    assert found.code == 0, found.err
    assert json.loads(found.out)["digest"] == calm.json["digest"]


def children(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(word) for word in listed.split()]
