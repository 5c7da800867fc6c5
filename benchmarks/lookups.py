"""A suite for very small models: one price, which stands in the question or behind one look-up, with one tool and four words.

`loopbench compare --suite lookups:load` from this folder, or `make real`. The numbers are invented, so that no model knows them.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from loopbench.datasets.generating import Draft, Draw, PlanWriter, Source, generate
from loopbench.datasets.task import Environment, Task
from loopbench.datasets.worlds import Toolset, WorldEnvironment
from loopbench.protocol import Plan

Item = Literal["lamp", "chair", "mirror", "kettle"]
ITEMS = ("lamp", "chair", "mirror", "kettle")
NAMES = (
    *("Ada", "Ben", "Cora", "Dan", "Eva", "Finn", "Greta", "Hugo", "Ida", "Jan", "Kim", "Leo"),
    *("Mia", "Nils", "Olga", "Paul", "Rosa", "Sam", "Tina", "Udo", "Vera", "Walt", "Yann", "Zoe"),
)
"""Who asks, and for whom: no two tasks of the default size have one question."""
MAX_TOOL_STEPS, SIZE = 2, 96
World = dict[str, int]


def price(world: World, item: Item) -> int:
    """The price of an item in euros."""
    return world[item]


TOOLS = Toolset(price)


def costs(draw: Draw) -> Draft:
    """One look-up."""
    item, world = draw.choice(ITEMS), _shop(draw)
    writer = PlanWriter()
    writer.call(f"Look up the price of the {item}.", "price", {"item": item})
    question = f"{draw.choice(NAMES)} asks for {draw.choice(NAMES)}: what is the price of the {item}?"
    return Draft(question, Plan(tuple(writer.calls), world[item]), world[item], "numeric", world=world)


def stated(draw: Draw) -> Draft:
    """No look-up: the question says it."""
    item, world = draw.choice(ITEMS), _shop(draw)
    told = f"{draw.choice(NAMES)} tells {draw.choice(NAMES)} that the {item} costs {world[item]} euros"
    question = f"{told}: what is the price of the {item}?"
    return Draft(question, Plan((), world[item]), world[item], "numeric", world=world)


def _shop(draw: Draw) -> World:
    """Return what everything costs."""
    return {item: draw.integer(100, 999) for item in ITEMS}


def _open(task: Task) -> Environment:
    return WorldEnvironment(TOOLS.over(dict(task.world)), None)


TEMPLATES = (costs, stated)
SOURCE = Source(
    "lookups", "2", partial(generate, "lookups", templates=TEMPLATES), _open, step_limit=MAX_TOOL_STEPS, default_size=SIZE
)
SUITE = load = SOURCE.suite
