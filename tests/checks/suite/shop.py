"""A sound suite, a shop with prices and orders, and helpers that change its tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from whichloop.checks.shared.law import Finding
from whichloop.checks.suite import CHECKS, Checked, check, check_suite
from whichloop.datasets.task import Environment, Suite, Task, Toolset, WorldEnvironment
from whichloop.protocol import Plan, PlannedCall, Query, Ref

CUSTOMERS = ("Amina", "Bruno", "Chiara", "Dmitri", "Esi", "Farid", "Greta", "Hana")
ITEMS = ("lamps", "chairs", "kettles", "ropes", "globes", "mirrors", "drums", "ladders", "clocks", "vases", "tents", "sleds")
REASONS = ("for a new office", "as a present", "since the old ones broke", "before the long journey", "to sell them on")
WISHES = (
    "Order {count} {item} for {who} {why} and tell us the sum.",
    "{who} needs {count} {item} {why}: place the order; what is due?",
)


class World:
    """What one trial changes."""

    def __init__(self, prices: dict[str, int]) -> None:
        self.prices = prices
        self.orders: list[dict[str, Any]] = []
        self.hint = ""


def price(world: World, item: str) -> dict[str, int]:
    """Price of one piece, in dollars."""
    if item not in world.prices:
        raise LookupError(f"no item {item!r}")
    return {"price": world.prices[item]}


def order(world: World, item: str, count: int, unit_price: int) -> dict[str, int]:
    """Place an order at the current price of a piece."""
    if world.prices.get(item) != unit_price:
        raise ValueError(f"{unit_price} is not the price of {item}")
    world.orders.append({"item": item, "count": count})
    return {"number": len(world.orders), "due": count * unit_price}


def orders(world: World) -> list[dict[str, Any]]:
    """All orders that were placed."""
    return world.orders


TOOLS: Toolset[World] = Toolset(price, order, orders)


def open_shop(task: Task) -> Environment:
    world = World(dict(task.world["prices"]))
    return WorldEnvironment(TOOLS.bound_to(world), world, lambda state: {"orders": state.orders})


def task(number: int) -> Task:
    """Task 0 to 23; no two have the same answer."""
    item, who = ITEMS[number % len(ITEMS)], CUSTOMERS[number % len(CUSTOMERS)]
    count, each = 3 + number, 11 + 7 * (number % 12)
    wish = WISHES[number % 2].format(count=count, item=item, who=who, why=REASONS[number % len(REASONS)])
    calls = (
        PlannedCall("c1", "price", {"item": item}, f"Find the price of the {item}."),
        PlannedCall("c2", "order", {"item": item, "count": count, "unit_price": Ref("c1", ("price",))}, "Place the order."),
    )
    return Task(
        f"shop-{number:02d}",
        Query(wish),
        count * each,
        "numeric",
        Plan(calls, Ref("c2", ("due",))),
        labels={"split": ("train", "dev", "test")[number % 3], "instance": f"shop/{number}"},
        world={"prices": {item: each, "boats": 990, "stamps": 1}},
        end_state={"orders": [{"item": item, "count": count}]},
    )


def shop(**changes: Any) -> Suite:
    """The suite; keywords replace its fields."""
    return replace(Suite("shop", "1", tuple(map(task, range(24))), open_shop, distractors=frozenset({"orders"})), **changes)


def changed(change: Callable[[Task], Task], *numbers: int) -> Suite:
    """The suite with some tasks changed; all where none is named."""
    made = [change(one) if not numbers or number in numbers else one for number, one in enumerate(shop().tasks)]
    return shop(tasks=tuple(made))


NAMES = [check.name for check in CHECKS]


def found(suite: Suite, name: str, **options: Any) -> Finding:
    """What one check found; those behind it, of which the guesses take most of the time, are not run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "CHECKS", CHECKS[: NAMES.index(name) + 1])
        return next(finding for finding in check_suite(suite, **options).findings if finding.law == name)


def not_ok(checked: Checked) -> dict[str, str]:
    return {finding.law: finding.status for finding in checked.findings if finding.status != "ok"}


def plan_of(task: Task, **changes: Any) -> Task:
    """The task with its second call changed."""
    assert task.plan is not None
    first, second = task.plan.calls
    return replace(task, plan=Plan((first, replace(second, **changes)), task.plan.answer))


def arguments(**given: Any) -> Callable[[Task], Task]:
    def change(task: Task) -> Task:
        assert task.plan is not None
        return plan_of(task, arguments={**task.plan.calls[1].arguments, **given})

    return change


def unanswerable(task: Task) -> Task:
    assert task.plan is not None
    return replace(task, expected=None, plan=Plan(task.plan.calls, None))


def labelled(**labels: Any) -> Callable[[Task], Task]:
    return lambda task: replace(task, labels={**task.labels, **labels})


def asked(**changes: Any) -> Callable[[Task], Task]:
    return lambda task: replace(task, query=replace(task.query, **changes))


NO_CALL = Plan((), 33)
