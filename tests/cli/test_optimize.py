"""`optimize` through the command line: end to end, cut off and gone on with, and what fails in it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import BareMachine
from tests.prepared import start_command

SMALL = ["--suite", "arithmetic(size=60)", "--profile", "teachable", "--train", "6", "--dev", "6"]
SMALL += ["--tasks", "10", "--repeats", "1"]
QUICK = [*SMALL, "--optimizer", "BootstrapFewShot", "--budget", "120calls"]
LONG = [*SMALL, "--train", "16", "--optimizer", "COPRO(breadth=6, depth=3)", "--budget", "20000calls"]
"""A search of some hundred rollouts, which an interruption and a kill cut into pieces."""
EAGER = """
import whichloop.__main__
from whichloop.experiments.optimize import config as manifest
manifest.MAX_UNSYNCED = 8
whichloop.__main__.main()
"""
"""The command, whose log of rollouts is written at every eighth of them: 256 of them would be most of a search this long."""


def process(folder: Path, *arguments: str, module: str = "whichloop") -> subprocess.Popen[str]:
    return start_command(arguments, folder, BareMachine(folder).environment(), module=module)


@dataclass(frozen=True)
class Ran:
    """An optimization that a process of its own has run."""

    folder: Path
    out: str
    err: str
    code: int


def only_run(folder: Path) -> Path:
    (run,) = (path.parent for path in (folder / "runs").glob("*/manifest.json"))
    return run


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Two designs, optimized once for all tests that read it."""
    folder = tmp_path_factory.mktemp("optimized")
    running = process(folder, "optimize", *QUICK, "--loop", "bare", "--loop", "finish")
    out, err = running.communicate(timeout=200)
    return Ran(only_run(folder), out, err, running.returncode)


def test_an_optimization_ends_with_a_ranking_and_programs(ran):
    assert ran.code == 0, ran.err
    title, *lines = ran.out.splitlines()
    assert title.startswith("arithmetic 2: 6 train, 6 dev, 10 locked tasks × 1")
    assert all(re.match("(Adopt|Keep) +(bare|finish), (new|old) prompts: ", line) for line in lines[:2])
    assert re.match("Highest +(bare|finish) before, (bare|finish) after: ", lines[2])
    assert re.split(r" {2,}", lines[3])[:4] == ["design", "prompts", "locked", "change"]
    assert [line.split()[:2] for line in lines[4:7]] == [["bare", each] for each in ("old", "again", "new")]
    assert lines[10] == "Spent by BootstrapFewShot, --budget 120calls for each design"
    assert f"whichloop prompts bare {ran.folder.relative_to(ran.folder.parents[1])}/designs/1-bare/optimized.json" in ran.out
    assert f"run directory: {ran.folder.relative_to(ran.folder.parents[1])}" in ran.err
    assert "| test 60/60" in ran.err
    assert "| bare " in ran.err
    assert sorted(path.parent.name for path in ran.folder.glob("designs/*/optimized.json")) == ["1-bare", "2-finish"]


def test_its_programs_are_shown_compared_and_used(ran, whichloop):
    path = str(ran.folder / "designs/1-bare/optimized.json")
    shown = whichloop("prompts", path)
    assert re.search(r"^optimizer +BootstrapFewShot", shown.out, re.MULTILINE)
    found = whichloop("prompts", "bare", path)
    changed = json.loads((ran.folder / "designs/1-bare/ended.json").read_text())["chosen"] != 0
    assert found.code == int(changed)
    used = whichloop(
        "compare", "--loop", f"bare@{path}", "--suite", "arithmetic(size=6)", "--profile", "clean", "-q", "--json"
    ).json
    assert used["arms"][0]["arm"] == "bare@optimized.json/clean"
    digest = json.loads((ran.folder / "designs/1-bare/ended.json").read_text())["digest"]
    assert whichloop("prompts", path, "--json").json["digest"] == digest


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Any]:
    """Starts a command and leaves none running."""
    started: list[subprocess.Popen[str]] = []
    (tmp_path / "eager.py").write_text(EAGER)

    def start(*arguments: str) -> subprocess.Popen[str]:
        started.append(process(tmp_path, *arguments, module="eager"))
        return started[-1]

    yield start
    for running in started:
        running.kill()
        running.communicate()


