"""Sessions with servers of tools, by the official MCP SDK. Importing this module loads the SDK: `mcp_tools` does, on first use.

All sessions of a process live in one event loop on a thread of its own. So the tools work in whatever event loop a trial runs, and
a session is left in the task that has entered it, as the SDK wants it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping
from concurrent.futures import Future, wait
from typing import Any, TypeVar

import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED

from whichloop.protocol.tool_calls import McpError
from whichloop.protocol.values import one_line
from whichloop.protocol.wire import from_json

from .mcp_server import McpServer

T = TypeVar("T")
MAX_PAGES = 100
"""Most pages of a tool list; a list that does not end is none."""
MAX_LAST_WORDS = 2_000
"""Bytes at the end of a server's standard error in which its last line is looked for."""
CLOSE_S = 5.0
"""Seconds that the servers have to end when this process does."""


class McpToolFailed(Exception):
    """A tool's own failure: a result with `isError`."""


class McpServerGone(Exception):
    """The server cannot be asked any more: that is no failure of a tool."""


Listing = tuple[str, str, list[types.Tool]]
"""What a server says of itself, its name and version, and its tools."""


class McpSession:
    """One session: what it needs is started by the first call, and ended by `close`. All methods run in the loop of sessions."""

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self.gone = ""
        """Why it cannot be asked any more."""
        self._opened: asyncio.Future[Client] | None = None
        self._owner: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed with the session
        SESSIONS.add(self)

    async def listing(self) -> Listing:
        """Return the tools. Raises McpServerGone for a server that cannot be reached or gives no list, and TimeoutError."""
        client = await self._client()
        listed: list[types.Tool] = []
        cursor = None
        with self._watched():
            for _ in range(MAX_PAGES):
                page = await client.list_tools(cursor=cursor)
                listed += page.tools
                if (cursor := page.next_cursor) is None:
                    info = client.server_info
                    return getattr(info, "name", ""), getattr(info, "version", ""), listed
        raise McpServerGone(f"its list of tools has more than {MAX_PAGES} pages")

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Return a tool's result. Raises McpToolFailed, McpError for a JSON-RPC error, and McpServerGone."""
        client = await self._client()
        with self._watched():
            result = await client.call_tool(name, dict(arguments))
        if result.is_error:
            raise McpToolFailed(_result_text(result) or "the tool failed, and its server does not say why")
        structured = result.structured_content
        if structured is not None:  # servers wrap a value that is no object
            return structured["result"] if isinstance(structured, dict) and structured.keys() == {"result"} else structured
        text = _result_text(result)
        try:
            return from_json(text)
        except ValueError:
            return text

    async def close(self) -> None:
        """End the session, and the process of a command."""
        self._closing.set()
        if self._owner is not None and self._opened is not None:
            if not self._opened.done():  # it may never answer
                self._owner.cancel()
            await asyncio.wait({self._owner})
        self._errors.close()
        SESSIONS.discard(self)

    async def _client(self) -> Client:
        if self.gone:
            raise McpServerGone(self.gone)
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._owner = asyncio.create_task(self._hold_open(self._opened))
        return await asyncio.shield(self._opened)

    async def _hold_open(self, opened: asyncio.Future[Client]) -> None:
        try:
            async with self._transport() as transport, Client(transport) as client:
                opened.set_result(client)
                await self._closing.wait()
        except BaseException as error:  # whatever the server has done to the SDK
            self.gone = self.gone or self._last_words(error)
            if not opened.done():
                opened.set_exception(McpServerGone(self.gone))
                opened.exception()  # whoever waited for it may have gone
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        server = self.server
        if server.url:
            async with httpx2.AsyncClient(headers=server.headers(), timeout=httpx2.Timeout(server.start_s, read=None)) as http:
                yield streamable_http_client(server.url, http_client=http)
            return
        parameters = StdioServerParameters(command=server.words[0], args=list(server.words[1:]), env=server.environment())
        yield stdio_client(parameters, errlog=self._errors)

    @contextlib.contextmanager
    def _watched(self) -> Any:
        """Tell a JSON-RPC error from a connection that has ended. Raises McpError and McpServerGone."""
        try:
            yield
        except (MCPError, OSError, httpx2.HTTPError) as error:
            if isinstance(error, MCPError) and error.code != CONNECTION_CLOSED:
                raise McpError(error.code, error.message) from None
            self.gone = self._last_words(error)
            raise McpServerGone(self.gone) from None

    def _last_words(self, error: BaseException) -> str:
        """Return why the server is gone, with the last line that it wrote to standard error."""
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - MAX_LAST_WORDS))
        line = self._errors.read().strip().rpartition("\n")[2].strip()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if line or (self.server.words and isinstance(error, MCPError) and error.code == CONNECTION_CLOSED):
            return f"its server has ended: {line}".removesuffix(": ")
        return f"its server cannot be asked: {type(error).__name__}: {one_line(str(error))}".removesuffix(": ")


def _result_text(result: types.CallToolResult) -> str:
    """Return a result as text; what is no text is named."""
    parts = []
    for item in result.content:
        text = getattr(getattr(item, "resource", item), "text", None)
        named = " ".join(filter(None, [item.type, getattr(item, "mime_type", None)]))
        parts.append(f"[{named}]" if text is None else text)
    return "\n".join(parts)


logging.getLogger("mcp.client").setLevel(logging.CRITICAL)  # of tracebacks for lines that are no message
LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, name="MCP sessions", daemon=True).start()
SESSIONS: set[McpSession] = set()
"""Those that are open; the end of the process ends them."""


def read_listing(server: McpServer) -> Listing:
    """Start a server, read its list of tools, and end it. Raises McpServerGone, McpError and TimeoutError."""

    async def listing() -> Listing:
        session = McpSession(server)
        try:
            async with asyncio.timeout(server.start_s):
                return await session.listing()
        finally:
            await session.close()

    return _submit(listing()).result()


async def call(session: McpSession, name: str, arguments: Mapping[str, Any]) -> Any:
    """Call a tool from any event loop. Raises as `McpSession.call`; a cancellation reaches the server."""
    return await asyncio.wrap_future(_submit(session.call(name, arguments)))


def close_soon(session: McpSession) -> None:
    """End a session without waiting for it."""
    _submit(session.close())


def _submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    return asyncio.run_coroutine_threadsafe(work, LOOP)


@atexit.register
def _close_all() -> None:
    with contextlib.suppress(Exception):  # nothing is left to tell at the end of the process
        wait([_submit(session.close()) for session in tuple(SESSIONS)], CLOSE_S)
