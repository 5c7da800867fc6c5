"""Anthropic's Messages API as JSON, the server's side: reads a request, and writes a reply whole or as a stream, or an error.

It follows the API reference, "Messages" (platform.claude.com/docs/en/api/messages), and the types of Anthropic's client 2.14
(github.com/anthropics/anthropic-sdk-python).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import from_json as partial_json

from whichloop.models.scripted_calls import pieces
from whichloop.protocol import Message, NativeCall, Reply, Request, Sampling, ToolSpec, Usage
from whichloop.protocol.chat import FinishReason
from whichloop.protocol.json_text import sha256
from whichloop.protocol.wire import from_json, to_json

from . import base
from .base import BadRequest, Fields, Path, Refusal, Stamp, Wire, WireRequest

VERSION = re.compile(r"\d{4}-\d\d-\d\d")
OVERLOADED = 529
"""Anthropic's status for a model that has too many requests of everyone."""
MAX_TOOLS = 10_000
NOT_FOUND = "thread_not_found"
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_UNUSED = frozenset(
    {
        "billing_policy", "cache_control", "compaction", "container", "context_management", "diagnostics", "fallback_credit_token",
        "fallbacks", "inference_geo", "mcp_servers", "service_tier", "speed", "thinking", "thread", "user_profile_id",
        "workspace_id",
    }
)  # fmt: skip
"""Fields of MessageCreateParams and of its beta in Anthropic's client 2.14 that change nothing here."""


# --- the request ---

_CallId = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$")]


class _Text(Fields):
    type: Literal["text"]
    text: str = Field(pattern=r"\S")


class _Call(Fields):
    type: Literal["tool_use"]
    id: _CallId
    name: str = Field(min_length=1, max_length=200)
    input: dict[str, Any]


def _as_blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class _ResultText(Fields):
    type: Literal["text"]
    text: str


class _Result(Fields):
    type: Literal["tool_result"]
    tool_use_id: _CallId
    content: Annotated[base.Items[_ResultText] | None, BeforeValidator(_as_blocks)] = None
    is_error: bool | None = None

    def message(self) -> Message:
        """A result that is marked as an error begins with `Error`."""
        text = "\n".join(part.text for part in self.content or ())
        if self.is_error and not text.lower().startswith("error"):
            text = f"Error: {text}"
        return Message("tool", text, call_id=_our_id(self.tool_use_id))


class _Skipped(Fields):
    """What the model has no use of: thinking, and the vendor's own tools. Images and documents are refused."""

    type: str = Field(pattern=r"^((redacted_)?thinking|compaction|(server|mcp)_tool_use|\w+_tool_result)$")


def _kind(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if kind in ("text", "tool_use", "tool_result") else "other"


_Block = Annotated[
    Annotated[_Text, Tag("text")]
    | Annotated[_Call, Tag("tool_use")]
    | Annotated[_Result, Tag("tool_result")]
    | Annotated[_Skipped, Tag("other")],
    Discriminator(_kind),
]


class _Turn(Fields):
    role: Literal["user", "assistant", "system"]
    content: Annotated[base.Items[_Block], BeforeValidator(_as_blocks), Field(min_length=1)]

    def messages(self) -> list[Message]:
        """Return the messages that a turn stands for: its results first, then its text, whose blocks are joined by line breaks."""
        text = "\n".join(block.text for block in self.content if isinstance(block, _Text))
        calls = tuple(
            NativeCall(_our_id(block.id), block.name, _arguments(block.input)) for block in self.content if isinstance(block, _Call)
        )
        results = [block.message() for block in self.content if isinstance(block, _Result)]
        if (calls and self.role != "assistant") or (results and self.role != "user"):
            raise BadRequest("messages: tool_use belongs to the assistant, tool_result to the user", "messages")
        return [*results, Message(self.role, text, calls)] if text or not results else results


class _Tool(Fields):
    """A tool; one of the vendor's own, which has another type, is never called."""

    type: str | None = Field(None, pattern=r"^(custom|mcp_toolset|\w+_\d{8}|tool_search_tool_(bm25|regex))$")
    name: str = ""
    description: str | None = None
    input_schema: base.ObjectSchema | None = None

    @property
    def is_own(self) -> bool:
        return self.type in (None, "custom")


class _Choice(Fields):
    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: bool | None = None


class _Format(Fields):
    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class _Output(Fields):
    format: _Format | None = None


class _Count(Fields):
    model: str = Field(min_length=1)
    messages: base.Items[_Turn] = Field(min_length=1)
    system: Annotated[base.Items[_ResultText] | None, BeforeValidator(_as_blocks)] = None
    tools: base.Items[_Tool] | None = None
    tool_choice: _Choice | None = None
    output_config: _Output | None = None
    output_format: _Format | None = None


class _Body(_Count):
    max_tokens: int = Field(ge=0)
    temperature: float | None = Field(None, ge=0, le=1)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=0)
    stop_sequences: base.Items[str] | None = None
    stream: bool | None = None
    metadata: dict[str, Any] | None = None

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.max_tokens, self.top_p, stop=tuple(self.stop_sequences or ()))


