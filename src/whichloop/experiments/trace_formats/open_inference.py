"""Messages as OpenInference's spans have them: one attribute for each value, with indices in its key.

Source: openinference-semantic-conventions 0.1.42, `llm.input_messages.0.message.content` and the like. A call's arguments are the
raw text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from whichloop.protocol import Message
from whichloop.protocol.chat import MessageRole, NativeCall
from whichloop.protocol.json_text import Json

from .gen_ai import as_text

MAX_INDEX = 100_000
"""Largest index of a message or a call."""
_KEY = re.compile(r"(\d{1,6})\.(.+)")
_ROLES: Mapping[str, MessageRole] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "model": "assistant",
}


def read_messages(attributes: Mapping[str, object], prefix: str) -> tuple[Message, ...]:
    """Return the messages whose attributes begin with `prefix`, such as `llm.input_messages.`. Raises ValueError."""
    return tuple(_message(part) for part in _parts(attributes, prefix))


def _parts(attributes: Mapping[str, object], prefix: str) -> list[dict[str, Json]]:
    """Return the attributes below each index, in the order of the indices."""
    parts: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if key.startswith(prefix) and (match := _KEY.fullmatch(key.removeprefix(prefix))) is not None:
            if int(match[1]) > MAX_INDEX:
                raise ValueError(f"{prefix}{match[1]}: an index above {MAX_INDEX}")
            parts.setdefault(int(match[1]), {})[match[2]] = value
    return [parts[place] for place in sorted(parts)]


def _message(part: Mapping[str, Any]) -> Message:
    role = _ROLES.get(str(part.get("message.role", "user")), "user")
    texts = [as_text(content.get("message_content.text")) for content in _parts(part, "message.contents.")]
    text = as_text(part.get("message.content")) or "\n".join(text for text in texts if text)
    calls = tuple(
        NativeCall(
            as_text(call.get("tool_call.id")),
            as_text(call.get("tool_call.function.name")),
            as_text(call.get("tool_call.function.arguments")),
        )
        for call in _parts(part, "message.tool_calls.")
    )
    return Message(role, text, calls, as_text(part.get("message.tool_call_id")))
