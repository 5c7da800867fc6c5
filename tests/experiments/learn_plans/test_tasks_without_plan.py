"""The suite of a run, opened again, and runs of tasks that have no plan."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.sealing import reseal
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import run
from whichloop.experiments.learn_plans.learn import learn_run, open_suite
from whichloop.protocol.digest import sha256
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.permissions import Permissions
from whichloop.runs.store.files import RunError

# --- the suite of a run, opened again ---

OWN = """
from whichloop.datasets.task import Suite
from whichloop.datasets import arithmetic

def load(size: int = 3) -> Suite:
    suite = arithmetic.load(size=size)
    return Suite("mine", "1", suite.tasks, suite.open)
"""


@pytest.fixture
def own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_learned.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    experiment = prepare(CompareConfig(loops=("bare",), suite="own_learned:load", runs=tmp_path / "runs", mlflow=False))
    run(experiment, Unwatched())
    return experiment.folder


def test_code_of_the_users_own_is_imported_only_if_its_name_is_typed_again(own_run):
    with pytest.raises(RunError, match="--allow own_learned:load"):
        learn_run(own_run)
    found = learn_run(own_run, ["own_learned:load"])
    assert len(found.lessons) == 3
    assert not found.checked  # its tools may act on the world
    assert learn_run(own_run, ["own_learned:load"], check=True).checked


def test_a_suite_that_has_changed_since_is_refused(own_run):
    manifest = own_run / "manifest.json"
    manifest.write_text(manifest.read_text().replace(results(own_run).manifest.suite.digest, "0" * 64))
    reseal(manifest)
    with pytest.raises(RunError, match="has changed since this run"):
        learn_run(own_run, ["own_learned:load"])


def test_a_built_in_suite_is_opened_as_the_run_had_it_and_always_checked(tmp_path):
    experiment = prepare(
        CompareConfig(loops=("bare",), suite="arithmetic(size=4, seed=3)", tasks=2, runs=tmp_path / "runs", mlflow=False)
    )
    run(experiment, Unwatched())
    found = learn_run(experiment.folder)
    assert found.checked
    assert len(found.tasks) == 4
    assert [*found.not_learned.values()] == [f"not run in {experiment.folder.name}; it keeps the plan that it had"] * 2
    _, suite, is_own = open_suite(experiment.folder)
    assert not is_own
    assert [task.id for task in suite.tasks] == [task.id for task in found.tasks]


def test_a_quarantine_of_the_run_holds_for_what_is_learned_from_it(tmp_path):
    listed = tmp_path / "bad.toml"
    listed.write_text('arithmetic-0002 = "ambiguous"\n')
    experiment = prepare(
        CompareConfig(loops=("bare",), suite="arithmetic(size=3)", quarantine=listed, runs=tmp_path / "runs", mlflow=False)
    )
    run(experiment, Unwatched())
    assert learn_run(experiment.folder).not_learned == {"arithmetic-0002": "quarantined: ambiguous"}


# --- tasks without a plan ---


def unplanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, every: bool = False, quarantined: str = "") -> str:
    text = OWN.replace("suite.tasks, suite.open", "changed(suite.tasks), suite.open")
    which = "" if every else " if number else task"
    text += (
        "from dataclasses import replace\n\ndef changed(tasks):\n    return tuple("
        f"replace(task, plan=None, no_plan='not written', quarantined={quarantined!r}){which} "
        "for number, task in enumerate(tasks))\n"
    )
    name = f"own_unplanned_{sha256(text)[:8]}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return f"{name}:load"


def test_a_scripted_run_of_tasks_without_a_plan_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    name = unplanned(tmp_path, monkeypatch)
    config = CompareConfig(loops=("bare",), suite=name, runs=tmp_path / "runs", mlflow=False)
    with pytest.raises(ValueError, match=re.escape("2 of 3 tasks have no plan")) as told:
        prepare(config)
    assert "not written" in str(told.value)
    assert "-s skip_unplanned=true" in str(told.value)
    assert not (tmp_path / "runs").exists()
    assert prepare(config.model_copy(update={"tasks": 1})).trials == 1


def test_a_run_that_skips_them_shows_them_as_excluded_and_can_be_gone_on_with(tmp_path, monkeypatch):
    name = unplanned(tmp_path, monkeypatch)
    config = CompareConfig(
        loops=("bare",), suite=name, runs=tmp_path / "runs", mlflow=False, skip_unplanned=True, budget={"calls": 1}
    )
    experiment = prepare(config)
    assert run(experiment, Unwatched()) != ""
    again = reopen(experiment.folder, Permissions(code=[name]))
    run(replace(again, config=again.config.model_copy(update={"budget": type(config.budget)()})), Unwatched())
    found = results(experiment.folder)
    assert [record.status for record in sorted(found.records, key=lambda one: one.task)] == ["scored", "excluded", "excluded"]


def test_where_no_task_has_a_plan_the_way_to_plans_is_named(tmp_path, monkeypatch):
    name = unplanned(tmp_path, monkeypatch, every=True)
    with pytest.raises(ValueError, match=r"3 of 3 tasks have no plan.*whichloop learn plans"):
        prepare(CompareConfig(loops=("bare",), suite=name, runs=tmp_path / "runs", mlflow=False))


def test_quarantined_tasks_need_no_plan_and_real_models_none_at_all(tmp_path, monkeypatch):
    base: dict[str, Any] = {"loops": ("bare",), "runs": tmp_path / "runs", "mlflow": False}
    assert prepare(CompareConfig(suite=unplanned(tmp_path, monkeypatch, quarantined="bad"), **base)).trials == 3
    real = CompareConfig(suite=unplanned(tmp_path, monkeypatch), models=("openai/x",), base_url="http://127.0.0.1:9/v1", **base)
    assert prepare(real).trials == 3
