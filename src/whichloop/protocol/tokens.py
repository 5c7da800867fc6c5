"""Token counts offline: an estimate, and it says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .chat import Reply, Usage
from .digest import canonical_json
from .model import Request
from .tool_calls import ToolSpec

CHARS_PER_TOKEN = 4
"""The usual rule of thumb for English text; deterministic, and wrong by a quarter either way."""
MESSAGE_OVERHEAD = 4
"""Tokens that a chat format adds to each message."""
IMAGE_TOKENS = 1_000
"""Of one image, whose size is not looked at: a square of 1,024 pixels costs 765 of OpenAI's gpt-4o, 1,398 of Anthropic's models."""


def estimate_tokens(text: str) -> int:
    """Return how many tokens a text is estimated to have."""
    return (len(text) + CHARS_PER_TOKEN - 1) // CHARS_PER_TOKEN


def estimate_input(request: Request) -> int:
    """Estimate the tokens of all that a request shows."""
    total = sum(map(tool_tokens, request.tools))
    if request.response_schema is not None:
        total += estimate_tokens(schema_text(request.response_schema))
    for message in request.messages:
        total += MESSAGE_OVERHEAD + (len(message.content) + CHARS_PER_TOKEN - 1) // CHARS_PER_TOKEN  # a call costs more than this
        for call in message.calls:
            total += estimate_tokens(call.name) + estimate_tokens(call.arguments)
        if message.images:
            total += IMAGE_TOKENS * len(message.images)
    return total


_TEXTS: dict[int, tuple[Mapping[str, Any], str]] = {}
MAX_TEXTS = 4096


def schema_text(schema: Mapping[str, object]) -> str:
    """Return a schema's canonical JSON, made once for the very same object: a suite's tools keep theirs from trial to trial."""
    cached = _TEXTS.get(id(schema))
    if cached is None or cached[0] is not schema:
        if len(_TEXTS) >= MAX_TEXTS:
            _TEXTS.clear()
        cached = _TEXTS[id(schema)] = (schema, canonical_json(schema))
    return cached[1]


_UNSAID = frozenset({"type", "title", "description", "$schema"})
_PLAIN_WORDS = _UNSAID | {"properties", "required", "additionalProperties"}


def whole_parameters(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool's JSON schema without what every tool's says."""
    return {
        name: part
        for name, part in parameters.items()
        if name not in _UNSAID and not (name == "additionalProperties" and part is False)
    }


def is_plain(parameters: Mapping[str, Any]) -> bool:
    """Return whether the properties, and which are required, are all that a tool's JSON schema says."""
    return parameters.keys() <= _PLAIN_WORDS and not parameters.get("additionalProperties")


def shown_parameters(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a prompt shows of a tool's JSON schema: its properties, or all where these do not say all that a call needs."""
    properties: Mapping[str, Any] = parameters.get("properties", {})
    required = parameters.get("required", ())
    has_defaults = all(name in required or (isinstance(item, Mapping) and "default" in item) for name, item in properties.items())
    return properties if has_defaults and is_plain(parameters) else whole_parameters(parameters)


def tool_tokens(tool: ToolSpec) -> int:
    """Estimate the tokens of one tool's description."""
    return sum(map(estimate_tokens, (tool.name, tool.description, schema_text(tool.parameters))))


def estimate_usage(input_tokens: int, reply: Reply) -> Usage:
    """Estimate the usage of a reply that no provider counted."""
    output = estimate_tokens(reply.text)
    for call in reply.calls:
        output += estimate_tokens(call.name) + estimate_tokens(call.arguments)
    return Usage(input_tokens, output, estimated=True)
