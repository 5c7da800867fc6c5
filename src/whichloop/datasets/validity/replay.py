"""The oracle: it replays plans with the real tools, and gives the answers that follow from them; and checks that replay plans.

Each check gives what is wrong with one task, one line each. `truth` is the task's plan as `replay` gave it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from whichloop.datasets.task import Environment, Suite, Task
from whichloop.protocol import Plan, PlannedCall, Toolbox, ToolCall, render_value, resolve
from whichloop.protocol.json_text import canonical_json
from whichloop.protocol.plan import refs
from whichloop.protocol.plan_lines import ref_as_text
from whichloop.protocol.tools import DEFAULT_TIME_LIMIT_S, bounded_toolbox
from whichloop.protocol.values import cap, plain_value

MAX_TRIES = 5
"""Most attempts at a call whose failure may pass (`TransientError`); a loop with patience gets through too."""

_MAX_SHOWN_CHARS = 200
"""Characters of a result that an error quotes."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One planned call, as it comes out in a fresh environment."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    """The arguments, with references replaced by results."""
    text: str
    """The result as a loop sees it; the error's message, without its type, where the call fails."""
    value: Any
    """The result as the JSON value that the text shows; None if the call fails."""
    failed: bool
    """Whether the call ends in an error, which the plan expects."""


async def replay(task: Task, suite: Suite, time_limit_s: float | None = DEFAULT_TIME_LIMIT_S) -> tuple[Replayed, ...]:
    """Run a task's plan with the real tools in a fresh environment, in the plan's order. `time_limit_s`: of one call.

    Raises ValueError that names task and call: for a task without a plan, an unknown tool, an argument that refers to what is not
    there, a call that fails, and one that succeeds though an error is planned.
    """
    calls = _plan_of(task).calls
    environment = suite.open(task)
    try:
        return await carry_out(task, calls, bounded_toolbox(environment.tools, time_limit_s))
    finally:
        environment.close()


async def carry_out(task: Task, calls: Iterable[PlannedCall], toolbox: Toolbox) -> tuple[Replayed, ...]:
    """Make calls of a task's plan, each after those that it needs, in an environment that is open. Raises as `replay` does."""
    values: dict[str, object] = {}
    results = []
    for call in calls:
        result = await _replay_call(call, toolbox, values, task.id)
        if not result.failed:
            values[call.id] = result.value
        results.append(result)
    return tuple(results)


def last_first(plan: Plan) -> tuple[PlannedCall, ...]:
    """Return the plan's calls in another order that it allows: of those that can be made, always the last."""
    calls_left, ordered = list(plan.calls), []
    made_ids: set[str] = set()
    while calls_left:
        ready = next(call for call in reversed(calls_left) if plan.dependencies[call.id] <= made_ids)
        calls_left.remove(ready)
        made_ids.add(ready.id)
        ordered.append(ready)
    return tuple(ordered)


def planned_answer(task: Task, replayed: tuple[Replayed, ...]) -> object:
    """Return the plan's answer with the replayed results in it. Raises ValueError if a reference has no value."""
    values = {result.call_id: result.value for result in replayed if not result.failed}
    try:
        return resolve(_plan_of(task).answer, values)
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"task {task.id!r}: the answer refers to {_absent(_plan_of(task).answer, values)}") from error


def _plan_of(task: Task) -> Plan:
    if task.plan is None:
        raise ValueError(f"task {task.id!r} has no plan: {task.no_plan or 'and no reason is given'}")
    return task.plan


async def _replay_call(call: PlannedCall, toolbox: Toolbox, values: Mapping[str, object], task_id: str) -> Replayed:
    unknown = [option.tool for option in (call, *call.alternatives) if option.tool not in toolbox]
    if unknown:
        raise ValueError(f"task {task_id!r}, call {call.id!r}: no tool {unknown[0]!r}; there are {', '.join(toolbox.names)}")
    try:
        arguments = resolve(call.arguments, values)
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"task {task_id!r}, call {call.id!r}: it refers to {_absent(call.arguments, values)}") from error
    for _ in range(MAX_TRIES):
        observation = await toolbox.call(ToolCall(call.tool, arguments))
        if not observation.transient:
            break
    if observation.ok and call.fails:
        raise ValueError(f"task {task_id!r}, call {call.id!r}: the plan expects an error, the result is {observation.data}")
    if not observation.ok and not call.fails:
        raise ValueError(f"task {task_id!r}, call {call.id!r}: {observation.error_type}: {observation.data}")
    return Replayed(call.id, call.tool, arguments, observation.data, plain_value(observation.value), call.fails)


