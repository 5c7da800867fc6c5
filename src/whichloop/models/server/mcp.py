"""A trial's tools as a server of the official MCP SDK. Importing this module loads the SDK, so the server does so on first use.

Specification: modelcontextprotocol.io/specification, "Transports" and "Tools".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any
from weakref import WeakKeyDictionary

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.types import Message

from whichloop.models.wires.base import Refusal
from whichloop.protocol.tool_calls import McpError, ToolListing, read_mcp_error

from .answers import JSON, SSE, McpTrial, WireAnswer

TEXT_RESULT = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
"""JSON schema of structured content: the text that the model is shown, which holds the result's receipt."""
LIST_CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
VERSION = version("whichloop")
REFUSED = -32000
"""Code of what we refuse in the middle of a call, among those that JSON-RPC leaves to servers."""


class McpPages:
    """Answers requests of MCP clients for the trials of one server.

    No session outlives its request. An answer is JSON; the one that follows a change of the tool list is a stream of two events,
    the first of which tells of the change.
    """

    def __init__(self, find: Callable[[str], McpTrial]) -> None:
        """`find` returns a trial by the segment of the path that names it. Raises LookupError."""
        self._find = find
        self._announced: WeakKeyDictionary[McpTrial, ToolListing] = WeakKeyDictionary()
        """Trial → the list that its clients have been told of last."""

    async def answer(self, name: str, headers: Mapping[str, str], body: bytes, *, structured: bool) -> WireAnswer:
        """Return the answer to a request. If this is cancelled, so is the call of the tool. Raises LookupError and Refusal."""
        trial = self._find(name)
        before = self._announced.setdefault(trial, trial.listed())
        accepts = headers.get("Accept", "")
        read = {key.lower(): value for key, value in headers.items() if key.lower() == "content-type" or key.lower()[:4] == "mcp-"}
        read["accept"] = f"application/json, {accepts}".strip(", ")
        status, answer_headers, text = await _ask(_server_of(trial, structured), read, body)
        now = trial.listed()
        if now != before and "text/event-stream" in accepts and text:
            self._announced[trial] = now
            return WireAnswer(tuple(b"event: message\r\ndata: " + data + b"\r\n\r\n" for data in (LIST_CHANGED, text)), SSE)
        return WireAnswer((text,), {**answer_headers, **JSON, "Content-Length": str(len(text))}, status=status)


async def _ask(server: Server[Any], headers: Mapping[str, str], body: bytes) -> tuple[int, Mapping[str, str], bytes]:
    """Return status, headers and body of the SDK's answer. Our server has refused foreign hosts and origins before."""
    messages: list[Message] = []
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        messages.append(message)

    raw = [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    scope = {"type": "http", "http_version": "1.1", "scheme": "http", "method": "POST", "path": "/mcp", "raw_path": b"/mcp"}
    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
    async with manager.run():
        await manager.handle_request({**scope, "query_string": b"", "root_path": "", "headers": raw}, receive, send)
    answer_headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in messages[0].get("headers", ())}
    kept = {name: value for name, value in answer_headers.items() if name.lower() not in ("content-length", "content-type")}
    return messages[0]["status"], kept, b"".join(message.get("body", b"") for message in messages[1:])


def _server_of(trial: McpTrial, structured: bool) -> Server[Any]:
    """Return the SDK's server of one trial's tools, for one request. `structured`: results have structured content, too."""

    async def listed(context: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        more: dict[str, Any] = {"output_schema": TEXT_RESULT} if structured else {}
        tools = [
            types.Tool(name=spec.name, description=spec.description, input_schema=dict(spec.parameters), **more)
            for spec in trial.listed().tools
        ]
        return types.ListToolsResult(tools=tools)

    async def called(context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        """Run a tool; its error is a result, too, which the model shall see."""
        try:
            observation = await trial.call(params.name, params.arguments or {})
        except Refusal as refusal:
            raise MCPError(REFUSED, str(refusal)) from None
        if observation.error_type == McpError.__name__:
            error = read_mcp_error(observation.data)
            raise MCPError(error.code, error.message)
        text = observation.as_dict()["data"]
        more: dict[str, Any] = {"structured_content": {"result": text}} if structured and observation.ok else {}
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=not observation.ok, **more)

    return Server("whichloop", version=VERSION, on_list_tools=listed, on_call_tool=called)
