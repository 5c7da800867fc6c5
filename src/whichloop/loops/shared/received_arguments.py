"""The arguments of a call as its tool gets them."""

from __future__ import annotations

import inspect
from typing import Any

from whichloop.protocol import ToolArgumentError, Toolbox, ToolCall
from whichloop.protocol.values import argument_json, own_copy


def problem_of(call: ToolCall, tools: Toolbox) -> tuple[str, str] | None:
    """Return why a call cannot be made, the error's type and its text; None if it can."""
    tool = tools.get(call.name)
    if tool is None:
        return "UnknownTool", f"there is no tool {call.name!r}"
    try:
        if tool.arguments is not None:
            tool.arguments.check(call.arguments)
    except ToolArgumentError as error:
        return "InvalidArguments", str(error)
    return None


def received_values(call: ToolCall, tools: Toolbox) -> dict[str, Any]:
    """Return a copy of the arguments as the tool's function gets them: converted to its types, with its defaults.

    Raises what a value of the model's or a user's type raises that cannot be read.
    """
    tool = tools.get(call.name)
    copies = {name: own_copy(value) for name, value in dict(call.arguments).items()}
    if tool is None or tool.arguments is None:
        return copies
    try:
        args, kwargs = tool.arguments.bind(copies)
    except ToolArgumentError:
        args, kwargs = tool.arguments.bind_unchecked(copies)
    signature = inspect.signature(tool.function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    received: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        received.update(value if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    return received


def shown_arguments(call: ToolCall, tools: Toolbox) -> dict[str, Any]:
    """Return the JSON form of what the tool's function gets; what was written, where that has none."""
    try:
        return {name: argument_json(value) for name, value in received_values(call, tools).items()}
    except Exception:  # of the tool's types, or a call that lacks an argument
        return dict(call.arguments)
