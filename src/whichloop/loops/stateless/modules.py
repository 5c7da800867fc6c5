"""The modules that ask the model: for a decision, the final response, a recovery and a shorter history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy

from whichloop.dspy_seam import Fields, SignatureCodec, ask
from whichloop.protocol import SILENT, Message, Model, Observer, Reply, WireError
from whichloop.protocol.redact import logger_of
from whichloop.protocol.threads import run_blocking

from . import signatures
from .execution import Description
from .signatures import ProseCodec, prompt_json, with_note
from .state import (
    NO_RESULTS,
    ConversationEntry,
    ConversationState,
    ErrorRecoveryStrategy,
    HistorySummary,
    ReasoningOutput,
    ToolResult,
    render_entry,
    render_history,
    render_results,
    shown_value,
)

logger = logger_of(__name__)

MAX_CHARS = 3000
"""Characters of history beyond which it is summarised (row S0-20)."""
RECENT_CHARS = 1500
"""Characters of it that stay as they are."""
IN_MESSAGES = "The messages above."
DEFAULT_STRATEGIES = ("retry", "alternative_tool", "graceful_degradation")


class Asker:
    """Asks for one decision, and counts what that takes."""

    def __init__(self, model: Model | None = None, observer: Observer = SILENT, takes_null: bool = False) -> None:
        """`model`: None is the LM that DSPy is configured with. `takes_null`: see `DecideCodec`."""
        self.model, self.observer, self.takes_null = model, observer, takes_null
        self.tokens: int | None = 0
        """Input and output tokens; None once those of one reply are unknown."""

    async def ask(self, predictor: Any, codec: SignatureCodec, inputs: dict[str, str], **turns: Any) -> Fields:
        """Return the output fields of one reply; `turns` as in `ask` of the seam. Raises WireError, and ModelError without one."""
        try:
            fields, reply = await ask(predictor, inputs, codec=codec, model=self.model, **turns)
        except WireError as error:
            self._count(getattr(error, "reply", None))
            raise
        self._count(reply)
        return fields

    def _count(self, reply: Reply | None) -> None:
        usage = None if reply is None else reply.usage
        self.tokens = None if usage is None or self.tokens is None else self.tokens + usage.total_tokens


class AgentReasoner(dspy.Module):
    """Core reasoning module that handles both tool selection and continuation decisions."""

    def __init__(
        self,
        tool_names: Sequence[str],
        max_iterations: int = 5,
        *,
        constrain_names: bool = False,
        validate_output: bool = False,
        calls_win: bool = False,
    ) -> None:
        """`max_iterations`: what the model is told if a state says nothing. `calls_win`: see `DecideCodec`."""
        super().__init__()
        self.tool_names = list(tool_names)
        self.max_iterations = max_iterations
        self.constrain_names = constrain_names
        self.calls_win = calls_win
        self.reasoner = dspy.ChainOfThought(signatures.AgentReasonerSignature)
        self.history_summarizer = dspy.Predict(signatures.SummarizeHistory)
        self.output_validator = dspy.Predict(signatures.ValidateReasoning) if validate_output else None

    def forward(
        self,
        user_query: str,
        conversation_history: str,
        last_tool_results: str | None,
        available_tools: str,
        iteration_count: int,
        max_iterations: int | None = None,
    ) -> Any:
        """Return a dspy.Prediction of `reasoning_output`, by the model that DSPy is configured with; summarise a long history."""
        asker = Asker()
        history, _ = run_blocking(self.condense(user_query, conversation_history, None, asker))
        inputs = {
            "user_query": user_query,
            "conversation_history": history,
            "last_tool_results": last_tool_results or NO_RESULTS,
            "available_tools": available_tools,
            "iteration_count": str(iteration_count),
            "max_iterations": str(self.max_iterations if max_iterations is None else max_iterations),
        }
        return dspy.Prediction(reasoning_output=run_blocking(self.decide(asker, self.tool_names, inputs)))

    async def decide(
        self, asker: Asker, tool_names: Sequence[str], inputs: dict[str, str], turns: Sequence[Message] = ()
    ) -> ReasoningOutput:
        """Return one decision. `inputs`: those of `AgentReasonerSignature`. `turns`: earlier iterations as messages."""
        predictor, signature = self.reasoner.predict, self.reasoner.predict.signature
        if self.constrain_names:
            signature = signatures.constrained(signature, tuple(tool_names))
        codec = signatures.DecideCodec(signature, calls_win=self.calls_win, takes_null=asker.takes_null)
        told = inputs
        if turns:
            spoken = "\n".join(f"{turn.role}: {turn.content}" for turn in turns)
            told = inputs | {"conversation_history": inputs["conversation_history"].removesuffix(IN_MESSAGES) + spoken}
        fields = await asker.ask(predictor, codec, inputs, turns=turns, told=told)
        output: ReasoningOutput = fields["reasoning_output"]
        if (validator := self.output_validator) is not None:  # whose verdict changes nothing (rows S0-22, B0-18)
            said = {"user_query": inputs["user_query"], "reasoning_output": prompt_json(output.model_dump())}
            try:
                verdict = await asker.ask(validator, signatures.ValidateCodec(validator.signature), said)
                asker.observer.note("validation", is_valid=verdict["is_valid"], issues=verdict["validation_issues"])
            except WireError as error:
                logger.info("the validator's reply cannot be read: %s", error)
        return output

    async def summarized(self, state: ConversationState, asker: Asker) -> tuple[str, HistorySummary | None]:
        """Return the history as the prompt shows it, and a summary that was made for it, if any (row B0-19)."""
        entries, stored = state.conversation_history, state.history_summary
        rest = entries
        if stored is not None:  # an entry of iteration -1 reaches up to the next one
            reach = next((entry.iteration - 1 for entry in entries if entry.iteration >= 0), stored.last_iteration + 1)
            rest = [entry for entry in entries if (entry.iteration if entry.iteration >= 0 else reach) > stored.last_iteration]
        history = render_history(rest) if rest or stored is None else ""
        text, summary = await self.condense(state.user_query, history, stored, asker)
        if summary is not None:
            summary.last_iteration = max(entry.iteration for entry in entries)
        return text, summary

    async def condense(
        self, user_query: str, history: str, stored: HistorySummary | None, asker: Asker
    ) -> tuple[str, HistorySummary | None]:
        """Return a history of up to 3000 characters unchanged, under the stored summary; a longer history is summarised."""
        if len(history) <= MAX_CHARS:
            return under(stored, history), None
        predictor = self.history_summarizer
        inputs = {"user_query": user_query, "long_history": history if stored is None else f"{stored.text}\n\n{history}"}
        try:
            fields = await asker.ask(predictor, ProseCodec(predictor.signature, "history_summarizer"), inputs)
        except WireError as error:
            logger.info("the history's end stands for it, its summary cannot be read: %s", error)
            return under(stored, history[-MAX_CHARS:]), None
        summary = HistorySummary(summary=fields["summary"], key_points=fields["key_points"], last_iteration=0)
        return under(summary, history[-RECENT_CHARS:]), summary


class ResponseFormatter(dspy.Module):
    """Format final responses based on context and style requirements."""

    def __init__(self, style_guide: str = "concise", include_confidence: bool = False) -> None:
        """`style_guide`: "detailed" adds the main points; any other style is told to the model."""
        super().__init__()
        self.style_guide = style_guide
        self.include_confidence = include_confidence
        is_detailed = style_guide == "detailed"
        self.formatter = (
            dspy.ChainOfThought(signatures.FormatDetailedResponse) if is_detailed else dspy.Predict(signatures.FormatResponse)
        )

    def forward(self, raw_response: str, user_query: str, state: ConversationState, confidence: float | None = None) -> str:
        """Return the response with its points and its confidence, in [0, 1], from the model that DSPy is configured with."""
        return "\n\n".join(run_blocking(self.parts(raw_response, user_query, state, confidence, Asker())))

    async def parts(
        self, raw_response: str, user_query: str, state: ConversationState, confidence: float | None, asker: Asker
    ) -> list[str]:
        """Return the response, then what is put under it. Raises WireError for an unreadable reply, ModelError without one."""
        results = prompt_json(self._extract_key_results(state.conversation_history))
        inputs = {"raw_response": raw_response, "user_query": user_query, "key_results": results}
        predictor = self.formatter
        if self.style_guide == "detailed":
            predictor = self.formatter.predict
            inputs["tool_history"] = self._format_tool_history(state.conversation_history)
        signature = with_note(predictor.signature, f"Style: {self.style_guide}.")
        fields = await asker.ask(predictor, ProseCodec(signature, "formatter"), inputs)
        parts: list[str] = [fields["formatted_response"]]
        lines = [
            line.strip().lstrip("•-*").strip() for line in fields.get("summary_points", "").splitlines()
        ]  # models put dashes there (row B0-15)
        if any(lines):
            parts.append("\n".join(["Key Points:", *(f"• {line}" for line in lines if line)]))
        if self.include_confidence and confidence is not None:
            parts.append(f"Confidence: {confidence:.0%}")
        return parts

    def _extract_key_results(self, history: Sequence[ConversationEntry]) -> list[dict[str, Any]]:
        """Return the results of tools, and what summaries say of them."""
        return [
            {"tool_name": result["tool_name"], "result": shown_value(result)} if "tool_name" in result else result
            for entry in history
            for result in entry.results
            if result.get("status") in ("success", None)
        ]

    def _format_tool_history(self, history: Sequence[ConversationEntry]) -> str:
        return render_history(history)


class ErrorRecoveryModule(dspy.Module):
    """Specialized module for error recovery strategies."""

    def __init__(self, recovery_strategies: Sequence[str] | None = None) -> None:
        """`recovery_strategies`: what the planner may propose; graceful_degradation is "skip", and "fail" is always allowed."""
        super().__init__()
        self.strategies = list(DEFAULT_STRATEGIES if recovery_strategies is None else recovery_strategies)
        self.recovery_planner = dspy.ChainOfThought(signatures.ErrorRecoverySignature)

    def forward(
        self, error_info: ToolResult, context: ConversationState, available_tools: Sequence[Description | str]
    ) -> ErrorRecoveryStrategy:
        """Return the recovery strategy for a tool error, from the model that DSPy is configured with."""
        return run_blocking(self.plan(error_info, context, available_tools, Asker()))

    async def plan(
        self, error_info: ToolResult, context: ConversationState, available_tools: Sequence[Description | str], asker: Asker
    ) -> ErrorRecoveryStrategy:
        """Return the planned strategy, whose `can_recover` says whether it does anything (rows B0-7, B0-30).

        The planner is shown what all tools do, the failed one marked (row B0-33).
        """
        allowed = [*("skip" if name == "graceful_degradation" else name for name in self.strategies), "fail"]
        predictor = self.recovery_planner.predict
        failed = str(error_info.get("tool_name", ""))
        tools = [{"name": tool} if isinstance(tool, str) else tool for tool in available_tools]
        inputs = {
            "error_message": str(error_info.get("error", "")),
            "error_type": str(error_info.get("error_type", "Unknown")),
            "failed_tool": failed,
            "tool_parameters": prompt_json(error_info.get("parameters", {})),
            "user_query": context.user_query,
            "available_tools": prompt_json([t | {"failed": True} if t.get("name") == failed else t for t in tools], indent=2),
            "previous_attempts": self._format_previous_attempts(context.errors_encountered),
        }
        signature = with_note(predictor.signature, f"Allowed strategies: {', '.join(dict.fromkeys(allowed))}.")
        fields = await asker.ask(predictor, signatures.RecoverCodec(signature), inputs)
        strategy: ErrorRecoveryStrategy = fields["recovery_strategy"]
        kind = strategy.strategy_type
        does_nothing = kind == "fail" or kind not in allowed or (kind == "alternative_tool" and not strategy.alternative_tool)
        return strategy.model_copy(update={"can_recover": False}) if does_nothing else strategy

    def _format_previous_attempts(self, errors: Sequence[str]) -> str:
        return "\n".join(f"{number}. {error}" for number, error in enumerate(errors, 1)) or "None"


# --- history ---


class ConversationManager:
    """Manages conversation history with summarization and retrieval."""

    def __init__(
        self,
        max_history_length: int | None = 10,
        *,
        history: list[ConversationEntry] | None = None,
        user_query: str = "",
        summarizer: Any = None,
        model: Model | None = None,
    ) -> None:
        """`max_history_length`: entries beyond which the older half is summarised, None for any number.

        `history`: the list to keep, for example a state's. `summarizer`: predictor, None for a new one. `model`: None is the model
        that DSPy is configured with.
        """
        self.max_history_length = max_history_length
        self.history = [] if history is None else history
        self.user_query = user_query
        self.summarizer = summarizer or dspy.ChainOfThought(signatures.SummarizeEntries)
        self.model = model

    def add_entry(self, entry: ConversationEntry) -> None:
        """Add entry and manage history length. Raises ModelError if the summarizer gets no reply."""
        run_blocking(self.aadd_entry(entry))

    async def aadd_entry(self, entry: ConversationEntry) -> None:
        self.history.append(entry)
        if self.max_history_length is not None and len(self.history) > self.max_history_length:
            await self._compress_history()

    def get_formatted_history(self, last_n: int | None = None) -> str:
        """Return the last `last_n` entries, or all, as the prompt shows them."""
        return render_history(self.history[-last_n:] if last_n else self.history)

    async def _compress_history(self) -> None:
        """Replace the first half by one entry (row S0-56). An unreadable summary leaves the history as it is."""
        half = len(self.history) // 2
        folded = self.history[:half]
        predictor = self.summarizer.predict
        inputs = {"user_query": self.user_query, "conversation_entries": self._format_entries_for_summary(folded)}
        try:
            fields, _ = await ask(predictor, inputs, codec=ProseCodec(predictor.signature, "entry_summarizer"), model=self.model)
        except WireError as error:
            logger.info("history is kept whole, its summary cannot be read: %s", error)
            return
        self.history[:half] = [
            ConversationEntry(
                iteration=-1,
                timestamp=folded[0].timestamp,
                reasoning=f"SUMMARY: {fields['summary']}",
                tool_calls=["<summarized>"],
                tool_parameters={},
                results=[{"summary": fields["key_findings"], "unresolved_questions": fields["unresolved_questions"]}],
                results_summary=fields["summary"],
                errors=[error for item in folded for error in item.errors],
            )
        ]

    def _format_entries_for_summary(self, entries: Sequence[ConversationEntry]) -> str:
        return render_history(entries)


def under(summary: HistorySummary | None, recent: str) -> str:
    """Return the recent history under what is known of the time before."""
    if summary is None:
        return recent
    return f"{summary.text}\n\n[Recent history]: {recent}" if recent else summary.text


def turns_of(state: ConversationState) -> tuple[str, list[Message]]:
    """Return the text of the history in the prompt, and earlier iterations as a conversation.

    The current message shows the last results, and summaries of older iterations.
    """
    steps = [entry for entry in state.conversation_history if entry.iteration != -1]
    if not steps:
        return render_history(state.conversation_history), []
    turns: list[Message] = []
    said = state.user_query
    for entry in steps:
        pairs = zip(entry.tool_calls, entry.tool_parameters.values(), strict=False)
        calls = prompt_json([{"tool_name": name, "parameters": parameters} for name, parameters in pairs])
        turns += [Message("user", said), Message("assistant", f"{entry.reasoning}\n{calls}")]
        said = render_results(entry.results) or NO_RESULTS
    summaries = [render_entry(entry) for entry in state.conversation_history if entry.iteration == -1]
    return "\n".join([*summaries, IN_MESSAGES]), turns
