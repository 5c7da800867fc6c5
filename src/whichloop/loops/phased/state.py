"""The parts of a run: phases, tasks and their calls, who listens, and the kept results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from whichloop.protocol import StopRun, Understanding, render_value
from whichloop.protocol.json_text import sha256
from whichloop.protocol.redact import logger_of
from whichloop.protocol.values import cap

logger = logger_of(__name__)


class Phase(StrEnum):
    """The phase that a run is in."""

    UNDERSTAND = "understand"
    PLAN = "plan"
    EXECUTE = "execute"
    REFLECT = "reflect"
    ANSWER = "answer"
    COMPLETE = "complete"


class TaskStatus(StrEnum):
    """How far a task, or one tool call of it, has got."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class TaskType(StrEnum):
    """What a task needs: tools, or one thought over what was gathered."""

    USE_TOOLS = "use_tools"
    REASON = "reason"


@dataclass(frozen=True, slots=True)
class PhaseToolCall:
    """One call that the model asks for."""

    tool: str
    args: Mapping[str, Any]


@dataclass(slots=True)
class ToolCallStatus:
    """A call, its status and its result."""

    tool: str
    args: Mapping[str, Any]
    status: TaskStatus = TaskStatus.PENDING
    output: str | None = None
    """The whole result as text."""
    error: str | None = None
    pointer: str | None = None
    """Where the result is kept in the context manager."""
    summary: str | None = None
    """What later prompts show instead of the result (agent layout)."""
    max_chars: int | None = None
    """Characters of a longer output that prompts show; None for all of it."""

    def __str__(self) -> str:
        return f"{self.tool}({render_value(self.args)})"

    @property
    def shown(self) -> str:
        """What prompts show of a completed call: its summary, or its result if the summary is blank."""
        return self.summary if self.summary and self.summary.strip() else cap(self.output or "", self.max_chars)


@dataclass(slots=True)
class PhaseTask:
    """One step of a plan. Field names are the document's."""

    id: str
    description: str
    status: TaskStatus = TaskStatus.PENDING
    taskType: TaskType = TaskType.USE_TOOLS  # noqa: N815
    toolCalls: list[ToolCallStatus] | None = None  # noqa: N815
    dependsOn: list[str] = field(default_factory=list)  # noqa: N815
    context: str = ""
    """What the task may see: the question, results of its dependencies, what failed."""
    scope: str = ""
    """The id as the model gave it, which tells concurrent requests apart; empty takes `id`."""
    output: str | None = None
    """The text of a reason task."""
    error: str | None = None
    """Why the task failed, if none of its calls says so."""

    @property
    def has_ended(self) -> bool:
        return self.status in (TaskStatus.COMPLETED, TaskStatus.FAILED)

    def calls(self, status: TaskStatus) -> list[ToolCallStatus]:
        return [call for call in self.toolCalls or () if call.status is status]

    def as_dict(self) -> dict[str, Any]:
        """Return the task as JSON, without what it saw."""
        calls = [
            {"tool": call.tool, "args": dict(call.args), "status": call.status.value, "output": call.output, "error": call.error}
            for call in self.toolCalls or ()
        ]
        planned = {"id": self.id, "description": self.description, "status": self.status.value, "taskType": self.taskType.value}
        return planned | {"toolCalls": calls, "dependsOn": list(self.dependsOn), "output": self.output, "error": self.error}


@dataclass(frozen=True, slots=True)
class Reflection:
    """Whether the question can be answered, and what to do if not (row S1-24)."""

    isComplete: bool  # noqa: N815
    reasoning: str = ""
    missingInfo: tuple[str, ...] = ()  # noqa: N815
    suggestedNextSteps: tuple[str, ...] = ()  # noqa: N815


# --- who listens ---


class ToolExecutorCallbacks:
    """Listens to tool calls while they run."""

    def on_tool_call_update(
        self, task_id: str, tool_index: int, status: TaskStatus, output: str | None = None, error: str | None = None
    ) -> None:
        """The status of a call has become `status`. `tool_index`: its 0-based place in `task.toolCalls`."""


