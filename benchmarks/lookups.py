"""A suite for very small models: one price, which stands in the question, alone or beside another, or behind one look-up.

`whichloop compare --suite lookups:load` from this folder, or `make real`. The numbers are invented, so that no model knows them: a
guess between 100 and 999 is right once in 900 times, and of the two prices of a question in half of the cases. The tool is there
where it is needed and nowhere else, so that a loop that calls whatever there is has to answer the other questions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from whichloop.datasets.generating import Draft, Draw, Source, distinct, generate
from whichloop.datasets.task import Environment, Suite, Task, Toolset, WorldEnvironment
from whichloop.protocol import Plan, PlannedCall

Item = Literal["lamp", "chair", "mirror", "kettle"]
ITEMS = ("lamp", "chair", "mirror", "kettle")
NAMES = (
    *("Ada", "Ben", "Cora", "Dan", "Eva", "Finn", "Greta", "Hugo", "Ida", "Jan", "Kim", "Leo"),
    *("Mia", "Nils", "Olga", "Paul", "Rosa", "Sam", "Tina", "Udo", "Vera", "Walt", "Yann", "Zoe"),
)
"""Who asks, and for whom."""
MAX_TOOL_STEPS, SIZE = 2, 96
World = dict[str, int]


def price(world: World, item: Item) -> int:
    """The price of an item in euros."""
    return world[item]


WITH_TOOL: Toolset[World] = Toolset(price)
WHOLE_EUROS = {"type": "integer"}


def costs(draw: Draw) -> Draft:
    """One look-up."""
    item, world = draw.choice(ITEMS), {each: _euros(draw) for each in ITEMS}
    calls = (PlannedCall("c1", "price", {"item": item}, f"Look up the price of the {item}."),)
    return _asked(f"{draw.choice(NAMES)} asks for {draw.choice(NAMES)}", item, world[item], calls, world)


def stated(draw: Draw) -> Draft:
    """No look-up: the question says it."""
    item, euros = draw.choice(ITEMS), _euros(draw)
    return _asked(f"{_teller(draw)} that the {item} costs {euros} euros", item, euros, (), {})


def stated_with_another(draw: Draw) -> Draft:
    """No look-up: the question says it, and the price of another item, before or after it."""
    items, prices = draw.sample(ITEMS, 2), distinct(2, lambda: _euros(draw))
    asked = draw.integer(0, 1)
    told = " and ".join(f"the {item} costs {euros} euros" for item, euros in zip(items, prices, strict=True))
    return _asked(f"{_teller(draw)} that {told}", items[asked], prices[asked], (), {})


def _euros(draw: Draw) -> int:
    return draw.integer(100, 999)


def _teller(draw: Draw) -> str:
    return f"{draw.choice(NAMES)} tells {draw.choice(NAMES)}"


def _asked(told: str, item: str, euros: int, calls: tuple[PlannedCall, ...], world: World) -> Draft:
    """Return the task. `world`: the prices that can be looked up; empty: there is no tool."""
    question = f"{told}: what is the price of the {item}?"
    return Draft(question, Plan(calls, euros), euros, "numeric", schema=WHOLE_EUROS, world=world)


def _open(task: Task) -> Environment:
    return WorldEnvironment(WITH_TOOL.bound_to(dict(task.world)) if task.world else (), None)


TEMPLATES = (costs, stated, stated_with_another)
SOURCE = Source("lookups", "3", partial(generate, "lookups", templates=TEMPLATES), _open, default_size=SIZE)


def load(size: int = SIZE, seed: int = 0) -> Suite:
    """Return the suite; its longest task takes two calls, and a loop may make no more."""
    return replace(SOURCE.suite(size, seed), step_limit=MAX_TOOL_STEPS)
