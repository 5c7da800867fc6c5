"""The ToolExecutor: the model picks a task's tools just in time, and they run together (rows S1-6 to S1-15).

Rows such as S1-6 are those of docs/conformance.md.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from whichloop.loops.shared.option_checks import ToolSettings
from whichloop.protocol import SILENT, Act, Model, Observer, Program, Reply, Tool, Toolbox, ToolCall, Understanding
from whichloop.protocol.redact import logger_of

from .codecs import SELECT
from .context import ToolContextManager
from .prompts import SELECT_TOOLS, format_tool, paragraphs, predictors_of, request_of, sections, understanding_text
from .state import PhaseTask, PhaseToolCall, TaskStatus, ToolCallStatus, ToolExecutorCallbacks, checkpoint, finish_together, notify


def as_toolbox(tools: Toolbox | Iterable[Any]) -> Toolbox:
    """Return tools of any form as one toolbox. Raises TypeError for anything else, ValueError if two share a name."""
    return tools if isinstance(tools, Toolbox) else Toolbox(as_tool(tool) for tool in tools)


def as_tool(tool: Any) -> Tool:
    """Return a tool of a Tool, a typed function, or anything with name, description, args_schema and ainvoke or invoke."""
    if isinstance(tool, Tool):
        return tool
    call = _async_call(tool) if hasattr(tool, "ainvoke") else _sync_call(tool) if hasattr(tool, "invoke") else None
    if call is not None and isinstance(getattr(tool, "name", None), str):
        return Tool(tool.name, str(getattr(tool, "description", "") or ""), _schema(tool), call)
    if callable(tool):
        return Tool.from_function(tool)
    raise TypeError(f"a {type(tool).__name__} is not a tool: it needs name, description, args_schema, and ainvoke or invoke")


def _async_call(tool: Any) -> Callable[..., Any]:
    async def ainvoke(**arguments: Any) -> Any:
        result = tool.ainvoke(arguments)
        return await result if inspect.isawaitable(result) else result

    return ainvoke


def _sync_call(tool: Any) -> Callable[..., Any]:
    def invoke(**arguments: Any) -> Any:  # a plain function: the toolbox runs it off the event loop
        return tool.invoke(arguments)

    return invoke


def _schema(tool: Any) -> Mapping[str, Any]:
    """Return the JSON schema of the arguments, from a pydantic model or a schema."""
    args_schema = getattr(tool, "args_schema", None)
    if args_schema is not None and hasattr(args_schema, "model_json_schema"):
        json_schema: Mapping[str, Any] = args_schema.model_json_schema()
        return json_schema
    return args_schema if isinstance(args_schema, Mapping) else {"type": "object"}


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


def get_tools(model: str | None = None) -> list[Tool]:
    """Return the tools of the document's usage example: two sums to try an executor with, the same for every `model`."""
    return [Tool.from_function(function, blocking=False) for function in (add, multiply)]


CANCELLED = "cancelled"

logger = logger_of(__name__)


class Executor(Protocol):
    """What the phases need of an executor, which may be any object (row S1-34). The token is passed only if the run has one."""

    async def select_tools(self, task: PhaseTask, understanding: Understanding | None) -> list[ToolCallStatus]: ...

    async def execute_tools(
        self,
        task: PhaseTask,
        query_id: str,
        callbacks: ToolExecutorCallbacks | None = None,
        cancellation_token: asyncio.Event | None = None,
    ) -> bool: ...


@dataclass(frozen=True, slots=True)
class ToolExecutorOptions(ToolSettings):
    """The options of an executor. Raises ValueError for a limit that lets nothing through."""

    tools: Toolbox | Sequence[Any]
    """A toolbox, or tools in any form (row S1-32)."""
    context_manager: ToolContextManager = field(default_factory=ToolContextManager)
    """Where results are kept."""
    model: Model | None = None
    """The model that picks the tools and summarizes results; execution alone needs no model."""
    prompts: Mapping[str, str] | None = None
    """Texts that replace the default ones."""
    cancel_grace_s: float = 5.0
    """Seconds that tools in threads are waited for once the token is set."""
    observer: Observer = SILENT
    select_model: Model | None = None
    """A smaller model that picks the tools instead of `model`."""
    program: Program | None = None
    """Instructions and demonstrations instead of `prompts`."""