@pytest.fixture(scope="module")
def at_one_sitting(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Digest of the long optimization that nobody interrupts."""
    running = process(tmp_path_factory.mktemp("whole"), "optimize", *LONG, "--loop", "bare", "--quiet", "--json")
    out, err = running.communicate(timeout=250)
    assert running.returncode == 0, err
    return str(json.loads(out)["digest"])


def wait_for_rollouts(folder: Path, size: int) -> None:
    for _ in range(6_000):
        if any(path.stat().st_size > size for path in folder.glob("runs/*/designs/*/rollouts.jsonl")):
            return
        time.sleep(0.01)
    raise AssertionError("no rollout has ended")


@pytest.mark.slow
def test_a_search_that_is_interrupted_and_then_killed_says_how_to_go_on_and_ends_as_if_nothing_had_been(
    stopped, tmp_path, whichloop, at_one_sitting
):
    running = stopped("optimize", *LONG, "--loop", "bare", "--quiet")
    wait_for_rollouts(tmp_path, 0)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert out == ""
    run = only_run(tmp_path)
    how = f"go on with: whichloop resume {run.relative_to(tmp_path)}"
    assert f"interrupted; incomplete: 1 of 1 designs are not optimized yet, the test split is locked; {how}" in err
    assert "Traceback" not in err

    cut = whichloop("report", str(run))
    assert (cut.code, "incomplete" in cut.out) == (0, True)
    nothing = whichloop("show", str(run))
    assert (nothing.code, "no trial of the test split" in nothing.err) == (2, True)
    assert re.search(r"; whichloop report \S+ -v shows its search", nothing.err)

    size = next(run.glob("designs/*/rollouts.jsonl")).stat().st_size
    killed = stopped("resume", str(run), "--quiet")
    wait_for_rollouts(tmp_path, size)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL

    whole = stopped("resume", str(run), "--quiet", "--json")
    out, err = whole.communicate(timeout=250)
    assert whole.returncode == 0, err
    made = json.loads(out)
    assert made["complete"] is True
    rows = [json.loads(line)["key"] for line in next(run.glob("designs/*/rollouts.jsonl")).read_text().splitlines()]
    assert len({json.dumps(row) for row in rows}) == len(rows)  # none was run twice
    assert at_one_sitting == made["digest"]


BROKEN = """
class Broken:
    def compile(self, student, *, trainset):
        raise KeyError("a bug")
"""


@pytest.fixture
def broken(here, monkeypatch) -> str:
    (here / "broken_i6.py").write_text(BROKEN, encoding="utf-8")
    monkeypatch.syspath_prepend(here)
    return "broken_i6"


def test_where_the_optimizer_fails_on_all_designs_the_test_stays_locked(whichloop, here, broken):
    ended = whichloop("optimize", "--loop", "bare", *SMALL, "--optimizer", f"{broken}:Broken", "--quiet")
    assert (ended.code, ended.out) == (2, "")
    assert "KeyError: 'a bug'; the traceback is in" in ended.err
    run = only_run(here)
    assert json.loads((run / "manifest.json").read_text())["splits"]["test"]["opened"] is None
    assert 'raise KeyError("a bug")' in next(run.glob("designs/*/failure.txt")).read_text()


SHORT = ["--train", "6", "--dev", "6", "--tasks", "6", "--repeats", "1", "--budget", "120calls", "--quiet"]
GRADED = """
from dataclasses import replace
from whichloop.datasets import arithmetic

def always(judgement):
    return judgement.correctness

def load():
    suite = arithmetic.load(60)
    return replace(suite, tasks=tuple(replace(task, scorer="graded_p2:always") for task in suite.tasks))
"""


@pytest.fixture
def graded(here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (here / "graded_p2.py").write_text(GRADED, encoding="utf-8")
    monkeypatch.syspath_prepend(here)
    return "graded_p2:load"


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("optimizer", ["GEPA", "LabeledFewShot"])
def test_a_broken_scorer_ends_the_search_at_once_and_the_test_stays_locked(
    whichloop: Any, here: Path, graded: str, optimizer: str
) -> None:
    ended = whichloop("optimize", "--loop", "bare", "--suite", graded, "--optimizer", optimizer, *SHORT)
    assert (ended.code, ended.out) == (2, "")
    said = "scorer graded_p2:always: AttributeError: 'Judgement' object has no attribute 'correctness'"
    assert ended.err == f"error: {said}; the test split stays locked\n"
    run = only_run(here)
    assert json.loads((run / "manifest.json").read_text())["splits"]["test"]["opened"] is None
    asked = lines(run / "designs/1-bare/rollouts.jsonl")
    assert len(asked) <= 12
    assert {line["record"]["attempt"] for line in asked} == {0}  # none is asked again
    assert lines(run / "designs/1-bare/proposals.jsonl") == []
    document = json.loads((run / "designs/1-bare/ended.json").read_text())
    assert (document["status"], document["reason"]) == ("failed", said)
