"""The stateless agent: a conversation's state in, one decision out."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any, Self

import dspy

from whichloop.loops.shared.call_ids import needs_approval
from whichloop.protocol import SILENT, ContextOverflow, Message, Model, ModelError, Observer, StopRun, WireError
from whichloop.protocol.redact import logger_of
from whichloop.protocol.threads import run_blocking

from .execution import as_tool_registry
from .modules import AgentReasoner, Asker, ErrorRecoveryModule, ResponseFormatter, turns_of
from .signatures import SummarizeEntries, prompt_json
from .state import (
    NO_RESULTS,
    ActionDecision,
    ActionType,
    AgentOptions,
    ConversationState,
    ErrorKind,
    ErrorRecoveryStrategy,
    ReasoningOutput,
    ToolCall,
    ToolResult,
    final_response,
    render_results,
)

logger = logger_of(__name__)

DEFAULT_TOLD = 10
"""The limit of iterations that the model is told if neither state nor option names another."""
NULL = "null"
NO_TOOLS_REASONING = "Need more information but no specific tools identified"
_RECOVERY_TEXTS = {
    "alternative_tool": ("Attempting recovery with alternative tools", 0.7),
    "retry": ("Retrying failed tools with adjusted parameters", 0.6),
}


class ManualAgentLoop(dspy.Module):
    """Stateless agent loop designed for external control by ActivityManager.

    Uses a hybrid approach with consolidated reasoning for tool selection and
    continuation decisions, while keeping error recovery and formatting separate.
    """

    def __init__(
        self,
        tool_registry: Any,
        enable_error_recovery: bool = True,
        response_style: str | None = "concise",
        *,
        model: Model | None = None,
        **factors: Any,
    ) -> None:
        """`tool_registry`: a ToolRegistry, a registry with `get_function`, or a Toolbox. `factors`: further `AgentOptions`.

        `model`: None is the model that DSPy is configured with.
        """
        super().__init__()
        self.options = options = AgentOptions(enable_error_recovery, response_style, **factors)
        self.tool_registry = as_tool_registry(tool_registry)
        self.model = model
        self.observer = SILENT
        self.takes_null = self.raises_bugs = False
        self.agent_reasoner = AgentReasoner(
            self.tool_registry.get_all_tool_names(),
            DEFAULT_TOLD,
            constrain_names=options.constrain_names,
            validate_output=options.validate_output,
            calls_win=options.finish_with_tools == "ask_again",
        )
        self.entry_summarizer = dspy.ChainOfThought(SummarizeEntries)
        self.error_recovery = ErrorRecoveryModule() if enable_error_recovery else None
        shows_confidence = response_style == "detailed" if options.include_confidence is None else options.include_confidence
        self.response_formatter = None if response_style is None else ResponseFormatter(response_style, shows_confidence)

    def for_run(self, tool_registry: Any, model: Model | None, observer: Observer = SILENT, *, takes_null: bool = False) -> Self:
        """Return an agent with the same predictors and options over other tools and another model, which raises what is a bug.

        `takes_null`: null is an answer, which a decision without a final response states.
        """
        other = copy.copy(self)
        other.tool_registry, other.model, other.observer = as_tool_registry(tool_registry), model, observer
        other.takes_null, other.raises_bugs = takes_null, True
        return other

    # --- the one question ---

    def forward(self, state: ConversationState) -> ActionDecision:
        """DSPy-compatible forward method that delegates to get_next_action."""
        return self.get_next_action(state)

    async def aforward(self, state: ConversationState) -> ActionDecision:
        return await self.aget_next_action(state)

    def get_next_action(self, state: ConversationState) -> ActionDecision:
        """Do what `aget_next_action` does, from synchronous code."""
        return run_blocking(self.aget_next_action(state))

    async def aget_next_action(self, state: ConversationState) -> ActionDecision:
        """Return the next action for a state, which holds all context and is not changed.

        An exception is a decision too (row S0-28). Only cancellation and StopRun are raised, and bugs in a loop's own run.
        """
        started = time.perf_counter()
        asker = Asker(self.model, self.observer, self.takes_null)
        try:
            decision = await (self._handle_tool_errors if self._may_recover(state) else self._decide)(state, asker)
        except StopRun:
            raise
        except Exception as error:
            decision = self._error_decision(state, error)
        decision.processing_time = time.perf_counter() - started
        decision.tokens_used = asker.tokens
        return decision

    def _may_recover(self, state: ConversationState) -> bool:
        has_failed = any(map(_is_open_error, state.last_tool_results or ()))
        return has_failed and self.error_recovery is not None and state.recovery_rounds < self.options.max_recovery_rounds

    def _error_decision(self, state: ConversationState, error: Exception) -> ActionDecision:
        kind: ErrorKind = "parse_failed" if isinstance(error, WireError) else "internal"
        if isinstance(error, ModelError):
            kind = "context_overflow" if isinstance(error, ContextOverflow) else "provider_error"
        if kind == "internal" and self.raises_bugs:
            raise error
        log = logger.warning if kind == "internal" else logger.info
        log("no decision: %s: %s", kind, error, exc_info=kind == "internal")
        self.observer.note("no_decision", cause=kind, error=str(error))
        return ActionDecision(
            action_type=ActionType.ERROR_RECOVERY,
            reasoning=f"Error in agent processing: {error}",
            confidence=0.0,
            should_continue=False,
            final_response=self._generate_safe_error_response(state, error),
            error_kind=kind,
            error=str(error),
        )

    # --- reasoning ---

    async def _decide(self, state: ConversationState, asker: Asker) -> ActionDecision:
        reasoner, registry = self.agent_reasoner, self.tool_registry
        turns: list[Message] = []
        summary = None
        if self.options.history_as == "messages":
            history, turns = turns_of(state)
        else:
            history, summary = await reasoner.summarized(state, asker)
        told_limit = self.options.told_max_iterations or state.max_iterations  # the limit that holds (row B0-12)
        inputs = {
            "user_query": state.user_query,
            "conversation_history": history,
            "last_tool_results": render_results(state.last_tool_results or []) or NO_RESULTS,
            "available_tools": prompt_json(registry.get_all_tool_descriptions(), indent=2),
            "iteration_count": str(state.iteration_count),
            "max_iterations": str(reasoner.max_iterations if told_limit is None else told_limit),
        }
        output = await reasoner.decide(asker, registry.get_all_tool_names(), inputs, turns)
        decision = await self._as_decision(state, output, asker)
        decision.history_summary = summary
        return decision

    async def _as_decision(self, state: ConversationState, output: ReasoningOutput, asker: Asker) -> ActionDecision:
        """Turn the output into a decision.

        To stop is a final response, and to go on without tools executes nothing (rows S0-25 to S0-27). Calls beside a final
        response are dropped and noted, or run before it (row B0-14).
        """
        calls = output.calls
        stops = not output.should_continue and not needs_approval(self.observer, [call.tool_name for call in calls])
        if stops and not (calls and self.options.finish_with_tools != "stop"):
            decision = ActionDecision(
                action_type=ActionType.FINAL_RESPONSE,
                reasoning=output.continuation_reasoning,
                confidence=output.confidence,
                should_continue=False,
                tool_suggestions=calls or None,
            )
            if self.takes_null and (output.final_response is None or output.final_response.strip() == NULL):
                decision.final_response = decision.answer = NULL  # no style can put it otherwise
                return decision
            return await self._formatted(decision, output.final_response or self._generate_final_response(state), state, asker)
        if not calls:
            return ActionDecision(
                action_type=ActionType.TOOL_EXECUTION, reasoning=NO_TOOLS_REASONING, confidence=0.5, tool_suggestions=[]
            )
        ends = stops and self.options.finish_with_tools == "run_first"
        decision = ActionDecision(
            action_type=ActionType.TOOL_EXECUTION,
            reasoning=output.overall_reasoning,
            confidence=output.confidence,
            tool_suggestions=calls,
            parallel_safe=output.parallel_safe,
            should_continue=not ends,
            suggested_next_action=output.suggested_next_action,
        )
        if ends and output.final_response:
            return await self._formatted(decision, output.final_response, state, asker)
        return decision

    async def _formatted(self, decision: ActionDecision, text: str, state: ConversationState, asker: Asker) -> ActionDecision:
        """Return the decision with its final response put into style."""
        parts = [text]
        if self.response_formatter is not None:
            parts = await self.response_formatter.parts(text, state.user_query, state, decision.confidence, asker)
        decision.final_response, decision.answer = "\n\n".join(parts), parts[0]
        return decision

    # --- recovery ---

    async def _handle_tool_errors(self, state: ConversationState, asker: Asker) -> ActionDecision:
        """Pair each failure with a strategy of its own, and decide by all of them (rows S0-31 to S0-35, B0-6, B0-7)."""
        results, descriptions = state.last_tool_results or [], self.tool_registry.get_all_tool_descriptions()
        failed = {place: result for place, result in enumerate(results) if _is_open_error(result)}
        calls: dict[int, ToolCall] = {}
        kinds = set()
        for place, error in failed.items():
            try:
                strategy = await self.error_recovery.plan(error, state, descriptions, asker)  # type: ignore[union-attr]  # it is on
            except WireError as failure:  # nothing can be done (row B0-33)
                logger.info("no recovery for %s: %s", error.get("tool_name"), failure)
                self.observer.note("unreadable", error=str(failure))
                continue
            if strategy.can_recover:
                kinds.add(strategy.strategy_type)
            if strategy.can_recover and strategy.strategy_type != "skip":
                calls[place] = _recovery_call(strategy, error)
        if calls:
            texts = [text for kind, text in _RECOVERY_TEXTS.items() if kind in kinds]
            return ActionDecision(
                action_type=ActionType.TOOL_EXECUTION,
                reasoning="; ".join(reasoning for reasoning, _ in texts),
                confidence=min(confidence for _, confidence in texts),
                tool_suggestions=list(calls.values()),
                parallel_safe=False,
                is_recovery=True,
                kept_results=[place for place in range(len(results)) if place not in calls],
            )
        if kinds or not failed:  # errors to skip, or none
            return await self._decide(state, asker)
        summary = self._summarize_errors(list(failed.values()))
        decision = ActionDecision(
            action_type=ActionType.FINAL_RESPONSE,
            reasoning=f"Unable to recover from errors: {summary}",
            confidence=0.5,
            should_continue=False,
            is_recovery=True,
        )
        return await self._formatted(decision, self._generate_error_aware_response(state, summary), state, asker)

    # --- texts: no helper calls a model ---

    def _summarize_errors(self, failed: Sequence[ToolResult]) -> str:
        return "; ".join(f"{result.get('tool_name')}: {result.get('error')}" for result in failed)

    def _generate_error_aware_response(self, state: ConversationState, summary: str) -> str:
        found = render_results(result for result in state.last_tool_results or () if result.get("status") == "success")
        text = f"I could not complete the request, because tools failed: {summary}"
        return f"{text}\nWhat was found:\n{found}" if found else text

    def _generate_safe_error_response(self, state: ConversationState, error: Exception) -> str:
        """Return what a user is told after an error: nothing of the error or the state. A subclass that knows both may say more."""
        return "I could not complete the request, because of an error while deciding what to do."

    def _generate_final_response(self, state: ConversationState) -> str:
        return final_response(state)


def _is_open_error(result: ToolResult) -> bool:
    """Return whether a result is a failure that nothing has been decided about yet."""
    return result.get("status") == "error" and not result.get("seen", False)


def _recovery_call(strategy: ErrorRecoveryStrategy, error: ToolResult) -> ToolCall:
    """Return the call that a strategy proposes: of another tool, or of the same one again (rows S0-32 and S0-33)."""
    name, parameters, reasoning = strategy.alternative_tool or "", strategy.retry_with_params or {}, strategy.details
    if strategy.strategy_type == "retry":
        name, reasoning = error["tool_name"], f"Retry: {reasoning}"
        parameters = parameters or copy.deepcopy(error.get("parameters", {}))
    return ToolCall(tool_name=name, parameters=parameters, reasoning=reasoning)
