"""Requests and replies in lm15's types, which DSPy's engines speak."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from dspy import lm15

from loopbench.protocol import Message, NativeCall, Reply, Request, Usage
from loopbench.protocol.chat import FinishReason

LM15_FINISH: dict[FinishReason, str] = {
    "stop": "stop",
    "tool_calls": "tool_call",
    "length": "length",
    "content_filter": "content_filter",
    "other": "error",
}
FINISH: dict[str, FinishReason] = {theirs: ours for ours, theirs in LM15_FINISH.items()}


def lm15_request(request: Request, model: str, extensions: Mapping[str, Any] | None = None) -> Any:
    """Raises ValueError and TypeError for what lm15 refuses to send: a call without a name, a tool that is not offered.

    `extensions`: further top-level fields of the body.
    """
    first = next((i for i, message in enumerate(request.messages) if message.role != "system"), len(request.messages))
    system = "\n\n".join(message.content for message in request.messages[:first])
    runs = groupby(request.messages[first:], lambda message: message.role == "tool")
    messages = [made for from_tools, run in runs for made in ([_tool_results(run)] if from_tools else map(_lm15_message, run))]
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
    """None where nothing is to be said about calls."""
    one = False if request.tools and not request.parallel_calls else None
    if request.tool_choice in (None, "auto", "required", "none"):
        silent = request.tool_choice is None and one is None
        return None if silent else lm15.ToolChoice(mode=request.tool_choice or "auto", parallel=one)
    return lm15.ToolChoice(mode="required", allowed=(request.tool_choice,), parallel=one)


def _tool_results(messages: Iterable[Message]) -> Any:
    """Results that stand together as one message: Gemini wants those of one turn so."""
    parts = [lm15.ToolResultPart(id=m.call_id, content=(lm15.TextPart(sendable(m.content)),)) for m in messages]
    return lm15.Message(role="tool", parts=tuple(parts))


def _lm15_message(message: Message) -> Any:
    text = sendable(message.content)
    if message.role == "user":
        return lm15.Message.user(text)
    if message.role == "system":
        return lm15.Message.developer(text)  # lm15 keeps it in its place; a provider without the role sees a marked user message
    parts: list[Any] = [lm15.TextPart(text)] if text or not message.calls else []
    parts += [
        lm15.ToolCallPart(id=call.id, name=call.name, input=arguments_object(sendable(call.arguments))) for call in message.calls
    ]
    return lm15.Message.assistant(parts)


def sendable(text: str) -> str:
    """Lone surrogates, which a model or a tool may produce but no provider takes, as question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


_DISJOINT_CACHE = frozenset(
    f"{host}anthropic" for host in ("", "aws-", "bedrock-", "azure-", "vertex-", "deepseek-", "meta-", "moonshotai-")
)
"""Providers whose count of input tokens leaves out what their cache read and wrote."""
_SEPARATE_REASONING = frozenset({"gemini", "vertex", "vertex-express", "xai"})
"""Providers whose count of output tokens leaves out reasoning."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """What came in pieces, put together."""

    text: str
    calls: tuple[NativeCall, ...]


def reply_of(response: Any, provider: str | None, streamed: Streamed | None = None) -> Reply:
    """A whole reply; its text and native calls as they were sent."""
    return Reply(
        _text(response) if streamed is None else streamed.text,
        _native_calls(response) if streamed is None else streamed.calls,
        _usage_of(response.usage, provider),
        FINISH[response.finish_reason],
    )


def _text(response: Any) -> str:
    """lm15 reads the JSON of an answer whose schema has a choice or a truth value, and keeps no text of it."""
    parts = response.message.parts
    if any(part.type == "data" for part in parts):
        sent = _message(response.provider_data).get("content")
        if isinstance(sent, str):
            return sent
    texts = (json.dumps(part.value) if part.type == "data" else part.text for part in parts if part.type in _TEXTS)
    return "".join(texts)


_TEXTS = frozenset({"text", "refusal", "data"})


def _usage_of(usage: Any, provider: str | None) -> Usage | None:
    """Counts that mean the same whoever counted: cached tokens are part of the input, reasoning is part of the output."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return None  # half a count is none: some streams tell the output only
    taken, given, cached = usage.input_tokens, usage.output_tokens, usage.cache_read_tokens or 0
    if provider in _DISJOINT_CACHE:
        taken += cached + (usage.cache_write_tokens or 0)
    if provider in _SEPARATE_REASONING:
        given += usage.reasoning_tokens or 0
    return Usage(taken, given, cached)


def uncached(response: Any, provider: str | None) -> Any:
    """The response as if no token had been read from the provider's cache."""
    usage = response.usage
    taken = usage.input_tokens
    if provider in _DISJOINT_CACHE and taken is not None:
        taken += usage.cache_read_tokens or 0
    return replace(response, usage=replace(usage, input_tokens=taken, cache_read_tokens=0))


def _native_calls(response: Any) -> tuple[NativeCall, ...]:
    """The calls with their arguments as sent: lm15 makes an object of its own of arguments that are none."""
    parts = [part for part in response.message.parts if part.type == "tool_call"]
    raw = _raw_arguments(response.provider_data)
    if len(raw) != len(parts):
        raw = [None] * len(parts)
    return tuple(
        NativeCall(part.id, part.name, text if isinstance(text, str) else json.dumps(part.input))
        for part, text in zip(parts, raw, strict=True)
    )


def _raw_arguments(data: Any) -> list[Any]:
    """From a body in OpenAI's format; empty for any other."""
    try:
        return [call["function"]["arguments"] for call in _message(data)["tool_calls"]]
    except (KeyError, TypeError):
        return []


def _message(data: Any) -> Mapping[str, Any]:
    """The message in a body of OpenAI's format; empty for any other."""
    try:
        message = data["choices"][0]["message"]
    except (KeyError, IndexError, TypeError):
        return {}
    return message if isinstance(message, Mapping) else {}


def arguments_object(text: str) -> dict[str, Any]:
    """Raw arguments as lm15 wants them: an object; text that is none stays readable under a key of its own."""
    try:
        value = json.loads(text or "{}")
        if "\\u" in text:  # an escape may stand for what no provider takes
            value = json.loads(sendable(json.dumps(value, ensure_ascii=False)))
    except ValueError:
        return {"_unparsed": text}
    return value if isinstance(value, dict) else {"_unparsed": text}
