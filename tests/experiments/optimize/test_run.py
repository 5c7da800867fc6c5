"""An optimization from configuration to tested programs: repeatable, resumable, the test split opened once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.optimize.conftest import Remembers
from tests.kept import put, rows
from tests.sealing import reseal
from whichloop.experiments.compare.results import results
from whichloop.experiments.optimize.candidates import read_log
from whichloop.experiments.optimize.config import OptimizeConfig, load_optimize_config, read_optimization_manifest
from whichloop.experiments.optimize.prepare import Optimization, prepare, reopen
from whichloop.experiments.optimize.run import run
from whichloop.runs.permissions import Permissions
from whichloop.runs.store.files import MANIFEST, RunError, read_manifest_json

pytestmark = pytest.mark.thorough
Configured = Callable[..., OptimizeConfig]


@pytest.fixture
def configured(tmp_path: Path) -> Configured:
    """Makes a configuration as `config_in`."""
    return lambda **changes: config_in(tmp_path / "runs", **changes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished run. Tests that write into it copy it first."""
    watcher = Remembers()
    return finished(prepare(config_in(tmp_path_factory.mktemp("whole"))), watcher)


def digests(folder: Path) -> tuple[Any, ...]:
    """All that must be equal for equal input."""
    opened = read_manifest_json(folder)["splits"]["test"]["opened"]
    return (opened["programs"], {name: log["digest"] for name, log in opened["rollouts"].items()}, results(folder / "test").digest)


def finished(made: Optimization, watcher: Any) -> Path:
    assert run(made, watcher, watcher) == ""
    return made.folder


def timeless(folder: Path) -> list[Any]:
    """The rollouts of all designs, without what differs from sitting to sitting."""
    kept = ("key", "calls", "feedback")
    return [[line[name] for name in kept] for path in sorted(folder.glob("designs/*/rollouts.jsonl")) for _, line in read_log(path)]


class Interrupting:
    """Passes on to a watcher, and presses Ctrl-C at a rollout."""

    def __init__(self, watcher: Any, at: int) -> None:
        self.watcher = watcher
        self.left = at

    def rolled_out(self, *told: Any) -> None:
        self.watcher.rolled_out(*told)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def __getattr__(self, name: str) -> Any:
        return getattr(self.watcher, name)


def test_an_interrupted_search_goes_on_as_if_nothing_had_been(configured: Configured, watcher: Any, whole: Path) -> None:
    made = prepare(configured())
    stopping: Any = Interrupting(watcher, 5)
    with pytest.raises(KeyboardInterrupt):
        run(made, stopping, watcher)
    kept = timeless(made.folder)
    again = finished(reopen(made.folder), watcher)
    assert timeless(again)[: len(kept)] == kept  # not one was run twice
    assert timeless(again) == timeless(whole)
    assert digests(again)[0] == digests(whole)[0]
    assert digests(again)[2] == digests(whole)[2]


def test_the_test_split_is_opened_once(configured: Configured, watcher: Any) -> None:
    made = prepare(configured())
    assert made.manifest.splits["test"].opened is None
    folder = finished(made, watcher)
    opened = read_manifest_json(folder)["splits"]["test"]["opened"]
    assert opened["programs"] == {"bare": made.designs[0].ended().digest}
    tested = {record.task for record in results(folder / "test").records}
    assert tested == {task.id for task in made.splits["test"]}
    assert tested.isdisjoint(line["key"][1] for _, line in read_log(made.designs[0].folder / "rollouts.jsonl"))
    assert finished(reopen(folder), watcher) == folder  # nothing is left to do, and nothing is done

    ended = made.designs[0].folder / "ended.json"
    ended.write_text(ended.read_text("utf-8").replace(made.designs[0].ended().digest, "0" * 64), "utf-8")
    reseal(ended)
    with pytest.raises(RunError, match="opened before, for other programs; it is opened once"):
        run(reopen(folder), watcher, watcher)


def test_a_second_run_says_that_the_same_locked_tasks_were_opened_before(configured: Configured, watcher: Any) -> None:
    first = finished(prepare(configured(optimizer="LabeledFewShot")), watcher)
    (first.parent / "notes").mkdir()
    (first.parent / "broken").mkdir()
    (first.parent / "broken" / MANIFEST).write_text("{", "utf-8")
    second, other = (finished(prepare(configured(optimizer="LabeledFewShot(k=2)", **more)), watcher) for more in ({}, {"tasks": 3}))
    for folder, before in ((first, ()), (second, (first.name,)), (other, ())):
        opened = read_optimization_manifest(folder).splits["test"].opened
        assert opened is not None
        assert opened.before == before
    old, again = (results(second / name) for name in ("test", "again"))
    assert [arm.info.arm for arm in again.comparison.arms] == ["bare/teachable"]
    assert {record.task for record in again.records} == {record.task for record in old.records}
    assert again.manifest.seed != old.manifest.seed


