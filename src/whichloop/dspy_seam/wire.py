"""Requests and replies in lm15's types, which DSPy's engines speak."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from dspy import lm15

from whichloop.protocol import Message, NativeCall, Reply, Request, Usage
from whichloop.protocol.chat import FinishReason
from whichloop.protocol.files import Image

LM15_FINISH: dict[FinishReason, str] = {
    "stop": "stop",
    "tool_calls": "tool_call",
    "length": "length",
    "content_filter": "content_filter",
    "other": "error",
}
FINISH: dict[str, FinishReason] = {theirs: ours for ours, theirs in LM15_FINISH.items()}


def lm15_request(request: Request, model: str, extensions: Mapping[str, Any] | None = None) -> Any:
    """Return a request in lm15's types. `extensions`: further top-level fields of the body.

    Raises ValueError and TypeError for what lm15 refuses to send: a call without a name, a tool that is not offered.
    """
    first = next((i for i, message in enumerate(request.messages) if message.role != "system"), len(request.messages))
    system = "\n\n".join(message.content for message in request.messages[:first])
    messages: list[Any] = []
    for are_results, group in groupby(request.messages[first:], lambda message: message.role == "tool"):
        neighbours = list(group)
        messages += [_tool_results(neighbours)] if are_results else map(_lm15_message, neighbours)
    sampling = request.sampling
    schema = request.response_schema
    config = lm15.Config(
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed,
        stop=sampling.stop,
        tool_choice=_choice(request),
        response_format=None if schema is None else {"type": "json_schema", "name": "answer", "schema": dict(schema)},
        extensions=dict(extensions) if extensions else None,
    )
    tools = tuple(
        lm15.FunctionTool(name=tool.name, description=tool.description, parameters=dict(tool.parameters)) for tool in request.tools
    )
    return lm15.Request(model=model, messages=tuple(messages), system=sendable(system) or None, tools=tools, config=config)


def _choice(request: Request) -> Any:
    """Return lm15's tool choice; None if the request says nothing about calls."""
    one = False if request.tools and not request.parallel_calls else None
    if request.tool_choice in (None, "auto", "required", "none"):
        silent = request.tool_choice is None and one is None
        return None if silent else lm15.ToolChoice(mode=request.tool_choice or "auto", parallel=one)
    return lm15.ToolChoice(mode="required", allowed=(request.tool_choice,), parallel=one)


def _tool_results(messages: Iterable[Message]) -> Any:
    """Return consecutive results as one message, as Gemini requires for those of one turn."""
    parts = [lm15.ToolResultPart(id=m.call_id, content=(lm15.TextPart(sendable(m.content)),)) for m in messages]
    return lm15.Message(role="tool", parts=tuple(parts))


def _lm15_message(message: Message) -> Any:
    text = sendable(message.content)
    if message.role == "user":
        return lm15.Message.user([lm15.TextPart(text), *map(_image, message.images)] if message.images else text)
    if message.role == "system":
        return lm15.Message.developer(text)  # lm15 keeps it in its place; a provider without the role sees a marked user message
    parts: list[Any] = [lm15.TextPart(text)] if text or not message.calls else []
    parts += [
        lm15.ToolCallPart(id=call.id, name=call.name, input=arguments_object(sendable(call.arguments))) for call in message.calls
    ]
    return lm15.Message.assistant(parts)


def _image(image: Image) -> Any:
    if image.data is None:
        return lm15.ImagePart(media_type=image.media_type, url=image.url)
    media_type, data = image.data
    return lm15.ImagePart(media_type=media_type, data=data)


def sendable(text: str) -> str:
    """Replace lone surrogates, which a model or a tool may produce but no provider takes, by question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


_DISJOINT_CACHE = frozenset(
    f"{host}anthropic" for host in ("", "aws-", "bedrock-", "azure-", "vertex-", "deepseek-", "meta-", "moonshotai-")
)
"""Providers whose count of input tokens excludes what their cache read and wrote."""
_SEPARATE_REASONING = frozenset({"gemini", "vertex", "vertex-express", "xai"})
"""Providers whose count of output tokens excludes reasoning."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """The pieces of a stream, joined."""

    text: str
    calls: tuple[NativeCall, ...]


def reply_of(response: Any, provider: str | None, streamed: Streamed | None = None) -> Reply:
    """Return a whole reply, its text and native calls as they were sent."""
    return Reply(
        _response_text(response) if streamed is None else streamed.text,
        _native_calls(response) if streamed is None else streamed.calls,
        _usage_of(response.usage, provider),
        _INCOMPLETE.get(_incomplete_reason(response.provider_data), FINISH[response.finish_reason]),
    )


_INCOMPLETE: Mapping[Any, FinishReason] = {"max_output_tokens": "length", "content_filter": "content_filter"}


def _incomplete_reason(data: Any) -> Any:
    """Return why a response in the form of OpenAI's Responses is incomplete, which lm15 does not read; None for any other body."""
    details = data.get("incomplete_details") if isinstance(data, Mapping) else None
    return details.get("reason") if isinstance(details, Mapping) else None


