"""Whether a suite can be trusted: the oracle that replays plans, and the checks that every suite has to pass.

After the Agentic Benchmark Checklist (Zhu et al. 2025, arXiv:2507.02825): an oracle solves each task, and an agent that does
nothing solves next to none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopbench.protocol import Plan, PlannedCall, Toolbox, ToolCall, resolve, run_sync
from loopbench.protocol.digest import canonical_json

from ..task import Suite, Task

MAX_UNANSWERABLE = 0.10
"""Largest share of tasks without an answer: a loop that does nothing gets these right."""

MOST_TRIES = 5
"""A call whose failure may pass (`TransientError`) is made so often at most; a loop with patience gets through too."""

Judge = Callable[[Task, Any], bool]
"""Whether an answer is right for a task."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One planned call, as it comes out in a fresh environment."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    """References replaced by results."""
    text: str
    """The result as a loop sees it; the error's message, without its type, where the call fails."""
    value: Any
    """The result itself; None where the call fails."""
    failed: bool
    """An error, and the plan expects it."""


async def replay(task: Task, suite: Suite) -> tuple[Replayed, ...]:
    """Run a task's plan with the real tools in a fresh environment, in the plan's order.

    Raises ValueError that names task and call: for a task without a plan, an unknown tool, an argument that refers to what is not
    there, a call that fails, and one that succeeds though an error is planned.
    """
    calls = _plan_of(task).calls
    environment = suite.open(task)
    try:
        return await carry_out(task, calls, Toolbox(environment.tools))
    finally:
        environment.close()


async def carry_out(task: Task, calls: Iterable[PlannedCall], toolbox: Toolbox) -> tuple[Replayed, ...]:
    """Make calls of a task's plan, each after those that it needs, in an environment that is open. Raises as `replay` does."""
    values: dict[str, Any] = {}
    made = []
    for call in calls:
        result = await _replay_call(call, toolbox, values, task.id)
        if not result.failed:
            values[call.id] = result.value
        made.append(result)
    return tuple(made)


def last_first(plan: Plan) -> tuple[PlannedCall, ...]:
    """The plan's calls in another order that it allows: of those that can be made, always the last."""
    left, made = list(plan.calls), []
    known: set[str] = set()
    while left:
        ready = next(call for call in reversed(left) if plan.dependencies[call.id] <= known)
        left.remove(ready)
        known.add(ready.id)
        made.append(ready)
    return tuple(made)


def planned_answer(task: Task, replayed: tuple[Replayed, ...]) -> Any:
    """The plan's answer with the replayed results in it. Raises ValueError where a reference has no value."""
    values = {result.call_id: result.value for result in replayed if not result.failed}
    try:
        return resolve(_plan_of(task).answer, values)
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"task {task.id!r}: the answer refers to a result that is not there ({error!r})") from error


def agrees(task: Task, answer: Any) -> bool:
    """The default judge: equal to the expected result, numbers to nine digits."""
    return same(answer, task.expected)


def check_suite(suite: Suite, judge: Judge = agrees) -> list[str]:
    """What is wrong with a suite, one line each; empty where nothing is. Quarantined tasks are not looked at.

    `judge` stands for the suite's scorer, where equality with `expected` is not what counts.
    """
    tasks = [task for task in suite.tasks if not task.quarantined]
    problems = [problem for task in tasks for problem in _task_problems(task, judge)]
    problems += run_sync(_replay_problems(tasks, suite, judge))
    return problems + unanswerable_problems(tasks)


def unanswerable_problems(tasks: Sequence[Task]) -> list[str]:
    """Too many tasks without an answer."""
    unanswerable = sum(task.expected is None for task in tasks)
    if unanswerable <= MAX_UNANSWERABLE * len(tasks):
        return []
    share = f"doing nothing would score {unanswerable / len(tasks):.0%}, at most {MAX_UNANSWERABLE:.0%} is right"
    return [f"{unanswerable} of {len(tasks)} tasks have no answer: {share}"]


def _plan_of(task: Task) -> Plan:
    if task.plan is None:
        raise ValueError(f"task {task.id!r} has no plan: {task.no_plan or 'and no reason is given'}")
    return task.plan


