"""`whichloop report --size`, as it is typed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.sealing import reseal
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.run import run
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched

pytestmark = pytest.mark.thorough

QUIET = ("--quiet",)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a comparison of two designs under faults, each task twice; made once."""
    folder: Path = tmp_path_factory.mktemp("pilot") / "runs"
    asked: dict[str, Any] = {"loops": ("bare", "react_extract"), "profiles": ("flaky-format",), "suite": "arithmetic(size=20)"}
    made = prepare(CompareConfig(**asked, repeats=2, mlflow=False, runs=folder))
    assert run(made, Unwatched()) == ""
    return made.folder


@pytest.fixture
def pilot(whichloop: Any, here: Path, compared: Path) -> Path:
    """A copy of that comparison, which is the latest run here."""
    shutil.copytree(compared, here / "runs" / compared.name)
    return here / "runs" / compared.name


def test_the_answer_comes_alone_or_above_its_details(whichloop, pilot):
    short = whichloop("report", "--size", "latest", "--margin", "0.1")
    ended = whichloop("report", "--size", "latest", "--margin", "0.1", "-v")
    assert (ended.code, ended.err, short.code) == (0, "", 0)
    assert ended.out.startswith(short.out.rstrip("\n"))
    assert "How much two runs of one loop" in ended.out[len(short.out) :]
    lines = [line.split() for line in short.out.splitlines()]
    assert ["Compare", "--repeats", "--suite"] in [[line[0], *(word for word in line if word.startswith("--"))] for line in lines]
    assert {("compare", "±", "0.100"), ("gate", "±", "0.100")} <= {tuple(line[:3]) for line in lines}


def test_the_json_has_a_plan_for_each_purpose_with_its_best_size_first(whichloop, pilot):
    made = whichloop("report", "--size", str(pilot), "--json").json
    assert [plan["for"] for plan in made["plans"]] == ["compare", "gate"]
    expected = {
        "run",
        "metric",
        "alpha",
        "power",
        "pilot",
        "suite",
        "loops",
        "profiles",
        "seen",
        "plans",
        "noise",
        "same",
        "warnings",
    }
    assert made.keys() == expected
    assert made["pilot"] == {"tasks": 20, "clusters": None, "repeats": 2}
    assert made["suite"] == {"name": "arithmetic", "tasks": 20, "split": None}
    for plan in made["plans"]:
        assert plan["best"] == plan["sizes"][0]
        assert [size["trials"] for size in plan["sizes"]] == sorted(size["trials"] for size in plan["sizes"])


def test_a_run_is_planned_for_the_arms_that_are_named(whichloop, pilot):
    made = whichloop("report", "--size", "--arm", "bare", "--json").json
    assert (made["loops"], made["profiles"]) == (["bare"], ["flaky-format"])
    assert [noise["arm"] for noise in made["noise"]] == ["bare/flaky-format"]
    assert "--loop bare --profile flaky-format" in whichloop("report", "--size", "--arm", "bare").out


@pytest.mark.slow
def test_the_size_that_is_named_is_large_enough(whichloop, pilot):
    """A run of the size that `size` names decides the pair, as it says it will: these designs are far apart."""
    plan, _ = whichloop("report", "--size", "latest", "--margin", "0.3", "--json").json["plans"]
    best = plan["best"]
    larger = whichloop(
        "compare", "--loop", "bare", "--loop", "react_extract", "--profile", "flaky-format", "--suite", best["suite"],
        "--repeats", str(best["repeats"]), "-s", "margin=0.3", "--json", *QUIET,
    )  # fmt: skip
    assert sum(arm["trials"] for arm in larger.json["arms"]) == best["trials"]
    assert larger.json["pairs"][0]["verdict"] == "better"
    assert larger.json["pairs"][0]["outlook"] is None


def test_a_run_on_one_split_is_planned_on_that_split(whichloop):
    made = whichloop(
        "compare", "--loop", "bare", "--loop", "react_extract", "--profile", "flaky-format", "--suite", "arithmetic(size=60)",
        "-s", "split=test", "--repeats", "2", "--json", *QUIET,
    )  # fmt: skip
    ended = whichloop("report", "--size", made.json["run"], "--margin", "0.2")
    assert " -s split=test " in next(line for line in ended.out.splitlines() if line.startswith("Compare"))
    assert whichloop("report", "--size", made.json["run"], "--json").json["suite"]["split"] == "test"


@pytest.mark.slow
def test_other_metrics_and_a_second_run(whichloop, pilot):
    again = whichloop(
        "compare", "--loop", "bare", "--loop", "react_extract", "--profile", "flaky-format", "--suite", "arithmetic(size=20)",
        "--repeats", "2", "--seed", "1", "--json", *QUIET,
    )  # fmt: skip
    ended = whichloop("report", "--size", str(pilot), again.json["run"], "--metric", "tokens", "-v")
    assert ended.code == 0
    assert "gate ± 10.0 %" in ended.out
    assert "second run differed by" in ended.out


def test_bad_input_is_one_line(whichloop, pilot):
    for arguments, says in (
        (["nowhere"], "no run 'nowhere'"),
        (["latest", "--margin", "0"], "--margin: it must be more than 0 and less than 1, got 0.0"),
        (["latest", "--margin", "2"], "--margin: it must be more than 0 and less than 1, got 2.0"),
        (["latest", "--power", "1"], "--power: it must be at least 0.5 and less than 1, got 1.0"),
        (["latest", "--metric", "speed"], "--metric: unknown metric 'speed'; known: accuracy, steps"),
        (
            ["latest", "--arm", "bear"],
            "no arm 'bear'; did you mean 'bare'? there are bare/flaky-format, react_extract/flaky-format",
        ),
        (["latest", "--metric", "cost_usd"], "cost_usd is unknown in every trial"),
        (["latest", "latest"], "is the same run"),
        (["latest", "nowhere"], "no run 'nowhere'"),
    ):
        ended = whichloop("report", "--size", *arguments)
        assert (ended.code, ended.out) == (2, ""), arguments
        (line,) = ended.err.splitlines()
        assert line.startswith("error: ")
        assert says in line


def test_an_optimization_is_no_pilot_before_its_test(whichloop, here):
    folder = here / "runs" / "o"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"kind": "optimization", "config": {}}))
    reseal(folder / "manifest.json")
    ended = whichloop("report", "--size", "o")
    assert ended.code == 2
    assert "no trial of the test split was run yet" in ended.err
