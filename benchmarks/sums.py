"""The benchmark's task as a suite of ours."""

from __future__ import annotations

from questions import add, expected, multiply, numbers, question

from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.protocol import Plan, PlannedCall, Query, Ref, Tool

TOOLS = (Tool.from_function(add, blocking=False), Tool.from_function(multiply, blocking=False))


def _task(i: int) -> Task:
    a, b, c, d = numbers(i)
    calls = (
        PlannedCall("c1", "add", {"a": a, "b": b}, "Find the sum in brackets"),
        PlannedCall("c2", "multiply", {"a": Ref("c1"), "b": c}, "Find the product"),
        PlannedCall("c3", "add", {"a": Ref("c2"), "b": d}, "Find the total"),
    )
    return Task(f"sum-{i:06}", Query(question(i)), expected(i), "numeric", Plan(calls, Ref("c3")))


def load(size: int = 1000) -> Suite:
    """Task i is the same for any size."""
    return Suite("sums", "1", tuple(_task(i) for i in range(size)), lambda task: StatelessEnvironment(TOOLS))
