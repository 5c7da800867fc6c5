"""The parts of a phased run: phases, tasks, tool calls, and the model's understanding and judgement (rows S1-1 to S1-4).

Rows such as S1-1 are those of docs/conformance.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from whichloop.protocol import Chunk, Model, Reply, Request, StopRun, Understanding, WrappedModel
from whichloop.protocol.cancellation import ended_before, stop_tasks
from whichloop.protocol.redact import logger_of

__all__ = ["Phase", "PhaseTask", "PhaseToolCall", "Reflection", "TaskStatus", "TaskType", "ToolCallStatus", "Understanding"]


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
    def ended(self) -> bool:
        return self.status in (TaskStatus.COMPLETED, TaskStatus.FAILED)

    @property
    def request_scope(self) -> str:
        return self.scope or self.id

    def as_dict(self) -> dict[str, Any]:
        """Return the task as JSON, without what it saw."""
        calls = [
            {"tool": call.tool, "args": dict(call.args), "status": call.status.value, "output": call.output, "error": call.error}
            for call in self.toolCalls or ()
        ]
        return {
            "id": self.id,
            "description": self.description,
            "status": self.status.value,
            "taskType": self.taskType.value,
            "toolCalls": calls,
            "dependsOn": list(self.dependsOn),
            "output": self.output,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class Reflection:
    """Whether the question can be answered, and what to do if not (row S1-24)."""

    isComplete: bool  # noqa: N815
    reasoning: str = ""
    missingInfo: tuple[str, ...] = ()  # noqa: N815
    suggestedNextSteps: tuple[str, ...] = ()  # noqa: N815


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


T = TypeVar("T")

TOKEN_SET = "the cancellation token is set"  # noqa: S105  (no password)


def checkpoint(token: asyncio.Event | None) -> None:
    """Raise CancelledError once the token is set: it is looked at before all calls, before each and after each (row S1-10)."""
    if token is not None and token.is_set():
        raise asyncio.CancelledError(TOKEN_SET)


async def unless_set(token: asyncio.Event | None, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; once the token is set, cancel it and raise CancelledError."""
    if token is None:
        return await work
    finished = await ended_before(token, work)
    if finished is None:
        raise asyncio.CancelledError(TOKEN_SET)
    return finished.result()


async def finish_together(
    work: Mapping[asyncio.Task[None], Callable[[], bool]], token: asyncio.Event | None, grace_s: float
) -> None:
    """Wait for concurrent tasks; the first that fails, or the token, ends all of them before this raises.

    `work`: task → whether it is in a thread now, which can only be waited for: at most `grace_s` seconds once the token is set.
    Raises what the first to fail raised, or CancelledError. A cancellation from outside grants no grace.
    """
    watchers = [] if token is None else [asyncio.create_task(token.wait())]
    try:
        while running := [task for task in work if not task.done()]:
            await asyncio.wait([*running, *watchers], return_when=asyncio.FIRST_COMPLETED)
            for task in running:
                if task.done():
                    task.result()
            if any(watcher.done() for watcher in watchers):
                watchers[0].result()  # as in `ended_before`
                in_threads = [task for task in running if not task.done() and work[task]()]
                await stop_tasks(task for task in running if task not in in_threads)
                await _wait_at_most(grace_s, in_threads)
                raise asyncio.CancelledError(TOKEN_SET)
    finally:
        await stop_tasks([*work, *watchers])


async def _wait_at_most(seconds: float, tasks: list[asyncio.Task[None]]) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)


@dataclass(slots=True)
class RunEnd:
    """The end of a run: its token is set, or something has failed in concurrent work."""

    token: asyncio.Event | None = None
    cause: BaseException | None = None

    def end(self, cause: BaseException) -> None:
        """End the run; the first cause stays."""
        self.cause = self.cause or cause

    def checkpoint(self) -> None:
        """Raise CancelledError or the cause once the run is over."""
        checkpoint(self.token)
        if isinstance(self.cause, asyncio.CancelledError):
            raise asyncio.CancelledError(*self.cause.args)
        if self.cause is not None:
            raise self.cause


class StoppableModel(WrappedModel):
    """A model that takes no further request once the run is over: no task makes one more call while its neighbours end."""

    def __init__(self, model: Model, ending: RunEnd) -> None:
        super().__init__(model)
        self._ending = ending

    async def complete(self, request: Request) -> Reply:
        """Raises as the model does; CancelledError once the token is set."""

        async def ask() -> Reply:
            self._ending.checkpoint()  # here: a neighbour may end the run after this task is made and before it starts
            return await self.model.complete(request)

        try:
            return await unless_set(self._ending.token, ask())
        except BaseException as error:
            self._ending.end(error)
            raise

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Raises as the model does; CancelledError once the token is set."""
        self._ending.checkpoint()
        pieces: asyncio.Queue[Chunk | None] = asyncio.Queue()
        reading = asyncio.create_task(_read(self.model.stream(request), pieces))
        try:
            while (chunk := await unless_set(self._ending.token, pieces.get())) is not None:
                yield chunk
            await reading
        except GeneratorExit:  # whoever reads wants no more, which ends nothing else
            raise
        except BaseException as error:
            self._ending.end(error)
            raise
        finally:
            await stop_tasks((reading,))


async def _read(chunks: AsyncIterator[Chunk], pieces: asyncio.Queue[Chunk | None]) -> None:
    """Queue a stream's pieces, then None. In one task from end to end: a time limit inside the stream belongs to its task."""
    try:
        async for chunk in chunks:
            pieces.put_nowait(chunk)
    finally:
        pieces.put_nowait(None)
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
