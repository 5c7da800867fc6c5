"""OpenAI's Responses, the server's side: reads a request, and writes a response whole or as events, or an error.

It follows the API reference, "Responses" (platform.openai.com/docs/api-reference/responses). Pure: nothing here knows a socket.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from whichloop.models.scripted_calls import pieces
from whichloop.protocol import Message, Reply, Request, Sampling, Usage
from whichloop.protocol.chat import FinishReason
from whichloop.protocol.json_text import Json

from .contract import ErrorAnswer, Incoming, Path, RateLimitState, Recall, Stamp, StreamEvent, WireFailure, WirePage, WireRequest
from .fields import BadRequest, invalid_value, optional, optional_number, required, required_text
from .openai_fields import (
    OpenAIWire,
    examples_in,
    json_object,
    read_metadata,
    reply_schema,
    role_in,
)
from .response_items import RESPONSE_PREFIX, item_id, read_input, read_tool_choice, read_tools

MIN_OUTPUT_TOKENS = 16
BEGUN_EVENTS = 5
"""Events of a stream up to its first piece of text."""


class ResponsesWire(OpenAIWire):
    """Responses: requests for `/v1/responses` and below."""

    name: ClassVar[str] = "responses"

    def is_addressed(self, path: Path, headers: Mapping[str, str]) -> bool:
        return path[:2] == ("v1", "responses")

    def page(self, path: Path) -> WirePage | None:
        return WirePage("reply") if path == ("v1", "responses") else None

    def read(self, incoming: Incoming) -> WireRequest:
        return read_request(incoming.body, incoming.recall)

    def reply(self, request: WireRequest, reply: Reply, stamp: Stamp) -> dict[str, Any]:
        return _ended(request, reply, stamp)

    def events(self, request: WireRequest, reply: Reply, stamp: Stamp) -> Iterator[StreamEvent]:
        return _numbered(_events(request, reply, stamp))

    def failed_events(self, request: WireRequest, begun: Reply, failure: WireFailure, stamp: Stamp) -> Iterator[StreamEvent]:
        """Return the events of a stream that fails. Both last ones came in a real stream (github.com/vercel/ai,
        `openai-error.1.chunks.txt`); the first of them makes clients raise."""
        events = [event for event, _ in zip(_events(request, begun, stamp), range(BEGUN_EVENTS), strict=False)]
        error = {"code": "server_error", "message": failure.message}
        events.append({"type": "error", "error": {"type": "server_error", **error, "param": None}})
        events.append({"type": "response.failed", "response": _response(request, stamp, "failed") | {"error": error}})
        return _numbered(iter(events))

    def failure(self, failure: WireFailure, limits: RateLimitState | None = None) -> ErrorAnswer:
        too_long = failure.code == "context_length_exceeded"
        return super().failure(replace(failure, param="input") if too_long else failure, limits)

    def remembered(self, request: WireRequest, reply: Reply, stamp: Stamp) -> tuple[str, Sequence[Any]] | None:
        if not request.echo["store"]:
            return None
        return RESPONSE_PREFIX + stamp.id, (*request.items, *_output(reply, stamp.id))


RESPONSES = ResponsesWire()


# --- reading ---

_FIELDS = frozenset(
    {
        "background", "context_management", "conversation", "include", "input", "instructions", "max_output_tokens",
        "max_tool_calls", "metadata", "model", "moderation", "parallel_tool_calls", "previous_response_id", "prompt",
        "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier",
        "store", "stream", "stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation",
        "user",
    }
)  # fmt: skip
"""Fields of CreateResponse in OpenAI's specification (github.com/openai/openai-openapi, 2.3.0)."""
_OF_CODEX = frozenset({"client_metadata", "access_programs"})
"""Fields that the Codex command line sends beside them (github.com/openai/codex, ResponsesApiRequest)."""
_MOVED = {
    "messages": "input",
    "response_format": "text.format",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "verbosity": "text.verbosity",
}
"""Fields of chat completions, and where Responses has them."""


