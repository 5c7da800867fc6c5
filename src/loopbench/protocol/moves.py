"""Moves, which are decisions of a model free of any format, and codecs, which turn moves into a loop's wire format and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable

from .chat import Reply
from .tools import ToolCall, ToolSpec


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


# --- what a codec can read, as a grammar ---


@dataclass(frozen=True, slots=True)
class TextLine:
    """A text of one line that is not empty."""

    max_chars: int = 120


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A value as JSON."""

    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AnyCall:
    """A native call of one of the tools that the request offers, or of the one that it forces."""


GrammarPart = str | TextLine | JsonValue | AnyCall
"""A part of a reply; a text stands for itself."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """The replies that a server lets a model give, token by token (constrained decoding)."""

    alternatives: tuple[tuple[GrammarPart, ...], ...]
    """Each reply is one of these: its parts, one after the other."""

    def as_dict(self) -> dict[str, Any]:
        """Return the grammar as JSON: a line is `{"line": characters}`, a value `{"json": schema}`, a call `{"call": true}`."""
        return {"alternatives": [[_part_as_json(part) for part in parts] for parts in self.alternatives]}


def _part_as_json(part: GrammarPart) -> Any:
    match part:
        case TextLine():
            return {"line": part.max_chars}
        case JsonValue():
            return {"json": dict(part.schema)}
        case AnyCall():
            return {"call": True}
    return part


def json_object(properties: Mapping[str, Any]) -> JsonValue:
    """Return a JSON object that has exactly these properties, in this order. `properties`: name → JSON schema."""
    shared = {name: schema for each in properties.values() for name, schema in each.get("$defs", {}).items()}
    schema = {"type": "object", "properties": dict(properties), "required": list(properties), "additionalProperties": False}
    return JsonValue(schema | ({"$defs": shared} if shared else {}))


@runtime_checkable
class GrammarCodec(Codec, Protocol):
    """A codec that says which replies it can read, so that a server can hold a model to them."""

    def grammar(self, tools: Sequence[ToolSpec]) -> Grammar:
        """Return a grammar of replies that `parse` reads; it may leave out some. `tools`: those that a call can name."""
