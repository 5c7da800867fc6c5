"""What belongs to one run of the loop, and how it ended."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loopbench.protocol import SILENT, Message, Model, Observer, Prompt, Reply, StopReason, ToolCall

from .history import History, assistant_entry, entry, insert_results, legal_messages
from .output import Output
from .step import ToolResult
from .tools import CurrentTools

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What a run leaves that ended without an answer: the last step's calls and what came of them."""

    tool_calls: tuple[ToolCall, ...]
    tool_results: tuple[ToolResult, ...]


@dataclass(frozen=True, slots=True)
class Ending:
    """How the core ended."""

    stop: StopReason
    value: Any = None
    unfinished: Unfinished | None = None


@dataclass(slots=True)
class Run:
    """All that belongs to one run, and to no other."""

    output: Output
    tools: CurrentTools
    model: Model
    history: History
    prompt: Prompt
    """Whose requests these are."""
    examples: tuple[Message, ...] = ()
    """Demonstrations, which stand in every request and never in the history."""
    observer: Observer = SILENT
    scope: str = ""
    has_hooks: bool = True
    """Whether anyone but the loop can change the history."""
    model_given: Any = None
    """As it was named, where it was."""
    temperature: float | None = None
    max_tokens: int | None = None
    counter: int = 0
    """Steps so far."""
    failures: int = 0
    """Replies in a row without valid `__finish__` or executed tool."""
    last: Unfinished = field(default_factory=lambda: Unfinished((), ()))
    asked: Mapping[str, Any] | None = None
    """The history's message whose calls have no results yet."""
    is_mended: bool = False
    shown: tuple[Message, ...] = ()
    """What the last request showed, and how much of the history that was."""
    read: int = 0

    def say(self, reply: Reply) -> None:
        """Put a reply into the history; one that says nothing is left out, as providers refuse it."""
        if reply.text or reply.calls:
            said = assistant_entry(reply)
            self.asked = said if reply.calls else None
            self.history.append(said)

    def tell(self, text: str) -> None:
        self.history.append(entry("user", text))

    def answer_calls(self, results: Sequence[ToolResult]) -> None:
        """Put results next to their calls, before whatever a hook has appended (row B3-2)."""
        texts = [(result.id, result.text) for result in results]
        if self.asked is not None and texts and not insert_results(self.history, self.asked, texts):
            self.mended(len(texts))
        self.asked = None

    def messages(self) -> tuple[Message, ...]:
        """What the next request shows; without hooks only what is new has to be read."""
        known = 0 if self.has_hooks else self.read
        made, count = legal_messages(self.history[known:])
        if count:
            self.mended(count)
        self.shown = (*self.shown, *made) if known else made
        self.read = len(self.history)
        return self.shown

    def mended(self, count: int) -> None:
        """Say once that the history had calls and results without each other (row B3-15)."""
        if not self.is_mended:
            logger.warning("history: %d results without call, or calls without result, were mended", count)
            self.observer.note("history_mended", count=count)
        self.is_mended = True
