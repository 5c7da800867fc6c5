"""The execution of tools: one call or several, in the order that the mode asks for, each under a time limit.

Rows such as B0-11 are those of docs/conformance.md.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any

from whichloop.protocol import StopRun, Tool, Toolbox
from whichloop.protocol import ToolCall as Call
from whichloop.protocol.cancellation import stop_tasks
from whichloop.protocol.redact import logger_of
from whichloop.protocol.threads import run_blocking
from whichloop.protocol.values import ATOMS, error_text

from .history import stored_value
from .registry import ToolboxRegistry, as_tool_registry
from .state import ExecutionMode, ManagerOptions, ToolCall, ToolResult

logger = logger_of(__name__)

MAX_WORKERS = 5
"""Calls in flight at once."""


class ToolExecution:
    """The half of `ActivityManager` that runs tools. Its methods are seams: plain functions or coroutines may override them."""

    priority_order: tuple[str, ...] = ("search", "calculate", "analyze")
    """Tools that run first in selective mode."""
    skip_reason: str = "Primary search already found results"

    def __init__(self, tool_registry: Any, settings: ManagerOptions) -> None:
        """`tool_registry`: a ToolRegistry, a registry with `get_function`, or a Toolbox."""
        self.tool_registry = as_tool_registry(tool_registry)
        self.options = settings

    @cached_property
    def executor(self) -> ThreadPoolExecutor:
        """Five threads for subclasses that submit calls to them, as the document's manager does (row B0-11); nothing here does."""
        return _CallThreads(MAX_WORKERS, "tools")

    async def _execute_tools(
        self, tool_calls: list[ToolCall], mode: ExecutionMode = "sequential", parallel_safe: bool = True
    ) -> list[ToolResult]:
        """Execute tools with specified execution mode; results in call order."""
        if mode == "parallel" and parallel_safe and len(tool_calls) > 1:
            execution = self._execute_parallel(tool_calls)
        elif mode == "selective":
            execution = self._execute_selective(tool_calls)
        else:
            execution = self._execute_sequential(tool_calls)
        results: list[ToolResult] = await settled(execution)
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
        return [results[place] for place in range(len(tool_calls))]

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
        at_once = self.options.execution_mode == "parallel"
        call = Call(tool_call.tool_name, tool_call.parameters)
        seen = await self.options.configured_tools(toolbox, at_once=at_once).call(
            call, validate=False
        )  # the arguments are passed on as they are
        if not seen.ok:
            return _failure(tool_call, seen.data, seen.error_type or "Error")
        cut = {} if seen.max_chars is None else {"max_chars": seen.max_chars}
        return {
            "tool_name": tool_call.tool_name,
            "status": "success",
            "result": stored_value(seen),
            "execution_time": seen.seconds,
            "parameters": tool_call.parameters,
        } | cut

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


_NOT_FOUND = re.compile(r"\bnot found\b|\b(?:no|0)\b[^.\n]{0,200}\bfound\b")


class _CallThreads(ThreadPoolExecutor):
    """Threads on which a coroutine, such as `_execute_single_tool` makes, is run to its end."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(_to_its_end, fn, *args, **kwargs)


def _to_its_end(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return run_blocking(settled(function(*args, **kwargs)))


async def settled(value: Any) -> Any:
    """Return the value of a hook, whether it is a plain function or a coroutine."""
    return await value if type(value) not in ATOMS and inspect.isawaitable(value) else value


def _failure(call: ToolCall, error: str, error_type: str) -> ToolResult:
    return {
        "tool_name": call.tool_name,
        "status": "error",
        "error": error,
        "error_type": error_type,
        "parameters": call.parameters,
    }
