"""Anthropic's Messages API as JSON, the server's side: reads a request, and writes a reply whole or as a stream, or an error.

It follows the API reference, "Messages" (platform.claude.com/docs/en/api/messages), and the types of Anthropic's client 2.14
(github.com/anthropics/anthropic-sdk-python). Pure: nothing here knows a socket.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from whichloop.models.scripted_calls import PIECE
from whichloop.protocol import Message, Reply, Request, Sampling
from whichloop.protocol.chat import FinishReason
from whichloop.protocol.digest import sha256
from whichloop.protocol.json_text import Json, finite_number, refuse_constant
from whichloop.protocol.tokens import estimate_input, estimate_usage
from whichloop.protocol.wire import from_json

from .anthropic_fields import (
    DEFAULT_TTL,
    cache_plan,
    check_closed,
    check_thinking,
    checked,
    number,
    one_of,
    only_known,
    optional,
    read_tool_choice,
    read_tools,
    refused,
    required,
)
from .anthropic_history import MESSAGE_PREFIX, NOT_FOUND, kept_thread, read_messages, system_text, their_id, whole_body, with_reply
from .contract import (
    ErrorAnswer,
    Incoming,
    Path,
    RateLimitState,
    Recall,
    Stamp,
    StreamEvent,
    Wire,
    WireFailure,
    WirePage,
    WireRequest,
)
from .fields import BadRequest, check_depth
from .openai_fields import examples_in, named_model, role_in

_DECODER = json.JSONDecoder(parse_constant=refuse_constant, parse_float=finite_number)
_SPACE = " \t\n\r"


def whole_members(text: str) -> dict[str, Json]:
    """Return the members that a comma ends: the last one may be cut, and is left out. Empty for a text that is no object."""
    place = _after_space(text, 0)
    members: dict[str, Any] = {}
    if text[place : place + 1] != "{":
        return members
    while True:
        try:
            key, place = _DECODER.raw_decode(text, _after_space(text, place + 1))
            place = _after_space(text, place)
            if not isinstance(key, str) or text[place : place + 1] != ":":
                return members
            value, place = _DECODER.raw_decode(text, _after_space(text, place + 1))
        except (ValueError, RecursionError):
            return members
        place = _after_space(text, place)
        if text[place : place + 1] != ",":
            return members
        members[key] = value


def _after_space(text: str, place: int) -> int:
    while text[place : place + 1] and text[place] in _SPACE:
        place += 1
    return place


VERSIONS = ("2023-01-01", "2023-06-01", "2026-10-21")
"""What the header `anthropic-version` may say (platform.claude.com/docs/en/api/versioning), the latest last."""
MAX_USER_ID_CHARS = 256
BEGUN_EVENTS = 4
"""Events of a stream before the error in it: a message and a block have begun, and the first word is there."""
OVERLOADED = 529
"""Status of a model that is overloaded, which Anthropic alone has."""


class MessagesWire(Wire):
    """Messages: requests below `/v1/messages`, and those to pages of no other API whose client names the version of this one."""

    name = "messages"

    def is_addressed(self, path: Path, headers: Mapping[str, str]) -> bool:
        return path[:2] == ("v1", "messages") or ("anthropic-version" in headers and path[:2] != ("v1", "chat"))

    def page(self, path: Path) -> WirePage | None:
        if path == ("v1", "messages"):
            return WirePage("reply")
        if path == ("v1", "messages", "count_tokens"):
            return WirePage("count")
        return WirePage("models", "GET", named_model(path)) if path[:2] == ("v1", "models") else None

    def read(self, incoming: Incoming) -> WireRequest:
        version = _version(incoming.headers)
        return read_request(incoming.body, version, incoming.recall, counting=incoming.path[-1:] == ("count_tokens",))

    def reply(self, request: WireRequest, reply: Reply, stamp: Stamp) -> dict[str, Any]:
        return _message(request, _content(reply), _usage(request, reply, stamp), stamp) | _stop(reply, stamp)

    def events(self, request: WireRequest, reply: Reply, stamp: Stamp) -> Iterator[StreamEvent]:
        for event in stream_events(request, reply, stamp):
            yield StreamEvent(event["type"], event)

    def failed_events(self, request: WireRequest, begun: Reply, failure: WireFailure, stamp: Stamp) -> Iterator[StreamEvent]:
        """Yield the events of a stream that fails: the event `error` may come at any place of it
        (platform.claude.com/docs/en/build-with-claude/streaming)."""
        yield from islice(self.events(request, begun, stamp), BEGUN_EVENTS)
        yield StreamEvent("error", self.failure(failure).body)

    def failure(self, failure: WireFailure, limits: RateLimitState | None = None) -> ErrorAnswer:
        status = _status(failure)
        request_id = _request_id(sha256(repr(failure))[:24])  # equal runs meet equal errors, which loops may show to the model
        headers = {"request-id": request_id, "x-should-retry": "true" if status in _RETRIED or status >= 500 else "false"}
        if limits is not None:
            headers |= _limit_headers(limits, time.time())
        if failure.wait_s is not None:
            headers["retry-after"] = f"{failure.wait_s:g}"
        body = error_body(_type_of(status), _worded(failure), request_id)
        if failure.code == NOT_FOUND:
            body["error"]["details"] = {"error_code": NOT_FOUND}
        return ErrorAnswer(status, body, headers)

    def models(self, names: Sequence[str], created: int) -> Any:
        data = [self.model(name, created) for name in names]
        ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
        return {"data": data, "has_more": False, **ends}

    def model(self, name: str, created: int) -> Any:
        return {"type": "model", "id": name, "display_name": name, "created_at": _moment(created), "lifecycle": "active"}

    def limit_headers(self, limits: RateLimitState, stamp: Stamp) -> dict[str, str]:
        return {"request-id": _request_id(stamp.id), **_limit_headers(limits, stamp.created)}

    def count(self, tokens: int) -> Any:
        return {"input_tokens": tokens}

    def remembered(self, request: WireRequest, reply: Reply, stamp: Stamp) -> tuple[str, Sequence[Any]] | None:
        if not request.items:
            return None
        return _message_id(stamp), (with_reply(request.items[0], _content(reply)),)


MESSAGES = MessagesWire()


# --- reading ---


def _version(headers: Mapping[str, str]) -> str:
    """Return the version of the API that a request is written for. Raises BadRequest."""
    version = headers.get("anthropic-version")
    if version is None:
        raise refused("anthropic-version", "header is required")
    if version not in VERSIONS:
        raise refused("anthropic-version", f'"{version[:64]}" is not a valid version')
    return version


_COUNTED = frozenset(
    {
        "billing_policy", "cache_control", "compaction", "context_management", "mcp_servers", "messages", "model", "output_config",
        "output_format", "speed", "system", "thinking", "tool_choice", "tools", "user_profile_id", "workspace_id",
    }
)  # fmt: skip
_RANDOMNESS = frozenset({"temperature", "top_k", "top_p"})
"""Fields that the version of 2026-10-21 no longer has."""
_FIELDS = _COUNTED | {
    "container", "diagnostics", "fallback_credit_token", "fallbacks", "inference_geo", "max_tokens", "metadata", "service_tier",
    "stop_sequences", "stream", "thread",
}  # fmt: skip
"""Fields of MessageCreateParams and of its beta in Anthropic's client 2.14, and the beta's `output_format`, which came before
`output_config`."""


def read_request(
    body: object, version: str = VERSIONS[-1], recall: Recall = lambda _: None, *, counting: bool = False
) -> WireRequest:
    """Read a request from a decoded JSON body. Raises BadRequest in Anthropic's words.

    `recall`: returns what was kept of an earlier reply, see `MessagesWire.remembered`. `counting`: the request asks for its tokens
    to be counted, and has fewer fields. Input in the history is written as the scripted model writes arguments.
    """
    if not isinstance(body, dict):
        raise BadRequest("Input should be a valid dictionary")
    check_depth(body)
    only_known(body, (_COUNTED if counting else _FIELDS) | (_RANDOMNESS if version < VERSIONS[-1] else frozenset()))
    body = whole_body(body, recall)
    model = required(body, "model", str)
    if not model:
        raise refused("model", "String should have at least 1 character")
    sampling = Sampling() if counting else _sampling(body)
    metadata = _metadata(body)
    system = system_text(body.get("system"))
    messages = read_messages(required(body, "messages", list), may_cite=version < VERSIONS[-1])
    tools = read_tools(body)
    choice = read_tool_choice(body, tools)
    check_thinking(body)
    request = Request(
        (Message("system", system), *messages) if system else messages,
        tools,
        choice.choice,
        _reply_schema(body),
        sampling,
        choice.parallel,
        role=role_in(metadata),
        scope=metadata.get("scope", ""),
        examples=examples_in(metadata, len(messages)),
    )
    stream = bool(optional(body, "stream", bool))
    plan = cache_plan(body, estimate_input(request))
    items = kept_thread(body)
    return WireRequest(request, model, stream, metadata=metadata, echo={"ttl": plan.ttl}, items=items, marks=plan.marks)


_OWN_METADATA = ("codec", "examples", "role", "scope")
"""What a loop's own client may say (see docs/serve.md)."""


