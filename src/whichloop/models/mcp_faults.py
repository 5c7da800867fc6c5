"""Faults that only tools over the Model Context Protocol have, and the tool list as a server with such a fault gives it.

A loop that holds its tools itself meets what the client of an MCP server would pass on to it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from whichloop.protocol import Observation, ToolCall, ToolSpec
from whichloop.protocol.mcp_errors import INTERNAL_ERROR, INVALID_PARAMS, McpError
from whichloop.protocol.tool_calls import ToolListing

from .faults import Fault

LIST_CHANGED, DRIFTED, ERROR = "mcp.list_changed", "mcp.drifted", "mcp.error"
"""Kinds that leave a call without a result. The fourth, `mcp.cut`, is among the implicit ones of `faults`."""
NEW_ARGUMENT: Final = "revision"
"""What a drifted schema requires beside the arguments that it had."""


class ListFaults:
    """The faults of one trial that change what its server lists."""

    def __init__(self) -> None:
        self._by_tool: dict[str, Fault] = {}
        self._changes = 0

    def strike(self, fault: Fault, call: ToolCall) -> Observation:
        """Return what a call gives under a fault that leaves it without a result, and let the list show it."""
        if fault.kind == ERROR:
            return _failed(call, McpError(INTERNAL_ERROR, "Internal error"))
        self._by_tool[call.name] = fault
        self._changes += 1
        if fault.kind == LIST_CHANGED:
            return _failed(call, McpError(INVALID_PARAMS, f"Unknown tool: {call.name}"))
        refused = f"Input validation error: {new_argument(call.arguments)!r} is a required property"
        return Observation(call.name, "error", refused, "InvalidArguments", None, call.call_id)

    def listed(self, specs: tuple[ToolSpec, ...]) -> ToolListing:
        """Return the tools as the server lists them now. A fault shows until its tool's next call would succeed."""
        if not self._by_tool:
            return ToolListing(specs)
        specs_now = []
        for spec in specs:
            fault = self._by_tool.get(spec.name)
            if fault is None or not fault.active(fault.strikes):
                specs_now.append(spec)
            elif fault.kind == DRIFTED:
                specs_now.append(drifted(spec))
        return ToolListing(tuple(specs_now), self._changes)


def drifted(spec: ToolSpec) -> ToolSpec:
    """Return a tool whose schema requires one argument more than it did; calls as before are refused."""
    properties = dict(spec.parameters.get("properties", {}))
    name = new_argument(properties)
    required = [*spec.parameters.get("required", ()), name]
    parameters = {**spec.parameters, "properties": {**properties, name: {"type": "string"}}, "required": required}
    return replace(spec, parameters=parameters)


def new_argument(names: object) -> str:
    """Return the name of the argument that a drifted schema requires; `names`: a container of the names that it has."""
    name = NEW_ARGUMENT
    while isinstance(names, (dict, list, tuple)) and name in names:
        name += "_"
    return name


def _failed(call: ToolCall, error: McpError) -> Observation:
    return Observation(call.name, "error", str(error), type(error).__name__, None, call.call_id)
