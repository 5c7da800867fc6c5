"""Design 0: a stateless agent decides, an ActivityManager outside executes, counts and ends.

Each decision gets the whole state as its argument and gives one structured reply: tools to call, or the final response. A failed
tool goes to a recovery planner, a long history to a summarizer, the final response to a formatter. Standalone use:

    agent = ManualAgentLoop(registry)                                 # with dspy.configure(lm=...), or model=any Model
    ActivityManager(agent, registry).run_activity("What is on in Tokyo tonight?")["final_response"]

    Stateless().run_sync(Query("..."), Toolbox([search]), model)      # the same as one loop

Follow a run, from the top:

- `Stateless.run` (loop.py) makes an agent and a manager, and has `ActivityManager.carry_on` (loop.py) run the loop on a new state.
- Each round the agent decides: `ManualAgentLoop.aget_next_action` (agent.py) asks by `AgentReasoner.decide` (modules.py), in the
  formats of signatures.py, and `ManualAgentLoop._as_decision` (agent.py) says what the reply comes to.
- `ManualAgentLoop._handle_tool_errors` (agent.py) decides in its place after failed calls, by a planner's strategy for each.
- `ActivityManager._act_on` (loop.py) does what was decided: it ends the run, or makes the calls by
  `ToolExecution._execute_tools` (execution.py), and brings the state up to date, which is the next round's argument (state.py).
"""

from whichloop._extras import needed_by

with needed_by(__name__, is_module=True):
    from .agent import ManualAgentLoop as ManualAgentLoop
    from .execution import DSPyToolRegistryAdapter as DSPyToolRegistryAdapter
    from .execution import MultiToolRegistry as MultiToolRegistry
    from .execution import ToolboxRegistry as ToolboxRegistry
    from .execution import ToolSource as ToolSource
    from .loop import ActivityManager as ActivityManager
    from .loop import Stateless as Stateless
    from .modules import AgentReasoner as AgentReasoner
    from .modules import ConversationManager as ConversationManager
    from .modules import ErrorRecoveryModule as ErrorRecoveryModule
    from .modules import ResponseFormatter as ResponseFormatter
    from .signatures import AgentReasonerSignature as AgentReasonerSignature
    from .signatures import ErrorRecoverySignature as ErrorRecoverySignature
    from .state import ActionDecision as ActionDecision
    from .state import ActionType as ActionType
    from .state import ConversationEntry as ConversationEntry
    from .state import ConversationState as ConversationState
    from .state import ErrorRecoveryStrategy as ErrorRecoveryStrategy
    from .state import ReasoningOutput as ReasoningOutput
    from .state import ToolCall as ToolCall

LOOP = Stateless

ToolRegistry = ToolSource
"""The name that the design's document gives it."""
