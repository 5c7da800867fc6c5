"""The texts of results and history, and the manager that keeps a history short.

Rows such as B0-28 are those of docs/conformance.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import dspy

from whichloop.protocol import Model, Observation, WireError, render_value
from whichloop.protocol.receipts import cut_plain
from whichloop.protocol.redact import logger_of
from whichloop.protocol.threads import run_blocking
from whichloop.protocol.values import cap

from .signatures import Caller, SummarizeEntries, summary_codec
from .state import ConversationEntry, ConversationState, ToolResult, check_least, is_plain_json

logger = logger_of(__name__)

NO_HISTORY = "No previous interactions."
NO_RESULTS = "No previous tool results"
NO_ANSWER = "No answer was produced."
SUMMARIZED = "<summarized>"
SUMMARY_CHARS = 200
"""Characters of one result in an entry's summary (row B0-28)."""


# --- rendering ---


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
    shortened = cap(text, most)
    return value if shortened is text else shortened  # what a hook has shortened is shown as it is


def render_results(results: Iterable[ToolResult]) -> str:
    """Return what a model reads of the results, one per line."""
    return "\n".join(render_result(result) for result in results)


def summarize_results(results: Iterable[ToolResult]) -> str:
    """Return the results in one line, each cut short (row B0-28)."""
    lines = [render_result(result) for result in results]
    return "; ".join(cut_plain(line, SUMMARY_CHARS) for line in lines)


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


# --- results ---


def stored_value(seen: Observation) -> Any:
    """Return what a state keeps of a result: all of the value if JSON gives it back unchanged, else the whole of its text."""
    value = seen.value
    if value is None or isinstance(value, bool | int | float):
        return value if is_plain_json(value) else seen.whole
    if type(value) in (list, dict) and is_plain_json(value):
        encoded = json.dumps(value, ensure_ascii=False)
        return json.loads(encoded) if encoded == seen.whole else seen.whole  # a copy: the tool may change what it gave
    return seen.whole


# --- keeping it short ---


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
        that DSPy is configured with. Raises ValueError for `max_history_length` < 1.
        """
        check_least("max_history_length", max_history_length, 1)
        self.max_history_length = max_history_length
        self.history = [] if history is None else history
        self.user_query = user_query
        self.summarizer = dspy.ChainOfThought(SummarizeEntries) if summarizer is None else summarizer
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
        try:
            fields = await Caller(self.model).ask(
                predictor,
                summary_codec("stateless.compress", predictor.signature),
                user_query=self.user_query,
                conversation_entries=self._format_entries_for_summary(folded),
            )
        except WireError as error:
            logger.info("history is kept whole, its summary cannot be read: %s", error)
            return
        self.history[:half] = [
            ConversationEntry(
                iteration=-1,
                timestamp=folded[0].timestamp,
                reasoning=f"SUMMARY: {fields['summary']}",
                tool_calls=[SUMMARIZED],
                tool_parameters={},
                results=[{"summary": fields["key_findings"], "unresolved_questions": fields["unresolved_questions"]}],
                results_summary=fields["summary"],
                errors=[error for item in folded for error in item.errors],
            )
        ]

    def _format_entries_for_summary(self, entries: Sequence[ConversationEntry]) -> str:
        return render_history(entries)
