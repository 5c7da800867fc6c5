"""The callbacks of a run. A method does nothing until it is overridden; its exceptions are logged and do no harm.

Rows such as S1-28 are those of docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whichloop.protocol import StopRun, Understanding
from whichloop.protocol.redact import logger_of

from .state import Phase, PhaseTask, Reflection, TaskStatus, ToolCallStatus

logger = logger_of(__name__)


class ToolExecutorCallbacks:
    """Listens to tool calls while they run."""

    def on_tool_call_update(
        self, task_id: str, tool_index: int, status: TaskStatus, output: str | None = None, error: str | None = None
    ) -> None:
        """The status of a call has become `status`. `tool_index`: its 0-based place in `task.toolCalls`."""


class AgentCallbacks(ToolExecutorCallbacks):
    """Listens to phases, tasks and tool calls (row S1-28)."""

    streams: bool = False
    """True: the answer is streamed to `on_answer_stream` where the model can."""

    def on_phase_start(self, phase: Phase) -> None: ...

    def on_phase_complete(self, phase: Phase) -> None: ...

    def on_understanding_complete(self, understanding: Understanding) -> None: ...

    def on_plan_created(self, tasks: Sequence[PhaseTask], iteration: int) -> None: ...

    def on_reflection_complete(self, reflection: Reflection, iteration: int) -> None: ...

    def on_iteration_start(self, iteration: int) -> None:
        """A round of plan, execute and reflect begins; the first is 1."""

    def on_answer_start(self) -> None: ...

    def on_answer_stream(self, text: str) -> None:
        """Called with each piece of the answer as it comes."""

    def on_progress_message(self, message: str) -> None: ...

    def on_task_update(self, task_id: str, status: TaskStatus) -> None: ...

    def on_task_tool_calls_set(self, task_id: str, tool_calls: Sequence[ToolCallStatus]) -> None: ...


def notify(callback: Callable[..., None], *args: Any) -> None:
    """Call a callback and log its exceptions, except for cancellation and StopRun, which are raised."""
    try:
        callback(*args)
    except StopRun:
        raise
    except Exception as error:  # a callback is the user's code, and must not fail the run (row B1-3)
        logger.warning("callback %s raised %s: %s", getattr(callback, "__name__", callback), type(error).__name__, error)