def _metadata(body: Mapping[str, object]) -> dict[str, str]:
    """Return what a loop's own client says of a request. Raises BadRequest."""
    metadata = optional(body, "metadata", dict) or {}
    only_known(metadata, ("user_id", *_OWN_METADATA), "metadata")
    user_id = optional(metadata, "user_id", str, "metadata.user_id")
    if user_id is not None and len(user_id) > MAX_USER_ID_CHARS:
        raise refused("metadata.user_id", f"String should have at most {MAX_USER_ID_CHARS} characters")
    return {name: checked(metadata[name], str, f"metadata.{name}") for name in _OWN_METADATA if name in metadata}


def _sampling(body: Mapping[str, object]) -> Sampling:
    required(body, "max_tokens", int)
    number(body, "top_k", 0, 1 << 31, whole=True)
    return Sampling(
        number(body, "temperature", 0, 1),
        number(body, "max_tokens", 0, 1 << 31, whole=True),
        number(body, "top_p", 0, 1),
        stop=_stops(body),
    )


def _stops(body: Mapping[str, object]) -> tuple[str, ...]:
    stops = optional(body, "stop_sequences", list) or []
    for place, stop in enumerate(stops):
        if not checked(stop, str, f"stop_sequences.{place}").strip():
            raise refused("stop_sequences", "each stop sequence must contain non-whitespace")
    return tuple(stops)