def read_request(body: Any, *, counting: bool) -> WireRequest:
    """Read a request from a decoded JSON body. Raises BadRequest. `counting`: it asks for its tokens to be counted."""
    thread = body.get("thread") if isinstance(body, dict) else None
    if isinstance(thread, dict) and thread.get("type") == "continue":  # the client then sends the whole conversation
        raise BadRequest("thread: no thread is kept for this message", "thread", NOT_FOUND, 404)
    data: _Count = base.read_body(_Count if counting else _Body, body, _UNUSED)
    if data.messages[0].role != "user" or data.messages[-1].role == "assistant":
        raise BadRequest("messages: the first is the user's, and the last is not the assistant's", "messages")
    messages = [message for turn in data.messages for message in turn.messages()]
    base.check_history(messages)
    system = "\n".join(block.text for block in data.system or ())
    tools, choice = _tools(data.tools or ()), data.tool_choice
    of_reply = data.output_format or (data.output_config and data.output_config.format)
    whole = data if isinstance(data, _Body) else None
    metadata = (whole.metadata if whole else None) or {}
    request = Request(
        tuple([Message("system", system), *messages] if system else messages),
        tools,
        _choice(choice, tools, data.tools or ()),
        of_reply.schema_ if of_reply else None,
        whole.sampling if whole else Sampling(),
        not (choice and choice.disable_parallel_tool_use),
        **base.own_fields(metadata, len(messages)),
    )
    return WireRequest(request, data.model, bool(whole and whole.stream), metadata=metadata)


def _tools(tools: Sequence[_Tool]) -> tuple[ToolSpec, ...]:
    for place, tool in enumerate(tools):
        if tool.is_own and tool.input_schema is None:
            raise BadRequest(f"tools.{place}.input_schema: Field required", f"tools.{place}.input_schema")
        if {"oneOf", "allOf", "anyOf"} & (tool.input_schema or {}).keys():
            where = f"tools.{place}.input_schema"
            raise BadRequest(f"{where}: no oneOf, allOf or anyOf at the top", where)
    own = [ToolSpec(tool.name, tool.description or "", tool.input_schema or {}) for tool in tools if tool.is_own]
    return base.checked_tools(own, MAX_TOOLS, _TOOL_NAME)


def _choice(choice: _Choice | None, tools: Sequence[ToolSpec], offered: Sequence[_Tool]) -> str | None:
    """Return how the model is to call. Where the vendor's own tool is forced, or there is no other, nothing is forced."""
    if choice is None:
        return None
    kind = "required" if choice.type == "any" else choice.name if choice.type == "tool" else choice.type
    is_vendors = any(not tool.is_own and (choice.type != "tool" or tool.name in (choice.name, "")) for tool in offered)
    if is_vendors and kind != "none" and all(tool.name != kind for tool in tools) and (choice.type == "tool" or not tools):
        return "auto"
    return base.checked_choice(kind, tools)


_UNPARSED = ("INVALID_JSON", "_unparsed")
"""Keys under which clients give back arguments that were not JSON: that of Anthropic's documentation ("Fine-grained tool
streaming"), and lm15's."""


def _arguments(value: Mapping[str, Any]) -> str:
    for key in _UNPARSED:
        if value.keys() == {key} and isinstance(value[key], str):
            return str(value[key])
    return base.written_arguments(to_json(dict(value)))


def _our_id(call_id: str) -> str:
    return call_id.removeprefix("toolu_") if call_id.startswith("toolu_call_") else call_id


# --- the reply ---

_STOP: Mapping[FinishReason, str] = {"length": "max_tokens", "content_filter": "refusal", "tool_calls": "tool_use"}
"""Any other reply ends with `end_turn`, or with `tool_use` where it calls."""


def _message(request: WireRequest, content: Sequence[object], usage: Mapping[str, object], stamp: Stamp) -> dict[str, Any]:
    head = {"id": f"msg_{stamp.id}", "type": "message", "role": "assistant", "model": request.model}
    return {**head, "content": content, "stop_reason": None, "stop_sequence": None, "stop_details": None, "usage": usage}


def _stop(reply: Reply, stamp: Stamp) -> dict[str, Any]:
    reason = _STOP.get(reply.finish_reason, "tool_use" if reply.calls else "end_turn")
    if stamp.stopped_at:
        reason = "stop_sequence"
    return {"stop_reason": reason, "stop_sequence": stamp.stopped_at or None, "stop_details": None}


