"""One run: understand, then rounds of plan, execute and reflect, then answer (rows S1-17 to S1-28, S1-43).

Rows such as S1-17 are those of docs/conformance.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from whichloop.protocol import ContextOverflow, ModelError, Observer, Outcome, PlanTask, StopReason, Tasks, Understanding, WireError
from whichloop.protocol.cancellation import stop_tasks
from whichloop.protocol.redact import logger_of
from whichloop.protocol.values import cap

from .codecs import ANSWER, PLAN, REASON, REFLECT, UNDERSTAND, ContextsCodec, SchemaAnswerCodec
from .executor import CANCELLED, keep
from .prompts import (
    CONTEXTS_PROMPT,
    NO_DATA,
    REASON_PROMPT,
    call_text,
    completed,
    format_tool,
    guidance_text,
    paragraphs,
    results_text,
    sections,
    shown_result,
    tasks_text,
    thoughts_text,
    understanding_text,
)
from .run import RunContext
from .state import Phase, PhaseTask, Reflection, TaskStatus, TaskType, ToolCallStatus, notify, unless_set

STEP_LIMIT = "step limit"
DEPENDENCY_CYCLE = "dependency cycle"
DEPENDENCY_FAILED = "dependency failed"


class RoundTasks:
    """The tasks of one round, which are the last of `run.progress.tasks`; those that are ready run together."""

    def __init__(self, run: RunContext, tasks: Sequence[PhaseTask]) -> None:
        self._run = run
        self._tasks = tasks
        self._by_id = {task.id: task for task in tasks}
        self._allowed = self._within_limit()

    async def execute(self) -> None:
        """Run each task once what it depends on has ended. Raises what ends a task, and leaves nothing running."""
        started: list[asyncio.Task[None]] = []
        try:
            while True:
                for task in self._startable():
                    self._run.set_status(task, TaskStatus.IN_PROGRESS)
                    task.context = self._context(task)
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
        for task in self._tasks:
            if task.status is TaskStatus.PENDING:
                self._run.fail(task, DEPENDENCY_CYCLE)

    # --- which tasks start ---

    def _within_limit(self) -> set[str]:
        """Return the use_tools tasks that the limit leaves room for, in an order that does not depend on which task ends first."""
        wanted = [task.id for task in in_order(self._tasks) if task.taskType is TaskType.USE_TOOLS]
        limit = self._run.config.max_tool_tasks
        return set(wanted if limit is None else wanted[: max(0, limit - self._run.progress.tool_tasks)])

    def _startable(self) -> list[PhaseTask]:
        """Return pending tasks that can start now. Tasks that a limit or rule stops end here, which may let others start."""
        while True:
            pending = [task for task in self._tasks if task.status is TaskStatus.PENDING]
            ready = [task for task in pending if all(self._by_id[name].ended for name in task.dependsOn)]
            started = [task for task in ready if not self._ends_unstarted(task)]
            if len(started) == len(ready):
                break
        self._run.progress.tool_tasks += sum(task.taskType is TaskType.USE_TOOLS for task in started)
        return started

    def _ends_unstarted(self, task: PhaseTask) -> bool:
        """Return whether a ready task ends without being started, after ending it."""
        rule = self._run.config.failed_dependency
        failed = any(self._by_id[name].status is TaskStatus.FAILED for name in task.dependsOn)
        if failed and rule == "skip":
            self._run.set_status(task, TaskStatus.COMPLETED)
        elif failed and rule == "fail":
            self._run.fail(task, DEPENDENCY_FAILED)
        elif task.taskType is TaskType.USE_TOOLS and task.id not in self._allowed:
            self._run.progress.limited = True
            self._run.fail(task, STEP_LIMIT)
        else:
            return False
        return True

    def _context(self, task: PhaseTask) -> str:
        """Return what one task may see: earlier rounds and what it depends on, never a neighbour that happens to have ended.

        What reflect found missing has become the plan's tasks; only a task that is the whole question is told all of it.
        """
        run, reflection = self._run, self._run.progress.reflection
        needed = needed_by(task, self._by_id)
        earlier = run.progress.tasks[: len(run.progress.tasks) - len(self._tasks)]
        seen = [*earlier, *(other for other in self._tasks if other.id in needed)]
        reasoning = reflection.reasoning if reflection else ""
        guidance = guidance_text(reflection) if task.description == run.question else reasoning
        return sections(
            ("Question", run.question), ("Results", results_text(seen)), ("Failures", run.failures(seen)), ("Guidance", guidance)
        )

    # --- one task ---

    async def _task(self, task: PhaseTask) -> None:
        try:
            await (self._use_tools(task) if task.taskType is TaskType.USE_TOOLS else self._reason(task))
        except BaseException as error:  # what ends this task ends the run: no neighbour asks the model again meanwhile
            self._run.ending.end(error)
            if not task.ended:
                self._run.fail(task, CANCELLED if isinstance(error, asyncio.CancelledError) else f"{type(error).__name__}: {error}")
            raise

    async def _use_tools(self, task: PhaseTask) -> None:
        run, inputs = self._run, self._run.inputs
        token = run.ending.token
        try:
            # an executor of the user's own asks a model that knows of no token
            task.toolCalls = await unless_set(token, inputs.executor.select_tools(task, run.progress.understanding))
        except WireError as error:
            run.fail(task, f"The choice of tools could not be read: {error}")
            return
        notify(run.callbacks.on_task_tool_calls_set, task.id, task.toolCalls)
        run.ending.checkpoint()
        token_argument = (token,) if token is not None else ()  # the document's own signature has none
        good = await inputs.executor.execute_tools(task, run.query_id, run.callbacks, *token_argument)
        for call in completed(task):
            if call.pointer is None:  # an executor of the user's own need not keep results
                keep(inputs.contexts, task, call, run.query_id, inputs.observer)
        run.set_status(task, TaskStatus.COMPLETED if good else TaskStatus.FAILED)

    async def _reason(self, task: PhaseTask) -> None:
        text = paragraphs(task.context, sections(("Task", task.description)))
        task.output = REASON.parse(await self._run.ask(REASON, REASON_PROMPT, text, task.request_scope)).text
        self._run.set_status(task, TaskStatus.COMPLETED)

    async def _wind_down(self, started: Sequence[asyncio.Task[None]]) -> None:
        """Leave nothing running. Tasks see the token themselves, and get the time that they grant their tools."""
        try:
            if started and self._run.is_cancelled_by_token:
                await asyncio.wait(started, timeout=self._run.config.cancel_grace_s + 1)  # they wait cancel_grace_s themselves
        finally:
            await stop_tasks(started)


# --- plans ---


def numbered(planned: Sequence[PlanTask], number: int, observer: Observer) -> list[PhaseTask]:
    """Return a round's tasks with ids of their own, `r<round>.<id>`, and dependencies renamed to match (row S1-20).

    A duplicate id gets a number, and depending on it means the first; an unknown one is left out and noted.
    """
    scopes: list[str] = []
    taken: set[str] = set()
    for task in planned:
        scope = unused(task.id, taken)
        taken.add(scope)
        scopes.append(scope)
    tasks = []
    for task, scope in zip(planned, scopes, strict=True):
        dependencies = [name for name in dict.fromkeys(task.depends_on) if name in taken]
        for name in task.depends_on:
            if name not in taken:
                observer.note("unknown_dependency", task=task.id, depends_on=name)
        depends_on = [f"r{number}.{name}" for name in dependencies]
        tasks.append(
            PhaseTask(f"r{number}.{scope}", task.description, taskType=TaskType(task.kind), dependsOn=depends_on, scope=scope)
        )
    return tasks


def unused(name: str, taken: set[str]) -> str:
    """Return the name, or the name with the first number that makes it new."""
    unused_name, number = name, 1
    while unused_name in taken:
        number += 1
        unused_name = f"{name}#{number}"
    return unused_name


def in_order(tasks: Sequence[PhaseTask]) -> list[PhaseTask]:
    """Return each task after what it depends on, otherwise in the plan's order, without tasks in or behind a cycle."""
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