def _reply_schema(body: Mapping[str, object]) -> Mapping[str, Json] | None:
    """Return the schema of the reply, which was a field of its own in the beta."""
    config = optional(body, "output_config", dict) or {}
    where = "output_format" if config.get("format") is None else "output_config.format"
    reply_format = optional(body, "output_format", dict) if where == "output_format" else checked(config["format"], dict, where)
    if reply_format is None:
        return None
    one_of(required(reply_format, "type", str, f"{where}.type"), ("json_schema",), f"{where}.type")
    schema = required(reply_format, "schema", dict, f"{where}.schema")
    check_closed(schema, f"{where}.schema")
    return schema


# --- writing ---

_STOP: Mapping[FinishReason, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "other": "end_turn",  # Anthropic has no name for it
}


def _message(request: WireRequest, content: Sequence[object], usage: Mapping[str, object], stamp: Stamp) -> dict[str, Any]:
    """Write a message that has not ended yet."""
    head = {"id": _message_id(stamp), "type": "message", "role": "assistant", "model": request.model}
    return {**head, "content": content, "stop_reason": None, "stop_sequence": None, "stop_details": None, "usage": usage}


def _message_id(stamp: Stamp) -> str:
    return MESSAGE_PREFIX + stamp.id


def _stop(reply: Reply, stamp: Stamp) -> dict[str, Json]:
    """Write why a message ends. A reply with calls always ends for them, unless it is cut."""
    reason = "stop_sequence" if stamp.stopped_at else _STOP[reply.finish_reason]
    if reply.calls and reason == "end_turn":
        reason = "tool_use"
    return {"stop_reason": reason, "stop_sequence": stamp.stopped_at or None, "stop_details": None}


def _content(reply: Reply) -> list[Any]:
    """Write the blocks of a message. Of arguments that are no JSON object, its whole members are all that JSON has room for."""
    texts = [{"type": "text", "text": reply.text}] if reply.text else []
    return texts + [_tool_use(call.id, call.name, _input(call.arguments)) for call in reply.calls]


def _input(arguments: str) -> dict[str, Json]:
    try:
        value = from_json(arguments or "{}")
    except ValueError:
        return whole_members(arguments)
    return value if isinstance(value, dict) else {}


