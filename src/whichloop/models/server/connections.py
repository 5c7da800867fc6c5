"""aiohttp's server, with its own errors in OpenAI's format too, and a listener that leaves no connection open."""

from __future__ import annotations

import logging
import socket
from typing import Any

from aiohttp import web
from aiohttp.web_request import BaseRequest

from whichloop.protocol.redact import logger_of

from ..wires.chat import CHAT
from .bodies import MAX_BODY_BYTES
from .refusals import Refusal

LINGER_S = 1.0
"""Seconds that the rest of a body is read and thrown away, so that a client that is still sending hears why it is refused."""

BACKLOG = 1024
"""Connections that wait to be accepted."""
MAX_UNCHECKED = 16
"""Accepted connections up to which those that are closed are not looked for."""
CLOSED = -1
"""File descriptor of a closed socket."""

logger = logger_of(__package__)
logger.addHandler(logging.NullHandler())


class ListeningSocket(socket.socket):
    """A listening socket that closes the connections which nobody has taken over.

    asyncio takes an accepted connection over in a task of its own. If the event loop ends before that task begins, as beside an
    agent that goes on asking, asyncio forgets the connection without closing it.
    """

    def __init__(self, host: str, port: int) -> None:
        """Raises OSError if the port is taken."""
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        super().__init__(fileno=socket.create_server(address[:2], family=family, backlog=BACKLOG).detach())
        self._accepted: list[socket.socket] = []
        self._most = MAX_UNCHECKED

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection, and remember it until it is closed."""
        connection, address = super().accept()
        self._accepted.append(connection)
        if len(self._accepted) > self._most:
            self._accepted = [each for each in self._accepted if each.fileno() != CLOSED]
            self._most = max(MAX_UNCHECKED, 2 * len(self._accepted))
        return connection, address

    def close_accepted(self) -> None:
        """Close every connection that is still open."""
        for connection in self._accepted:
            connection.close()
        self._accepted.clear()


class HttpServer(web.Server):
    """aiohttp's server, with connections of our own kind."""

    def __call__(self) -> web.RequestHandler:
        return Connection(self, loop=self._loop, logger=logger, access_log=None, lingering_time=LINGER_S)  # type: ignore[arg-type]  # None: no log

    def _make_request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> BaseRequest:
        return BaseRequest(message, payload, protocol, writer, task, self._loop, client_max_size=MAX_BODY_BYTES)


class Connection(web.RequestHandler):
    """One connection."""

    __slots__ = ()

    def handle_error(
        self, request: BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer bytes that are not an HTTP request. Raises ConnectionError if an answer has begun."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        logger.info("refused bytes that are not an HTTP request")
        response = Refusal(400, "This is not an HTTP request that the server understands.").response(CHAT)
        response.force_close()
        return response
