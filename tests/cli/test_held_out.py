"""`whichloop learn profile --held-out`, end to end."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.kept import rows
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.run import run
from whichloop.experiments.validate import prediction
from whichloop.experiments.validate.prediction import ValidationRequest, predict, predict_ahead, prediction_digest
from whichloop.experiments.validate.validity import validity
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.manifest import read_manifest, write_manifest
from whichloop.runs.store.files import read_document, write_document
from whichloop.runs.store.trials import Traces

RUN = ["compare", "--quiet", "--suite", "arithmetic(size=16)", "--profile", "text-2024"]
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
    page = (folder() / "validity" / "validity.html").read_text()
    assert "Does the tunnel predict this run?" in page
    assert written["digest"] in page
    assert written["digest"] in found.out
    ran("report", "latest", "--format", "html")
    assert "How well the tunnel predicts" in (folder() / "report.html").read_text()


def test_the_prediction_comes_first_and_stays(ran, few, monkeypatch) -> None:
    first = ran("learn", "profile", "latest", "--held-out", "--json").json
    assert ran("learn", "profile", "latest", "--held-out", "--json").json == first
    monkeypatch.setattr(prediction, "ValidationRequest", partial(ValidationRequest, seed=1))
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
    predicted = predict(folder(), ValidationRequest())
    assert read == set(predicted.prediction.fitted)
    assert {record.task for record in predicted.records} == set(predicted.prediction.held_out)


@pytest.mark.slow
def test_the_order_in_which_trials_end_changes_nothing(ran, few) -> None:
    predicted = predict(folder(), ValidationRequest())
    found = validity(folder(), predicted)
    for seed in range(5):
        records = random.Random(seed).sample(predicted.records, len(predicted.records))
        assert validity(folder(), replace(predicted, records=tuple(records))) == found


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("{}", "no prediction of this tool"),
        pytest.param("no JSON", "no prediction of this tool", marks=pytest.mark.slow),
        pytest.param("[]", "no prediction of this tool", marks=pytest.mark.slow),
    ],
)
def test_a_damaged_prediction_is_one_line(ran, few, damage: str, says: str) -> None:
    place = folder() / "validity"
    place.mkdir()
    (place / "prediction.json").write_text(damage)
    found = ran("learn", "profile", "latest", "--held-out")
    assert found.code == 2
    assert says in found.err
    assert found.err.count("\n") == 1


def test_two_loops_have_no_order_and_an_imported_run_no_loops(whichloop, here: Path) -> None:
    assert whichloop(*RUN, "--loop", "bare", "--loop", "finish").code == 0
    found = whichloop("learn", "profile", "latest", "--held-out")
    assert (found.code, found.out) == (2, "")
    assert "an order needs 3 loops or more, and this model has 2" in found.err
    Path("results.csv").write_text("task,arm,score\n" + "".join(f"t{n},{arm},1\n" for n in range(4) for arm in "abc"))
    assert whichloop("import", "results.csv").code == 0
    found = whichloop("learn", "profile", "latest", "--held-out")
    assert (found.code, found.out) == (2, "")
    assert "an imported run has no loops that could be run again" in found.err


def test_a_damaged_result_is_told_on_the_page(ran, few) -> None:
    assert ran("learn", "profile", "latest", "--held-out").code == 0
    (folder() / "validity" / "validity.json").write_text('{"verdict": 3}')
    assert ran("report", "latest", "--format", "html").code == 0
    assert "The validation of this run cannot be read" in (folder() / "report.html").read_text()


@pytest.fixture(scope="module")
def early(tmp_path_factory) -> Path:
    """The folder of a run of the first eight tasks of the whole run, with a prediction of the other eight."""
    runs: Path = tmp_path_factory.mktemp("early") / "first"
    config = CompareConfig(suite="arithmetic(size=16)", profiles=("text-2024",), loops=LOOPS, runs=runs, tasks=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prediction, "TRIALS", 8)
        assert run(prepare(config, runs / "run"), Unwatched()) == ""
        prediction.register(runs / "run", predict_ahead(runs / "run", ValidationRequest(), 8).prediction)
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


def test_a_prediction_of_version_1_is_still_read(ran, ahead: Path) -> None:
    old = {key: value for key, value in read_document(ahead).items() if key not in ("version", "digest")}
    write_document(ahead, old | {"digest": prediction_digest(old)})
    found = ran("learn", "profile", "latest", "--prediction", str(ahead), "--json").json
    assert found["prediction"] == prediction_digest(old)
    assert (folder() / "validity" / "prediction.json").read_bytes() == ahead.read_bytes()


def test_the_digest_of_a_prediction_has_the_profiles_values_and_not_its_remarks() -> None:
    profile = '# fitted\nname = "m"\ndescription = "from the traces of run-1a2b"\n[rates]\n"wire.empty" = 0.5  # 3 of 6\n'
    one = {"version": 2, "profile": profile, "fitted": ["a"], "held_out": ["b"], "loops": {}}
    worded = one | {"profile": profile.replace("run-1a2b", "run-9f9f").replace("3 of 6", "3 of 6 points"), "digest": "x"}
    other = one | {"profile": profile.replace("0.5", "0.25")}
    assert prediction_digest(one) == prediction_digest(worded) != prediction_digest(other)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("latest", "--runs", "first", "--prediction", "FILE"), "the run has not had"),
        (("latest", "--runs", "first", "--ahead", "9"), "--ahead is 9, and the suite has 8 tasks that the run has not had"),
        (("latest", "--ahead", "1", "--prediction", "FILE"), "exclude each other"),
        (("latest", "--prediction", "none.json"), "none.json"),
        (("latest", "--prediction", "empty.json"), "no prediction of this tool"),
    ],
)
def test_a_prediction_that_does_not_fit_is_one_line(ran, ahead: Path, arguments, says: str) -> None:
    Path("empty.json").write_text("{}")
    found = ran("learn", "profile", *(str(ahead) if text == "FILE" else text for text in arguments))
    assert (found.code, found.out) == (2, "")
    assert says in found.err
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(("part", "changed"), [("arms", "loop bare has changed"), ("suite", "the suite has changed")])
def test_a_run_of_other_code_says_what_to_do(ran, few, part: str, changed: str) -> None:
    manifest = read_manifest(folder())
    other = {"code": "0" * 64} if part == "arms" else {"digest": "0" * 64}
    whole = manifest.suite if part == "suite" else manifest.arms[0]
    edited = whole.model_copy(update=other)
    write_manifest(folder(), manifest.model_copy(update={part: edited if part == "suite" else (edited, *manifest.arms[1:])}))
    found = ran("learn", "profile", "latest", "--held-out")
    assert (found.code, found.out) == (2, "")
    assert f"{changed} since the run; run whichloop compare again" in found.err
    assert found.err.count("\n") == 1
