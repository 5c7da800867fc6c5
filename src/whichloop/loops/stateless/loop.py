"""The loop, in the external controller: it owns the loop, the counter, the end, and every execution of a tool.

`Stateless` is the same as a loop of this package: a frozen configuration, from which a run builds agent and manager over its own
tools and model. The docstring of the package (`__init__.py`) follows a run from the top.
"""

from __future__ import annotations

import contextlib
import copy
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

from whichloop.dspy_seam import prompt_of, set_prompt
from whichloop.loops.shared.boundary import bounded, refuse_approval
from whichloop.loops.shared.option_checks import checked_options, no_option
from whichloop.protocol.events import SILENT, Observer
from whichloop.protocol.json_text import canonical_json, from_json
from whichloop.protocol.loop import CallsIn, RunsSync
from whichloop.protocol.model import ContextOverflow, Model, ModelError
from whichloop.protocol.outcome import AnswerT, Outcome, Query, StopReason
from whichloop.protocol.program import Program, TakesProgram, merged, repr_with_program
from whichloop.protocol.redact import logger_of
from whichloop.protocol.threads import beside_event_loop, run_here
from whichloop.protocol.tools import Toolbox

from .agent import ManualAgentLoop
from .execution import ToolboxRegistry, ToolExecution, settled
from .modules import ConversationManager
from .state import (
    ActionDecision,
    ActionType,
    AgentOptions,
    ConversationEntry,
    ConversationState,
    ManagerOptions,
    ToolCall,
    ToolResult,
    final_response,
    summarize_results,
)

logger = logger_of(__name__)

NOT_RUN = "run ended before execution"
REFUSED = "final_response"
"""The name under which the agent reads why its answer is refused."""
_WITHOUT_ANSWER = (StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW)
_OWN_WORDS = (StopReason.MAX_STEPS, StopReason.TERMINATED, StopReason.RECOVERY_FAILED, StopReason.PARSE_FAILED)
"""Stops whose final sentence no model wrote."""


