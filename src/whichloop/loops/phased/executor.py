"""The tools of a task: the model picks calls just in time, and the ToolExecutor makes them together (rows S1-6 to S1-15).

`AgentTools` is the layout without an executor: calls in sequence, each with a summary (rows S1-37 to S1-41).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar, NotRequired, TypedDict, TypeVar

from whichloop.loops.shared.option_checks import ToolSettings
from whichloop.protocol import SILENT, Observer, Program, Reply, StopRun, Tool, Toolbox, ToolCall, render_value
from whichloop.protocol.cancellation import ended_before, stop_tasks
from whichloop.protocol.model import Model, ModelError, Request, WrappedModel
from whichloop.protocol.moves import Act, Understanding
from whichloop.protocol.redact import logger_of
from whichloop.protocol.values import cap

from .codecs import SELECT, SUMMARIZE
from .prompts import ask, format_tool, paragraphs, predictors_of, sections, understanding_text
from .state import (
    PhaseTask,
    PhaseToolCall,
    Scratchpad,
    TaskStatus,
    ToolCallStatus,
    ToolContextManager,
    ToolExecutorCallbacks,
    notify,
)

logger = logger_of(__name__)
T = TypeVar("T")
Calls = Sequence[tuple[int, ToolCallStatus]]
"""Calls and their places in their task."""
CANCELLED = "cancelled"

# --- what ends a run early ---


@dataclass(slots=True)
class RunEnd:
    """The end of a run: its token is set, or something has failed in concurrent work."""

    token: asyncio.Event | None = None
    cause: BaseException | None = None
    """The first failure."""

    def checkpoint(self) -> None:
        """Raise CancelledError or the cause once the run is over."""
        checkpoint(self.token)
        if self.cause is not None:
            raise self.cause


class StoppableModel(WrappedModel):
    """A model that takes no further request once the run is over: no task makes one more call while its neighbours end."""

    def __init__(self, model: Model, ending: RunEnd) -> None:
        super().__init__(model)
        self._ending = ending

    async def complete(self, request: Request) -> Reply:
        self._ending.checkpoint()
        try:
            return await self.model.complete(request)
        except BaseException as error:
            self._ending.cause = self._ending.cause or error
            raise


def checkpoint(token: asyncio.Event | None) -> None:
    """Raise CancelledError once the token is set: it is looked at before all calls, before each and after each (row S1-10)."""
    if token is not None and token.is_set():
        raise asyncio.CancelledError("the cancellation token is set")


async def unless_set(token: asyncio.Event | None, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; once the token is set, cancel it and raise CancelledError."""
    if token is None:
        return await work
    finished = await ended_before(token, work)
    if finished is None:
        raise asyncio.CancelledError("the cancellation token is set")
    return finished.result()


async def next_ended(tasks: Collection[asyncio.Task[Any]]) -> bool:
    """Wait until one more of these has ended. Return False where all had; raise what has ended one."""
    running = [task for task in tasks if not task.done()]
    if running:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task.done():
            task.result()
    return bool(running)


# --- tools in any form ---


def as_tool(tool: Any) -> Tool:
    """Return a tool of a Tool, a typed function, or anything with name, description, args_schema and ainvoke or invoke."""

    async def ainvoke(**arguments: Any) -> Any:
        return await tool.ainvoke(arguments)

    def invoke(**arguments: Any) -> Any:  # a plain function: the toolbox runs it off the event loop
        return tool.invoke(arguments)

    if isinstance(tool, Tool):
        return tool
    if isinstance(getattr(tool, "name", None), str) and (hasattr(tool, "ainvoke") or hasattr(tool, "invoke")):
        schema: Any = getattr(tool, "args_schema", None)
        if hasattr(schema, "model_json_schema"):
            schema = schema.model_json_schema()
        call = ainvoke if hasattr(tool, "ainvoke") else invoke
        description = str(getattr(tool, "description", None) or "")
        return Tool(tool.name, description, schema if isinstance(schema, Mapping) else {"type": "object"}, call)
    if callable(tool):
        return Tool.from_function(tool)
    raise TypeError(f"a {type(tool).__name__} is not a tool: it needs name, description, args_schema, and ainvoke or invoke")


