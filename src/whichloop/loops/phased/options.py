"""The options of a phased loop, and what it needs of a tool executor."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from whichloop.loops.shared.tool_settings import ToolSettings
from whichloop.protocol import Model, Program

from .callbacks import AgentCallbacks
from .context import ToolContextManager
from .executor import Executor
from .prompts import merged_prompts

_HOOK: dict[str, Any] = {"option": False}


@dataclass(frozen=True, slots=True)
class PhasedOptions(ToolSettings):
    """The fields of `Phased`.

    Raises ValueError for a limit that leaves nothing to do, and for an unknown rule, layout or prompt.
    """

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
    """What happens to a task when one that it depends on has failed: it is told so, left out, or fails too."""
    tool_layout: Literal["executor", "agent"] = "executor"
    """executor: a task's calls run together. agent: the agent runs them in sequence and summarizes each result."""
    cancel_grace_s: float = 5.0
    """Seconds to wait for tools in threads once the cancellation token is set."""
    callbacks: AgentCallbacks | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Listens to phases, tasks and tool calls."""
    prompts: Mapping[str, str] | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Texts that replace some of PROMPTS."""
    cancellation_token: asyncio.Event | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Once it is set, the run ends without an answer. As any asyncio.Event it serves the runs of one event loop."""
    executor: Executor | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Replaces the layout's own executor; it brings its tools and its model, which the harness does not see."""
    select_model: Model | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """A smaller model for the choice of tools."""
    context_manager: ToolContextManager | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Where results are kept; None: in memory, for this run."""
    program: Program | None = field(default=None, repr=False, compare=False, metadata=_HOOK)
    """Instructions and demonstrations instead of `prompts`."""

    def __post_init__(self) -> None:
        ToolSettings.__post_init__(self)
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
