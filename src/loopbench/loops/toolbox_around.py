"""A toolbox around another, to watch or change its calls."""

from __future__ import annotations

from loopbench.protocol import ToolArgumentError, Toolbox, ToolCall
from loopbench.protocol.tools import ToolListing


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
