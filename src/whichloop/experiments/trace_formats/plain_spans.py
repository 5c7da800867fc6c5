"""Spans that log inputs and outputs as their client has them, as spans of the GenAI conventions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .any_messages import message_of, messages_in, reply_in
from .gen_ai import as_text, message_json, reply_json
from .otlp_in import ROOT, ReadSpan, SpanKind

_OPERATIONS: Mapping[SpanKind, str] = {"request": "chat", "tool": "execute_tool", "agent": ROOT}


def plain_span(kind: SpanKind, inputs: Any, outputs: Any, beside: Mapping[str, Any], about: Mapping[str, Any]) -> ReadSpan:
    """Return a span.

    `beside`: ids, name, status, and its `start` and `end` in nanoseconds. `about`: what stands in its attributes, among it `model`
    and `usage`.
    """
    attributes = dict(about) | {"gen_ai.operation.name": _OPERATIONS.get(kind, "")}
    usage = about.get("usage")
    if kind == "request":
        prompt, reply = messages_in(inputs), reply_in(outputs)
        if prompt:
            attributes["gen_ai.input.messages"] = [message_json(message) for message in prompt]
        if reply is not None:
            attributes["gen_ai.output.messages"] = [reply_json(reply.content, reply.calls)]
        if isinstance(usage, Mapping):
            attributes |= {f"gen_ai.usage.{name}": usage.get(name) for name in ("input_tokens", "output_tokens", "total_tokens")}
        attributes["gen_ai.request.model"] = as_text(about.get("model")) or None
    elif kind == "tool":
        attributes |= {
            "gen_ai.tool.name": as_text(beside.get("name")),
            "gen_ai.tool.call.arguments": inputs,
            "gen_ai.tool.call.result": _value_text(outputs),
        }
    else:
        attributes |= {"input.value": _value_text(inputs), "output.value": _value_text(outputs)}
    known_attributes = {name: value for name, value in attributes.items() if value is not None}
    return ReadSpan(kind, known_attributes, beside, int(beside.get("start") or 0), int(beside.get("end") or 0))


def _value_text(data: Any) -> str | None:
    """Return inputs or outputs as text: of one value the value, of messages the last one's, and else JSON."""
    if isinstance(data, Mapping) and len(data) == 1:
        data = next(iter(data.values()))
    value = data[-1] if isinstance(data, list) and data else data
    message = message_of(value) if isinstance(value, Mapping) else None
    if message is not None:
        return message.content
    return None if data is None else as_text(data)
