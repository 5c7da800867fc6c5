"""One round's tasks: their ids and their order, and running each once what it depends on has ended.

Rows such as S1-20 are those of docs/conformance.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from whichloop.protocol import Observer, PlanTask, WireError
from whichloop.protocol.cancellation import stop_tasks

from .codecs import REASON
from .ending import unless_set
from .executor import CANCELLED, keep
from .prompts import REASON_PROMPT, completed, guidance_text, paragraphs, results_text, sections
from .run import RunContext
from .state import PhaseTask, TaskStatus, TaskType, notify

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
