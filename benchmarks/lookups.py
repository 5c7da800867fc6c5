"""A suite for very small models: one look-up, asked for in a sentence, with two tools.

`loopbench compare --suite lookups:load` from this folder, or `python benchmarks/real_models.py`. Names and numbers are invented, so
that no model knows them by heart.
"""

from __future__ import annotations

from functools import partial

from loopbench.datasets.generating import Draft, Draw, PlanWriter, Source, generate
from loopbench.datasets.task import Environment, Task
from loopbench.datasets.worlds import Toolset, WorldEnvironment
from loopbench.protocol import Plan

GOODS = ("lamp", "chair", "basket", "mirror", "kettle", "ladder", "carpet", "bucket", "candle", "saddle", "drum", "violin")
COLORS = ("red", "blue", "green", "black", "white", "yellow", "brown", "grey", "golden", "silver")
MAX_TOOL_STEPS = 4


World = dict[str, dict[str, int]]


def price(world: World, item: str) -> int:
    """The price of an item in euros."""
    return world[item]["price"]


def weight(world: World, item: str) -> int:
    """The weight of an item in kilograms."""
    return world[item]["weight"]


TOOLS = Toolset(price, weight)


def costs(draw: Draw) -> Draft:
    """One look-up."""
    item, world = _shop(draw)
    writer = PlanWriter()
    writer.call(f"Look up the price of the {item}.", "price", {"item": item})
    return _draft(f"What does the {item} cost?", writer, world[item]["price"], world)


def weighs(draw: Draw) -> Draft:
    """One look-up in the other table."""
    item, world = _shop(draw)
    writer = PlanWriter()
    writer.call(f"Look up the weight of the {item}.", "weight", {"item": item})
    return _draft(f"How many kilograms does the {item} weigh?", writer, world[item]["weight"], world)


def asked_by_name(draw: Draw) -> Draft:
    """One look-up, asked for in the words of the tool."""
    item, world = _shop(draw)
    writer = PlanWriter()
    writer.call(f"Look up the price of the {item}.", "price", {"item": item})
    return _draft(f"Call the tool price for the item {item} and state the price.", writer, world[item]["price"], world)


def _shop(draw: Draw) -> tuple[str, World]:
    """Return an item that is asked for, and what four cost and weigh."""
    items = [f"{color} {goods}" for color, goods in zip(draw.sample(list(COLORS), 4), draw.sample(list(GOODS), 4), strict=True)]
    return items[0], {item: {"price": draw.integer(11, 99), "weight": draw.integer(11, 99)} for item in items}


def _draft(question: str, writer: PlanWriter, answer: int, world: World) -> Draft:
    return Draft(question, Plan(tuple(writer.calls), answer), answer, "numeric", world=world)


def _open(task: Task) -> Environment:
    return WorldEnvironment(TOOLS.over(dict(task.world)), None)


SOURCE = Source(
    "lookups", "1", partial(generate, "lookups", templates=[costs, weighs, asked_by_name]), _open, step_limit=MAX_TOOL_STEPS
)
SUITE = load = SOURCE.suite
