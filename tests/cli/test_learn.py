"""`learn profile`, `learn plans` and `--held-out`: from a run to faults, plans and a prediction that comes first."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.kept import rows
from whichloop.datasets import arithmetic
from whichloop.datasets.task import Task
from whichloop.experiments.compare.run import prepare, run
from whichloop.experiments.validate import prediction
from whichloop.experiments.validate.prediction import predict, predict_ahead, prediction_digest
from whichloop.models.profiles import load_profile
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.files import read_document, write_document
from whichloop.runs.store.trials import Traces

FITTED_FROM = ["--quiet", "--suite", "arithmetic(size=6)", "--loop", "bare", "--profile", "flaky-format"]


@pytest.fixture
def ran_flaky(whichloop: Callable[..., Any], compared_once: Callable[..., Path]) -> Callable[..., Any]:
    """The same, after a run under `flaky-format`."""
    compared_once(*FITTED_FROM)
    return whichloop


def test_a_profile_is_fitted_written_compared_with_and_shown(ran_flaky):
    fitted = ran_flaky("learn", "profile", "latest", "-o", "mine.toml", "--name", "mine")
    assert fitted.code == 0
    assert re.search(r"^Next +whichloop compare --profile ./mine.toml$", fitted.out, re.MULTILINE)
    assert "95 % interval" in fitted.out
    assert load_profile("mine.toml").name == "mine"
    again = ran_flaky(
        "compare", *FITTED_FROM[:1], "--suite", "arithmetic(size=2)", "--loop", "bare", "--profile", "./mine.toml", "--json"
    )
    assert again.json["arms"][0]["profile"] == "mine"


LEARNED_FROM = ["--profile", "clean", "--quiet", "--suite", "arithmetic(size=6)", "--loop", "bare"]
TOOLS = "from whichloop.datasets import calculator\n\nTOOLS = list(calculator.TOOLS)\n"


@pytest.fixture
def ran_clean(whichloop: Callable[..., Any], compared_once: Callable[..., Path]) -> Callable[..., Any]:
    """The same, after a run."""
    compared_once(*LEARNED_FROM)
    return whichloop


def tasks_in(file: Path) -> list[Task]:
    return [Task.from_dict(json.loads(line)) for line in file.read_text(encoding="ascii").splitlines()]


def test_a_learned_suite_is_written_and_the_scripted_model_and_its_faults_work_on_it(ran_clean, tmp_path, monkeypatch):
    learned = ran_clean("learn", "plans", "latest", "-o", "suite.jsonl")
    assert learned.code == 0
    assert re.search("^Next +whichloop compare --suite jsonl --data suite.jsonl", learned.out, re.MULTILINE)
    assert "--check" not in learned.out  # a suite of whichloop's own is always checked
    assert [task.id for task in tasks_in(tmp_path / "suite.jsonl")] == [task.id for task in arithmetic.load(size=6).tasks]
    (tmp_path / "calculating.py").write_text(TOOLS)
    again = ran_clean(
        "compare", "--quiet", "--json", "--suite", "jsonl", "--data", "suite.jsonl", "--tools", "calculating",
        "--loop", "bare", "--loop", "finish", "--profile", "clean", "--profile", "flaky-tools",
    )  # fmt: skip
    assert again.code == 0, again.err
    arms = {arm["arm"]: arm for arm in again.json["arms"]}
    assert len(arms) == 4
    assert all(arm["accuracy"]["value"] == 1 for name, arm in arms.items() if name.endswith("/clean"))
    assert any(arm["faults"]["landed"] for arm in arms.values())


def test_a_run_that_solved_nothing_teaches_nothing(whichloop, tmp_path):
    whichloop("compare", *LEARNED_FROM[:-3], "arithmetic(size=3)", "--loop", "bare", "--max-tool-steps", "1")
    found = whichloop("learn", "plans", "latest", "-o", "suite.jsonl")
    assert found.code == 2
    assert "no plan was learned (3 tasks: not solved in " in found.err
    assert not (tmp_path / "suite.jsonl").exists()


LOOPS = ("bare", "finish", "react_extract")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The folder of a run of three loops."""
    runs: Path = tmp_path_factory.mktemp("whole") / "runs"
    config = CompareConfig(suite="arithmetic(size=16)", profiles=("text-2024",), loops=LOOPS, runs=runs)
    assert run(prepare(config), Unwatched()) == ""
    return runs


@pytest.fixture
def ran(whichloop, here: Path, whole: Path):
    """The command, in a directory that has this run."""
    shutil.copytree(whole, here / "runs")
    return whichloop


@pytest.fixture
def few(monkeypatch) -> None:
    """Predictions of a few trials, for tests that read none of their values."""
    monkeypatch.setattr(prediction, "TRIALS", 8)


def folder() -> Path:
    return next(path for path in Path("runs").iterdir() if (path / "trials.sqlite").exists())


