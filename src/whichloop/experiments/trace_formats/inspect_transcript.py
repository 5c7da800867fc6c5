"""A sample of an Inspect log as a conversation: the model's and the tools' events of its transcript, or else its messages.

Source: `inspect_ai/event/_model.py`, `_tool.py` and `model/_chat_message.py` of inspect-ai 0.3.285. A request's messages stand in
the event, or in a pool (`events_data`) that it points into. Arguments are parsed; those that could not be have a `parse_error`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from whichloop.experiments.import_runs.values import (
    TokenUsage,
    count,
    json_array,
    list_at,
    mapping,
    number_from_zero,
    object_at,
    objects_at,
    usage_in,
    with_total,
)
from whichloop.metrics.trace import RequestError
from whichloop.protocol import Message
from whichloop.protocol.chat import MessageRole, NativeCall

from .conversation import CallResult, ConversationItem, ModelTurn, SaidToModel

Resolve = Callable[[str], str]
"""Puts a long text in the place of the reference to it."""
NOT_FOUND = "not found"
_ROLES: Mapping[str, MessageRole] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def items_of_sample(
    sample: Mapping[str, Any], events: Sequence[Mapping[str, Any]], resolve: Resolve
) -> tuple[ConversationItem, ...]:
    """Return what a sample says. `events`: those of its own solver. Raises ValueError."""
    pool = [mapping(item, "a message") for item in list_at(object_at(sample, "events_data"), "messages")]
    if any(event.get("event") == "model" for event in events):
        return tuple(_of_events(events, pool, resolve))
    messages = objects_at(sample, "messages", "a message")
    return tuple(item for message in messages for item in _of_message(message, resolve))


def question_of(sample: Mapping[str, Any], resolve: Resolve) -> str:
    """Return what the sample asks: its input, or the last user's message of it."""
    sample_input = sample.get("input")
    if isinstance(sample_input, str):
        return resolve(sample_input)
    messages = [mapping(item, "a message") for item in json_array(sample_input, "input")]
    return next(
        (_content_text(message.get("content"), resolve) for message in reversed(messages) if message.get("role") == "user"), ""
    )


def _of_events(
    events: Sequence[Mapping[str, Any]], pool: Sequence[Mapping[str, Any]], resolve: Resolve
) -> Iterator[ConversationItem]:
    for event in events:
        if event.get("event") == "model" and not event.get("pending"):
            yield _turn(event, pool, resolve)
        elif event.get("event") == "tool" and not event.get("pending"):
            yield _result(event, resolve)


def _turn(event: Mapping[str, Any], pool: Sequence[Mapping[str, Any]], resolve: Resolve) -> ModelTurn:
    messages = [mapping(item, "a message") for item in list_at(event, "input")]
    for reference in list_at(event, "input_refs"):
        start, end = (count(place, "input_refs") or 0 for place in [*json_array(reference, "input_refs"), 0, 0][:2])
        messages.extend(pool[start:end])
    prompt = tuple(_message(message, resolve) for message in messages)
    output = object_at(event, "output")
    seconds = number_from_zero(event.get("working_time"), "working_time") or number_from_zero(output.get("time"), "time") or 0.0
    error = event.get("error") or output.get("error")
    if error:
        return ModelTurn(error=RequestError("provider", str(error)), prompt=prompt, seconds=seconds)
    choices = objects_at(output, "choices", "a choice")
    reply = object_at(choices[0], "message") if choices else {}
    usage = object_at(output, "usage")
    fresh = count(usage.get("input_tokens"), "input_tokens")
    return ModelTurn(
        _content_text(reply.get("content"), resolve),
        _calls(reply),
        _reasoning(reply.get("content"), resolve),
        None if fresh is None or usage_in(usage) is None else inspect_usage(usage)._replace(input=fresh),
        seconds,
        prompt=prompt,
        is_told=bool(choices),
    )


