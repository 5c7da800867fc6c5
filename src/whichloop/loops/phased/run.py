"""One run: understand, then rounds of plan, execute and reflect, then answer (rows S1-17 to S1-28, S1-43)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from whichloop.loops.shared.json_codec import read_texts
from whichloop.protocol import (
    Chunk,
    ContextOverflow,
    Model,
    ModelError,
    Observer,
    Outcome,
    Query,
    Reply,
    Request,
    StopReason,
    Toolbox,
)
from whichloop.protocol.cancellation import is_being_cancelled, stop_tasks
from whichloop.protocol.model import whole_reply
from whichloop.protocol.moves import PlanTask, Tasks, Understanding, WireError
from whichloop.protocol.values import cap
from whichloop.protocol.wire import read_object

from . import codecs, prompts
from .executor import CANCELLED, AgentTools, RunEnd, StoppableModel, ToolExecutor, keep, next_ended, unless_set
from .prompts import failures_text, guidance_text, paragraphs, results_text, sections, thoughts_text
from .state import AgentCallbacks, Phase, PhaseTask, Reflection, TaskStatus, TaskType, ToolCallStatus, ToolContextManager, notify

if TYPE_CHECKING:
    from .loop import Phased

ANSWER_RETRIES = 2
"""How often an answer that the query's type refuses is asked for again; without a type none is refused."""


Asked = tuple[Any, Reply, WireError | None]
"""A move and the reply that has it; None, the reply and why it cannot be read."""


