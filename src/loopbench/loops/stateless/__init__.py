"""Design 0: a stateless agent decides, an ActivityManager outside executes, counts and ends.

Each decision gets the whole state as its argument and gives one structured reply: tools to call, or the final response. A failed
tool goes to a recovery planner, a long history to a summarizer, the final response to a formatter. Standalone use:

    agent = ManualAgentLoop(registry)                                 # with dspy.configure(lm=...), or model=any Model
    ActivityManager(agent, registry).run_activity("What is on in Tokyo tonight?")["final_response"]

    Stateless().run_sync(Query("..."), Toolbox([search]), model)      # the same as one loop
"""

from .agent import ManualAgentLoop
from .formatter import ResponseFormatter
from .history import ConversationManager
from .loop import Stateless, StatelessProgram
from .manager import Activity, ActivityManager
from .reasoner import AgentReasoner
from .recovery import ErrorRecoveryModule
from .registry import DSPyToolRegistryAdapter, MultiToolRegistry, ToolArgument, ToolboxRegistry, ToolDefinition, ToolSource
from .signatures import AgentReasonerSignature, ErrorRecoverySignature
from .state import (
    ActionDecision,
    ActionType,
    ConversationEntry,
    ConversationState,
    ErrorRecoveryStrategy,
    HistorySummary,
    ReasoningOutput,
    ToolCall,
)

LOOP = Stateless

ToolRegistry = ToolSource
"""The name that the design's document gives it."""

__all__ = [
    "ActionDecision",
    "ActionType",
    "Activity",
    "ActivityManager",
    "AgentReasoner",
    "AgentReasonerSignature",
    "ConversationEntry",
    "ConversationManager",
    "ConversationState",
    "DSPyToolRegistryAdapter",
    "ErrorRecoveryModule",
    "ErrorRecoverySignature",
    "ErrorRecoveryStrategy",
    "HistorySummary",
    "ManualAgentLoop",
    "MultiToolRegistry",
    "ReasoningOutput",
    "ResponseFormatter",
    "Stateless",
    "StatelessProgram",
    "ToolArgument",
    "ToolCall",
    "ToolDefinition",
    "ToolRegistry",
    "ToolSource",
    "ToolboxRegistry",
]
