"""Results of a run directory: the object for scripts, the numbers that designs differ in, and what a damaged run says."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.kept import put, rows
from tests.sealing import reseal
from whichloop.datasets.task import Suite
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, find_record, results
from whichloop.experiments.compare.run import run
from whichloop.metrics.record import Record
from whichloop.metrics.scorers import is_abstention
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.folders import run_folder
from whichloop.runs.store.files import MANIFEST, RunError, write_manifest_json
from whichloop.runs.store.trials import TRIALS

BLIND = "whichloop.checks.suite.reference_agents:Blind"
"""Named as code of one's own is."""


def made(folder: Path, **config: Any) -> Results:
    experiment = prepare(CompareConfig(runs=folder / "runs", mlflow=False, **config))
    assert run(experiment, Unwatched()) == ""
    return results(experiment.folder)


@pytest.fixture(scope="module")
def wind(tmp_path_factory) -> Results:
    """Two built-in loops over a quarter of the default suite: in clean air, and under two profiles."""
    profiles = ("clean", "flaky-format", "flaky-tools")
    return made(tmp_path_factory.mktemp("wind"), loops=("bare", "react_extract"), profiles=profiles, tasks=32)


@pytest.fixture(scope="module")
def breeze(tmp_path_factory) -> Results:
    """Three loops over a few tasks under two profiles."""
    loops = ("bare", "bare(check_types=true)", BLIND)
    return made(tmp_path_factory.mktemp("breeze"), loops=loops, profiles=("clean", "flaky-tools"), suite="arithmetic(size=12)")


def of(found: Results, arm: str) -> list[Record]:
    return [record for record in found.records if record.arm == arm]


# --- the comparison means something ---


def test_a_loop_that_shows_no_observations_solves_what_needs_none(tmp_path, arithmetic_suite: Suite):
    found = made(tmp_path, loops=(BLIND,))
    without_answer = {task.id for task in arithmetic_suite.tasks if task.expected is None}
    right = [record for record in found.records if record.accuracy]
    assert len(without_answer) <= 0.1 * len(arithmetic_suite.tasks)
    assert {record.task for record in right} <= without_answer
    assert all(is_abstention(record.answer) for record in right)


def test_in_clean_air_all_is_solved_and_under_faults_the_designs_differ_in_measured_ways(wind):
    by_arm = {arm.info.arm: arm.summary for arm in wind.comparison.arms}
    for loop in ("bare", "react_extract"):
        assert (by_arm[f"{loop}/clean"].accuracy.value, by_arm[f"{loop}/clean"].scored) == (1.0, 32)
        assert by_arm[f"{loop}/flaky-tools"].accuracy.value < 1.0
    verdicts = {(pair.a, pair.b): pair.verdict.word for pair in wind.comparison.pairs if pair.metric == "accuracy"}
    assert verdicts["bare/flaky-format", "react_extract/flaky-format"] == "better"
    feeds_back, gives_up = by_arm["bare/flaky-format"], by_arm["react_extract/flaky-format"]
    assert feeds_back.recovery.value > 0.7 > gives_up.recovery.value
    assert gives_up.faults.absorbed > feeds_back.faults.absorbed == 0
    assert by_arm["bare/flaky-tools"].stops.keys() != by_arm["react_extract/flaky-tools"].stops.keys()


def test_the_same_stumble_meets_every_loop_at_the_same_place(wind):
    def drawn(arm: str) -> dict[tuple[str, str], str]:
        return {(record.task, fault.point): fault.kind for record in of(wind, arm) for fault in record.faults}

    for profile in ("flaky-format", "flaky-tools"):
        a, b = drawn(f"bare/{profile}"), drawn(f"react_extract/{profile}")
        common = a.keys() & b.keys()
        assert len(common) > 20
        assert {point: a[point] for point in common} == {point: b[point] for point in common}


# --- the object for scripts ---

