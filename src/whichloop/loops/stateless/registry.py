"""The source of tools that agent and manager share, and adapters to it.

Rows such as S0-65 are those of docs/conformance.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from whichloop.protocol import Tool, Toolbox

Description = dict[str, Any]
"""`{"name", "description", "parameters"}`; the form of the parameters is the registry's own affair (row S0-65)."""


@runtime_checkable
class ToolSource(Protocol):
    """Protocol for tool registry compatibility."""

    def get_tool(self, tool_name: str) -> Callable[..., Any]:
        """Return the function behind a name. Raises ValueError for an unknown one."""

    def get_all_tool_names(self) -> list[str]:
        """Return all names, in order."""

    def get_all_tool_descriptions(self) -> list[Description]:
        """Return what a model is told of the tools."""


class ToolboxRegistry:
    """A `Toolbox` as a registry. Its tools are called through the toolbox, so that whoever gave it sees every call."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox

    def get_tool(self, tool_name: str) -> Callable[..., Any]:
        tool = self.toolbox.get(tool_name)
        if tool is None:
            raise ValueError(f"Tool '{tool_name}' not found in registry")
        return tool.function

    def get_function(self, tool_name: str) -> Callable[..., Any]:
        """Do what `get_tool` does: the document's manager asks by this name (row B0-11)."""
        return self.get_tool(tool_name)

    def get_all_tool_names(self) -> list[str]:
        return list(self.toolbox.names)

    def get_all_tool_descriptions(self) -> list[Description]:
        """Return the descriptions; `parameters` is the JSON schema: it may nest, and is not flattened."""
        return [{"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)} for tool in self.toolbox]


class DSPyToolRegistryAdapter:
    """Adapter to make existing tool registries work with the agent loop (row S0-18)."""

    def __init__(self, existing_registry: Any) -> None:
        """`existing_registry`: has `get_function`, `_functions` and `get_tool_definitions`, as `MultiToolRegistry` does."""
        self.registry = existing_registry

    def get_tool(self, tool_name: str) -> Callable[..., Any]:
        try:
            function: Callable[..., Any] = self.registry.get_function(tool_name)
        except KeyError:
            raise ValueError(f"Tool '{tool_name}' not found in registry") from None
        return function

    def get_function(self, tool_name: str) -> Callable[..., Any]:
        """Do what `get_tool` does: the document's manager asks by this name (row B0-11)."""
        return self.get_tool(tool_name)

    def get_all_tool_names(self) -> list[str]:
        return list(self.registry._functions)

    def get_all_tool_descriptions(self) -> list[Description]:
        return [_description(definition) for definition in self.registry.get_tool_definitions()]


def _description(definition: Any) -> Description:
    name = definition.name
    return {
        "name": name if isinstance(name, str) and not hasattr(name, "value") else name.value,
        "description": definition.description,
        "parameters": [
            {"name": item.name, "type": item.type, "description": item.description, "required": item.required}
            for item in definition.arguments or ()
        ],
    }


@dataclass(frozen=True, slots=True)
class ToolArgument:
    """One argument of a tool."""

    name: str
    type: str
    """JSON schema's name of the type, or the schema itself as JSON if one name does not say it."""
    description: str
    required: bool


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A registry's description of one tool."""

    name: str
    description: str
    arguments: tuple[ToolArgument, ...]


class MultiToolRegistry:
    """Functions by name, with definitions read off their types and docstrings."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}
        self._definitions: dict[str, ToolDefinition] = {}

    def register(self, *functions: Callable[..., Any]) -> None:
        """Add functions under their own names. Raises TypeError if an argument's type has no JSON schema."""
        for function in functions:
            tool = Tool.from_function(function)
            self._functions[tool.name] = function
            self._definitions[tool.name] = _definition(tool)

    def get_function(self, tool_name: str) -> Callable[..., Any]:
        """Raises KeyError for an unknown name."""
        return self._functions[tool_name]

    def get_tool_definitions(self) -> list[ToolDefinition]:
        return list(self._definitions.values())


def _definition(tool: Tool) -> ToolDefinition:
    required = tool.parameters.get("required", ())
    arguments = [
        ToolArgument(name, str(schema.get("type") or json.dumps(schema)), str(schema.get("description", "")), name in required)
        for name, schema in tool.parameters["properties"].items()
    ]
    return ToolDefinition(tool.name, tool.description, tuple(arguments))


def as_tool_registry(registry: Any) -> ToolSource:
    """Return a registry of either kind, or a `Toolbox`, as a ToolSource (row B0-11). Raises TypeError for anything else."""
    if isinstance(registry, Toolbox):
        return ToolboxRegistry(registry)
    if isinstance(registry, ToolboxRegistry | ToolSource):  # the usual one first: a protocol's check looks at every method
        return registry
    if hasattr(registry, "get_function") and hasattr(registry, "get_tool_definitions"):
        return DSPyToolRegistryAdapter(registry)
    raise TypeError(f"no tool registry: {type(registry).__name__} has neither get_tool nor get_function and get_tool_definitions")
