"""The state of one run of the loop, its results and its ending.

Rows such as B3-2 are those of docs/conformance.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whichloop.protocol import (
    SILENT,
    Message,
    Model,
    NativeCall,
    Observation,
    Observer,
    Predictor,
    Reply,
    StopReason,
    ToolCall,
    render_value,
)
from whichloop.protocol.chat import MessageRole
from whichloop.protocol.redact import logger_of

from .output import CurrentTools, Output

History = list[Any]
"""Messages as dicts in OpenAI's chat format."""
REMOVED = "(removed)"
"""The text in the place of a result that was taken out of the history while its call stayed."""


class _Said(dict[str, Any]):
    """A reply in the history, with what its provider wants back."""

    native: Any = None


def assistant_entry(reply: Reply) -> dict[str, Any]:
    """Return a reply in the form that the history holds."""
    said = _Said(Message("assistant", reply.text, reply.calls).as_dict())
    said.native = reply.native
    return said


def entry(role: MessageRole, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


def insert_results(history: History, message: Mapping[str, Any], results: Sequence[tuple[str, str]]) -> bool:
    """Put results, `(id, text)` in call order, behind the message that made the calls. Return False if that is gone."""
    place = index_of_message(history, message)
    if place is None:
        return False
    history[place + 1 : place + 1] = [{"role": "tool", "content": text, "tool_call_id": name} for name, text in results]
    return True


def index_of_message(history: History, message: Mapping[str, Any]) -> int | None:
    """Return the index of a message, or of the copy that a hook has put in its place; None if absent."""
    for index in range(len(history) - 1, -1, -1):
        item = history[index]
        if item is message or (isinstance(item, Mapping) and item.get("tool_calls", ()) == message.get("tool_calls")):
            return index
    return None


def is_system(item: Any) -> bool:
    """Return whether an item is a system message."""
    return _message(item).role == "system"


@dataclass(slots=True)
class _Slot:
    """A message, and the results of its calls so far."""

    message: Message
    results: list[str | None] = field(init=False)
    unanswered: dict[str, list[int]] = field(default_factory=dict)
    """Id → places of the calls that have no result yet, the first one last."""

    def __post_init__(self) -> None:
        self.results = [None] * len(self.message.calls)
        for index, call in reversed([*enumerate(self.message.calls)]):
            self.unanswered.setdefault(call.id, []).append(index)

    def take(self, call_id: str, text: str) -> bool:
        places = self.unanswered.get(call_id)
        if not places:
            return False
        self.results[places.pop()] = text
        return True


def legal_messages(history: History) -> tuple[tuple[Message, ...], int]:
    """Return the messages with exactly one result next to every call, and how many had to be mended.

    A result belongs to the nearest call before it that has its id and no result yet. A result without a call is left out; a
    call without a result gets `(removed)`.
    """
    slots: list[_Slot] = []
    waiting: list[_Slot] = []
    mended = 0
    for item in history:
        message = _message(item)
        if message.role == "tool":
            if not any(slot.take(message.call_id, message.content) for slot in reversed(waiting)):
                mended += 1
        else:
            slot = _Slot(message)
            slots.append(slot)
            if message.calls:
                waiting.append(slot)
    messages: list[Message] = []
    for slot in slots:
        messages.append(slot.message)
        for call, text in zip(slot.message.calls, slot.results, strict=True):
            mended += text is None
            messages.append(Message("tool", REMOVED if text is None else text, call_id=call.id))
    return tuple(messages), mended


def _message(item: Any) -> Message:
    """Return whatever a hook has put into the history as a message; anything that is not one becomes the user's words."""
    if isinstance(item, Message):
        return item
    if not isinstance(item, Mapping):
        return Message("user", render_value(item))
    role = item.get("role")
    content = item.get("content")
    text = content if isinstance(content, str) else "" if content is None else render_value(content)
    if role == "assistant":
        calls = tuple(map(_call, item.get("tool_calls") or ()))
        return Message("assistant", text, calls, native=getattr(item, "native", None))
    if role == "tool":
        return Message("tool", text, call_id=str(item.get("tool_call_id", "")))
    if isinstance(content, list) and role != "system":
        with contextlib.suppress(ValueError):  # a list of something else than texts and images
            return Message.from_dict({"role": "user", "content": content})
    return Message("system" if role == "system" else "user", text)


def _call(item: Any) -> NativeCall:
    fields = item if isinstance(item, Mapping) else {}
    function = fields.get("function")
    named = function if isinstance(function, Mapping) else {}
    return NativeCall(str(fields.get("id", "")), str(named.get("name", "")), str(named.get("arguments", "")))


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
    predictor: Predictor
    """Makes the requests; its demonstrations are part of every one and never of the history."""
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
