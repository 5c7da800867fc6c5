"""Moves, which are decisions of a model free of any format, and codecs, which turn moves into a loop's wire format and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable

from .chat import Reply
from .tool_calls import ToolCall


class Role(StrEnum):
    """What a request asks the model to do."""

    DECIDE = "decide"
    UNDERSTAND = "understand"
    PLAN = "plan"
    SELECT = "select"
    REASON = "reason"
    REFLECT = "reflect"
    RECOVER = "recover"
    SUMMARIZE = "summarize"
    VALIDATE = "validate"
    FORMAT = "format"
    ANSWER = "answer"
    CONFIRM = "confirm"


STEP_ROLES = frozenset({Role.DECIDE, Role.SELECT, Role.REASON})
"""Roles of deciding requests: a reply to one of them is a step."""


@dataclass(frozen=True, slots=True)
class Act:
    """Call tools."""

    thought: str
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Stop. `value` None: the run is over, and another request states the answer."""

    thought: str
    value: Any = None
    confidence: float | None = None
    instead_of: tuple[str, ...] = field(default=(), compare=False)
    """Tools that the same reply calls, which are not called."""


@dataclass(frozen=True, slots=True)
class Understanding:
    """What the question is after."""

    intent: str
    entities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanTask:
    """One task of a plan that the model states."""

    id: str
    description: str
    kind: Literal["use_tools", "reason"] = "use_tools"
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tasks:
    """A plan as the model states it."""

    tasks: tuple[PlanTask, ...]
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """Whether the work is complete."""

    done: bool
    reason: str = ""
    missing: tuple[str, ...] = ()
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """What to do about a failed call."""

    strategy: Literal["retry", "alternative_tool", "skip", "fail"]
    call: ToolCall | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """Prose."""

    text: str


Move = Act | Answer | Understanding | Tasks | Completion | Recovery | Text
MOVE_NAMES: dict[type, str] = {
    Act: "act",
    Answer: "answer",
    Understanding: "understanding",
    Tasks: "tasks",
    Completion: "verdict",
    Recovery: "recovery",
    Text: "text",
}
"""What a trace calls each kind of move."""


class WireError(Exception):
    """A codec cannot read a reply; the message says what is wrong in words that a model can act on."""

    reply: Reply
    """The reply; `Predictor.ask` puts it there."""


class Inexpressible(Exception):
    """A wire format cannot state a move; the message says which part."""


@runtime_checkable
class Codec(Protocol):
    """A loop's wire format, both ways.

    Law: for every move, `render` raises Inexpressible or `parse(render(move)) == move`.
    """

    @property
    def name(self) -> str: ...

    @property
    def role(self) -> Role: ...

    @property
    def max_calls(self) -> int:
        """The largest number of calls in one Act."""

    def render(self, move: Move) -> Reply:
        """Raises Inexpressible."""

    def parse(self, reply: Reply) -> Move:
        """Raises WireError."""
