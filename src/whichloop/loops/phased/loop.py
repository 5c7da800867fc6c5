"""Design 1: understand, then rounds of plan, execute and reflect, then answer; tools run in an executor of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from whichloop.loops.shared.boundary import bounded
from whichloop.loops.shared.option_checks import ToolSettings, at_least, checked_options, no_option
from whichloop.protocol import SILENT, AnswerT, Model, Observer, Outcome, Query, RunsSync, StopReason, TakesProgram, Toolbox
from whichloop.protocol.program import Program, repr_with_program

from .executor import AgentTools, ToolExecutorOptions
from .prompts import program_of
from .run import PhasedRun
from .state import AgentCallbacks, ToolContextManager


@checked_options
@dataclass(frozen=True, slots=True)
class Phased(ToolSettings, TakesProgram, RunsSync):
    """Phases around a tool executor. Raises ValueError for a limit that leaves nothing to do, an unknown rule or layout."""

    max_rounds: int = at_least(1, 5)
    """Most rounds of plan, execute and reflect."""
    max_tool_tasks: int | None = at_least(0, None)
    """Most tasks of the whole run that may use tools; None for no limit."""
    understand: bool = True
    """Ask first what the question is after."""
    plan: bool = True
    """Ask for a plan in each round; False makes the question itself the only task."""
    reflect: bool = True
    """Judge after each round whether it is enough; False answers after the first."""
    failed_dependency: Literal["run", "skip", "fail"] = "run"
    """What happens to a task when one that it depends on has failed: it is told so, left out, or fails too."""
    tool_layout: Literal["executor", "agent"] = "executor"
    """executor: a task's calls run together; agent: the agent runs them in sequence and summarizes each result."""
    cancel_grace_s: float = at_least(0, 5.0)
    """Seconds to wait for tools in threads once the cancellation token is set."""
    callbacks: AgentCallbacks | None = no_option(None)
    """Listens to phases, tasks and tool calls."""
    cancellation_token: asyncio.Event | None = no_option(None)
    """Once it is set, the run ends without an answer. As any asyncio.Event it serves the runs of one event loop."""
    executor: Any = no_option(None)
    """Replaces the layout's own: any object with `select_tools` and `execute_tools`, which gets the token only if the run has one.
    It brings its tools and its model, which the harness does not see."""
    select_model: Model | None = no_option(None)
    """A smaller model for the choice of tools."""
    context_manager: ToolContextManager | None = no_option(None)
    """Where results are kept; None: in memory, for this run."""
    program: Program | None = no_option(None)
    """Instructions and demonstrations in place of the design's own."""

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
            "select": self.executor is not None,
            "reason": not self.plan,
            "reflect": not self.reflect,
            "summarize": self.executor is not None or self.tool_layout == "executor",
        }
        program = program_of(self.program)
        return {name: prompt for name, prompt in program.items() if not left_out.get(name, False)}

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_tool_tasks=tool_steps)

    @bounded
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        return await PhasedRun(self, query, tools, model, observer).run()

    def executor_options(self, tools: Toolbox | Sequence[Any], **own: Any) -> ToolExecutorOptions:
        """Return the options of an executor, with those that the loop has, too. `own`: those that it has not."""
        shared = ("cancel_grace_s", "program", "tool_timeout_s", "tool_max_chars", "tool_threads")
        return ToolExecutorOptions(tools, **{name: getattr(self, name) for name in shared}, **own)


class Agent(AgentTools):
    """Runs the phases with its own tool methods, which a subclass may override (rows S1-39 to S1-41)."""

    def __init__(self, tools: Toolbox | Iterable[Any], model: Model | None = None, config: Phased | None = None) -> None:
        """`tools`: in any form (row S1-32). `model`: needed by all that asks one. `config`: the phases' options."""
        self.config = config or Phased()
        self.context_manager = self.config.context_manager or ToolContextManager()
        own = {"context_manager": self.context_manager, "model": model, "select_model": self.config.select_model}
        own_tools = tools if isinstance(tools, Toolbox) else list(tools)
        super().__init__(self.config.executor_options(own_tools, **own))

    async def run(self, query: str | Query) -> Outcome:
        """Understand, plan, execute, reflect, answer. Raises ValueError without a model."""
        if self.options.model is None:
            raise ValueError("run needs a model: Agent(tools, model)")
        full_query = query if isinstance(query, Query) else Query(query)
        loop = replace(self.config, executor=self, context_manager=self.context_manager)
        return await loop.run(full_query, self.toolbox, self.options.model, self.options.observer)
