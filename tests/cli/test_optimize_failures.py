"""`whichloop optimize` where a scorer is broken, a test is interrupted as it opens, or an option is not one of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from whichloop.runs.engine.interruption import INTERRUPTED

QUICK = ["--train", "6", "--dev", "6", "--tasks", "6", "--repeats", "1", "--budget", "120calls", "--quiet"]
GRADED = """
from dataclasses import replace

from whichloop.datasets import arithmetic


def always(judgement):
    return judgement.correctness


asked = []


def seldom(judgement):
    asked.append(judgement)
    return judgement.correctness if len(asked) == 2 else float(judgement.answer == judgement.task.expected)


def load(scorer="always"):
    suite = arithmetic.load(60)
    return replace(suite, tasks=tuple(replace(task, scorer=f"graded_p2:{scorer}") for task in suite.tasks))
"""


@pytest.fixture
def graded(here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (here / "graded_p2.py").write_text(GRADED, encoding="utf-8")
    monkeypatch.syspath_prepend(here)
    return "graded_p2:load"


def only_run(here: Path) -> Path:
    (manifest,) = here.glob("runs/*/manifest.json")
    return manifest.parent


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.thorough
@pytest.mark.parametrize("optimizer", ["GEPA", "BootstrapFewShot", "LabeledFewShot"])
def test_a_broken_scorer_ends_the_search_at_once_and_the_test_stays_locked(
    whichloop: Any, here: Path, graded: str, optimizer: str
) -> None:
    ended = whichloop("optimize", "--loop", "bare", "--suite", graded, "--optimizer", optimizer, *QUICK)
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


@pytest.mark.thorough
def test_a_scorer_that_raises_once_is_a_warning(whichloop: Any, here: Path, graded: str) -> None:
    ended = whichloop("optimize", "--loop", "bare", "--suite", f"{graded}(scorer='seldom')", *QUICK)
    assert ended.code == 0, ended.err
    told = "rollouts that errored, and count 0 for the optimizer: 1, the last with scorer graded_p2:seldom: AttributeError: "
    assert told in ended.out + ended.err


@pytest.mark.thorough
def test_a_test_that_is_interrupted_as_it_opens_is_one_line_and_how_to_go_on(
    whichloop: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("whichloop.experiments.compare.run.run", lambda experiment, progress: INTERRUPTED)
        cut = whichloop("optimize", "--loop", "bare", "--profile", "teachable", *QUICK)
    run = only_run(here).relative_to(here)
    assert (cut.code, cut.out) == (130, "")
    stopped, where = cut.err.splitlines()[-2:]
    assert stopped.startswith(f"{INTERRUPTED}; incomplete: 0 of 12 trials of the test split; go on with: whichloop resume {run}")
    assert where == f"run directory: {run}"
    row = whichloop("report", str(run), "--json").json["designs"][0]
    assert (row["test"]["verdict"], row["advice"]) == (None, "")
    whole = whichloop("resume", str(run), "--quiet")
    assert whole.code == 0
    assert re.search("^(Adopt|Keep) ", whole.out, re.MULTILINE)


@pytest.mark.parametrize("budget", ["$0.02", "$0.02,9calls"])
def test_a_budget_in_dollars_without_a_price_names_an_option_that_there_is(whichloop: Any, here: Path, budget: str) -> None:
    refused = whichloop("optimize", "--loop", "bare", "--budget", budget)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("error: -s price: a budget in dollars needs one")
    assert list(here.iterdir()) == []


@pytest.mark.thorough
def test_an_optimization_is_found_by_its_name(whichloop: Any, here: Path) -> None:
    made = whichloop("optimize", "--loop", "bare", "-s", "name=taught", *QUICK)
    assert made.code == 0, made.err
    found = whichloop("report", "taught", "--json").json
    assert found["run"] == str(only_run(here))
    assert whichloop("resume", "taught", "--quiet", "--json").json["digest"] == found["digest"]
    assert "taught" in whichloop("report", "taughd").err  # did you mean