def read_request(body: object, recall: Recall = lambda _: None) -> WireRequest:
    """Read a request from a decoded JSON body. Raises BadRequest in OpenAI's words.

    `recall`: see `Incoming`. `text.format` of type json_object is the schema `{"type": "object"}`.
    """
    data = _checked_object(body)
    model = required_text(data, "model")
    stream = bool(optional(data, "stream", bool))
    if data.get("stream_options") is not None and not stream:
        raise BadRequest("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    items, conversation = read_input(data, recall)
    tools = read_tools(data)
    metadata = read_metadata(data)
    instructions = optional(data, "instructions", str)
    request = Request(
        (Message("system", instructions), *conversation) if instructions else conversation,
        tools,
        read_tool_choice(data, tools),
        _reply_schema(data, conversation),
        Sampling(optional_number(data, "temperature", 0, 2), _max_tokens(data), optional_number(data, "top_p", 0, 1)),
        optional(data, "parallel_tool_calls", bool) is not False,
        role=role_in(metadata),
        scope=metadata.get("scope", ""),
        examples=examples_in(metadata, len(conversation)),
    )
    return WireRequest(request, model, stream, metadata=metadata, echo=_echo(data, metadata), items=items)


def _checked_object(body: object) -> dict[str, Json]:
    data = json_object(body)
    for name in data:
        if name in _MOVED:
            problem = f"Unsupported parameter: '{name}'. In the Responses API, this parameter has moved to '{_MOVED[name]}'."
            raise BadRequest(f"{problem} Try again with the new parameter.", name, "unsupported_parameter")
        if name not in _FIELDS and name not in _OF_CODEX:
            raise BadRequest(f"Unknown parameter: '{name[:64]}'.", name[:64], "unknown_parameter")
    for name in ("background", "conversation", "prompt"):  # each would need a store of its own
        if data.get(name):
            raise BadRequest(f"Unsupported parameter: '{name}' is not supported with this model.", name, "unsupported_parameter")
    return data


def _max_tokens(data: Mapping[str, object]) -> int | None:
    limit: int | None = optional_number(data, "max_output_tokens", -math.inf, math.inf, whole=True)
    if limit is not None and limit < MIN_OUTPUT_TOKENS:
        problem = f"integer below minimum value. Expected a value >= {MIN_OUTPUT_TOKENS}, but got {limit} instead."
        raise BadRequest(f"Invalid 'max_output_tokens': {problem}", "max_output_tokens", "integer_below_min_value")
    return limit


def _reply_schema(data: Mapping[str, object], conversation: Sequence[Message]) -> Mapping[str, Json] | None:
    text = optional(data, "text", dict) or {}
    text_format = optional(text, "format", dict, "text.format")
    if text_format is None:
        return None
    kind = required_text(text_format, "type", "text.format.type")
    if kind == "text":
        return None
    if kind == "json_object":
        if not any("json" in message.content.lower() for message in conversation):
            problem = "must contain the word 'json' in some form to use 'text.format' of type 'json_object'."
            raise BadRequest(f"Response input messages {problem}", "input")
        return {"type": "object"}
    if kind != "json_schema":
        supported = "Supported values are: 'json_object', 'json_schema', and 'text'."
        raise invalid_value("text.format.type", f"Invalid value: '{kind[:64]}'. {supported}")
    required(text_format.get("schema"), dict, "text.format.schema")
    return reply_schema(text_format, "text.format", "text.format.schema", "invalid_json_schema")


def _echo(data: Mapping[str, Any], metadata: Mapping[str, str]) -> dict[str, Json]:
    """Return what a response repeats of its request, with OpenAI's defaults; OpenAI's own documentation names those."""
    unsaid = {"strict": True, "parameters": None, "output_schema": None, "description": None}
    tools = [unsaid | tool if tool.get("type") == "function" else tool for tool in data.get("tools") or ()]
    defaults = {
        "background": False,
        "frequency_penalty": 0.0,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "moderation": None,
        "parallel_tool_calls": True,
        "presence_penalty": 0.0,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "prompt_cache_retention": None,
        "safety_identifier": None,
        "store": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
    }
    return {
        **{name: default if data.get(name) is None else data[name] for name, default in defaults.items()},
        "metadata": dict(metadata),
        "reasoning": {"effort": None, "summary": None} | (optional(data, "reasoning", dict) or {}),
        "service_tier": "default",
        "text": {"format": {"type": "text"}, "verbosity": "medium"}
        | {name: value for name, value in (data.get("text") or {}).items() if value is not None},
        "tools": tools,
    }


# --- writing ---

_REASONS: Mapping[FinishReason, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Why a response is incomplete; those that end otherwise are complete."""
_INCOMPLETE_ITEM = "incomplete"


def _response(request: WireRequest, stamp: Stamp, status: str) -> dict[str, Any]:
    """Write a response without output."""
    return {
        "id": RESPONSE_PREFIX + stamp.id,
        "object": "response",
        "created_at": stamp.created,
        "status": status,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": request.model,
        "output": [],
        "usage": None,
        **request.echo,
    }


def _ended(request: WireRequest, reply: Reply, stamp: Stamp) -> dict[str, Any]:
    """Write the response that a reply is."""
    reason = _REASONS.get(reply.finish_reason)
    response = _response(request, stamp, "completed" if reason is None else "incomplete")
    response |= {"output": _output(reply, stamp.id), "usage": None if reply.usage is None else _usage(reply.usage)}
    return response | ({"completed_at": stamp.created} if reason is None else {"incomplete_details": {"reason": reason}})


def _output(reply: Reply, answer: str) -> list[dict[str, Json]]:
    """Write a reply's items: a message, if there is text or nothing else, and the calls. The last of a cut reply is incomplete."""
    items: list[dict[str, Any]] = []
    if reply.text or not reply.calls:
        items.append(
            {
                "id": item_id("msg", answer, 0),
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [_text_part(reply.text)],
            }
        )
    for call in reply.calls:
        items.append(
            {
                "id": item_id("fc", answer, len(items)),
                "type": "function_call",
                "status": "completed",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
            }
        )
    if reply.finish_reason in _REASONS:
        items[-1]["status"] = _INCOMPLETE_ITEM
    return items


def _text_part(text: str) -> dict[str, Json]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total_tokens,
    }


# --- streaming ---


def _numbered(events: Iterator[dict[str, Any]]) -> Iterator[StreamEvent]:
    for number, event in enumerate(events):
        yield StreamEvent(event["type"], event | {"sequence_number": number})


def _events(request: WireRequest, reply: Reply, stamp: Stamp) -> Iterator[dict[str, Any]]:
    """Write the events of a whole reply, without their numbers.

    Of an item that is cut the deltas stop, and what closes its text or arguments does not come: OpenAI ends it with
    `output_item.done` alone, and the stream with `response.incomplete` (github.com/vercel/ai/pull/20405).
    """
    for kind in ("created", "in_progress"):
        yield {"type": f"response.{kind}", "response": _response(request, stamp, "in_progress")}
    response = _ended(request, reply, stamp)
    texts, arguments = _deltas(reply)
    for place, item in enumerate(response["output"]):
        deltas = texts if item["type"] == "message" else arguments.pop(0)
        is_message = item["type"] == "message"
        empty: dict[str, object] = {"content": []} if is_message else {"arguments": ""}
        yield {"type": "response.output_item.added", "output_index": place, "item": item | empty | {"status": "in_progress"}}
        yield from (_text_events if is_message else _argument_events)(item, place, deltas)
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def _deltas(reply: Reply) -> tuple[list[str], list[list[str]]]:
    """Return the pieces of a reply's text, and those of each call's arguments."""
    texts: list[str] = []
    arguments: list[list[str]] = [[] for _ in reply.calls]
    for piece in pieces(reply):
        if piece.text:
            texts.append(piece.text)
        if piece.call is not None and piece.call.arguments:
            arguments[piece.call.index].append(piece.call.arguments)
    return texts, arguments


def _text_events(item: dict[str, Any], place: int, deltas: Sequence[str]) -> Iterator[dict[str, Json]]:
    at = {"item_id": item["id"], "output_index": place, "content_index": 0}
    (part,) = item["content"]
    yield {"type": "response.content_part.added", **at, "part": _text_part("")}
    for delta in deltas:
        yield {"type": "response.output_text.delta", **at, "delta": delta, "logprobs": []}
    if item["status"] != _INCOMPLETE_ITEM:
        yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **at, "part": part}


def _argument_events(item: dict[str, Any], place: int, deltas: Sequence[str]) -> Iterator[dict[str, Json]]:
    at = {"item_id": item["id"], "output_index": place}
    for delta in deltas:
        yield {"type": "response.function_call_arguments.delta", **at, "delta": delta}
    if item["status"] != _INCOMPLETE_ITEM:
        yield {"type": "response.function_call_arguments.done", **at, "name": item["name"], "arguments": item["arguments"]}
