"""The requests to the model: one signature per predictor, and the codec that reads its replies as moves.

Rows such as B0-16 are those of docs/conformance.md.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import dspy
from pydantic import Field, ValidationError, create_model

from whichloop.dspy_seam import Fields, SignatureCodec, ThroughPredictor, ask_fields, with_instructions
from whichloop.protocol import (
    Act,
    Answer,
    Completion,
    Inexpressible,
    Model,
    Move,
    Recovery,
    Reply,
    Role,
    Text,
    Usage,
    WireError,
)
from whichloop.protocol import ToolCall as Call
from whichloop.protocol.json_text import Encoder
from whichloop.protocol.values import one_line
from whichloop.protocol.wire import section

from .state import ErrorRecoveryStrategy, ReasoningOutput, ToolCall, is_plain_json

ACT_CONFIDENCE = 0.8
"""Confidence rendered with calls: the format demands one, and an Act has none."""
MAX_CALLS = 100
"""Calls that one decision may hold."""


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


class FormatDetailedResponse(dspy.Signature):
    """Give the user the raw response to their query in the style that is asked for. Add nothing that it does not say."""

    raw_response: str = dspy.InputField()
    user_query: str = dspy.InputField()
    key_results: str = dspy.InputField(desc="Results of tools, as JSON")
    tool_history: str = dspy.InputField(desc="Which tools were called, and what came of it")
    formatted_response: str = dspy.OutputField()
    summary_points: str = dspy.OutputField(desc="The main points, one per line")


# --- codecs ---


class CheckedCodec(SignatureCodec):
    """A codec that refuses some of what its signature's types admit."""

    @abstractmethod
    def check(self, fields: Fields) -> None:
        """Raise WireError for fields to refuse. DSPy's own call reads a reply without the codec; then this is called afterwards."""

    def read(self, reply: Reply) -> Fields:
        fields = super().read(reply)
        self.check(fields)
        return fields


