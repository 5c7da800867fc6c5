"""The data that pass between agent and manager: plain, so that a run can be carried on from a state dumped as JSON.

Rows such as S0-16 are those of docs/conformance.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field, PrivateAttr

from whichloop.loops.shared.option_checks import ToolSettings

ToolResult = dict[str, Any]
"""One result of a tool, by status (row S0-16).

success: tool_name, status, result, execution_time (seconds), parameters · error: tool_name, status, error, error_type, parameters ·
skipped: tool_name, status, reason. `seen: True` marks an error that has been decided upon. `max_chars` stands in a success whose
text is longer than a model is to read: hooks and state have all of `result`, the prompt has that many characters.
"""

MAX_LEVELS = 60
"""Lists and objects within one another that a value may have; beyond a few hundred, no JSON library reads it back."""

MAX_BITS = 10_000
"""Size of a whole number: Python writes none of more than 4300 digits."""


class ToolCall(BaseModel):
    """Represents a single tool call with parameters."""

    tool_name: str = Field(description="Name of the tool to execute")
    parameters: dict[str, Any] = Field(description="Parameters to pass to the tool")
    reasoning: str = Field(description="Why this tool is needed for the task")


class ReasoningOutput(BaseModel):
    """Combined output for reasoning about next steps."""

    overall_reasoning: str = Field(description="High-level reasoning about the current state and next steps")
    confidence: float = Field(ge=0, le=1, description="Confidence in the decision (0-1)")
    should_use_tools: bool = Field(description="Whether tools should be called in this iteration")
    tool_calls: list[ToolCall] | None = Field(None, description="List of tools to execute if should_use_tools is True")
    parallel_safe: bool = Field(True, description="Whether suggested tools can be executed in parallel")
    should_continue: bool = Field(description="Whether to continue after this iteration")
    continuation_reasoning: str = Field(description="Specific reasoning about whether to continue or stop")
    final_response: str | None = Field(None, description="Final response to user if not continuing")
    suggested_next_action: str | None = Field(None, description="Hint about what might be needed next if continuing")

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that are to be made."""
        return (self.tool_calls or []) if self.should_use_tools else []


class ErrorRecoveryStrategy(BaseModel):
    """Strategy for recovering from tool errors."""

    strategy_type: Literal["retry", "alternative_tool", "skip", "fail"]
    details: str
    alternative_tool: str | None = None
    retry_with_params: dict[str, Any] | None = None
    can_recover: bool = True


class HistorySummary(BaseModel):
    """What stands for the history up to an iteration."""

    summary: str
    key_points: list[str]
    last_iteration: int
    """The last iteration that it covers."""

    @property
    def text(self) -> str:
        return f"[Summarized earlier history]: {self.summary}\nKey points: {', '.join(self.key_points)}"


class ActionType(StrEnum):
    """Type of action suggested by the agent."""

    TOOL_EXECUTION = "tool_execution"
    FINAL_RESPONSE = "final_response"
    ERROR_RECOVERY = "error_recovery"


ErrorKind = Literal["provider_error", "context_overflow", "parse_failed", "internal"]


class ActionDecision(BaseModel):
    """Decision returned by the agent for external execution."""

    action_type: ActionType
    reasoning: str
    confidence: float = Field(ge=0, le=1)
    tool_suggestions: list[ToolCall] | None = None
    """With a final response: calls that the same decision asked for and that are not made (row B0-14)."""
    parallel_safe: bool = True
    final_response: str | None = None
    should_continue: bool = True
    """False with tools: run them, then end with `final_response` (row B0-14)."""
    suggested_next_action: str | None = None
    processing_time: float = 0
    """Seconds."""
    tokens_used: int | None = None
    """Tokens of all model calls of this decision; None if unknown."""
    error_kind: ErrorKind | None = None
    """Why no decision could be made (row S0-28)."""
    is_recovery: bool = False
    """True: it answers failed calls, not the question, and the results that it does not replace stay (row B0-22)."""
    kept_results: list[int] | None = None
    """Places in the state's last results that stand beside those of a recovery."""
    history_summary: HistorySummary | None = None
    """A summary made for this decision, to be kept in the state (row B0-19)."""

    answer: str | None = None
    """The answer that the final response states, without points and confidence under it; None: there is no such part."""
    error: str | None = None
    """What the exception behind `error_kind` says."""

    _cause: Exception | None = PrivateAttr(default=None)

    def __eq__(self, other: object) -> bool:
        """Compare what the JSON says: a decision read back from it has another exception object."""
        return isinstance(other, ActionDecision) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]  # as of any model that can be changed

    @property
    def cause(self) -> Exception | None:
        """The exception behind `error_kind`; of a decision that was read back from JSON, a RuntimeError that says the same."""
        if self._cause is None and self.error is not None:
            return RuntimeError(self.error)
        return self._cause

    def caused_by(self, error: Exception) -> ActionDecision:
        """Return this decision with the exception behind it."""
        self._cause, self.error = error, str(error)
        return self


