"""Runs that are looked at on their way: they end once every pair is decided, and a kill at any point changes nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kept import put, rows
from tests.sealing import reseal
from whichloop.experiments.compare.prepare import Experiment, prepare
from whichloop.experiments.compare.reopen import SessionSettings, reopen
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.experiments.optimize.config import load_optimize_config
from whichloop.metrics.record import Record
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.permissions import Permissions
from whichloop.runs.store.files import RunError

pytestmark = pytest.mark.thorough

FAR_APART = ("bare", "whichloop.checks.suite.reference_agents:Blind")


class Heard(Unwatched):
    def __init__(self) -> None:
        self.records: list[Record] = []

    def finished(self, record: Record) -> None:
        self.records.append(record)


def config_in(runs: Path, **changes: Any) -> CompareConfig:
    values: dict[str, Any] = {"loops": FAR_APART, "suite": "arithmetic(size=120)", "looks": 4, "runs": runs, "mlflow": False}
    return CompareConfig(**(values | changes))


@pytest.fixture
def configured(tmp_path: Path) -> Callable[..., CompareConfig]:
    return lambda **changes: config_in(tmp_path, **changes)


def done(config: CompareConfig) -> Results:
    experiment = prepare(config)
    assert run(experiment, Heard()) == ""
    return results(experiment.folder)


def again(folder: Path) -> Experiment:
    """The same run gone on with, whatever code of one's own it names."""
    return reopen(folder, Permissions(code=FAR_APART[1:]))


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A run that ends at its first look. Tests that write into its folder copy it first."""
    return done(config_in(tmp_path_factory.mktemp("decided")))


@pytest.fixture
def copied(decided: Results, tmp_path: Path) -> Path:
    folder = tmp_path / decided.folder.name
    shutil.copytree(decided.folder, folder)
    return folder


def test_a_run_ends_at_the_look_at_which_every_pair_is_decided(decided):
    found = decided
    assert found.looked is not None
    assert (found.looked.reached, found.looked.planned, found.looked.tasks, found.looked.stopped) == (1, 4, 30, True)
    assert found.is_complete
    assert len(found.records) == 2 * 30 < found.scheduled == 240
    looks = found.manifest.looks
    assert looks is not None
    assert {record.task for record in found.records} == set(looks.stage(1))
    assert (found.comparison.alpha, found.level) == (0.05, looks.level(1).nominal(0.05))
    assert {pair.look for pair in found.comparison.pairs if pair.family == "primary"} == {1}
    assert found.title.endswith("120 tasks × 1, seed 0, stopped after 30 of them")
    assert any(note.startswith("Look 1 of 4, after 30 tasks") for note in found.comparison.remarks)
    assert found.to_json()["looks"]["stopped"]
    assert found.to_json()["complete"]


def test_a_run_that_is_not_decided_on_the_way_goes_to_its_end(configured):
    """Two equal arms: nothing is better, and so few tasks show no equivalence either."""
    found = done(configured(loops=("bare", "bare(check_types=true)"), suite="arithmetic(size=12)", looks=3))
    looks = found.manifest.looks
    assert looks is not None
    assert found.looked is not None
    assert (found.looked.reached, found.looked.stopped, found.is_complete) == (3, False, True)
    assert found.level == looks.level(3).nominal(0.05) < 0.05
    assert len(found.records) == found.scheduled


@pytest.mark.thorough
def test_equal_designs_are_found_equivalent_on_the_way(configured):
    found = done(configured(loops=("bare", "bare(check_types=true)"), suite="arithmetic(size=60)", looks=2, margin=0.2))
    assert found.looked is not None
    assert (found.looked.reached, found.looked.stopped) == (1, True)
    assert [pair.verdict.word for pair in found.comparison.pairs if pair.family == "primary"] == ["equivalent"]


def test_all_repeats_of_a_stage_belong_to_it(configured):
    found = done(configured(repeats=2, profiles=("clean", "flaky-tools"), suite="arithmetic(size=4)"))
    assert found.looked is not None
    assert len(found.records) == 2 * 2 * 2 * found.looked.tasks


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A run of five looks, stages of 8 trials."""
    loops, runs = ("bare", "bare(check_types=true)"), tmp_path_factory.mktemp("whole")
    return done(CompareConfig(loops=loops, suite="arithmetic(size=20)", looks=5, runs=runs, mlflow=False))


