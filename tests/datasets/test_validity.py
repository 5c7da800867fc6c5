"""The oracle, and what makes a single task wrong: each fault is found, and named."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from whichloop.checks.suite import task_problems
from whichloop.datasets import calculator
from whichloop.datasets.task import StatelessEnvironment, Suite, Task, Toolset, WorldEnvironment
from whichloop.datasets.validity import Replayed, planned_answer, replay
from whichloop.datasets.validity.replay import same
from whichloop.protocol import Plan, PlannedCall, Query, Ref, run_sync


def planned(name: str, tool: str, goal: str = "", **rest: Any) -> PlannedCall:
    options = {key: rest.pop(key) for key in ("fails", "alternatives") if key in rest}
    return PlannedCall(name, tool, rest, goal or f"Goal of {name}.", **options)


def task(*calls: PlannedCall, answer: Any = None, expected: Any = None, text: str = "How many?", **rest: Any) -> Task:
    return Task("t", Query(text), expected, plan=Plan(calls, answer), **rest)


def suite(*tasks: Task) -> Suite:
    return Suite("s", "1", tasks, lambda _: StatelessEnvironment(calculator.TOOLS))


GOOD = task(
    planned("c1", "add", a=2, b=3),
    planned("c2", "subtract", a=Ref("c1"), b=5),
    planned("c3", "divide", a=1, b=Ref("c2"), fails=True),
    planned("c4", "multiply", a=Ref("c1"), b=2.5),
    answer=Ref("c4"),
    expected=12.5,
)


def test_replay_gives_what_a_loop_would_see() -> None:
    assert run_sync(replay(GOOD, suite(GOOD))) == (
        Replayed("c1", "add", {"a": 2, "b": 3}, "5", 5, False),
        Replayed("c2", "subtract", {"a": 5, "b": 5}, "0", 0, False),
        Replayed("c3", "divide", {"a": 1, "b": 0}, "division by zero: 1 / 0 has no value", None, True),
        Replayed("c4", "multiply", {"a": 5, "b": 2.5}, "12.5", 12.5, False),
    )
    assert task_problems(suite(GOOD)) == []


def put(cart: list[str], item: str) -> dict[str, Any]:
    """Put an item into the cart."""
    if item == "nothing":
        raise ValueError("no such item")
    cart.append(item)
    return {"cart": list(cart)}


def test_each_replay_has_an_environment_of_its_own_and_closes_it() -> None:
    opened, closed = list[list[str]](), list[list[str]]()
    tools: Toolset[list[str]] = Toolset(put)

    def open_shop(of: Task) -> WorldEnvironment[list[str]]:
        opened.append([])
        return WorldEnvironment(tools.bound_to(opened[-1]), opened[-1], end=closed.append)

    good = task(planned("c1", "put", item="tea"), planned("c2", "put", item=Ref("c1", ("cart", 0))), answer=Ref("c2", ("cart",)))
    shop = Suite("shop", "1", (good,), open_shop)
    first, second = run_sync(replay(good, shop)), run_sync(replay(good, shop))
    assert first == second
    assert planned_answer(good, first) == ["tea", "tea"]
    with pytest.raises(ValueError, match="task 't', call 'c1': ValueError: no such item"):
        run_sync(replay(task(planned("c1", "put", item="nothing")), shop))
    assert opened == closed == [["tea", "tea"], ["tea", "tea"], []]


ONE = planned("c1", "add", a=2, b=3)


def problems_of(broken: Task) -> list[str]:
    """Beside good tasks, so that an unanswerable one is not over the limit."""
    others = [replace(GOOD, id=f"g{index}") for index in range(9)]
    return task_problems(suite(broken, *others))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            task(planned("c1", "add", a=1, b=1, alternatives=(planned("c1", "fly"),)), expected=2, answer=2),
            "task 't', call 'c1': no tool 'fly'",
        ),
        (task(planned("c1", "divide", a=1, b=0), expected=None), "task 't', call 'c1': ZeroDivisionError: division by zero"),
        (
            task(planned("c1", "add", a=1, b=1, fails=True), expected=None),
            "task 't', call 'c1': the plan expects an error, the result is 2",
        ),
        (
            task(planned("c1", "divide", a=1, b=0, fails=True), planned("c2", "add", a=Ref("c1"), b=1), expected=None),
            "task 't', call 'c2': it refers to c1, a call that gave no result",
        ),
        (
            task(ONE, answer=Ref("c1", ("sum",)), expected=2),
            "task 't': the answer refers to c1['sum'], which is not in the result 5",
        ),
        (Task("t", Query("q"), 5, no_plan=""), "task 't' has no plan: and no reason is given"),
    ],
)
def test_what_cannot_be_replayed_says_where(broken: Task, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        planned_answer(broken, run_sync(replay(broken, suite(broken))))
    if broken.plan is not None:
        assert any(problem.startswith(message) for problem in problems_of(broken))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (task(ONE, answer=Ref("c1"), expected=6), "the plan's answer is 5 (from call 'c1'), expected is 6"),
        (task(ONE, answer=Ref("c1"), expected=None), "expected is None: None belongs to None"),
        (task(ONE, planned("c2", "add", a=2.0, b=3.0), answer=Ref("c1"), expected=5), "calls 'c1' and 'c2' have the same receipt"),
        (
            task(ONE, planned("c2", "add", a=Ref("c1"), b=1), planned("c3", "add", a=5, b=1), answer=Ref("c2"), expected=6),
            "calls 'c2' and 'c3' have the same receipt",
        ),
        (
            task(ONE, planned("c2", "add", a=4, b=4, alternatives=(planned("c2", "add", a=2, b=3),)), answer=Ref("c1"), expected=5),
            "calls 'c1' and 'c2' have the same receipt",
        ),
        (
            task(planned("c1", "add", "How many", a=1, b=2), answer=Ref("c1"), expected=3),
            "the goal of call 'c1', 'How many', stands in the question too",
        ),
        (
            replace(GOOD, query=Query("How many?", "First reach the Goal of c2. Then go on.")),
            "the goal of call 'c2', 'Goal of c2.', stands in the context too",
        ),
        (
            task(planned("c1", "add", "Sum", a=1, b=2), planned("c2", "add", "Sum up", a=2, b=2), answer=Ref("c1"), expected=3),
            "the goal of call 'c1', 'Sum', stands in the goal of call 'c2' too",
        ),
    ],
)
def test_each_fault_is_named(broken: Task, message: str) -> None:
    broken = replace(broken, id="t")
    assert [problem for problem in problems_of(broken) if message in problem and problem.startswith("task 't': ")]


@pytest.mark.parametrize(
    ("one", "other", "expected"), [(3, 3.0, True), (1, True, False), ([1, {"a": 2.0}], (1, {"a": 2}), True), ([1, 2], [1], False)]
)
def test_which_values_count_as_the_same(one: Any, other: Any, expected: bool) -> None:
    assert same(one, other) is expected