def _response_text(response: Any) -> str:
    """Return the text: of an answer whose schema has a choice or a truth value, lm15 keeps only the JSON value."""
    parts = response.message.parts
    if any(part.type == "data" for part in parts):
        sent = _sent_text(response.provider_data)
        if sent is not None:
            return sent
    texts = (json.dumps(part.value) if part.type == "data" else part.text for part in parts if part.type in _TEXTS)
    return "".join(texts)


_TEXTS = frozenset({"text", "refusal", "data"})


def _sent_text(data: Any) -> str | None:
    """Return the text from a body in either of OpenAI's formats; None for any other."""
    items = _output(data)
    if items is None:
        sent = _message(data).get("content")
        return sent if isinstance(sent, str) else None
    parts = [part for item in items if item.get("type") == "message" for part in item.get("content") or ()]
    return "".join(str(part.get("text", "")) for part in parts)


def _output(data: Any) -> list[Mapping[str, Any]] | None:
    """Return the items from a body in the form of OpenAI's Responses; None for any other."""
    items = data.get("output") if isinstance(data, Mapping) else None
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else None


def _usage_of(usage: Any, provider: str | None) -> Usage | None:
    """Return counts with one meaning for all providers: the input includes cached tokens, the output includes reasoning."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return None  # some streams count the output only
    input_tokens, output_tokens, cached = usage.input_tokens, usage.output_tokens, usage.cache_read_tokens or 0
    if provider in _DISJOINT_CACHE:
        input_tokens += cached + (usage.cache_write_tokens or 0)
    if provider in _SEPARATE_REASONING:
        output_tokens += usage.reasoning_tokens or 0
    return Usage(input_tokens, output_tokens, cached)


def uncached(response: Any, provider: str | None) -> Any:
    """Return the response as if no token had come from the provider's cache."""
    usage = response.usage
    taken = usage.input_tokens
    if provider in _DISJOINT_CACHE and taken is not None:
        taken += usage.cache_read_tokens or 0
    return replace(response, usage=replace(usage, input_tokens=taken, cache_read_tokens=0))


def _native_calls(response: Any) -> tuple[NativeCall, ...]:
    """Return the calls with their arguments as sent: lm15 replaces arguments that are not an object."""
    parts = [part for part in response.message.parts if part.type == "tool_call"]
    raw = _raw_arguments(response.provider_data)
    if len(raw) != len(parts):
        raw = [None] * len(parts)
    return tuple(
        NativeCall(part.id, part.name, text if isinstance(text, str) else json.dumps(part.input, ensure_ascii=False))
        for part, text in zip(parts, raw, strict=True)
    )


def _raw_arguments(data: Any) -> list[Any]:
    """Return the raw arguments from a body in either of OpenAI's formats; empty for any other."""
    items = _output(data)
    if items is not None:
        return [item.get("arguments") for item in items if item.get("type") == "function_call"]
    try:
        return [call["function"]["arguments"] for call in _message(data)["tool_calls"]]
    except (KeyError, TypeError):
        return []


def _message(data: Any) -> Mapping[str, Any]:
    """Return the message from a body in OpenAI's format; empty for any other."""
    try:
        message = data["choices"][0]["message"]
    except (KeyError, IndexError, TypeError):
        return {}
    return message if isinstance(message, Mapping) else {}


def arguments_object(text: str) -> dict[str, Any]:
    """Return raw arguments as the object that lm15 requires; any other text stays readable under its own key."""
    try:
        value = json.loads(text or "{}")
        if "\\u" in text:  # an escape may hide a lone surrogate
            value = json.loads(sendable(json.dumps(value, ensure_ascii=False)))
    except ValueError:
        return {"_unparsed": text}
    return value if isinstance(value, dict) else {"_unparsed": text}


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
