"""`resume`: runs that are extended, judged again, interrupted or killed, what is printed, and with which code each ends."""

from __future__ import annotations

import importlib
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import BareMachine
from tests.kept import rows
from tests.prepared import start_command
from tests.sealing import reseal

BRIEF = ["--profile", "clean", "--suite", "arithmetic(size=6)", "--quiet"]


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def process(folder: Path, *arguments: str, **pipes: Any) -> subprocess.Popen[str]:
    return start_command(arguments, folder, BareMachine(folder).environment(), **pipes)


def test_an_extension_gives_what_one_whole_run_would(whichloop, here):
    whole = whichloop("compare", "--loop", "bare", "--loop", "finish", "--repeats", "2", *BRIEF, "--runs", "whole", "--json").json
    whichloop("compare", "--loop", "bare", "--tasks", "4", *BRIEF)
    run = only_run(here)
    made = whichloop("resume", run.name, "--add-loop", "finish", "--repeats", "2", "--tasks", "6", "-q", "--json")
    assert made.json["digest"] == whole["digest"]
    assert f"runs/{run.name}: trials missing: 20 of 24, run again: 0\n" in made.err
    assert whichloop("resume", run.name, "-q", "--json").json["digest"] == whole["digest"]
    assert "6 tasks × 2, seed 0" in whichloop("report", run.name).out


def test_results_are_logged_only_to_a_store_that_was_typed(whichloop, here, compared_once):
    path, store = compared_once("--loop", "bare", *BRIEF) / "manifest.json", f"sqlite:///{here}/theirs.db"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | {"config": manifest["config"] | {"mlflow": True, "tracking_uri": store}}))
    reseal(path)
    for command in (["resume", "latest", "-q"], ["resume", "latest", "--repeats", "2", "-q"]):
        refused = whichloop(*command)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert f"type it again: -s tracking_uri={store}" in refused.err
    assert whichloop("resume", "latest", "-q", "-s", "mlflow=false").code == 0
    assert not (here / "theirs.db").exists()


FULL = """
import resource, sys
from whichloop.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
sys.argv = ["whichloop", *sys.argv[1:]]
main()
"""


def test_a_full_disk_leaves_the_command_that_goes_on(whichloop, here):
    small = ["compare", "--loop", "bare", *BRIEF, "--repeats", "10"]
    (here / "full_disk.py").write_text(FULL)
    with process(here, *small, module="full_disk") as child:
        _, said = child.communicate()
    assert (child.returncode, "Traceback" in said) == (130, False), said
    run = only_run(here)
    hint = said.rpartition("disk I/O error; what was written before is whole, and the run can be resumed: ")[2]
    assert hint.partition("trials left; go on with\n")[2].splitlines()[0] == f"  whichloop resume runs/{run.name}"
    assert whichloop("resume", run.name, "-q", "--json").json["complete"] is True


def test_a_run_that_is_judged_again_tells_before_and_after(whichloop, here, monkeypatch):
    (here / "own_judged_suite.py").write_text(
        "from dataclasses import replace\n"
        "from whichloop.datasets import arithmetic\n"
        "wrong = False\n"
        "def load():\n"
        "    suite = arithmetic.load(size=6)\n"
        "    return replace(suite, tasks=tuple(replace(task, expected=-1) if wrong else task for task in suite.tasks))\n"
    )
    monkeypatch.syspath_prepend(here)
    whichloop("compare", "--loop", "bare", "--suite", "own_judged_suite:load", "--profile", "clean", "-q")
    module: Any = importlib.import_module("own_judged_suite")
    module.wrong = True
    untyped = whichloop("resume", "latest", "--rescore")
    assert (untyped.code, untyped.err.count("\n")) == (2, 1)
    assert "--allow own_judged_suite:load" in untyped.err
    refused = whichloop("resume", "latest", "--allow", "own_judged_suite:load")
    hint = refused.err.partition("the answers can be judged again: whichloop ")[2].split()
    assert hint[:1] + hint[2:] == ["resume", "--rescore", "--allow", "own_judged_suite:load"]
    judged = whichloop(*hint, "--json")
    assert judged.code == 4  # by such answers no plan solves its task, so that the run says nothing of a loop
    made = json.loads(judged.out)
    (arm,) = made["arms"]
    assert (arm["before"]["value"], arm["after"]["value"], arm["changed"], made["judged"]) == (1.0, 0.0, 6, 6)
    module.wrong = False
    told = whichloop("resume", "latest", "--rescore", "--allow", "own_judged_suite:load")
    assert told.out.startswith("6 of 6 trials judged again")
    assert re.search(r"^Changed +6 trials$", told.out, re.MULTILINE)
    assert "bare/clean" in told.out
    assert whichloop("report", "latest", "--json").json["arms"][0]["accuracy"]["value"] == 1.0
    assert whichloop("resume", "latest", "--allow", "own_judged_suite:load", "-q").code == 0