class ActivityManager(ToolExecution):
    """External controller with full execution control. One manager may run many activities at once.

    Its methods are seams: those that execute tools, and the hooks, may be overridden by plain functions or by coroutines.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        refuse_approval(cls)

    def __init__(
        self,
        agent_loop: Any,
        tool_registry: Any,
        max_iterations: int = 10,
        execution_mode: Literal["sequential", "parallel", "selective"] = "sequential",
        *,
        observer: Observer = SILENT,
        **limits: Any,
    ) -> None:
        """`agent_loop`: a ManualAgentLoop, or anything with `get_next_action`. `limits`: further `ManagerOptions`.

        `tool_registry`: a ToolRegistry, a registry with `get_function`, or a Toolbox. The tools of a Toolbox may have limits of
        their own; functions of a registry have those that `limits` sets, and no others.
        """
        super().__init__(tool_registry, ManagerOptions(max_iterations, execution_mode, **limits))
        self.agent_loop = agent_loop
        self.observer = observer
        self.activity_cache: dict[str, Any] = {}  # nothing here caches; a subclass may (row B0-35)
        self.refusal: Callable[[Any], str] = lambda answer: ""  # why an answer is refused; empty for one that is taken

    # --- running ---

    def run_activity(self, user_query: str, activity_id: str | None = None) -> dict[str, Any]:
        """Run a complete activity: `final_response`, `iterations`, `tools_used`, `total_tool_calls`, `activity_id`, `status`."""
        return run_here(self.arun_activity(user_query, activity_id))

    async def arun_activity(self, user_query: str, activity_id: str | None = None) -> dict[str, Any]:
        return await self.acontinue_activity(self.new_state(user_query, activity_id))

    def continue_activity(self, state: ConversationState) -> dict[str, Any]:
        """Carry on from a state, for example one that was read back from JSON (row S0-68)."""
        return run_here(self.acontinue_activity(state))

    async def acontinue_activity(self, state: ConversationState) -> dict[str, Any]:
        outcome = await self.carry_on(state)
        if "error" in outcome.details:  # the result says no more than that something went wrong
            logger.warning("activity %s: %s: %s", state.activity_id, outcome.stop, outcome.details["error"])
        text, status = outcome.details["final_response"], outcome.details["status"]
        result: dict[str, Any] = await settled(self._create_activity_result(state.activity_id, state, text, status=status))
        return result

    def new_state(self, user_query: str, activity_id: str | None = None) -> ConversationState:
        """Return the state that an activity begins with."""
        return ConversationState(
            user_query=user_query,
            activity_id=activity_id or str(uuid.uuid4()),
            max_iterations=self.options.max_iterations,
            start_time=time.time(),
        )

    async def carry_on(self, state: ConversationState) -> Outcome[Any]:
        """Run the loop on a state, which it changes."""
        limit = self.options.max_iterations if state.max_iterations is None else state.max_iterations
        state.max_iterations = limit  # what holds is what the model is told (row B0-12)
        problem = None
        while state.iteration_count < limit:
            state.iteration_count += 1
            action = await self._next_action(state)
            await settled(self._log_action(state.activity_id, state.iteration_count, action))
            state.last_confidence = action.confidence
            state.history_summary = action.history_summary or state.history_summary
            try:
                outcome = await self._act_on(state, action)
            except ModelError as error:  # the history could not be summarised: the run ends without an answer (row G-3)
                stop = StopReason.CONTEXT_OVERFLOW if isinstance(error, ContextOverflow) else StopReason.PROVIDER_ERROR
                return _outcome(state, stop, "error_recovery", None, error=str(error))
            if outcome is not None:
                refused = self.refusal(outcome.answer) if outcome.stop is StopReason.FINISHED else ""
                if not refused:
                    return outcome
                problem = refused
                self._refuse(state, action, refused)
            if await settled(self._should_terminate(state, action)):
                text = await settled(self._generate_termination_response(state))
                return _outcome(state, StopReason.TERMINATED, "terminated", text)
        text = await settled(self._generate_timeout_response(state))
        return _outcome(state, StopReason.MAX_STEPS, "max_iterations", text, error=problem)

    async def _next_action(self, state: ConversationState) -> ActionDecision:
        """Ask the agent, by the synchronous `get_next_action` if that is another one than ours."""
        decide: Any = self.agent_loop.get_next_action
        is_ours = getattr(decide, "__func__", None) is ManualAgentLoop.get_next_action
        decision = self.agent_loop.aget_next_action(state) if is_ours else beside_event_loop(decide, state)
        result: ActionDecision = await decision
        return result

    async def _act_on(self, state: ConversationState, action: ActionDecision) -> Outcome[Any] | None:
        """Do what was decided. Return None if the run goes on."""
        if action.action_type is ActionType.ERROR_RECOVERY:
            if action.should_continue:
                return None
            stop = StopReason.CRASHED if action.error_kind in (None, "internal") else StopReason(action.error_kind)
            return _outcome(state, stop, "error_recovery", action.final_response, error=action.error)
        calls, stop = action.tool_suggestions or [], StopReason.FINISHED
        if action.action_type is ActionType.FINAL_RESPONSE:
            self._record_not_run(state, action, calls)
            stop = StopReason.RECOVERY_FAILED if action.is_recovery else stop
        else:
            await (self._execute_decision(state, action, calls) if calls else self._note_empty(state, action))
            if action.should_continue:
                most = self.options.max_empty_decisions
                if most is None or state.empty_decisions < most:
                    return None
                return _outcome(state, StopReason.ERROR_VALVE, "terminated", await settled(self._generate_final_response(state)))
        if action.final_response is None:
            return _outcome(state, stop, "completed", await settled(self._generate_final_response(state)))
        answer = action.final_response if action.answer is None else action.answer
        return _outcome(state, stop, "completed", action.final_response, answer)

    async def _execute_decision(self, state: ConversationState, action: ActionDecision, calls: list[ToolCall]) -> None:
        """Run the calls, and add their results, their errors, the number that ran and one entry to the state (rows S0-46, B0-8).

        The results of a recovery stand beside those that it did not replace (row B0-22); two recoveries in a row without a success
        end the run (row B0-36).
        """
        pending = self._execute_tools(calls, mode=self.options.execution_mode, parallel_safe=action.parallel_safe)
        raw_results = await settled(pending)
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
        kept_results = [before[place] for place in action.kept_results or () if place < len(before)]
        state.last_tool_results = _seen(kept_results) + results
        await self._add_entry(state, action, _entry(state, action, calls, results, errors))

    async def _note_empty(self, state: ConversationState, action: ActionDecision) -> None:
        """Count a decision that neither calls nor ends; the last results stay, marked as seen (row B0-23)."""
        state.empty_decisions += 1
        if state.last_tool_results is not None:
            state.last_tool_results = _seen(state.last_tool_results)
        await self._add_entry(state, action, _entry(state, action, [], [], []))

    def _record_not_run(self, state: ConversationState, action: ActionDecision, calls: list[ToolCall]) -> None:
        """Note the calls beside a final response, which are dropped and not hidden (row B0-14)."""
        dropped: list[ToolResult] = [{"tool_name": call.tool_name, "status": "skipped", "reason": NOT_RUN} for call in calls]
        for result in dropped:
            self.observer.note("not_run", tool_name=result["tool_name"], reason=NOT_RUN)
        if dropped:
            state.conversation_history.append(_entry(state, action, calls, dropped, []))

    def _refuse(self, state: ConversationState, action: ActionDecision, problem: str) -> None:
        """Show the agent why its answer is refused: an error that no planner has to recover from, because it decides again."""
        text = f"{problem}; what you answered: {action.final_response}"
        error: ToolResult = {"tool_name": REFUSED, "status": "error", "error": text, "error_type": "InvalidAnswer", "seen": True}
        self.observer.note("invalid_answer", problem=problem)
        state.errors_encountered.append(problem)
        state.last_tool_results = [*_seen(state.last_tool_results or []), error]
        state.conversation_history.append(_entry(state, action, [], [error], [problem]))

    async def _add_entry(self, state: ConversationState, action: ActionDecision, entry: ConversationEntry) -> None:
        """Keep the entry, and the history short: not once the run has ended, nor for an agent that brings no summarizer."""
        agent, history = self.agent_loop, state.conversation_history
        if not action.should_continue or not hasattr(agent, "entry_summarizer"):
            history.append(entry)
            return
        most, model = self.options.max_history_length, getattr(agent, "model", None)
        manager = ConversationManager(
            most, history=history, user_query=state.user_query, summarizer=agent.entry_summarizer, model=model
        )
        await manager.aadd_entry(entry)

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


def _outcome(
    state: ConversationState, stop: StopReason, status: str, text: str | None, answer: str | None = None, error: str | None = None
) -> Outcome[Any]:
    """Return how a run ends. `answer`: the final response without points and confidence under it, if the agent stated one."""
    text = None if stop in _WITHOUT_ANSWER else text
    details: dict[str, Any] = {
        "status": status,
        "final_response": text,
        "total_tool_calls": state.total_tool_calls,
        "tools_used": list(state.tools_used),
        "state": state,
    }
    if error is not None:
        details["error"] = error
    confidence = state.last_confidence if stop is StopReason.FINISHED else None
    gave_up = answer is None and stop in _OWN_WORDS
    return Outcome(text if answer is None else answer, stop, state.iteration_count, confidence, details, gave_up)


def _seen(results: list[ToolResult]) -> list[ToolResult]:
    """Return results whose errors are marked as decided upon."""
    return [result | {"seen": True} if result.get("status") == "error" else result for result in results]


def _entry(
    state: ConversationState, action: ActionDecision, calls: Sequence[ToolCall], results: list[ToolResult], errors: list[str]
) -> ConversationEntry:
    keyed: dict[str, dict[str, Any]] = {}  # the second call of a tool is `name#2`, the third `name#3` (row B0-27)
    for call in calls:
        key, count = call.tool_name, 1
        while key in keyed:
            count += 1
            key = f"{call.tool_name}#{count}"
        keyed[key] = call.parameters
    return ConversationEntry(
        iteration=state.iteration_count,
        timestamp=time.time(),
        reasoning=action.reasoning,
        tool_calls=[call.tool_name for call in calls],
        tool_parameters=keyed,
        results=results,
        results_summary=summarize_results(results) or "No tool was called.",
        errors=errors,
    )


# --- the design as a loop ---


@checked_options
@dataclass(frozen=True, slots=True)
class Stateless(AgentOptions, ManagerOptions, TakesProgram, RunsSync):
    """A stateless agent decides, a manager outside executes. Raises ValueError for an option out of its range."""

    response_style: Literal["concise", "detailed"] | None = "concise"
    manager: type[ActivityManager] = no_option(ActivityManager)
    """The class that runs the loop; a subclass has its own rules."""
    program: Program | None = no_option(None)
    """Instructions and demonstrations in place of the design's own."""

    name: ClassVar[str] = "stateless"
    calls_in: ClassVar[CallsIn] = "text"
    __repr__ = repr_with_program

    @property
    def stops(self) -> frozenset[StopReason]:
        reached = {StopReason.FINISHED, StopReason.MAX_STEPS, StopReason.PARSE_FAILED, *_WITHOUT_ANSWER}
        if self.max_empty_decisions is not None and self.max_empty_decisions <= self.max_iterations:
            reached.add(StopReason.ERROR_VALVE)
        if self.enable_error_recovery and self.max_recovery_rounds > 0 and self.max_iterations > 1:
            reached.add(StopReason.RECOVERY_FAILED)
        if self.manager._should_terminate is not ActivityManager._should_terminate:
            reached.add(StopReason.TERMINATED)
        return frozenset(reached)

    @property
    def predictors(self) -> Program:
        """One per kind of request that this configuration makes."""
        used_by_name = {
            "reasoner": True,
            "history_summarizer": self.history_as == "prose",
            "entry_summarizer": self.max_history_length is not None,
            "validator": self.validate_output,
            "recovery": self.enable_error_recovery and self.max_recovery_rounds > 0,
            "formatter": self.response_style is not None,
        }
        found = _predictors_of(_default_agent(self))
        own = {name: prompt_of(found[name].signature) for name, used in used_by_name.items() if used}
        return merged(own, self.program)

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_iterations=tool_steps + 1)

    @bounded
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        registry = ToolboxRegistry(tools)
        agent = _default_agent(self)
        if self.program:
            agent = copy.deepcopy(agent)
            found = _predictors_of(agent)
            for name, prompt in self.predictors.items():
                set_prompt(found[name], prompt)
        agent = agent.for_run(registry, model, observer, takes_null=query.takes_null)
        manager = self.manager(agent, registry, **_part(ManagerOptions, self), observer=observer)
        manager.refusal = query.problem
        text = query.full_text
        if query.schema is not None:
            text += f"\n\nThe final response must be JSON that follows this schema: {canonical_json(query.schema)}"
        outcome = await manager.carry_on(manager.new_state(text))
        if outcome.stop is StopReason.CRASHED:  # by an agent of the user's own: ours raises what it is
            raise RuntimeError(outcome.details.get("error", outcome.answer))
        if outcome.answer is None or query.schema is None or query.schema.get("type") == "string":
            return outcome
        with contextlib.suppress(ValueError):  # what is no JSON stays text
            return replace(outcome, answer=from_json(outcome.answer))
        return outcome


def _part(options: type[AgentOptions | ManagerOptions], of: Any) -> dict[str, Any]:
    """Return those of a configuration's options that are also options of its agent or of its manager."""
    return {item.name: getattr(of, item.name) for item in fields(options)}


@lru_cache(maxsize=64)
def _default_agent(config: Stateless) -> ManualAgentLoop:
    """Return the agent of a configuration, made once: it keeps nothing of a run, and its signatures take milliseconds."""
    return ManualAgentLoop(Toolbox(), **_part(AgentOptions, config))


def _predictors_of(agent: ManualAgentLoop) -> dict[str, Any]:
    """Return DSPy's predictors of an agent by their names in a program; a chain of thought holds its own in `predict`."""
    found = {path.removesuffix(".predict").rpartition(".")[2]: each for path, each in agent.named_predictors()}
    return {_SHORTER.get(name, name): predictor for name, predictor in found.items()}


_SHORTER = {"output_validator": "validator", "recovery_planner": "recovery"}
