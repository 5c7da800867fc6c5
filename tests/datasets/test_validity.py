"""The oracle, and what makes a single task wrong: each fault is found, and named."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from whichloop.checks.suite import task_problems
from whichloop.datasets import calculator
from whichloop.datasets.task import StatelessEnvironment, Suite, Task, Toolset, WorldEnvironment
from whichloop.datasets.validity import Replayed, planned_answer, replay
from whichloop.datasets.validity.replay import same
from whichloop.protocol import Plan, PlannedCall, Query, Ref, Tool, run_sync


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


FILLED_ELSEWHERE, FILLED_HERE = threading.local(), threading.local()
RATES: dict[str, float] = {"eur": 2.0}
FILLED_ELSEWHERE.rates = RATES


def rate(currency: str) -> float:
    """Rate of a currency."""
    return float(FILLED_ELSEWHERE.rates[currency])


def own_rate(currency: str) -> float:
    """Rate of a currency."""
    if not hasattr(FILLED_HERE, "rates"):
        FILLED_HERE.rates = RATES
    return float(FILLED_HERE.rates[currency])


def test_state_that_only_the_thread_of_the_module_has_is_told_with_its_cure() -> None:
    tools = StatelessEnvironment((Tool.from_function(rate), Tool.from_function(own_rate)))
    broken, good = (task(planned("c1", name, currency="eur"), expected=2.0, answer=Ref("c1")) for name in ("rate", "own_rate"))
    shop = Suite("s", "1", (good,), lambda _: tools)
    assert run_sync(replay(good, shop))[0].value == 2.0
    cure = "a threading.local is empty on the threads that tools run on; keep its content in a plain variable"
    with pytest.raises(ValueError, match=f"AttributeError: {cure} .*no attribute 'rates'"):
        run_sync(replay(broken, shop))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (task(planned("c1", "fly"), expected=None), "task 't', call 'c1': no tool 'fly'; there are add, "),
        (
            task(planned("c1", "add", a=1, b=1, alternatives=(planned("c1", "fly"),)), expected=2, answer=2),
            "task 't', call 'c1': no tool 'fly'",
        ),
        (task(planned("c1", "divide", a=1, b=0), expected=None), "task 't', call 'c1': ZeroDivisionError: division by zero"),
        (task(planned("c1", "add", a="x", b=0), expected=None), "task 't', call 'c1': InvalidArguments: Tool 'add'"),
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
        (task(ONE, answer="Five.", expected="five"), "the plan's answer is 'Five.', expected is 'five'"),
        (task(ONE, answer=Ref("c1"), expected=None), "expected is None: None belongs to None"),
        (task(ONE, answer=None, expected=5), "the plan's answer is None, expected is 5: None belongs to None"),
        (task(ONE, planned("c2", "add", a=2.0, b=3.0), answer=Ref("c1"), expected=5), "calls 'c1' and 'c2' have the same receipt"),
        (
            task(ONE, planned("c2", "add", a=Ref("c1"), b=1), planned("c3", "add", a=5, b=1), answer=Ref("c2"), expected=6),
            "calls 'c2' and 'c3' have the same receipt",
        ),
        (
            task(ONE, planned("c2", "add", a=4, b=4, alternatives=(planned("c2", "add", a=2, b=3),)), answer=Ref("c1"), expected=5),
            "calls 'c1' and 'c2' have the same receipt",
        ),
        (task(planned("c1", "add", " ", a=1, b=2), answer=Ref("c1"), expected=3), "the goal of call 'c1' is empty"),
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
        (Task("t", Query("q"), 5), "a task has a plan, or a reason in `no_plan`, and not both"),
    ],
)
def test_each_fault_is_named(broken: Task, message: str) -> None:
    broken = replace(broken, id="t")
    assert [problem for problem in problems_of(broken) if message in problem and problem.startswith("task 't': ")]


def size(of: Any) -> int:
    """How many."""
    return len(of)


@pytest.mark.parametrize("nested", [lambda number: [number], lambda number: {"of": [1, number]}])
def test_equal_numbers_make_equal_calls_at_any_depth(nested: Callable[[float], Any]) -> None:
    def twice(first: float, second: float) -> list[str]:
        calls = planned("c1", "size", of=nested(first)), planned("c2", "size", of=nested(second))
        sized = task(*calls, answer=Ref("c1"), expected=len(nested(first)))
        return task_problems(Suite("s", "1", (sized,), lambda _: StatelessEnvironment((Tool.from_function(size),))))

    assert len(twice(3, 3.0)) == 1
    assert twice(3, 3.5) == []


def test_too_many_tasks_without_an_answer_are_a_problem() -> None:
    def mixed(unanswerable: int) -> Suite:
        answers = [(None, None)] * unanswerable + [(5, Ref("c1"))] * (20 - unanswerable)
        rows = [replace(task(ONE, answer=answer, expected=expected), id=f"t{n}") for n, (expected, answer) in enumerate(answers)]
        return suite(*rows)

    assert task_problems(mixed(2)) == []
    assert task_problems(mixed(3)) == ["3 of 20 tasks have no answer: doing nothing would score 15%, at most 10% is right"]


def test_quarantined_tasks_and_tasks_without_a_plan_are_left_alone() -> None:
    away = task(planned("c1", "fly"), answer=1, expected=1, quarantined="broken")
    assert task_problems(suite(away)) == []
    reasoned = Task("t", Query("q"), 5, no_plan="no annotation")
    assert task_problems(suite(reasoned)) == []
    with pytest.raises(ValueError, match="task 't' has no plan: no annotation"):
        run_sync(replay(reasoned, suite(reasoned)))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (3, 3.0, True),
        (0.1 + 0.2, 0.3, True),
        (3, 3.1, False),
        (1, True, False),
        ("3", 3, False),
        (10**400, 1.5, False),
        ([1, {"a": 2.0}], (1, {"a": 2}), True),
        ([1, 2], [1], False),
        ({"a": 1}, {"b": 1}, False),
    ],
)
def test_which_values_count_as_the_same(one: Any, other: Any, expected: bool) -> None:
    assert same(one, other) is expected