def test_a_signal_to_end_leaves_a_run_that_can_be_resumed(machine):
    with machine.running("compare", "--loop", "bare", "--suite", "arithmetic(size=40)", "--repeats", "150") as child:
        run = machine.only_run()
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 130, said
    assert "Traceback" not in said
    assert f"  whichloop resume runs/{run.name}\n" in said


def test_ctrl_c_in_the_first_moments_prints_no_traceback(here):
    started = textwrap.dedent("""
        import sys, whichloop.__main__ as own
        class Up:
            def find_spec(self, name, *rest):
                if name == "whichloop.cli":  # the first thing that the command itself does
                    print("up", flush=True)
        sys.meta_path.insert(0, Up())
        sys.argv[0] = "whichloop"
        own.main()
    """)
    long = ["compare", "--loop", "bare", "--suite", "arithmetic(size=40)", "--repeats", "150"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": here}
    with subprocess.Popen([sys.executable, "-c", started, *long], **pipes) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"  # before that it is Python's own start, and the test's
        child.send_signal(signal.SIGINT)
        out, said = child.communicate(timeout=120)
    assert "Traceback" not in out + said
    assert child.returncode == 130, said


QUICK = ["--loop", "bare", "--suite", "arithmetic(size=6)", "--profile", "clean"]
ASKING = """
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


def forgotten(here: Path, name: str) -> None:
    """Let a module of the folder be imported anew, as a process of its own would."""
    sys.modules.pop(name, None)
    shutil.rmtree(here / "__pycache__", ignore_errors=True)


def test_own_code_runs_when_typed_and_is_not_imported_because_a_run_names_it(here, whichloop, monkeypatch):
    (here / "own_loop.py").write_text(ASKING.format(name="Mine", answer="not determined"))
    monkeypatch.syspath_prepend(here)
    compared = whichloop("compare", *QUICK, "--suite", "arithmetic(size=12)", "--loop", "own_loop:Mine", "--json")
    accuracies = {arm["arm"]: arm["accuracy"]["value"] for arm in compared.json["arms"]}
    assert accuracies == {"bare/clean": 1.0, "own_loop:Mine/clean": pytest.approx(1 / 12)}
    forgotten(here, "own_loop")
    (here / "own_loop.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    shown = whichloop("show", "latest", "own_loop:Mine/clean/arithmetic-0001")
    assert (shown.code, "finished" in shown.out) == (0, True)
    assert whichloop("report", "latest", "--json").out == compared.out
    assert not (here / "imported").exists()
    assert whichloop("compare", *QUICK, "--loop", "own_loop:Mine").code == 2
    assert (here / "imported").exists(), "it would have been noticed"


def test_a_loop_of_ones_own_inside_another_is_not_imported_because_a_run_names_it(here, whichloop, monkeypatch):
    (here / "own_inner.py").write_text(ASKING.format(name="Mine", answer="1"))
    monkeypatch.syspath_prepend(here)
    whichloop(
        "compare", "--loop", 'repeat_guard(loop="own_inner:Mine")', "--suite", "arithmetic(size=2)", "--profile", "clean", "-q"
    )
    untyped = whichloop("resume", "latest", "-q")
    assert (untyped.code, untyped.out) == (2, "")
    assert "--allow own_inner:Mine" in untyped.err
    assert whichloop("resume", "latest", "-q", "--allow", "own_inner:Mine").code == 0


def test_a_resume_refuses_changed_code(machine, here, whichloop, monkeypatch):
    (here / "own_changing.py").write_text(ASKING.format(name="Mine", answer="1"))
    monkeypatch.syspath_prepend(here)
    whichloop("compare", "--loop", "own_changing:Mine", "--suite", "arithmetic(size=2)", "--profile", "clean", "-q")
    untyped = whichloop("resume", "latest", "-q")
    assert (untyped.code, untyped.out) == (2, "")
    assert "to let it run, type --allow own_changing:Mine" in untyped.err
    assert whichloop("resume", "latest", "-q", "--allow", "own_changing:Mine").code == 0
    (here / "own_changing.py").write_text(ASKING.format(name="Mine", answer="2") + "# changed\n")
    forgotten(here, "own_changing")
    before = rows(machine.only_run())
    found = whichloop("resume", "latest", "--allow", "own_changing:Mine")
    assert (found.code, found.out) == (2, "")
    assert "changed since this run began: arm own_changing:Mine/clean (its code)" in found.err
    assert "results are never mixed, nothing was written" in found.err
    assert found.err.count("\n") == 1
    assert rows(machine.only_run()) == before


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


def test_ctrl_c_leaves_a_run_that_can_be_resumed(machine, whichloop, here):
    (here / "slow.toml").write_text('name = "slow"\nlatency_s = 0.1\n')  # waits, so that the run lasts and costs little
    size = ["--suite", "arithmetic(size=40)", "--repeats", "150", "--profile", "slow.toml", "-s", "real_time=true"]
    with machine.running("compare", "--loop", "bare", *size, "--json", "-q") as child:
        run = machine.only_run()
        refused = whichloop("resume", run.name)
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


def wait_for_more(run: Path, child: subprocess.Popen[str], than: int) -> None:
    """Wait until a run has more rows, or its process has ended."""
    waited = time.monotonic() + 30
    while child.poll() is None and len(rows(run)) <= than and time.monotonic() < waited:
        time.sleep(0.01)


def test_kills_at_any_moment_lose_nothing_and_do_nothing_twice(machine, whichloop):
    size = ["--loop", "bare", "--suite", "arithmetic(size=30)", "--profile", "flaky-format", "--profile", "clean"]
    calm = whichloop("compare", *size, "--runs", "calm", "-s", "concurrency=1", "--json")
    moments = random.Random()
    with machine.running("compare", *size, "-s", "concurrency=64", "-q"):
        run = machine.only_run()
        time.sleep(moments.uniform(0, 0.2))
    kept = [len(rows(run))]
    with machine.running("resume", run.name, "-q") as child:
        wait_for_more(run, child, kept[-1])
        time.sleep(moments.uniform(0, 0.1))
    kept.append(len(rows(run)))
    finished = whichloop("resume", run.name, "--json")
    assert finished.code == 0, (kept, finished.err)
    assert len(lines(run)) == len(set(lines(run))) == 60, kept
    assert finished.json["digest"] == calm.json["digest"], kept
    assert finished.json["complete"] is True


@pytest.mark.parametrize("moment", ["as its manifest is written", "among its trials", "at any time"])
def test_an_extension_that_is_killed_loses_nothing_and_does_nothing_twice(machine, whichloop, compared_once, moment):
    """Whoever types the same again adds it, or is told in a line that it is there: the run is whole at any moment."""
    more = ["--add-loop", "finish", "--tasks", "10", "--repeats", "2"]
    size = ["--suite", "arithmetic(size=10)", "--profile", "flaky-format", "-q"]
    whole = compared_once("--loop", "bare", "--loop", "finish", "--repeats", "2", *size)
    run = compared_once("--loop", "bare", "--tasks", "4", *size)
    wanted, before = whichloop("report", str(whole), "--json").json["digest"], rows(run)
    with machine.running("resume", str(run), *more, "-q") as child:
        if moment == "as its manifest is written":
            manifest = (run / "manifest.json").stat().st_ino
            while child.poll() is None and (run / "manifest.json").stat().st_ino == manifest:
                time.sleep(0.001)
        elif moment == "among its trials":
            wait_for_more(run, child, 4)
        elif moment == "at any time":
            time.sleep(random.uniform(0, 0.4))
    assert rows(run)[:4] == before
    assert whichloop("report", str(run)).code == 0
    again = whichloop("resume", str(run), *more, "-q")
    assert again.code == 0 or again.err.count("\n") == 1, again.err
    finished = whichloop("resume", str(run), "-q", "--json").json
    assert (finished["complete"], finished["digest"]) == (True, wanted)
    assert len(lines(run)) == len(set(lines(run))) == 40
    assert rows(run)[:4] == before