def _tool_use(call: NativeCall, arguments: Any) -> dict[str, Any]:
    theirs = f"toolu_{call.id}" if call.id.startswith("call_") else call.id
    return {"type": "tool_use", "id": theirs, "name": call.name, "input": arguments, "caller": {"type": "direct"}}


def _input(arguments: str) -> dict[str, Any]:
    """Return arguments as an object: of those that are no JSON, the members that came whole."""
    try:
        value = from_json(arguments or "{}")
    except ValueError:
        try:
            value = partial_json(arguments, allow_partial=True, allow_inf_nan=False)
        except ValueError:
            value = None
    return value if isinstance(value, dict) else {}


def _usage(reply: Reply) -> dict[str, Any]:
    """Write the usage: tokens read from the cache do not count as input."""
    usage = reply.usage or Usage()
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": usage.output_tokens,
        "service_tier": "standard",
    }


def _blocks(reply: Reply) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield the blocks of a stream, each as its beginning and its deltas; a call's first delta is empty."""
    chunks = list(pieces(reply))
    if reply.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": chunk.text} for chunk in chunks if chunk.text]
    for index, call in enumerate(reply.calls):
        parts = [chunk.call.arguments for chunk in chunks if chunk.call is not None and chunk.call.index == index]
        yield _tool_use(call, {}), [{"type": "input_json_delta", "partial_json": part} for part in parts]


# --- the wire ---

_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}


class MessagesWire(Wire):
    """Messages: requests for `/v1/messages`, and any that Anthropic's clients send, whose headers tell the version."""

    name = "messages"
    begun_events = 4

    def is_addressed(self, path: Path, headers: Mapping[str, str]) -> bool:
        return path[:2] == ("v1", "messages") or "anthropic-version" in headers

    def page(self, path: Path) -> base.Page | None:
        if path == ("v1", "messages", "count_tokens"):
            return "count"
        return "models" if path == ("v1", "models") else "reply" if path == ("v1", "messages") else None

    def read(self, incoming: base.Incoming) -> WireRequest:
        if not VERSION.fullmatch(incoming.headers.get("anthropic-version", "")):
            raise BadRequest("anthropic-version: the header is a version such as 2023-06-01", "anthropic-version")
        return read_request(incoming.body, counting=incoming.path[-1:] == ("count_tokens",))

    def reply(self, request: WireRequest, reply: Reply, stamp: Stamp) -> dict[str, Any]:
        text = [{"type": "text", "text": reply.text}] if reply.text else []
        content = [*text, *(_tool_use(call, _input(call.arguments)) for call in reply.calls)]
        return _message(request, content, _usage(reply), stamp) | _stop(reply, stamp)

    def events(self, request: WireRequest, reply: Reply, stamp: Stamp) -> Iterator[dict[str, Any]]:
        """Arguments come as they are, JSON or not."""
        usage = _usage(reply)
        begun = usage | {"output_tokens": min(1, usage["output_tokens"])}
        yield {"type": "message_start", "message": _message(request, [], begun, stamp)}
        for index, (start, deltas) in enumerate(_blocks(reply)):
            yield {"type": "content_block_start", "index": index, "content_block": start}
            if not index:
                yield {"type": "ping"}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        counted = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
        yield {"type": "message_delta", "delta": _stop(reply, stamp), "usage": {name: usage[name] for name in counted}}
        yield {"type": "message_stop"}

    def failure(self, failure: Refusal) -> tuple[int, dict[str, Any], Mapping[str, str]]:
        """Write an error (platform.claude.com/docs/en/api/errors). Clients know a request beyond the context by its words."""
        status = OVERLOADED if failure.status == 503 else failure.status
        kind = _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        too_long = "prompt is too long: " if failure.code == "context_length_exceeded" else ""
        request_id = (
            f"req_{sha256(f'{failure.status} {failure}')[:24]}"  # equal runs meet equal errors, which loops may show to the model
        )
        error: dict[str, Any] = {"type": kind, "message": f"{too_long}{failure}"}
        if failure.code == NOT_FOUND:
            error["details"] = {"error_code": NOT_FOUND}
        headers = {"request-id": request_id} | ({} if failure.wait_s is None else {"retry-after": f"{failure.wait_s:g}"})
        return status, {"type": "error", "error": error, "request_id": request_id}, headers

    def models(self, names: Sequence[str], created: int) -> Any:
        ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
        described = {"created_at": f"{datetime.fromtimestamp(created, UTC):%Y-%m-%dT%H:%M:%SZ}", "lifecycle": "active"}
        listed = [{"type": "model", "id": name, "display_name": name, **described} for name in names]
        return {"data": listed, "has_more": False, **ends}

    def count(self, tokens: int) -> Any:
        return {"input_tokens": tokens}


MESSAGES = MessagesWire()
