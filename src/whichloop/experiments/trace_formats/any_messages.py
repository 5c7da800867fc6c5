"""Messages as clients of several providers log them: OpenAI's, Anthropic's, and LangChain's, as objects or serialized.

Source: OpenAI's chat completions, Anthropic's messages, and `langchain_core.load.dumpd` of langchain-core 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whichloop.protocol import Message
from whichloop.protocol.chat import MessageRole, NativeCall

from .gen_ai import as_text

_ROLES: Mapping[str, MessageRole] = {
    **dict.fromkeys(("system", "developer", "SystemMessage"), "system"),
    **dict.fromkeys(("user", "human", "HumanMessage"), "user"),
    **dict.fromkeys(("assistant", "ai", "AIMessage", "AIMessageChunk", "model", "tool-call"), "assistant"),
    **dict.fromkeys(("tool", "function", "ToolMessage", "tool-response"), "tool"),
}


def messages_in(data: Any) -> tuple[Message, ...] | None:
    """Return the messages of a request's inputs; None if there are none."""
    if isinstance(data, Mapping):
        system = data.get("system")
        messages = messages_in(data.get("messages", data.get("input")))
        return messages if not messages or not isinstance(system, str) else (Message("system", system), *messages)
    if isinstance(data, str):
        return (Message("user", data),)
    if not isinstance(data, Sequence) or not data:
        return None
    items = data[0] if len(data) == 1 and isinstance(data[0], list) else data  # a batch of one
    return tuple(message for item in items if (message := message_of(item)) is not None) or None


def reply_in(data: Any) -> Message | None:
    """Return the first message of a request's outputs; None if there is none."""
    if isinstance(data, str):
        return Message("assistant", data)
    if isinstance(data, Sequence):
        return reply_in(data[0]) if data else None
    if not isinstance(data, Mapping):
        return None
    for key in ("choices", "generations"):
        if data.get(key):
            return reply_in(data[key])
    if isinstance(data.get("message"), Mapping | str):
        return reply_in(data["message"])
    message = message_of(data)
    return None if message is None else Message("assistant", message.content, message.calls)


def message_of(data: Any) -> Message | None:
    """Return a message; None for anything else."""
    if not isinstance(data, Mapping):
        return Message("user", data) if isinstance(data, str) else None
    kind = data.get("id")
    named = kind[-1] if isinstance(kind, list) and kind else None
    fields = data["kwargs"] if isinstance(data.get("kwargs"), Mapping) else data
    role = next((str(name) for name in (fields.get("role"), fields.get("type"), named) if str(name) in _ROLES), "")
    if "content" not in fields and "tool_calls" not in fields and "text" not in fields:
        return None
    content = fields.get("content", fields.get("text"))
    call_id = as_text(fields.get("tool_call_id"))
    return Message(_ROLES.get(role, "assistant"), _content_text(content), _calls(fields, content), call_id)


def _content_text(content: Any) -> str:
    if not isinstance(content, list):
        return as_text(content)
    parts = [part if isinstance(part, Mapping) else {"type": "text", "text": part} for part in content]
    return "\n".join(as_text(part.get("text")) for part in parts if part.get("type") == "text")


def _calls(fields: Mapping[str, Any], content: Any) -> tuple[NativeCall, ...]:
    """Return a message's calls, those with raw arguments where a log has both."""
    more = fields.get("additional_kwargs")
    raw = more.get("tool_calls") if isinstance(more, Mapping) else None
    listed = raw or fields.get("tool_calls")
    if not listed and isinstance(content, list):
        listed = [part for part in content if isinstance(part, Mapping) and part.get("type") == "tool_use"]
    return tuple(map(_call, (item for item in listed or () if isinstance(item, Mapping))))


def _call(call: Mapping[str, Any]) -> NativeCall:
    function = call.get("function")
    inner = function if isinstance(function, Mapping) else call
    arguments: Any = next((inner[key] for key in ("arguments", "args", "input") if inner.get(key) is not None), {})
    return NativeCall(as_text(call.get("id")), as_text(inner.get("name")), as_text(arguments))
