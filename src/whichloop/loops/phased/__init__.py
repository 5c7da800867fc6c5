"""Design 1: phases (understand, plan, execute, reflect, answer) with a ToolExecutor.

The model plans tasks; tasks that do not depend on each other run together, and so do the tool calls that it picks for each; reflect
judges whether another round is needed; the answer is stated from the results that the model chooses. The executor is usable by
itself, and the `Agent` does the same without one.

Follow a run, from the top:

- `Phased.run` (loop.py) starts a `PhasedRun` (run.py), which has the state of the run, the plan (`tasks`) among it.
- `PhasedRun._rounds` (run.py) is the loop: understand once, then plan, execute and reflect until a judgement or a limit ends it.
- Below it the phases follow in their order; each asks by `PhasedRun._ask` (run.py), with a text of prompts.py, in a format of
  codecs.py. `PhasedRun._execute` (run.py) starts each task of a round once what it depends on has ended.
- `ToolExecutor.select_tools` (executor.py) and `ToolExecutor.execute_tools` (executor.py) pick and make a task's calls.
- `ToolContextManager.save` (state.py) keeps each result; `PhasedRun._answer` (run.py) shows those that the model chooses.
- `RunEnd.checkpoint` (executor.py) stops all of this where the run's token is set or a task has failed.
"""

from whichloop.protocol import Understanding as Understanding

from .executor import AgentEvent as AgentEvent
from .executor import AgentTools as AgentTools
from .executor import ToolExecutor as ToolExecutor
from .executor import ToolExecutorOptions as ToolExecutorOptions
from .executor import get_tools as get_tools
from .loop import Agent as Agent
from .loop import Phased as Phased
from .prompts import PROMPTS as PROMPTS
from .state import AgentCallbacks as AgentCallbacks
from .state import Phase as Phase
from .state import PhaseTask as PhaseTask
from .state import PhaseToolCall as PhaseToolCall
from .state import Reflection as Reflection
from .state import Scratchpad as Scratchpad
from .state import TaskStatus as TaskStatus
from .state import TaskType as TaskType
from .state import ToolCallStatus as ToolCallStatus
from .state import ToolContextManager as ToolContextManager
from .state import ToolExecutorCallbacks as ToolExecutorCallbacks

LOOP = Phased
# The names that the design's document gives them.
Task = PhaseTask
ToolCall = PhaseToolCall
