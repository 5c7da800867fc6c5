"""Messages as the GenAI semantic conventions of OpenTelemetry have them, both ways.

Source: open-telemetry/semantic-conventions-genai v0.1.0, `docs/gen-ai/gen-ai-input-messages.json` and
`gen-ai-output-messages.json`; all of it is marked as in development. A call's arguments are an object, or the raw text where
they are not one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from whichloop.experiments.import_runs.values import json_array, mapping, objects_at, short_value
from whichloop.protocol import Message
from whichloop.protocol.chat import MessageRole, NativeCall
from whichloop.protocol.wire import from_json

CONVENTIONS = "open-telemetry/semantic-conventions-genai v0.1.0"
"""The revision that is written and read."""
_ROLES: Mapping[str, MessageRole] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def message_json(message: Message) -> dict[str, Any]:
    """Return a message with its parts."""
    if message.role == "tool":
        part = {"type": "tool_call_response", "id": message.call_id, "response": message.content}
        return {"role": "tool", "parts": [part]}
    texts = [{"type": "text", "content": message.content}] if message.content or not message.calls else []
    return {"role": message.role, "parts": [*texts, *map(call_part, message.calls)]}


def reply_json(text: str, calls: Sequence[NativeCall]) -> dict[str, Any]:
    """Return a reply with its parts and why it ended."""
    message = message_json(Message("assistant", text, tuple(calls)))
    return message | {"finish_reason": "tool_call" if calls else "stop"}


def call_part(call: NativeCall) -> dict[str, Any]:
    """Return a native call as a part of a message."""
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": _arguments(call.arguments)}


def _arguments(raw: str) -> Any:
    """Return the object that a text is, if the text is exactly how it is written, and else the text."""
    try:
        value = from_json(raw)
    except ValueError:
        return raw
    return value if isinstance(value, dict) and json.dumps(value, ensure_ascii=False) == raw else raw


def read_messages(value: Any) -> tuple[Message, ...]:
    """Read messages, which may be JSON in a text. Raises ValueError."""
    data = from_json(value) if isinstance(value, str) else value
    return tuple(message for item in json_array(data, "the messages") for message in _messages(mapping(item, "a message")))


def read_instructions(value: Any) -> tuple[Message, ...]:
    """Read system instructions, which are parts of one message. Raises ValueError."""
    data = from_json(value) if isinstance(value, str) else value
    text = _parts_text(mapping(part, "a part") for part in json_array(data, "the instructions"))
    return (Message("system", text),) if text else ()


def _messages(data: Mapping[str, Any]) -> Iterable[Message]:
    """Yield a message; of a tool's message one for each result in it."""
    role = _ROLES.get(str(data.get("role")))
    if role is None:
        raise ValueError(f"a message's role is {short_value(data.get('role'))}")
    parts = objects_at(data, "parts", "a part")
    results = [part for part in parts if part.get("type") == "tool_call_response"]
    if results:
        yield from (Message("tool", as_text(_result_of(part)), call_id=str(part.get("id") or "")) for part in results)
        return
    calls = tuple(_call(part) for part in parts if part.get("type") == "tool_call")
    yield Message(role, _parts_text(parts), calls)


def _result_of(part: Mapping[str, Any]) -> Any:
    return part["response"] if "response" in part else part.get("result")  # `result` in earlier revisions


def _parts_text(parts: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(as_text(part.get("content")) for part in parts if part.get("type") == "text")


def reasoning_of(value: Any) -> str:
    """Return the reasoning in messages. Raises ValueError."""
    data = from_json(value) if isinstance(value, str) else value
    messages = [mapping(item, "a message") for item in json_array(data, "the messages")]
    parts = [part for message in messages for part in objects_at(message, "parts", "a part")]
    return "\n".join(as_text(part.get("content")) for part in parts if part.get("type") == "reasoning")


def _call(part: Mapping[str, Any]) -> NativeCall:
    arguments = part.get("arguments")
    raw = arguments if isinstance(arguments, str) else as_text({} if arguments is None else arguments)
    return NativeCall(str(part.get("id") or ""), str(part.get("name") or ""), raw)


def as_text(value: Any) -> str:
    """Return a text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


_CLIENT_ROLES: Mapping[str, MessageRole] = {
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
    role = next((str(name) for name in (fields.get("role"), fields.get("type"), named) if str(name) in _CLIENT_ROLES), "")
    if "content" not in fields and "tool_calls" not in fields and "text" not in fields:
        return None
    content = fields.get("content", fields.get("text"))
    call_id = as_text(fields.get("tool_call_id"))
    return Message(_CLIENT_ROLES.get(role, "assistant"), _content_text(content), _calls(fields, content), call_id)


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
    return tuple(map(_client_call, (item for item in listed or () if isinstance(item, Mapping))))


def _client_call(call: Mapping[str, Any]) -> NativeCall:
    function = call.get("function")
    inner = function if isinstance(function, Mapping) else call
    arguments: Any = next((inner[key] for key in ("arguments", "args", "input") if inner.get(key) is not None), {})
    return NativeCall(as_text(call.get("id")), as_text(inner.get("name")), as_text(arguments))
