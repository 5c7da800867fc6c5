"""A trial's tools as a server of the official MCP SDK. Importing this module loads the SDK, so only `server.py` does, on first use.

Specification: modelcontextprotocol.io/specification, "Transports" and "Tools".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.types import Message

from whichloop.protocol import ToolSpec
from whichloop.protocol.tool_calls import is_mcp_error, read_mcp_error

from .refusals import Refusal
from .trials import McpTrial

TRIAL, STRUCTURED = "whichloop.trial", "whichloop.structured"
"""Keys of a request's ASGI scope."""
TEXT_RESULT = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
"""JSON schema of structured content: the text that the model is shown, which holds the result's receipt."""
LIST_CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
REFUSED = -32000
"""Code of what we refuse in the middle of a call, among those that JSON-RPC leaves to servers."""
Scope = dict[str, Any]


class SdkAnswer(NamedTuple):
    """What the SDK answers to one HTTP request."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def session_manager() -> StreamableHTTPSessionManager:
    """Return what answers requests, while its `run()` is entered. No session outlives its request, so nothing adds up.

    The SDK's own check of the Host header is off: our server has refused foreign hosts and origins before.
    """
    server: Server[Any] = Server("whichloop", version=version("whichloop"), on_list_tools=_list_tools, on_call_tool=_called)
    return StreamableHTTPSessionManager(server, json_response=True, stateless=True)


def scope_of(trial: McpTrial, method: str, headers: Mapping[str, str], *, structured: bool) -> Scope:
    """Return a request to a trial in the terms of ASGI."""
    read = {name.lower(): value for name, value in headers.items() if _is_read(name.lower())}
    raw_headers = [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in read.items()]
    scope: Scope = {"type": "http", "http_version": "1.1", "scheme": "http", "method": method, "path": "/mcp", "query_string": b""}
    return scope | {"raw_path": b"/mcp", "root_path": "", "headers": raw_headers, TRIAL: trial, STRUCTURED: structured}


def _is_read(name: str) -> bool:
    """Whether the SDK reads a header; others may hold what ASGI cannot say."""
    return name in ("accept", "content-type") or name.startswith("mcp-")


async def ask(manager: StreamableHTTPSessionManager, scope: Scope, body: bytes) -> SdkAnswer:
    """Return the answer to a request. If this is cancelled, so is the call of the tool."""
    messages: list[Message] = []
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        messages.append(message)

    await manager.handle_request(scope, receive, send)
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in messages[0].get("headers", ()))
    return SdkAnswer(messages[0]["status"], headers, b"".join(message.get("body", b"") for message in messages[1:]))


def as_events(*messages: bytes) -> bytes:
    """Return JSON-RPC messages as server-sent events."""
    return b"".join(b"event: message\r\ndata: " + message + b"\r\n\r\n" for message in messages)


def change_told_with(body: bytes) -> bytes:
    """Return the events that tell of a changed list, and then give an answer."""
    return as_events(json.dumps(LIST_CHANGED, separators=(",", ":")).encode(), body)


# --- the handlers ---


async def _list_tools(
    context: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    trial, structured = _place(context)
    return types.ListToolsResult(tools=[_tool(spec, structured) for spec in trial.listed().tools])


def _tool(spec: ToolSpec, structured: bool) -> types.Tool:
    more: dict[str, Any] = {"output_schema": TEXT_RESULT} if structured else {}
    return types.Tool(name=spec.name, description=spec.description, input_schema=dict(spec.parameters), **more)


async def _called(context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> types.CallToolResult:
    """Run a tool; its error is a result, too, which the model shall see. Raises MCPError for a JSON-RPC error and at the end."""
    trial, structured = _place(context)
    try:
        observation = await trial.call(params.name, params.arguments or {})
    except Refusal as refusal:
        raise MCPError(REFUSED, str(refusal)) from None
    if is_mcp_error(observation.error_type):
        error = read_mcp_error(observation.data)
        raise MCPError(error.code, error.message)
    text = observation.as_dict()["data"]
    more: dict[str, Any] = {"structured_content": {"result": text}} if structured and observation.ok else {}
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=not observation.ok, **more)


def _place(context: ServerRequestContext[Any, Any]) -> tuple[McpTrial, bool]:
    assert context.request is not None  # every message has come by HTTP
    scope = context.request.scope
    return scope[TRIAL], scope[STRUCTURED]
