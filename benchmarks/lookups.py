"""A suite for very small models: one look-up, asked for in a sentence, with two tools whose argument is one of eight words.

`loopbench compare --suite lookups:load` from this folder, or `make real`. The numbers are invented, so that no model knows them.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from loopbench.datasets.generating import Draft, Draw, PlanWriter, Source, generate
from loopbench.datasets.task import Environment, Task
from loopbench.datasets.worlds import Toolset, WorldEnvironment
from loopbench.protocol import Plan

Item = Literal["lamp", "chair", "mirror", "kettle", "ladder", "carpet", "bucket", "violin"]
ITEMS = ("lamp", "chair", "mirror", "kettle", "ladder", "carpet", "bucket", "violin")
NAMES = (
    *("Ada", "Ben", "Cora", "Dan", "Eva", "Finn", "Greta", "Hugo", "Ida", "Jan", "Kim", "Leo"),
    *("Mia", "Nils", "Olga", "Paul", "Rosa", "Sam", "Tina", "Udo", "Vera", "Walt", "Yann", "Zoe"),
)
"""Who asks: no two tasks of the default size have one question."""
MAX_TOOL_STEPS, SIZE = 2, 24
World = dict[str, dict[str, int]]


def price(world: World, item: Item) -> int:
    """The price of an item in euros."""
    return world["price"][item]


def weight(world: World, item: Item) -> int:
    """The weight of an item in kilograms."""
    return world["weight"][item]


TOOLS = Toolset(price, weight)


def costs(draw: Draw) -> Draft:
    """One look-up."""
    item, world = draw.choice(ITEMS), _shop(draw)
    return _draft(f"{draw.choice(NAMES)} asks: what is the price of the {item}?", "price", item, world)


def weighs(draw: Draw) -> Draft:
    """One look-up in the other table."""
    item, world = draw.choice(ITEMS), _shop(draw)
    return _draft(f"{draw.choice(NAMES)} asks: what is the weight of the {item}?", "weight", item, world)


def asked_by_name(draw: Draw) -> Draft:
    """One look-up, asked for in the words of the tool."""
    item, world = draw.choice(ITEMS), _shop(draw)
    return _draft(
        f"For {draw.choice(NAMES)}: call the tool price with the item {item}, and answer with the number.", "price", item, world
    )


def _shop(draw: Draw) -> World:
    """Return what everything costs and weighs."""
    return {table: {item: draw.integer(100, 999) for item in ITEMS} for table in ("price", "weight")}


def _draft(question: str, tool: str, item: str, world: World) -> Draft:
    answer, writer = world[tool][item], PlanWriter()
    writer.call(f"Look up the {tool} of the {item}.", tool, {"item": item})
    return Draft(question, Plan(tuple(writer.calls), answer), answer, "numeric", world=world)


def _open(task: Task) -> Environment:
    return WorldEnvironment(TOOLS.over(dict(task.world)), None)


TEMPLATES = (costs, weighs, asked_by_name)
SOURCE = Source(
    "lookups", "1", partial(generate, "lookups", templates=TEMPLATES), _open, step_limit=MAX_TOOL_STEPS, default_size=SIZE
)
SUITE = load = SOURCE.suite
