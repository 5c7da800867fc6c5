"""The conversation as a list that a hook may change at will, and as the legal messages of the next request."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whichloop.protocol import Message, NativeCall, Reply, render_value
from whichloop.protocol.chat import MessageRole

History = list[Any]
"""Messages as dicts in OpenAI's chat format."""
REMOVED = "(removed)"
"""The text in the place of a result that was taken out of the history while its call stayed."""


def assistant_entry(reply: Reply) -> dict[str, Any]:
    """Return a reply in the form that the history holds."""
    return Message("assistant", reply.text, reply.calls).as_dict()


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
    results: list[str | None] = field(default_factory=list)

    def take(self, call_id: str, text: str) -> bool:
        for index, call in enumerate(self.message.calls):
            if call.id == call_id and self.results[index] is None:
                self.results[index] = text
                return True
        return False


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
            slot = _Slot(message, [None] * len(message.calls))
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
        return Message("assistant", text, tuple(map(_call, item.get("tool_calls") or ())))
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
