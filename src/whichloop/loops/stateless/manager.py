"""The external controller: it owns the loop, the counter, the end, and every execution of a tool.

Rows such as B0-35 are those of docs/conformance.md.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from whichloop.loops.shared.boundary import refuse_checkpoint
from whichloop.protocol import SILENT, ContextOverflow, ModelError, Observer, StopReason
from whichloop.protocol.redact import logger_of
from whichloop.protocol.threads import beside_event_loop, run_here

from .execution import ToolExecution, settled
from .history import ConversationManager, final_response, summarize_results
from .state import (
    ActionDecision,
    ActionType,
    ConversationEntry,
    ConversationState,
    ErrorKind,
    ExecutionMode,
    ManagerOptions,
    ToolCall,
    ToolResult,
)

logger = logger_of(__name__)

NOT_RUN = "run ended before execution"
REFUSED = "final_response"
"""The name under which the agent reads why its answer is refused."""


class DecidingAgent(Protocol):
    """An agent that decides. Its `aget_next_action`, if any, is taken instead, unless a subclass overrides `get_next_action`."""

    def get_next_action(self, state: ConversationState) -> ActionDecision: ...


@dataclass(frozen=True, slots=True)
class Activity:
    """How an activity ended."""

    status: Literal["completed", "terminated", "max_iterations", "error_recovery"]
    final_response: str | None
    stop: StopReason
    state: ConversationState
    cause: Exception | None = None
    """The error that kept the agent from deciding."""
    answer: str | None = None
    """The final response without points and confidence under it, if the agent stated one."""


_STOPS: dict[ErrorKind, StopReason] = {
    "parse_failed": StopReason.PARSE_FAILED,
    "provider_error": StopReason.PROVIDER_ERROR,
    "context_overflow": StopReason.CONTEXT_OVERFLOW,
    "internal": StopReason.CRASHED,
}


class ActivityManager(ToolExecution):
    """External controller with full execution control. One manager may run many activities at once.

    Its methods are seams: those that execute tools, and the hooks, may be overridden by plain functions or by coroutines.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        refuse_checkpoint(cls, "Stateless()")

    def __init__(
        self,
        agent_loop: DecidingAgent,
        tool_registry: Any,
        max_iterations: int = 10,
        execution_mode: ExecutionMode = "sequential",
        *,
        observer: Observer = SILENT,
        **limits: Any,
    ) -> None:
        """`tool_registry`: a ToolRegistry, a registry with `get_function`, or a Toolbox. `limits`: further `ManagerOptions`.

        The tools of a Toolbox may have limits of their own; functions of a registry have those that `limits` sets, and no others.
        Raises ValueError for an option out of its range, TypeError for an unknown one.
        """
        options = ManagerOptions(max_iterations, execution_mode, **limits)
        super().__init__(tool_registry, options)
        self.agent_loop = agent_loop
        self.max_iterations = options.max_iterations
        self.execution_mode = options.execution_mode
        self.max_history_length = options.max_history_length
        self.max_empty_decisions = options.max_empty_decisions
        self.observer = observer
        self.activity_cache: dict[str, Any] = {}  # nothing here caches; a subclass may (row B0-35)
        self.refusal: Callable[[Any], str] | None = None
        """Returns why an answer is refused, empty for one that is taken; None: every answer is taken."""

    # --- running ---

    def run_activity(self, user_query: str, activity_id: str | None = None) -> dict[str, Any]:
        """Do what `arun_activity` does, from synchronous code."""
        return run_here(self.arun_activity(user_query, activity_id))

    async def arun_activity(self, user_query: str, activity_id: str | None = None) -> dict[str, Any]:
        """Run a complete activity: `final_response`, `iterations`, `tools_used`, `total_tool_calls`, `activity_id`, `status`."""
        return await self.acontinue_activity(self.new_state(user_query, activity_id))

    def continue_activity(self, state: ConversationState) -> dict[str, Any]:
        """Do what `acontinue_activity` does, from synchronous code."""
        return run_here(self.acontinue_activity(state))

    async def acontinue_activity(self, state: ConversationState) -> dict[str, Any]:
        """Carry on from a state, for example one that was read back from JSON (row S0-68)."""
        activity = await self.carry_on(state)
        if activity.cause is not None:  # the result says no more than that something went wrong
            trace = activity.cause if activity.stop is StopReason.CRASHED else None
            logger.warning("activity %s: %s: %s", state.activity_id, activity.stop, activity.cause, exc_info=trace)
        pending_result = self._create_activity_result(
            state.activity_id, activity.state, activity.final_response, status=activity.status
        )
        result: dict[str, Any] = await settled(pending_result)
        return result

    def new_state(self, user_query: str, activity_id: str | None = None) -> ConversationState:
        """Return the state that an activity begins with."""
        return ConversationState(
            user_query=user_query,
            activity_id=activity_id or str(uuid.uuid4()),
            max_iterations=self.max_iterations,
            start_time=time.time(),
        )

    async def carry_on(self, state: ConversationState) -> Activity:
        """Run the loop on a state, which it changes."""
        limit = self.max_iterations if state.max_iterations is None else state.max_iterations
        state.max_iterations = limit  # what holds is what the model is told (row B0-12)
        refused: Exception | None = None
        while state.iteration_count < limit:
            state.iteration_count += 1
            action = await self._next_action(state)
            await settled(self._log_action(state.activity_id, state.iteration_count, action))
            state.last_confidence = action.confidence
            if action.history_summary is not None:
                state.history_summary = action.history_summary
            try:
                activity = await self._act_on(state, action)
            except ModelError as error:  # the history could not be summarised: the run ends without an answer (row G-3)
                stop = StopReason.CONTEXT_OVERFLOW if isinstance(error, ContextOverflow) else StopReason.PROVIDER_ERROR
                return Activity("error_recovery", None, stop, state, error)
            problem = "" if activity is None else self._problem_of(activity)
            if activity is not None and not problem:
                return activity
            if problem:
                refused = ValueError(problem)
                await self._refuse(state, action, problem)
            if await settled(self._should_terminate(state, action)):
                text = await settled(self._generate_termination_response(state))
                return Activity("terminated", text, StopReason.TERMINATED, state)
        text = await settled(self._generate_timeout_response(state))
        return Activity("max_iterations", text, StopReason.MAX_STEPS, state, refused)

    def _problem_of(self, activity: Activity) -> str:
        """Return why the answer of an activity is refused; empty if it is taken."""
        if self.refusal is None or activity.stop is not StopReason.FINISHED:
            return ""
        return self.refusal(activity.final_response if activity.answer is None else activity.answer)

    async def _refuse(self, state: ConversationState, action: ActionDecision, problem: str) -> None:
        """Show the agent why its answer is refused: an error that no planner has to recover from, because it decides again."""
        text = f"{problem}; what you answered: {action.final_response}"
        error: ToolResult = {"tool_name": REFUSED, "status": "error", "error": text, "error_type": "InvalidAnswer", "seen": True}
        self.observer.note("invalid_answer", problem=problem)
        state.errors_encountered.append(problem)
        state.last_tool_results = [*map(_marked_as_seen, state.last_tool_results or ()), error]
        state.conversation_history.append(_entry(state, action, [], [error], [problem]))

    async def _next_action(self, state: ConversationState) -> ActionDecision:
        if _decides_async(self.agent_loop):
            ask: Any = self.agent_loop
            decision: ActionDecision = await ask.aget_next_action(state)
            return decision
        decided: ActionDecision = await beside_event_loop(self.agent_loop.get_next_action, state)
        return decided

    async def _act_on(self, state: ConversationState, action: ActionDecision) -> Activity | None:
        """Do what was decided. Return None if the run goes on."""
        if action.action_type is ActionType.TOOL_EXECUTION:
            return await self._take_step(state, action)
        if action.action_type is ActionType.FINAL_RESPONSE:
            await self._record_not_run(state, action)
            stop = StopReason.RECOVERY_FAILED if action.is_recovery else StopReason.FINISHED
            return Activity("completed", await self._text_of(state, action), stop, state, answer=_answer_of(action))
        if action.should_continue:
            return None
        stop = _STOPS[action.error_kind or "internal"]
        return Activity("error_recovery", action.final_response, stop, state, action.cause)

    async def _take_step(self, state: ConversationState, action: ActionDecision) -> Activity | None:
        if action.tool_suggestions:
            await self._execute_decision(state, action, action.tool_suggestions)
        else:
            await self._note_empty(state, action)
        if not action.should_continue:
            return Activity("completed", await self._text_of(state, action), StopReason.FINISHED, state, answer=_answer_of(action))
        if self.max_empty_decisions is not None and state.empty_decisions >= self.max_empty_decisions:
            text = await settled(self._generate_final_response(state))
            return Activity("terminated", text, StopReason.ERROR_VALVE, state)
        return None

    async def _text_of(self, state: ConversationState, action: ActionDecision) -> str:
        if action.final_response is not None:
            return action.final_response
        text: str = await settled(self._generate_final_response(state))
        return text

    async def _execute_decision(self, state: ConversationState, action: ActionDecision, calls: list[ToolCall]) -> None:
        """Run the calls, and add their results, their errors, the number that ran and one entry to the state (rows S0-46, B0-8).

        The results of a recovery stand beside those that it did not replace (row B0-22); two recoveries in a row without a success
        end the run (row B0-36).
        """
        raw_results = await settled(self._execute_tools(calls, mode=self.execution_mode, parallel_safe=action.parallel_safe))
        results: list[ToolResult] = list(await settled(self._process_results(state, raw_results)))
        run = [result["tool_name"] for result in raw_results if result["status"] != "skipped"]
        errors = [f"Tool {result['tool_name']}: {result['error']}" for result in results if result.get("status") == "error"]
        state.empty_decisions = 0
        state.total_tool_calls += len(run)
        state.tools_used += [name for name in dict.fromkeys(run) if name not in state.tools_used]
        state.errors_encountered += errors
        if any(result.get("status") == "success" for result in results):
            state.recovery_rounds = 0
        elif action.is_recovery:
            state.recovery_rounds += 1
        before = state.last_tool_results or []
        earlier_results = [_marked_as_seen(before[place]) for place in action.kept_results or () if place < len(before)]
        state.last_tool_results = earlier_results + results
        await self._add_entry(state, action, calls, results, errors)

    async def _note_empty(self, state: ConversationState, action: ActionDecision) -> None:
        """Count a decision that neither calls nor ends; the last results stay, marked as seen (row B0-23)."""
        state.empty_decisions += 1
        if state.last_tool_results is not None:
            state.last_tool_results = [_marked_as_seen(result) for result in state.last_tool_results]
        await self._add_entry(state, action, [], [], [])

    async def _record_not_run(self, state: ConversationState, action: ActionDecision) -> None:
        """Note the calls beside a final response, which are dropped and not hidden (row B0-14)."""
        calls = action.tool_suggestions or []
        if not calls:
            return
        dropped: list[ToolResult] = [{"tool_name": call.tool_name, "status": "skipped", "reason": NOT_RUN} for call in calls]
        for result in dropped:
            self.observer.note("not_run", tool_name=result["tool_name"], reason=NOT_RUN)
        state.conversation_history.append(_entry(state, action, calls, dropped, []))

    async def _add_entry(
        self,
        state: ConversationState,
        action: ActionDecision,
        calls: Sequence[ToolCall],
        results: list[ToolResult],
        errors: list[str],
    ) -> None:
        """Keep the entry, and the history short: not once the run has ended, nor for an agent that brings no summarizer."""
        entry = _entry(state, action, calls, results, errors)
        if action.should_continue and hasattr(self.agent_loop, "entry_summarizer"):
            await self.conversation(state).aadd_entry(entry)
        else:
            state.conversation_history.append(entry)

    def conversation(self, state: ConversationState) -> ConversationManager:
        """Return the manager of a state's history, with the agent's own summarizer and model if it has them."""
        return ConversationManager(
            self.max_history_length,
            history=state.conversation_history,
            user_query=state.user_query,
            summarizer=getattr(self.agent_loop, "entry_summarizer", None),
            model=getattr(self.agent_loop, "model", None),
        )

    # --- hooks: none calls a model ---

    def _should_terminate(self, state: ConversationState, action: ActionDecision) -> Any:
        """Return whether to end the run after this iteration."""
        return False

    def _process_results(self, state: ConversationState, results: list[ToolResult]) -> Any:
        """Return the results to store and show: filter, transform or augment them here. They are whole, whatever a prompt shows."""
        return results

    def _log_action(self, activity_id: str | None, iteration: int, action: ActionDecision) -> Any:
        logger.debug("activity %s, iteration %d: %s, %s", activity_id, iteration, action.action_type, action.reasoning)

    def _generate_final_response(self, state: ConversationState) -> Any:
        return final_response(state)

    def _generate_termination_response(self, state: ConversationState) -> Any:
        return "The activity was ended before the request was complete."

    def _generate_timeout_response(self, state: ConversationState) -> Any:
        return f"The request is not complete: the limit of {state.iteration_count} iterations is reached."

    def _create_activity_result(
        self, activity_id: str | None, state: ConversationState, final_response: str | None, status: str = "completed"
    ) -> Any:
        return {
            "final_response": final_response,
            "iterations": state.iteration_count,
            "tools_used": list(state.tools_used),
            "total_tool_calls": state.total_tool_calls,
            "activity_id": activity_id,
            "status": status,
        }


