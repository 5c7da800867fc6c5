"""Suites that are broken in one way each, with the check that must find it and a part of what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.checks.suite.shop import (
    NO_CALL,
    TOOLS,
    World,
    arguments,
    asked,
    changed,
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
from whichloop.datasets.task import Environment, Suite, Task, Toolset, WorldEnvironment
from whichloop.protocol import Plan, PlannedCall, Query, Ref

BROKEN_FILES: dict[str, tuple[Suite, str, str]] = {
    "a number that is none": (changed(labelled(weight=float("nan")), 2), "json", "task 'shop-02' is not JSON"),
    "a plan without calls": (
        changed(lambda task: replace(task, plan=NO_CALL, expected=33), 1),
        "plans",
        "answers without any call",
    ),
    "a plan and a reason for none": (changed(lambda task: replace(task, no_plan="why"), 1), "plans", "and not both"),
    "a goal that is asked": (
        changed(lambda task: plan_of(task, goal="Order 3 lamps"), 0),
        "goals",
        "'Order 3 lamps', stands in the question too",
    ),
    "a schema that is none": (changed(asked(schema={"minimum": "nonsense"}), 3), "schemas", "the answer's schema is none"),
    "an answer that its schema refuses": (
        changed(asked(schema={"type": "string"}), 3),
        "schemas",
        "does not take the expected answer",
    ),
    "a scorer that there is not": (changed(lambda task: replace(task, scorer="nmeric"), 3), "answers", "unknown scorer 'nmeric'"),
    "an answer that is wrong by its scorer": (
        changed(lambda task: replace(task, expected="many"), 3),
        "answers",
        "'many' is expected, and gets 0 from scorer numeric",
    ),
    "an answer that is empty": (
        changed(lambda task: replace(task, expected="", scorer="exact"), 3),
        "answers",
        "an empty answer counts as right",
    ),
    "too many tasks without answer": (changed(unanswerable, 1, 5, 9), "unanswerable", "3 of 24 tasks have no answer"),
    "an instance in two splits": (
        changed(labelled(instance="one")),
        "splits",
        "tasks 'shop-00' (train) and 'shop-01' (dev) share one instance 'one'",
    ),
    "a question in two splits": (
        shop(tasks=(*shop().tasks, replace(task(0), id="again", labels={"split": "test"}))),
        "splits",
        "tasks 'shop-00' (train) and 'again' (test) share one question",
    ),
    "a task that stands twice": (
        shop(tasks=(*shop().tasks, replace(task(0), id="again"))),
        "copies",
        "tasks 'shop-00' and 'again' ask the same of the same world, and want the same",
    ),
    "a task with two answers": (
        shop(tasks=(*shop().tasks, replace(task(0), id="again", expected=1))),
        "copies",
        "want two different answers",
    ),
    "near copies across splits": (
        shop(
            tasks=(
                *shop().tasks,
                *(
                    replace(
                        task(number),
                        id=f"copy-{number}",
                        query=Query(task(number).query.text.replace("lamps", "LAMPS 2")),
                        labels={"split": "x"},
                    )
                    for number in range(3)
                ),
            )
        ),
        "near copies",
        "tasks are passed by the answer of a near copy in another split",
    ),
    "an argument that a tool does not know": (changed(arguments(colour="red"), 4), "arguments", "order: unknown argument 'colour'"),
    "an argument of another type": (
        changed(arguments(count="four"), 4),
        "arguments",
        "order: argument 'count': 'four' is not of type",
    ),
    "an argument that is missing": (
        changed(lambda task: plan_of(task, arguments={"item": "lamps", "unit_price": Ref("c1")}), 4),
        "arguments",
        "order: missing argument 'count'",
    ),
    "a tool that there is not": (
        changed(lambda task: plan_of(task, tool="pay"), 4),
        "arguments",
        "no tool 'pay'; there are price, ",
    ),
    "an alternative that does not fit": (
        changed(lambda task: plan_of(task, alternatives=(PlannedCall("c2", "price", {}, "Or so."),)), 4),
        "arguments",
        "price: missing argument 'item'",
    ),
    "a distractor that a plan needs": (
        shop(distractors=frozenset({"orders", "price"})),
        "tools",
        "'price' is named a distractor, and",
    ),
    "a distractor that is no tool": (shop(distractors=frozenset({"orders", "sing"})), "tools", "'sing' is not a tool of the suite"),
    "one answer for many tasks": (
        changed(lambda task: replace(task, expected=7, end_state=None), 0, 4, 8),
        "guessing",
        "same answer (always the suite's most frequent one) passes 12.5% of 24 tasks",
    ),
    "a question that ends in its answer": (
        changed(lambda task: replace(task, query=Query(f"{task.query.text} {task.expected}"), end_state=None), 0, 4, 8),
        "guessing",
        "echo (answers with the question) passes 12.5% of 24 tasks",
    ),
    "nothing to do": (
        changed(lambda task: replace(task, expected="", scorer="exact", end_state={"orders": []}), 0, 4, 8),
        "guessing",
        "do nothing (gives no answer) passes 12.5% of 24 tasks",
    ),
}


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
    count = iter(range(10_000))

    def order_numbered(world: World, item: str, count: int, unit_price: int) -> dict[str, int]:
        """Place an order."""
        return {**order(world, item, count, unit_price), "number": next(numbers)}

    numbers = count
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


def ordered(task: Task) -> Task:
    changed = unordered(task)
    assert changed.plan is not None
    *first, look = changed.plan.calls
    return replace(changed, plan=Plan((*first, replace(look, after=("c2",))), changed.plan.answer))


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


BROKEN_TOOLS: dict[str, tuple[Suite, str, str]] = {
    "a wrong answer": (
        changed(lambda task: replace(task, expected=task.expected + 1), 5),
        "replay",
        "task 'shop-05': the plan's answer is 368 (from call '",
    ),
    "a wrong end state": (
        changed(lambda task: replace(task, end_state={"orders": []}), 5),
        "replay",
        """task 'shop-05': after the plan the state is {"orders":[{"count":8,"item":"mirrors"}]}, expected is {"orders":[]}""",
    ),
    "a call that fails": (
        changed(arguments(unit_price=1), 5),
        "replay",
        "task 'shop-05', call 'c2': ValueError: 1 is not the price of",
    ),
    "an environment that cannot be opened": (
        changed(lambda task: replace(task, world={}), 5),
        "replay",
        "task 'shop-05': KeyError",
    ),
    "the same call twice": (changed(repeated, 5), "receipts", "task 'shop-05': calls 'c2' and 'c3' have the same receipt"),
    "an order that is not said": (changed(unordered, 5), "order", "task 'shop-05', call 'c3'"),
    "a state that all trials share": (forgetful_shop(), "replay", "task 'shop-01': after the plan the state is"),
    "a number that all trials share": (counting_shop(), "state", "task 'shop-00', call 'c2'"),
    "the answer in a description": (
        told(lambda task: str(task.expected)),
        "gold",
        "the description of tool 'price' holds what a loop must",
    ),
    "the plan in a description": (
        told(lambda task: str(task.plan)),
        "gold",
        "the description of tool 'price' holds what a loop must not",
    ),
    "a label in a description": (
        told(lambda task: f"{task.labels}"),
        "gold",
        "the description of tool 'price' holds what a loop must not",
    ),
    "the scorer in a description": (
        told(lambda task: task.scorer),
        "gold",
        "the description of tool 'price' holds what a loop must not",
    ),
    "the answer in a result": (shop(open=telling_results), "gold", "the result of call 'c1' holds what a loop must not see"),
    "the answer in the middle of the question": (
        changed(lambda task: replace(task, query=Query(f"{task.query.text} It is {task.expected}, within 3 days.")), 0, 4, 8),
        "gold",
        "3 of 24 tasks show their answer, a number, in the question, context or",
    ),
    "the answer in a description, from the world": (
        replace(
            changed(lambda task: replace(task, world={**task.world, "due": task.expected})),
            open=told(lambda task: f"{task.world['due']:,}").open,
        ),
        "gold",
        "24 of 24 tasks show their answer, a number, in the question, context or",
    ),
    "an environment made of labels": (shop(open=picky), "gold", "it cannot be opened by its world alone (KeyError"),
    "calls at random": (
        shop(
            open=gives_it_away,
            distractors=frozenset(),
            tasks=tuple(
                replace(one, end_state=None, plan=Plan((PlannedCall("c1", "free_lunch", {}, "Ask."),), Ref("c1")))
                for one in shop().tasks
            ),
        ),
        "guessing",
        "random calls (answers with the last result) passes 100.0% of 24 tasks",
    ),
    "no call at all": (
        changed(lambda task: replace(task, plan=Plan((), task.expected), end_state=None), 0, 4, 8),
        "guessing",
        "blind (sees no result) passes 12.5% of 24 tasks",
    ),
}


def with_two_orders(task: Task) -> Task:
    """Orders twice, in any order."""
    assert task.plan is not None
    first, second = task.plan.calls
    more = replace(second, id="c3", goal="Order more.", arguments={**second.arguments, "count": 99})
    return replace(task, plan=Plan((first, second, more), task.plan.answer), end_state=None)
