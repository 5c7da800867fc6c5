"""OpenAI's chat completions as JSON, the server's side: a request read, a reply said whole or in chunks, an error worded.

After the API reference, "Chat" (platform.openai.com/docs/api-reference/chat). Pure: nothing here knows a socket.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from loopbench.protocol import Message, NativeCall, Reply, Request, Role, Sampling, ToolSpec, Usage
from loopbench.protocol.chat import FinishReason, MessageRole
from loopbench.protocol.moves import Inexpressible
from loopbench.protocol.wire import from_json, to_json

from .streaming import pieces

MAX_DEPTH = 100
"""Levels of nesting in a request's body; OpenAI's own schemas end at ten."""
MAX_MESSAGES = 10_000
MAX_TOOLS = 1_024
MAX_METADATA, MAX_KEY_CHARS, MAX_VALUE_CHARS = 16, 64, 512
"""Pairs, and characters of each key and value, as OpenAI has them."""
MAX_STOPS = 4
OURS = frozenset({"role", "scope", "codec", "examples"})
"""Metadata by which a loop's own client tells the harness what is asked."""


class BadRequest(Exception):
    """A request that OpenAI's API would refuse with status 400."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request as it was read."""

    request: Request
    """Without a codec."""
    model: str
    stream: bool = False
    include_usage: bool = False
    """A stream ends with a chunk that tells the usage."""
    metadata: Mapping[str, str] = field(default_factory=dict)


# --- reading ---


