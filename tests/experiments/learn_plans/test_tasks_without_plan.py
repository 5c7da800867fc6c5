"""The suite of a run, opened again, runs of tasks that have no plan, and the law: what a run did is what its plans do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.learn_plans.helpers import (
    FUNCTIONS,
    HONEST_NAMES,
    calls_of,
    learned,
    plans,
    ran,
    replanned,
    slow,
    suite_of,
    without_plans,
)
from tests.sealing import reseal
from whichloop.checks.suite import task_problems
from whichloop.datasets.validity import planned_answer, replay
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare, run
from whichloop.experiments.learn_plans.learn import learn_run, open_suite
from whichloop.protocol.json_text import sha256
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.files import RunError

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


@settings(slow, max_examples=cases(12))
@given(planned=st.lists(plans(HONEST_NAMES), min_size=1, max_size=3), loops=st.sampled_from([("bare",), ("finish", "phased")]))
def test_what_a_run_did_is_what_its_plans_do(tmp_path_factory, planned, loops):
    folder, suite = tmp_path_factory.mktemp("law"), suite_of(planned)
    made = ran(folder, suite, loops)
    found = learned(made, without_plans(suite))
    assert not found.not_learned
    again = replanned(suite, found)
    assert task_problems(again) == []
    for before, after in zip(suite.tasks, again.tasks, strict=True):
        assert calls_of(after, again) == calls_of(before, suite)
        assert planned_answer(after, asyncio.run(replay(after, again))) == after.expected
    assert replanned(suite, learned(made, suite)).digest == again.digest
    assert found.tasks == learned(made, suite, check=True).tasks


@slow
@given(planned=st.lists(plans([*FUNCTIONS]), min_size=1, max_size=3))
def test_a_check_proves_plans_even_where_tools_do_not_say_what_they_give(tmp_path_factory, planned):
    folder, suite = tmp_path_factory.mktemp("law"), suite_of(planned)
    found = learned(ran(folder, suite, ("finish",)), suite, check=True)
    assert not found.not_learned
    again = replanned(suite, found)
    assert task_problems(again) == []
    assert [calls_of(task, again) for task in again.tasks] == [calls_of(task, suite) for task in suite.tasks]


def test_code_of_the_users_own_is_imported_only_if_its_name_is_typed_again_and_a_suite_that_changed_is_refused(own_run):
    with pytest.raises(RunError, match="--allow own_learned:load"):
        learn_run(own_run)
    found = learn_run(own_run, ["own_learned:load"])
    assert (len(found.lessons), found.checked) == (3, False)  # its tools may act on the world
    assert learn_run(own_run, ["own_learned:load"], check=True).checked
    manifest = own_run / "manifest.json"
    manifest.write_text(manifest.read_text().replace(results(own_run).manifest.suite.digest, "0" * 64))
    reseal(manifest)
    with pytest.raises(RunError, match="has changed since this run"):
        learn_run(own_run, ["own_learned:load"])


def test_a_built_in_suite_is_opened_as_the_run_had_it_with_its_quarantine_and_always_checked(tmp_path):
    listed = tmp_path / "bad.toml"
    listed.write_text('arithmetic-0002 = "ambiguous"\n')
    settings: dict[str, Any] = {"suite": "arithmetic(size=4, seed=3)", "tasks": 2, "quarantine": listed, "runs": tmp_path / "runs"}
    experiment = prepare(CompareConfig(loops=("bare",), mlflow=False, **settings))
    run(experiment, Unwatched())
    found = learn_run(experiment.folder)
    assert (found.checked, len(found.tasks)) == (True, 4)
    unrun = f"not run in {experiment.folder.name}; it keeps the plan that it had"
    assert [*found.not_learned.values()] == ["quarantined: ambiguous", *[unrun] * 2]
    _, suite, is_own = open_suite(experiment.folder)
    assert not is_own
    assert [task.id for task in suite.tasks] == [task.id for task in found.tasks]


@pytest.mark.parametrize(
    ("every", "said"), [(False, "2 of 3 tasks have no plan"), (True, "3 of 3 tasks have no plan.*learn plans")]
)
def test_a_scripted_run_of_tasks_without_a_plan_is_refused_before_anything_is_made(tmp_path, monkeypatch, every, said):
    name = unplanned(tmp_path, monkeypatch, every=every)
    config = CompareConfig(loops=("bare",), suite=name, runs=tmp_path / "runs", mlflow=False)
    with pytest.raises(ValueError, match=said) as told:
        prepare(config)
    assert "not written" in str(told.value)
    assert every or "-s skip_unplanned=true" in str(told.value)
    assert not (tmp_path / "runs").exists()
    assert every or prepare(config.model_copy(update={"tasks": 1})).trials == 1