def test_a_budget_keeps_the_best_program_so_far(configured: Configured, watcher: Any) -> None:
    made = prepare(configured(budget={"calls": 150}, optimizer="BootstrapFewShotWithRandomSearch"))
    finished(made, watcher)
    ended = made.designs[0].ended()
    assert (ended.status, ended.reason) == ("budget", "budget of 150 model calls used up")
    assert ended.search.calls == 150  # the rollout that it cut short included
    assert ended.search.calls > sum(line["spent"]["calls"] for _, line in read_log(made.designs[0].folder / "rollouts.jsonl"))
    assert ended.chosen > 0
    assert sum(ended.after.values()) > sum(ended.before.values())


def test_each_design_has_the_whole_budget_of_calls_and_no_more(configured: Configured, watcher: Any) -> None:
    made = prepare(configured(loops=("bare", "finish"), budget={"calls": 12}, optimizer="BootstrapFewShotWithRandomSearch"))
    finished(made, watcher)
    ends = [design.ended() for design in made.designs]
    assert [(end.status, end.search.calls) for end in ends] == [("budget", 12)] * 2


def test_a_run_that_was_moved_in_its_test_goes_on(configured: Configured, watcher: Any, tmp_path: Path) -> None:
    folder = finished(prepare(configured(optimizer="LabeledFewShot")), watcher)
    expected = digests(folder)
    put(folder / "test", rows(folder / "test")[:9])
    moved = folder.rename(tmp_path / "moved")
    assert not results(moved / "test").is_complete
    assert digests(finished(reopen(moved), watcher)) == expected
    assert results(moved / "test").is_complete


def test_an_optimizer_of_ones_own_has_to_be_typed_again(
    configured: Configured, watcher: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_i6.py").write_text(
        "from dspy.teleprompt import LabeledFewShot\n\n\nclass Mine(LabeledFewShot): ...\n", "utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    made = prepare(configured(optimizer="mine_i6:Mine(k=2)"))
    with pytest.raises(RunError, match="--allow mine_i6:Mine"):
        reopen(made.folder)
    finished(reopen(made.folder, Permissions(["mine_i6:Mine"])), watcher)
    assert len(json.loads((made.designs[0].folder / "optimized.json").read_text("utf-8"))["decide"]["demos"]) == 2


def kept(made: Optimization) -> list[Any]:
    return [line["key"] for path in sorted(made.folder.glob("designs/*/rollouts.jsonl")) for _, line in read_log(path)]


def config_in(runs: Path, **changes: Any) -> OptimizeConfig:
    """A configuration: bare, few tasks, a weakness that examples teach away, without MLflow."""
    search = "BootstrapFewShotWithRandomSearch(num_candidate_programs=1)"
    defaults: dict[str, Any] = {"loops": ("bare",), "suite": "arithmetic(size=24)", "profiles": ("teachable",), "optimizer": search}
    return load_optimize_config(None, defaults | {"train": 8, "dev": 6, "repeats": 1, "mlflow": False, "runs": runs} | changes)


UNPLANNED = """
from dataclasses import replace
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_suite
def made():
    suite = make_suite(parse_spec("arithmetic(size=60)"))
    tasks = [replace(task, plan=None) if task.labels["split"] == "test" else task for task in suite.tasks]
    return replace(suite, tasks=tuple(tasks))
"""
BAD: list[tuple[dict[str, Any], str]] = [
    ({"suite": "unplanned_i6:made"}, "26 of 26 tasks have no plan"),
    ({"profiles": ("clean", "teachable")}, "profiles: give one, not 2"),
    ({"split": "test"}, "split is not a setting of an optimization"),
    ({"budget": {"seconds": 3}}, "seconds are not an equal budget"),
    ({"budget": {"dollars": 3}}, "a budget in dollars needs one for the scripted model"),
    ({"loops": ("bare@nowhere.json",)}, "nowhere.json"),
    ({"proposer": "openai/gpt-4o-mini"}, "OPENAI_API_KEY"),
]


def test_bad_input_is_told_before_anything_is_made(configured: Configured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unplanned_i6.py").write_text(UNPLANNED, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for changes, said in BAD:
        with pytest.raises((ValueError, OSError), match=said):
            prepare(configured(**changes))
    file = tmp_path / "config.toml"
    file.write_text("[budget]\ncalls = 10\n", "utf-8")
    with pytest.raises(ValueError, match="budget: move it to the table `search`"):
        load_optimize_config(file, {})
    assert not (tmp_path / "runs").exists()
