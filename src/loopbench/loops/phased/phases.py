"""One run: understand, then rounds of plan, execute and reflect, then answer (rows S1-17 to S1-28, S1-43)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from loopbench.protocol import (
    ContextOverflow,
    ModelError,
    Observer,
    Outcome,
    PlanTask,
    Query,
    Reply,
    Request,
    StopReason,
    Tasks,
    Toolbox,
    Understanding,
    WireError,
)

from .callbacks import AgentCallbacks, ToolExecutorCallbacks, notify
from .codecs import (
    ANSWER,
    PLAN,
    REASON,
    REFLECT,
    UNDERSTAND,
    ContextsCodec,
    JsonCodec,
    SchemaAnswerCodec,
    TextAnswerCodec,
    TextCodec,
)
from .context import ToolContextManager
from .ending import RunEnd, StoppableModel, stop, unless_set
from .executor import CANCELLED, keep
from .predictors import predictors_of
from .prompts import (
    CONTEXTS_PROMPT,
    NO_DATA,
    REASON_PROMPT,
    call_text,
    completed,
    failures_text,
    format_tool,
    guidance_text,
    paragraphs,
    results_text,
    sections,
    shown,
    tasks_text,
    thoughts_text,
    understanding_text,
)
from .state import Phase, PhaseTask, Reflection, TaskStatus, TaskType, ToolCallStatus

if TYPE_CHECKING:
    from .loop import Phased

STEP_LIMIT = "step limit"
DEPENDENCY_CYCLE = "dependency cycle"
DEPENDENCY_FAILED = "dependency failed"


class Executor(Protocol):
    """What the phases need of an executor (row S1-34). The token is passed only where the run has one."""

    async def select_tools(self, task: PhaseTask, understanding: Understanding | None) -> list[ToolCallStatus]: ...

    async def execute_tools(
        self,
        task: PhaseTask,
        query_id: str,
        callbacks: ToolExecutorCallbacks | None = None,
        cancellation_token: asyncio.Event | None = None,
    ) -> bool: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run is given."""

    query: Query
    tools: Toolbox
    model: StoppableModel
    executor: Executor
    contexts: ToolContextManager
    observer: Observer
    ending: RunEnd


@dataclass(slots=True)
class PhaseProgress:
    """What a run has come to."""

    phase: Phase | None = None
    phases: list[Phase] = field(default_factory=list)
    understanding: Understanding | None = None
    round: int = 0
    tasks: list[PhaseTask] = field(default_factory=list)
    """Of all rounds."""
    tool_tasks: int = 0
    """How many use_tools tasks have been started."""
    limited: bool = False
    """A task was refused because the tool tasks were used up."""
    remark: str = ""
    """Why the last plan could not be read; empty once one was."""
    reflection: Reflection | None = None
    chosen: list[str] = field(default_factory=list)
    """Labels of the results that the answer request held."""


