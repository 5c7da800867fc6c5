"""Design 1: understand, then rounds of plan, execute and reflect, then answer; tools run in an executor of their own.

The docstring of the package (`__init__.py`) follows a run from the top. Rows such as S1-39 are those of docs/conformance.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NotRequired, Self, TypedDict

from whichloop.loops.shared.boundary import bounded
from whichloop.loops.shared.option_checks import checked_options
from whichloop.protocol import (
    SILENT,
    AnswerT,
    Model,
    ModelError,
    Observer,
    Outcome,
    Program,
    Query,
    RunsSync,
    StopReason,
    StopRun,
    TakesProgram,
    Toolbox,
    ToolCall,
    render_value,
)
from whichloop.protocol.program import repr_with_program
from whichloop.protocol.values import cap

from .codecs import SUMMARIZE
from .context import Scratchpad, ScratchpadEntry, ToolContextManager
from .executor import CallReport, ToolExecutor, ToolExecutorOptions, ToolSelector
from .phases import PhasedRun
from .prompts import SELECT_TOOLS, SUMMARIZE_PROMPT, call_text, program_of, request_of, sections
from .run import PhasedOptions, RunInputs
from .state import PhaseTask, RunEnd, StoppableModel, TaskStatus, ToolCallStatus, ToolExecutorCallbacks, checkpoint

_SCOPE: ContextVar[str] = ContextVar("phased_scope", default="")
"""Scope of the task whose calls run, as summaries of different tasks are requested at the same time."""


_MAX_CHARS: ContextVar[int | None] = ContextVar("phased_max_chars", default=None)
"""Characters of the result under summary that its prompt shows."""


class AgentEvent(TypedDict):
    """One event of `execute_tool_calls`: `tool_start`, then `tool_end` or `tool_error`."""

    type: str
    tool: str
    id: str
    error: NotRequired[str]


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A call in a model's message."""

    id: str
    name: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AIMessage:
    """A model's message with tool calls; langchain's serves as well."""

    tool_calls: tuple[RequestedCall, ...]


class ToolFailed(Exception):
    """A tool gave an error instead of a result."""


class AgentTools(ToolSelector):
    """An agent's own way with tools. It stands in for an executor; the context manager stays an object of its own.

    It keeps no state of a run.
    """

    def __init__(self, options: ToolExecutorOptions) -> None:
        super().__init__(options)
        self.tools = list(options.tools)
        own = self.toolbox if isinstance(options.tools, Toolbox) else options.tools
        self.tool_map = dict(zip(self.toolbox.names, own, strict=True))

    async def execute_tool_call(self, tool_name: str, tool_args: Mapping[str, Any], query: str, scratchpad: Scratchpad) -> None:
        """Run one tool and add its result, as text, and a summary to the scratchpad.

        Raises ValueError for an unknown tool, ToolFailed for one that fails, ModelError if there is no summary.
        """
        seen = await self.toolbox.call(ToolCall(tool_name, tool_args))
        if seen.error_type == "UnknownTool":
            raise ValueError(f"Tool '{tool_name}' not found")
        if not seen.ok:
            raise ToolFailed(f"{seen.error_type}: {seen.data}")
        context = f"{query}\n\nResults of this task so far:\n{scratchpad.text}" if scratchpad.entries else query
        before = _MAX_CHARS.set(seen.max_chars)
        try:
            summary = await self.summarize_tool_result(context, tool_name, tool_args, seen.whole)
        except (asyncio.CancelledError, StopRun, ModelError):  # the run ends, but the tool did run (row B1-6)
            scratchpad.add_tool_result(tool_name, tool_args, seen.whole, "", max_chars=seen.max_chars)
            raise
        finally:
            _MAX_CHARS.reset(before)
        scratchpad.add_tool_result(tool_name, tool_args, seen.whole, summary, max_chars=seen.max_chars)

    async def execute_tool_calls(self, response: Any, query: str, scratchpad: Scratchpad) -> AsyncGenerator[AgentEvent, None]:
        """Run `response.tool_calls` one after the other; an error is an event and an entry of the scratchpad, and it goes on.

        A call is anything with name, args and perhaps id, as attributes or as keys.
        """
        for index, call in enumerate(response.tool_calls):
            requested = _requested(call, index)
            yield {"type": "tool_start", "tool": requested.name, "id": requested.id}
            try:
                await self.execute_tool_call(requested.name, requested.args, query, scratchpad)
            except (StopRun, ModelError):
                raise
            except Exception as error:  # of a tool, or of a subclass's own method: the other calls go on (row S1-37)
                scratchpad.add_tool_error(requested.name, requested.args, str(error))
                yield {"type": "tool_error", "error": str(error), "tool": requested.name, "id": requested.id}
            else:
                yield {"type": "tool_end", "tool": requested.name, "id": requested.id}

    async def summarize_tool_result(self, query: str, tool_name: str, tool_args: Mapping[str, Any], result: Any) -> str:
        """Return the model's summary of a result. Raises ValueError without a model, ModelError if there is no reply."""
        if self.options.model is None:
            raise ValueError("summarize_tool_result needs a model: Agent(tools, model)")
        text = cap(render_value(result), _MAX_CHARS.get())
        prompt_text = sections(("Query", query), ("Result", f"{call_text(tool_name, tool_args)}:\n{text}"))
        request = request_of(self.predictors[SUMMARIZE_PROMPT], prompt_text, SUMMARIZE, scope=_SCOPE.get())
        return SUMMARIZE.parse(await self.options.model.complete(request)).text

    async def execute_tools(
        self,
        task: PhaseTask,
        query_id: str,
        callbacks: ToolExecutorCallbacks | None = None,
        cancellation_token: asyncio.Event | None = None,
    ) -> bool:
        """Do what ToolExecutor does, one call after the other and with summaries."""
        checkpoint(cancellation_token)
        calls = task.toolCalls or []
        listener = callbacks or ToolExecutorCallbacks()

        async def in_sequence() -> None:
            _SCOPE.set(task.request_scope)  # of this asyncio task only
            scratchpad = Scratchpad()
            for index, call in enumerate(calls):
                checkpoint(cancellation_token)
                with CallReport(task, index, call, listener) as report:
                    await self._one(task, call, scratchpad, query_id, report)
                checkpoint(cancellation_token)

        return await self._finish(task, {asyncio.create_task(in_sequence()): calls}, cancellation_token)

    async def _one(self, task: PhaseTask, call: ToolCallStatus, scratchpad: Scratchpad, query_id: str, report: CallReport) -> None:
        before = len(scratchpad.entries)
        message = AIMessage((RequestedCall("", call.tool, call.args),))
        try:
            async with aclosing(self.execute_tool_calls(message, task.context or task.description, scratchpad)) as events:
                async for _ in events:
                    pass
        finally:  # a result whose summary was cut off is kept all the same (row B1-6)
            for entry in scratchpad.entries[before:]:
                self._settle(task, call, entry, query_id, report)

    def _settle(self, task: PhaseTask, call: ToolCallStatus, entry: ScratchpadEntry, query_id: str, report: CallReport) -> None:
        if entry.error is not None:
            call.error = entry.error
            report.set_status(TaskStatus.FAILED)
            return
        call.summary = entry.summary
        self._keep(task, call, render_value(entry.result), entry.max_chars, query_id)
        report.set_status(TaskStatus.COMPLETED)