def get_tools(model: str | None = None) -> list[Tool]:
    """Return the tools of the document's usage example: two sums to try an executor with, the same for every `model`."""

    def add(a: float, b: float) -> float:
        """Add two numbers."""
        return a + b

    def multiply(a: float, b: float) -> float:
        """Multiply two numbers."""
        return a * b

    return [Tool.from_function(function, blocking=False) for function in (add, multiply)]


# --- the executor ---


@dataclass(frozen=True, slots=True)
class ToolExecutorOptions(ToolSettings):
    """The options of an executor. Raises ValueError for a limit that lets nothing through."""

    tools: Toolbox | Sequence[Any]
    """A toolbox, or tools in any form (row S1-32)."""
    context_manager: ToolContextManager = field(default_factory=ToolContextManager)
    """Where results are kept."""
    model: Model | None = None
    """The model that picks the tools and summarizes results; execution alone needs no model."""
    cancel_grace_s: float = 5.0
    """Seconds that tools in threads are waited for once the token is set."""
    observer: Observer = SILENT
    select_model: Model | None = None
    """A smaller model that picks the tools instead of `model`."""
    program: Program | None = None
    """Instructions and demonstrations in place of the design's own."""


class ToolExecutor:
    """Picks a task's tool calls, makes them at the same time, and keeps their results. Usable without any agent.

    It keeps no state of a run, so several agents may share one.
    """

    in_sequence: ClassVar[bool] = False

    def __init__(self, options: ToolExecutorOptions) -> None:
        """Raises TypeError for what is no tool, ValueError if two share a name."""
        self.options = options
        tools = options.tools if isinstance(options.tools, Toolbox) else Toolbox(map(as_tool, options.tools))
        self.toolbox = options.configured_tools(tools, at_once=True)
        self.predictors = predictors_of(options.program)

    async def select_tools(self, task: PhaseTask, understanding: Understanding | None) -> list[ToolCallStatus]:
        """Return the calls that the model picks for a task from `task.context`; an empty list if it needs no tool.

        Raises ValueError without a model, WireError for an unreadable reply, ModelError if there is no reply.
        """
        model = self.options.select_model or self.options.model
        if model is None:
            raise ValueError("select_tools needs a model: ToolExecutorOptions(tools, context_manager, model)")
        about = sections(("Understanding", understanding_text(understanding)), ("Task", task.description))
        tools = f"Tools:\n{self._format_tool_descriptions()}"
        text, scope = paragraphs(task.context, about), task.scope or task.id
        _, reply = await ask(self.predictors["select"], model, SELECT, text, tools, tools=self.toolbox.specs, scope=scope)
        return [ToolCallStatus(call.tool, call.args) for call in self._extract_tool_calls(reply)]

    def format_tool(self, tool: Tool) -> str:
        """Return the text of one tool that the model reads."""
        return format_tool(tool)

    def _format_tool_descriptions(self) -> str:
        return "\n".join([self.format_tool(tool) for tool in self.toolbox])

    def _extract_tool_calls(self, response: Reply) -> list[PhaseToolCall]:
        """Return the calls of a reply; prose has none. Raises WireError for calls that cannot be read."""
        move = SELECT.parse(response)
        return [PhaseToolCall(call.name, call.arguments) for call in move.calls] if isinstance(move, Act) else []

    async def execute_tools(
        self,
        task: PhaseTask,
        query_id: str,
        callbacks: ToolExecutorCallbacks | None = None,
        cancellation_token: asyncio.Event | None = None,
    ) -> bool:
        """Run `task.toolCalls`. Return True iff every call is COMPLETED; a call that fails does not stop the others.

        Raises CancelledError once the token is set: what ran is kept, what had not returned is FAILED "cancelled", and nothing is
        left running but threads that outlast `cancel_grace_s`.
        """
        token = cancellation_token
        checkpoint(token)
        calls = list(enumerate(task.toolCalls or ()))
        groups = [calls] if self.in_sequence else [[call] for call in calls]
        running = {asyncio.create_task(self._in_turn(task, group, query_id, callbacks, token)): group for group in groups}
        try:
            await unless_set(token, self._finish(running, token))
        except asyncio.CancelledError:
            for _, call in calls:
                if call.error == CANCELLED and self._in_thread(call):
                    logger.info("%s is still running in its thread; its result is dropped", call.tool)
                    self.options.observer.note("abandoned", tool=call.tool, task=task.id)
            raise
        return all(call.status is TaskStatus.COMPLETED for _, call in calls)

    async def _in_turn(
        self, task: PhaseTask, group: Calls, query_id: str, callbacks: ToolExecutorCallbacks | None, token: asyncio.Event | None
    ) -> None:
        """Make calls, and tell of each that it is IN_PROGRESS and, once, whatever ends it, what has become of it (row B1-12)."""
        scratchpad = Scratchpad()
        update = (callbacks or ToolExecutorCallbacks()).on_tool_call_update
        for place, call in group:
            checkpoint(token)
            call.status, call.output, call.error = TaskStatus.IN_PROGRESS, None, None
            notify(update, task.id, place, call.status, None, None)
            try:
                await self._make(task, call, query_id, scratchpad)
            except BaseException as error:
                call.error = CANCELLED if isinstance(error, asyncio.CancelledError) else f"{type(error).__name__}: {error}"
                raise
            finally:
                has_result = call.output is not None  # though its summary was cut off: the tool did run (row B1-6)
                call.status = TaskStatus.COMPLETED if has_result else TaskStatus.FAILED
                call.error = None if has_result else call.error or "no result"
                notify(update, task.id, place, call.status, call.output, call.error)
            checkpoint(token)

    async def _finish(self, running: Mapping[asyncio.Task[None], Calls], token: asyncio.Event | None) -> None:
        """Wait for work on calls. The first failure ends all of it, and so does a cancellation: a set token grants threads time."""
        try:
            while await next_ended(running):
                pass
        except asyncio.CancelledError:
            if token is not None and token.is_set():
                threads = [work for work, calls in running.items() if any(self._in_thread(call) for _, call in calls)]
                await stop_tasks(work for work in running if work not in threads)
                if threads:
                    await asyncio.wait(threads, timeout=self.options.cancel_grace_s)
            raise
        finally:
            await stop_tasks(running)

    def _in_thread(self, call: ToolCallStatus) -> bool:
        """Return whether a call that has no result runs in a thread, which no cancellation can stop."""
        tool = self.toolbox.get(call.tool)
        is_open = call.status is TaskStatus.IN_PROGRESS or call.error == CANCELLED
        return is_open and tool is not None and self.toolbox.in_thread(tool)

    async def _make(self, task: PhaseTask, call: ToolCallStatus, query_id: str, scratchpad: Scratchpad) -> None:
        """Make a call, and set its output or its error. `scratchpad`: of the calls before it."""
        seen = await self.toolbox.call(ToolCall(call.tool, call.args))
        if seen.ok:
            call.max_chars = seen.max_chars
            keep(self.options.context_manager, task, call, seen.whole, query_id)
        else:
            call.error = f"{seen.error_type}: {seen.data}"


