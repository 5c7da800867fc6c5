"""The designs under test; every one is usable by itself, as it is.

A design's own module has all of it; here stand the names that a product needs. They load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopbench._lazy import lazy

if TYPE_CHECKING:
    from loopbench.loops.bare import Bare, ToolRegistry, arun_agent, run_agent
    from loopbench.loops.finish import Finish, Module, ParseError, Partial, Step, Unfinished, UnfinishedError, module, tool
    from loopbench.loops.microcompact import Microcompact
    from loopbench.loops.phased import (
        Agent,
        AgentCallbacks,
        Phased,
        ToolContextManager,
        ToolExecutor,
        ToolExecutorCallbacks,
        ToolExecutorOptions,
    )
    from loopbench.loops.react_extract import ReactExtract, ReactExtractProgram
    from loopbench.loops.repeat_guard import RepeatGuard
    from loopbench.loops.stateless import (
        ActionDecision,
        ActivityManager,
        ConversationState,
        ManualAgentLoop,
        MultiToolRegistry,
        Stateless,
        StatelessProgram,
    )
    from loopbench.protocol import (
        Act,
        Answer,
        Completion,
        Loop,
        Observer,
        Outcome,
        PlanTask,
        Query,
        Recovery,
        StopReason,
        Tasks,
        Text,
        Tool,
        Toolbox,
        ToolCall,
        Understanding,
        run_sync,
    )

_HOMES = {
    "loopbench.loops.bare": ("Bare", "ToolRegistry", "arun_agent", "run_agent"),
    "loopbench.loops.finish": (
        "Finish",
        "Module",
        "ParseError",
        "Partial",
        "Step",
        "Unfinished",
        "UnfinishedError",
        "module",
        "tool",
    ),
    "loopbench.loops.microcompact": ("Microcompact",),
    "loopbench.loops.phased": (
        "Agent",
        "AgentCallbacks",
        "Phased",
        "ToolContextManager",
        "ToolExecutor",
        "ToolExecutorCallbacks",
        "ToolExecutorOptions",
    ),
    "loopbench.loops.react_extract": ("ReactExtract", "ReactExtractProgram"),
    "loopbench.loops.repeat_guard": ("RepeatGuard",),
    "loopbench.loops.stateless": (
        "ActionDecision",
        "ActivityManager",
        "ConversationState",
        "ManualAgentLoop",
        "MultiToolRegistry",
        "Stateless",
        "StatelessProgram",
    ),
    "loopbench.protocol": (
        "Act",
        "Answer",
        "Loop",
        "Observer",
        "Outcome",
        "PlanTask",
        "Query",
        "Recovery",
        "StopReason",
        "Tasks",
        "Text",
        "Tool",
        "ToolCall",
        "Toolbox",
        "Understanding",
        "Completion",
        "run_sync",
    ),
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

__all__ = [
    "Act",
    "ActionDecision",
    "ActivityManager",
    "Agent",
    "AgentCallbacks",
    "Answer",
    "Bare",
    "Completion",
    "ConversationState",
    "Finish",
    "Loop",
    "ManualAgentLoop",
    "Microcompact",
    "Module",
    "MultiToolRegistry",
    "Observer",
    "Outcome",
    "ParseError",
    "Partial",
    "Phased",
    "PlanTask",
    "Query",
    "ReactExtract",
    "ReactExtractProgram",
    "Recovery",
    "RepeatGuard",
    "Stateless",
    "StatelessProgram",
    "Step",
    "StopReason",
    "Tasks",
    "Text",
    "Tool",
    "ToolCall",
    "ToolContextManager",
    "ToolExecutor",
    "ToolExecutorCallbacks",
    "ToolExecutorOptions",
    "ToolRegistry",
    "Toolbox",
    "Understanding",
    "Unfinished",
    "UnfinishedError",
    "arun_agent",
    "module",
    "run_agent",
    "run_sync",
    "tool",
]
