"""aiohttp's server, with its own errors in OpenAI's format too."""

from __future__ import annotations

import logging
from typing import Any

from aiohttp import web
from aiohttp.web_request import BaseRequest

from loopbench.protocol.redact import logger_of

from ..wires.chat import CHAT
from .bodies import MAX_BODY_BYTES
from .refusals import Refusal

LINGER_S = 1.0
"""Seconds that the rest of a body is read and thrown away, so that a client that is still sending hears why it is refused."""

logger = logger_of(__package__)
logger.addHandler(logging.NullHandler())


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