def read_request(body: Any) -> ChatRequest:
    """A decoded JSON body as a request. Raises BadRequest in OpenAI's words.

    `response_format` json_object is the schema `{"type": "object"}`. Arguments in the history are written as the scripted model
    writes them; `{"_unparsed": text}`, which lm15 makes of arguments that are no JSON, is the text again.
    """
    if not isinstance(body, dict):
        raise BadRequest("We could not parse the JSON body of your request: expected a JSON object.")
    _check_depth(body)
    for legacy in ("functions", "function_call"):
        if body.get(legacy) is not None:
            said = f"Unsupported parameter: '{legacy}' is not supported. Use 'tools' instead."
            raise BadRequest(said, legacy, "unsupported_parameter")
    model = _text(body, "model")
    messages = tuple(_message(item, f"messages[{place}]") for place, item in enumerate(_messages(body)))
    tools = tuple(_tool(item, f"tools[{place}]") for place, item in enumerate(_list(body, "tools", MAX_TOOLS)))
    if (_number(body, "n", 1, 128, whole=True) or 1) != 1:
        raise BadRequest("Invalid value for 'n': only 1 choice is supported.", "n", "unsupported_value")
    metadata = _metadata(body)
    request = Request(
        messages,
        tools,
        _tool_choice(body, tools),
        _response_schema(body),
        _sampling(body),
        _flag(body, "parallel_tool_calls") is not False,
        role=_role(metadata),
        scope=metadata.get("scope", ""),
        examples=_examples(metadata, len(messages)),
    )
    stream = bool(_flag(body, "stream"))
    options = _object(body, "stream_options") or {}
    if options and not stream:
        raise BadRequest("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    include_usage = bool(_flag(options, "include_usage", "stream_options.include_usage"))
    return ChatRequest(request, model, stream, include_usage, metadata)


def _check_depth(body: Any) -> None:
    level, depth = [body], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise BadRequest(f"Invalid body: nested deeper than {MAX_DEPTH} levels.")
        inner = [item.values() if isinstance(item, dict) else item for item in level]
        level = [item for items in inner for item in items if isinstance(item, dict | list)]


def _wrong(where: str, expected: str, value: Any) -> BadRequest:
    got = _TYPES.get(type(value), "a value of another type")
    return BadRequest(f"Invalid type for '{where}': expected {expected}, but got {got} instead.", where, "invalid_type")


_TYPES: Mapping[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    type(None): "null",
}


def _missing(where: str) -> BadRequest:
    return BadRequest(f"Missing required parameter: '{where}'.", where, "missing_required_parameter")


def _text(data: Mapping[str, Any], name: str, where: str = "") -> str:
    """A required text that is not empty."""
    where = where or name
    value = data.get(name)
    if value is None:
        raise _missing(where)
    if not isinstance(value, str):
        raise _wrong(where, "a string", value)
    if not value:
        raise BadRequest(f"Invalid '{where}': empty string.", where, "empty_string")
    return value


def _optional_text(data: Mapping[str, Any], name: str, where: str) -> str:
    value = data.get(name)
    if value is not None and not isinstance(value, str):
        raise _wrong(where, "a string", value)
    return value or ""


def _flag(data: Mapping[str, Any], name: str, where: str = "") -> bool | None:
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        raise _wrong(where or name, "a boolean", value)
    return value


def _object(data: Mapping[str, Any], name: str, where: str = "") -> dict[str, Any] | None:
    value = data.get(name)
    if value is not None and not isinstance(value, dict):
        raise _wrong(where or name, "an object", value)
    return value


def _required_object(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        raise _missing(where)
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    return value


def _list(data: Mapping[str, Any], name: str, longest: int, where: str = "") -> list[Any]:
    """A list; empty where there is none."""
    where = where or name
    value = data.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(where, "an array", value)
    if len(value) > longest:
        said = f"Expected an array with maximum length {longest}, but got an array with length {len(value)} instead."
        raise BadRequest(f"Invalid '{where}': array too long. {said}", where, "array_above_max_length")
    return value


def _number(data: Mapping[str, Any], name: str, low: float, high: float, *, whole: bool = False) -> Any:
    """A number in [low, high]; None where there is none."""
    value = data.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise _wrong(name, "an integer" if whole else "a decimal", value)
    if not low <= value <= high:
        bound = f">= {low:g}" if value < low else f"<= {high:g}"
        raise BadRequest(f"Invalid '{name}': expected a value {bound}.", name, "value_out_of_range")
    return value


def _messages(body: Mapping[str, Any]) -> list[Any]:
    if body.get("messages") is None:
        raise _missing("messages")
    messages = _list(body, "messages", MAX_MESSAGES)
    if not messages:
        said = "Expected an array with minimum length 1, but got an empty array instead."
        raise BadRequest(f"Invalid 'messages': empty array. {said}", "messages", "empty_array")
    return messages


_ROLES: Mapping[str, MessageRole] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def _message(item: Any, where: str) -> Message:
    data = _required_object(item, where)
    said = _text(data, "role", f"{where}.role")
    role = _ROLES.get(said)
    if role is None:
        known = ", ".join(f"'{name}'" for name in _ROLES)
        raise BadRequest(f"Invalid value: '{said[:64]}'. Supported values are: {known}.", f"{where}.role", "invalid_value")
    content = _content(data.get("content"), role, f"{where}.content")
    if role == "tool":
        return Message(role, content, call_id=_text(data, "tool_call_id", f"{where}.tool_call_id"))
    if role != "assistant":
        return Message(role, content)
    calls = _list(data, "tool_calls", MAX_TOOLS, f"{where}.tool_calls")
    return Message(role, content, tuple(_call(call, f"{where}.tool_calls[{place}]") for place, call in enumerate(calls)))


def _content(content: Any, role: MessageRole, where: str) -> str:
    """Text, or the parts of one; an assistant may have said nothing."""
    if content is None and role == "assistant":
        return ""
    if content is None:
        raise BadRequest(f"Invalid value for '{where}': expected a string, got null.", where, "invalid_type")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _wrong(where, "a string or an array of parts", content)
    return "".join(_part(part, f"{where}[{place}]") for place, part in enumerate(content))


def _part(part: Any, where: str) -> str:
    data = _required_object(part, where)
    kind = _text(data, "type", f"{where}.type")
    if kind not in ("text", "refusal"):
        said = "Supported values are: 'text'."
        raise BadRequest(f"Invalid value: '{kind[:64]}'. {said} This model reads text only.", f"{where}.type", "invalid_value")
    if data.get(kind) is None:
        raise _missing(f"{where}.{kind}")
    return _optional_text(data, kind, f"{where}.{kind}")


def _call(item: Any, where: str) -> NativeCall:
    data = _required_object(item, where)
    if data.get("type", "function") != "function":
        raise BadRequest(f"Invalid value for '{where}.type': only 'function' is supported.", f"{where}.type", "invalid_value")
    function = _required_object(data.get("function"), f"{where}.function")
    name = _text(function, "name", f"{where}.function.name")
    arguments = _optional_text(function, "arguments", f"{where}.function.arguments")
    return NativeCall(_text(data, "id", f"{where}.id"), name, _as_said(arguments))


def _as_said(arguments: str) -> str:
    """Arguments of the history in the scripted model's own writing, whatever a client has made of their white space and escapes."""
    try:
        value = from_json(arguments or "{}")
        if isinstance(value, dict) and value.keys() == {"_unparsed"} and isinstance(value["_unparsed"], str):
            return value["_unparsed"]
        return to_json(value) if isinstance(value, dict) else arguments
    except (ValueError, Inexpressible):
        return arguments


def _tool(item: Any, where: str) -> ToolSpec:
    data = _required_object(item, where)
    kind = _text(data, "type", f"{where}.type")
    if kind != "function":
        raise BadRequest(f"Invalid value: '{kind[:64]}'. Supported values are: 'function'.", f"{where}.type", "invalid_value")
    function = _required_object(data.get("function"), f"{where}.function")
    name = _text(function, "name", f"{where}.function.name")
    description = _optional_text(function, "description", f"{where}.function.description")
    return ToolSpec(name, description, _object(function, "parameters", f"{where}.function.parameters") or {})


def _tool_choice(body: Mapping[str, Any], tools: tuple[ToolSpec, ...]) -> str | None:
    choice = body.get("tool_choice")
    if choice is None or choice in ("none", "auto"):
        return choice
    if not tools:
        said = "'tool_choice' is only allowed when 'tools' are specified."
        raise BadRequest(f"Invalid value for 'tool_choice': {said}", "tool_choice")
    if choice == "required":
        return "required"
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return _allowed_tools(choice, tools)
    if isinstance(choice, dict) and choice.get("type") == "function":
        function = _required_object(choice.get("function"), "tool_choice.function")
        return _offered(_text(function, "name", "tool_choice.function.name"), tools)
    if isinstance(choice, str | dict):
        said = "Supported values are: 'none', 'auto', 'required', and an object that names a function."
        raise BadRequest(f"Invalid value for 'tool_choice'. {said}", "tool_choice", "invalid_value")
    raise _wrong("tool_choice", "a string or an object", choice)


def _allowed_tools(choice: Mapping[str, Any], tools: tuple[ToolSpec, ...]) -> str:
    """The mode, or the one tool that must be called; that others may not be is not held to."""
    allowed = _required_object(choice.get("allowed_tools"), "tool_choice.allowed_tools")
    mode = _text(allowed, "mode", "tool_choice.allowed_tools.mode")
    if mode not in ("auto", "required"):
        raise BadRequest("Invalid value for 'tool_choice.allowed_tools.mode'.", "tool_choice.allowed_tools.mode", "invalid_value")
    where = "tool_choice.allowed_tools.tools"
    listed = _list(allowed, "tools", MAX_TOOLS, where)
    names = []
    for place, item in enumerate(listed):
        function = _required_object(_required_object(item, f"{where}[{place}]").get("function"), f"{where}[{place}].function")
        names.append(_offered(_text(function, "name", f"{where}[{place}].function.name"), tools))
    return names[0] if mode == "required" and len(names) == 1 else mode


def _offered(name: str, tools: tuple[ToolSpec, ...]) -> str:
    if all(tool.name != name for tool in tools):
        raise BadRequest(f"Tool choice '{name[:64]}' not found in 'tools' parameter.", "tool_choice", "invalid_value")
    return name


def _response_schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    asked = _object(body, "response_format")
    if asked is None:
        return None
    kind = _text(asked, "type", "response_format.type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind != "json_schema":
        known = "Supported values are: 'text', 'json_object', and 'json_schema'."
        raise BadRequest(f"Invalid value: '{kind[:64]}'. {known}", "response_format.type", "invalid_value")
    where = "response_format.json_schema"
    inner = _required_object(asked.get("json_schema"), where)
    _text(inner, "name", f"{where}.name")
    return _object(inner, "schema", f"{where}.schema") or {}


def _sampling(body: Mapping[str, Any]) -> Sampling:
    newer = _number(body, "max_completion_tokens", 1, math.inf, whole=True)
    older = _number(body, "max_tokens", 1, math.inf, whole=True)
    return Sampling(
        _number(body, "temperature", 0, 2),
        newer if newer is not None else older,
        _number(body, "top_p", 0, 1),
        _number(body, "seed", -(2**63), 2**63 - 1, whole=True),
        _stops(body),
    )


def _stops(body: Mapping[str, Any]) -> tuple[str, ...]:
    if isinstance(body.get("stop"), str):
        return (body["stop"],)
    stops = _list(body, "stop", MAX_STOPS)
    for place, stop in enumerate(stops):
        if not isinstance(stop, str):
            raise _wrong(f"stop[{place}]", "a string", stop)
    return tuple(stops)


def _metadata(body: Mapping[str, Any]) -> dict[str, str]:
    metadata = _object(body, "metadata") or {}
    if len(metadata) > MAX_METADATA:
        said = f"Expected an object with at most {MAX_METADATA} properties."
        raise BadRequest(f"Invalid 'metadata': too many properties. {said}", "metadata", "object_above_max_properties")
    for key, value in metadata.items():
        if not isinstance(value, str):
            raise _wrong(f"metadata.{key[:MAX_KEY_CHARS]}", "a string", value)
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
        raise BadRequest(said, "metadata.role", "invalid_value") from None


def _examples(metadata: Mapping[str, str], most: int) -> int:
    """How many of the messages are demonstrations."""
    text = metadata.get("examples", "0")
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_MESSAGES)) or int(text) > most:
        said = f"Invalid value: '{text[:64]}'. Expected how many of the messages are examples, a number up to {most}."
        raise BadRequest(said, "metadata.examples", "invalid_value")
    return int(text)


# --- saying ---

_FINISH: Mapping[FinishReason, str] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
    "other": "stop",  # OpenAI has no word for it
}


def completion(reply: Reply, model: str, id: str, created: int) -> dict[str, Any]:  # noqa: A002  # OpenAI's word
    """The body of a whole reply. `created`: seconds since 1970. A reply without usage has none here either."""
    message = Message("assistant", reply.text, reply.calls).as_dict() | {"refusal": None}
    if reply.calls and not reply.text:
        message["content"] = None
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH[reply.finish_reason]}
    made = {"id": id, "object": "chat.completion", "created": created, "model": model, "choices": [choice]}
    return made if reply.usage is None else made | {"usage": _usage(reply.usage)}


def chunks(reply: Reply, model: str, id: str, created: int, include_usage: bool = False) -> Iterator[dict[str, Any]]:  # noqa: A002
    """The payloads of a reply's server-sent events, `[DONE]` not among them; the first holds the role alone."""
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
    """An error in OpenAI's format."""
    return {"error": {"message": message, "type": type, "param": param, "code": code}}
