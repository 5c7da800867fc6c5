"""Laws of every generated suite: plans give the answers, in any order; worlds are their own; half the work does not pass."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.prepared import ran_in_fork
from whichloop.checks.suite import task_problems
from whichloop.datasets import arithmetic
from whichloop.datasets.generating import Draw
from whichloop.datasets.task import Environment, Suite, Task
from whichloop.datasets.validity import planned_answer, replay
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scores_of
from whichloop.protocol import PlannedCall, Toolbox, ToolCall, resolve, run_sync
from whichloop.runs.registry import generated_suites

SOURCES = generated_suites()
NAMES = sorted(SOURCES)
WRITES = {
    "events": {"hold_seats", "book", "cancel_booking"},
    "repairs": {"open_work_order", "order_part"},
    "ecommerce": {"refund_line", "exchange_line", "match_price", "give_credit", "change_address", "combine_orders"},
    "errands": {"buy", "send_parcel", "pay_bill", "return_book", "empty_into_purse"},
}
"""The tools that may change the end state; no tool of the other suites may."""
FIRST = 8
few = settings(max_examples=cases(4), deadline=None)

every_suite = pytest.mark.parametrize("name", NAMES)


@cache
def suite_of(name: str) -> Suite:
    return SOURCES[name].suite()


def made(environment: Environment, calls: Iterable[PlannedCall], results: dict[str, Any]) -> Iterator[PlannedCall]:
    """Make calls, each as often as its link drops, and give each as soon as it is made."""
    toolbox = Toolbox(environment.tools)
    for call in calls:
        arguments = resolve(call.arguments, results)
        while not (seen := run_sync(toolbox.call(ToolCall(call.tool, arguments)))).ok and not call.fails:
            assert seen.error_type == "LinkDown"
        results[call.id] = seen.value
        yield call


def scores(task: Task, suite: Suite, calls: Iterable[PlannedCall], answer: Any = None) -> dict[str, float]:
    """What an agent scores that makes these calls, in this order, and gives the plan's answer, or another one."""
    environment, results = suite.open(task), dict[str, Any]()
    list(made(environment, calls, results))
    assert task.plan is not None
    if answer is None:
        answer = "not determined" if task.plan.answer is None else resolve(task.plan.answer, results)
    state = environment.state()
    environment.close()
    return scores_of(Judgement(task, answer, "finished", state))


@every_suite
@few
@given(size=st.integers(1, 12), seed=st.integers(-(2**40), 2**40))
def test_plans_give_the_expected_answers_for_any_size_and_seed(name: str, size: int, seed: int) -> None:
    assert task_problems(SOURCES[name].suite(size, seed)) == []


@every_suite
@few
@given(key=st.integers(0, 10_000))
def test_calls_that_do_not_need_each_other_may_be_made_in_any_order(name: str, key: int) -> None:
    suite, draw = suite_of(name), Draw(key)
    task = draw.choice(suite.tasks)
    assert task.plan is not None
    waiting, ordered = list(task.plan.calls), list[PlannedCall]()
    while waiting:
        done = {call.id for call in ordered}
        call = draw.choice([item for item in waiting if task.plan.dependencies[item.id] <= done])
        waiting.remove(call)
        ordered.append(call)
    assert scores(task, suite, ordered)["accuracy"] == 1


@every_suite
def test_only_tools_that_may_write_change_the_end_state(name: str) -> None:
    suite, changed = suite_of(name), set[str]()
    for task in suite.tasks[:FIRST]:
        with closing(suite.open(task)) as environment:
            assert {tool.name for tool in environment.tools if not tool.read_only} == WRITES.get(name, set())
            assert task.plan is not None
            before = environment.state()
            for call in made(environment, task.plan.calls, {}):
                changed |= {call.tool} if environment.state() != before else set()
                before = environment.state()
    assert changed <= WRITES.get(name, set())
    assert bool(changed) == (name in WRITES)


@every_suite
def test_each_change_is_needed(name: str) -> None:
    suite = suite_of(name)
    writing = {tool.name for tool in suite.open(suite.tasks[0]).tools if not tool.read_only}
    for task in suite.tasks[:FIRST]:
        assert task.plan is not None
        calls = task.plan.calls
        changes = [call for call in calls if call.tool in writing and not call.fails]
        if not changes or any(call.fails for call in calls):
            continue
        answer = planned_answer(task, run_sync(replay(task, suite)))
        assert scores(task, suite, (), answer)["state"] == 0
        last = changes[-1]
        assert scores(task, suite, calls, answer)["accuracy"] == 1
        assert scores(task, suite, [call for call in calls if call is not last], answer)["accuracy"] == 0


@every_suite
def test_two_trials_of_a_task_do_not_see_each_other(name: str) -> None:
    suite = suite_of(name)
    for task in suite.tasks[:FIRST]:
        world = copy.deepcopy(task.world)
        before = suite.open(task).state()
        assert task.plan is not None
        assert scores(task, suite, task.plan.calls)["accuracy"] == 1
        assert suite.open(task).state() == before
        assert task.world == world


@every_suite
def test_every_task_shows_the_same_tools_and_they_give_nothing_away(name: str) -> None:
    suite = suite_of(name)
    shown = {str([tool.spec for tool in suite.open(task).tools]) for task in suite.tasks[:FIRST]}
    assert len(shown) == 1
    tools = {tool.name for tool in suite.open(suite.tasks[0]).tools}
    planned = {call.tool for task in suite.tasks if task.plan for call in task.plan.calls}
    assert planned | suite.distractors == tools
    assert not planned & suite.distractors


@every_suite
def test_bad_arguments_are_refused_and_change_nothing(name: str) -> None:
    suite = suite_of(name)
    environment = suite.open(suite.tasks[0])
    before = environment.state()
    for tool in environment.tools:
        required = tool.parameters.get("required", [])
        for arguments in ({"no such argument": 1}, dict.fromkeys(required, None)):
            seen = run_sync(Toolbox(environment.tools).call(ToolCall(tool.name, arguments)))
            assert (seen.ok, seen.error_type) == (False, "InvalidArguments") or not required, (tool.name, seen)
    assert environment.state() == before


def test_the_global_generator_is_left_alone_and_hashing_plays_no_part(tmp_path: Path) -> None:
    """The hash seed of a fork was drawn."""
    random.seed(5)
    before = random.getstate()
    digest = arithmetic.load(size=12, seed=3).digest
    assert random.getstate() == before
    code = "from whichloop.datasets import arithmetic; print(arithmetic.load(size=12, seed=3).digest)"
    told = ran_in_fork(code, tmp_path)
    assert told.stdout.strip() == digest