def needed_by(task: PhaseTask, by_id: Mapping[str, PhaseTask]) -> set[str]:
    """Return the ids of all that a task depends on, directly or not."""
    needed: set[str] = set()
    open_ids = list(task.dependsOn)
    while open_ids:
        name = open_ids.pop()
        if name not in needed:
            needed.add(name)
            open_ids += by_id[name].dependsOn
    return needed


logger = logger_of(__name__)

ANSWER_RETRIES = 2
"""How often an answer that the query's type refuses is asked for again; without a type none is refused."""


class PhasedRun(RunContext):
    """The phases of one run."""

    async def run(self) -> Outcome:
        try:
            stop_reason = await self._rounds()
            answer = await self._answer()
        except ContextOverflow as error:
            return self._outcome(None, StopReason.CONTEXT_OVERFLOW, error)
        except ModelError as error:
            return self._outcome(None, StopReason.PROVIDER_ERROR, error)
        except asyncio.CancelledError:
            if not self.is_cancelled_by_token:
                raise
            return self._outcome(None, StopReason.CANCELLED)
        self.enter(Phase.COMPLETE)
        return self._outcome(answer, stop_reason)

    async def _rounds(self) -> StopReason:
        """Run everything before the answer. Return why it ended."""
        config, progress = self.config, self.progress
        if config.understand:
            await self._understand()
        while progress.round < config.max_rounds:
            progress.round += 1
            notify(self.callbacks.on_iteration_start, progress.round)
            tasks = await self._plan()
            if not tasks:
                return StopReason.FINISHED
            self.enter(Phase.EXECUTE)
            await RoundTasks(self, tasks).execute()
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
        self.enter(Phase.UNDERSTAND)
        reply = await self.ask(UNDERSTAND, Phase.UNDERSTAND, sections(("Question", self.question)))
        try:
            self.progress.understanding = UNDERSTAND.parse(reply)
        except WireError as error:
            self.note_unreadable(Phase.UNDERSTAND, error)
            self.progress.understanding = Understanding(self.question)
        notify(self.callbacks.on_understanding_complete, self.progress.understanding)

    async def _plan(self) -> list[PhaseTask]:
        """Return the round's tasks; without a plan, one task that is the whole question."""
        progress = self.progress
        move = Tasks((PlanTask("task", self.question),))
        if self.config.plan:
            self.enter(Phase.PLAN)
            tools = "\n".join([format_tool(tool) for tool in self.inputs.tools])
            guidance = guidance_text(progress.reflection)
            text = sections(*self._gathered(), ("Guidance", guidance), ("Tools", tools))
            reply = await self.ask(PLAN, Phase.PLAN, text)
            try:
                move = PLAN.parse(reply)
            except WireError as error:
                self.note_unreadable(Phase.PLAN, error)
                progress.remark = f"The plan of round {progress.round} could not be read: {error}"
            else:
                progress.remark = ""
        tasks = numbered(move.tasks, progress.round, self.inputs.observer)
        progress.tasks += tasks
        notify(self.callbacks.on_plan_created, tasks, progress.round)
        if move.summary:
            notify(self.callbacks.on_progress_message, move.summary)
        return tasks

    async def _reflect(self) -> Reflection:
        self.enter(Phase.REFLECT)
        text = sections(*self._gathered(), ("Tasks", tasks_text(self.progress.tasks)))
        reply = await self.ask(REFLECT, Phase.REFLECT, text)
        try:
            reflection = REFLECT.reflection(reply)
        except WireError as error:
            self.note_unreadable(Phase.REFLECT, error)
            reflection = Reflection(False, f"The last judgement could not be read: {error}")
        self.progress.reflection = reflection
        notify(self.callbacks.on_reflection_complete, reflection, self.progress.round)
        return reflection

    async def _answer(self) -> Any:
        """Return the answer: a value if the query has a schema, else a text; the reply's text if it cannot be read."""
        self.enter(Phase.ANSWER)
        contexts = await self._choose_contexts()
        data = "\n".join(filter(None, [*contexts, thoughts_text(self.progress.tasks)]))
        if not data and not self.results:
            data = NO_DATA
        text = sections(*self._asked(), ("Data", data), ("Failures", self.failures(self.progress.tasks)))
        query = self.inputs.query
        codec = ANSWER if query.schema is None else SchemaAnswerCodec.of(query.schema, query.takes_null)
        notify(self.callbacks.on_answer_start)
        answer = None
        refusal = ""
        for _ in range(1 + ANSWER_RETRIES):
            reply = await self.ask(codec, Phase.ANSWER, paragraphs(text, refusal), streamed=self._streams)
            try:
                answer = codec.parse(reply).value
            except WireError as error:
                self.note_unreadable(Phase.ANSWER, error)
                answer = reply.text
            problem = query.problem(answer)
            if not problem:
                break
            self.inputs.observer.note("invalid_answer", problem=problem)
            refusal = sections(("Your last answer, which was refused", reply.text), ("Why it was refused", problem))
        return answer

    async def _choose_contexts(self) -> list[str]:
        """Return the whole results that the model wants to see for the answer; all of them if its choice cannot be read."""
        calls = {f"c{number}": call for number, call in enumerate(self.results, 1)}
        if not calls:
            return []
        offered = tuple((label, shown_result(call)) for label, call in calls.items())
        codec = ContextsCodec(offered)
        listed = "\n".join(f"{label}: {call_text(calls[label].tool, calls[label].args)}:\n{content}" for label, content in offered)
        text = sections(*self._asked(), ("Results", listed), ("Failures", self.failures(self.progress.tasks)))
        reply = await self.ask(codec, CONTEXTS_PROMPT, text)
        try:
            chosen = codec.chosen(reply)
        except WireError as error:
            self.note_unreadable(Phase.ANSWER, error)
            chosen = tuple(calls)
        self.progress.chosen = list(chosen)
        return [f"{call_text(calls[label].tool, calls[label].args)}:\n{self._whole(calls[label])}" for label in chosen]

    # --- what requests show ---

    def _asked(self) -> list[tuple[str, str]]:
        return [("Question", self.question), ("Understanding", understanding_text(self.progress.understanding))]

    def _gathered(self) -> list[tuple[str, str]]:
        tasks = self.progress.tasks
        return [*self._asked(), ("Results so far", results_text(tasks)), ("Failures", self.failures(tasks))]

    def _whole(self, call: ToolCallStatus) -> str:
        """Return what the answer reads of a kept result; with another store, or a disk that fails, only the call has it."""
        try:
            text = self.inputs.contexts.load([call.pointer or ""])[0].result
        except (KeyError, OSError, ValueError):  # unknown; unreadable; damaged
            text = call.output or ""
        return cap(text, call.max_chars)

    @property
    def _streams(self) -> bool:
        return self.callbacks.streams and self.inputs.model.capabilities.streaming

    def _outcome(self, answer: Any, stop_reason: StopReason, error: Exception | None = None) -> Outcome:
        progress = self.progress
        details: dict[str, Any] = {
            "gathered": len(self.results),
            "rounds": progress.round,
            "phases": [phase.value for phase in progress.phases],
            "tasks": [task.as_dict() for task in progress.tasks],
            "contexts": progress.chosen,
        }
        if error is not None:
            details["error"] = str(error)
            logger.info("the run ends as %s: %s", stop_reason, error)
        return Outcome(answer, stop_reason, progress.tool_tasks, None, details)
