"""OpenAI's chat completions as JSON, the server's side: reads a request, and writes a reply whole or in chunks, or an error.

It follows the API reference, "Chat" (platform.openai.com/docs/api-reference/chat). Pure: nothing here knows a socket.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from loopbench.protocol import Message, NativeCall, Reply, Request, Role, Sampling, ToolSpec, Usage
from loopbench.protocol.chat import FinishReason, MessageRole
from loopbench.protocol.moves import Inexpressible
from loopbench.protocol.wire import from_json, to_json

from ..streaming import pieces
from .fields import (
    MAX_NAME_CHARS,
    BadRequest,
    bounded_text,
    check_depth,
    filled_list,
    invalid_value,
    name_field,
    optional,
    optional_list,
    optional_number,
    required,
    required_text,
    wrong_type,
)
from .history_rules import check_history
from .schema_rules import function_problem, reply_problem

MAX_MESSAGES = 10_000
MAX_TOOLS = 128
MAX_REMEMBERED_CHARS = 1 << 16
"""Longest list of tools, as JSON, that is read once for all requests that send it."""
MAX_CALLS = 1_024
"""Calls in one message."""
MAX_CALL_ID_CHARS = 40
MAX_METADATA, MAX_KEY_CHARS, MAX_VALUE_CHARS = 16, 64, 512
"""Pairs, and characters of each key and value, as OpenAI has them."""
MAX_STOPS = 4


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request as the server has read it."""

    request: Request
    """The request, without a codec."""
    model: str
    stream: bool = False
    include_usage: bool = False
    """Whether a stream ends with a chunk that holds the usage."""
    metadata: Mapping[str, str] = field(default_factory=dict)


# --- reading ---


