"""Limits to what each trial may spend: they stand in the title, and what ended there is a column."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.compare.caveats import at_limit, caveats
from whichloop.experiments.compare.doc import compare_doc
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.experiments.compare.trial_limits import trial_limits
from whichloop.metrics.arm_info import NO_LIMITS
from whichloop.metrics.comparison import compare
from whichloop.runs.config import BudgetConfig, CompareConfig
from whichloop.runs.engine.runner import Unwatched

LIMIT = "at most 2,000 tokens a trial"


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Results:
    config = CompareConfig(
        loops=("bare", "finish"),
        profiles=("flaky-format",),
        suite="arithmetic(size=8)",
        runs=tmp_path_factory.mktemp("runs"),
        trial_budget=BudgetConfig(tokens=2000),
        mlflow=False,
    )
    made = prepare(config)
    run(made, Unwatched())
    return results(made.folder)


@given(
    st.fixed_dictionaries({}, optional={name: st.integers(1, 10**6) for name in BudgetConfig.model_fields}),
    st.none() | st.integers(1, 50),
    st.sampled_from([60.0, 20.0]),
)
def test_every_limit_that_a_run_set_is_named_and_no_other(budget, steps, timeout):
    config = CompareConfig(trial_budget=BudgetConfig(**budget), max_tool_steps=steps, trial_timeout_s=timeout)
    found = trial_limits(config.model_dump(mode="json"))
    named = len(budget) + (steps is not None) + (timeout != 60)
    assert (found == NO_LIMITS) == (named == 0)
    assert bool(found.words) == bool(found.stops)
    assert not named or (" and " in found.words) == (named > 1)
    assert "others" not in found.words


def test_an_imported_run_has_none():
    assert trial_limits({}) == NO_LIMITS


def test_the_limit_stands_in_the_title_and_what_ended_there_is_a_column(limited):
    doc = compare_doc(limited)
    matrix = doc.tables[0]
    assert LIMIT in limited.title
    assert LIMIT in doc.title
    place = matrix.columns.index("limit")
    stopped = {arm.info.loop: arm.summary.stops.get("budget", 0) for arm in limited.comparison.arms}
    assert sum(stopped.values()) > 0
    assert {row[0]: int(row[place]) for row in matrix.texts} == stopped
    assert json.loads(json.dumps(limited.to_json()))["limits"] == LIMIT


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A run in which designs end at their step limits in many trials, beside one that hardly does."""
    loops = ("bare", "bare(max_steps=4)", "bare(max_steps=5)", "repeat_guard(loop=bare(max_steps=3))")
    runs = tmp_path_factory.mktemp("stepped")
    made = prepare(CompareConfig(loops=loops, profiles=("flaky-tools",), tasks=20, runs=runs, mlflow=False))
    run(made, Unwatched())
    return results(made.folder)


def test_loops_that_end_often_at_their_limit_are_warned_of_with_their_numbers(stepped):
    stops = {arm.info.variant: Counter(arm.summary.stops) for arm in stepped.comparison.arms}
    ended = {loop: counts["forced"] + counts["max_steps"] for loop, counts in stops.items()}
    assert ended["bare"] < 2
    said = {each.arms[0]: each.numbers for each in caveats(stepped.comparison) if each.code == "at limit"}
    named = {loop: stepped.comparison.limits.ended[f"{loop}/flaky-tools"] for loop in ended if loop != "bare"}
    assert named['repeat_guard(loop="bare(max_steps=3)")'] == ended['repeat_guard(loop="bare(max_steps=3)")']  # which was typed
    assert said == {loop: {"trials": n, "of": 20} for loop, n in named.items()}
    assert {arm.info.variant: at_limit(stepped.comparison, [arm]) for arm in stepped.comparison.arms}["bare(max_steps=4)"] == named[
        "bare(max_steps=4)"
    ]
    few = replace(stepped.comparison.limits, ended={arm.info.arm: 1 for arm in stepped.comparison.arms})
    assert not [each for each in caveats(replace(stepped.comparison, limits=few)) if each.code == "at limit"]


def test_every_trial_beyond_the_limit_ended_by_it_unsolved_with_its_answer_kept(limited):
    beyond = [record for record in limited.records if record.tokens > 2000]
    assert beyond == [record for record in limited.records if record.stop == "budget"]
    assert {record.accuracy for record in beyond} == {0.0}
    assert any(record.answer is not None for record in beyond)
    assert all(re.fullmatch(r"budget of 2,000 tokens exceeded: [2-9],\d{3}", record.reason) for record in beyond)


def test_how_many_tasks_a_run_has_seen_is_told_where_some_have_no_trial(limited, tmp_path):
    some = tuple(record for record in limited.records if record.task != limited.records[0].task)
    assert "incomplete: 14 of 16 trials, 7 of 8 tasks seen" in Results(Path("x"), limited.manifest, some, limited.comparison).title
    one_arm = tuple(record for record in limited.records if record.arm == limited.records[0].arm)
    assert Results(Path("x"), limited.manifest, one_arm, limited.comparison).title.endswith("incomplete: 8 of 16 trials")


def test_an_incomplete_run_names_the_command_that_goes_on(limited):
    some = tuple(record for record in limited.records if record.task != limited.records[0].task)
    found = Results(limited.folder, limited.manifest, some, limited.comparison)
    assert compare_doc(found).facts["Next"] == [f"whichloop resume {limited.folder}"]
    assert "Next" not in compare_doc(limited).facts


@pytest.mark.parametrize("others", [("bare", "finish"), ("bare",)])
def test_trials_that_ran_out_of_time_are_a_warning_unless_the_limit_was_the_runs_own(limited, others):
    infos = [arm.info for arm in limited.comparison.arms if arm.info.loop in others]
    records = [
        replace(record, stop="timeout", scores={"accuracy": 0.0}) if record.arm == infos[0].arm and number < 3 else record
        for number, record in enumerate(record for record in limited.records if record.arm in {info.arm for info in infos})
    ]
    late = sum(record.stop == "timeout" for record in records)
    assert late > 0
    by_default = compare(records, infos)
    of_own = replace(by_default, limits=trial_limits({"trial_timeout_s": 0.5}))
    (told,) = (each for each in caveats(by_default) if each.code == "out of time")
    assert (told.arms, told.numbers["trials"], told.numbers["of"]) == ((infos[0].arm,), late, 8)
    assert not [each for each in caveats(of_own) if each.code == "out of time"]
    assert at_limit(of_own, of_own.arms[:1]) == late


def test_every_task_has_its_first_trial_before_any_has_a_second(tmp_path):
    """So that a budget of the run which ends early leaves no task unseen while others have repeats."""
    made = prepare(CompareConfig(loops=("bare", "finish"), suite="arithmetic(size=6)", repeats=3, runs=tmp_path, mlflow=False))
    trials = list(made.missing())
    firsts = [trial for trial in trials if trial.repeat == 0]
    assert trials[: len(firsts)] == firsts
    assert {trial.task.id for trial in firsts} == {task.id for task in made.tasks}