INTERVAL = {"value", "low", "high", "n"}
TOP = {"run", "digest", "wall_s", "arms", "pairs"}
ARM = {
    "arm", "loop", "options", "model", "profile", "suite", "trials", "scored", "errored", "excluded", "accuracy",
    "steps", "lm_calls", "tokens", "cost_usd", "seconds", "stops", "errors", "faults",
}  # fmt: skip
PAIR = {"a", "b", "metric", "difference", "p", "p_holm", "verdict"}


def test_the_object_for_scripts_has_the_names_that_stay(breeze):
    made: Any = json.loads(json.dumps(breeze.to_json(), allow_nan=False))
    assert made.keys() >= TOP
    assert len(made["arms"]) == 6
    for arm in made["arms"]:
        assert arm.keys() >= ARM
        assert arm["faults"].keys() >= {"scheduled", "landed", "absorbed", "recovered"}
        assert arm["scored"] + arm["errored"] + arm["excluded"] == arm["trials"] == 12
        assert sum(arm["stops"].values()) == arm["scored"]
        for metric in ("accuracy", "steps", "lm_calls", "tokens", "seconds"):
            assert arm[metric].keys() == INTERVAL
            assert arm[metric]["low"] <= arm[metric]["value"] <= arm[metric]["high"]
        assert arm["cost_usd"] is None
    for pair in made["pairs"]:
        assert pair.keys() >= PAIR
        assert pair["difference"].keys() == INTERVAL
        assert pair["verdict"] in ("better", "worse", "equivalent", "undecided")
        assert 0 <= pair["p"] <= pair["p_holm"] <= 1
    assert len({(pair["a"], pair["b"], pair["metric"]) for pair in made["pairs"]}) == len(made["pairs"])
    assert made["complete"] is True
    assert made["scheduled"] == 6 * 12
    assert len(made["digest"]) == 64


def test_wall_time_runs_from_the_first_start_to_the_last_end(breeze):
    starts = [record.started_at for record in breeze.records]
    ends = [record.started_at + record.wall_s for record in breeze.records]
    assert breeze.wall_s == pytest.approx(max(ends) - min(starts))
    assert math.isfinite(breeze.wall_s)


def test_reading_a_run_twice_gives_the_same_from_any_folder(breeze, monkeypatch):
    monkeypatch.chdir(breeze.folder.parent)
    assert results(Path(breeze.folder.name)).to_json() == breeze.to_json()


# --- a trial by name ---


@pytest.mark.parametrize(
    "name", ["bare/clean/arithmetic-0007/0", "bare/clean/arithmetic-0007", "bare/flaky-tools/arithmetic-0012/0"]
)
def test_a_trial_is_found_by_its_name(breeze, name):
    found = find_record(breeze, name)
    assert f"{found.arm}/{found.task}/{found.repeat}".startswith(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nope", "no trial 'nope'; a trial is ARM/TASK/REPEAT, such as bare/clean/arithmetic-0001/0"),
        (
            "bare/flaky-tols",
            "a trial is ARM/TASK/REPEAT, such as bare/flaky-tools/arithmetic-00",
        ),
        ("bare/flaky-tols/arithmetic-0002/0", "such as bare/flaky-tools/arithmetic-0002/0"),
        ("", "matches 72 trials"),
        ("arithmetic-0007", "matches 6 trials: .*…; type more of ARM/TASK/REPEAT"),
        ("bare/clean", "matches 12 trials"),
        ("bare/clean/arithmetic-000", "matches 9 trials"),
    ],
)
def test_a_name_that_fits_none_or_several_is_refused(breeze, name, said):
    with pytest.raises(RunError, match=said):
        find_record(breeze, name)


# --- nothing is imported, nothing is trusted ---


@pytest.fixture
def copy(breeze, tmp_path: Path) -> Any:
    """Writes a copy of the run with another manifest; gives its folder."""

    def write(manifest: Any) -> Path:
        shutil.copy(breeze.folder / TRIALS, tmp_path)
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))
        reseal(tmp_path / "manifest.json")
        return tmp_path

    return write


