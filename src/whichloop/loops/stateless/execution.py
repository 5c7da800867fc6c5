"""The registry of tools, and their execution: one call or several, in the order that the mode asks for, each under a time limit."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Protocol, runtime_checkable

from whichloop.protocol import StopRun, Tool, Toolbox
from whichloop.protocol import ToolCall as Call
from whichloop.protocol.cancellation import stop_tasks
from whichloop.protocol.redact import logger_of
from whichloop.protocol.values import ATOMS, error_text

from .state import ManagerOptions, ToolCall, ToolResult, stored_value

logger = logger_of(__name__)

MAX_WORKERS = 5
_NOT_FOUND = re.compile(r"\bnot found\b|\b(?:no|0)\b[^.\n]{0,200}\bfound\b")
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

    def get_all_tool_names(self) -> list[str]:
        return list(self.registry._functions)

    def get_all_tool_descriptions(self) -> list[Description]:
        return [
            {
                "name": getattr(definition.name, "value", definition.name),
                "description": definition.description,
                "parameters": [
                    {"name": item.name, "type": item.type, "description": item.description, "required": item.required}
                    for item in definition.arguments or ()
                ],
            }
            for definition in self.registry.get_tool_definitions()
        ]


class MultiToolRegistry:
    """Functions by name, with definitions read off their types and docstrings."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}
        self._definitions: dict[str, Any] = {}

    def register(self, *functions: Callable[..., Any]) -> None:
        """Add functions under their own names. Raises TypeError if an argument's type has no JSON schema."""
        for function in functions:
            tool = Tool.from_function(function)
            required = tool.parameters.get("required", ())
            arguments = []
            for name, schema in tool.parameters["properties"].items():
                kind = str(schema.get("type") or json.dumps(schema))  # the schema itself where one name does not say it
                about = str(schema.get("description", ""))
                arguments.append(SimpleNamespace(name=name, type=kind, description=about, required=name in required))
            self._functions[tool.name] = function
            self._definitions[tool.name] = SimpleNamespace(name=tool.name, description=tool.description, arguments=arguments)

    def get_function(self, tool_name: str) -> Callable[..., Any]:
        """Raises KeyError for an unknown name."""
        return self._functions[tool_name]

    def get_tool_definitions(self) -> list[Any]:
        return list(self._definitions.values())


def as_tool_registry(registry: Any) -> ToolSource:
    """Return a registry of either kind, or a `Toolbox`, as a ToolSource (row B0-11). Raises TypeError for anything else."""
    if isinstance(registry, Toolbox):
        return ToolboxRegistry(registry)
    if isinstance(registry, ToolboxRegistry | ToolSource):  # the usual one first: a protocol's check looks at every method
        return registry
    if hasattr(registry, "get_function") and hasattr(registry, "get_tool_definitions"):
        return DSPyToolRegistryAdapter(registry)
    raise TypeError(f"no tool registry: {type(registry).__name__} has neither get_tool nor get_function and get_tool_definitions")


