"""The last word: how a response is put to the user.

Rows such as B0-15 are those of docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy

from whichloop.protocol.threads import run_blocking

from .history import render_history, shown_value
from .signatures import Caller, FormatDetailedResponse, FormatResponse, format_codec, prompt_json
from .state import ConversationEntry, ConversationState


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
