"""The options of agent and manager, and the checks of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from whichloop.loops.shared.option_checks import ToolSettings

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
