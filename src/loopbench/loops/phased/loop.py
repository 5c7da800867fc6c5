"""Design 1: understand, then rounds of plan, execute and reflect, then answer; tools run in an executor of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from loopbench.protocol import SILENT, Model, Observer, Outcome, Program, Query, StopReason, Toolbox, run_sync
from loopbench.protocol.program import merged

from .agent_tools import AgentTools
from .callbacks import AgentCallbacks
from .context import ToolContextManager
from .ending import RunEnd, StoppableModel
from .executor import ToolExecutor, ToolExecutorOptions
from .phases import Executor, PhasedRun, Surroundings
from .predictors import SELECT_TOOLS, program_of
from .prompts import merged_prompts

_HOOK: dict[str, Any] = {"option": False}


@dataclass(frozen=True, slots=True)
class Phased:
    """Phases around a tool executor. Raises ValueError for a limit that leaves nothing to do, an unknown rule, layout or prompt."""

    max_rounds: int = 5
    """Most rounds of plan, execute and reflect."""
    max_tool_tasks: int | None = None
    """Most tasks of the whole run that may use tools; None for no limit."""
    understand: bool = True
    """Ask first what the question is after."""
    plan: bool = True
    """Ask for a plan in each round; False makes the question itself the only task."""
    reflect: bool = True
    """Judge after each round whether it is enough; False answers after the first."""
    failed_dependency: Literal["run", "skip", "fail"] = "run"
    """What becomes of a task when one that it depends on has failed: it is told so, left out, or fails too."""
    tool_layout: Literal["executor", "agent"] = "executor"
    """executor: a task's calls run together. agent: the agent runs them in sequence and summarizes each result."""
    cancel_grace_s: float = 5.0
    """Seconds that tools in threads are waited for once the cancellation token is set."""
    callbacks: AgentCallbacks | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Told of phases, tasks and tool calls."""
    prompts: Mapping[str, str] | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Texts that replace some of PROMPTS."""
    cancellation_token: asyncio.Event | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Once it is set, the run ends without an answer. As any asyncio.Event it serves the runs of one event loop."""
    executor: Executor | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """In the place of the layout's own; it brings its tools and its model, which the harness does not see."""
    select_model: Model | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """A smaller model for the choice of tools."""
    context_manager: ToolContextManager | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Where results are kept; None: in memory, for this run."""
    program: Program | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Instructions and demonstrations in the place of `prompts`."""

    def __post_init__(self) -> None:
        if self.max_rounds < 1:
            raise ValueError(f"max_rounds must be at least 1, not {self.max_rounds}")
        if self.max_tool_tasks is not None and self.max_tool_tasks < 0:
            raise ValueError(f"max_tool_tasks must be at least 0 or None, not {self.max_tool_tasks}")
        if not self.cancel_grace_s >= 0:
            raise ValueError(f"cancel_grace_s must be at least 0, not {self.cancel_grace_s}")
        if self.failed_dependency not in ("run", "skip", "fail"):
            raise ValueError(f"failed_dependency must be run, skip or fail, not {self.failed_dependency!r}")
        if self.tool_layout not in ("executor", "agent"):
            raise ValueError(f"tool_layout must be executor or agent, not {self.tool_layout!r}")
        merged_prompts(self.prompts)

    @property
    def name(self) -> str:
        return "phased"

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
        known = program_of(self.prompts, self.program)
        return {name: prompt for name, prompt in known.items() if not left_out.get(name, False)}

    def with_predictors(self, program: Program) -> Self:
        """The same loop with other prompts. Raises ValueError for a predictor that it does not have."""
        return replace(self, program=merged(self.predictors, program))

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_tool_tasks=tool_steps)

    def run_sync(self, query: Query, tools: Toolbox, model: Model) -> Outcome:
        return run_sync(self.run(query, tools, model))

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        ending = RunEnd(self.cancellation_token)
        guarded = StoppableModel(model, ending)
        contexts = self.context_manager or ToolContextManager()
        executor = self.executor
        if executor is None:
            select_model = guarded if self.select_model is None else StoppableModel(self.select_model, ending)
            options = ToolExecutorOptions(
                tools, contexts, guarded, self.prompts, self.cancel_grace_s, observer, select_model, self.program
            )
            executor = ToolExecutor(options) if self.tool_layout == "executor" else AgentTools(options)
        return await PhasedRun(self, Surroundings(query, tools, guarded, executor, contexts, observer, ending)).run()