class AgentCallbacks(ToolExecutorCallbacks):
    """Listens to phases, rounds (the first iteration is 1), tasks and tool calls (row S1-28)."""

    streams: bool = False
    """True: the answer is streamed to `on_answer_stream`, piece by piece, where the model can."""

    def on_phase_start(self, phase: Phase) -> None: ...
    def on_phase_complete(self, phase: Phase) -> None: ...
    def on_understanding_complete(self, understanding: Understanding) -> None: ...
    def on_plan_created(self, tasks: Sequence[PhaseTask], iteration: int) -> None: ...
    def on_reflection_complete(self, reflection: Reflection, iteration: int) -> None: ...
    def on_iteration_start(self, iteration: int) -> None: ...
    def on_answer_start(self) -> None: ...
    def on_answer_stream(self, text: str) -> None: ...
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


# --- kept results ---


@dataclass(frozen=True, slots=True)
class ToolContext:
    """A kept result."""

    pointer: str
    tool: str
    args: Mapping[str, Any]
    result: str
    """The whole result as text, whatever a prompt shows of it."""
    task_id: str
    query_id: str


class ToolContextManager:
    """Keeps results and gives pointers to them: in memory, or one JSON file each under `directory`, where other instances find
    them again."""

    def __init__(self, directory: str | Path | None = None) -> None:
        self._directory = None if directory is None else Path(directory)
        self._kept: dict[str, dict[str, str]] = {}
        """Group, one per query → pointer → JSON."""

    def save(self, tool_name: str, args: Mapping[str, Any], result: Any, task_id: str, query_id: str) -> str:
        """Keep a result and return its pointer; what JSON cannot say is kept as text.

        Raises OSError if the directory cannot be written.
        """
        data = {"tool": tool_name, "args": dict(args), "result": render_value(result), "task_id": task_id, "query_id": query_id}
        text = json.dumps(data, default=render_value)
        group = sha256(query_id)[:16]
        number = len(self.pointers_for(query_id)) + 1
        while not self._put(group, f"{group}/{number:06d}", text):
            number += 1
        return f"{group}/{number:06d}"

    def load(self, pointers: Iterable[str]) -> list[ToolContext]:
        """Return results in the order of their pointers. Raises KeyError for an unknown pointer."""
        return [ToolContext(pointer, **self._data(pointer)) for pointer in pointers]

    def pointers_for(self, query_id: str) -> list[str]:
        """Return all pointers of a query, oldest first."""
        group = sha256(query_id)[:16]
        if self._directory is None:
            return list(self._kept.get(group, ()))
        return sorted(f"{group}/{file.stem}" for file in (self._directory / group).glob("*.json"))

    def _put(self, group: str, pointer: str, text: str) -> bool:
        """Keep a text. Return False if another instance has just taken the pointer."""
        if self._directory is None:
            self._kept.setdefault(group, {})[pointer] = text
            return True
        (self._directory / group).mkdir(parents=True, exist_ok=True)
        try:
            with (self._directory / f"{pointer}.json").open("x", encoding="ascii") as file:
                file.write(text)
        except FileExistsError:
            return False
        except OSError:  # a full disk leaves no half of a result
            (self._directory / f"{pointer}.json").unlink(missing_ok=True)
            raise
        return True

    def _data(self, pointer: str) -> Any:
        if not re.fullmatch(r"[0-9a-f]{16}/[0-9]{6}", pointer):
            raise KeyError(pointer)
        if self._directory is None:
            return json.loads(self._kept.get(pointer.partition("/")[0], {})[pointer])
        try:
            return json.loads((self._directory / f"{pointer}.json").read_text(encoding="ascii"))
        except FileNotFoundError:
            raise KeyError(pointer) from None


@dataclass(slots=True)
class Scratchpad:
    """The results of one task's tool calls, in order (agent layout)."""

    entries: list[ToolCallStatus] = field(default_factory=list)

    def add_tool_result(
        self, tool_name: str, tool_args: Mapping[str, Any], result: Any, summary: str, *, max_chars: int | None = None
    ) -> None:
        """`max_chars`: how many of a longer result prompts show."""
        text = render_value(result)
        done = ToolCallStatus(tool_name, tool_args, TaskStatus.COMPLETED, text, summary=summary, max_chars=max_chars)
        self.entries.append(done)

    @property
    def text(self) -> str:
        """The text that the model sees."""
        return "\n".join(f"{call}: {call.shown}" if call.error is None else f"{call} failed: {call.error}" for call in self.entries)
