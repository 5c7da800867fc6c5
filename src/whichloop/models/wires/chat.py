"""OpenAI's chat completions as JSON, the server's side: reads a request, and writes a reply whole or in chunks, or an error.

It follows the API reference, "Chat" (platform.openai.com/docs/api-reference/chat). Pure: nothing here knows a socket.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from whichloop.models.scripted_calls import pieces
from whichloop.protocol import Message, NativeCall, Reply, Request, Sampling, ToolSpec, Usage
from whichloop.protocol.chat import FinishReason, MessageRole
from whichloop.protocol.json_text import Json

from .contract import Incoming, Path, Stamp, StreamEvent, WireFailure, WirePage, WireRequest
from .fields import (
    BadRequest,
    bounded_text,
    filled_list,
    invalid_value,
    name_field,
    optional,
    optional_number,
    required,
    required_text,
    wrong_type,
)
from .openai_fields import (
    MAX_MESSAGES,
    OpenAIWire,
    check_type,
    examples_in,
    failure_body,
    function_tool,
    named_model,
    normalized_arguments,
    parallel_calls,
    read_metadata,
    reply_schema,
    request_object,
    role_in,
    tool_choice,
    tool_list,
)


def check_history(messages: Sequence[Message]) -> None:
    """Check that the calls of every assistant message are answered by the tool messages right after it, each by one.

    Raises BadRequest.
    """
    waiting: dict[str, None] = {}
    answered: dict[str, int] = {}
    for place, message in enumerate(messages):
        if message.role == "tool":
            _check_answer(place, message.call_id, waiting, answered)
            waiting.pop(message.call_id)
            answered[message.call_id] = place
            continue
        _check_answered(f"messages.[{place}].role", waiting)
        waiting, answered = dict.fromkeys(call.id for call in message.calls), {}
    _check_answered("messages", waiting)


def _check_answer(place: int, call_id: str, waiting: dict[str, None], answered: dict[str, int]) -> None:
    """Check that a tool message answers a call that waits for it."""
    where = f"messages.[{place}].tool_call_id"
    if not waiting and not answered:
        problem = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
        raise BadRequest(f"Invalid parameter: {problem}", f"messages.[{place}].role")
    if call_id in answered:
        problem = f"Duplicate value for 'tool_call_id' of '{call_id}', in messages[{answered[call_id]}] and messages[{place}]."
        raise BadRequest(f"Invalid parameter: {problem}", where)
    if call_id not in waiting:
        problem = f"'tool_call_id' of '{call_id}' not found in 'tool_calls' of previous message."
        raise BadRequest(f"Invalid parameter: {problem}", where)


def _check_answered(where: str, waiting: dict[str, None]) -> None:
    """Check that no call is left without an answer; `where`: the message that comes in its place."""
    if waiting:
        problem = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        missing = f"The following tool_call_ids did not have response messages: {', '.join(waiting)}"
        raise BadRequest(f"{problem} {missing}", where)


MAX_CALLS = 1_024
"""Calls in one message."""
MAX_CALL_ID_CHARS = 40
MAX_STOPS = 4


class ChatWire(OpenAIWire):
    """Chat Completions. Every request that is not addressed to another vendor's API is addressed to this one."""

    name = "chat"
    stream_end = b"data: [DONE]\n\n"

    def is_addressed(self, path: Path, headers: Mapping[str, str]) -> bool:
        return True

    def page(self, path: Path) -> WirePage | None:
        if path == ("v1", "chat", "completions"):
            return WirePage("reply")
        return WirePage("models", "GET", named_model(path)) if path[:2] == ("v1", "models") else None

    def read(self, incoming: Incoming) -> WireRequest:
        return read_request(incoming.body)

    def reply(self, request: WireRequest, reply: Reply, stamp: Stamp) -> dict[str, Any]:
        return completion(reply, request.model, f"chatcmpl-{stamp.id}", stamp.created)

    def events(self, request: WireRequest, reply: Reply, stamp: Stamp) -> Iterator[StreamEvent]:
        for chunk in chunks(reply, request.model, f"chatcmpl-{stamp.id}", stamp.created, request.include_usage):
            yield StreamEvent("", chunk)

    def failed_events(self, request: WireRequest, begun: Reply, failure: WireFailure, stamp: Stamp) -> Iterator[StreamEvent]:
        """Yield the events of a stream that fails: OpenAI's client raises APIError for an event with the field `error`
        (openai 2.54.0, `_streaming.py`)."""
        yield from islice(self.events(request, begun, stamp), 2)
        yield StreamEvent("", failure_body(failure))


CHAT = ChatWire()


# --- reading ---