def test_a_run_is_validated_and_the_report_shows_it(ran, few) -> None:
    found = ran("learn", "profile", "latest", "--held-out")
    assert found.code == 0, found.err
    assert "Verdict" in found.out
    assert all(loop in found.out for loop in LOOPS)
    written = json.loads((folder() / "validity" / "prediction.json").read_text())
    assert len(written["fitted"]) == len(written["held_out"]) == 8
    assert written["loops"].keys() == {f"{loop}/text-2024" for loop in LOOPS}
    assert written["digest"] in found.out
    ran("report", "latest", "--format", "html")
    page = (folder() / "report.html").read_text()
    assert "How well the tunnel predicts" in page
    assert written["digest"] in page


def test_the_prediction_comes_first_and_stays(ran, few, monkeypatch) -> None:
    first = ran("learn", "profile", "latest", "--held-out", "--json").json
    assert ran("learn", "profile", "latest", "--held-out", "--json").json == first
    monkeypatch.setattr(prediction, "predict", partial(predict, seed=1))
    other = ran("learn", "profile", "latest", "--held-out")
    assert (other.code, other.out) == (2, "")
    assert "another prediction was made before" in other.err
    assert json.loads((folder() / "validity" / "prediction.json").read_text())["digest"] == first["prediction"]
    assert ran("learn", "profile", "latest", "--held-out", "--again", "--json").json["prediction"] != first["prediction"]


def test_of_the_held_out_tasks_no_trace_is_read(ran, few, monkeypatch) -> None:
    read, whole = set(), Traces.read

    def noted(self, record):
        read.add(record.task)
        return whole(self, record)

    monkeypatch.setattr(Traces, "read", noted)
    predicted = predict(folder())
    assert read == set(predicted.prediction["fitted"])
    assert {record.task for record in predicted.records} == set(predicted.prediction["held_out"])


@pytest.fixture(scope="module")
def early(tmp_path_factory) -> Path:
    """The folder of a run of the first eight tasks of the whole run, with a prediction of the other eight."""
    runs: Path = tmp_path_factory.mktemp("early") / "first"
    config = CompareConfig(suite="arithmetic(size=16)", profiles=("text-2024",), loops=LOOPS, runs=runs, tasks=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prediction, "TRIALS", 8)
        assert run(prepare(config, runs / "run"), Unwatched()) == ""
        prediction.register(runs / "run", predict_ahead(runs / "run", 8).prediction)
    return runs


@pytest.fixture
def ahead(ran, few, early: Path) -> Path:
    """The file of a prediction of tasks to come, below the working directory."""
    shutil.copytree(early, "first")
    return Path("first/run/validity/prediction.json")


@pytest.mark.slow
def test_a_prediction_of_tasks_to_come_is_held_against_the_run_that_has_had_them(ran, ahead: Path) -> None:
    again = ran("learn", "profile", "latest", "--runs", "first", "--ahead", "8", "--json").json
    written = json.loads(ahead.read_text())
    assert (again["prediction"], again["held_out"]) == (written["digest"], written["held_out"])
    told = ran("learn", "profile", "latest", "--runs", "first", "--ahead", "8")
    assert all(loop in told.out for loop in LOOPS)
    assert "whichloop resume first/run --tasks 16" in told.out
    records = rows(ahead.parents[1])
    assert set(written["fitted"]) == {record["task"] for record in records}
    assert len(written["held_out"]) == 8
    assert not set(written["held_out"]) & set(written["fitted"])
    assert [file.name for file in ahead.parent.iterdir()] == ["prediction.json"]
    found = ran("learn", "profile", "latest", "--prediction", str(ahead), "--json").json
    assert (found["prediction"], found["fitted_tasks"], found["held_out_tasks"]) == (written["digest"], 8, 8)
    assert (folder() / "validity" / "prediction.json").read_bytes() == ahead.read_bytes()
    assert ran("resume", "latest", "--runs", "first", "--tasks", "16", "--quiet").code == 0
    extended = ran("learn", "profile", "latest", "--runs", "first", "--prediction", str(ahead), "--json").json
    assert {**extended, "run": ""} == {**found, "run": ""}


def test_a_prediction_that_the_tunnel_does_not_make_is_refused(ran, ahead: Path) -> None:
    written = read_document(ahead)
    written["loops"]["bare/text-2024"]["accuracy"] = 0.5
    for edited, says in (
        (written, "the digest is not that of the prediction"),
        (written | {"digest": prediction_digest(written)}, "the tunnel does other things by now"),
        (written | {"version": 3}, "no prediction of this tool (version 3"),
    ):
        write_document(ahead, edited)
        found = ran("learn", "profile", "latest", "--prediction", str(ahead))
        assert (found.code, found.out) == (2, "")
        assert says in found.err
        assert found.err.count("\n") == 1
        assert not (folder() / "validity").exists()


def test_the_digest_of_a_prediction_has_the_profiles_values_and_not_its_remarks() -> None:
    profile = '# fitted\nname = "m"\ndescription = "from the traces of run-1a2b"\n[rates]\n"wire.empty" = 0.5  # 3 of 6\n'
    one = {"version": 2, "profile": profile, "fitted": ["a"], "held_out": ["b"], "loops": {}}
    worded = one | {"profile": profile.replace("run-1a2b", "run-9f9f").replace("3 of 6", "3 of 6 points"), "digest": "x"}
    other = one | {"profile": profile.replace("0.5", "0.25")}
    assert prediction_digest(one) == prediction_digest(worded) != prediction_digest(other)
