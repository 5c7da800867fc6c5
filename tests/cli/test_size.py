"""`whichloop report --size` and `compare --looks`, as they are typed."""

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


# --- looks ---

FAR_APART = ("--loop", "bare", "--loop", "react_extract", "--profile", "flaky-format", "--suite", "arithmetic(size=40)")


def test_a_run_that_is_decided_stops_and_says_so(whichloop):
    ended = whichloop("compare", *FAR_APART, "-s", "looks=4", "--json", *QUIET)
    looks = ended.json["looks"]
    assert looks["stopped"]
    assert looks["reached"] < 4
    assert f"stopped after look {looks['reached']} of 4: every pair is decided" in ended.err
    assert ended.json["complete"]
    assert ended.json["pairs"][0]["verdict"] == "better"
    assert whichloop("report", "latest", "--json").json["looks"] == looks
    again = whichloop("resume", "latest", "--json", *QUIET)
    assert again.json["digest"] == ended.json["digest"]
    printed = whichloop("report", "latest", "-v").out
    assert f"stopped after {looks['tasks']} of them" in printed
    assert f"Look {looks['reached']} of 4, after {looks['tasks']} tasks: tests and intervals are at level" in printed


def test_looks_may_stand_in_the_configuration(whichloop, here):
    (here / "c.toml").write_text('loops = ["bare", "react_extract"]\nsuite = "arithmetic(size=6)"\nlooks = 2\n')
    assert whichloop("compare", "--config", "c.toml", "--json", *QUIET).json["looks"]["planned"] == 2
    assert whichloop("compare", "--config", "c.toml", "-s", "looks=5", "--json", *QUIET).json["looks"]["planned"] == 5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--loop", "bare", "-s", "looks=2"], "looks end a run once every pair is decided, and one loop does not make a pair"),
        (["-s", "looks=1"], "looks: Input should be greater than or equal to 2"),
        (["-s", "looks=30"], "looks: Input should be less than or equal to 20"),
        (["--suite", "arithmetic(size=3)", "-s", "looks=4"], "looks: 4 of them need as many tasks, and there are 3"),
    ],
)
def test_looks_that_cannot_be_are_one_line(whichloop, here, arguments, says):
    ended = whichloop("compare", *arguments, *QUIET)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not (here / "runs").exists()


@pytest.mark.slow
@pytest.mark.thorough
def test_mlflow_shows_a_run_that_was_stopped_by_its_verdicts_as_finished(whichloop, here):
    from mlflow import MlflowClient

    ended = whichloop("compare", *FAR_APART, "-s", "looks=4", "--quiet", "--mlflow")
    assert ended.code == 0
    client = MlflowClient(f"sqlite:///{here / 'runs' / 'mlflow.db'}")
    found = client.search_runs([one.experiment_id for one in client.search_experiments()])
    assert len(found) == 3
    assert {run.info.status for run in found} == {"FINISHED"}
