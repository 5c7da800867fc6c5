"""Answers judged again: the results are those of a run that had been judged so from the start, and nothing is asked for it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.kept import put, rows
from whichloop.experiments.compare import rescore as rescoring
from whichloop.experiments.compare.reopen import extend, reopen
from whichloop.experiments.compare.rescore import REDACTED, rescore
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare, run
from whichloop.protocol import Query
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.permissions import Permissions
from whichloop.runs.schedule import read_state
from whichloop.runs.store.files import RunError, read_manifest_json
from whichloop.runs.store.trials import read_records

SUITES = """
from dataclasses import replace
from whichloop.datasets import arithmetic, repairs
from whichloop.datasets.task import Suite
changed = {}
fails = False
def _changed(suite):
    return replace(suite, tasks=tuple(replace(task, **changed.get(task.id, changed.get("all", {}))) for task in suite.tasks))
def load() -> Suite:
    return _changed(arithmetic.load(size=6))
def stateful() -> Suite:
    return _changed(repairs.load(size=3))
def by_state(judgement) -> float:
    if fails:
        raise RuntimeError("no such scorer yet")
    return float(judgement.state is not None)
class Stubborn:
    '''Gives up in the words of the right answer.'''
    name, stops = "stubborn", frozenset()
    def with_step_limit(self, tool_steps): return self
    async def run(self, query, tools, model, observer=None):
        from whichloop.protocol import Outcome, StopReason
        return Outcome("7", StopReason.FINISHED, 0, gave_up=True)
class Leaky(Stubborn):
    async def run(self, query, tools, model, observer=None):
        from whichloop.protocol import Outcome, StopReason
        return Outcome("Bearer abcdefgh12345678", StopReason.FINISHED, 0)
