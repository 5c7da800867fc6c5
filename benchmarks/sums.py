"""The benchmark's task as a suite of ours; or longer chains of sums."""

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


def _chain(i: int, length: int) -> Task:
    a, b, *_ = numbers(i)
    calls = [PlannedCall("c1", "add", {"a": a, "b": b}, "Find sum 1")]
    for k in range(2, length + 1):
        calls.append(PlannedCall(f"c{k}", "add", {"a": Ref(f"c{k - 1}"), "b": k}, f"Find sum {k}"))
    answer = a + b + sum(range(2, length + 1))
    query = Query(f"Start with {a} + {b}, then add 2, 3 and so on up to {length}, one at a time, with the tools.")
    return Task(f"chain-{i:06}", query, answer, "numeric", Plan(tuple(calls), Ref(f"c{length}")))


def load(size: int = 1000, length: int = 3) -> Suite:
    """`size` tasks of `length` calls each; task i is the same for any size."""
    tasks = tuple(_task(i) if length == 3 else _chain(i, length) for i in range(size))
    return Suite("sums", "1", tasks, lambda task: StatelessEnvironment(TOOLS))
