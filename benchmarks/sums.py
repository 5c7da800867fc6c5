"""The benchmark's suite: three dependent sums, so four model calls a trial; `--suite benchmarks.sums:load`."""

from __future__ import annotations

from loopbench.datasets.task import StatelessEnvironment, Suite, Task
from loopbench.protocol import Plan, PlannedCall, Query, Ref, Tool


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def multiply(a: int, b: int) -> int:
    """Multiply two integers."""
    return a * b


TOOLS = (Tool.from_function(add, blocking=False), Tool.from_function(multiply, blocking=False))


def numbers(i: int) -> tuple[int, int, int, int]:
    """The numbers of task i."""
    return i % 97 + 1, i % 89 + 2, i % 7 + 2, i % 83 + 3


def question(i: int) -> str:
    a, b, c, d = numbers(i)
    return f"Compute ({a} + {b}) * {c} + {d} with the tools."


def expected(i: int) -> int:
    a, b, c, d = numbers(i)
    return (a + b) * c + d


def _task(i: int) -> Task:
    a, b, c, d = numbers(i)
    calls = (
        PlannedCall("c1", "add", {"a": a, "b": b}, "Find the sum in brackets"),
        PlannedCall("c2", "multiply", {"a": Ref("c1"), "b": c}, "Find the product"),
        PlannedCall("c3", "add", {"a": Ref("c2"), "b": d}, "Find the total"),
    )
    return Task(f"sum-{i:06}", Query(question(i)), expected(i), "numeric", Plan(calls, Ref("c3")))


def load(size: int = 1000) -> Suite:
    """`size` tasks; task i is the same for any size."""
    return Suite("sums", "1", tuple(_task(i) for i in range(size)), lambda task: StatelessEnvironment(TOOLS))
