"""A sample of an Inspect log as a conversation: the model's and the tools' events of its transcript, or else its messages.

Source: `inspect_ai/event/_model.py`, `_tool.py` and `model/_chat_message.py` of inspect-ai 0.3.285. A request's messages stand in
the event, or in a pool (`events_data`) that it points into. Arguments are parsed; those that could not be have a `parse_error`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from whichloop.metrics.trace import RequestError

from . import values
from .chats import as_messages, as_text, read_chat, said_in
from .conversation import CallResult, ConversationItem, ModelTurn
from .values import TokenUsage, count, list_at, mapping, object_at, objects_at


def items_of_sample(sample: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> tuple[ConversationItem, ...]:
    """Return what a sample says. `events`: those of its own solver."""
    pool = objects_at(object_at(sample, "events_data"), "messages", "a message")
    done = [event for event in events if not event.get("pending") and event.get("event") in ("model", "tool")]
    if any(event.get("event") == "model" for event in events):
        return tuple(_turn(event, pool) if event["event"] == "model" else _result(event, event.get("id")) for event in done)
    return tuple(_said([one for one in objects_at(sample, "messages", "a message") if one.get("role") in _ROLES]))


_ROLES = ("system", "user", "assistant", "tool")


def question_of(sample: Mapping[str, Any]) -> str:
    """Return what the sample asks: its input, or the last user's message of it."""
    if isinstance(sample.get("input"), str):
        return str(sample["input"])
    messages = objects_at(sample, "input", "a message")
    return next((said_in([message]) for message in reversed(messages) if message.get("role") == "user"), "")


def inspect_usage(usage: Mapping[str, Any]) -> TokenUsage:
    """Return the tokens of a usage; its input with what a cache served or stored.

    `input_tokens` excludes that today and included it in earlier logs of some providers: their `total_tokens` is less than the sum
    of all parts. A total with more than all parts has `reasoning_tokens` that some providers leave out of the output.
    """
    parts = ("input_tokens", "input_tokens_cache_read", "input_tokens_cache_write", "output_tokens")
    fresh, read, written, output = (count(usage.get(name), name) or 0 for name in parts)
    total, apart = count(usage.get("total_tokens"), "total_tokens"), fresh + read + written
    return values.with_total(fresh if total and total < apart + output else apart, output, total)


def _turn(event: Mapping[str, Any], pool: Sequence[Mapping[str, Any]]) -> ModelTurn:
    messages = objects_at(event, "input", "a message")
    for reference in list_at(event, "input_refs"):
        start, end = (count(place, "input_refs") or 0 for place in [*values.list_of(reference, "input_refs"), 0, 0][:2])
        messages.extend(pool[start:end])
    prompt, output = as_messages(_said(messages, shown=True)), object_at(event, "output")
    times = (event.get("working_time"), output.get("time"))
    seconds = next((time for one in times if (time := values.number_from_zero(one, "the time"))), 0.0)
    error = event.get("error") or output.get("error")
    if error:
        return ModelTurn(error=RequestError("provider", str(error)), prompt=prompt, seconds=seconds)
    choices, usage = objects_at(output, "choices", "a choice"), object_at(output, "usage")
    reply = next(iter(_said([{"role": "assistant", **object_at(choices[0], "message")}]))) if choices else ModelTurn(is_told=False)
    fresh = count(usage.get("input_tokens"), "input_tokens")
    tokens = None if fresh is None or values.usage_in(usage) is None else inspect_usage(usage)._replace(input=fresh)
    return (
        replace(reply, tokens=tokens, seconds=seconds, prompt=prompt) if isinstance(reply, ModelTurn) else ModelTurn(prompt=prompt)
    )


def _said(messages: Sequence[Mapping[str, Any]], *, shown: bool = False) -> Iterator[ConversationItem]:
    """Yield what messages say. `shown`: of a call that failed as its model was shown it, which the providers send as an error."""
    for message in messages:
        if message.get("role") == "tool":
            result = _result(message, message.get("tool_call_id"), "content")
            problem = object_at(message, "error").get("message") if message.get("error") else None
            yield replace(result, text=f"Error: {problem}") if shown and problem else result
        else:
            calls = [{**one, "arguments": _raw(one)} for one in objects_at(message, "tool_calls", "a tool call")]
            yield from read_chat([{**message, "content": message.get("content") or "", "tool_calls": calls}])


def _raw(call: Mapping[str, Any]) -> str:
    """Return a call's arguments as JSON, or, where they could not be parsed, the text that Inspect quotes."""
    problem = call.get("parse_error")
    if not isinstance(problem, str):
        return as_text(object_at(call, "arguments"))
    parts = problem.split("\n\n")
    return parts[1] if len(parts) > 2 else problem


def _result(data: Mapping[str, Any], call_id: Any, key: str = "result") -> CallResult:
    """Return what an event or a message says of a call."""
    error = mapping(data["error"], "error") if data.get("error") else {"type": "unknown"} if data.get("failed") else {}
    message, kind, tool = str(error.get("message") or ""), str(error.get("type") or ""), data.get("function")
    if kind == "parsing":  # no tool ran: there is none of that name, or the arguments do not fit
        kind = "UnknownTool" if "not found" in message else "InvalidArguments"
    names = [value if isinstance(value, str) else "" for value in (call_id, tool)]
    text = said_in([{"role": "user", "content": data.get(key)}]) if isinstance(data.get(key), list) else as_text(data.get(key))
    return CallResult(text or message, names[0], names[1], bool(error), kind or None, data.get("arguments"))
