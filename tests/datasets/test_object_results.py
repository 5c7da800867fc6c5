"""Tools that return models and dataclasses, and lists of them: plans refer to their parts, and pass them on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import whichloop
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.datasets.validity.replay import planned_answer, replay
from whichloop.loops import Bare, Finish, Phased, ReactExtract, Stateless
from whichloop.protocol import Loop, Query, Tool, run_sync
from whichloop.protocol.plan_lines import plan_from_lines


class Line(BaseModel):
    item: str
    count: int


@dataclass(frozen=True)
class Row:
    name: str
    price: float


def lines(kind: str) -> list[Line]:
    """The lines of an order."""
    return [Line(item="lamp", count=2), Line(item="chair", count=1)]


def rows(kind: str) -> list[Row]:
    """The rows of a price list."""
    return [Row("lamp", 39.5), Row("chair", 60.0)]


def order(lines: list[Line]) -> str:
    """Order some lines."""
    return f"{len(lines)} lines, {sum(line.count for line in lines)} pieces"


def total(rows: list[dict[str, Any]]) -> float:
    """Sum of the prices."""
    return float(sum(row["price"] for row in rows))


TOOLS = tuple(Tool.from_function(tool) for tool in (lines, rows, order, total))
PLANS = {
    "literals": (
        "made = order(lines=[{'item': 'lamp', 'count': 2}, {'item': 'sofa', 'count': 4}])\nanswer = made",
        "2 lines, 6 pieces",
    ),
    "models passed on": ("found = lines(kind='a')\nmade = order(lines=found)\nanswer = made", "2 lines, 3 pieces"),
    "parts of models": (
        "found = lines(kind='a')\nmade = order(lines=[found[0], {'item': found[1]['item'], 'count': 5}])\nanswer = made",
        "2 lines, 7 pieces",
    ),
    "dataclasses passed on": ("found = rows(kind='a')\nsum = total(rows=found)\nanswer = sum", 99.5),
}
TASKS = tuple(
    Task(f"t{number}", Query(f"What of {name}?"), answer, plan=plan_from_lines(text))
    for number, (name, (text, answer)) in enumerate(PLANS.items())
)


def open_environment(task: Task) -> StatelessEnvironment:
    return StatelessEnvironment(TOOLS)


SUITE = Suite("objects", "1", TASKS, open_environment)


def test_the_oracle_follows_references_into_objects() -> None:
    assert [planned_answer(task, run_sync(replay(task, SUITE))) for task in TASKS] == [task.expected for task in TASKS]


def test_every_design_solves_every_task_where_nothing_is_disturbed(tmp_path: Path) -> None:
    loops: list[Loop] = [Bare(), Finish(), Phased(), ReactExtract(), Stateless()]
    run = whichloop.compare(loops, suite=SUITE, profiles=["clean"], mlflow=False, runs=tmp_path)
    assert len(run.trials) == len(loops) * len(TASKS)
    assert set(run.trials["accuracy"]) == {1.0}