def read_request(body: Any) -> ChatRequest:
    """Read a request from a decoded JSON body. Raises BadRequest in OpenAI's words.

    `response_format` json_object is the schema `{"type": "object"}`. Arguments in the history are written as the scripted model
    writes them; `{"_unparsed": text}`, which lm15 makes of arguments that are not JSON, becomes the text again.
    """
    if not isinstance(body, dict):
        raise BadRequest("We could not parse the JSON body of your request: expected a JSON object.")
    check_depth(body)
    _check_names(body)
    for legacy in ("functions", "function_call"):
        if body.get(legacy) is not None:
            said = f"Unsupported parameter: '{legacy}' is not supported. Use 'tools' instead."
            raise BadRequest(said, legacy, "unsupported_parameter")
    model = required_text(body, "model")
    messages = tuple(_message(item, place) for place, item in enumerate(_messages(body)))
    check_history(messages)
    tools = _tools(body)
    if (optional_number(body, "n", 1, 128, whole=True) or 1) != 1:
        raise BadRequest("Invalid value for 'n': only 1 choice is supported.", "n", "unsupported_value")
    metadata = _metadata(body)
    request = Request(
        messages,
        tools,
        _tool_choice(body, tools),
        _response_schema(body, messages),
        _sampling(body),
        _parallel_calls(body, tools),
        role=_role(metadata),
        scope=metadata.get("scope", ""),
        examples=_examples(metadata, len(messages)),
    )
    stream = bool(optional(body, "stream", bool))
    options = optional(body, "stream_options", dict) or {}
    if options and not stream:
        raise BadRequest("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    include_usage = bool(optional(options, "include_usage", bool, "stream_options.include_usage"))
    return ChatRequest(request, model, stream, include_usage, metadata)


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


def _check_names(body: Mapping[str, Any]) -> None:
    """Check that the body has no field but OpenAI's."""
    unknown = sorted(body.keys() - _FIELDS)
    if unknown:
        plural = "s" if len(unknown) > 1 else ""
        shown = ", ".join(name[:MAX_NAME_CHARS] for name in unknown[:MAX_STOPS])
        raise BadRequest(f"Unrecognized request argument{plural} supplied: {shown}")


def _messages(body: Mapping[str, Any]) -> list[Any]:
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
    said = required_text(data, "role", f"{where}.role")
    role = _ROLES.get(said)
    if role is None:
        known = ", ".join(f"'{name}'" for name in _ROLES)
        raise invalid_value(f"{where}.role", f"Invalid value: '{said[:64]}'. Supported values are: {known}.")
    calls = filled_list(data, "tool_calls", MAX_CALLS, f"{where}.tool_calls") if role == "assistant" else ()
    if data.get("content") is None and not calls:
        raise BadRequest("Invalid value for 'content': expected a string, got null.", f"messages.[{place}].content")
    content = _content(data, f"{where}.content")
    if role == "tool":
        return Message(role, content, call_id=_answered_id(data, place))
    return Message(role, content, tuple(_call(call, f"{where}.tool_calls[{number}]") for number, call in enumerate(calls)))


def _answered_id(data: Mapping[str, Any], place: int) -> str:
    if data.get("tool_call_id") is None:
        said = "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'."
        raise BadRequest(said, f"messages.[{place}].tool_call_id")
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


def _part(part: Any, where: str) -> str:
    data = required(part, dict, where)
    kind = required_text(data, "type", f"{where}.type")
    if kind not in ("text", "refusal"):
        said = "Supported values are: 'text'."
        raise invalid_value(f"{where}.type", f"Invalid value: '{kind[:64]}'. {said} This model reads text only.")
    return required(data.get(kind), str, f"{where}.{kind}")


def _call(item: Any, where: str) -> NativeCall:
    data = required(item, dict, where)
    call_id = bounded_text(data, "id", MAX_CALL_ID_CHARS, f"{where}.id")
    _check_type(data, where)
    function, name = _function(data, where)
    arguments = required(function.get("arguments"), str, f"{where}.function.arguments")
    return NativeCall(call_id, name, _normalized(arguments))


def _normalized(arguments: str) -> str:
    """Write arguments of the history as the scripted model does, whatever a client has made of their white space and escapes."""
    try:
        value = from_json(arguments or "{}")
        if isinstance(value, dict) and value.keys() == {"_unparsed"} and isinstance(value["_unparsed"], str):
            return value["_unparsed"]
        return to_json(value) if isinstance(value, dict) else arguments
    except (ValueError, Inexpressible):
        return arguments


def _function(data: Mapping[str, Any], where: str) -> tuple[dict[str, Any], str]:
    """Return the function of a tool, a call or a choice, and its name."""
    function = required(data.get("function"), dict, f"{where}.function")
    return function, name_field(function, f"{where}.function.name")


def _check_type(data: Mapping[str, Any], where: str) -> None:
    kind = required_text(data, "type", f"{where}.type")
    if kind != "function":
        raise invalid_value(f"{where}.type", f"Invalid value: '{kind[:64]}'. Supported values are: 'function'.")


def _tools(body: Mapping[str, Any]) -> tuple[ToolSpec, ...]:
    items = filled_list(body, "tools", MAX_TOOLS)
    text = json.dumps(items)
    return _known_tools(text) if len(text) <= MAX_REMEMBERED_CHARS else _read_tools(items)


@lru_cache(maxsize=64)  # a conversation sends the same tools with each request, and to check their schemas takes longest
def _known_tools(text: str) -> tuple[ToolSpec, ...]:
    return _read_tools(json.loads(text))


def _read_tools(items: list[Any]) -> tuple[ToolSpec, ...]:
    tools: dict[str, ToolSpec] = {}
    for place, item in enumerate(items):
        tool = _tool(item, f"tools[{place}]")
        if tool.name in tools:
            where = f"tools[{place}].function.name"
            raise invalid_value(where, f"Invalid '{where}': tool names must be unique, and '{tool.name}' is given twice.")
        tools[tool.name] = tool
    return tuple(tools.values())


def _tool(item: Any, where: str) -> ToolSpec:
    data = required(item, dict, where)
    _check_type(data, where)
    function, name = _function(data, where)
    description = optional(function, "description", str, f"{where}.function.description") or ""
    strict = bool(optional(function, "strict", bool, f"{where}.function.strict"))
    parameters = optional(function, "parameters", dict, f"{where}.function.parameters")
    if parameters is not None and (problem := function_problem(parameters, strict=strict)):
        said = f"Invalid schema for function '{name}': {problem}."
        raise BadRequest(said, f"{where}.function.parameters", "invalid_function_parameters")
    return ToolSpec(name, description, parameters or {})


def _parallel_calls(body: Mapping[str, Any], tools: tuple[ToolSpec, ...]) -> bool:
    several = optional(body, "parallel_tool_calls", bool)
    if several is not None and not tools:
        said = "'parallel_tool_calls' is only allowed when 'tools' are specified."
        raise BadRequest(f"Invalid value for 'parallel_tool_calls': {said}", "parallel_tool_calls")
    return several is not False


def _tool_choice(body: Mapping[str, Any], tools: tuple[ToolSpec, ...]) -> str | None:
    choice = body.get("tool_choice")
    if choice is None or choice == "none":
        return choice
    if not tools:
        said = "'tool_choice' is only allowed when 'tools' are specified."
        raise BadRequest(f"Invalid value for 'tool_choice': {said}", "tool_choice")
    if choice in ("auto", "required"):
        return str(choice)
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return _allowed_tools(choice, tools)
    if isinstance(choice, dict) and choice.get("type") == "function":
        return _offered(_function(choice, "tool_choice")[1], tools)
    if isinstance(choice, str | dict):
        said = "Supported values are: 'none', 'auto', 'required', and an object that names a function."
        raise invalid_value("tool_choice", f"Invalid value for 'tool_choice'. {said}")
    raise wrong_type("tool_choice", "a string or an object", choice)


def _allowed_tools(choice: Mapping[str, Any], tools: tuple[ToolSpec, ...]) -> str:
    """Return the mode, or the one tool that must be called. That other tools may not be called is not enforced."""
    allowed = required(choice.get("allowed_tools"), dict, "tool_choice.allowed_tools")
    mode = required_text(allowed, "mode", "tool_choice.allowed_tools.mode")
    if mode not in ("auto", "required"):
        raise invalid_value("tool_choice.allowed_tools.mode", "Invalid value for 'tool_choice.allowed_tools.mode'.")
    where = "tool_choice.allowed_tools.tools"
    names = []
    for place, item in enumerate(optional_list(allowed, "tools", MAX_TOOLS, where)):
        _, name = _function(required(item, dict, f"{where}[{place}]"), f"{where}[{place}]")
        names.append(_offered(name, tools))
    return names[0] if mode == "required" and len(names) == 1 else mode


def _offered(name: str, tools: tuple[ToolSpec, ...]) -> str:
    if all(tool.name != name for tool in tools):
        raise invalid_value("tool_choice", f"Tool choice '{name[:64]}' not found in 'tools' parameter.")
    return name


def _response_schema(body: Mapping[str, Any], messages: tuple[Message, ...]) -> Mapping[str, Any] | None:
    asked = optional(body, "response_format", dict)
    if asked is None:
        return None
    kind = required_text(asked, "type", "response_format.type")
    if kind == "text":
        return None
    if kind == "json_object":
        if not any("json" in message.content.lower() for message in messages):
            said = "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
            raise BadRequest(said, "messages")
        return {"type": "object"}
    if kind != "json_schema":
        known = "Supported values are: 'text', 'json_object', and 'json_schema'."
        raise invalid_value("response_format.type", f"Invalid value: '{kind[:64]}'. {known}")
    return _json_schema(required(asked.get("json_schema"), dict, "response_format.json_schema"))


def _json_schema(data: Mapping[str, Any]) -> Mapping[str, Any]:
    where = "response_format.json_schema"
    name = name_field(data, f"{where}.name")
    schema = optional(data, "schema", dict, f"{where}.schema")
    if optional(data, "strict", bool, f"{where}.strict") and schema is not None and (problem := reply_problem(schema)):
        raise BadRequest(f"Invalid schema for response_format '{name}': {problem}.", "response_format")
    return schema or {}


def _sampling(body: Mapping[str, Any]) -> Sampling:
    newer = optional_number(body, "max_completion_tokens", 1, math.inf, whole=True)
    older = optional_number(body, "max_tokens", 1, math.inf, whole=True)
    if newer is not None and older is not None:
        said = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
        raise BadRequest(said, "max_tokens", "invalid_parameter_combination")
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


def _metadata(body: Mapping[str, Any]) -> dict[str, str]:
    metadata = optional(body, "metadata", dict) or {}
    if len(metadata) > MAX_METADATA:
        said = f"Expected an object with at most {MAX_METADATA} properties."
        raise BadRequest(f"Invalid 'metadata': too many properties. {said}", "metadata", "object_above_max_properties")
    for key, value in metadata.items():
        if not isinstance(value, str):
            raise wrong_type(f"metadata.{key[:MAX_KEY_CHARS]}", "a string", value)
        if len(key) > MAX_KEY_CHARS or len(value) > MAX_VALUE_CHARS:
            said = f"keys have at most {MAX_KEY_CHARS} characters, values {MAX_VALUE_CHARS}"
            raise BadRequest(f"Invalid 'metadata': {said}.", "metadata", "string_above_max_length")
    return metadata


def _role(metadata: Mapping[str, str]) -> Role:
    try:
        return Role(metadata.get("role", Role.DECIDE))
    except ValueError:
        known = ", ".join(f"'{role}'" for role in Role)
        said = f"Invalid value: '{metadata['role'][:64]}'. Supported values are: {known}."
        raise invalid_value("metadata.role", said) from None


def _examples(metadata: Mapping[str, str], max_count: int) -> int:
    """Return how many of the messages are demonstrations."""
    text = metadata.get("examples", "0")
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_MESSAGES)) or int(text) > max_count:
        said = f"Invalid value: '{text[:64]}'. Expected how many of the messages are examples, a number up to {max_count}."
        raise invalid_value("metadata.examples", said)
    return int(text)


