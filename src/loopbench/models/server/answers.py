"""Answers to a chat request: whole, as a stream, and broken on purpose."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aiohttp import web
from aiohttp.web_request import BaseRequest

from loopbench.protocol import Reply

from ..wires.chat import ChatRequest, chunks, completion
from .bodies import json_bytes

SSE = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
_NO_LINGER = struct.pack("ii", 1, 0)
"""SO_LINGER on, for no time: closing throws away what was not sent and resets the connection (socket(7), tcp(7))."""
_LAST_EVENT = b"data: [DONE]\n\n"
_BROKEN_OFF = Reply("Let me think about this.")
"""What a reply that never comes begins with: nothing in it is of use to the loop."""


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """The answer to one chat request."""

    http: BaseRequest
    asked: ChatRequest
    id: str
    created: int
    headers: Mapping[str, str]
    """Headers of any answer with status 200."""

    async def send(self, reply: Reply) -> web.StreamResponse:
        """Send a reply, as a stream if that is what the request asks for."""
        if not self.asked.stream:
            return web.Response(body=self._body(reply), content_type="application/json", headers=self.headers)
        return await self._stream(*self._events(reply, self.asked.include_usage), _LAST_EVENT)

    async def cut(self) -> web.StreamResponse:
        """Send the first half of an answer, and close the connection."""
        if self.asked.stream:
            first, second, *_ = self._events(_BROKEN_OFF)
            response = await self._stream(first, second[: len(second) // 2])
        else:
            whole = self._body(_BROKEN_OFF)
            size = {"Content-Type": "application/json", "Content-Length": str(len(whole))}
            response = web.StreamResponse(headers={**self.headers, **size})
            await response.prepare(self.http)
            await response.write(whole[: len(whole) // 2])
        if self.http.transport is not None:
            self.http.transport.close()  # not aborted: what was written shall arrive
        return response

    async def garble(self) -> web.StreamResponse:
        """Send a complete answer of status 200 that is not JSON."""
        whole = self._body(_BROKEN_OFF)
        half = whole[: len(whole) // 2]
        if not self.asked.stream:
            return web.Response(body=half, content_type="application/json", headers=self.headers)
        return await self._stream(b"data: " + half + b"\n\n", _LAST_EVENT)

    def drop(self) -> web.StreamResponse:
        """Send nothing at all, and reset the connection: the client sees an error (RST), not the end of a stream (FIN)."""
        transport = self.http.transport
        if isinstance(transport, asyncio.WriteTransport):
            connection = transport.get_extra_info("socket")
            if connection is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            transport.abort()
        return web.Response()

    def _body(self, reply: Reply) -> bytes:
        return json_bytes(completion(reply, self.asked.model, self.id, self.created))

    def _events(self, reply: Reply, include_usage: bool = False) -> Iterator[bytes]:
        for chunk in chunks(reply, self.asked.model, self.id, self.created, include_usage):
            yield b"data: " + json_bytes(chunk) + b"\n\n"

    async def _stream(self, *events: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={**self.headers, **SSE})
        await response.prepare(self.http)
        for event in events:
            await response.write(event)
        return response
