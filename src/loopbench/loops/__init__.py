"""The designs under test; every one is usable by itself, as it is.

A design's own module has all of its names; this package offers those that a product needs. They load on first use.
"""

from __future__ import annotations

from loopbench._lazy import lazy

_HOMES = {
    "loopbench.loops.bare": ("Bare",),
    "loopbench.loops.bare_standalone": ("ToolRegistry", "arun_agent", "run_agent"),
    "loopbench.loops.boundary": ("run_events",),
    "loopbench.loops.finish": (
        "Finish",
        "Module",
        "ParseError",
        "Partial",
        "Step",
        "Unfinished",
        "UnfinishedError",
        "module",
        "resolve_model",
        "tool",
    ),
    "loopbench.loops.guarded": ("Guarded",),
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
    "loopbench.loops.provider_retry": ("ProviderRetry",),
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
        "Completion",
        "RunEvent",
        "Loop",
        "Observer",
        "Outcome",
        "PlanTask",
        "Query",
        "Recovery",
        "StopReason",
        "StopRun",
        "Tasks",
        "Text",
        "Tool",
        "ToolCall",
        "Toolbox",
        "Understanding",
        "run_sync",
    ),
    "loopbench.protocol.events": (
        "CallInvalid",
        "LoopNote",
        "ReplyChunk",
        "ReplyReceived",
        "ReplyUnreadable",
        "RequestFailed",
        "RequestStarted",
        "RunEnded",
        "ToolFinished",
        "ToolStarted",
    ),
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
