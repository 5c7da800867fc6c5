"""Design 1: phases (understand, plan, execute, reflect, answer) with a ToolExecutor.

The model plans tasks; tasks that do not depend on each other run together, and so do the tool calls that it picks for each; reflect
judges whether another round is needed; the answer is stated from the results that the model chooses. The executor is usable by
itself, and the `Agent` does the same without one.

Follow a run, from the top:

- `Phased.run` (loop.py) collects what a run is given and starts `PhasedRun.run` (phases.py).
- `PhasedRun._rounds` (phases.py) is the loop: understand once, then plan, execute and reflect until a judgement or a limit ends it.
- Each phase asks by `RunContext.ask` (run.py), with a text of prompts.py and in a format of codecs.py.
- `RoundTasks.execute` (phases.py) starts each task of a round once what it depends on has ended.
- A task that needs tools has its calls picked by `ToolSelector.select_tools` (executor.py), and made by
  `ToolExecutor.execute_tools` (executor.py) or, one after the other, by `AgentTools.execute_tools` (loop.py).
- `ToolContextManager.save` (context.py) keeps each result.
- `PhasedRun._answer` (phases.py) loads the results that the model chooses, and asks for the answer.
- `RunEnd.checkpoint` (state.py) stops all of this where the run's token is set or a task has failed.
"""

from .context import Scratchpad, ScratchpadEntry, ToolContext, ToolContextManager
from .executor import Executor, ToolExecutor, ToolExecutorOptions, get_tools
from .loop import Agent, AgentEvent, AgentTools, AIMessage, Phased, RequestedCall, ToolFailed
from .prompts import NO_DATA, PROMPTS
from .state import (
    AgentCallbacks,
    Phase,
    PhaseTask,
    PhaseToolCall,
    Reflection,
    TaskStatus,
    TaskType,
    ToolCallStatus,
    ToolExecutorCallbacks,
    Understanding,
)

__all__ = [
    "NO_DATA",
    "PROMPTS",
    "AIMessage",
    "Agent",
    "AgentCallbacks",
    "AgentEvent",
    "AgentTools",
    "Executor",
    "Phase",
    "PhaseTask",
    "PhaseToolCall",
    "Phased",
    "Reflection",
    "RequestedCall",
    "Scratchpad",
    "ScratchpadEntry",
    "Task",
    "TaskStatus",
    "TaskType",
    "ToolCall",
    "ToolCallStatus",
    "ToolContext",
    "ToolContextManager",
    "ToolExecutor",
    "ToolExecutorCallbacks",
    "ToolExecutorOptions",
    "ToolFailed",
    "Understanding",
    "get_tools",
]

LOOP = Phased

# The names that the design's document gives them.
Task = PhaseTask
ToolCall = PhaseToolCall
