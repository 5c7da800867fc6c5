"""What passes between a loop and a model, free of any provider's or framework's types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .quick_frozen import quick_frozen

MessageRole = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A tool call in a provider's own form. `arguments` is the raw string: it may be cut short, or not be JSON at all."""

    id: str
    name: str
    arguments: str


@quick_frozen
@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: MessageRole
    content: str = ""
    calls: tuple[NativeCall, ...] = ()
    """Native calls of an assistant message."""
    call_id: str = ""
    """On a tool message: the call that it answers."""

    def as_dict(self) -> dict[str, Any]:
        """OpenAI's chat format."""
        made: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.calls:
            made["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.calls
            ]
        if self.role == "tool":
            made["tool_call_id"] = self.call_id
        return made


@quick_frozen
@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money of one reply, or of many added up."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Part of `input_tokens` that the provider served from its prompt cache."""
    estimated: bool = False
    """No provider counted: this is an offline estimate."""
    cost_usd: float | None = None
    """US dollars billed; None if no price is known."""
    nominal_usd: float | None = None
    """The cost without any cache, the provider's or a recording; None if no price is known."""

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.estimated or other.estimated,
            _added(self.cost_usd, other.cost_usd),
            _added(self.nominal_usd, other.nominal_usd),
        )


def _added(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "other"]


@quick_frozen
@dataclass(frozen=True, slots=True)
class Reply:
    """A model's whole answer to one request."""

    text: str = ""
    calls: tuple[NativeCall, ...] = ()
    usage: Usage | None = None
    finish_reason: FinishReason = "stop"
    failed_attempts: tuple[str, ...] = ()
    """Kinds of provider failures that were overcome by asking again, in order: see `ProviderError.kind`."""


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a native call in a stream."""

    index: int
    """0-based place among the reply's calls."""
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a streamed reply; the last one, and only that, carries the whole reply."""

    text: str = ""
    call: CallDelta | None = None
    reply: Reply | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can be asked for."""

    native_tools: bool = True
    tool_choice: bool = True
    response_schema: bool = False
    streaming: bool = True
    parallel_calls: bool = True
    context_tokens: int | None = None
    """Longest request in tokens; None if unknown or unbounded."""
