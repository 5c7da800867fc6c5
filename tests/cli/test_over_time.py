"""`resume`, `extend` and `rescore`, end to end: what is printed, what is written, and with which code each ends."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import whichloop as package
from tests.kept import put, rows
from tests.prepared import start_command
from tests.sealing import reseal
from whichloop.runs.store.trials import count_rows

SOURCE = Path(package.__file__).parents[1]
BRIEF = ["--profile", "clean", "--suite", "arithmetic(size=6)", "--quiet"]
LOOP = """
from whichloop.protocol import Outcome, StopReason

class {name}:
    name, stops = "own", frozenset()
    def with_step_limit(self, tool_steps): return self
    async def run(self, query, tools, model, observer=None):
        {body}
        return Outcome("1", StopReason.FINISHED, 0)
"""


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def process(folder: Path, *arguments: str, **pipes: Any) -> subprocess.Popen[str]:
    """Of a bare machine: a new home, no caches; modules of the user's own are found in `folder`."""
    given = {"PATH": os.defpath, "HOME": str(folder / "home"), "PYTHONPATH": f"{folder}{os.pathsep}{SOURCE}"}
    return start_command(arguments, folder, given, **pipes)


@contextlib.contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Until the block ends; from when its run has a line of results."""
    child = process(folder, *arguments)
    try:
        for _ in range(1_200):
            if any(count_rows(path) for path in folder.glob("runs/*/")) or child.poll() is not None:
                break
            time.sleep(0.05)
        yield child
    finally:
        child.kill()
        child.communicate()


# --- extend ---


def test_an_extension_gives_what_one_whole_run_would(whichloop, here):
    whole = whichloop("compare", "--loop", "bare", "--loop", "finish", "--repeats", "2", *BRIEF, "--runs", "whole", "--json").json
    whichloop("compare", "--loop", "bare", "--tasks", "4", *BRIEF)
    run = only_run(here)
    made = whichloop("resume", run.name, "--add-loop", "finish", "--repeats", "2", "--tasks", "6", "-q", "--json")
    assert made.json["digest"] == whole["digest"]
    assert f"runs/{run.name}: trials missing: 20 of 24, run again: 0\n" in made.err
    assert whichloop("resume", run.name, "-q", "--json").json["digest"] == whole["digest"]
    assert "6 tasks × 2, seed 0" in whichloop("report", run.name).out


def test_an_extension_that_a_budget_ends_goes_on_as_a_resume(whichloop, compared_once):
    run = compared_once("--loop", "bare", *BRIEF)
    cut = whichloop("resume", run.name, "--repeats", "3", "--budget", "40calls", "-q")
    assert cut.code == 130
    command = cut.err.rpartition("  whichloop ")[2].splitlines()[0]
    assert re.fullmatch(rf"resume runs/{run.name} --budget \d+calls", command)
    assert whichloop(*command.split(), "-q", "--json").json["complete"] is True


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--repeats", "0"], "--repeats: the new total, 0, is less than the 1 that the run has"),
        (["--tasks", "500"], "--tasks: the run has all 6 tasks of suite arithmetic already"),
        (["--add-loop", "bare"], "--add-loop: 'bare' is given twice"),
        (["--add-loop", "bear"], "did you mean 'bare'"),
        (["--add-profile", "flaky"], "unknown profile 'flaky'"),
        (["--workers", "0", "--repeats", "2"], "workers: "),
        (["--repeats", "2", "-s", "engine=moon"], "engine: "),
    ],
)
def test_what_cannot_be_added_is_one_line(whichloop, here, compared_once, arguments, said):
    compared_once("--loop", "bare", *BRIEF)
    before = (only_run(here) / "manifest.json").read_bytes()
    ended = whichloop("resume", "latest", *arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert said in ended.err
    assert (only_run(here) / "manifest.json").read_bytes() == before


def test_more_tasks_than_there_are_are_refused_with_the_way_to_get_them(whichloop, here):
    ended = whichloop("compare", "--loop", "bare", *BRIEF, "--tasks", "50")
    said = "error: --tasks: 50 are asked for, and arithmetic(size=6) has 6; --suite 'arithmetic(size=50)' has as many\n"
    assert (ended.code, ended.out, ended.err) == (2, "", said)
    assert not Path("runs").exists()
    split = whichloop("compare", "--loop", "bare", *BRIEF, "--tasks", "50", "-s", "split=train")
    assert re.search(r"arithmetic\(size=6\), split train has \d; leave it out to run all of them\n$", split.err)


@pytest.mark.slow
@pytest.mark.thorough
def test_an_extension_that_is_killed_anywhere_loses_nothing(whichloop, here):
    small = ["--profile", "clean", "--suite", "arithmetic(size=20)", "--quiet"]
    whole = whichloop("compare", "--loop", "bare", "--repeats", "8", *small, "--runs", "whole", "--json").json
    whichloop("compare", "--loop", "bare", *small)
    run = only_run(here)
    moments = random.Random()
    for attempt in range(4):
        command = ["resume", run.name, "--repeats", "8", "-q"] if repeats_of(run) == 1 else ["resume", run.name, "-q"]
        killed_after(process(here, *command), moments.uniform(0.1, 0.4 + attempt / 4))
    last = ["resume"] if repeats_of(run) == 8 else ["resume", "--repeats", "8"]
    assert whichloop(*last, run.name, "-q", "--json").json["digest"] == whole["digest"]


def repeats_of(run: Path) -> int:
    return int(json.loads((run / "manifest.json").read_text())["config"]["repeats"])


def killed_after(child: subprocess.Popen[str], seconds: float) -> None:
    time.sleep(seconds)
    child.kill()
    child.communicate()


# --- resume ---


@pytest.mark.slow
def test_a_hint_says_all_that_has_to_be_typed_again(whichloop, here, monkeypatch):
    (here / "own mod").mkdir()
    (here / "own_slow.py").write_text(LOOP.format(name="Mine", body="await model.complete(None)"))
    monkeypatch.syspath_prepend(here)
    ended = whichloop(
        "compare",
        "--loop",
        "bare",
        "--loop",
        "own_slow:Mine",
        "--quiet",
        "--suite",
        "arithmetic(size=30)",
        "--runs",
        "own mod",
        "--budget",
        "9calls",
        "-s",
        "concurrency=2",
    )  # the loop runs in a worker, which says ten times a second what it spent
    assert ended.code == 130
    (run,) = (here / "own mod").iterdir()
    hint = ended.err.rpartition("  whichloop ")[2].splitlines()[0]
    assert shlex.split(hint)[:-1] == ["resume", f"own mod/{run.name}", "--allow", "own_slow:Mine", "--budget"]
    again = whichloop(*shlex.split(hint), "-s", "concurrency=3", "--quiet")
    assert again.code == 4  # it is complete; the loop of this test crashes in every trial


@pytest.mark.thorough
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
    assert "MLflow: " in whichloop("resume", "latest", "-s", f"tracking_uri={store}").err
    assert (here / "theirs.db").exists()


def test_trials_that_are_tried_again_are_left_too(whichloop, compared_once):
    folder = compared_once("--loop", "bare", *BRIEF)
    put(folder, [row | {"status": "errored", "reason": "down"} for row in rows(folder)])
    ended = whichloop("resume", "latest", "--budget", "1calls", "-q")
    assert ended.code == 130
    assert "used up: 6 trials left; go on with\n" in ended.err


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


def test_a_retry_of_nothing_says_so(whichloop, compared_once):
    compared_once("--loop", "bare", *BRIEF)
    for what in ("infrastructure", "errors"):
        ended = whichloop("resume", "latest", "--retry", what, "-q")
        assert ended.code == 0
        assert "trials missing: 0 of 6, run again: 0\n" in ended.err


@pytest.mark.slow
def test_a_retry_of_crashes_warns_and_the_results_do_for_good(whichloop, here, monkeypatch):
    (here / "own_luck.py").write_text(LOOP.format(name="Mine", body="1 / 0"))
    monkeypatch.syspath_prepend(here)
    whichloop("compare", "--loop", "own_luck:Mine", *BRIEF)
    ended = whichloop("resume", "latest", "--retry", "errors", "--allow", "own_luck:Mine", "-q")
    assert "warning: trials that count as they are and run again, which favours their arms: 6\n" in ended.err
    assert re.search(r"^Warning +6 trials that crashed or timed out ran again on request", ended.out, re.MULTILINE)
    assert "run again" in [each["code"] for each in json.loads(whichloop("report", "latest", "--json").out)["warnings"]]


@pytest.mark.slow
@pytest.mark.thorough
def test_changed_code_is_refused(here):
    (here / "own_code.py").write_text(LOOP.format(name="Mine", body="pass"))
    first = process(here, "compare", "--loop", "bare", "--loop", "own_code:Mine", *BRIEF)
    first.communicate()
    assert first.returncode == 4  # it never asks its model
    run = only_run(here)
    (here / "own_code.py").write_text(LOOP.format(name="Mine", body="await tools.call(None) if False else None"))
    _, said = process(here, "resume", run.name, "--allow", "own_code:Mine").communicate()
    assert said.count("\n") == 1
    assert "changed since this run began: arm own_code:Mine/clean (its code)" in said
    assert said.endswith("nothing was written; start a new run with the same settings\n")


def test_flags_of_comparisons_are_refused_for_an_optimization(whichloop, here):
    (here / "runs" / "o").mkdir(parents=True)
    (here / "runs" / "o" / "manifest.json").write_text('{"kind": "optimization", "config": {}}')
    reseal(here / "runs" / "o" / "manifest.json")
    for flags in (["--workers", "2"], ["--retry", "errors"], ["--budget", "3calls"], ["--repeats", "2"]):
        ended = whichloop("resume", "o", *flags)
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert "is an optimization, which goes on as it began" in ended.err
    ended = whichloop("resume", "o", "--rescore")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "an optimization and its test cannot be" in ended.err


# --- rescore ---


def test_own_tasks_are_judged_again_by_corrected_answers(whichloop, here, monkeypatch):
    (here / "own_judge.py").write_text(LOOP.format(name="Mine", body="pass"))
    monkeypatch.syspath_prepend(here)
    tasks = [{"id": f"t{i}", "question": f"Which digit is {i}?", "answer": str(i)} for i in range(4)]

    def written(name: str, **changed: Any) -> str:
        (here / name).write_text("".join(json.dumps(task | changed) + "\n" for task in tasks))
        return name

    served = [
        "-s",
        "skip_unplanned=true",
        "--model",
        "scripted",
        "--data",
        written("tasks.jsonl"),
        "--suite",
        "jsonl",
        "--profile",
        "clean",
        "-q",
    ]
    assert whichloop("compare", "--loop", "own_judge:Mine", *served).code in (0, 4)  # without plans all are left out
    told = whichloop("resume", "latest", "--rescore", "-s", f"data={written('right.jsonl', answer='1')}")
    assert told.code == 4, told.err  # none is scored, which makes the run invalid
    assert "no verdict of this run holds" in told.out
    assert told.out.startswith("0 of 4 trials judged again")
    assert json.loads((only_run(here) / "manifest.json").read_text())["config"]["data"] == "right.jsonl"
    other = whichloop("resume", "latest", "--rescore", "-s", f"data={written('other.jsonl', question='What else?')}")
    assert (other.code, other.err.count("\n")) == (2, 1)
    assert "the answers are to other questions; nothing was written; start a new run" in other.err


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


# --- signals, and readers that leave ---


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_a_signal_to_end_leaves_a_run_that_can_be_resumed(here, number):
    with running(here, "compare", "--loop", "bare", "--suite", "arithmetic(size=40)", "--repeats", "150") as child:
        child.send_signal(number)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 130, said
    assert "Traceback" not in said
    assert f"  whichloop resume runs/{only_run(here).name}\n" in said


@pytest.mark.thorough
@pytest.mark.parametrize("delay", [0.0, *(pytest.param(delay, marks=pytest.mark.slow) for delay in (0.1, 0.5, 1.0, 2.0))])
def test_ctrl_c_in_the_first_moments_prints_no_traceback(here, delay):
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
        time.sleep(delay)
        child.send_signal(signal.SIGINT)
        out, said = child.communicate(timeout=120)
    assert "Traceback" not in out + said
    assert child.returncode == 130, said


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "--loop", "bare", *BRIEF],
        pytest.param(["compare", "--loop", "bare", *BRIEF, "--json"], marks=pytest.mark.slow),
        pytest.param(["list", "suites"], marks=pytest.mark.slow),
        ["--help"],
    ],
)
def test_a_reader_that_has_left_changes_nothing(here, arguments):
    reader, writer = os.pipe()
    os.close(reader)
    child = process(here, *arguments, stdout=writer)
    os.close(writer)
    _, said = child.communicate()
    assert child.returncode == 0, said
    assert "Error" not in said
    assert "Broken" not in said