def keep(contexts: ToolContextManager, task: PhaseTask, call: ToolCallStatus, output: str | None, query_id: str) -> None:
    """Save a call's output, and note it with its pointer."""
    try:
        call.pointer = contexts.save(call.tool, call.args, output, task.id, query_id)
    except OSError as error:  # a full disk must not lose the result of a call that ran
        logger.warning("the result of %s could not be kept: %s", call.tool, error)
    call.output = output


# --- the layout without an executor ---

_SCOPE: ContextVar[str] = ContextVar("phased_scope", default="")
"""Scope of the task whose calls run, as summaries of different tasks are requested at the same time."""


class AgentEvent(TypedDict):
    """One event of `execute_tool_calls`: `tool_start`, then `tool_end` or `tool_error`."""

    type: str
    tool: str
    id: str
    error: NotRequired[str]


class AgentTools(ToolExecutor):
    """An agent's own way with tools. It stands in for an executor; the context manager stays an object of its own."""

    in_sequence = True

    def __init__(self, options: ToolExecutorOptions) -> None:
        super().__init__(options)
        self.tools = list(options.tools)
        self.tool_map = dict(zip(self.toolbox.names, self.tools, strict=True))

    async def execute_tool_call(self, tool_name: str, tool_args: Mapping[str, Any], query: str, scratchpad: Scratchpad) -> None:
        """Run one tool and add its result, as text, and a summary to the scratchpad.

        Raises ValueError for an unknown tool, RuntimeError for one that fails, ModelError if there is no summary.
        """
        seen = await self.toolbox.call(ToolCall(tool_name, tool_args))
        if seen.error_type == "UnknownTool":
            raise ValueError(f"Tool '{tool_name}' not found")
        if not seen.ok:
            raise RuntimeError(f"{seen.error_type}: {seen.data}")
        context = f"{query}\n\nResults of this task so far:\n{scratchpad.text}" if scratchpad.entries else query
        try:
            summary = await self.summarize_tool_result(context, tool_name, tool_args, seen.whole)
        except (asyncio.CancelledError, StopRun, ModelError):  # the run ends, but the tool did run (row B1-6)
            scratchpad.add_tool_result(tool_name, tool_args, seen.whole, "", max_chars=seen.max_chars)
            raise
        scratchpad.add_tool_result(tool_name, tool_args, seen.whole, summary, max_chars=seen.max_chars)

    async def execute_tool_calls(self, response: Any, query: str, scratchpad: Scratchpad) -> AsyncGenerator[AgentEvent, None]:
        """Run `response.tool_calls` one after the other; an error is an event and an entry of the scratchpad, and it goes on.

        A call is anything with name, args and perhaps id, as attributes or as keys, such as langchain's.
        """
        for index, call in enumerate(response.tool_calls):
            read = call if isinstance(call, Mapping) else {name: getattr(call, name, None) for name in ("name", "args", "id")}
            name, args, call_id = str(read["name"]), read.get("args") or {}, str(read.get("id") or f"call_{index}")
            yield {"type": "tool_start", "tool": name, "id": call_id}
            try:
                await self.execute_tool_call(name, args, query, scratchpad)
            except (StopRun, ModelError):
                raise
            except Exception as error:  # of a tool, or of a subclass's own method: the other calls go on (row S1-37)
                scratchpad.entries.append(ToolCallStatus(name, args, TaskStatus.FAILED, error=str(error)))
                yield {"type": "tool_error", "error": str(error), "tool": name, "id": call_id}
            else:
                yield {"type": "tool_end", "tool": name, "id": call_id}

    async def summarize_tool_result(self, query: str, tool_name: str, tool_args: Mapping[str, Any], result: Any) -> str:
        """Return the model's summary of a result. Raises ValueError without a model, ModelError if there is no reply."""
        if self.options.model is None:
            raise ValueError("summarize_tool_result needs a model: Agent(tools, model)")
        tool = self.toolbox.get(tool_name)
        most = self.toolbox.max_chars if tool is None or tool.max_chars is None else tool.max_chars
        shown = f"{ToolCallStatus(tool_name, tool_args)}:\n{cap(render_value(result), most)}"
        text = sections(("Query", query), ("Result", shown))
        move, _ = await ask(self.predictors["summarize"], self.options.model, SUMMARIZE, text, scope=_SCOPE.get())
        return str(move.text)

    async def _make(self, task: PhaseTask, call: ToolCallStatus, query_id: str, scratchpad: Scratchpad) -> None:
        _SCOPE.set(task.scope or task.id)  # of this asyncio task only
        response = SimpleNamespace(tool_calls=[{"name": call.tool, "args": call.args}])
        known = len(scratchpad.entries)
        try:
            async for _ in self.execute_tool_calls(response, task.context or task.description, scratchpad):
                pass
        finally:
            for entry in scratchpad.entries[known:]:
                call.error, call.summary, call.max_chars = entry.error, entry.summary, entry.max_chars
                if entry.output is not None:
                    keep(self.options.context_manager, task, call, entry.output, query_id)