async def _replay_call(call: PlannedCall, toolbox: Toolbox, values: Mapping[str, Any], task_id: str) -> Replayed:
    unknown = [option.tool for option in (call, *call.alternatives) if option.tool not in toolbox]
    if unknown:
        raise ValueError(f"task {task_id!r}, call {call.id!r}: no tool {unknown[0]!r}; there are {', '.join(toolbox.names)}")
    try:
        arguments = resolve(call.arguments, values)
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"task {task_id!r}, call {call.id!r}: refers to a result that is not there ({error!r})") from error
    seen = await toolbox.call(ToolCall(call.tool, arguments))
    for _ in range(MOST_TRIES - 1):
        if not seen.transient:
            break
        seen = await toolbox.call(ToolCall(call.tool, arguments))
    if seen.ok and call.fails:
        raise ValueError(f"task {task_id!r}, call {call.id!r}: the plan expects an error, the result is {seen.data}")
    if not seen.ok and not call.fails:
        raise ValueError(f"task {task_id!r}, call {call.id!r}: {seen.error_type}: {seen.data}")
    return Replayed(call.id, call.tool, arguments, seen.data, seen.value, call.fails)


async def _replay_problems(tasks: list[Task], suite: Suite, judge: Judge) -> list[str]:
    problems: list[str] = []
    for task in tasks:
        if task.plan is None:
            continue
        try:
            replayed = await replay(task, suite)
            answer = planned_answer(task, replayed)
        except ValueError as error:
            problems.append(str(error))
            continue
        problems += _repeated_calls(task, replayed)
        if not judge(task, answer):
            problems.append(f"task {task.id!r}: the plan's answer is {answer!r}, expected is {task.expected!r}")
    return problems


def _repeated_calls(task: Task, replayed: tuple[Replayed, ...]) -> Iterator[str]:
    """A call is recognised by its tool and arguments, so a plan may not make the same one twice."""
    seen: dict[tuple[str, str], str] = {}
    for result in replayed:
        try:
            key = (result.tool, canonical_json(_plain(result.arguments)))
        except (TypeError, ValueError) as error:  # a reference to a result of which JSON can say only a part
            yield f"task {task.id!r}, call {result.call_id!r}: the arguments are no JSON ({error})"
            continue
        if key in seen:
            yield f"task {task.id!r}: calls {seen[key]!r} and {result.call_id!r} are the same: {result.tool} {key[1]}"
        seen.setdefault(key, result.call_id)


def _task_problems(task: Task, judge: Judge) -> Iterator[str]:
    """What shows without running anything."""
    if task.expected is not None and any(judge(task, nothing) for nothing in (None, "")):
        yield f"task {task.id!r}: an empty answer counts as right"
    yield from plan_problems(task)
    yield from goal_problems(task)


def plan_problems(task: Task) -> Iterator[str]:
    """A plan that cannot be right as it stands, or none and no reason why."""
    if (task.plan is None) == (not task.no_plan):
        yield f"task {task.id!r}: a task has a plan, or a reason in `no_plan`, and not both"
    if task.plan is None:
        return
    if (task.plan.answer is None) != (task.expected is None):
        yield f"task {task.id!r}: the plan's answer is {task.plan.answer!r}, expected is {task.expected!r}: None belongs to None"
    if not task.plan.calls and task.expected is not None:
        yield f"task {task.id!r}: the plan answers without any call: a loop that uses no tool would be right"


def goal_problems(task: Task) -> Iterator[str]:
    """A call is picked by finding its goal in a prompt, so no goal may stand in another one or in the question."""
    if task.plan is None:
        return
    texts = {"the question": task.query.text, "the context": task.query.context} | {
        f"the goal of call {call.id!r}": call.goal for call in task.plan.calls
    }
    for call in task.plan.calls:
        own = f"the goal of call {call.id!r}"
        if not call.goal.strip():
            yield f"task {task.id!r}: {own} is empty"
            continue
        for name, text in texts.items():
            if name != own and call.goal in text:
                yield f"task {task.id!r}: {own}, {call.goal!r}, stands in {name} too"


def _plain(value: Any) -> Any:
    """3.0 as 3, at any depth: equal numbers make equal calls."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def same(got: Any, expected: Any) -> bool:
    """Equality of JSON values at any depth, numbers to nine digits."""
    if isinstance(got, bool) or isinstance(expected, bool):
        return got is expected
    if isinstance(got, int | float) and isinstance(expected, int | float):
        return got == expected or _close(got, expected)
    if isinstance(got, Mapping) and isinstance(expected, Mapping):
        return got.keys() == expected.keys() and all(same(got[key], expected[key]) for key in got)
    if isinstance(got, list | tuple) and isinstance(expected, list | tuple):
        return len(got) == len(expected) and all(map(same, got, expected))
    return bool(got == expected)


def _close(got: float, expected: float) -> bool:
    try:
        return math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-9)
    except OverflowError:  # an int beyond any float
        return False