class ToolSelector:
    """The common half of executor and agent: tools, their descriptions, and the choice among them."""

    def __init__(self, options: ToolExecutorOptions) -> None:
        self.options = options
        self.toolbox = options.configured_tools(as_toolbox(options.tools), at_once=True)
        self.predictors = predictors_of(options.prompts, options.program)

    async def select_tools(self, task: PhaseTask, understanding: Understanding | None) -> list[ToolCallStatus]:
        """Return the calls that the model picks for a task from `task.context`; an empty list if it needs no tool.

        Raises ValueError without a model, WireError for an unreadable reply, ModelError if there is no reply.
        """
        model = self.options.select_model or self.options.model
        if model is None:
            raise ValueError("select_tools needs a model: ToolExecutorOptions(tools, context_manager, model)")
        tools = f"Tools:\n{self._format_tool_descriptions()}"
        prompt_text = paragraphs(
            task.context, sections(("Understanding", understanding_text(understanding)), ("Task", task.description))
        )
        select = self.predictors[SELECT_TOOLS]
        request = request_of(select, prompt_text, SELECT, tools, tools=self.toolbox.specs, scope=task.request_scope)
        reply = await model.complete(request)
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

    def _in_thread(self, tool_name: str) -> bool:
        """Return whether a tool runs in a thread, which no cancellation can stop."""
        tool = self.toolbox.get(tool_name)
        return tool is not None and self.toolbox.in_thread(tool)

    def _keep(self, task: PhaseTask, call: ToolCallStatus, output: str, max_chars: int | None, query_id: str) -> None:
        call.output, call.max_chars = output, max_chars
        keep(self.options.context_manager, task, call, query_id, self.options.observer)

    async def _finish(
        self, task: PhaseTask, running: Mapping[asyncio.Task[None], Sequence[ToolCallStatus]], token: asyncio.Event | None
    ) -> bool:
        """Wait for work on a task's calls. Return True iff every call is COMPLETED. `running`: work → the calls that it makes."""

        def threaded(calls: Sequence[ToolCallStatus]) -> bool:
            return any(call.status is TaskStatus.IN_PROGRESS and self._in_thread(call.tool) for call in calls)

        try:
            work = {name: partial(threaded, calls) for name, calls in running.items()}
            await finish_together(work, token, self.options.cancel_grace_s)
        except asyncio.CancelledError:
            self._note_abandoned(task)
            raise
        return all(call.status is TaskStatus.COMPLETED for calls in running.values() for call in calls)

    def _note_abandoned(self, task: PhaseTask) -> None:
        """Log and note the threads that outlive a cancelled task."""
        for call in task.toolCalls or ():
            if call.error == CANCELLED and self._in_thread(call.tool):
                logger.info("%s is still running in its thread; its result is dropped", call.tool)
                self.options.observer.note("abandoned", tool=call.tool, task=task.id)


class ToolExecutor(ToolSelector):
    """Runs a task's tool calls at the same time, keeps their results, and can be cancelled. Usable without any agent.

    It keeps no state of a run, so several agents may share one.
    """

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
        checkpoint(cancellation_token)
        calls = task.toolCalls or []
        listener = callbacks or ToolExecutorCallbacks()

        async def one(index: int, call: ToolCallStatus) -> None:
            checkpoint(cancellation_token)
            with CallReport(task, index, call, listener) as report:
                seen = await self.toolbox.call(ToolCall(call.tool, call.args))
                if seen.ok:  # kept even where the token was set meanwhile: the tool did run (row B1-6)
                    self._keep(task, call, seen.whole, seen.max_chars, query_id)
                    report.set_status(TaskStatus.COMPLETED)
                else:
                    call.error = f"{seen.error_type}: {seen.data}"
                    report.set_status(TaskStatus.FAILED)
            checkpoint(cancellation_token)

        running = {asyncio.create_task(one(index, call)): [call] for index, call in enumerate(calls)}
        return await self._finish(task, running, cancellation_token)


def keep(contexts: ToolContextManager, task: PhaseTask, call: ToolCallStatus, query_id: str, observer: Observer) -> None:
    """Save a call's output and note its pointer."""
    try:
        call.pointer = contexts.save(call.tool, call.args, call.output, task.id, query_id)
    except OSError as error:  # a full disk must not lose the result of a call that ran
        logger.warning("the result of %s could not be kept: %s", call.tool, error)
        observer.note("not_kept", tool=call.tool, task=task.id, error=str(error))


class CallReport:
    """A call that is IN_PROGRESS while the block runs, and gets exactly one last update, whatever ends the block (row B1-12)."""

    def __init__(self, task: PhaseTask, index: int, call: ToolCallStatus, callbacks: ToolExecutorCallbacks) -> None:
        self._task = task
        self._index = index
        self._call = call
        self._callbacks = callbacks

    def __enter__(self) -> CallReport:
        self._call.output = self._call.error = None  # of an earlier execution
        self.set_status(TaskStatus.IN_PROGRESS)
        return self

    def set_status(self, status: TaskStatus) -> None:
        """Set the call's status and tell the listener."""
        call = self._call
        call.status = status
        notify(self._callbacks.on_tool_call_update, self._task.id, self._index, status, call.output, call.error)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._call.status is not TaskStatus.IN_PROGRESS:
            return
        if error is None:
            self._call.error = "no result"
        else:
            cancelled = isinstance(error, asyncio.CancelledError)
            self._call.error = CANCELLED if cancelled else f"{type(error).__name__}: {error}"
        self.set_status(TaskStatus.FAILED)
