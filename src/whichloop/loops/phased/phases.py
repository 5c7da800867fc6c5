"""One run: understand, then rounds of plan, execute and reflect, then answer (rows S1-17 to S1-28, S1-43).

Rows such as S1-17 are those of docs/conformance.md.
"""

from __future__ import annotations

import asyncio
from typing import Any

from whichloop.protocol import ContextOverflow, ModelError, Outcome, PlanTask, StopReason, Tasks, Understanding, WireError
from whichloop.protocol.redact import logger_of
from whichloop.protocol.values import cap

from .codecs import ANSWER, PLAN, REFLECT, UNDERSTAND, ContextsCodec, SchemaAnswerCodec
from .prompts import (
    CONTEXTS_PROMPT,
    NO_DATA,
    call_text,
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
from .state import Phase, PhaseTask, Reflection, ToolCallStatus, notify
from .tasks import RoundTasks, numbered

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
