"""The core decision: tools and continuation in one call, over a history that is summarised when it grows long.

Rows such as S0-20 are those of docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dspy

from whichloop.dspy_seam import ThroughPredictor, request_of
from whichloop.protocol import SILENT, Message, Observer, Prompted, WireError
from whichloop.protocol.redact import logger_of
from whichloop.protocol.threads import run_blocking

from .execution import Description
from .history import NO_RESULTS, render_entry, render_history, render_results, shown_value
from .signatures import (
    AgentReasonerSignature,
    Caller,
    DecideCodec,
    ErrorRecoverySignature,
    FormatDetailedResponse,
    FormatResponse,
    SummarizeHistory,
    ValidateReasoning,
    decide_codec,
    format_codec,
    prompt_json,
    recover_codec,
    summary_codec,
    validate_codec,
)
from .state import ConversationEntry, ConversationState, ErrorRecoveryStrategy, HistorySummary, ReasoningOutput, ToolResult

logger = logger_of(__name__)

MAX_CHARS = 3000
"""Characters of history beyond which it is summarised (row S0-20)."""
RECENT_CHARS = 1500
"""Characters of it that stay as they are."""
IN_MESSAGES = "The messages above."

_INPUTS = tuple(AgentReasonerSignature.input_fields)


@dataclass(frozen=True, slots=True)
class Question:
    """The question of one decision: the inputs of `AgentReasonerSignature`."""

    user_query: str
    conversation_history: str
    """The rendered history."""
    last_tool_results: str | None
    available_tools: str
    iteration_count: int
    max_iterations: int
    turns: tuple[Message, ...] = ()
    """Earlier iterations as messages, which come before all the rest."""
    takes_null: bool = False
    """Whether null is an answer to the query; no input of the signature."""


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
        self.validate_output = validate_output
        self.calls_win = calls_win
        self.reasoner = dspy.ChainOfThought(AgentReasonerSignature)
        self.history_summarizer = dspy.Predict(SummarizeHistory)
        if validate_output:
            self.output_validator = dspy.Predict(ValidateReasoning)

    def forward(
        self,
        user_query: str,
        conversation_history: str,
        last_tool_results: str | None,
        available_tools: str,
        iteration_count: int,
        max_iterations: int | None = None,
    ) -> Any:
        """Do what `aforward` does, from synchronous code."""
        return run_blocking(
            self.aforward(user_query, conversation_history, last_tool_results, available_tools, iteration_count, max_iterations)
        )

    async def aforward(
        self,
        user_query: str,
        conversation_history: str,
        last_tool_results: str | None,
        available_tools: str,
        iteration_count: int,
        max_iterations: int | None = None,
    ) -> Any:
        """Return a dspy.Prediction of `reasoning_output`, by the model that DSPy is configured with; summarise a long history."""
        caller = Caller()
        history, _ = await self.condense(user_query, conversation_history, None, caller)
        iteration_limit = self.max_iterations if max_iterations is None else max_iterations
        question = Question(user_query, history, last_tool_results, available_tools, iteration_count, iteration_limit)
        return dspy.Prediction(reasoning_output=await self.decide(question, self.tool_names, caller))

    async def decide(
        self, question: Question, tool_names: Sequence[str], caller: Caller, observer: Observer = SILENT
    ) -> ReasoningOutput:
        """Return one decision. Raises WireError for an unreadable reply, ModelError without a reply."""
        predictor = self.reasoner.predict
        names = tuple(tool_names) if self.constrain_names else ()
        codec = decide_codec(predictor.signature, names, calls_win=self.calls_win, takes_null=question.takes_null)
        fields: dict[str, str | int] = {name: getattr(question, name) for name in _INPUTS}
        fields["last_tool_results"] = question.last_tool_results or NO_RESULTS
        if question.turns:
            outputs = await _ask_after_turns(question.turns, predictor, codec, caller, fields)
        else:
            outputs = await caller.ask(predictor, codec, **fields)
        output: ReasoningOutput = outputs["reasoning_output"]
        if self.validate_output:
            await self._validate(question.user_query, output, caller, observer)
        return output

    async def _validate(self, user_query: str, output: ReasoningOutput, caller: Caller, observer: Observer) -> None:
        """Note whether the output is consistent; the decision stands whatever comes of it (rows S0-22, B0-18)."""
        predictor = self.output_validator
        codec = validate_codec(predictor.signature)
        try:
            fields = await caller.ask(predictor, codec, user_query=user_query, reasoning_output=prompt_json(output.model_dump()))
        except WireError as error:
            logger.info("the validator's reply cannot be read: %s", error)
            return
        observer.note("validation", is_valid=fields["is_valid"], issues=fields["validation_issues"])

    async def summarized_history(
        self, user_query: str, entries: Sequence[ConversationEntry], stored: HistorySummary | None, caller: Caller
    ) -> tuple[str, HistorySummary | None]:
        """Return the history as the prompt shows it, and a summary that was made for it, if any (row B0-19)."""
        rest = entries if stored is None else _uncovered(entries, stored.last_iteration)
        rendered = render_history(rest) if rest or stored is None else ""
        text, summary = await self.condense(user_query, rendered, stored, caller)
        if summary is None:
            return text, None
        covered = max(entry.iteration for entry in entries)
        return text, summary.model_copy(update={"last_iteration": covered})

    async def condense(
        self, user_query: str, history: str, stored: HistorySummary | None, caller: Caller
    ) -> tuple[str, HistorySummary | None]:
        """Return a history of up to 3000 characters unchanged, under the stored summary; a longer history is summarised."""
        if len(history) <= MAX_CHARS:
            return _under(stored, history), None
        predictor = self.history_summarizer
        codec = summary_codec("stateless.summarize", predictor.signature)
        try:
            fields = await caller.ask(
                predictor, codec, user_query=user_query, long_history=history if stored is None else f"{stored.text}\n\n{history}"
            )
        except WireError as error:
            logger.info("the history's end stands for it, its summary cannot be read: %s", error)
            return _under(stored, history[-MAX_CHARS:]), None
        summary = HistorySummary(summary=fields["summary"], key_points=fields["key_points"], last_iteration=0)
        return _under(summary, history[-RECENT_CHARS:]), summary


def _under(summary: HistorySummary | None, recent: str) -> str:
    """Return the recent history under what is known of the time before."""
    if summary is None:
        return recent
    return f"{summary.text}\n\n[Recent history]: {recent}" if recent else summary.text


def _uncovered(entries: Sequence[ConversationEntry], last: int) -> list[ConversationEntry]:
    """Return the entries that a summary up to iteration `last` does not cover; one of iteration -1 reaches up to the next."""
    reach = next((entry.iteration - 1 for entry in entries if entry.iteration >= 0), last + 1)
    return [entry for entry in entries if (entry.iteration if entry.iteration >= 0 else reach) > last]


# --- history as messages ---


def turns_of(user_query: str, entries: Sequence[ConversationEntry]) -> tuple[str, tuple[Message, ...]]:
    """Return the text of the history in the prompt, and earlier iterations as a conversation.

    The current message shows the last results, and summaries of older iterations.
    """
    summaries = [render_entry(entry) for entry in entries if entry.iteration == -1]
    steps = [entry for entry in entries if entry.iteration != -1]
    if not steps:
        return render_history(entries), ()
    turns = [Message("user", user_query)]
    for index, entry in enumerate(steps):
        if index:
            turns.append(Message("user", render_results(steps[index - 1].results) or NO_RESULTS))
        turns.append(Message("assistant", _as_said(entry)))
    return "\n".join([*summaries, IN_MESSAGES]), tuple(turns)


def _as_said(entry: ConversationEntry) -> str:
    """Return the decision behind an entry: its reasoning and its calls."""
    calls = [
        {"tool_name": name, "parameters": parameters}
        for name, parameters in zip(entry.tool_calls, entry.tool_parameters.values(), strict=False)
    ]
    return f"{entry.reasoning}\n{prompt_json(calls)}"


async def _ask_after_turns(
    turns: tuple[Message, ...], predictor: Any, codec: DecideCodec, caller: Caller, fields: dict[str, str | int]
) -> dict[str, Any]:
    """Ask like `Caller.ask`, with messages between demonstrations and current input. Raises ValueError without a Model."""
    if isinstance(caller.model, ThroughPredictor):
        raise ValueError("history_as='messages' needs a Model: DSPy's own call has no place for them")
    shown = {name: str(value) for name, value in fields.items()}

    def inputs() -> dict[str, str]:  # a demonstration has no messages of its own
        summaries = shown["conversation_history"].removesuffix(IN_MESSAGES)
        spoken = "\n".join(f"{turn.role}: {turn.content}" for turn in turns)
        return shown | {"conversation_history": f"{summaries}{spoken}"}

    request = request_of(predictor, shown, codec, turns=turns)
    request = replace(request, prompted=Prompted(codec.predictor, inputs, codec.read))
    reply = await caller.model.complete(request)
    caller.count(reply.usage)
    return codec.read(reply)


class ResponseFormatter(dspy.Module):
    """Format final responses based on context and style requirements."""

    def __init__(self, style_guide: str = "concise", include_confidence: bool = False) -> None:
        """`style_guide`: "detailed" adds the main points; any other style is told to the model."""
        super().__init__()
        self.style_guide = style_guide
        self.include_confidence = include_confidence
        self.formatter = dspy.ChainOfThought(FormatDetailedResponse) if style_guide == "detailed" else dspy.Predict(FormatResponse)

    def forward(self, raw_response: str, user_query: str, state: ConversationState, confidence: float | None = None) -> str:
        """Do what `aforward` does, from synchronous code."""
        return run_blocking(self.aforward(raw_response, user_query, state, confidence))

    async def aforward(self, raw_response: str, user_query: str, state: ConversationState, confidence: float | None = None) -> str:
        """Return the response with its points and its confidence, from the model that DSPy is configured with.

        `confidence`: in [0, 1], None if unknown. Raises as `parts` does.
        """
        return "\n\n".join(await self.parts(raw_response, user_query, state, confidence, Caller()))

    async def parts(
        self, raw_response: str, user_query: str, state: ConversationState, confidence: float | None, caller: Caller
    ) -> list[str]:
        """Return the response, then what is put under it. Raises WireError for an unreadable reply, ModelError without one."""
        inputs = {
            "raw_response": raw_response,
            "user_query": user_query,
            "key_results": prompt_json(self._extract_key_results(state.conversation_history)),
        }
        predictor = self.formatter
        if self.style_guide == "detailed":
            predictor = self.formatter.predict
            inputs["tool_history"] = self._format_tool_history(state.conversation_history)
        fields = await caller.ask(predictor, format_codec(predictor.signature, self.style_guide), **inputs)
        parts: list[str] = [fields["formatted_response"]]
        points = _points(fields.get("summary_points", ""))
        if points:
            parts.append("\n".join(["Key Points:", *(f"• {point}" for point in points)]))
        if self.include_confidence and confidence is not None:
            parts.append(f"Confidence: {confidence:.0%}")
        return parts

    def _extract_key_results(self, history: Sequence[ConversationEntry]) -> list[dict[str, Any]]:
        """Return the results of tools, and what summaries say of them."""
        results = [result for entry in history for result in entry.results]
        return [
            {"tool_name": result["tool_name"], "result": shown_value(result)} if "tool_name" in result else result
            for result in results
            if result.get("status") in ("success", None)
        ]

    def _format_tool_history(self, history: Sequence[ConversationEntry]) -> str:
        return render_history(history)


def _points(points: str | Sequence[str]) -> list[str]:
    """Return a list unchanged; a text split at its lines, without the dashes that models put before them (row B0-15)."""
    lines = points.splitlines() if isinstance(points, str) else points
    return [point for line in lines if (point := str(line).strip().lstrip("•-*").strip())]


DEFAULT_STRATEGIES = ("retry", "alternative_tool", "graceful_degradation")
_ALSO_KNOWN_AS = {"graceful_degradation": "skip"}


class ErrorRecoveryModule(dspy.Module):
    """Specialized module for error recovery strategies."""

    def __init__(self, recovery_strategies: Sequence[str] | None = None) -> None:
        """`recovery_strategies`: what the planner may propose; graceful_degradation is "skip", and "fail" is always allowed."""
        super().__init__()
        self.strategies = list(DEFAULT_STRATEGIES if recovery_strategies is None else recovery_strategies)
        self.recovery_planner = dspy.ChainOfThought(ErrorRecoverySignature)

    @property
    def allowed(self) -> tuple[str, ...]:
        """Strategy types that the planner may propose."""
        return tuple(dict.fromkeys([*(_ALSO_KNOWN_AS.get(name, name) for name in self.strategies), "fail"]))

    def forward(
        self, error_info: ToolResult, context: ConversationState, available_tools: Sequence[Description | str]
    ) -> ErrorRecoveryStrategy:
        """Do what `aforward` does, from synchronous code."""
        return run_blocking(self.aforward(error_info, context, available_tools))

    async def aforward(
        self, error_info: ToolResult, context: ConversationState, available_tools: Sequence[Description | str]
    ) -> ErrorRecoveryStrategy:
        """Return the recovery strategy for a tool error, from the model that DSPy is configured with."""
        return await self.plan(error_info, context, available_tools, Caller())

    async def plan(
        self, error_info: ToolResult, context: ConversationState, available_tools: Sequence[Description | str], caller: Caller
    ) -> ErrorRecoveryStrategy:
        """Return the planned strategy. Raises WireError for an unreadable reply, ModelError without a reply."""
        predictor = self.recovery_planner.predict
        failed = str(error_info.get("tool_name", ""))
        fields = await caller.ask(
            predictor,
            recover_codec(predictor.signature, self.allowed),
            error_message=str(error_info.get("error", "")),
            error_type=str(error_info.get("error_type", "Unknown")),
            failed_tool=failed,
            tool_parameters=prompt_json(error_info.get("parameters", {})),
            user_query=context.user_query,
            available_tools=prompt_json([_marked(tool, failed) for tool in available_tools], indent=2),
            previous_attempts=self._format_previous_attempts(context.errors_encountered),
        )
        strategy: ErrorRecoveryStrategy = fields["recovery_strategy"]
        return strategy

    def is_recoverable(self, strategy: ErrorRecoveryStrategy) -> bool:
        """Return whether this strategy does anything: "fail" does not, nor does an alternative without a tool (row B0-7)."""
        if strategy.strategy_type == "fail" or strategy.strategy_type not in self.allowed or not strategy.can_recover:
            return False
        return strategy.strategy_type != "alternative_tool" or bool(strategy.alternative_tool)

    def _format_previous_attempts(self, errors: Sequence[str]) -> str:
        return "\n".join(f"{number}. {error}" for number, error in enumerate(errors, 1)) or "None"


def _marked(tool: Description | str, failed: str) -> Any:
    """Return the description, marked if it is the failed tool's (row B0-33)."""
    described: dict[str, Any] = {"name": tool} if isinstance(tool, str) else dict(tool)
    return described | {"failed": True} if described.get("name") == failed else described
