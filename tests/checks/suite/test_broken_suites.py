"""Suites that are broken in one way each, and the law that finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.checks.suite.shop import (
    NO_CALL,
    TOOLS,
    World,
    arguments,
    asked,
    changed,
    found,
    labelled,
    open_shop,
    order,
    orders,
    plan_of,
    price,
    shop,
    task,
    unanswerable,
)
from whichloop.checks.suite import quick_problems
from whichloop.datasets.task import Environment, Suite, Task, Toolset, WorldEnvironment
from whichloop.protocol import Plan, PlannedCall, Query, Ref

Broken = tuple[Suite, str, str]


def by_change(law: str, text: str, change: Callable[[Task], Task], *numbers: int) -> Broken:
    """Return the shop with some tasks changed, all where none is named."""
    return changed(change, *numbers), law, text


def by_more(law: str, text: str, *more: Task) -> Broken:
    """Return the shop with more tasks."""
    return shop(tasks=(*shop().tasks, *more)), law, text


def with_fields(**changes: Any) -> Callable[[Task], Task]:
    return lambda task: replace(task, **changes)


def with_plan(**changes: Any) -> Callable[[Task], Task]:
    return lambda task: plan_of(task, **changes)


def reworded(number: int) -> Task:
    query = Query(task(number).query.text.replace("lamps", "LAMPS 2"))
    return replace(task(number), id=f"copy-{number}", query=query, labels={"split": "x"})


def says_it(text: str) -> Callable[[Task], Task]:
    """Return what adds the answer to the question."""
    return lambda task: replace(task, query=Query(f"{task.query.text} {text.format(task.expected)}"), end_state=None)


AGAIN = replace(task(0), id="again")
BROKEN_FILES = (
    by_change("plans", "answers without any call", with_fields(plan=NO_CALL, expected=33), 1),
    by_change("goals", "'Order 3 lamps', stands in the question too", with_plan(goal="Order 3 lamps"), 0),
    by_change("schemas", "does not take the expected answer", asked(schema={"type": "string"}), 3),
    by_change("answers", "'many' is expected, and gets 0 from scorer numeric", with_fields(expected="many"), 3),
    by_change("answers", "an empty answer counts as right", with_fields(expected="", scorer="exact"), 3),
    by_change("unanswerable", "3 of 24 tasks have no answer", unanswerable, 1, 5, 9),
    by_change("splits", "tasks 'shop-00' (train) and 'shop-01' (dev) share one instance 'one'", labelled(instance="one")),
    by_more("splits", "tasks 'shop-00' (train) and 'again' (test) share one question", replace(AGAIN, labels={"split": "test"})),
    by_more("copies", "tasks 'shop-00' and 'again' ask the same of the same world, and want the same", AGAIN),
    by_more("near copies", "tasks are passed by the answer of a near copy in another split", *map(reworded, range(3))),
    by_change("arguments", "order: argument 'count': 'four' is not of type", arguments(count="four"), 4),
    by_change("arguments", "order: missing argument 'count'", with_plan(arguments={"item": "lamps", "unit_price": Ref("c1")}), 4),
    (shop(distractors=frozenset({"orders", "price"})), "tools", "'price' is named a distractor, and"),
    by_change("guessing", "same answer (always the suite's most frequent one) passes 12.5% of 24 tasks",
              with_fields(expected=7, end_state=None), 0, 4, 8),
    by_change("guessing", "do nothing (gives no answer) passes 12.5% of 24 tasks",
              with_fields(expected="", scorer="exact", end_state={"orders": []}), 0, 4, 8),
)  # fmt: skip


def stocked(**functions: Callable[..., Any]) -> Suite:
    """The shop with other tools, each a function of the world."""
    tools: Toolset[World] = Toolset(*(functions.get(function.__name__, function) for function in (price, order, orders)))
    return shop(
        open=lambda task: WorldEnvironment(
            tools.bound_to(world := World(task.world["prices"])), world, lambda it: {"orders": it.orders}
        )
    )


def forgetful_shop() -> Suite:
    """Orders of all trials land in one list."""
    book: list[dict[str, Any]] = []

    def open_again(task: Task) -> Environment:
        world = World(task.world["prices"])
        world.orders = book
        return WorldEnvironment(TOOLS.bound_to(world), world, lambda it: {"orders": it.orders})

    return shop(open=open_again)


def counting_shop() -> Suite:
    """Numbers orders over all trials, and keeps their state apart."""
    numbers = iter(range(10_000))

    def order_numbered(world: World, item: str, count: int, unit_price: int) -> dict[str, int]:
        """Place an order."""
        return {**order(world, item, count, unit_price), "number": next(numbers)}

    order_numbered.__name__ = "order"
    return stocked(order=order_numbered)


def told(what: Callable[[Task], str]) -> Suite:
    """A shop whose first tool tells of the task."""

    def open_telling(task: Task) -> Environment:
        environment = open_shop(task)
        first, *others = environment.tools
        return WorldEnvironment((replace(first, description=f"Price. {what(task)}"), *others), None, lambda _: environment.state())

    return shop(open=open_telling)


def price_and_more(world: World, item: str) -> dict[str, Any]:
    """Price of one piece."""
    return {**price(world, item), "hint": world.hint}


price_and_more.__name__ = "price"
TELLING: Toolset[World] = Toolset(price_and_more, order, orders)


def telling_results(task: Task) -> Environment:
    """Prices come with the answer."""
    world = World(dict(task.world["prices"]))
    world.hint = str(task.expected)
    return WorldEnvironment(TELLING.bound_to(world), world, lambda it: {"orders": it.orders})


def picky(task: Task) -> Environment:
    """Opens by the label that says which task it is."""
    return open_shop(BY_INSTANCE[task.labels["instance"]])


BY_INSTANCE = {one.labels["instance"]: one for one in map(task, range(24))}


def unordered(task: Task) -> Task:
    """Looks at the orders, and nothing says that the order must have been placed before."""
    assert task.plan is not None
    look = PlannedCall("c3", "orders", {}, "Look at all orders.")
    return replace(task, plan=Plan((*task.plan.calls, look), task.plan.answer))


def repeated(task: Task) -> Task:
    """Orders twice: once by the price that it found, once by the price itself, which is the same call."""
    assert task.plan is not None
    first, second = task.plan.calls
    again = replace(
        second,
        id="c3",
        goal="Order again.",
        arguments={**second.arguments, "unit_price": task.world["prices"][second.arguments["item"]]},
    )
    end_state = {"orders": 2 * task.end_state["orders"]}
    return replace(task, plan=Plan((first, second, again), task.plan.answer), end_state=end_state)


def free_lunch(world: World) -> int:
    """What is due for all orders that anyone will ever want."""
    return world.prices["secret"]


FREE: Toolset[World] = Toolset(free_lunch)


def gives_it_away(task: Task) -> Environment:
    return WorldEnvironment(FREE.bound_to(world := World({"secret": task.expected})), world)


FREE_CALL = Plan((PlannedCall("c1", "free_lunch", {}, "Ask."),), Ref("c1"))
FREE_TASKS = tuple(replace(one, end_state=None, plan=FREE_CALL) for one in shop().tasks)
STATE = """task 'shop-05': after the plan the state is {"orders":[{"count":8,"item":"mirrors"}]}, expected is {"orders":[]}"""
DESCRIBED = "the description of tool 'price' holds what a loop must not"
SHOWN = "of 24 tasks show their answer, a number, in the question, context or"
BROKEN_TOOLS = (
    by_change("replay", "task 'shop-05': the plan's answer is 368 (from call '",
              lambda task: replace(task, expected=task.expected + 1), 5),
    by_change("replay", STATE, with_fields(end_state={"orders": []}), 5),
    by_change("replay", "task 'shop-05', call 'c2': ValueError: 1 is not the price of", arguments(unit_price=1), 5),
    by_change("replay", "task 'shop-05': KeyError", with_fields(world={}), 5),
    by_change("receipts", "task 'shop-05': calls 'c2' and 'c3' have the same receipt", repeated, 5),
    by_change("order", "task 'shop-05', call 'c3'", unordered, 5),
    (forgetful_shop(), "replay", "task 'shop-01': after the plan the state is"),
    (counting_shop(), "state", "task 'shop-00', call 'c2'"),
    (told(lambda task: str(task.expected)), "gold", DESCRIBED),
    (shop(open=telling_results), "gold", "the result of call 'c1' holds what a loop must not see"),
    by_change("gold", f"3 {SHOWN}", says_it("It is {}, within 3 days."), 0, 4, 8),
    (shop(open=picky), "gold", "it cannot be opened by its world alone (KeyError"),
    (shop(open=gives_it_away, distractors=frozenset(), tasks=FREE_TASKS), "guessing",
     "random calls (answers with the last result) passes 100.0% of 24 tasks"),
    by_change("guessing", "blind (sees no result) passes 12.5% of 24 tasks",
              lambda task: replace(task, plan=Plan((), task.expected), end_state=None), 0, 4, 8),
)  # fmt: skip


def params(*suites: Broken) -> list[Any]:
    return [pytest.param(*broken, id=f"{broken[1]}-{place}") for place, broken in enumerate(suites)]


@pytest.mark.parametrize(("suite", "name", "text"), params(*BROKEN_FILES))
def test_what_shows_without_calling_a_tool_is_found_without_them(suite: Suite, name: str, text: str) -> None:
    finding = found(suite, name, run_tools=False)
    assert finding.status == "failed"
    assert any(text in problem for problem in finding.problems), finding.problems
    quick = [line for line in quick_problems(suite, suite.tasks) if line.startswith(f"{name}: ")]
    assert len(quick) == 1, quick


@pytest.mark.parametrize(("suite", "name", "text"), params(*BROKEN_TOOLS))
def test_what_shows_when_tools_are_called_is_found(suite: Suite, name: str, text: str) -> None:
    finding = found(suite, name)
    assert finding.status == "failed"
    assert any(text in problem for problem in finding.problems), finding.problems


def test_a_state_that_one_trial_leaves_to_the_next_is_found_where_answers_alone_are_judged() -> None:
    shared = forgetful_shop()
    answers_only = replace(shared, tasks=tuple(replace(one, end_state=None) for one in shared.tasks))
    finding = found(answers_only, "state")
    assert finding.status == "failed"
    assert any("what a trial does shows in the state of one beside it" in problem for problem in finding.problems)