class PhasedRun:
    """The phases of one run. All its state is its own."""

    def __init__(self, config: Phased, given: Surroundings) -> None:
        self.config = config
        self.given = given
        self.progress = PhaseProgress()
        self.query_id = uuid.uuid4().hex
        self.predictors = predictors_of(config.prompts, config.program)
        self.callbacks = config.callbacks or AgentCallbacks()

    async def run(self) -> Outcome:
        try:
            stop_reason = await self._rounds()
            answer = await self._answer()
        except ContextOverflow as error:
            return self._outcome(None, StopReason.CONTEXT_OVERFLOW, error)
        except ModelError as error:
            return self._outcome(None, StopReason.PROVIDER_ERROR, error)
        except asyncio.CancelledError:
            if not self._cancelled_by_token():
                raise
            return self._outcome(None, StopReason.CANCELLED)
        self._enter(Phase.COMPLETE)
        return self._outcome(answer, stop_reason)

    async def _rounds(self) -> StopReason:
        """Everything before the answer; gives why it ended."""
        config, progress = self.config, self.progress
        if config.understand:
            await self._understand()
        while progress.round < config.max_rounds:
            progress.round += 1
            notify(self.callbacks.on_iteration_start, progress.round)
            tasks = await self._plan()
            if not tasks:
                return StopReason.FINISHED
            await self._execute(tasks)
            if not config.reflect:
                return StopReason.FORCED if progress.limited else StopReason.FINISHED
            reflection = await self._reflect()
            if reflection.isComplete:
                return StopReason.FINISHED
            if config.max_tool_tasks is not None and progress.tool_tasks >= config.max_tool_tasks:
                break
        return StopReason.FORCED

    # --- the phases ---

    async def _understand(self) -> None:
        self._enter(Phase.UNDERSTAND)
        reply = await self._ask(UNDERSTAND, Phase.UNDERSTAND, sections(("Question", self._question)))
        try:
            self.progress.understanding = UNDERSTAND.parse(reply)
        except WireError as error:
            self._unreadable(Phase.UNDERSTAND, error)
            self.progress.understanding = Understanding(self._question)
        notify(self.callbacks.on_understanding_complete, self.progress.understanding)

    async def _plan(self) -> list[PhaseTask]:
        """The round's tasks; one task that is the whole question where there is no plan."""
        progress = self.progress
        move = Tasks((PlanTask("task", self._question),))
        if self.config.plan:
            self._enter(Phase.PLAN)
            tools = "\n".join(format_tool(tool) for tool in self.given.tools)
            reply = await self._ask(PLAN, Phase.PLAN, sections(*self._gathered(), *self._guidance(), ("Tools", tools)))
            try:
                move = PLAN.parse(reply)
            except WireError as error:
                self._unreadable(Phase.PLAN, error)
                progress.remark = f"The plan of round {progress.round} could not be read: {error}"
            else:
                progress.remark = ""
        tasks = numbered(move.tasks, progress.round, self.given.observer)
        progress.tasks += tasks
        notify(self.callbacks.on_plan_created, tasks, progress.round)
        if move.summary:
            notify(self.callbacks.on_progress_message, move.summary)
        return tasks

    async def _execute(self, tasks: Sequence[PhaseTask]) -> None:
        """Run a round's tasks, each once what it depends on has ended; those that are ready run together."""
        self._enter(Phase.EXECUTE)
        allowed = self._allowed(tasks)
        started: list[asyncio.Task[None]] = []
        try:
            while True:
                for task in self._startable(tasks, allowed):
                    self._set(task, TaskStatus.IN_PROGRESS)
                    task.context = self._context(task, tasks)
                    started.append(asyncio.create_task(self._task(task)))
                running = [work for work in started if not work.done()]
                if not running:
                    break
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for work in running:
                    if work.done():
                        work.result()
        finally:
            await self._wind_down(started)
        for task in tasks:
            if task.status is TaskStatus.PENDING:
                self._fail(task, DEPENDENCY_CYCLE)

    async def _reflect(self) -> Reflection:
        self._enter(Phase.REFLECT)
        text = sections(*self._gathered(), ("Tasks", tasks_text(self.progress.tasks)))
        reply = await self._ask(REFLECT, Phase.REFLECT, text)
        try:
            reflection = REFLECT.reflection(reply)
        except WireError as error:
            self._unreadable(Phase.REFLECT, error)
            reflection = Reflection(False, f"The last judgement could not be read: {error}")
        self.progress.reflection = reflection
        notify(self.callbacks.on_reflection_complete, reflection, self.progress.round)
        return reflection

    async def _answer(self) -> Any:
        """The answer: a text, or a value where the query has a schema; the reply's text where that cannot be read."""
        self._enter(Phase.ANSWER)
        contexts = await self._choose_contexts()
        data = "\n".join(filter(None, [*contexts, thoughts_text(self.progress.tasks)]))
        if not data and not self._results:
            data = NO_DATA
        text = sections(*self._asked(), ("Data", data), ("Failures", self._failures(self.progress.tasks)))
        codec = ANSWER if self.given.query.schema is None else SchemaAnswerCodec.of(self.given.query.schema)
        notify(self.callbacks.on_answer_start)
        reply = await self._ask(codec, Phase.ANSWER, text, streamed=self._streams)
        try:
            return codec.parse(reply).value
        except WireError as error:
            self._unreadable(Phase.ANSWER, error)
            return reply.text

    async def _choose_contexts(self) -> list[str]:
        """The results that the model wants to see for the answer, whole; all of them where its choice cannot be read."""
        calls = {f"c{number}": call for number, call in enumerate(self._results, 1)}
        if not calls:
            return []
        offered = tuple((label, shown(call)) for label, call in calls.items())
        codec = ContextsCodec(offered)
        listed = "\n".join(f"{label}: {call_text(calls[label].tool, calls[label].args)}:\n{content}" for label, content in offered)
        text = sections(*self._asked(), ("Results", listed), ("Failures", self._failures(self.progress.tasks)))
        reply = await self._ask(codec, CONTEXTS_PROMPT, text)
        try:
            chosen = codec.chosen(reply)
        except WireError as error:
            self._unreadable(Phase.ANSWER, error)
            chosen = tuple(calls)
        self.progress.chosen = list(chosen)
        return [f"{call_text(calls[label].tool, calls[label].args)}:\n{self._whole(calls[label])}" for label in chosen]

    # --- one task ---

    async def _task(self, task: PhaseTask) -> None:
        try:
            await (self._use_tools(task) if task.taskType is TaskType.USE_TOOLS else self._reason(task))
        except BaseException as error:  # what ends this task ends the run: no neighbour asks the model again meanwhile
            self.given.ending.end(error)
            if not task.ended:
                self._fail(task, CANCELLED if isinstance(error, asyncio.CancelledError) else f"{type(error).__name__}: {error}")
            raise

    async def _use_tools(self, task: PhaseTask) -> None:
        given, token = self.given, self.given.ending.token
        try:
            # an executor of the user's own asks a model that knows of no token
            task.toolCalls = await unless_set(token, given.executor.select_tools(task, self.progress.understanding))
        except WireError as error:
            self._fail(task, f"The choice of tools could not be read: {error}")
            return
        notify(self.callbacks.on_task_tool_calls_set, task.id, task.toolCalls)
        given.ending.checkpoint()
        asked = (token,) if token is not None else ()  # the document's own signature has none
        good = await given.executor.execute_tools(task, self.query_id, self.callbacks, *asked)
        for call in completed(task):
            if call.pointer is None:  # an executor of the user's own need not keep results
                keep(given.contexts, task, call, self.query_id, given.observer)
        self._set(task, TaskStatus.COMPLETED if good else TaskStatus.FAILED)

    async def _reason(self, task: PhaseTask) -> None:
        text = paragraphs(task.context, sections(("Task", task.description)))
        task.output = REASON.parse(await self._ask(REASON, REASON_PROMPT, text, task.request_scope)).text
        self._set(task, TaskStatus.COMPLETED)

    def _startable(self, tasks: Sequence[PhaseTask], allowed: set[str]) -> list[PhaseTask]:
        """Pending tasks that can start now. Those that never will, by limit or rule, end here, which may let others start."""
        by_id = {task.id: task for task in tasks}
        while True:
            ready = [task for task in tasks if task.status is TaskStatus.PENDING and all(by_id[d].ended for d in task.dependsOn)]
            started = [task for task in ready if not self._settled(task, by_id, allowed)]
            if len(started) == len(ready):
                break
        self.progress.tool_tasks += sum(task.taskType is TaskType.USE_TOOLS for task in started)
        return started

    def _settled(self, task: PhaseTask, by_id: Mapping[str, PhaseTask], allowed: set[str]) -> bool:
        """Whether a ready task ends without being started."""
        failed = any(by_id[name].status is TaskStatus.FAILED for name in task.dependsOn)
        if failed and self.config.failed_dependency == "skip":
            self._set(task, TaskStatus.COMPLETED)
        elif failed and self.config.failed_dependency == "fail":
            self._fail(task, DEPENDENCY_FAILED)
        elif task.taskType is TaskType.USE_TOOLS and task.id not in allowed:
            self.progress.limited = True
            self._fail(task, STEP_LIMIT)
        else:
            return False
        return True

    def _allowed(self, tasks: Sequence[PhaseTask]) -> set[str]:
        """The use_tools tasks that the limit leaves room for, in an order that does not depend on which task ends first."""
        wanted = [task.id for task in in_order(tasks) if task.taskType is TaskType.USE_TOOLS]
        limit = self.config.max_tool_tasks
        return set(wanted if limit is None else wanted[: max(0, limit - self.progress.tool_tasks)])

    async def _wind_down(self, started: Sequence[asyncio.Task[None]]) -> None:
        """Leave nothing running. Tasks see the token themselves, and get the time that they grant their tools."""
        try:
            if started and self._cancelled_by_token():
                await asyncio.wait(started, timeout=self.config.cancel_grace_s + 1)  # they wait cancel_grace_s themselves
        finally:
            await stop(started)

    # --- what requests show ---

    @property
    def _question(self) -> str:
        return self.given.query.full_text

    def _asked(self) -> list[tuple[str, str]]:
        return [("Question", self._question), ("Understanding", understanding_text(self.progress.understanding))]

    def _gathered(self) -> list[tuple[str, str]]:
        tasks = self.progress.tasks
        return [*self._asked(), ("Results so far", results_text(tasks)), ("Failures", self._failures(tasks))]

    def _guidance(self) -> list[tuple[str, str]]:
        return [("Guidance", guidance_text(self.progress.reflection))]

    def _failures(self, tasks: Sequence[PhaseTask]) -> str:
        return "\n".join(filter(None, [self.progress.remark, failures_text(tasks)]))

    def _context(self, task: PhaseTask, tasks: Sequence[PhaseTask]) -> str:
        """What one task may see: earlier rounds and what it depends on, never a neighbour that happens to have ended.

        What reflect found missing has become the plan's tasks; only a task that is the whole question is told all of it.
        """
        needed = needed_by(task, tasks)
        earlier = self.progress.tasks[: len(self.progress.tasks) - len(tasks)]
        seen = [*earlier, *(other for other in tasks if other.id in needed)]
        reflection = self.progress.reflection
        whole = task.description == self._question
        guidance = guidance_text(reflection) if whole else reflection.reasoning if reflection else ""
        return sections(
            ("Question", self._question),
            ("Results", results_text(seen)),
            ("Failures", self._failures(seen)),
            ("Guidance", guidance),
        )

    @property
    def _results(self) -> list[ToolCallStatus]:
        return [call for task in self.progress.tasks for call in completed(task)]

    def _whole(self, call: ToolCallStatus) -> str:
        """A result from where it is kept; an executor's own store, or a disk that fails, may leave it with the call only."""
        try:
            return self.given.contexts.load([call.pointer or ""])[0].result
        except (KeyError, OSError, ValueError):  # unknown; unreadable; damaged
            return call.output or ""

    # --- asking and telling ---

    @property
    def _streams(self) -> bool:
        return (self.given.observer.streams or self.callbacks.streams) and self.given.model.capabilities.streaming

    async def _ask(
        self, codec: JsonCodec | TextAnswerCodec | TextCodec, predictor: str, text: str, scope: str = "", *, streamed: bool = False
    ) -> Reply:
        """Raises ModelError."""
        form, schema = "", None
        if not isinstance(codec, TextAnswerCodec | TextCodec):
            form = codec.form
            schema = codec.schema if self.given.model.capabilities.response_schema else None
        request = self.predictors[predictor].request(text, form, response_schema=schema, role=codec.role, scope=scope, codec=codec)
        return await (self._stream(request) if streamed else self.given.model.complete(request))

    async def _stream(self, request: Request) -> Reply:
        text, reply = "", None
        async for chunk in self.given.model.stream(request):
            text += chunk.text
            reply = chunk.reply or reply
            if self.given.observer.streams:
                self.given.observer.chunk(chunk)
            if chunk.text:
                notify(self.callbacks.on_answer_stream, chunk.text)
        return reply or Reply(text)

    def _enter(self, phase: Phase) -> None:
        """Go over to a phase. Raises CancelledError once the token is set."""
        if self.progress.phase is not None:
            notify(self.callbacks.on_phase_complete, self.progress.phase)
        if phase is not Phase.COMPLETE:  # an answer that stands is not thrown away
            self.given.ending.checkpoint()
        self.progress.phase = phase
        self.progress.phases.append(phase)
        self.given.observer.note("phase", phase=phase.value, round=self.progress.round)
        notify(self.callbacks.on_phase_start, phase)

    def _set(self, task: PhaseTask, status: TaskStatus) -> None:
        task.status = status
        notify(self.callbacks.on_task_update, task.id, status)

    def _fail(self, task: PhaseTask, error: str) -> None:
        task.error = error
        self._set(task, TaskStatus.FAILED)
        self.given.observer.note("task_failed", task=task.id, error=error)

    def _unreadable(self, phase: Phase, error: WireError) -> None:
        self.given.observer.note("unreadable", phase=phase.value, error=str(error))

    def _cancelled_by_token(self) -> bool:
        """Whether the token ends the run, and no cancellation from outside does."""
        token, current = self.given.ending.token, asyncio.current_task()
        return token is not None and token.is_set() and not (current is not None and current.cancelling())

    def _outcome(self, answer: Any, stop_reason: StopReason, error: Exception | None = None) -> Outcome:
        progress = self.progress
        details: dict[str, Any] = {
            "gathered": len(self._results),
            "rounds": progress.round,
            "phases": [phase.value for phase in progress.phases],
            "tasks": [task.as_dict() for task in progress.tasks],
            "contexts": progress.chosen,
        }
        if error is not None:
            details["error"] = str(error)
        return Outcome(answer, stop_reason, progress.tool_tasks, None, details)