def read_request(body: object) -> WireRequest:
    """Read a request from a decoded JSON body. Raises BadRequest in OpenAI's words.

    `response_format` json_object is the schema `{"type": "object"}`. Arguments in the history are written as the scripted model
    writes them; `{"_unparsed": text}`, which lm15 makes of arguments that are not JSON, becomes the text again.
    """
    data = request_object(body, _FIELDS)
    for legacy in ("functions", "function_call"):
        if data.get(legacy) is not None:
            problem = f"Unsupported parameter: '{legacy}' is not supported. Use 'tools' instead."
            raise BadRequest(problem, legacy, "unsupported_parameter")
    model = required_text(data, "model")
    messages = tuple(_message(item, place) for place, item in enumerate(_messages(data)))
    check_history(messages)
    tools = tool_list(data, _tool, "function.name")
    if (optional_number(data, "n", 1, 128, whole=True) or 1) != 1:
        raise BadRequest("Invalid value for 'n': only 1 choice is supported.", "n", "unsupported_value")
    metadata = read_metadata(data)
    request = Request(
        messages,
        tools,
        tool_choice(data, tools, lambda each, where: _function(each, where)[1], "allowed_tools"),
        _response_schema(data, messages),
        _sampling(data),
        parallel_calls(data, tools),
        role=role_in(metadata),
        scope=metadata.get("scope", ""),
        examples=examples_in(metadata, len(messages)),
    )
    stream = bool(optional(data, "stream", bool))
    options = optional(data, "stream_options", dict) or {}
    if options and not stream:
        raise BadRequest("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    include_usage = bool(optional(options, "include_usage", bool, "stream_options.include_usage"))
    return WireRequest(request, model, stream, include_usage, metadata)


_FIELDS = frozenset(
    {
        "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens",
        "messages", "metadata", "modalities", "model", "moderation", "n", "parallel_tool_calls", "prediction", "presence_penalty",
        "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort", "response_format",
        "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options", "temperature", "tool_choice",
        "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options",
    }
)  # fmt: skip
"""Fields of CreateChatCompletionRequest in OpenAI's specification (github.com/openai/openai-openapi, 2.3.0)."""


def _messages(body: Mapping[str, object]) -> list[Any]:
    required(body.get("messages"), list, "messages")
    return filled_list(body, "messages", MAX_MESSAGES)


_ROLES: Mapping[str, MessageRole] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def _message(item: Any, place: int) -> Message:
    where = f"messages[{place}]"
    data = required(item, dict, where)
    role_name = required_text(data, "role", f"{where}.role")
    role = _ROLES.get(role_name)
    if role is None:
        role_names = ", ".join(f"'{name}'" for name in _ROLES)
        raise invalid_value(f"{where}.role", f"Invalid value: '{role_name[:64]}'. Supported values are: {role_names}.")
    calls = filled_list(data, "tool_calls", MAX_CALLS, f"{where}.tool_calls") if role == "assistant" else ()
    if data.get("content") is None and not calls:
        raise BadRequest("Invalid value for 'content': expected a string, got null.", f"messages.[{place}].content")
    content = _content(data, f"{where}.content")
    if role == "tool":
        return Message(role, content, call_id=_answered_id(data, place))
    return Message(role, content, tuple(_call(call, f"{where}.tool_calls[{number}]") for number, call in enumerate(calls)))


def _answered_id(data: Mapping[str, object], place: int) -> str:
    if data.get("tool_call_id") is None:
        problem = "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'."
        raise BadRequest(problem, f"messages.[{place}].tool_call_id")
    return bounded_text(data, "tool_call_id", MAX_CALL_ID_CHARS, f"messages[{place}].tool_call_id")


def _content(data: Mapping[str, Any], where: str) -> str:
    """Return the text of a message, its parts joined; empty for null."""
    content = data.get("content")
    if isinstance(content, str):
        return content
    if content is not None and not isinstance(content, list):
        raise wrong_type(where, "a string or an array of parts", content)
    parts = filled_list(data, "content", MAX_MESSAGES, where)
    return "".join(_part(part, f"{where}[{place}]") for place, part in enumerate(parts))


def _part(part: object, where: str) -> str:
    data = required(part, dict, where)
    kind = required_text(data, "type", f"{where}.type")
    if kind not in ("text", "refusal"):
        problem = "Supported values are: 'text'."
        raise invalid_value(f"{where}.type", f"Invalid value: '{kind[:64]}'. {problem} This model reads text only.")
    return required(data.get(kind), str, f"{where}.{kind}")


def _call(item: Any, where: str) -> NativeCall:
    data = required(item, dict, where)
    call_id = bounded_text(data, "id", MAX_CALL_ID_CHARS, f"{where}.id")
    check_type(data, where)
    function, name = _function(data, where)
    arguments = required(function.get("arguments"), str, f"{where}.function.arguments")
    return NativeCall(call_id, name, normalized_arguments(arguments))


def _function(data: Mapping[str, Any], where: str) -> tuple[dict[str, Json], str]:
    """Return the function of a tool, a call or a choice, and its name."""
    function = required(data.get("function"), dict, f"{where}.function")
    return function, name_field(function, f"{where}.function.name")


def _tool(item: object, where: str) -> ToolSpec:
    data = required(item, dict, where)
    check_type(data, where)
    function, name = _function(data, where)
    return function_tool(function, name, f"{where}.function")


def _response_schema(body: Mapping[str, object], messages: tuple[Message, ...]) -> Mapping[str, Json] | None:
    response_format = optional(body, "response_format", dict)
    if response_format is None:
        return None
    kind = required_text(response_format, "type", "response_format.type")
    if kind == "text":
        return None
    if kind == "json_object":
        if not any("json" in message.content.lower() for message in messages):
            problem = "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
            raise BadRequest(problem, "messages")
        return {"type": "object"}
    if kind != "json_schema":
        supported = "Supported values are: 'text', 'json_object', and 'json_schema'."
        raise invalid_value("response_format.type", f"Invalid value: '{kind[:64]}'. {supported}")
    where = "response_format.json_schema"
    return reply_schema(required(response_format.get("json_schema"), dict, where), where, "response_format")


def _sampling(body: Mapping[str, object]) -> Sampling:
    newer = optional_number(body, "max_completion_tokens", 1, math.inf, whole=True)
    older = optional_number(body, "max_tokens", 1, math.inf, whole=True)
    if newer is not None and older is not None:
        problem = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
        raise BadRequest(problem, "max_tokens", "invalid_parameter_combination")
    return Sampling(
        optional_number(body, "temperature", 0, 2),
        newer if newer is not None else older,
        optional_number(body, "top_p", 0, 1),
        optional_number(body, "seed", -(2**63), 2**63 - 1, whole=True),
        _stops(body),
    )


def _stops(body: Mapping[str, Any]) -> tuple[str, ...]:
    if isinstance(body.get("stop"), str):
        return (body["stop"],)
    stops = filled_list(body, "stop", MAX_STOPS)
    for place, stop in enumerate(stops):
        if not isinstance(stop, str):
            raise wrong_type(f"stop[{place}]", "a string", stop)
    return tuple(stops)


# --- writing ---

_FINISH: Mapping[FinishReason, str] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
    "other": "stop",  # OpenAI has no name for it
}


