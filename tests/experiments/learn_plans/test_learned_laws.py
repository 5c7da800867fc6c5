"""What a run did is what its plans do, whatever the plans and the designs."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.learn_plans.helpers import (
    DESIGNS,
    FUNCTIONS,
    HONEST_NAMES,
    calls_of,
    learned,
    plans,
    ran,
    read,
    replanned,
    slow,
    suite_of,
    without_plans,
)
from whichloop.checks.suite import task_problems
from whichloop.datasets.validity import planned_answer, replay


@settings(slow, max_examples=cases(12))
@given(planned=st.lists(plans(HONEST_NAMES), min_size=1, max_size=3), loops=st.sampled_from([("bare",), ("finish", "phased")]))
def test_what_a_run_did_is_what_its_plans_do(tmp_path_factory, planned, loops):
    """The law: scripted run → traces → plans that replay, score 1.0 and make the same calls; the same again the second time."""
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


@settings(slow, max_examples=3)
@given(planned=st.lists(plans(HONEST_NAMES), min_size=1, max_size=3), any_order=st.booleans())
def test_all_designs_solve_a_learned_suite_under_clean(tmp_path_factory, planned, any_order):
    folder, suite = tmp_path_factory.mktemp("law"), suite_of(planned)
    again = replanned(suite, learned(ran(folder, suite, ("react_extract",)), suite, any_order=any_order))
    found = learned(ran(folder, again, DESIGNS), again, any_order=any_order)
    assert {record.accuracy for record in read(folder / "run-1")} == {1.0}
    assert not found.not_learned