def _requested(call: Any, index: int) -> RequestedCall:
    """Read a call in whatever form; a call without an id gets its place as id."""
    read = call.get if isinstance(call, Mapping) else lambda name, default=None: getattr(call, name, default)
    return RequestedCall(str(read("id") or f"call_{index}"), str(read("name")), read("args") or {})


@checked_options
@dataclass(frozen=True, slots=True)
class Phased(PhasedOptions, TakesProgram, RunsSync):
    """Phases around a tool executor."""

    name: ClassVar[str] = "phased"
    __repr__ = repr_with_program

    @property
    def stops(self) -> frozenset[StopReason]:
        reached = {StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW}
        always_refused = not self.plan and self.max_tool_tasks == 0  # the only task may not use tools
        if self.reflect or not always_refused:
            reached.add(StopReason.FINISHED)
        if self.reflect or always_refused or (self.plan and self.max_tool_tasks is not None):
            reached.add(StopReason.FORCED)
        if self.cancellation_token is not None:
            reached.add(StopReason.CANCELLED)
        return frozenset(reached)

    @property
    def predictors(self) -> Program:
        """One per kind of request that this configuration makes; formats and the list of tools follow them in any case."""
        left_out = {
            "understand": not self.understand,
            "plan": not self.plan,
            SELECT_TOOLS: self.executor is not None,
            "reason": not self.plan,
            "reflect": not self.reflect,
            "summarize": self.executor is not None or self.tool_layout == "executor",
        }
        program = program_of(self.prompts, self.program)
        return {name: prompt for name, prompt in program.items() if not left_out.get(name, False)}

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_tool_tasks=tool_steps)

    @bounded
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        ending = RunEnd(self.cancellation_token)
        stoppable = StoppableModel(model, ending)
        contexts = self.context_manager or ToolContextManager()
        executor = self.executor
        if executor is None:
            select_model = stoppable if self.select_model is None else StoppableModel(self.select_model, ending)
            options = ToolExecutorOptions(
                self.configured_tools(tools, at_once=True),
                contexts,
                stoppable,
                self.prompts,
                self.cancel_grace_s,
                observer,
                select_model,
                self.program,
            )
            executor = ToolExecutor(options) if self.tool_layout == "executor" else AgentTools(options)
        return await PhasedRun(self, RunInputs(query, tools, stoppable, executor, contexts, observer, ending)).run()


class Agent(AgentTools):
    """Runs the phases with its own tool methods, which a subclass may override (rows S1-39 to S1-41)."""

    def __init__(
        self, tools: Toolbox | Iterable[Any], model: Model | None = None, config: Phased | None = None, observer: Observer = SILENT
    ) -> None:
        """`tools`: in any form (row S1-32). `model`: needed by all that asks one. `config`: the phases' options."""
        self.config = config or Phased()
        self.context_manager = self.config.context_manager or ToolContextManager()
        own_tools = tools if isinstance(tools, Toolbox) else list(tools)
        options = ToolExecutorOptions(
            own_tools,
            self.context_manager,
            model,
            self.config.prompts,
            self.config.cancel_grace_s,
            observer,
            self.config.select_model,
            self.config.program,
            tool_timeout_s=self.config.tool_timeout_s,
            tool_max_chars=self.config.tool_max_chars,
            tool_threads=self.config.tool_threads,
        )
        super().__init__(options)

    async def run(self, query: str | Query) -> Outcome:
        """Understand, plan, execute, reflect, answer. Raises ValueError without a model."""
        if self.options.model is None:
            raise ValueError("run needs a model: Agent(tools, model)")
        full_query = query if isinstance(query, Query) else Query(query)
        loop = replace(self.config, executor=self, context_manager=self.context_manager)
        return await loop.run(full_query, self.toolbox, self.options.model, self.options.observer)
