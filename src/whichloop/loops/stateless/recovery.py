"""Recovery from failed tools: one planner call per failure.

Rows such as B0-7 are those of docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy

from whichloop.protocol.threads import run_blocking

from .registry import Description
from .signatures import Caller, ErrorRecoverySignature, prompt_json, recover_codec
from .state import ConversationState, ErrorRecoveryStrategy, ToolResult

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