_SERVED = {"service_tier": "default", "system_fingerprint": "fp_whichloop"}
"""What real replies say of who has served them."""
_KINDS_OF_TOKENS = ("reasoning_tokens", "audio_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens")


def completion(reply: Reply, model: str, id: str, created: int) -> dict[str, Any]:  # noqa: A002  # OpenAI's word
    """Write the body of a whole reply. `created`: seconds since 1970. A reply without usage has none here either."""
    message = Message("assistant", reply.text, reply.calls).as_dict() | {"refusal": None, "annotations": []}
    if reply.calls and not reply.text:
        message["content"] = None
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH[reply.finish_reason]}
    body = {"id": id, "object": "chat.completion", "created": created, "model": model, "choices": [choice], **_SERVED}
    return body if reply.usage is None else body | {"usage": _usage(reply.usage)}


def chunks(reply: Reply, model: str, id: str, created: int, include_usage: bool = False) -> Iterator[dict[str, Any]]:  # noqa: A002
    """Write the payloads of a reply's server-sent events, without the closing `[DONE]`; the first holds the role alone."""
    head = {"id": id, "object": "chat.completion.chunk", "created": created, "model": model, **_SERVED}

    def chunk(delta: Mapping[str, object], finish: str | None = None) -> dict[str, Any]:
        payload = head | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}
        return payload | {"usage": None} if include_usage else payload

    yield chunk({"role": "assistant", "content": "" if reply.text or not reply.calls else None, "refusal": None})
    for piece in pieces(reply):
        if piece.call is not None:
            function = {"name": piece.call.name} if piece.call.name else {}
            delta: dict[str, object] = {"index": piece.call.index, "function": function | {"arguments": piece.call.arguments}}
            yield chunk({"tool_calls": [{"id": piece.call.id, "type": "function"} | delta if piece.call.id else delta]})
        elif piece.text:
            yield chunk({"content": piece.text})
    yield chunk({}, _FINISH[reply.finish_reason])
    if include_usage:
        yield head | {"choices": [], "usage": None if reply.usage is None else _usage(reply.usage)}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": dict.fromkeys(_KINDS_OF_TOKENS, 0),
    }