"""

ALLOWED = ["own_judged:load", "own_judged:stateful", "own_judged:Stubborn", "own_judged:Leaky"]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module that suites, a scorer and loops come from; `changed`: task, or `all` → what of it is another."""
    (tmp_path / "own_judged.py").write_text(SUITES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_judged", raising=False)
    module = importlib.import_module("own_judged")
    yield module
    module.changed.clear()


@pytest.fixture
def ran(own: ModuleType, tmp_path: Path) -> Callable[..., Path]:
    """Runs the suite as it is now; gives the directory."""

    def begin(**changes: Any) -> Path:
        values: dict[str, Any] = {
            "loops": ("bare",), "suite": "own_judged:load", "profiles": ("flaky-tools",), "runs": tmp_path / "runs",
            "mlflow": False,
        }  # fmt: skip
        experiment = prepare(CompareConfig(**(values | changes)))
        assert run(experiment, Unwatched()) == ""
        return experiment.folder

    return begin


CHANGES = st.dictionaries(
    st.sampled_from([f"arithmetic-{number:04}" for number in range(1, 7)]),
    st.fixed_dictionaries(
        {}, optional={"expected": st.sampled_from([None, 3, "12", 7.5]), "scorer": st.sampled_from(["exact", "contains"])}
    ),
)


@pytest.mark.thorough
@settings(max_examples=cases(3), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=CHANGES, then=CHANGES)
def test_a_run_that_was_judged_again_is_one_that_was_judged_so_from_the_start(own, ran, first, then):
    own.changed = first
    folder = ran()
    before = {record.key: record for record in read_records(folder)}
    spent, lines = read_state(folder).spent, rows(folder)
    own.changed = then
    made = rescore(folder, ALLOWED)
    assert made.results.digest == results(ran()).digest
    assert rows(folder)[: len(lines)] == lines
    assert read_state(folder).spent == spent
    after = {record.key: record for record in read_records(folder)}
    assert made.changed == sum(before[key].scores != after[key].scores for key in before)
    assert all(after[key].trace_at == before[key].trace_at for key in before)
    was = next(iter(before.values())).suite_digest
    notes = read_manifest_json(folder).get("rescored", [])
    if made.results.manifest.suite.digest == was:
        assert notes == []
    else:
        assert [(note["suite"], note["trials"]) for note in notes] == [(was, made.changed)]
    manifest = (folder / "manifest.json").read_bytes()
    assert rescore(folder, ALLOWED).changed == 0
    assert (folder / "manifest.json").read_bytes() == manifest


def test_a_run_goes_on_and_is_added_to_on_the_new_ground(own, ran):
    folder = ran()
    put(folder, rows(folder)[:2])
    own.changed = {"all": {"expected": 7}}
    with pytest.raises(RunError, match="the questions are the same, so the answers can be judged again: whichloop resume"):
        reopen(folder, Permissions(ALLOWED))
    rescore(folder, ALLOWED)
    assert run(reopen(folder, Permissions(ALLOWED)), Unwatched()) == ""
    assert run(extend(folder, {"repeats": 2}, Permissions(ALLOWED)), Unwatched()) == ""
    assert results(folder).digest == results(ran(repeats=2)).digest


def test_a_kill_between_records_and_manifest_is_mended_by_the_same_command(own, ran, monkeypatch):
    folder = ran()
    first = read_records(folder)
    own.changed = {"all": {"expected": 7}}

    def killed(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rescoring, "write_manifest", killed)
        with pytest.raises(KeyboardInterrupt):
            rescore(folder, ALLOWED)
    assert results(folder).is_complete
    with pytest.raises(RunError, match="--rescore"):
        reopen(folder, Permissions(ALLOWED))
    was = {record.key: record.scores for record in first}
    rescore(folder, ALLOWED)
    assert len(reopen(folder, Permissions(ALLOWED)).missing()) == 0
    (note,) = read_manifest_json(folder)["rescored"]
    assert note["trials"] == sum(was[record.key] != record.scores for record in read_records(folder)) > 0


def test_answers_that_were_kept_without_their_secrets_keep_their_scores(own, ran):
    own.changed = {"all": {"expected": "Bearer abcdefgh12345678", "scorer": "contains"}}
    folder = ran(loops=("own_judged:Leaky",))
    own.changed = {"all": {"expected": "something else", "scorer": "contains"}}
    made = rescore(folder, ALLOWED)
    assert (made.judged, made.changed, dict(made.kept_scores)) == (0, 0, {REDACTED: 6})
    assert {record.accuracy for record in read_records(folder)} == {1.0}


def test_a_task_that_is_quarantined_now_leaves_the_denominator(own, ran):
    folder = ran()
    own.changed = {"arithmetic-0003": {"quarantined": "ambiguous"}}
    made = rescore(folder, ALLOWED)
    assert made.changed == 1
    assert made.results.digest == results(ran()).digest
    own.changed = {}
    with pytest.raises(RunError, match="task arithmetic-0003 was quarantined, and is not now"):
        rescore(folder, ALLOWED)


def test_whoever_gave_up_is_not_right_afterwards_and_a_plan_never_seen_makes_a_wrong_answer_a_false_success(own, ran):
    folder = ran(loops=("own_judged:Stubborn",))
    own.changed = {"all": {"expected": 7}}
    assert rescore(folder, ALLOWED).changed == 0
    assert {record.accuracy for record in read_records(folder)} == {0.0}
    folder = ran(loops=("own_judged:Stubborn",), profiles=("clean",))  # the loop asks no tool, and says so: right, by luck
    put(folder, [row | {"gave_up": False} for row in rows(folder)])
    assert rescore(folder, ALLOWED).changed == 6
    own.changed = {"all": {"expected": 8}}
    assert rescore(folder, ALLOWED).changed == 6
    assert {(record.accuracy, record.false_success) for record in read_records(folder)} == {(0.0, True)}


STATES: dict[str, Any] = {"suite": "own_judged:stateful", "loops": ("bare",), "profiles": ("clean",)}


def test_end_states_are_judged_again_from_the_traces_and_answers_alone_without(own, ran):
    folder, answers = ran(**STATES), ran(traces="none")
    assert {record.accuracy for record in read_records(folder)} == {1.0}
    own.changed = {read_records(folder)[0].task: {"end_state": {"nothing": "like it"}}}
    made = rescore(folder, ALLOWED)
    assert (made.changed, made.results.digest) == (1, results(ran(**STATES)).digest)
    own.changed = {"all": {"expected": 7}}
    assert rescore(answers, ALLOWED).results.digest == results(ran(traces="none")).digest


FIRST = "arithmetic-0001"
UNJUDGED = [
    ({}, {FIRST: {"query": Query("text")}}, f"task {FIRST} asks something else"),
    ({}, {FIRST: {"plan": None}}, "the plans are not what they were"),
    (STATES, {"all": {"scorer": "own_judged:by_state"}}, "RuntimeError: no such scorer yet; nothing was written"),
    (STATES | {"traces": "none"}, {"all": {"scorer": "contains"}}, r"the end state that it left was not kept, .*-s traces=all"),
]


@pytest.mark.parametrize(("how", "changed", "said"), UNJUDGED)
def test_what_cannot_be_judged_again_is_refused_and_nothing_is_written(own, ran, how, changed, said):
    folder = ran(**how)
    before = rows(folder), (folder / "manifest.json").read_bytes()
    own.changed, own.fails = changed, True
    with pytest.raises(RunError, match=said) as caught:
        rescore(folder, ALLOWED)
    assert "\n" not in str(caught.value)
    with pytest.raises(RunError, match="--allow own_judged:"):
        rescore(folder)
    assert (rows(folder), (folder / "manifest.json").read_bytes()) == before
