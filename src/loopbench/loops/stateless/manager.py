"""The external controller: it owns the loop, the counter, the end, and every execution of a tool."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from loopbench.protocol import (
    SILENT,
    BudgetExceeded,
    ContextOverflow,
    ModelError,
    Observation,
    Observer,
    StopReason,
    Tool,
    Toolbox,
    run_sync,
)
from loopbench.protocol import ToolCall as Call
from loopbench.protocol.values import error_text

from .history import ConversationManager, final_response, stored_value, summarize_results
from .options import check_choice, check_least, check_seconds
from .registry import ToolboxRegistry, as_tool_registry
from .state import ActionDecision, ActionType, ConversationEntry, ConversationState, ErrorKind, ToolCall, ToolResult

logger = logging.getLogger(__name__)

ExecutionMode = Literal["sequential", "parallel", "selective"]
MAX_WORKERS = 5
"""Calls in flight at once."""
NOT_RUN = "run ended before execution"


class Agent(Protocol):
    """Whatever decides; `aget_next_action`, where there is one, is taken instead, unless `get_next_action` overrides it."""

    def get_next_action(self, state: ConversationState) -> ActionDecision: ...


@dataclass(frozen=True, slots=True)
class Activity:
    """How an activity ended."""

    status: Literal["completed", "terminated", "max_iterations", "error_recovery"]
    final_response: str | None
    stop: StopReason
    state: ConversationState
    cause: Exception | None = None
    """What kept the agent from deciding."""
    answer: str | None = None
    """The final response without points and confidence under it, where the agent stated one."""


_STOPS: dict[ErrorKind, StopReason] = {
    "parse_failed": StopReason.PARSE_FAILED,
    "provider_error": StopReason.PROVIDER_ERROR,
    "context_overflow": StopReason.CONTEXT_OVERFLOW,
    "internal": StopReason.CRASHED,
}


class ActivityManager:
    """External controller with full execution control. One manager may run many activities at once.

    Its methods are seams: those that execute tools, and the hooks, may be overridden by plain functions or by coroutines.
    """

    priority_order: tuple[str, ...] = ("search", "calculate", "analyze")
    """Tools that run first in selective mode."""
    skip_reason: str = "Primary search already found results"

    def __init__(
        self,
        agent_loop: Agent,
        tool_registry: Any,
        max_iterations: int = 10,
        execution_mode: ExecutionMode = "sequential",
        *,
        max_history_length: int | None = 10,
        max_empty_decisions: int | None = 3,
        tool_timeout_s: float | None = 30.0,
        observer: Observer = SILENT,
    ) -> None:
        """`tool_registry`: a ToolRegistry, a registry with `get_function`, or a Toolbox. The options are those of `Stateless`.

        A registry's functions run under the limits of a default Toolbox: a longer result is cut. Give a Toolbox for other limits.
        Raises ValueError for an option out of its range.
        """
        check_choice("execution_mode", execution_mode, get_args(ExecutionMode))
        check_least("max_iterations", max_iterations, 1)
        check_least("max_history_length", max_history_length, 1)
        check_least("max_empty_decisions", max_empty_decisions, 1)
        check_seconds("tool_timeout_s", tool_timeout_s)
        self.agent_loop = agent_loop
        self.tool_registry = as_tool_registry(tool_registry)
        self.max_iterations = max_iterations
        self.execution_mode = execution_mode
        self.max_history_length = max_history_length
        self.max_empty_decisions = max_empty_decisions
        self.tool_timeout_s = tool_timeout_s
        self.observer = observer
        self.activity_cache: dict[str, Any] = {}  # for subclasses (row B0-35)

    # --- running ---

    def run_activity(self, user_query: str, activity_id: str | None = None) -> dict[str, Any]:
        """`arun_activity` from synchronous code."""
        return run_sync(self.arun_activity(user_query, activity_id))

    async def arun_activity(self, user_query: str, activity_id: str | None = None) -> dict[str, Any]:
        """Run a complete activity: `final_response`, `iterations`, `tools_used`, `total_tool_calls`, `activity_id`, `status`."""
        return await self.acontinue_activity(self.new_state(user_query, activity_id))

    def continue_activity(self, state: ConversationState) -> dict[str, Any]:
        """`acontinue_activity` from synchronous code."""
        return run_sync(self.acontinue_activity(state))

    async def acontinue_activity(self, state: ConversationState) -> dict[str, Any]:
        """Carry on from a state, one read back from JSON say (row S0-68)."""
        ended = await self.carry_on(state)
        if ended.cause is not None:  # the result says no more than that something went wrong
            trace = ended.cause if ended.stop is StopReason.CRASHED else None
            logger.warning("activity %s: %s: %s", state.activity_id, ended.stop, ended.cause, exc_info=trace)
        made = self._create_activity_result(state.activity_id, ended.state, ended.final_response, status=ended.status)
        result: dict[str, Any] = await _settled(made)
        return result

    def new_state(self, user_query: str, activity_id: str | None = None) -> ConversationState:
        """The state that an activity begins with."""
        return ConversationState(
            user_query=user_query,
            activity_id=activity_id or str(uuid.uuid4()),
            max_iterations=self.max_iterations,
            start_time=time.time(),
        )

    async def carry_on(self, state: ConversationState) -> Activity:
        """The loop. The state changes as it runs, and is that of the end when it has ended."""
        limit = self.max_iterations if state.max_iterations is None else state.max_iterations
        state.max_iterations = limit  # what holds is what the model is told (row B0-12)
        while state.iteration_count < limit:
            state.iteration_count += 1
            action = await self._next_action(state)
            await _settled(self._log_action(state.activity_id, state.iteration_count, action))
            state.last_confidence = action.confidence
            if action.history_summary is not None:
                state.history_summary = action.history_summary
            try:
                ended = await self._act_on(state, action)
            except ModelError as error:  # the history could not be summarised (row G-3)
                stop = StopReason.CONTEXT_OVERFLOW if isinstance(error, ContextOverflow) else StopReason.PROVIDER_ERROR
                return Activity("error_recovery", None, stop, state, error)
            if ended is not None:
                return ended
            if await _settled(self._should_terminate(state, action)):
                text = await _settled(self._generate_termination_response(state))
                return Activity("terminated", text, StopReason.TERMINATED, state)
        text = await _settled(self._generate_timeout_response(state))
        return Activity("max_iterations", text, StopReason.MAX_STEPS, state)

    async def _next_action(self, state: ConversationState) -> ActionDecision:
        if _decides_async(self.agent_loop):
            ask: Any = self.agent_loop
            decision: ActionDecision = await ask.aget_next_action(state)
            return decision
        return await asyncio.to_thread(self.agent_loop.get_next_action, state)

    async def _act_on(self, state: ConversationState, action: ActionDecision) -> Activity | None:
        """Do what was decided; None where the run goes on."""
        if action.action_type is ActionType.TOOL_EXECUTION:
            return await self._take_step(state, action)
        if action.action_type is ActionType.FINAL_RESPONSE:
            await self._record_not_run(state, action)
            stop = StopReason.RECOVERY_FAILED if action.is_recovery else StopReason.FINISHED
            return Activity("completed", await self._text_of(state, action), stop, state, answer=action.answer)
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
            return Activity("completed", await self._text_of(state, action), StopReason.FINISHED, state, answer=action.answer)
        if self.max_empty_decisions is not None and state.empty_decisions >= self.max_empty_decisions:
            text = await _settled(self._generate_final_response(state))
            return Activity("terminated", text, StopReason.ERROR_VALVE, state)
        return None

    async def _text_of(self, state: ConversationState, action: ActionDecision) -> str:
        if action.final_response is not None:
            return action.final_response
        text: str = await _settled(self._generate_final_response(state))
        return text

    async def _execute_decision(self, state: ConversationState, action: ActionDecision, calls: list[ToolCall]) -> None:
        """Run the calls and bring the state up to date (rows S0-46, B0-8, B0-22, B0-36)."""
        made = await _settled(self._execute_tools(calls, mode=self.execution_mode, parallel_safe=action.parallel_safe))
        results: list[ToolResult] = list(await _settled(self._process_results(state, made)))
        run = [result["tool_name"] for result in made if result["status"] != "skipped"]
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
        kept = [_seen(before[place]) for place in action.kept_results or () if place < len(before)]
        state.last_tool_results = kept + results
        await self._add_entry(state, action, calls, results, errors)

    async def _note_empty(self, state: ConversationState, action: ActionDecision) -> None:
        """A decision that neither calls nor ends: what was known stays known (row B0-23)."""
        state.empty_decisions += 1
        if state.last_tool_results is not None:
            state.last_tool_results = [_seen(result) for result in state.last_tool_results]
        await self._add_entry(state, action, [], [], [])

    async def _record_not_run(self, state: ConversationState, action: ActionDecision) -> None:
        """Calls beside a final response are dropped, not hidden (row B0-14)."""
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
        """The manager of a state's history; the agent's own summarizer and model serve it, where it has them."""
        return ConversationManager(
            self.max_history_length,
            history=state.conversation_history,
            user_query=state.user_query,
            summarizer=getattr(self.agent_loop, "entry_summarizer", None),
            model=getattr(self.agent_loop, "model", None),
        )

    # --- executing tools ---

    async def _execute_tools(
        self, tool_calls: list[ToolCall], mode: ExecutionMode = "sequential", parallel_safe: bool = True
    ) -> list[ToolResult]:
        """Execute tools with specified execution mode; results in call order."""
        if mode == "parallel" and parallel_safe and len(tool_calls) > 1:
            made = self._execute_parallel(tool_calls)
        elif mode == "selective":
            made = self._execute_selective(tool_calls)
        else:
            made = self._execute_sequential(tool_calls)
        results: list[ToolResult] = await _settled(made)
        return results

    async def _execute_sequential(self, tool_calls: list[ToolCall]) -> list[ToolResult]:
        """Execute tools one at a time."""
        return [await self._checked(call) for call in tool_calls]

    async def _execute_parallel(self, tool_calls: list[ToolCall]) -> list[ToolResult]:
        """Execute tools at once, at most five in flight."""
        slots = asyncio.Semaphore(MAX_WORKERS)

        async def one(call: ToolCall) -> ToolResult:
            async with slots:
                return await self._checked(call)

        running = [asyncio.create_task(one(call)) for call in tool_calls]
        try:
            return list(await asyncio.gather(*running))
        except BaseException:
            for task in running:
                if not task.cancelling():
                    task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            raise

    async def _execute_selective(self, tool_calls: list[ToolCall]) -> list[ToolResult]:
        """Execute tools by priority; a search that found something spares those that end in `_search` (rows S0-53, B0-5)."""
        order = {name: rank for rank, name in enumerate(self.priority_order)}
        ranked = sorted(range(len(tool_calls)), key=lambda place: order.get(tool_calls[place].tool_name, len(order)))
        results: dict[int, ToolResult] = {}
        found = False
        for place in ranked:
            call = tool_calls[place]
            if found and call.tool_name.endswith("_search"):
                results[place] = {"tool_name": call.tool_name, "status": "skipped", "reason": self.skip_reason}
                continue
            result = results[place] = await self._checked(call)
            if call.tool_name == "search" and result["status"] == "success":
                found = found or await _settled(self._search_satisfied(result))
        return [results[place] for place in range(len(tool_calls))]

    async def _checked(self, call: ToolCall) -> ToolResult:
        """One call, if it is valid. What the hooks raise is an error of the call (row S0-52)."""
        try:
            if not await _settled(self._validate_tool_call(call)):
                await _settled(self._log_validation_failure(call))
                return _failure(call, "the call was refused by validation", "ValidationError")
            result: ToolResult = await _settled(self._execute_single_tool(call))
        except BudgetExceeded:
            raise
        except Exception as error:
            return _failure(call, error_text(error), "ExecutionError")
        return result

    async def _execute_single_tool(self, tool_call: ToolCall) -> ToolResult:
        """Run one call under the time limit; whatever the tool does is a result in the shapes of `ToolResult`."""
        try:
            function = self.tool_registry.get_tool(tool_call.tool_name)
        except Exception as error:  # the registry is the user's
            return _failure(tool_call, error_text(error), type(error).__name__)
        if isinstance(self.tool_registry, ToolboxRegistry):
            toolbox = self.tool_registry.toolbox
        else:
            tool = Tool(tool_call.tool_name, "", {"type": "object"}, function)
            toolbox = Toolbox([tool], time_limit_s=self.tool_timeout_s)
        seen = await self._observe(toolbox, Call(tool_call.tool_name, tool_call.parameters))
        if not seen.ok:
            return _failure(tool_call, seen.data, seen.error_type or "Error")
        return {
            "tool_name": tool_call.tool_name,
            "status": "success",
            "result": stored_value(seen.value, seen.data),
            "execution_time": seen.seconds,
            "parameters": tool_call.parameters,
        }

    async def _observe(self, toolbox: Toolbox, call: Call) -> Observation:
        """The arguments go to the function as they are; the shorter of the toolbox's time limit and ours holds."""
        limit = self.tool_timeout_s
        tool = toolbox.get(call.name)
        theirs = tool.time_limit_s if tool is not None and tool.time_limit_s is not None else toolbox.time_limit_s
        if limit is None or (theirs is not None and theirs <= limit):
            return await toolbox.call(call, validate=False)
        try:
            async with asyncio.timeout(limit) as clock:
                return await toolbox.call(call, validate=False)
        except TimeoutError:
            if not clock.expired():
                raise
            return Observation(call.name, "error", f"no result within {limit:g} s", "TimeoutError", seconds=limit)

    # --- hooks: none calls a model ---

    def _should_terminate(self, state: ConversationState, action: ActionDecision) -> Any:
        """Whether to end the run after this iteration."""
        return False

    def _process_results(self, state: ConversationState, results: list[ToolResult]) -> Any:
        """The results as they are stored and shown: filter, transform or augment them here."""
        return results

    def _validate_tool_call(self, tool_call: ToolCall) -> Any:
        """Whether a call may run."""
        return True

    def _log_validation_failure(self, tool_call: ToolCall) -> Any:
        logger.warning("call of %s refused by validation", tool_call.tool_name)

    def _log_action(self, activity_id: str | None, iteration: int, action: ActionDecision) -> Any:
        logger.debug("activity %s, iteration %d: %s, %s", activity_id, iteration, action.action_type, action.reasoning)

    def _search_satisfied(self, result: ToolResult) -> Any:
        """Whether a search's result says that something was found (row B0-25)."""
        text = str(result.get("result", "")).lower()
        return "found" in text and not _NOT_FOUND.search(text)

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