def _tool_use(call_id: str, name: str, arguments: Mapping[str, object]) -> dict[str, Any]:
    return {"type": "tool_use", "id": their_id(call_id), "name": name, "input": arguments, "caller": {"type": "direct"}}


def _usage(request: WireRequest, reply: Reply, stamp: Stamp) -> dict[str, Any]:
    """Write the usage of a reply: the tokens read from the cache and written to it do not count as input."""
    usage = reply.usage or estimate_usage(estimate_input(request.request), reply)
    read = stamp.cache_read or usage.cached_tokens
    long_lived = request.echo.get("ttl", DEFAULT_TTL) != DEFAULT_TTL
    return {
        "input_tokens": max(0, usage.input_tokens - read - stamp.cache_written),
        "cache_creation_input_tokens": stamp.cache_written,
        "cache_read_input_tokens": read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": 0 if long_lived else stamp.cache_written,
            "ephemeral_1h_input_tokens": stamp.cache_written if long_lived else 0,
        },
        "output_tokens": usage.output_tokens,
        "service_tier": "standard",
    }


def stream_events(request: WireRequest, reply: Reply, stamp: Stamp) -> Iterator[dict[str, Any]]:
    """Write the data of a stream's events; each names its type. Arguments come as they are, JSON or not."""
    usage = _usage(request, reply, stamp)
    yield {
        "type": "message_start",
        "message": _message(request, [], usage | {"output_tokens": min(1, usage["output_tokens"])}, stamp),
    }
    for index, block in enumerate(_blocks(reply)):
        start, *deltas = block
        yield {"type": "content_block_start", "index": index, "content_block": start}
        if not index:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    counted = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    yield {"type": "message_delta", "delta": _stop(reply, stamp), "usage": {name: usage[name] for name in counted}}
    yield {"type": "message_stop"}


def _blocks(reply: Reply) -> Iterator[list[dict[str, Any]]]:
    """Yield the blocks of a stream, each as its beginning and its deltas; a call's first delta is empty."""
    if reply.text:
        first, *words = reply.text.split(" ")
        pieces = [first, *(f" {word}" for word in words)]
        yield [{"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces if piece)]
    for call in reply.calls:
        parts = ["", *(call.arguments[start : start + PIECE] for start in range(0, len(call.arguments), PIECE))]
        deltas = ({"type": "input_json_delta", "partial_json": part} for part in parts)
        yield [_tool_use(call.id, call.name, {}), *deltas]


# --- errors and headers ---

_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_RETRIED = (408, 409, 429)
"""Statuses below 500 after which a client is told to try again."""


def _status(failure: WireFailure) -> int:
    """Return the status as Anthropic has it."""
    if failure.code == NOT_FOUND:
        return 404
    return OVERLOADED if failure.status == 503 else failure.status


def _type_of(status: int) -> str:
    return _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


def _worded(failure: WireFailure) -> str:
    """Return what an error says. Clients know a request beyond the context by Anthropic's words for it."""
    return f"prompt is too long: {failure.message}" if failure.code == "context_length_exceeded" else failure.message


def error_body(type: str, message: str, request_id: str) -> dict[str, Any]:  # noqa: A002  # Anthropic's word
    """Write an error in Anthropic's format (platform.claude.com/docs/en/api/errors)."""
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": request_id}


def _request_id(key: str) -> str:
    return f"req_{key}"


def _limit_headers(limits: RateLimitState, now: float) -> dict[str, str]:
    """Return Anthropic's headers (platform.claude.com/docs/en/api/rate-limits); input and output have one limit here."""
    requests = {"limit": limits.max_requests, "remaining": limits.requests, "reset": _moment(now, limits.requests_reset_s)}
    tokens = {"limit": limits.max_tokens, "remaining": limits.tokens, "reset": _moment(now, limits.tokens_reset_s)}
    kinds = {"requests": requests, "tokens": tokens, "input-tokens": tokens, "output-tokens": tokens}
    return {f"anthropic-ratelimit-{kind}-{name}": str(value) for kind, has in kinds.items() for name, value in has.items()}


def _moment(seconds: float, later_s: float = 0.0) -> str:
    """Return a time as RFC 3339 has it, in whole seconds. `seconds`: since 1970."""
    return f"{datetime.fromtimestamp(int(seconds), UTC) + timedelta(seconds=round(later_s)):%Y-%m-%dT%H:%M:%SZ}"