def _absent(value: object, results: Mapping[str, object]) -> str:
    """Return the first reference in `value` that nothing stands behind, with the result in which it was looked for."""
    for ref in refs(value):
        if ref.call not in results:
            return f"{ref_as_text(ref)}, a call that gave no result"
        try:
            ref.of(results[ref.call])
        except (KeyError, IndexError, TypeError):
            return f"{ref_as_text(ref)}, which is not in the result {cap(render_value(results[ref.call]), _MAX_SHOWN_CHARS)}"
    return "a result that is not there"


def same(actual: object, expected: object) -> bool:
    """Return whether JSON values are equal at any depth, numbers to nine digits."""
    if isinstance(actual, bool) or isinstance(expected, bool):
        return actual is expected
    if isinstance(actual, int | float) and isinstance(expected, int | float):
        return actual == expected or _close(actual, expected)
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        return actual.keys() == expected.keys() and all(same(actual[key], expected[key]) for key in actual)
    if isinstance(actual, list | tuple) and isinstance(expected, list | tuple):
        return len(actual) == len(expected) and all(map(same, actual, expected))
    return bool(actual == expected)


def _close(actual: float, expected: float) -> bool:
    try:
        return math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-9)
    except OverflowError:  # an int beyond any float
        return False


CANARY = "canary-7f3a9c51"
"""Stands in the place of all that a loop must not see."""

Truth = Sequence[Replayed]


async def order_problems(task: Task, suite: Suite, truth: Truth) -> list[str]:
    """Find calls that differ in another order that the plan allows: a design may make independent calls in any order."""
    assert task.plan is not None
    calls = last_first(task.plan)
    if calls == task.plan.calls:
        return []
    order = ", ".join(call.id for call in calls[:6]) + (", …" if len(calls) > 6 else "")
    when = f"in the order {order}, which the plan allows"
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
    plan = Plan((PlannedCall(f"{CANARY}-call", f"{CANARY}-tool", {f"{CANARY}-name": f"{CANARY}-value"}, f"{CANARY} goal"),), CANARY)
    hidden = dataclasses.replace(
        task,
        expected=f"{CANARY}-expected",
        scorer=f"{CANARY}-scorer",
        plan=plan,
        no_plan=f"{CANARY}-no-plan",
        labels={name: f"{CANARY}-{name}" for name in task.labels},
        end_state=None if task.end_state is None else {f"{CANARY}-state": f"{CANARY}-state"},
    )
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
    texts = {
        f"the description of tool {tool.name!r}": f"{tool.name} {tool.description} {render_value(tool.parameters)}"
        for tool in tools
    }
    texts |= {f"the result of call {call.call_id!r}": call.text for call in results}
    problems = []
    for where, text in texts.items():
        before, canary, behind = text.partition(CANARY)
        if canary:
            shown = f"…{before[-30:]}{canary}{behind[:30]}…"
            problems.append(f"task {task.id!r}: {where} holds what a loop must not see: {shown}")
    return problems or await _lasting_differences(task, suite, truth, results, "opened by its world alone")


def _differences(task: Task, truth: Truth, other: Truth, when: str) -> list[str]:
    """Return the first call that does not come out as it did."""
    results = {call.call_id: call for call in truth}
    for call in other:
        before = results[call.call_id]
        if (call.failed, call.text) != (before.failed, before.text):
            now, then = (repr(text if len(text) <= 80 else f"{text[:80]}…") for text in (call.text, before.text))
            return [f"task {task.id!r}, call {call.call_id!r}: {now} {when}, and {then} before"]
    return []


async def _lasting_differences(task: Task, suite: Suite, truth: Truth, other: Truth, when: str) -> list[str]:
    """Return the same, without results that differ each time: `state_problems` reports those."""
    differences = _differences(task, truth, other, when)
    return [] if differences and _differences(task, truth, await replay(task, suite), when) else differences


def _state(environment: Environment) -> Any:
    """Return the state as it is now: what `state()` gives may go on changing."""
    value = environment.state()
    try:
        return canonical_json(value)
    except (TypeError, ValueError):
        return render_value(value)
