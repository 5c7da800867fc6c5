"""What lm15's client of Gemini leaves to its users: schemas as they are, calls of a stream apart, and malformed calls as calls."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from dspy import lm15

from whichloop.protocol import NativeCall

PROVIDERS = frozenset({"gemini", "vertex", "vertex-express"})


def with_json_schemas(request: Any) -> object:
    """Return an lm15 request whose tools and whose reply keep their schemas.

    lm15 sends them in the fields for Google's own schemas, which have no place for `additionalProperties`, `$defs`, several types
    or none. It takes the field for JSON Schema for a reply whose schema says `additionalProperties`: true there changes nothing.
    """
    config = request.config
    if request.tools:
        declared = [
            {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters} for tool in request.tools
        ]
        extensions = {**(config.extensions or {}), "tools": [{"functionDeclarations": declared}]}
        config = replace(config, extensions=extensions)
    response_format = config.response_format
    if response_format and "schema" in response_format:
        config = replace(
            config, response_format={**response_format, "schema": {"additionalProperties": True, **response_format["schema"]}}
        )
    return request if config is request.config else replace(request, config=config)


async def with_calls_apart(events: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """Yield a stream's events with another part for each call.

    Gemini sends a call whole, and often one in a chunk; lm15 numbers parts within their chunk, so that calls would run together.
    """
    last, calls = None, 0
    async with aclosing(events) as received:
        async for event in received:
            delta = event.delta if event.type == "delta" else None
            if delta is not None and delta.type == "tool_call":
                last, calls = delta.part_index, calls + 1
            if delta is not None and last is not None and delta.type in ("tool_call", "continuation") and delta.part_index == last:
                event = replace(event, delta=replace(delta, part_index=calls))
            elif delta is not None:
                last = None
            yield event


# --- malformed calls ---

_CODES = ("MALFORMED_FUNCTION_CALL", "inband_finish_reason")
"""What lm15 calls a reply that ended so, whole and in a stream."""
_PRINTED = re.compile(r"print\((?:default_api\.)?(?P<name>\w[\w.:-]*)\((?P<arguments>.*?)\)\)(?=print\(|\s*\Z)", re.DOTALL)


def malformed_calls(error: Exception) -> tuple[NativeCall, ...]:
    """Return the calls that Gemini could not read itself, as it quotes them; none if an error is another one.

    lm15 takes them for an error of the request. They are the model's, and a loop may answer them as it does any malformed call.
    """
    if not isinstance(error, lm15.ProviderError) or error.provider_code not in _CODES:
        return ()
    head, gap, rest = error.message.partition("\n\n")
    message = head.removesuffix(f" ({error.provider})") + gap + rest
    if "malformed" not in message.lower():
        return ()
    quoted = [(match["name"], match["arguments"]) for match in _PRINTED.finditer(message)] or [("malformed_call", message)]
    return tuple(NativeCall(f"malformed_{place}", name, arguments) for place, (name, arguments) in enumerate(quoted))
