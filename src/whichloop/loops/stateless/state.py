"""The data that pass between agent and manager, plain so that a run can be carried on from a state dumped as JSON; their texts in
prompts; and the options of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, Field
from pydantic_core import from_json, to_json

from whichloop.loops.shared.option_checks import ToolSettings, at_least, checked_options
from whichloop.protocol import Observation, render_value
from whichloop.protocol.receipts import cut_plain
from whichloop.protocol.values import cap

NO_HISTORY = "No previous interactions."
NO_RESULTS = "No previous tool results"
NO_ANSWER = "No answer was produced."
SUMMARY_CHARS = 200
"""Characters of one result in an entry's summary (row B0-28)."""

ToolResult = dict[str, Any]
"""One result of a tool, by status (row S0-16).

success: tool_name, status, result, execution_time (seconds), parameters · error: tool_name, status, error, error_type, parameters ·
skipped: tool_name, status, reason. `seen: True` marks an error that has been decided upon. `max_chars` stands in a success whose
text is longer than a model is to read: hooks and state have all of `result`, the prompt has that many characters.
"""


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


def json_copy(value: Any) -> Any:
    """Return what a state's JSON gives back of a value in it. Raises ValueError where that is another value (row S0-68)."""
    try:
        [[[[[copied]]]]] = from_json(to_json([[[[[value]]]]], inf_nan_mode="null"))  # as deep as it stands in a state
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if copied != value:
        raise ValueError("JSON gives back another value")
    return copied


def stored_value(seen: Observation) -> Any:
    """Return what a state keeps of a result: all of the value if JSON gives it back unchanged, else the whole of its text."""
    if isinstance(seen.value, str):
        return seen.whole
    try:
        value = json_copy(seen.value)
    except ValueError:
        return seen.whole
    return value if render_value(value) == seen.whole else seen.whole


# --- texts ---


def render_result(result: ToolResult) -> str:
    """Return `name: result`, `name: ERROR - error` or `name: SKIPPED - reason` (rows S0-41, B0-4)."""
    name, status = result.get("tool_name", "?"), result.get("status")
    if status == "success":
        return f"{name}: {render_value(shown_value(result))}"
    if status == "skipped":
        return f"{name}: SKIPPED - {result.get('reason', '')}"
    return f"{name}: ERROR - {result.get('error', '')}"


def shown_value(result: ToolResult) -> Any:
    """Return what a model reads of a success: the result, or as much of its text as `max_chars` allows."""
    value, most = result.get("result"), result.get("max_chars")
    if most is None:
        return value
    text = render_value(value)
    return value if len(text) <= most else cap(text, most)  # what a hook has shortened is shown as it is


def render_results(results: Iterable[ToolResult]) -> str:
    """Return what a model reads of the results, one per line."""
    return "\n".join(render_result(result) for result in results)


def summarize_results(results: Iterable[ToolResult]) -> str:
    """Return the results in one line, each cut short (row B0-28)."""
    return "; ".join(cut_plain(render_result(result), SUMMARY_CHARS) for result in results)


def render_entry(entry: ConversationEntry) -> str:
    """Return the text of one iteration, or of a summary of many."""
    if entry.iteration == -1:
        lines = [f"[Previous Summary]: {entry.reasoning}"]
    else:
        lines = [
            f"Iteration {entry.iteration}:",
            f"  Reasoning: {entry.reasoning}",
            f"  Tools used: {', '.join(entry.tool_calls) or 'none'}",
            f"  Results: {entry.results_summary}",
        ]
    if entry.errors:
        lines.append(f"  Errors: {', '.join(entry.errors)}")
    return "\n".join(lines)


def render_history(entries: Sequence[ConversationEntry]) -> str:
    """Return all entries in their one form for prompts: `Iteration n:`, reasoning, tools and results (rows S0-40, B0-31)."""
    return "\n".join(render_entry(entry) for entry in entries) or NO_HISTORY


def final_response(state: ConversationState) -> str:
    """Return the text of a run whose decision has none: its last results (row B0-29)."""
    return render_results(state.last_tool_results or ()) or NO_ANSWER


# --- options: those of `Stateless` are these ---


@checked_options
@dataclass(frozen=True, slots=True)
class ManagerOptions(ToolSettings):
    """The options of `ActivityManager`. Raises ValueError for one out of its range."""

    max_iterations: int = at_least(1, 10)
    """Most decisions, including the one that ends the run."""
    execution_mode: Literal["sequential", "parallel", "selective"] = "sequential"
    """sequential; parallel where the model says it is safe; selective: by priority, a search's success skips other searches."""
    max_history_length: int | None = at_least(1, 10)
    """Entries beyond which the older half of the history is summarised; None: never."""
    max_empty_decisions: int | None = at_least(1, 3)
    """Decisions in a row that neither call nor stop, after which the run ends; None: any number."""


@checked_options
@dataclass(frozen=True)
class AgentOptions:
    """The options of `ManualAgentLoop`. Raises ValueError for one out of its range."""

    enable_error_recovery: bool = True
    """A failed call goes to a planner instead of to the next decision."""
    response_style: str | None = "concise"
    """Style in which a separate call puts the answer; None: the answer as decided, without that call."""
    include_confidence: bool | None = None
    """The confidence is put under the answer; None: in the detailed style only."""
    finish_with_tools: Literal["stop", "run_first", "ask_again"] = "stop"
    """A decision that stops and calls tools: drop the calls (stop), run them and stop (run_first), or decide again (ask_again)."""
    constrain_names: bool = False
    """The reply's format admits the known tools' names only; otherwise an unknown one is an error result."""
    validate_output: bool = False
    """A separate call judges each decision; its verdict is noted and changes nothing."""
    told_max_iterations: int | None = at_least(1, None)
    """The limit that the model is told; None: the one that holds."""
    max_recovery_rounds: int = at_least(0, 2)
    """Recoveries in a row without a success, after which errors go to the next decision."""
    history_as: Literal["prose", "messages"] = "prose"
    """Earlier iterations as one text (prose), results cut short, or as messages, results whole."""