class ToolExecution:
    """The half of `ActivityManager` that runs tools. Its methods are seams: plain functions or coroutines may override them."""

    priority_order: tuple[str, ...] = ("search", "calculate", "analyze")
    """Tools that run first in selective mode."""
    skip_reason: str = "Primary search already found results"

    def __init__(self, tool_registry: Any, settings: ManagerOptions) -> None:
        """`tool_registry`: a ToolRegistry, a registry with `get_function`, or a Toolbox."""
        self.tool_registry = as_tool_registry(tool_registry)
        self.options = settings

    async def _execute_tools(
        self, tool_calls: list[ToolCall], mode: str = "sequential", parallel_safe: bool = True
    ) -> list[ToolResult]:
        """Execute tools with specified execution mode; results in call order."""
        execute: Any = self._execute_selective if mode == "selective" else self._execute_sequential
        if mode == "parallel" and parallel_safe and len(tool_calls) > 1:
            execute = self._execute_parallel
        results: list[ToolResult] = await settled(execute(tool_calls))
        return results

    async def _execute_sequential(self, tool_calls: list[ToolCall]) -> list[ToolResult]:
        """Execute tools one at a time."""
        return [await self._checked(call) for call in tool_calls]

    async def _execute_parallel(self, tool_calls: list[ToolCall]) -> list[ToolResult]:
        """Execute tools at once, at most five in flight."""
        slots = asyncio.Semaphore(MAX_WORKERS)

        async def one(call: ToolCall) -> ToolResult:
            async with slots:
                return await self._checked(call)

        running = [asyncio.create_task(one(call)) for call in tool_calls]
        try:
            return list(await asyncio.gather(*running))
        except BaseException:
            await stop_tasks(running)
            raise

    async def _execute_selective(self, tool_calls: list[ToolCall]) -> list[ToolResult]:
        """Execute tools by priority; a search that found something spares those that end in `_search` (rows S0-53, B0-5)."""
        order = {name: rank for rank, name in enumerate(self.priority_order)}
        ranked = sorted(range(len(tool_calls)), key=lambda place: order.get(tool_calls[place].tool_name, len(order)))
        results: dict[int, ToolResult] = {}
        has_found = False
        for place in ranked:
            call = tool_calls[place]
            if has_found and call.tool_name.endswith("_search"):
                results[place] = {"tool_name": call.tool_name, "status": "skipped", "reason": self.skip_reason}
                continue
            result = results[place] = await self._checked(call)
            if call.tool_name == "search" and result["status"] == "success":
                has_found = has_found or await settled(self._search_satisfied(result))
        return [result for _, result in sorted(results.items())]

    async def _checked(self, call: ToolCall) -> ToolResult:
        """Run one call if it is valid. What the hooks raise is an error of the call (row S0-52)."""
        try:
            if not await settled(self._validate_tool_call(call)):
                await settled(self._log_validation_failure(call))
                return _failure(call, "the call was refused by validation", "ValidationError")
            result: ToolResult = await settled(self._execute_single_tool(call))
        except StopRun:
            raise
        except Exception as error:
            return _failure(call, error_text(error), "ExecutionError")
        return result

    async def _execute_single_tool(self, tool_call: ToolCall) -> ToolResult:
        """Run one call under the time limit; whatever the tool does is a result in the shapes of `ToolResult`."""
        try:
            function = self.tool_registry.get_tool(tool_call.tool_name)
        except Exception as error:  # the registry is the user's
            return _failure(tool_call, error_text(error), type(error).__name__)
        if isinstance(self.tool_registry, ToolboxRegistry):
            toolbox = self.tool_registry.toolbox
        else:
            toolbox = Toolbox([Tool(tool_call.tool_name, "", {"type": "object"}, function)])
        limited = self.options.configured_tools(toolbox, at_once=self.options.execution_mode == "parallel")
        call = Call(tool_call.tool_name, tool_call.parameters)
        seen = await limited.call(call, validate=False)  # the arguments are passed on as they are
        if not seen.ok:
            return _failure(tool_call, seen.data, seen.error_type or "Error")
        result = {
            "tool_name": tool_call.tool_name,
            "status": "success",
            "result": stored_value(seen),
            "execution_time": seen.seconds,
        }
        cut = {} if seen.max_chars is None else {"max_chars": seen.max_chars}
        return {**result, "parameters": tool_call.parameters, **cut}

    # --- hooks: none calls a model ---

    def _validate_tool_call(self, tool_call: ToolCall) -> Any:
        """Return whether a call may run."""
        return True

    def _log_validation_failure(self, tool_call: ToolCall) -> Any:
        logger.info("call of %s refused by validation", tool_call.tool_name)

    def _search_satisfied(self, result: ToolResult) -> Any:
        """Return whether a search's result says that something was found, which "not found" does not (row B0-25)."""
        text = str(result.get("result", "")).lower()
        return "found" in text and not _NOT_FOUND.search(text)


async def settled(value: Any) -> Any:
    """Return the value of a hook, whether it is a plain function or a coroutine."""
    return await value if type(value) not in ATOMS and inspect.isawaitable(value) else value


def _failure(call: ToolCall, error: str, error_type: str) -> ToolResult:
    failed = {"tool_name": call.tool_name, "status": "error", "error": error, "error_type": error_type}
    return failed | {"parameters": call.parameters}
