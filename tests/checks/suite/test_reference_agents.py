"""The agents that are held against suites: what each does, and what it may pass."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.checks.suite import reference_agents as agents
from whichloop.checks.suite.reference_agents import NOBODY, ORACLE, baselines, bench, passed, trial
from whichloop.datasets import arithmetic
from whichloop.datasets.task import Suite
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import Interval, wilson
from whichloop.protocol import Loop, Query, Toolbox, run_sync

TASKS = arithmetic.load(24).tasks


def run(loop: Loop, tools: Toolbox, text: str = "What?") -> Any:
    return asyncio.run(loop.run(Query(text), tools, NOBODY))


def records(name: str, suite: Suite) -> list[Record]:
    chosen = next(one for one in (ORACLE, *baselines(suite.tasks)) if one.name == name)
    setting = bench(suite, suite.tasks)
    return [run_sync(trial(chosen, task, setting)).record for task in suite.tasks]


def test_the_oracle_solves_every_task_and_asks_nobody() -> None:
    found = records("oracle", arithmetic.load(24))
    assert [record.accuracy for record in found] == [1.0] * 24
    assert {record.lm_calls for record in found} == {0}
    planned = [len(task.plan.calls) for task in TASKS if task.plan is not None]
    assert [record.tool_calls for record in found] == planned


def test_a_blind_agent_makes_the_planned_calls_and_knows_nothing() -> None:
    found = records("blind", arithmetic.load(24))
    assert sum(record.accuracy for record in found) == 0
    assert {record.status for record in found} == {"scored"}
    assert all(record.tool_calls >= 3 and record.lm_calls == 3 for record in found)


def test_tasks_without_a_plan_and_quarantined_ones_are_not_scored_and_counted() -> None:
    bare = replace(TASKS[0], plan=None, no_plan="nobody wrote one")
    suite = replace(arithmetic.load(3), tasks=(bare, replace(TASKS[1], quarantined="bad"), TASKS[2]))
    setting = bench(suite, suite.tasks)
    blind = baselines(suite.tasks)[0]
    found = passed(blind, [run_sync(trial(blind, task, setting)).record for task in suite.tasks])
    assert found.share is not None
    assert found.share.n == 1
    assert found.not_scored == (
        "task 'arithmetic-0001': excluded: no plan: nobody wrote one",
        "task 'arithmetic-0002': excluded: quarantined: bad",
    )
    assert passed(blind, []).share is None


def share(count: int, n: int) -> Interval:
    return Interval(count / n, *wilson(count, n), n)


@given(st.integers(1, 2_000), st.data())
def test_more_passed_tasks_are_never_better(n: int, data: Any) -> None:
    few, many = sorted(data.draw(st.lists(st.integers(0, n), min_size=2, max_size=2)))
    nothing = agents.without_calls(TASKS)[0]
    worse, better = (agents.BaselineResult(nothing, share(count, n)).is_too_many for count in (many, few))
    assert worse or not better


@pytest.mark.parametrize(
    ("count", "n", "wrong", "drawn"),
    [
        (10, 120, False, False),  # 8.3 %: not surely above 5 %
        (13, 120, True, False),  # above 10 %
        (70, 1_000, True, False),  # 7 %, and surely above 5 %
        (1, 3, False, False),  # one task is no share
        (3, 24, False, True),  # in a sample only what is sure counts
        (8, 24, True, True),
    ],
)
def test_passes_are_too_many_only_where_their_interval_says_so(count: int, n: int, wrong: bool, drawn: bool) -> None:
    assert agents.BaselineResult(agents.without_calls(TASKS)[0], share(count, n), drawn=drawn).is_too_many is wrong
