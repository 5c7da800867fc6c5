"""Whether trials are worlds of their own, and whether the tools know what they must not: checks that replay plans.

Each check gives what is wrong with one task, one line each. `truth` is the task's plan as `replay` gave it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

from whichloop.protocol import Plan, PlannedCall, Tool, render_value
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.tools import bounded_toolbox

from ..task import Environment, Suite, Task
from .replay import Replayed, carry_out, last_first, replay, same

CANARY = "canary-7f3a9c51"
"""Stands in the place of all that a loop must not see."""

Truth = Sequence[Replayed]


async def order_problems(task: Task, suite: Suite, truth: Truth) -> list[str]:
    """Find calls that differ in another order that the plan allows: a design may make independent calls in any order."""
    assert task.plan is not None
    calls = last_first(task.plan)
    if calls == task.plan.calls:
        return []
    when = f"in the order {_order(calls)}, which the plan allows"
    try:
        with closing(suite.open(task)) as environment:
            results = await carry_out(task, calls, bounded_toolbox(environment.tools))
            problems = await _lasting_differences(task, suite, truth, results, when)
            if not problems and task.end_state is not None and not same(environment.state(), task.end_state):
                problems.append(f"task {task.id!r}: the end state is another {when}")
    except ValueError as error:
        return [f"{error} ({when})"]
    return problems


async def state_problems(task: Task, suite: Suite, truth: Truth) -> list[str]:
    """Find what a trial leaves behind for the next one or shows one beside it, and results that differ each time."""
    assert task.plan is not None
    calls, problems = task.plan.calls, []
    try:
        with closing(suite.open(task)) as beside:
            with closing(suite.open(task)) as first:
                new = _state(first)
                results = await carry_out(task, calls, bounded_toolbox(first.tools))
            problems += _differences(task, truth, results, "when it is replayed again")
            if _state(beside) != new:
                problems.append(f"task {task.id!r}: what a trial does shows in the state of one beside it")
            results = await carry_out(task, calls, bounded_toolbox(beside.tools))
            problems += _differences(task, truth, results, "beside a trial that has ended")
    except ValueError as error:
        return [*problems, f"{error} (when it is replayed again)"]
    with closing(suite.open(task)) as later:
        if _state(later) != new:
            problems.append(f"task {task.id!r}: after a trial a new environment has another state than before")
    return problems


async def gold_problems(task: Task, suite: Suite, truth: Truth = ()) -> list[str]:
    """Find what a loop must not see in names and descriptions of tools and, if `truth` is given, in results of the plan's calls.

    The environment is opened with canaries in the place of the answer, plan, labels and scorer: it may be built from `world` alone.
    """
    hidden = _with_canaries(task)
    try:
        environment = suite.open(hidden)
    except Exception as error:  # the suite's own code, given a task of which it wants more than the world
        return [f"task {task.id!r}: it cannot be opened by its world alone ({type(error).__name__}: {error})"]
    try:
        with closing(environment):
            tools = tuple(environment.tools)
            calls = task.plan.calls if task.plan is not None and truth else ()
            results = await carry_out(task, calls, bounded_toolbox(tools))
    except ValueError as error:
        return [f"{error} (opened by its world alone: the tools need what a loop must not see)"]
    visible_texts = [*_descriptions(tools), *((f"the result of call {call.call_id!r}", call.text) for call in results)]
    problems = [
        f"task {task.id!r}: {where} holds what a loop must not see: {_around(text)}"
        for where, text in visible_texts
        if CANARY in text
    ]
    return problems or await _lasting_differences(task, suite, truth, results, "opened by its world alone")


def _with_canaries(task: Task) -> Task:
    plan = Plan((PlannedCall(f"{CANARY}-call", f"{CANARY}-tool", {f"{CANARY}-name": f"{CANARY}-value"}, f"{CANARY} goal"),), CANARY)
    return dataclasses.replace(
        task,
        expected=f"{CANARY}-expected",
        scorer=f"{CANARY}-scorer",
        plan=plan,
        no_plan=f"{CANARY}-no-plan",
        labels={name: f"{CANARY}-{name}" for name in task.labels},
        end_state=None if task.end_state is None else {f"{CANARY}-state": f"{CANARY}-state"},
    )


def _descriptions(tools: Iterable[Tool]) -> Iterator[tuple[str, str]]:
    for tool in tools:
        yield f"the description of tool {tool.name!r}", f"{tool.name} {tool.description} {render_value(tool.parameters)}"


def _around(text: str) -> str:
    start = text.index(CANARY)
    return f"…{text[max(0, start - 30) : start + len(CANARY) + 30]}…"


def _differences(task: Task, truth: Truth, other: Truth, when: str) -> list[str]:
    """Return the first call that does not come out as it did."""
    results = {call.call_id: call for call in truth}
    for call in other:
        before = results[call.call_id]
        if (call.failed, call.text) != (before.failed, before.text):
            return [
                f"task {task.id!r}, call {call.call_id!r}: {_short_repr(call.text)} {when}, and {_short_repr(before.text)} before"
            ]
    return []


async def _lasting_differences(task: Task, suite: Suite, truth: Truth, other: Truth, when: str) -> list[str]:
    """Return the same, without results that differ each time: `state_problems` reports those."""
    differences = _differences(task, truth, other, when)
    return [] if differences and _differences(task, truth, await replay(task, suite), when) else differences


def _order(calls: Iterable[PlannedCall]) -> str:
    ids = [call.id for call in calls]
    return ", ".join(ids[:6]) + (", …" if len(ids) > 6 else "")


def _state(environment: Environment) -> Any:
    """Return the state as it is now: what `state()` gives may go on changing."""
    return _canonical_text(environment.state())


def _canonical_text(value: Any) -> str:
    try:
        return canonical_json(value)
    except (TypeError, ValueError):
        return render_value(value)


def _short_repr(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")
