"""The stateless agent: a conversation's state in, one decision out.

Rows such as S0-28 are those of docs/conformance.md.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any, Self

import dspy

from whichloop.loops.shared.call_ids import needs_approval
from whichloop.protocol import SILENT, ContextOverflow, Model, ModelError, Observer, StopRun, WireError
from whichloop.protocol.redact import logger_of
from whichloop.protocol.threads import run_blocking

from .execution import Description, as_tool_registry
from .history import final_response, render_results
from .reasoner import AgentReasoner, ErrorRecoveryModule, Question, ResponseFormatter, turns_of
from .signatures import Caller, SummarizeEntries, prompt_json
from .state import (
    ActionDecision,
    ActionType,
    AgentOptions,
    ConversationState,
    ErrorKind,
    ErrorRecoveryStrategy,
    HistorySummary,
    ReasoningOutput,
    ToolCall,
    ToolResult,
)

logger = logger_of(__name__)

DEFAULT_TOLD = 10
"""The limit of iterations that the model is told if neither state nor option names another."""
NULL = "null"
NO_TOOLS_REASONING = "Need more information but no specific tools identified"


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
        recovery_strategies: Sequence[str] | None = None,
        model: Model | None = None,
        **factors: Any,
    ) -> None:
        """`tool_registry`: a ToolRegistry, a registry with `get_function`, or a Toolbox. `factors`: further `AgentOptions`.

        `recovery_strategies`: see `ErrorRecoveryModule`. `model`: None is the model that DSPy is configured with.
        Raises ValueError for an option out of its range, TypeError for an unknown one.
        """
        super().__init__()
        self.options = AgentOptions(enable_error_recovery, response_style, **factors)
        self.tool_registry = as_tool_registry(tool_registry)
        self.model = model
        self.observer = SILENT
        self.takes_null = False
        self.agent_reasoner = AgentReasoner(
            self.tool_registry.get_all_tool_names(),
            DEFAULT_TOLD,
            constrain_names=self.options.constrain_names,
            validate_output=self.options.validate_output,
            calls_win=self.options.finish_with_tools == "ask_again",
        )
        self.entry_summarizer = dspy.ChainOfThought(SummarizeEntries)
        self.error_recovery = ErrorRecoveryModule(recovery_strategies) if enable_error_recovery else None
        shows_confidence = self.options.shows_confidence
        self.response_formatter = None if response_style is None else ResponseFormatter(response_style, shows_confidence)
        self._described: tuple[list[Description], str] = ([], "[]")

    @property
    def enable_error_recovery(self) -> bool:
        return self.options.enable_error_recovery

    @property
    def response_style(self) -> str | None:
        return self.options.response_style

    def for_run(
        self, tool_registry: Any, model: Model | None = None, observer: Observer = SILENT, *, takes_null: bool = False
    ) -> Self:
        """Return an agent with the same predictors and options over other tools and another model.

        `takes_null`: null is an answer, which a decision without a final response states.
        """
        other = copy.copy(self)
        other.tool_registry = as_tool_registry(tool_registry)
        other.model = model
        other.observer = observer
        other.takes_null = takes_null
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

        An exception is a decision too (row S0-28). Only cancellation and StopRun are raised.
        """
        started = time.perf_counter()
        caller = Caller(self.model)
        try:
            if self._may_recover(state):
                decision = await self._handle_tool_errors(state, caller)
            else:
                decision = await self._decide(state, caller)
        except StopRun:
            raise
        except Exception as error:
            decision = self._error_decision(state, error)
        decision.processing_time = time.perf_counter() - started
        decision.tokens_used = caller.tokens
        return decision

    def _may_recover(self, state: ConversationState) -> bool:
        if not any(map(_is_open_error, state.last_tool_results or ())):
            return False
        return self.enable_error_recovery and state.recovery_rounds < self.options.max_recovery_rounds

    def _error_decision(self, state: ConversationState, error: Exception) -> ActionDecision:
        kind = _error_kind(error)
        logger.info("no decision: %s: %s", kind, error)
        self.observer.note("no_decision", cause=kind, error=str(error))
        return ActionDecision(
            action_type=ActionType.ERROR_RECOVERY,
            reasoning=f"Error in agent processing: {error}",
            confidence=0.0,
            should_continue=False,
            final_response=self._generate_safe_error_response(state, error),
            error_kind=kind,
        ).caused_by(error)

    # --- reasoning ---

    async def _decide(self, state: ConversationState, caller: Caller) -> ActionDecision:
        output, summary = await self._perform_core_reasoning(state, caller)
        decision = await self._as_decision(state, output, caller)
        decision.history_summary = summary
        return decision

    async def _perform_core_reasoning(
        self, state: ConversationState, caller: Caller
    ) -> tuple[ReasoningOutput, HistorySummary | None]:
        """Return what the model decides about tools and continuation, and a summary of the history that was made for it, if any."""
        entries = state.conversation_history
        reasoner, registry = self.agent_reasoner, self.tool_registry  # of a dspy.Module, whose attributes are slow to read
        summary = None
        if self.options.history_as == "messages":
            history, turns = turns_of(state.user_query, entries)
        else:
            turns = ()
            history, summary = await reasoner.summarized_history(state.user_query, entries, state.history_summary, caller)
        question = Question(
            user_query=state.user_query,
            conversation_history=history,
            last_tool_results=render_results(state.last_tool_results or []),
            available_tools=self._format_tool_descriptions(),
            iteration_count=state.iteration_count,
            max_iterations=self._limit_to_tell(state),
            turns=turns,
            takes_null=self.takes_null,
        )
        return await reasoner.decide(question, registry.get_all_tool_names(), caller, self.observer), summary

    def _limit_to_tell(self, state: ConversationState) -> int:
        """Return the limit that the model is told: the state's, which is the one that holds (row B0-12)."""
        if self.options.told_max_iterations is not None:
            return self.options.told_max_iterations
        return state.max_iterations if state.max_iterations is not None else self.agent_reasoner.max_iterations

    async def _as_decision(self, state: ConversationState, output: ReasoningOutput, caller: Caller) -> ActionDecision:
        """Turn the output into a decision.

        To stop is a final response, and to go on without tools executes nothing (rows S0-25 to S0-27). Calls beside a final
        response are dropped and noted, or run before it (row B0-14).
        """
        calls = output.calls
        stops = not output.should_continue
        must_ask = needs_approval(self.observer, [call.tool_name for call in calls])
        if stops and not must_ask and not (calls and self.options.finish_with_tools != "stop"):
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
            text = output.final_response or self._generate_final_response(state)
            return await self._formatted(decision, text, state, output.confidence, caller)
        if not calls:
            return ActionDecision(
                action_type=ActionType.TOOL_EXECUTION, reasoning=NO_TOOLS_REASONING, confidence=0.5, tool_suggestions=[]
            )
        ends = stops and not must_ask and self.options.finish_with_tools == "run_first"
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
            return await self._formatted(decision, output.final_response, state, output.confidence, caller)
        return decision

    async def _formatted(
        self, decision: ActionDecision, text: str, state: ConversationState, confidence: float, caller: Caller
    ) -> ActionDecision:
        """Return the decision with its final response put into style."""
        parts = [text]
        if self.response_formatter is not None:
            parts = await self.response_formatter.parts(text, state.user_query, state, confidence, caller)
        decision.final_response, decision.answer = "\n\n".join(parts), parts[0]
        return decision

    # --- recovery ---

    async def _handle_tool_errors(self, state: ConversationState, caller: Caller) -> ActionDecision:
        """Pair each failure with a strategy of its own, and decide by all of them (rows S0-31 to S0-35, B0-6, B0-7)."""
        results = state.last_tool_results or []
        failed = [place for place, result in enumerate(results) if _is_open_error(result)]
        if not failed:
            return await self._decide(state, caller)
        calls: dict[int, ToolCall] = {}
        kinds: list[str] = []
        skipped = False
        for place in failed:
            strategy = await self._strategy_for(results[place], state, caller)
            if strategy is None:
                continue
            if strategy.strategy_type == "skip":
                skipped = True
            else:
                calls[place] = _recovery_call(strategy, results[place])
                kinds.append(strategy.strategy_type)
        if calls:
            kept_places = [place for place in range(len(results)) if place not in calls]
            return _recovery_decision(list(calls.values()), kinds, kept_places)
        if skipped:
            return await self._decide(state, caller)
        summary = self._summarize_errors([results[place] for place in failed])
        text = self._generate_error_aware_response(state, summary)
        decision = ActionDecision(
            action_type=ActionType.FINAL_RESPONSE,
            reasoning=f"Unable to recover from errors: {summary}",
            confidence=0.5,
            should_continue=False,
            is_recovery=True,
        )
        return await self._formatted(decision, text, state, 0.5, caller)

    async def _strategy_for(self, error: ToolResult, state: ConversationState, caller: Caller) -> ErrorRecoveryStrategy | None:
        """Return what to do about one error; None if nothing can be done, or if the planner fails.

        The planner is shown what all tools do, the failed one marked (row B0-33).
        """
        planner = self.error_recovery
        assert planner is not None  # recovery is on: see `_may_recover`
        try:
            strategy: ErrorRecoveryStrategy = await planner.plan(
                error, state, self.tool_registry.get_all_tool_descriptions(), caller
            )
        except WireError as failure:
            logger.info("no recovery for %s: %s", error.get("tool_name"), failure)
            self.observer.note("unreadable", error=str(failure))
            return None
        return strategy if planner.is_recoverable(strategy) else None

    # --- texts: no helper calls a model ---

    def _format_tool_descriptions(self) -> str:
        """Return the tools as indented JSON; rendered again only when they have changed."""
        tools = self.tool_registry.get_all_tool_descriptions()
        described_tools, text = self._described
        if tools != described_tools:
            text = prompt_json(tools, indent=2)
            self._described = (tools, text)
        return text

    def _summarize_errors(self, failed: Sequence[ToolResult]) -> str:
        return "; ".join(f"{result.get('tool_name')}: {result.get('error')}" for result in failed)

    def _generate_error_aware_response(self, state: ConversationState, summary: str) -> str:
        results_text = render_results(r for r in state.last_tool_results or () if r.get("status") == "success")
        text = f"I could not complete the request, because tools failed: {summary}"
        return f"{text}\nWhat was found:\n{results_text}" if results_text else text

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
    if strategy.strategy_type == "alternative_tool":
        return ToolCall(
            tool_name=strategy.alternative_tool or "",
            parameters=strategy.retry_with_params or {},
            reasoning=strategy.details,
        )
    return ToolCall(
        tool_name=error["tool_name"],
        parameters=strategy.retry_with_params or copy.deepcopy(error.get("parameters", {})),
        reasoning=f"Retry: {strategy.details}",
    )


_RECOVERY_TEXTS = {
    "alternative_tool": ("Attempting recovery with alternative tools", 0.7),
    "retry": ("Retrying failed tools with adjusted parameters", 0.6),
}


def _recovery_decision(calls: list[ToolCall], kinds: Sequence[str], kept_places: list[int]) -> ActionDecision:
    texts, confidences = zip(*(texts_of_kind for kind, texts_of_kind in _RECOVERY_TEXTS.items() if kind in kinds), strict=True)
    return ActionDecision(
        action_type=ActionType.TOOL_EXECUTION,
        reasoning="; ".join(texts),
        confidence=min(confidences),
        tool_suggestions=calls,
        parallel_safe=False,
        is_recovery=True,
        kept_results=kept_places,
    )


def _error_kind(error: Exception) -> ErrorKind:
    if isinstance(error, WireError):
        return "parse_failed"
    if isinstance(error, ContextOverflow):
        return "context_overflow"
    return "provider_error" if isinstance(error, ModelError) else "internal"
