"""The state of one run of the loop, its results and its ending.

Rows such as B3-2 are those of docs/conformance.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whichloop.protocol import SILENT, Message, Model, Observation, Observer, Prompt, Reply, StopReason, ToolCall, render_value
from whichloop.protocol.redact import logger_of

from .history import History, assistant_entry, entry, insert_results, legal_messages
from .output import Output
from .tools import CurrentTools

logger = logger_of(__name__)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The last step of a run that ended without an answer: its calls and their results."""

    tool_calls: tuple[ToolCall, ...]
    tool_results: tuple[ToolResult, ...]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

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
    """The prompt of the predictor that makes the requests."""
    examples: tuple[Message, ...] = ()
    """Demonstrations, which are part of every request and never of the history."""
    observer: Observer = SILENT
    scope: str = ""
    has_hooks: bool = True
    """Whether anyone but the loop can change the history."""
    model_given: Any = None
    """The model as it was given: a name, a dict or a Model."""
    temperature: float | None = None
    max_tokens: int | None = None
    counter: int = 0
    """Steps so far."""
    failures: int = 0
    """Replies in a row without valid `__finish__` or executed tool."""
    last: Unfinished = field(default_factory=lambda: Unfinished((), ()))
    unanswered: Mapping[str, Any] | None = None
    """The history's message whose calls have no results yet."""
    is_mended: bool = False
    shown: tuple[Message, ...] = ()
    """The messages of the last request."""
    entries_read: int = 0
    """How many entries of the history those messages cover."""

    def say(self, reply: Reply) -> None:
        """Put a reply into the history; one that says nothing is left out, as providers refuse it."""
        if reply.text or reply.calls:
            message = assistant_entry(reply)
            self.unanswered = message if reply.calls else None
            self.history.append(message)

    def tell(self, text: str) -> None:
        self.history.append(entry("user", text))

    def answer_calls(self, results: Sequence[ToolResult]) -> None:
        """Put results next to their calls, before whatever a hook has appended (row B3-2)."""
        texts = [(result.id, result.text) for result in results]
        if self.unanswered is not None and texts and not insert_results(self.history, self.unanswered, texts):
            self.mended(len(texts))
        self.unanswered = None

    def messages(self) -> tuple[Message, ...]:
        """Return the messages of the next request; without hooks only what is new has to be read."""
        already_read = 0 if self.has_hooks else self.entries_read
        messages, count = legal_messages(self.history[already_read:])
        if count:
            self.mended(count)
        self.shown = (*self.shown, *messages) if already_read else messages
        self.entries_read = len(self.history)
        return self.shown

    def mended(self, count: int) -> None:
        """Say once that the history had results without calls, now left out, or calls without results (row B3-15)."""
        if not self.is_mended:
            logger.warning("history: %d results without call, or calls without result, were mended", count)
            self.observer.note("history_mended", count=count)
        self.is_mended = True


@dataclass(slots=True)
class ToolResult:
    """The result of one call."""

    name: str
    output: Any
    """The tool's own object, or an error's text; the model sees what is here after `on_step`."""
    id: str = ""
    """Id of the call that it answers."""
    error: str | None = None
    """Name of the exception's class; None if the tool gave a result."""
    observed: Observation | None = field(default=None, repr=False)
    is_edited: bool = field(default=False, repr=False)
    """Whether a hook has changed the output in place, which its identity does not show."""

    @property
    def was_executed(self) -> bool:
        """Whether the tool ran, whatever came of it."""
        return self.observed is not None and self.observed.ran

    @property
    def text(self) -> str:
        """The text that the model sees: text unchanged, what JSON can say as JSON, else `str()` (row S3-40)."""
        seen = self.observed
        is_as_given = seen is not None and seen.ok and seen.value is self.output and not self.is_edited
        if seen is not None and is_as_given and self.output is not None:
            return seen.data
        return "null" if self.output is None else render_value(self.output)
