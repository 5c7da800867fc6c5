"""Answers to a request for a reply as bytes: whole, as a stream, and broken on purpose. Nothing here knows a socket."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from aiohttp import web
from aiohttp.web_request import BaseRequest

from whichloop.models.wires.contract import Stamp, StreamEvent, Wire, WireFailure, WireRequest
from whichloop.models.wires.fields import json_bytes
from whichloop.protocol import Reply

JSON = {"Content-Type": "application/json"}
SSE = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
_BROKEN_OFF = Reply("Let me think about this.")
"""What a reply that never comes begins with: nothing in it is of use to the loop."""


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """What the client of a request for a reply meets; the status is 200."""

    pieces: tuple[bytes, ...] = ()
    """The body, as it is written."""
    headers: Mapping[str, str] | None = None
    ending: Literal["whole", "cut", "dropped"] = "whole"
    """`cut`: the connection closes after the pieces, before the body's end; `dropped`: it is reset, and nothing is sent."""


@dataclass(frozen=True, slots=True)
class Answering:
    """The answer to one request, still to be given."""

    wire: Wire
    request: WireRequest
    stamp: Stamp
    headers: Mapping[str, str]
    """Headers of any answer with status 200."""

    def whole(self, reply: Reply) -> WireAnswer:
        """Return a reply, as a stream if that is what the request asks for."""
        if self.request.stream:
            return self._stream(*self._framed(self.wire.events(self.request, reply, self.stamp)), self._stream_end)
        return self._plain(self._body(reply))

    def cut(self) -> WireAnswer:
        """Return the first half of an answer, after which the connection closes."""
        if self.request.stream:
            first, second, *_ = self._framed(self.wire.events(self.request, _BROKEN_OFF, self.stamp))
            return WireAnswer((first, second[: len(second) // 2]), {**self.headers, **self._stream_type}, "cut")
        whole = self._body(_BROKEN_OFF)
        headers = {**self.headers, **JSON, "Content-Length": str(len(whole))}
        return WireAnswer((whole[: len(whole) // 2],), headers, "cut")

    def interrupted(self, failure: WireFailure) -> WireAnswer:
        """Return a stream that begins and then reports an error."""
        events = self.wire.failed_events(self.request, _BROKEN_OFF, failure, self.stamp)
        return self._stream(*self._framed(events), b"]" if self.request.listed else b"")

    def garbled(self) -> WireAnswer:
        """Return a complete answer of status 200 that is not JSON."""
        whole = self._body(_BROKEN_OFF)
        half = whole[: len(whole) // 2]
        if not self.request.stream:
            return self._plain(half)
        first = next(self.wire.events(self.request, _BROKEN_OFF, self.stamp))
        return self._stream(self._frame(first.name, half), self._stream_end)

    def _plain(self, body: bytes) -> WireAnswer:
        return WireAnswer((body,), {**self.headers, **JSON, "Content-Length": str(len(body))})

    def _stream(self, *events: bytes) -> WireAnswer:
        return WireAnswer(tuple(event for event in events if event), {**self.headers, **self._stream_type})

    def _body(self, reply: Reply) -> bytes:
        return json_bytes(self.wire.reply(self.request, reply, self.stamp))

    def _framed(self, events: Iterator[StreamEvent]) -> Iterator[bytes]:
        """Yield the bytes of a stream's events."""
        for place, event in enumerate(events):
            yield self._frame(event.name, json_bytes(event.data), place)

    def _frame(self, name: str, data: bytes, place: int = 0) -> bytes:
        """Return an event as it is sent (html.spec.whatwg.org, "Server-sent events"). `place`: 0-based, in the stream."""
        if self.request.listed:
            return (b",\r\n" if place else b"[") + data
        return (f"event: {name}\n".encode() if name else b"") + b"data: " + data + b"\n\n"

    @property
    def _stream_type(self) -> Mapping[str, str]:
        return JSON if self.request.listed else SSE

    @property
    def _stream_end(self) -> bytes:
        return b"]" if self.request.listed else self.wire.stream_end


DROPPED = WireAnswer(ending="dropped")


_NO_LINGER = struct.pack("ii", 1, 0)
"""SO_LINGER on, for no time: closing throws away what was not sent and resets the connection (socket(7), tcp(7))."""


async def send(answer: WireAnswer, http: BaseRequest) -> web.StreamResponse:
    """Send an answer."""
    if answer.ending == "dropped":
        return _drop(http)
    response = web.StreamResponse(headers=answer.headers)
    await response.prepare(http)
    for piece in answer.pieces:
        await response.write(piece)
    if answer.ending == "cut" and http.transport is not None:
        http.transport.close()  # not aborted: what was written shall arrive
    return response


def _drop(http: BaseRequest) -> web.StreamResponse:
    """Send nothing at all, and reset the connection: the client sees an error (RST), not the end of a stream (FIN)."""
    transport = http.transport
    if isinstance(transport, asyncio.WriteTransport):
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        transport.abort()
    return web.Response()
