"""Planned calls that the user's own tools refuse: a run would leave their tasks out, so they are told before it."""

from __future__ import annotations

from collections.abc import Mapping

from whichloop.protocol import PlannedCall, Tool, refs, resolve
from whichloop.protocol.values import ToolArgumentError

from ..task import Task
from ..validity.checks import argument_misfits, name_misfits


def refused_call(task: Task, tools: Mapping[str, Tool]) -> str:
    """Return, in one line, the first call of a task's plan that its tool will refuse for its arguments; empty if there is none.

    `tools`: by name; one that is known by its schema alone decides by itself. Of a call with references, of which nobody knows yet
    what they stand for, the names of the arguments count.
    """
    for call in task.plan.calls if task.plan is not None and not task.quarantined else ():
        tool = tools.get(call.tool)
        if tool is not None and (problem := _refusal(call, tool)):
            return f"task {task.id!r}, call {call.id!r}: {call.tool}: {problem}"
    return ""


def _refusal(call: PlannedCall, tool: Tool) -> str:
    if tool.arguments is None:
        return ""
    named = next(name_misfits(call, tool.parameters), "")
    if named or any(refs(call.arguments)):
        return named
    try:
        tool.arguments.check(resolve(call.arguments, {}))
    except ToolArgumentError as error:
        return next(argument_misfits(call, tool.parameters), str(error).removeprefix(f"Tool '{tool.name}': "))
    return ""
