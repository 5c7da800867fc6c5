"""The arguments of calls as the model said them.

A framework reads the arguments of a call with types of its own: 12 becomes 12.0, and a default that was left out is filled in. To
the tool both are the same call, so the tunnel has to take them for the same call, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whichloop.protocol import Act, Reply, Request, Tool, ToolArgumentError, Toolbox, WireError


class ModelArguments:
    """The calls that a trial's model has made so far."""

    def __init__(self, tools: Toolbox) -> None:
        self._tools = tools
        self._arguments_by_tool: dict[str, list[Mapping[str, Any]]] = {}

    def add(self, request: Request, reply: Reply) -> None:
        """Add the calls of a reply, if it can be read."""
        if request.codec is None:
            return
        try:
            move = request.codec.parse(reply)
        except WireError:
            return
        if isinstance(move, Act):
            for call in move.calls:
                self._arguments_by_tool.setdefault(call.name, []).append(call.arguments)

    def as_said(self, name: str, arguments: Mapping[str, object]) -> Mapping[str, Any]:
        """Return the latest arguments of the model that are the same call, else the given ones."""
        tool = self._tools.get(name)
        if tool is None:
            return arguments
        as_called = _as_called(tool, arguments)
        if as_called is None:
            return arguments
        same = (
            arguments_said
            for arguments_said in reversed(self._arguments_by_tool.get(name, ()))
            if _as_called(tool, arguments_said) == as_called
        )
        return next(same, arguments)


def _as_called(tool: Tool, arguments: Mapping[str, object]) -> dict[str, Any] | None:
    """Return the values that the function would get, by name, defaults among them; None for arguments that it does not take."""
    if tool.arguments is not None:
        try:
            return tool.arguments.check(arguments).model_dump()
        except ToolArgumentError:
            return None
    properties: Mapping[str, object] = tool.parameters.get("properties", {})
    defaults = {name: schema.get("default") for name, schema in properties.items() if isinstance(schema, Mapping)}
    return defaults | dict(arguments)
