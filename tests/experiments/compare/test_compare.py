"""Results of a run directory: the object for scripts, what designs differ in, the loop of an arm, and what a damaged run says."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import whichloop
from tests.experiments.running import ran as run_of
from tests.kept import put, rows
from tests.sealing import reseal
from whichloop.experiments.compare.results import Results, find_record, results
from whichloop.experiments.compare.run import prepare, run
from whichloop.loops.bare import Bare
from whichloop.loops.finish import Finish
from whichloop.loops.repeat_guard import RepeatGuard
from whichloop.metrics.record import Record
from whichloop.reports.dataframes import Loaded
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.folders import run_folder
from whichloop.runs.store.files import MANIFEST, RunError, write_manifest_json
from whichloop.runs.store.trials import TRIALS

BLIND = "whichloop.checks.suite.reference_agents:Blind"
"""Named as code of one's own is."""


@pytest.fixture(scope="module")
def wind(tmp_path_factory) -> Results:
    """Two built-in loops over a few tasks under two profiles."""
    profiles = ("flaky-format", "flaky-tools")
    return run_of(tmp_path_factory.mktemp("wind"), loops=("bare", "react_extract"), profiles=profiles, tasks=16)


@pytest.fixture(scope="module")
def breeze(tmp_path_factory) -> Results:
    """Three loops over a few tasks under two profiles."""
    loops = ("bare", "bare(check_types=true)", BLIND)
    return run_of(tmp_path_factory.mktemp("breeze"), loops=loops, profiles=("clean", "flaky-tools"), suite="arithmetic(size=12)")


def of(found: Results, arm: str) -> list[Record]:
    return [record for record in found.records if record.arm == arm]


def test_the_same_stumble_meets_every_loop_at_the_same_place(wind):
    def drawn(arm: str) -> dict[tuple[str, str], str]:
        return {(record.task, fault.point): fault.kind for record in of(wind, arm) for fault in record.faults}

    for profile in ("flaky-format", "flaky-tools"):
        a, b = drawn(f"bare/{profile}"), drawn(f"react_extract/{profile}")
        common = a.keys() & b.keys()
        assert len(common) > 5
        assert {point: a[point] for point in common} == {point: b[point] for point in common}


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


@dataclass(frozen=True, slots=True)
class Four(Bare):
    """A loop whose author gave it a limit."""

    max_steps: int = 4


LOOPS = ["finish", "finish(parse_retries=0)", 'repeat_guard(loop="bare(max_steps=7)")']


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    runs = tmp_path_factory.mktemp("runs")
    settings: dict[str, Any] = {"tasks": 2, "mlflow": False, "runs": runs}
    return whichloop.compare([*LOOPS, Four, Bare(max_steps=2)], profiles=["clean", "flaky-tools"], **settings)


def test_what_ends_at_a_limit_of_its_own_is_counted_and_the_limit_is_told_in_tool_steps(ran: Loaded) -> None:
    manifest, limits = ran.results.manifest, ran.results.comparison.limits
    suites = manifest.suite.max_tool_steps
    assert [limit for arm, limit in manifest.step_limits.items() if arm.endswith("/clean")] == [suites, suites, 6, 3, 1]
    stops = [record.arm for record in ran.results.records if record.arm.startswith("bare(") and record.stop == "max_steps"]
    assert limits.ended["bare(max_steps=2)/clean"] == stops.count("bare(max_steps=2)/clean") > 0


INTERVAL = {"value", "low", "high", "n"}

ARM = {
    "arm", "loop", "options", "model", "profile", "suite", "trials", "scored", "errored", "excluded", "accuracy",
    "steps", "lm_calls", "tokens", "cost_usd", "seconds", "stops", "errors", "faults",
}  # fmt: skip


def test_the_object_for_scripts_has_the_names_that_stay_and_is_the_same_read_again(breeze, monkeypatch):
    made: Any = json.loads(json.dumps(breeze.to_json(), allow_nan=False))
    assert made.keys() >= {"run", "digest", "wall_s", "arms", "pairs"}
    assert (len(made["arms"]), made["complete"], made["scheduled"], len(made["digest"])) == (6, True, 6 * 12, 64)
    ends = [record.started_at + record.wall_s for record in breeze.records]
    assert made["wall_s"] == pytest.approx(max(ends) - min(record.started_at for record in breeze.records))
    for arm in made["arms"]:
        assert arm.keys() >= ARM
        assert arm["scored"] + arm["errored"] + arm["excluded"] == arm["trials"] == 12
        assert sum(arm["stops"].values()) == arm["scored"]
        for metric in ("accuracy", "steps", "lm_calls", "tokens", "seconds"):
            assert arm[metric].keys() == INTERVAL
            assert arm[metric]["low"] <= arm[metric]["value"] <= arm[metric]["high"]
    for pair in made["pairs"]:
        assert pair.keys() >= {"a", "b", "metric", "difference", "p", "p_holm", "verdict"}
        assert pair["difference"].keys() == INTERVAL
        assert pair["verdict"] in ("better", "worse", "equivalent", "undecided")
        assert 0 <= pair["p"] <= pair["p_holm"] <= 1
    assert len({(pair["a"], pair["b"], pair["metric"]) for pair in made["pairs"]}) == len(made["pairs"])
    monkeypatch.chdir(breeze.folder.parent)
    assert results(Path(breeze.folder.name)).to_json() == breeze.to_json()


