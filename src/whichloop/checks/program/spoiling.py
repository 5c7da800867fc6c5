"""What each fault makes of a model's reply."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from whichloop.models.faults import disturb, emptied
from whichloop.models.formats import spoiled_reply
from whichloop.models.scripted import PROVIDER_FAULTS
from whichloop.protocol import Act, Codec, Inexpressible, Move, ProviderError, Reply, ToolCall, ToolSpec, WireError
from whichloop.protocol.wire import to_json

PROSE = "I will work this out step by step, and call a tool for the first step."
REFUSAL = "I'm sorry, but I can't help with that."

PROVIDER: Mapping[str, str] = {
    "rate_limit": "provider.rate_limit",
    "server_error_once": "provider.server",
    "server_error_always": "provider.server",
    "dropped": "provider.dropped",
    "garbled": "provider.garbled",
    "cut_stream": "provider.cut",
}
"""Fault → the kind of the profiles that it is on the wire."""
RETRY_AFTER_S = 2.0

_DECISIONS = {
    "missing_argument": "decision.missing_argument",
    "extra_argument": "decision.extra_argument",
    "wrong_type": "decision.wrong_type",
    "unknown_tool": "decision.unknown_tool",
}


def provider_error(fault: str) -> tuple[ProviderError, str]:
    """Return the error of a provider's fault, and its kind on the wire."""
    kind = PROVIDER[fault]
    trouble, status, says = PROVIDER_FAULTS[kind]
    after = RETRY_AFTER_S if trouble == "rate_limit" else None
    return ProviderError(says, trouble, status=status, retry_after_s=after, injected=True), kind


def readable_move(codec: Codec, reply: Reply) -> Move | None:
    """Return the move of a reply; None for one that cannot be read."""
    try:
        return codec.parse(reply)
    except WireError:
        return None


def spoiled(fault: str, codec: Codec, move: Act, reply: Reply, tools: Mapping[str, ToolSpec]) -> Reply | None:
    """Return a reply with calls as a fault leaves it; None if its format has no room for the fault."""
    if fault in _DECISIONS:
        return _disturbed(_DECISIONS[fault], codec, move, reply, tools)
    match fault:
        case "cut_json" | "cut_length":
            return _cut(codec, move, reply, "length" if fault == "cut_length" else None)
        case "list_arguments":
            return _with_list(move, reply)
        case "duplicate_ids":
            first, *rest = reply.calls or (None,)
            return replace(reply, calls=(first, *(replace(call, id=first.id) for call in rest))) if first and rest else None
        case "empty":
            return emptied("wire.empty", reply)
        case "prose":
            return replace(reply, text=PROSE, calls=(), finish_reason="stop")
        case "refusal":
            return replace(reply, text=REFUSAL, calls=(), finish_reason="content_filter")
    return reply


def rendered(codec: Codec, calls: tuple[ToolCall, ...], reply: Reply) -> Reply | None:
    """Return a reply that makes these calls; None if the format has no room for them."""
    for thought in ("I should make sure of this.", ""):
        try:
            made = codec.render(Act(thought, calls))
        except Inexpressible:
            continue
        return replace(made, usage=reply.usage)
    return None


def _disturbed(kind: str, codec: Codec, move: Act, reply: Reply, tools: Mapping[str, ToolSpec]) -> Reply | None:
    for disturbed in disturb(kind, move, {}, tools):
        try:
            return None if disturbed == move else replace(codec.render(disturbed), usage=reply.usage)
        except Inexpressible:
            continue
    return None


def _cut(codec: Codec, move: Act, reply: Reply, finish: str | None) -> Reply | None:
    """Cut the arguments of the first call, or the text that the call is written in."""
    if reply.calls:
        first, *rest = reply.calls
        cut = replace(first, arguments=first.arguments[: len(first.arguments) // 2])
        cut_reply = replace(reply, calls=(cut, *rest))
    else:
        cut_reply, absorbed = spoiled_reply("wire.truncated", codec, move, reply)
        if absorbed:
            return None
    return replace(cut_reply, finish_reason="length" if finish else reply.finish_reason)


def _with_list(move: Act, reply: Reply) -> Reply | None:
    """Write the first call's arguments as a list of their values."""
    arguments = dict(move.calls[0].arguments)
    values = list(arguments.values())
    if reply.calls:
        first, *rest = reply.calls
        return replace(reply, calls=(replace(first, arguments=json.dumps(values)), *rest))
    for written in _writings(arguments):
        if written in reply.text:
            return replace(reply, text=reply.text.replace(written, json.dumps(values), 1))
    return None


def _writings(arguments: Mapping[str, object]) -> Iterator[str]:
    yield to_json(dict(arguments))
    yield json.dumps(arguments)
    yield json.dumps(arguments, separators=(",", ":"))
