"""Sends the answer to a chat request over a connection, and breaks the connection where the answer says so."""

from __future__ import annotations

import asyncio
import socket
import struct

from aiohttp import web
from aiohttp.web_request import BaseRequest

from .answers import WireAnswer

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