class PhasedRun:
    """One run: what it was given, its state, and its phases in the order in which they run."""

    def __init__(self, config: Phased, query: Query, tools: Toolbox, model: Model, observer: Observer) -> None:
        self.config, self.query, self.tools, self.observer = config, query, tools, observer
        self.question, self.query_id = query.full_text, uuid.uuid4().hex
        self.predictors = prompts.predictors_of(config.program)
        self.callbacks = config.callbacks or AgentCallbacks()
        self.contexts = config.context_manager or ToolContextManager()
        self.ending = RunEnd(config.cancellation_token)
        self.model = StoppableModel(model, self.ending)
        self.executor = config.executor
        if self.executor is None:
            select_model = StoppableModel(config.select_model, self.ending) if config.select_model else None
            own = {"context_manager": self.contexts, "model": self.model, "select_model": select_model, "observer": observer}
            options = config.executor_options(tools, **own)
            self.executor = ToolExecutor(options) if config.tool_layout == "executor" else AgentTools(options)

        self.phases: list[Phase] = []
        """Those that the run has been in; the last is the one that it is in."""
        self.understanding: Understanding | None = None
        self.round = 0
        self.tasks: list[PhaseTask] = []
        """The plan: the tasks of all rounds."""
        self.plan_error = ""
        """Why the last plan could not be read; empty once one was."""
        self.tool_tasks = 0
        """How many use_tools tasks have been started."""
        self.limited = False
        """Whether a task was refused because the tool tasks were used up."""
        self.reflection: Reflection | None = None
        self.chosen: list[str] = []
        """Labels of the results that the answer's request holds."""

    async def run(self) -> Outcome:
        try:
            return await unless_set(self.ending.token, self._phases())
        except ContextOverflow as error:
            return self._outcome(None, StopReason.CONTEXT_OVERFLOW, error)
        except ModelError as error:
            return self._outcome(None, StopReason.PROVIDER_ERROR, error)
        except asyncio.CancelledError:
            if not self._is_token_set or is_being_cancelled():
                raise
            return self._outcome(None, StopReason.CANCELLED)

    async def _phases(self) -> Outcome:
        stop_reason = await self._rounds()
        answer = await self._answer()
        self._enter(Phase.COMPLETE)
        return self._outcome(answer, stop_reason)

    async def _rounds(self) -> StopReason:
        """Run everything before the answer. Return why it ended."""
        config = self.config
        if config.understand:
            self._enter(Phase.UNDERSTAND)
            move, _, _ = await self._ask("understand", codecs.UNDERSTAND, sections(("Question", self.question)))
            self.understanding = move or Understanding(self.question)
            notify(self.callbacks.on_understanding_complete, self.understanding)
        while self.round < config.max_rounds:
            self.round += 1
            notify(self.callbacks.on_iteration_start, self.round)
            tasks = await self._plan()
            if not tasks:
                return StopReason.FINISHED
            await self._execute(tasks)
            if not config.reflect:
                return StopReason.FORCED if self.limited else StopReason.FINISHED
            reflection = await self._reflect()
            if reflection.isComplete:
                return StopReason.FINISHED
            if config.max_tool_tasks is not None and self.tool_tasks >= config.max_tool_tasks:
                break
        return StopReason.FORCED

    # --- the phases ---

    async def _plan(self) -> list[PhaseTask]:
        """Return the round's tasks; without a plan, one task that is the whole question."""
        move = None
        if self.config.plan:
            self._enter(Phase.PLAN)
            tools = "\n".join([prompts.format_tool(tool) for tool in self.tools])
            text = sections(*self._gathered(), ("Guidance", guidance_text(self.reflection)), ("Tools", tools))
            move, _, error = await self._ask("plan", codecs.PLAN, text)
            self.plan_error = f"The plan of round {self.round} could not be read: {error}" if error else ""
        move = move or Tasks((PlanTask("task", self.question),))
        tasks = self._numbered(move.tasks)
        self.tasks += tasks
        notify(self.callbacks.on_plan_created, tasks, self.round)
        if move.summary:
            notify(self.callbacks.on_progress_message, move.summary)
        return tasks

    async def _execute(self, tasks: Sequence[PhaseTask]) -> None:
        """Run each task of the round once what it depends on has ended. Raises what ends a task, and leaves nothing running."""
        self._enter(Phase.EXECUTE)
        by_id, ordered = {task.id: task for task in tasks}, in_order(tasks)
        tool_tasks = [task.id for task in ordered if task.taskType is TaskType.USE_TOOLS]
        limit = self.config.max_tool_tasks
        refused = set() if limit is None else set(tool_tasks[max(0, limit - self.tool_tasks) :])
        work: dict[asyncio.Task[None], PhaseTask] = {}
        try:
            while True:
                waiting = [task for task in tasks if task.status is TaskStatus.PENDING]
                ready = [task for task in waiting if all(by_id[name].has_ended for name in task.dependsOn)]
                for task in ready:
                    self._end_unstarted(task, [by_id[name] for name in task.dependsOn], task.id in refused)
                if any(task.has_ended for task in ready):
                    continue  # others may be ready now
                for task in ready:
                    self.tool_tasks += task.taskType is TaskType.USE_TOOLS
                    self._set_status(task, TaskStatus.IN_PROGRESS)
                    task.context = self._context(task, tasks, ordered)
                    work[asyncio.create_task(self._task(task))] = task
                if not await next_ended(work):
                    break
        finally:
            await self._wind_down(work)
        for task in tasks:
            if task.status is TaskStatus.PENDING:
                self._fail(task, "dependency cycle")

    async def _wind_down(self, work: Mapping[asyncio.Task[None], PhaseTask]) -> None:
        """Leave nothing running. An executor sees the token itself, and gets the time that it grants its tools."""
        try:
            if self._is_token_set:
                await stop_tasks(worker for worker, task in work.items() if task.toolCalls is None)
                if work:
                    await asyncio.wait(work, timeout=self.config.cancel_grace_s + 1)
        finally:
            await stop_tasks(work)

    async def _reflect(self) -> Reflection:
        self._enter(Phase.REFLECT)
        tasks = "\n".join(f"[{task.id}] {task.status}: {task.description}" for task in self.tasks)
        move, reply, error = await self._ask("reflect", codecs.REFLECT, sections(*self._gathered(), ("Tasks", tasks)))
        if move is None:
            self.reflection = Reflection(False, f"The last judgement could not be read: {error}")
        else:
            next_steps = read_texts(read_object(reply.text), codecs.NEXT_STEPS)
            self.reflection = Reflection(move.done, move.reason, move.missing, next_steps)
        notify(self.callbacks.on_reflection_complete, self.reflection, self.round)
        return self.reflection

    async def _answer(self) -> Any:
        """Return the answer: a value if the query has a schema, else a text; the reply's text if it cannot be read."""
        self._enter(Phase.ANSWER)
        contexts = await self._choose_contexts()
        data = "\n".join(filter(None, [*contexts, thoughts_text(self.tasks)]))
        if not data and not self._results:
            data = prompts.NO_DATA
        text = sections(*self._asked(), ("Data", data), ("Failures", self._failures(self.tasks)))
        query = self.query
        codec = codecs.ANSWER if query.schema is None else codecs.answer_codec(query.schema, query.takes_null)
        streams = self.callbacks.streams and self.model.capabilities.streaming
        notify(self.callbacks.on_answer_start)
        answer, refusal = None, ""
        for _ in range(1 + ANSWER_RETRIES):
            move, reply, _ = await self._ask("answer", codec, paragraphs(text, refusal), streams=streams)
            answer = reply.text if move is None else move.value
            problem = query.problem(answer)
            if not problem:
                break
            self.observer.note("invalid_answer", problem=problem)
            refusal = sections(("Your last answer, which was refused", reply.text), ("Why it was refused", problem))
        return answer

    async def _choose_contexts(self) -> list[str]:
        """Return the whole results that the model wants to see for the answer; all of them if its choice cannot be read."""
        calls = {f"c{number}": call for number, call in enumerate(self._results, 1)}
        if not calls:
            return []
        codec = codecs.contexts_codec({label: call.shown for label, call in calls.items()})
        listed = "\n".join(f"{label}: {call}:\n{call.shown}" for label, call in calls.items())
        text = sections(*self._asked(), ("Results", listed), ("Failures", self._failures(self.tasks)))
        move, reply, _ = await self._ask("contexts", codec, text)
        wanted = list(calls) if move is None else read_object(reply.text)["contexts"]
        self.chosen = [label for label in calls if label in wanted]
        if wanted and not self.chosen:
            self._note_unreadable(WireError(f'"contexts" holds no label of a result; they are {", ".join(calls)}'))
            self.chosen = list(calls)
        return [f"{calls[label]}:\n{cap(calls[label].output or '', calls[label].max_chars)}" for label in self.chosen]

    # --- a task of a round ---

    def _numbered(self, planned: Sequence[PlanTask]) -> list[PhaseTask]:
        """Return a round's tasks with ids of their own, `r<round>.<id>`, and dependencies renamed to match (row S1-20).

        A duplicate id gets a number, and depending on it means the first; an unknown one is left out and noted.
        """
        scopes: dict[str, PlanTask] = {}
        for task in planned:
            names = chain([task.id], (f"{task.id}#{number}" for number in count(2)))
            scopes[next(name for name in names if name not in scopes)] = task
        tasks = []
        for scope, task in scopes.items():
            for name in task.depends_on:
                if name not in scopes:
                    self.observer.note("unknown_dependency", task=task.id, depends_on=name)
            needs = [f"r{self.round}.{name}" for name in dict.fromkeys(task.depends_on) if name in scopes]
            kind = TaskType(task.kind)
            tasks.append(PhaseTask(f"r{self.round}.{scope}", task.description, taskType=kind, dependsOn=needs, scope=scope))
        return tasks

    def _end_unstarted(self, task: PhaseTask, needed: Sequence[PhaseTask], is_refused: bool) -> None:
        """End a task that is not to be started. `needed`: what it depends on."""
        has_failed = any(other.status is TaskStatus.FAILED for other in needed)
        if has_failed and self.config.failed_dependency == "skip":
            self._set_status(task, TaskStatus.COMPLETED)
        elif has_failed and self.config.failed_dependency == "fail":
            self._fail(task, "dependency failed")
        elif is_refused:
            self.limited = True
            self._fail(task, "step limit")

    async def _task(self, task: PhaseTask) -> None:
        try:
            await (self._use_tools(task) if task.taskType is TaskType.USE_TOOLS else self._reason(task))
        except BaseException as error:  # what ends this task ends the run: no neighbour asks the model again meanwhile
            self.ending.cause = self.ending.cause or error
            if not task.has_ended:
                self._fail(task, CANCELLED if isinstance(error, asyncio.CancelledError) else f"{type(error).__name__}: {error}")
            raise

    async def _use_tools(self, task: PhaseTask) -> None:
        token, executor = self.ending.token, self.executor
        try:
            task.toolCalls = await executor.select_tools(task, self.understanding)
        except WireError as error:
            return self._fail(task, f"The choice of tools could not be read: {error}")
        notify(self.callbacks.on_task_tool_calls_set, task.id, task.toolCalls)
        self.ending.checkpoint()
        token_argument = () if token is None else (token,)  # the document's own signature has none
        good = await executor.execute_tools(task, self.query_id, self.callbacks, *token_argument)
        for call in task.calls(TaskStatus.COMPLETED):
            if call.pointer is None:  # an executor of the user's own need not keep results
                keep(self.contexts, task, call, call.output, self.query_id)
        return self._set_status(task, TaskStatus.COMPLETED if good else TaskStatus.FAILED)

    async def _reason(self, task: PhaseTask) -> None:
        text = paragraphs(task.context, sections(("Task", task.description)))
        move, _, _ = await self._ask("reason", codecs.REASON, text, task.scope or task.id)
        task.output = move.text
        self._set_status(task, TaskStatus.COMPLETED)

    # --- what requests show ---

    def _asked(self) -> list[tuple[str, str]]:
        return [("Question", self.question), ("Understanding", prompts.understanding_text(self.understanding))]

    def _gathered(self) -> list[tuple[str, str]]:
        return [*self._asked(), ("Results so far", results_text(self.tasks)), ("Failures", self._failures(self.tasks))]

    def _context(self, task: PhaseTask, tasks: Sequence[PhaseTask], ordered: Sequence[PhaseTask]) -> str:
        """Return what a task may see: earlier rounds and what it depends on, never a neighbour that happens to have ended.

        What reflect found missing has become the plan's tasks; only a task that is the whole question is told all of it.
        """
        needed = set(task.dependsOn)
        for other in reversed(ordered):
            if other.id in needed:
                needed.update(other.dependsOn)
        seen = [*self.tasks[: -len(tasks)], *(other for other in tasks if other.id in needed)]
        reasoning = self.reflection.reasoning if self.reflection else ""
        guidance = guidance_text(self.reflection) if task.description == self.question else reasoning
        results, failures = results_text(seen), self._failures(seen)
        return sections(("Question", self.question), ("Results", results), ("Failures", failures), ("Guidance", guidance))

    def _failures(self, tasks: Sequence[PhaseTask]) -> str:
        """Return what prompts say of these tasks' failures, and of a plan that could not be read."""
        return "\n".join(filter(None, [self.plan_error, failures_text(tasks)]))

    @property
    def _results(self) -> list[ToolCallStatus]:
        """All calls that gave a result."""
        return [call for task in self.tasks for call in task.calls(TaskStatus.COMPLETED)]

    # --- asking and telling ---

    async def _ask(self, name: str, codec: Any, text: str, scope: str = "", streams: bool = False) -> Asked:
        """Ask a predictor; `text` is the user message."""
        fields = {
            "scope": scope,
            "response_schema": codec.schema if self.model.capabilities.response_schema else None,
            "complete": self._streamed if streams else None,
        }
        try:
            return *await prompts.ask(self.predictors[name], self.model, codec, text, codec.form, **fields), None
        except WireError as error:
            self._note_unreadable(error)
            return None, error.reply, error

    async def _streamed(self, request: Request) -> Reply:
        """Return the model's reply, and tell its pieces as they come."""
        self.ending.checkpoint()

        async def told() -> AsyncGenerator[Chunk, None]:
            async for chunk in self.model.stream(request):
                if chunk.text:
                    notify(self.callbacks.on_answer_stream, chunk.text)
                yield chunk

        return await whole_reply(told())

    def _enter(self, phase: Phase) -> None:
        """Go over to a phase. Raises CancelledError once the token is set."""
        if self.phases:
            notify(self.callbacks.on_phase_complete, self.phases[-1])
        if phase is not Phase.COMPLETE:  # an answer that exists is not thrown away
            self.ending.checkpoint()
        self.phases.append(phase)
        self.observer.note("phase", phase=phase.value, round=self.round)
        notify(self.callbacks.on_phase_start, phase)

    def _set_status(self, task: PhaseTask, status: TaskStatus) -> None:
        task.status = status
        notify(self.callbacks.on_task_update, task.id, status)

    def _fail(self, task: PhaseTask, error: str) -> None:
        task.error = error
        self._set_status(task, TaskStatus.FAILED)
        self.observer.note("task_failed", task=task.id, error=error)

    def _note_unreadable(self, error: WireError) -> None:
        self.observer.note("unreadable", phase=self.phases[-1].value, error=str(error))

    @property
    def _is_token_set(self) -> bool:
        return self.ending.token is not None and self.ending.token.is_set()

    def _outcome(self, answer: Any, stop_reason: StopReason, error: Exception | None = None) -> Outcome:
        details: dict[str, Any] = {
            "gathered": len(self._results),
            "rounds": self.round,
            "phases": [phase.value for phase in self.phases],
            "tasks": [task.as_dict() for task in self.tasks],
            "contexts": self.chosen,
        }
        if error is not None:
            details["error"] = str(error)
        return Outcome(answer, stop_reason, self.tool_tasks, None, details)


def in_order(tasks: Sequence[PhaseTask]) -> list[PhaseTask]:
    """Return each task after what it depends on, otherwise in the plan's order, without tasks in or behind a cycle."""
    ordered: dict[str, PhaseTask] = {}
    placed = -1
    while placed < len(ordered):
        placed = len(ordered)
        for task in tasks:
            if all(name in ordered for name in task.dependsOn):
                ordered.setdefault(task.id, task)
    return list(ordered.values())
