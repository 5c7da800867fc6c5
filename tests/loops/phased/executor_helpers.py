"""What the tests of executor and agent share: tools, listeners, and an executor made for a test."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from pydantic import BaseModel

from whichloop.loops.phased import (
    PhaseTask,
    TaskStatus,
    ToolCallStatus,
    ToolExecutor,
    ToolExecutorCallbacks,
    ToolExecutorOptions,
)
from whichloop.protocol import (
    Tool,
    run_sync,
)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail(text: str = "no") -> None:
    """Always fails."""
    raise ValueError(text)


class UpdateLog(ToolExecutorCallbacks):
    """Keeps every update."""

    def __init__(self) -> None:
        self.updates: list[tuple[int, str, str | None, str | None]] = []

    def on_tool_call_update(
        self, task_id: str, tool_index: int, status: TaskStatus, output: str | None = None, error: str | None = None
    ) -> None:
        self.updates.append((tool_index, str(status), output, error))


def pure(*functions: Callable[..., Any]) -> list[Tool]:
    return [Tool.from_function(function, blocking=False) for function in functions]


def executor(*functions: Callable[..., Any], **options: Any) -> ToolExecutor:
    return ToolExecutor(ToolExecutorOptions(pure(*(functions or (add, fail))), **options))


def task(*calls: tuple[str, dict[str, Any]], name: str = "t1") -> PhaseTask:
    return PhaseTask(name, "Do it.", toolCalls=[ToolCallStatus(tool, args) for tool, args in calls])


def execute(made: Any, *args: Any, **kwargs: Any) -> bool:
    return bool(run_sync(made.execute_tools(*args, **kwargs)))


async def asyncio_limit(work: Coroutine[Any, Any, Any]) -> Any:
    """A dead lock is a failure, not a hang."""
    async with asyncio.timeout(20):
        return await work


class Args(BaseModel):
    x: int


@dataclasses.dataclass
class Sync:
    """As langchain makes a tool, without ainvoke."""

    name: str = "double"
    description: str = "Doubles x."
    args_schema: Any = Args
    thread: int = 0

    def invoke(self, args: dict[str, Any]) -> Any:
        self.thread = threading.get_ident()
        return 2 * args["x"]


class Async(Sync):
    async def ainvoke(self, args: dict[str, Any]) -> Any:
        return 3 * args["x"]
