"""The requests to the model: one signature per predictor, and the codec that reads its replies as moves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import dspy
from pydantic import Field, create_model

from whichloop.dspy_seam import Fields, SignatureCodec, outputs_of, with_instructions
from whichloop.protocol import Act, Answer, Completion, Inexpressible, Move, Recovery, Reply, Role, Text, WireError
from whichloop.protocol import ToolCall as Call
from whichloop.protocol.values import one_line
from whichloop.protocol.wire import section

from .state import ErrorRecoveryStrategy, ReasoningOutput, ToolCall, json_copy

ACT_CONFIDENCE = 0.8
"""Confidence rendered with calls: the format demands one, and an Act has none."""
MAX_CALLS = 100


class AgentReasonerSignature(dspy.Signature):
    """Unified reasoning about tools and continuation in a single step."""

    user_query: str = dspy.InputField(desc="The user's original request")
    conversation_history: str = dspy.InputField(desc="Previous tool calls and their results")
    last_tool_results: str | None = dspy.InputField(desc="Results from the most recent tool executions, if any")
    available_tools: str = dspy.InputField(desc="JSON array of available tools and their descriptions")
    iteration_count: int = dspy.InputField(desc="Current iteration number")
    max_iterations: int = dspy.InputField(desc="Maximum allowed iterations")
    reasoning_output: ReasoningOutput = dspy.OutputField(desc="Combined reasoning and decision output")


class ErrorRecoverySignature(dspy.Signature):
    """Analyze error and suggest recovery strategy."""

    error_message: str = dspy.InputField(desc="The error message from failed tool")
    error_type: str = dspy.InputField(desc="Type of error (e.g., ValueError)")
    failed_tool: str = dspy.InputField(desc="Name of the tool that failed")
    tool_parameters: str = dspy.InputField(desc="Parameters that caused the error")
    user_query: str = dspy.InputField(desc="Original user request for context")
    available_tools: str = dspy.InputField(desc="List of available alternative tools")
    previous_attempts: str = dspy.InputField(desc="History of previous recovery attempts")
    recovery_strategy: ErrorRecoveryStrategy = dspy.OutputField(desc="Recommended recovery approach")


class ValidateReasoning(dspy.Signature):
    """Say whether a decision about the next step is consistent in itself, and what is wrong with it if not."""

    user_query: str = dspy.InputField()
    reasoning_output: str = dspy.InputField(desc="The decision, as JSON")
    is_valid: bool = dspy.OutputField()
    validation_issues: list[str] = dspy.OutputField()


class SummarizeHistory(dspy.Signature):
    """Summarize what was done for `user_query` so far. Keep every result that its answer may need."""

    user_query: str = dspy.InputField()
    long_history: str = dspy.InputField()
    summary: str = dspy.OutputField()
    key_points: list[str] = dspy.OutputField()


class SummarizeEntries(dspy.Signature):
    """Summarize the oldest part of the work on `user_query`. Keep every result that its answer may need."""

    user_query: str = dspy.InputField()
    conversation_entries: str = dspy.InputField()
    summary: str = dspy.OutputField()
    key_findings: str = dspy.OutputField()
    unresolved_questions: str = dspy.OutputField()


class FormatResponse(dspy.Signature):
    """Give the user the raw response to their query in the style that is asked for. Add nothing that it does not say."""

    raw_response: str = dspy.InputField()
    user_query: str = dspy.InputField()
    key_results: str = dspy.InputField(desc="Results of tools, as JSON")
    formatted_response: str = dspy.OutputField()


FormatDetailedResponse: Any = FormatResponse.append(
    "tool_history", dspy.InputField(desc="Which tools were called, and what came of it"), str
).append("summary_points", dspy.OutputField(desc="The main points, one per line"), str)


# --- codecs ---


class DecideCodec(SignatureCodec):
    """reasoning, then one ReasoningOutput. An empty Act goes on without a tool.

    Cannot say: an answer that is not text or has no confidence, arguments that the JSON of a state does not give back.
    """

    name = "stateless.decide"
    role = Role.DECIDE
    predictor = "reasoner"
    max_calls = MAX_CALLS

    def __init__(self, signature: Any, *, calls_win: bool = False, takes_null: bool = False) -> None:
        """`calls_win`: a reply that stops and calls tools at once is an Act; otherwise it is an Answer.

        `takes_null`: an answer of None is null, which the query's type takes; otherwise the agent states an answer of its own.
        """
        super().__init__(signature)
        self.calls_win = calls_win
        self.takes_null = takes_null

    def fields(self, move: Move) -> Fields:
        values: dict[str, Any]
        if isinstance(move, Act):
            calls = [{"tool_name": call.name, "parameters": dict(call.arguments), "reasoning": ""} for call in move.calls]
            values = {"overall_reasoning": move.thought, "continuation_reasoning": "", "should_continue": True}
            values |= {"confidence": ACT_CONFIDENCE, "should_use_tools": bool(calls), "tool_calls": calls or None}
        elif isinstance(move, Answer) and move.confidence is not None:
            values = {"overall_reasoning": "", "continuation_reasoning": move.thought, "should_continue": False}
            values |= {"confidence": move.confidence, "should_use_tools": False, "final_response": move.value}
        else:
            raise Inexpressible("it takes an Act, or an Answer with a confidence, such as Answer('It is known.', 'ok', 0.9)")
        output_type = outputs_of(self.signature)["reasoning_output"]
        return {"reasoning": one_line(move.thought), "reasoning_output": output_type(**values)}

    def move(self, fields: Fields) -> Move:
        output: ReasoningOutput = fields["reasoning_output"]
        if output.should_continue or (self.calls_win and output.calls):
            return Act(output.overall_reasoning, tuple(Call(call.tool_name, call.parameters) for call in output.calls))
        return Answer(output.continuation_reasoning, output.final_response, output.confidence)

    def read(self, reply: Reply) -> Fields:
        fields = super().read(reply)
        calls = fields["reasoning_output"].calls
        if len(calls) > self.max_calls:
            raise WireError(f"reasoning_output: at most {self.max_calls} tool_calls can be made at once, not {len(calls)}")
        for call in calls:
            _check_plain("reasoning_output: parameters", call.parameters)
        return fields


class RecoverCodec(SignatureCodec):
    """reasoning, then one ErrorRecoveryStrategy; a retry names its tool in `alternative_tool` too.

    Cannot say: arguments as for DecideCodec.
    """

    name = "stateless.recover"
    role = Role.RECOVER
    predictor = "recovery"

    def fields(self, move: Move) -> Fields:
        if not isinstance(move, Recovery):
            raise Inexpressible("it takes a Recovery")
        strategy = ErrorRecoveryStrategy(
            strategy_type=move.strategy,
            details=move.reason,
            alternative_tool=None if move.call is None else move.call.name,
            retry_with_params=None if move.call is None else dict(move.call.arguments),
            can_recover=move.strategy != "fail",
        )
        return {"reasoning": one_line(move.reason), "recovery_strategy": strategy}

    def move(self, fields: Fields) -> Move:
        strategy: ErrorRecoveryStrategy = fields["recovery_strategy"]
        call = None if strategy.alternative_tool is None else Call(strategy.alternative_tool, strategy.retry_with_params or {})
        return Recovery(strategy.strategy_type if strategy.can_recover else "fail", call, strategy.details)

    def read(self, reply: Reply) -> Fields:
        fields = super().read(reply)
        _check_plain("recovery_strategy: retry_with_params", fields["recovery_strategy"].retry_with_params)
        return fields


def _check_plain(what: str, value: Any) -> None:
    try:
        json_copy(value)
    except ValueError as error:
        raise WireError(f"{what} must be plain JSON: finite numbers, valid text, not nested too deep") from error


class ValidateCodec(SignatureCodec):
    """is_valid, validation_issues. A verdict has no reason here, and no confidence."""

    name = "stateless.validate"
    role = Role.VALIDATE
    predictor = "validator"
    max_calls = 0

    def fields(self, move: Move) -> Fields:
        if not isinstance(move, Completion):
            raise Inexpressible("it takes a Completion")
        return {"is_valid": move.done, "validation_issues": list(move.missing)}

    def move(self, fields: Fields) -> Move:
        return Completion(fields["is_valid"], "", tuple(fields["validation_issues"]))


class ProseCodec(SignatureCodec):
    """One field that is the text; what else the signature has is left empty, and not read back."""

    max_calls = 0

    def __init__(self, signature: Any, predictor: str) -> None:
        super().__init__(signature)
        self.predictor = predictor
        self.name, self.role, self.text = _PROSE[predictor]

    def fields(self, move: Move) -> Fields:
        if not isinstance(move, Text):
            raise Inexpressible("it takes a Text")
        rest = {name: [] if annotation == list[str] else "" for name, annotation in outputs_of(self.signature).items()}
        return rest | {self.text: move.text}

    def answer_so_far(self, text: str, calls: Mapping[str, str]) -> str:
        return section(text, self.text) if self.role is Role.FORMAT else ""

    def move(self, fields: Fields) -> Move:
        return Text(fields[self.text])


_PROSE = {
    "formatter": ("stateless.format", Role.FORMAT, "formatted_response"),
    "history_summarizer": ("stateless.summarize", Role.SUMMARIZE, "summary"),
    "entry_summarizer": ("stateless.compress", Role.SUMMARIZE, "summary"),
}
"""Predictor → name and role of its codec, and the field that is the text."""


@lru_cache(maxsize=256)
def constrained(signature: Any, tool_names: tuple[str, ...]) -> Any:
    """Return the signature of a decision whose calls can name these tools only (row B0-16); without any, all names."""
    if not tool_names:
        return signature
    name_field = Field(description=ToolCall.model_fields["tool_name"].description)
    tool_literal: Any = Literal[tool_names]
    call: Any = create_model("ToolCall", __base__=ToolCall, __doc__=ToolCall.__doc__, tool_name=(tool_literal, name_field))
    calls_field = Field(None, description=ReasoningOutput.model_fields["tool_calls"].description)
    output: Any = create_model(
        "ReasoningOutput",
        __base__=ReasoningOutput,
        __doc__=ReasoningOutput.__doc__,
        tool_calls=(list[call] | None, calls_field),
    )
    desc = (signature.output_fields["reasoning_output"].json_schema_extra or {}).get("desc", "")
    return signature.delete("reasoning_output").append("reasoning_output", dspy.OutputField(desc=desc), output)


def with_note(signature: Any, note: str) -> Any:
    """Return the signature with one more paragraph in its instructions."""
    return with_instructions(signature, f"{signature.instructions}\n\n{note}")


def prompt_json(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON for a prompt; `str()` for what JSON lacks."""
    text = _ENCODER.encode(value)
    return text if indent is None else _indented(text, indent)


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


@lru_cache(maxsize=256)
def _indented(text: str, indent: int) -> str:
    """Return the same JSON in lines; cached, as the standard library is slow and every run shows the same tools."""
    return json.dumps(json.loads(text), indent=indent, ensure_ascii=False)