class DecideCodec(CheckedCodec):
    """reasoning, then one ReasoningOutput. An empty Act goes on without a tool.

    Cannot say: an answer that is not text or has no confidence, arguments that JSON does not give back as they were or that nest
    beyond 60 levels, a thought that is a field marker.
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
        self.output_type: type[ReasoningOutput] = signature.output_fields["reasoning_output"].annotation

    def fields(self, move: Move) -> Fields:
        if isinstance(move, Act) and len(move.calls) <= self.max_calls and _all_plain(move.calls):
            calls = [{"tool_name": call.name, "parameters": dict(call.arguments), "reasoning": ""} for call in move.calls]
            values = {
                "overall_reasoning": move.thought,
                "confidence": ACT_CONFIDENCE,
                "should_use_tools": bool(calls),
                "tool_calls": calls or None,
                "should_continue": True,
                "continuation_reasoning": "",
            }
        elif isinstance(move, Answer) and (move.value is None or isinstance(move.value, str)):
            values = {
                "overall_reasoning": "",
                "confidence": _stated_confidence(move.confidence),
                "should_use_tools": False,
                "should_continue": False,
                "continuation_reasoning": move.thought,
                "final_response": move.value,
            }
        else:
            raise Inexpressible(f"it takes an Act with up to {self.max_calls} calls, or an Answer in words with a confidence")
        try:
            output = self.output_type(**values)
        except ValidationError as error:
            raise Inexpressible(_first_problem(error)) from None
        return {"reasoning": one_line(move.thought), "reasoning_output": output}

    def move(self, fields: Fields) -> Move:
        output: ReasoningOutput = fields["reasoning_output"]
        if output.should_continue or (self.calls_win and output.calls):
            return Act(output.overall_reasoning, tuple(Call(call.tool_name, call.parameters) for call in output.calls))
        return Answer(output.continuation_reasoning, output.final_response, output.confidence)

    def check(self, fields: Fields) -> None:
        calls = fields["reasoning_output"].calls
        if len(calls) > self.max_calls:
            raise WireError(f"reasoning_output: at most {self.max_calls} tool_calls can be made at once, not {len(calls)}")
        if not all(is_plain_json(call.parameters) for call in calls):
            raise WireError("reasoning_output: parameters must be plain JSON: finite numbers, valid text, no more than 60 levels")


def _all_plain(calls: tuple[Call, ...]) -> bool:
    return all(isinstance(call.arguments, Mapping) and is_plain_json(dict(call.arguments)) for call in calls)


def _stated_confidence(confidence: Any) -> float:
    if not isinstance(confidence, int | float):
        raise Inexpressible("it takes an Act, or an Answer with a confidence, such as Answer('It is known.', 'ok', 0.9)")
    return confidence


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"


class RecoverCodec(CheckedCodec):
    """reasoning, then one ErrorRecoveryStrategy; a retry names its tool in `alternative_tool` too.

    Cannot say: arguments as for DecideCodec.
    """

    name = "stateless.recover"
    role = Role.RECOVER
    predictor = "recovery"
    max_calls = 1

    def fields(self, move: Move) -> Fields:
        if not isinstance(move, Recovery) or (move.call is not None and not _all_plain((move.call,))):
            raise Inexpressible("it takes a Recovery, whose call has plain arguments")
        try:
            strategy = ErrorRecoveryStrategy(
                strategy_type=move.strategy,
                details=move.reason,
                alternative_tool=None if move.call is None else move.call.name,
                retry_with_params=None if move.call is None else dict(move.call.arguments),
                can_recover=move.strategy != "fail",
            )
        except ValidationError as error:
            raise Inexpressible(_first_problem(error)) from None
        return {"reasoning": one_line(move.reason), "recovery_strategy": strategy}

    def move(self, fields: Fields) -> Move:
        strategy: ErrorRecoveryStrategy = fields["recovery_strategy"]
        call = None if strategy.alternative_tool is None else Call(strategy.alternative_tool, strategy.retry_with_params or {})
        return Recovery(strategy.strategy_type if strategy.can_recover else "fail", call, strategy.details)

    def check(self, fields: Fields) -> None:
        if not is_plain_json(fields["recovery_strategy"].retry_with_params):
            raise WireError("recovery_strategy: retry_with_params must be plain JSON, of no more than 60 levels")


class ValidateCodec(SignatureCodec):
    """is_valid, validation_issues. A verdict has no reason here, and no confidence."""

    name = "stateless.validate"
    role = Role.VALIDATE
    predictor = "validator"
    max_calls = 0

    def fields(self, move: Move) -> Fields:
        if not isinstance(move, Completion) or move.reason or move.confidence is not None:
            raise Inexpressible("it takes a Completion without a reason and a confidence")
        return {"is_valid": bool(move.done), "validation_issues": list(move.missing)}

    def move(self, fields: Fields) -> Move:
        return Completion(fields["is_valid"], "", tuple(fields["validation_issues"]))


class ProseCodec(SignatureCodec):
    """One field that is the text; what else the signature has is left empty, and not read back."""

    max_calls = 0

    def __init__(self, name: str, role: Role, signature: Any, text: str) -> None:
        """`text`: the field."""
        super().__init__(signature)
        self.name = name
        self.predictor = _WRITERS[name]
        self.role = role
        self.text = text

    def fields(self, move: Move) -> Fields:
        if not isinstance(move, Text):
            raise Inexpressible("it takes a Text")
        rest = {name: [] if info.annotation == list[str] else "" for name, info in self.signature.output_fields.items()}
        return rest | {self.text: move.text}

    def answer_so_far(self, text: str, calls: Mapping[str, str]) -> str:
        return section(text, self.text) if self.role is Role.FORMAT else ""

    def move(self, fields: Fields) -> Move:
        return Text(fields[self.text])


_WRITERS = {
    "stateless.format": "formatter",
    "stateless.summarize": "history_summarizer",
    "stateless.compress": "entry_summarizer",
}
"""Name of a codec for prose → its predictor."""


@lru_cache(maxsize=256)
def decide_codec(
    signature: Any, tool_names: tuple[str, ...] = (), *, calls_win: bool = False, takes_null: bool = False
) -> DecideCodec:
    """Return the codec of a decision. `tool_names`: the only names that a call may have (row B0-16); if empty, any."""
    if tool_names:
        output_field = signature.output_fields["reasoning_output"]
        desc = (output_field.json_schema_extra or {}).get("desc", "")
        constrained = dspy.OutputField(desc=desc)
        signature = signature.delete("reasoning_output").append("reasoning_output", constrained, _constrained(tool_names))
    return DecideCodec(signature, calls_win=calls_win, takes_null=takes_null)


def _constrained(tool_names: tuple[str, ...]) -> type[ReasoningOutput]:
    """Return a ReasoningOutput whose calls can name these tools only."""
    name_field = Field(description=ToolCall.model_fields["tool_name"].description)
    tool_literal: Any = Literal[tool_names]
    call: Any = create_model("ToolCall", __base__=ToolCall, __doc__=ToolCall.__doc__, tool_name=(tool_literal, name_field))
    calls_field = Field(None, description=ReasoningOutput.model_fields["tool_calls"].description)
    constrained: type[ReasoningOutput] = create_model(
        "ReasoningOutput",
        __base__=ReasoningOutput,
        __doc__=ReasoningOutput.__doc__,
        tool_calls=(list[call] | None, calls_field),
    )
    return constrained


@lru_cache(maxsize=256)
def recover_codec(signature: Any, strategies: tuple[str, ...]) -> RecoverCodec:
    """Return the codec of recovery. `strategies`: what may be proposed, which the instructions say."""
    instructions = f"{signature.instructions}\n\nAllowed strategies: {', '.join(strategies)}."
    return RecoverCodec(with_instructions(signature, instructions))


@lru_cache(maxsize=256)
def format_codec(signature: Any, style: str) -> ProseCodec:
    instructions = f"{signature.instructions}\n\nStyle: {style}."
    return ProseCodec("stateless.format", Role.FORMAT, with_instructions(signature, instructions), "formatted_response")


@lru_cache(maxsize=256)
def summary_codec(name: str, signature: Any) -> ProseCodec:
    return ProseCodec(name, Role.SUMMARIZE, signature, "summary")


@lru_cache(maxsize=256)
def validate_codec(signature: Any) -> ValidateCodec:
    return ValidateCodec(signature)


# --- asking ---


class Caller:
    """Makes the model calls of one decision, and counts their tokens."""

    def __init__(self, model: Model | None = None) -> None:
        """`model`: None is the model that DSPy is configured with."""
        self.model: Model = ThroughPredictor() if model is None else model
        self.tokens: int | None = 0
        """Input and output tokens; None once those of one call are unknown."""

    async def ask(self, predictor: Any, codec: SignatureCodec, **fields: str | int) -> Fields:
        """Return the output fields of one call. Raises WireError for an unreadable reply, ModelError without a reply."""
        inputs: Mapping[str, Any] = fields
        by_dspy = isinstance(self.model, ThroughPredictor)
        if not by_dspy:
            inputs = {name: str(value) for name, value in fields.items()}  # shown alike, and faster
        try:
            reply = await ask_fields(predictor, inputs, codec=codec, model=self.model)
        except WireError:
            self.count(None)  # there was a reply, but its tokens are unknown
            raise
        self.count(reply.usage)
        if by_dspy and isinstance(codec, CheckedCodec):
            codec.check(reply.fields)
        return reply.fields

    def count(self, usage: Usage | None) -> None:
        self.tokens = None if usage is None or self.tokens is None else self.tokens + usage.total_tokens


def prompt_json(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON for a prompt; `str()` for what JSON lacks."""
    text = _ENCODER.encode(value)
    return text if indent is None else _indented(text, indent)


_ENCODER = Encoder(ensure_ascii=False, default=str)


@lru_cache(maxsize=256)
def _indented(text: str, indent: int) -> str:
    """Return the same JSON in lines; cached, as the standard library is slow and every run shows the same tools."""
    return json.dumps(json.loads(text), indent=indent, ensure_ascii=False)