class ConversationEntry(BaseModel):
    """Single entry in conversation history."""

    iteration: int
    """-1 for a summary of earlier entries."""
    timestamp: float
    """Seconds since the epoch."""
    reasoning: str
    tool_calls: list[str]
    """Names, in call order."""
    tool_parameters: dict[str, dict[str, Any]]
    """Keyed by name; the second call of a tool is `name#2` (row B0-27)."""
    results: list[ToolResult]
    results_summary: str
    errors: list[str] = Field(default_factory=list)


class ConversationState(BaseModel):
    """Complete conversation state passed between ActivityManager and agent."""

    user_query: str
    iteration_count: int = 0
    conversation_history: list[ConversationEntry] = Field(default_factory=list)
    last_tool_results: list[ToolResult] | None = None
    total_tool_calls: int = 0
    errors_encountered: list[str] = Field(default_factory=list)
    activity_id: str | None = None
    max_iterations: int | None = None
    start_time: float | None = None
    """Seconds since the epoch."""
    last_confidence: float | None = None
    recovery_rounds: int = 0
    """Recovery decisions in a row without a success between them."""
    empty_decisions: int = 0
    """Decisions in a row that neither call a tool nor end the run."""
    history_summary: HistorySummary | None = None
    tools_used: list[str] = Field(default_factory=list)
    """Distinct names in order of first use: the history forgets them when it is compressed."""


def is_plain_json(value: Any, levels: int = MAX_LEVELS) -> bool:
    """Return whether a value comes back unchanged from JSON, in any process and library."""
    if value is None:
        return True
    if isinstance(value, int):
        return value.bit_length() <= MAX_BITS
    if type(value) is str:
        return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
    if type(value) is float:
        return math.isfinite(value)
    if levels == 0 or type(value) not in (list, dict):
        return False
    if type(value) is list:
        return all(is_plain_json(item, levels - 1) for item in value)
    return all(type(key) is str and is_plain_json(key) and is_plain_json(item, levels - 1) for key, item in value.items())


FinishWithTools = Literal["stop", "run_first", "ask_again"]
HistoryAs = Literal["prose", "messages"]
ExecutionMode = Literal["sequential", "parallel", "selective"]


@dataclass(frozen=True, slots=True)
class ManagerOptions(ToolSettings):
    """The options of `Stateless` that are the manager's; `Stateless` says what they mean. Raises ValueError as it does."""

    max_iterations: int = 10
    execution_mode: ExecutionMode = "sequential"
    max_history_length: int | None = 10
    max_empty_decisions: int | None = 3

    def __post_init__(self) -> None:
        ToolSettings.__post_init__(self)
        check_choice("execution_mode", self.execution_mode, get_args(ExecutionMode))
        check_least("max_iterations", self.max_iterations, 1)
        check_least("max_history_length", self.max_history_length, 1)
        check_least("max_empty_decisions", self.max_empty_decisions, 1)


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The options of `Stateless` that are the agent's; `Stateless` says what they mean. Raises ValueError as it does."""

    enable_error_recovery: bool = True
    response_style: str | None = "concise"
    include_confidence: bool | None = None
    finish_with_tools: FinishWithTools = "stop"
    constrain_names: bool = False
    validate_output: bool = False
    told_max_iterations: int | None = None
    max_recovery_rounds: int = 2
    history_as: HistoryAs = "prose"

    def __post_init__(self) -> None:
        check_choice("finish_with_tools", self.finish_with_tools, get_args(FinishWithTools))
        check_choice("history_as", self.history_as, get_args(HistoryAs))
        check_least("told_max_iterations", self.told_max_iterations, 1)
        check_least("max_recovery_rounds", self.max_recovery_rounds, 0)

    @property
    def shows_confidence(self) -> bool:
        """Whether the confidence is put under an answer; by default in the detailed style only."""
        return self.response_style == "detailed" if self.include_confidence is None else self.include_confidence


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise ValueError for a value that is not one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}")


def check_least(name: str, value: float | None, least: int) -> None:
    """Raise ValueError for a number below `least`. None means no limit, and passes."""
    if value is not None and value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