# --- plans ---


def numbered(planned: Sequence[PlanTask], number: int, observer: Observer) -> list[PhaseTask]:
    """A round's tasks with ids of their own, `r<round>.<id>`; what they depend on follows (row S1-20).

    An id that stands twice gets a number, and depending on it means the first; an unknown one is left out and noted.
    """
    scopes: list[str] = []
    taken: set[str] = set()
    for task in planned:
        scope = unused(task.id, taken)
        taken.add(scope)
        scopes.append(scope)
    made = []
    for task, scope in zip(planned, scopes, strict=True):
        known = [name for name in dict.fromkeys(task.depends_on) if name in taken]
        for name in task.depends_on:
            if name not in taken:
                observer.note("unknown_dependency", task=task.id, depends_on=name)
        depends_on = [f"r{number}.{name}" for name in known]
        made.append(
            PhaseTask(f"r{number}.{scope}", task.description, taskType=TaskType(task.kind), dependsOn=depends_on, scope=scope)
        )
    return made


def unused(name: str, taken: set[str]) -> str:
    """The name, or the name with the first number that makes it new."""
    made, number = name, 1
    while made in taken:
        number += 1
        made = f"{name}#{number}"
    return made


def in_order(tasks: Sequence[PhaseTask]) -> list[PhaseTask]:
    """Each task after what it depends on, otherwise in the plan's order; tasks in or behind a cycle are left out."""
    ordered: dict[str, PhaseTask] = {}
    waiting = list(tasks)
    while True:
        later = []
        for task in waiting:
            if all(name in ordered for name in task.dependsOn):
                ordered[task.id] = task
            else:
                later.append(task)
        if len(later) == len(waiting):
            return list(ordered.values())
        waiting = later


def needed_by(task: PhaseTask, tasks: Sequence[PhaseTask]) -> set[str]:
    """Ids of all that a task depends on, directly or not."""
    by_id = {other.id: other for other in tasks}
    found: set[str] = set()
    open_ids = list(task.dependsOn)
    while open_ids:
        name = open_ids.pop()
        if name not in found:
            found.add(name)
            open_ids += by_id[name].dependsOn
    return found
