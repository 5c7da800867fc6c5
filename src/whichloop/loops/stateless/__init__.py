"""Design 0: a stateless agent decides, an ActivityManager outside executes, counts and ends.

Each decision gets the whole state as its argument and gives one structured reply: tools to call, or the final response. A failed
tool goes to a recovery planner, a long history to a summarizer, the final response to a formatter. Standalone use:

    agent = ManualAgentLoop(registry)                                 # with dspy.configure(lm=...), or model=any Model
    ActivityManager(agent, registry).run_activity("What is on in Tokyo tonight?")["final_response"]

    Stateless().run_sync(Query("..."), Toolbox([search]), model)      # the same as one loop

Follow a run, from the top:

- `Stateless.run` (loop.py) makes an agent and a manager, and has `ActivityManager.carry_on` (manager.py) run the loop on a new
  state.
- Each round the agent decides: `ManualAgentLoop.aget_next_action` (agent.py).
- `ManualAgentLoop._decide` (agent.py) asks by `AgentReasoner.decide` (reasoner.py), in the formats of signatures.py, and
  `ManualAgentLoop._as_decision` (agent.py) says what the reply comes to.
- `ManualAgentLoop._handle_tool_errors` (agent.py) decides in its place after failed calls, by a planner's strategy for each.
- `ActivityManager._act_on` (manager.py) does what was decided: it ends the run, or makes the calls.
- `ToolExecution._execute_tools` (execution.py) makes them, in sequence, in parallel or by priority.
- `ActivityManager._execute_decision` (manager.py) brings the state up to date and adds to the history, which is the next round's
  argument.
"""

from whichloop._lazy import explained_module

with explained_module(__name__):
    from .agent import ManualAgentLoop
    from .execution import DSPyToolRegistryAdapter, MultiToolRegistry, ToolArgument, ToolboxRegistry, ToolDefinition, ToolSource
    from .history import ConversationManager
    from .loop import Stateless, StatelessProgram
    from .manager import Activity, ActivityManager
    from .reasoner import AgentReasoner, ErrorRecoveryModule, ResponseFormatter
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