def test_reading_a_run_imports_no_code_that_it_names(breeze, copy, tmp_path, monkeypatch):
    (tmp_path / "own_evil.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = json.dumps(breeze.manifest.to_json()).replace(BLIND, "own_evil:Blind").replace('"arithmetic"', '"own_evil:suite"')
    records = json.loads(json.dumps(rows(breeze.folder)).replace(BLIND, "own_evil:Blind"))
    folder = copy(json.loads(text))
    put(folder, records)
    assert len(results(folder).to_json()["arms"]) == 6


def test_a_manifest_without_any_one_of_its_parts_is_read_or_refused_in_one_line(breeze, copy):
    def holes(value: Any) -> list[Any]:
        """All values that lack one part of this one, or have nonsense in its place."""
        spoiled: list[Any] = []
        if isinstance(value, dict):
            for name, item in value.items():
                rest = {key: other for key, other in value.items() if key != name}
                spoiled += [rest, value | {name: None}, value | {name: ["x"]}, *(value | {name: inner} for inner in holes(item))]
        elif isinstance(value, list) and value:
            spoiled += [[inner, *value[1:]] for inner in holes(value[0])]
        return spoiled

    folder = copy(breeze.manifest.to_json())
    put(folder, rows(folder)[:1])
    for manifest in holes({**breeze.manifest.to_json(), "packages": {}}):
        (folder / "manifest.json").write_text(json.dumps(manifest))
        reseal(folder / "manifest.json")
        try:
            found = results(folder)
        except RunError as error:
            said = str(error)
        else:
            said = found.title
            json.dumps(found.to_json(), allow_nan=False)
        assert said
        assert "\n" not in said


def test_records_of_an_arm_that_the_manifest_lacks_are_refused(breeze, copy):
    manifest = breeze.manifest.to_json()
    manifest = {**manifest, "arms": manifest["arms"][1:]}
    with pytest.raises(RunError, match="do not fit together"):
        results(copy(manifest))


def test_a_run_that_has_only_begun_has_results(tmp_path):
    experiment = prepare(CompareConfig(loops=("bare",), runs=tmp_path, mlflow=False))
    found = results(experiment.folder)
    assert (found.is_complete, found.wall_s, found.scheduled) == (False, None, 120)
    assert "incomplete: 0 of 120 trials" in found.title
    json.dumps(found.to_json(), allow_nan=False)


EASY = '''
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.protocol import Plan, PlannedCall, Query, Ref, Tool

SHAPES = ("flat", "round", "square", "long", "bent")


def look(key: str) -> str:
    """Look a thing up."""
    return "blue"


LOOK = Tool.from_function(look, blocking=False)


def task(i):
    question = f"What colour has the {SHAPES[i % 5]} thing of box {i}, which came in the year {1900 + 7 * i}?"
    plan = Plan((PlannedCall("c1", "look", {"key": f"k{i}"}, f"Look thing {i} up."),), Ref("c1"))
    return Task(f"t{i}", Query(question), "blue", "normalized", plan, labels={"split": "train" if i % 3 else "test"})


def load():
    return Suite("easy", "1", tuple(map(task, range(30))), lambda _: StatelessEnvironment((LOOK,)))
'''


@pytest.fixture
def easy(tmp_path, monkeypatch) -> dict[str, Any]:
    (tmp_path / "too_easy.py").write_text(EASY)
    monkeypatch.syspath_prepend(tmp_path)
    return {"suite": "too_easy:load", "loops": ("bare",), "runs": tmp_path / "runs", "mlflow": False}


def test_a_comparison_on_a_suite_that_fails_a_check_says_so(easy):
    experiment = prepare(CompareConfig(**easy))
    run(experiment, Unwatched())
    warnings = results(experiment.folder).to_json()["warnings"]
    assert [each for each in warnings if each["text"].startswith("the suite fails a check, guessing: same answer")], warnings


def test_only_the_tasks_of_the_split_are_asked(easy):
    experiment = prepare(CompareConfig(**easy, split="test", tasks=7))
    assert [task.id for task in experiment.tasks] == [f"t{i}" for i in range(0, 21, 3)]
    with pytest.raises(ValueError, match=r"^suite easy has no task of split 'tst'; did you mean 'test'\?"):
        prepare(CompareConfig(**easy, split="tst"))
    assert len(list(easy["runs"].iterdir())) == 1


def test_quarantined_tasks_leave_the_denominator_visibly(easy, tmp_path):
    listed = tmp_path / "bad.toml"
    listed.write_text('t3 = "the gold is wrong"\n')
    experiment = prepare(CompareConfig(**easy, quarantine=listed))
    run(experiment, Unwatched())
    found = results(experiment.folder)
    (arm,) = found.to_json()["arms"]
    assert (arm["scored"], arm["excluded"]) == (29, 1)
    assert arm["exclusions"] == {"quarantined: the gold is wrong": 1}
    assert found.is_complete
    listed.write_text('t99 = "no such task"\n')
    with pytest.raises(ValueError, match="has no task 't99'"):
        prepare(CompareConfig(**easy, quarantine=listed))


# --- where a run is ---


def test_the_latest_run_is_the_one_that_was_begun_last_whatever_its_name(tmp_path):
    for age, name in enumerate(["monday", "20260101-000000-arithmetic-aaaa", "20260101-000000-arithmetic-0000"]):
        (tmp_path / name).mkdir()
        (tmp_path / name / MANIFEST).touch()
        os.utime(tmp_path / name / MANIFEST, (age, age))
        assert run_folder("latest", tmp_path) == tmp_path / name


def test_a_manifest_that_is_written_again_makes_no_run_the_latest_nor_does_one_of_a_hidden_folder(tmp_path):
    for name, day in (("new", 2), ("old", 1), (".new.part", 3)):  # written last: the hidden one
        (tmp_path / name).mkdir()
        write_manifest_json(tmp_path / name, {"config": {}, "created": f"2026-01-0{day}T00:00:00+00:00"})
    assert run_folder("latest", tmp_path) == tmp_path / "new"
    with pytest.raises(RunError, match=r"in .*: old, new$"):
        run_folder("another", tmp_path)


def test_a_run_is_found_by_the_name_that_it_was_given_where_no_folder_of_that_name_is_there(tmp_path):
    for folder, name in (
        ("day-shop-1", "nb first"),
        ("day-shop-2", "shop"),
        ("day-shop-3", None),
        ("day-shop-4", "twice"),
        ("day-5", "twice"),
    ):
        (tmp_path / folder).mkdir()
        write_manifest_json(tmp_path / folder, {"config": {"name": name}, "created": "2026-01-01T00:00:00+00:00"})
    assert run_folder("nb first", tmp_path) == tmp_path / "day-shop-1"
    assert run_folder("shop", tmp_path) == tmp_path / "day-shop-2"  # four folders have it as a part
    assert run_folder("shop-3", tmp_path) == tmp_path / "day-shop-3"
    with pytest.raises(RunError, match=r"^'twice' matches 2 runs in .*: day-"):
        run_folder("twice", tmp_path)
    (tmp_path / "shop").mkdir()
    assert run_folder("shop", tmp_path) == tmp_path / "shop"


# --- what is right by construction ---


def test_a_comparison_says_how_many_tasks_are_right_by_construction(tmp_path):
    rows = [{"question": f"What is {n}?", "answer": f"<<{n}+1={n + 1}>>\n#### {n + gap}"} for n, gap in ((3, 1), (4, 2), (5, 3))]
    rows.append(rows[1])  # quarantined, as its question was asked before
    (data := tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = made(tmp_path, loops=("bare",), suite="gsm8k", data=data)
    assert [text for text in found.comparison.remarks if "by construction" in text] == [
        "2 of 4 tasks are right by construction under the scripted model: it gives the answer, which no planned call yields."
    ]
    assert made(tmp_path, loops=("bare",), suite="arithmetic(size=6)").comparison.remarks == ()