def _answer_of(action: ActionDecision) -> str | None:
    return action.final_response if action.answer is None else action.answer


def _decides_async(agent: DecidingAgent) -> bool:
    """Return whether to ask `aget_next_action`: not if a subclass below it, or the object, overrides `get_next_action`."""
    for own in (getattr(agent, "__dict__", {}), *(vars(kind) for kind in type(agent).__mro__)):
        if "aget_next_action" in own:
            return True
        if "get_next_action" in own:
            return False
    return False


def _marked_as_seen(result: ToolResult) -> ToolResult:
    """Return an error marked as decided upon; any other result unchanged."""
    return result | {"seen": True} if result.get("status") == "error" else result


def _entry(
    state: ConversationState,
    action: ActionDecision,
    calls: Sequence[ToolCall],
    results: list[ToolResult],
    errors: list[str],
) -> ConversationEntry:
    return ConversationEntry(
        iteration=state.iteration_count,
        timestamp=time.time(),
        reasoning=action.reasoning,
        tool_calls=[call.tool_name for call in calls],
        tool_parameters=_keyed(calls),
        results=results,
        results_summary=summarize_results(results) or "No tool was called.",
        errors=errors,
    )


def _keyed(calls: Sequence[ToolCall]) -> dict[str, dict[str, Any]]:
    """Return parameters by name; the second call of a tool is `name#2`, the third `name#3` (row B0-27)."""
    keyed: dict[str, dict[str, Any]] = {}
    for call in calls:
        key, count = call.tool_name, 1
        while key in keyed:
            count += 1
            key = f"{call.tool_name}#{count}"
        keyed[key] = call.parameters
    return keyed