def inspect_usage(usage: Mapping[str, Any]) -> TokenUsage:
    """Return the tokens of a usage; its input with what a cache served or stored.

    `input_tokens` excludes that today and included it in earlier logs of some providers: their `total_tokens` is less than the sum
    of all parts. A total with more than all parts has `reasoning_tokens` that some providers leave out of the output.
    """
    parts = ("input_tokens", "input_tokens_cache_read", "input_tokens_cache_write", "output_tokens")
    fresh, read, written, output = (count(usage.get(name), name) or 0 for name in parts)
    total = count(usage.get("total_tokens"), "total_tokens")
    apart = fresh + read + written
    return with_total(fresh if total and total < apart + output else apart, output, total)


def _of_message(message: Mapping[str, Any], resolve: Resolve) -> Iterator[ConversationItem]:
    role, text = message.get("role"), _content_text(message.get("content"), resolve)
    if role == "assistant":
        yield ModelTurn(text, _calls(message), _reasoning(message.get("content"), resolve))
    elif role == "tool":
        error = message.get("error")
        yield _call_result(text, message.get("tool_call_id"), message.get("function"), mapping(error, "error") if error else {})
    elif role in ("system", "user"):
        yield SaidToModel("system" if role == "system" else "user", text)


def _message(message: Mapping[str, Any], resolve: Resolve) -> Message:
    role = _ROLES.get(str(message.get("role")), "user")
    call_id = message.get("tool_call_id")
    return Message(role, _message_text(message, resolve), _calls(message), call_id if isinstance(call_id, str) else "")


def _message_text(message: Mapping[str, Any], resolve: Resolve) -> str:
    """Return what a message shows the model: of a call that failed its error, which the providers of Inspect send instead."""
    error = message.get("error") if message.get("role") == "tool" else None
    error_text = resolve(str(mapping(error, "error").get("message") or "")) if error else ""
    return f"Error: {error_text}" if error_text else _content_text(message.get("content"), resolve)


def _calls(message: Mapping[str, Any]) -> tuple[NativeCall, ...]:
    return tuple(
        NativeCall(str(call.get("id") or ""), str(call.get("function") or ""), _raw(call))
        for call in objects_at(message, "tool_calls", "a tool call")
    )


def _raw(call: Mapping[str, Any]) -> str:
    """Return a call's arguments as JSON, or, where they could not be parsed, the text that Inspect quotes."""
    problem = call.get("parse_error")
    if not isinstance(problem, str):
        return json.dumps(object_at(call, "arguments"), ensure_ascii=False)
    parts = problem.split("\n\n")
    return parts[1] if len(parts) > 2 else problem


def _result(event: Mapping[str, Any], resolve: Resolve) -> CallResult:
    error = mapping(event["error"], "error") if event.get("error") else {}
    text = _content_text(event.get("result"), resolve) or resolve(str(error.get("message") or ""))
    if event.get("failed") and not error:
        error = {"type": "unknown"}
    return _call_result(text, event.get("id"), event.get("function"), error, event.get("arguments"))


def _call_result(text: str, call_id: Any, tool: Any, error: Mapping[str, Any], arguments: Any = None) -> CallResult:
    message, kind = str(error.get("message") or ""), str(error.get("type") or "")
    if kind == "parsing":  # no tool ran: there is none of that name, or the arguments do not fit
        kind = "UnknownTool" if NOT_FOUND in message else "InvalidArguments"
    return CallResult(
        text or message,
        call_id if isinstance(call_id, str) else "",
        tool if isinstance(tool, str) else "",
        bool(error),
        kind or None,
        arguments,
    )


def _content_text(content: Any, resolve: Resolve) -> str:
    """Return a message's or a result's content as text, without reasoning; parts that are not text by their kind."""
    if content is None or isinstance(content, str):
        return resolve(content or "")
    if not isinstance(content, list):
        return json.dumps(content, ensure_ascii=False)
    parts = [mapping(part, "a part") if isinstance(part, Mapping) else {"type": "text", "text": part} for part in content]
    texts = [str(part.get("text")) if part.get("type") == "text" else f"[{part.get('type')}]" for part in parts]
    return "\n".join(resolve(text) for text, part in zip(texts, parts, strict=True) if part.get("type") != "reasoning")


def _reasoning(content: Any, resolve: Resolve) -> str:
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    return "\n".join(resolve(str(part.get("reasoning") or "")) for part in parts if part.get("type") == "reasoning")