NAMED = {
    "nope": "no trial 'nope'; a trial is ARM/TASK/REPEAT, such as bare/clean/arithmetic-0001/0",
    "bare/flaky-tols/arithmetic-0002/0": "such as bare/flaky-tools/arithmetic-0002/0",
    "": "matches 72 trials",
    "arithmetic-0007": "matches 6 trials: .*…; type more of ARM/TASK/REPEAT",
}


def test_a_trial_is_found_by_its_name_and_one_that_fits_none_or_several_is_refused(breeze):
    for name in ("bare/clean/arithmetic-0007/0", "bare/clean/arithmetic-0007", "bare/flaky-tools/arithmetic-0012/0"):
        found = find_record(breeze, name)
        assert f"{found.arm}/{found.task}/{found.repeat}".startswith(name)
    for name, said in NAMED.items():
        with pytest.raises(RunError, match=said):
            find_record(breeze, name)


def test_the_latest_run_is_the_one_that_was_begun_last_whatever_its_name_and_none_of_a_hidden_folder(tmp_path):
    for age, name in enumerate(["monday", "20260101-000000-arithmetic-aaaa", "20260101-000000-arithmetic-0000"]):
        (tmp_path / name).mkdir()
        (tmp_path / name / MANIFEST).touch()
        os.utime(tmp_path / name / MANIFEST, (age, age))
        assert run_folder("latest", tmp_path) == tmp_path / name
    runs = tmp_path / "runs"
    for name, day in (("new", 2), ("old", 1), (".new.part", 3)):  # written last: the hidden one
        (runs / name).mkdir(parents=True)
        write_manifest_json(runs / name, {"config": {}, "created": f"2026-01-0{day}T00:00:00+00:00"})
    assert run_folder("latest", runs) == runs / "new"
    with pytest.raises(RunError, match=r"known: new, old, latest$"):
        run_folder("another", runs)


def test_unknown_arms_are_told_with_those_that_there_are_and_records_of_one_that_the_manifest_lacks_refused(ran, breeze, copy):
    with pytest.raises(RunError, match=r"no arm 'phased'; there are finish/clean, "):
        ran.loop("phased")
    manifest = breeze.manifest.to_json()
    with pytest.raises(RunError, match="do not fit together"):
        results(copy({**manifest, "arms": manifest["arms"][1:]}))


def test_a_suite_that_fails_a_check_is_told_and_quarantined_tasks_leave_the_denominator_visibly(easy, tmp_path):
    listed = tmp_path / "bad.toml"
    listed.write_text('t3 = "the gold is wrong"\n')
    experiment = prepare(CompareConfig(**easy, quarantine=listed))
    run(experiment, Unwatched())
    found = results(experiment.folder)
    told = found.to_json()
    (arm,) = told["arms"]
    assert (arm["scored"], arm["excluded"], found.is_complete) == (29, 1, True)
    assert arm["exclusions"] == {"quarantined: the gold is wrong": 1}
    warnings = [each["text"] for each in told["warnings"]]
    assert [text for text in warnings if text.startswith("the suite fails a check, guessing: same answer")], warnings
    listed.write_text('t99 = "no such task"\n')
    with pytest.raises(ValueError, match="has no task 't99'"):
        prepare(CompareConfig(**easy, quarantine=listed))


def test_only_the_tasks_of_the_split_are_asked(easy):
    experiment = prepare(CompareConfig(**easy, split="test", tasks=7))
    assert [task.id for task in experiment.tasks] == [f"t{i}" for i in range(0, 21, 3)]
    with pytest.raises(ValueError, match=r"^suite easy has no task of split 'tst'; did you mean 'test'\?"):
        prepare(CompareConfig(**easy, split="tst"))
    assert len(list(easy["runs"].iterdir())) == 1


ARMS: dict[str, Any] = {
    **{"finish": Finish(), "finish/flaky-tools": Finish(), "finish(parse_retries=0)": Finish(parse_retries=0)},
    **{"repeat_guard": RepeatGuard(Bare(max_steps=7)), f"{__name__}:Four": Four(), "bare(max_steps=2)": Bare(max_steps=2)},
}


def test_the_loop_of_an_arm_is_set_as_it_was_compared_and_a_limit_that_was_typed_is_its_users(ran: Loaded, tmp_path: Path) -> None:
    assert {name: ran.loop(name) for name in ARMS} == ARMS
    made = whichloop.compare(["finish"], tasks=1, max_tool_steps=11, profiles=["clean"], mlflow=False, runs=tmp_path)
    assert made.loop("finish") == Finish(max_steps=12)


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"configuration": "Finish(max_steps=3)"}, r"is set differently now; it ran as Finish\(max_steps=3\)$"),
    ({"configuration": ""}, "another tool ran this loop"),
    ({"program": "0123"}, "its prompts come from an optimized program"),
    ({"loop": "antigravity:Loop"}, "leads to code of your own, antigravity:Loop: give its whole name to import it$"),
]


@pytest.mark.parametrize(("entry", "said"), OTHERS)
def test_what_cannot_be_made_as_it_was_says_why(ran: Loaded, tmp_path: Path, entry: dict[str, Any], said: str) -> None:
    shutil.copytree(ran.results.folder, copied := tmp_path / "run")
    manifest = json.loads((copied / MANIFEST).read_text())
    manifest["arms"][0] |= entry
    (copied / MANIFEST).write_text(json.dumps(manifest))
    reseal(copied / MANIFEST)
    with pytest.raises(RunError, match=said):
        whichloop.load(copied).loop("finish/clean")
