"""A toolbox around another, to watch or change its calls."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from loopbench.protocol import ToolArgumentError, Toolbox, ToolCall
from loopbench.protocol.tools import ToolListing
from loopbench.protocol.values import own_copy, plain_value


class ToolboxAround(Toolbox):
    """A toolbox with the tools and limits of another, which runs the calls."""

    def __init__(self, within: Toolbox) -> None:
        super().__init__(
            within,
            time_limit_s=within.time_limit_s,
            max_chars=within.max_chars,
            threads=within.threads,
            check_arguments=within.check_arguments,
        )
        self.within = within

    def listed(self) -> ToolListing:
        return self.within.listed()


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


def received_arguments(call: ToolCall, tools: Toolbox) -> Mapping[str, Any]:
    """Return the arguments as the tool's function gets them: converted to its types, with its defaults, as JSON's own types.

    Raises what a value of the model's or a user's type raises that cannot be read.
    """
    tool = tools.get(call.name)
    own = {name: own_copy(value) for name, value in dict(call.arguments).items()}
    if tool is None or tool.arguments is None:
        return own
    try:
        args, kwargs = tool.arguments.bind(own)
    except ToolArgumentError:
        args, kwargs = tool.arguments.bind_unchecked(own)
    signature = inspect.signature(tool.function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        found.update(value if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    return {name: plain_value(value) for name, value in found.items()}
