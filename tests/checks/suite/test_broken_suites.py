"""Every way of breaking a suite is found by the check that it concerns."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.checks.suite.broken_suites import (
    BROKEN_FILES,
    BROKEN_TOOLS,
    Broken,
    counting_shop,
    forgetful_shop,
    ordered,
    with_two_orders,
)
from tests.checks.suite.shop import changed, found
from whichloop.checks.suite import quick_problems, task_problems
from whichloop.datasets.task import Environment, Suite, Task


def params(*suites: Broken) -> list[Any]:
    return [pytest.param(*broken, id=f"{broken[1]}-{place}") for place, broken in enumerate(suites)]


@pytest.mark.parametrize(("suite", "name", "text"), params(*BROKEN_FILES))
def test_what_shows_without_calling_a_tool_is_found_with_and_without_them(suite: Suite, name: str, text: str) -> None:
    for run_tools in (True, False):
        finding = found(suite, name, run_tools=run_tools)
        assert finding.status == "failed"
        assert any(text in problem for problem in finding.problems), finding.problems
    quick = [line for line in quick_problems(suite, suite.tasks) if line.startswith(f"{name}: ")]
    assert len(quick) == 1, quick


@pytest.mark.parametrize(("suite", "name", "text"), params(*BROKEN_TOOLS))
def test_what_shows_when_tools_are_called_is_found(suite: Suite, name: str, text: str) -> None:
    finding = found(suite, name)
    assert finding.status == "failed"
    assert any(text in problem for problem in finding.problems), finding.problems


def test_what_code_of_the_suite_raises_is_told_with_its_line() -> None:
    def opens(task: Task) -> Environment:
        raise ValueError("closed")

    finding = found(replace(changed(ordered), open=opens), "arguments")
    (problem,) = finding.problems
    assert re.fullmatch(r"the suite raised ValueError: closed at (.*/)?test_broken_suites\.py:\d+", problem)


OF_TASKS = {"json", "plans", "goals", "schemas", "answers", "unanswerable", "arguments", "replay", "receipts"}


FIRST = {broken[1]: broken for broken in reversed([*BROKEN_FILES, *BROKEN_TOOLS])}
"""Law → the first suite that it finds broken."""


@pytest.mark.parametrize(("suite", "name", "text"), params(*FIRST.values()))
def test_what_single_tasks_show_is_told_by_itself(suite: Suite, name: str, text: str) -> None:
    assert any(text in problem for problem in task_problems(suite)) == (name in OF_TASKS)


def test_of_what_single_tasks_show_twenty_problems_of_a_check_are_told() -> None:
    assert len(task_problems(changed(lambda task: replace(task, expected=task.expected + 1)))) == 20


def test_an_order_that_is_said_is_kept() -> None:
    assert found(changed(ordered), "order").status == "ok"


def test_a_state_that_one_trial_leaves_to_the_next_is_found_where_answers_alone_are_judged() -> None:
    shared = forgetful_shop()
    answers_only = replace(shared, tasks=tuple(replace(one, end_state=None) for one in shared.tasks))
    finding = found(answers_only, "state")
    assert finding.status == "failed"
    assert any("what a trial does shows in the state of one beside it" in problem for problem in finding.problems)


def test_results_that_are_others_each_time_are_a_matter_of_state_and_of_no_other_check() -> None:
    """A number that all trials share comes out another whoever asks and in whatever order."""
    numbered = counting_shop()
    assert found(numbered, "state").status == "failed"
    assert found(numbered, "gold").status == "ok"
    two = replace(numbered, tasks=tuple(map(with_two_orders, numbered.tasks)))
    assert found(two, "order").status == "ok"
    assert found(two, "state").status == "failed"