_NOT_FOUND = re.compile(r"\bnot found\b|\b(?:no|0)\b[^.\n]{0,200}\bfound\b")


def _decides_async(agent: Agent) -> bool:
    """Whether `aget_next_action` is the agent's own word: what overrides `get_next_action` below it must not be passed over."""
    for own in (getattr(agent, "__dict__", {}), *(vars(kind) for kind in type(agent).__mro__)):
        if "aget_next_action" in own:
            return True
        if "get_next_action" in own:
            return False
    return False


async def _settled(value: Any) -> Any:
    """What a hook gave, whether it is a plain function or a coroutine."""
    return await value if inspect.isawaitable(value) else value


def _seen(result: ToolResult) -> ToolResult:
    """An error that has been decided upon says so; anything else is as it was."""
    return result | {"seen": True} if result.get("status") == "error" else result


def _failure(call: ToolCall, error: str, error_type: str) -> ToolResult:
    return {
        "tool_name": call.tool_name,
        "status": "error",
        "error": error,
        "error_type": error_type,
        "parameters": call.parameters,
    }


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
    """Parameters by name; the second call of a tool is `name#2`, the third `name#3` (row B0-27)."""
    keyed: dict[str, dict[str, Any]] = {}
    for call in calls:
        key, count = call.tool_name, 1
        while key in keyed:
            count += 1
            key = f"{call.tool_name}#{count}"
        keyed[key] = call.parameters
    return keyed
