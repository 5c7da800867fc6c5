"""A sound suite passes; warnings, quarantine, samples and permissions; the built-in suites."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.checks.suite.shop import NAMES, NO_CALL, changed, found, labelled, not_ok, shop
from tests.checks.suite.test_broken_suites import by_change, with_fields
from whichloop.checks.suite import check_suite, quick_problems, sampled, task_problems
from whichloop.datasets.task import BY_CONSTRUCTION, Environment, Suite, Task, WorldEnvironment
from whichloop.protocol import Query, Tool
from whichloop.runs.registry import generated_suites


def test_a_sound_suite_passes_every_check() -> None:
    checked = check_suite(shop())
    assert not_ok(checked) == {}
    assert checked.ok
    assert [finding.law for finding in checked.findings] == NAMES
    assert quick_problems(shop(), shop().tasks) == ()
    assert task_problems(shop()) == []
    shares = {passed.baseline.name: passed.share.value for passed in checked.baselines if passed.share}
    assert shares.pop("oracle") == 1.0
    assert max(shares.values()) <= 1 / 24


def asks_for_a_choice(task: Task) -> Task:
    """Return a task whose answer is a text that the question has."""
    names = task.world["prices"]
    query = Query(f"{task.query.text} Which comes first: {', '.join(names)}?")
    return replace(task, expected=min(names), scorer="exact", plan=None, no_plan="a choice", end_state=None, query=query)


WARNINGS = (
    (shop(distractors=frozenset()), "tools", "tool 'orders' is used by no plan"),
    by_change("set aside", "2 × quarantined: the price is unclear", with_fields(quarantined="the price is unclear"), 3, 4),
    by_change("gold", "3 of 24 tasks show their answer, a text, in", asks_for_a_choice, 0, 4, 8),
    by_change("set aside", "1 × without a plan: no one knows (shop-03)", with_fields(plan=None, no_plan="no one knows"), 3),
    by_change(
        "by construction", "2 × no call yields it (shop-03, shop-05)", labelled(**{BY_CONSTRUCTION: "no call yields it"}), 3, 5
    ),
)


@pytest.mark.parametrize(("suite", "name", "text"), WARNINGS)
def test_a_warning_fails_nothing(suite: Suite, name: str, text: str) -> None:
    finding = found(suite, name)
    assert finding.status == "warning"
    assert text in finding.problems[0]
    assert not any(line.startswith(name) for line in quick_problems(suite, suite.tasks))


def test_quarantined_tasks_are_in_no_other_check() -> None:
    bad = changed(lambda task: replace(task, quarantined="bad", expected="many", plan=NO_CALL, scorer="none", world={}), 3, 7)
    assert not_ok(check_suite(bad)) == {"set aside": "warning"}
    assert quick_problems(bad, bad.tasks) == ()
    assert task_problems(bad) == []
    none_left = changed(lambda task: replace(task, quarantined="bad"))
    assert set(not_ok(check_suite(none_left)).values()) == {"not run", "warning"}
    assert quick_problems(none_left, none_left.tasks) == ()
    assert task_problems(none_left) == []


def watched(suite: Suite, called: list[str]) -> Suite:
    """The suite, whose calls are noted down by their tasks."""

    def open_watched(task: Task) -> Environment:
        environment = suite.open(task)

        def noting(tool: Tool) -> Tool:
            def noted(**given: Any) -> Any:
                called.append(task.id)
                return tool.function(**given)

            return replace(tool, function=noted)

        return WorldEnvironment(tuple(map(noting, environment.tools)), None, lambda _: environment.state())

    return replace(suite, open=open_watched)


def test_a_sample_is_called_and_no_other_task() -> None:
    called: list[str] = []
    checked = check_suite(watched(shop(), called), tasks=5)
    assert checked.ok
    assert checked.sample == len(set(called)) == 5
    assert set(called) == {one.id for one in sampled(shop().tasks, 5)}
    with pytest.raises(ValueError, match="tasks is 0, and must be at least 1"):
        check_suite(shop(), tasks=0)


def test_without_permission_no_tool_is_called() -> None:
    called: list[str] = []
    suite = watched(shop(), called)
    checked = check_suite(suite, run_tools=False)
    left_out = [finding for finding in checked.findings if finding.status == "not run"]
    assert [finding.law for finding in left_out] == ["replay", "receipts", "order", "state"]
    assert all("--run-tools" in finding.problems[0] for finding in left_out)
    assert {passed.baseline.name for passed in checked.baselines} == {"do nothing", "same answer", "not determined", "echo"}
    quick_problems(suite, suite.tasks)
    assert called == []


SOURCES = generated_suites()
SAMPLED = ("arithmetic", "ecommerce")
"""Suites that are checked in each run of the tests: one without a state, one with a database."""


@pytest.mark.parametrize("name", SAMPLED)
def test_a_built_in_suite_passes_on_a_sample(name: str) -> None:
    """A third of its tasks have all its kinds of them: whoever answers blindly goes through all that there are."""
    assert not_ok(check_suite(SOURCES[name].suite(36), tasks=5)) == {}
    suite = SOURCES[name].suite()
    assert quick_problems(suite, suite.tasks) == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SOURCES))
def test_a_built_in_suite_passes(name: str) -> None:
    assert not_ok(check_suite(SOURCES[name].suite())) == {}