@pytest.mark.parametrize("kept", [7, 16, *(pytest.param(kept, marks=pytest.mark.slow) for kept in (0, 20, 35))])
def test_a_kill_at_any_point_changes_nothing(whole, tmp_path, kept):
    """16: between the second look's last trial and the look itself."""
    folder = tmp_path / whole.folder.name
    shutil.copytree(whole.folder, folder)
    whole_rows = rows(folder)
    put(folder, whole_rows[:kept])
    part, heard = results(folder), Heard()
    assert part.looked is not None
    assert (part.looked.reached, part.looked.between, part.is_complete) == (kept // 8, kept % 8 > 0 or kept < 8, False)
    if part.looked.between:
        assert {pair.verdict.word for pair in part.comparison.pairs if pair.look is None} <= {"undecided"}
    assert run(reopen(folder), heard) == ""
    assert len(heard.records) == len(whole_rows) - kept
    assert results(folder).digest == whole.digest


def test_a_run_that_was_killed_before_the_look_that_ends_it_runs_nothing_more(decided, copied):
    heard = Heard()
    assert run(again(copied), heard) == ""
    assert heard.records == []
    assert results(copied).digest == decided.digest


def test_a_run_that_was_killed_within_its_last_stage_ends_at_the_same_look(decided, copied):
    heard, whole_rows = Heard(), rows(copied)
    put(copied, whole_rows[:41])
    part = results(copied)
    assert not part.is_complete
    assert any(note.startswith("On the way to look 1 of 4: nothing is decided before it") for note in part.comparison.remarks)
    assert run(again(copied), heard) == ""
    assert len(heard.records) == len(whole_rows) - 41
    assert results(copied).digest == decided.digest


def test_a_budget_leaves_a_run_that_goes_on(configured):
    whole = done(configured(loops=("bare", "bare(check_types=true)"), suite="arithmetic(size=8)", looks=2))
    experiment = prepare(
        configured(loops=("bare", "bare(check_types=true)"), suite="arithmetic(size=8)", looks=2, budget={"calls": 24})
    )
    assert run(experiment, Heard()) == "budget of 24 model calls used up"
    assert run(reopen(experiment.folder, session=SessionSettings({"budget": {"calls": 100_000}})), Heard()) == ""
    assert results(experiment.folder).digest == whole.digest


def test_the_trials_are_those_of_a_run_without_looks(configured):
    config = configured(loops=("bare", "bare(check_types=true)"), suite="arithmetic(size=8)", looks=2)
    assert done(config).digest == done(config.model_copy(update={"looks": None})).digest


@pytest.mark.parametrize("damage", [{"order": ["x"]}, {"ends": [3, 2, 1]}, None, 5])
def test_a_damaged_plan_is_told_in_one_line(copied, damage):
    path = copied / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["looks"] = manifest["looks"] | damage if isinstance(damage, dict) else damage
    path.write_text(json.dumps(manifest))
    reseal(path)
    if damage is None:  # a run like any other
        assert results(copied).looked is None
        return
    with pytest.raises(RunError, match="manifest"):
        results(copied)
    with pytest.raises(RunError, match="looks"):
        again(copied)


def test_a_plan_of_other_tasks_is_refused(copied):
    path = copied / "manifest.json"
    text = path.read_text()
    first = json.loads(text)["looks"]["order"][0]
    path.write_text(text.replace(f'"{first}"', '"another"'))
    reseal(path)
    with pytest.raises(RunError, match="other tasks than the suite's"):
        again(copied)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"loops": ("bare",)}, "one loop does not make a pair"),
        ({"looks": 1}, "greater than or equal to 2"),
        ({"looks": 21}, "less than or equal to 20"),
    ],
)
def test_looks_at_nothing_are_refused(configured, changes, says):
    with pytest.raises(ValueError, match=says):
        configured(**changes)


def test_more_looks_than_tasks_are_refused_before_anything_is_made(configured, tmp_path):
    with pytest.raises(ValueError, match="looks: 4 of them need as many tasks, and there are 3"):
        prepare(configured(suite="arithmetic(size=3)"))
    assert [*tmp_path.iterdir()] == []


def test_an_optimization_takes_no_looks():
    with pytest.raises(ValueError, match="looks is not a setting of an optimization"):
        load_optimize_config(None, {"looks": 3})