# --- writing ---

_FINISH: Mapping[FinishReason, str] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
    "other": "stop",  # OpenAI has no name for it
}


def completion(reply: Reply, model: str, id: str, created: int) -> dict[str, Any]:  # noqa: A002  # OpenAI's word
    """Write the body of a whole reply. `created`: seconds since 1970. A reply without usage has none here either."""
    message = Message("assistant", reply.text, reply.calls).as_dict() | {"refusal": None}
    if reply.calls and not reply.text:
        message["content"] = None
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH[reply.finish_reason]}
    made = {"id": id, "object": "chat.completion", "created": created, "model": model, "choices": [choice]}
    return made if reply.usage is None else made | {"usage": _usage(reply.usage)}


def chunks(reply: Reply, model: str, id: str, created: int, include_usage: bool = False) -> Iterator[dict[str, Any]]:  # noqa: A002
    """Write the payloads of a reply's server-sent events, without the closing `[DONE]`; the first holds the role alone."""
    head = {"id": id, "object": "chat.completion.chunk", "created": created, "model": model}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        made = head | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}
        return made | {"usage": None} if include_usage else made

    yield chunk({"role": "assistant", "content": "" if reply.text or not reply.calls else None, "refusal": None})
    for piece in pieces(reply):
        if piece.call is not None:
            function = {"name": piece.call.name} if piece.call.name else {}
            delta: dict[str, Any] = {"index": piece.call.index, "function": function | {"arguments": piece.call.arguments}}
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
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def error_body(message: str, type: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:  # noqa: A002
    """Write an error in OpenAI's format."""
    return {"error": {"message": message, "type": type, "param": param, "code": code}}
