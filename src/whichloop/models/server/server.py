"""A server on loopback for models of trials that speaks the vendors' APIs, with faults on the wire for real.

Routes: the pages of all wires, and the same below `/t/TRIAL`. A body's `metadata` may name role, scope, codec and the number of
examples; without a codec the program is spoken to as a vendor's model would (`foreign.py`).

Nothing is logged unless the logger `whichloop.models.server` is given a handler, and bodies never are. On level INFO it is told of
each request that is refused, other than by the trial's fault profile.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Self
from urllib.parse import unquote

from aiohttp import web

from whichloop._extras import MissingExtra, needed_by
from whichloop.models.wires import WIRES
from whichloop.models.wires.base import MAX_SHOWN, BadRequest, Incoming, Path, Refusal, Wire
from whichloop.protocol.model import estimate_input
from whichloop.protocol.wire import from_json

from .answers import MAX_BODY_BYTES, Chat, McpTrial, More, OwnRequest, Trials, WireAnswer, json_answer, logger, refused

logger.addHandler(logging.NullHandler())

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
HTTP_PORT = 80
OWN_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""What the Host header may say before the port, in small letters."""
BACKLOG = 1024
"""Connections that wait to be accepted."""
CLOSE_S = 0.5
"""Seconds that requests in flight get to end when the server closes."""
LINGER_S = 1.0
"""Seconds that the rest of a body is read and thrown away, so that a client that is still sending hears why it is refused."""
VERSIONS = ("v1", "v1beta")
"""First segments of the vendors' pages."""
_NO_LINGER = struct.pack("ii", 1, 0)
"""SO_LINGER on, for no time: closing throws away what was not sent and resets the connection (socket(7), tcp(7))."""


def segments(target: str) -> Path:
    """Return the decoded segments of a request's target as it was sent, without its query."""
    return tuple(unquote(part, errors="replace") for part in target.partition("?")[0].split("/")[1:])


def wire_for(path: Path, headers: Mapping[str, str]) -> Wire:
    """Return the wire of a request; `headers`: a mapping in which the case of a name does not count."""
    return next(wire for wire in WIRES if wire.is_addressed(path, headers))


def read_json(body: bytes) -> Any:
    """Read a body. Raises BadRequest for what is not JSON."""
    try:
        return from_json(body.decode("utf-8"))
    except ValueError as error:
        raise BadRequest(f"The body is no JSON: {error}"[:MAX_SHOWN]) from None


class Server:
    """Serves trials on loopback while it is open, as an async context manager. No thread: it runs in the event loop around it."""

    def __init__(
        self,
        trials: Trials,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        more: More | None = None,
        mcp: Callable[[str], McpTrial] | None = None,
    ) -> None:
        """`port`: 0 for any that is free. `more`: answers pages that no vendor's API has. `mcp`: finds the trial of `/t/TRIAL/mcp`.
        Raises ValueError for a host beyond loopback.
        """
        if host not in LOOPBACK:
            raise ValueError(f"the scripted model is served on loopback only ({', '.join(sorted(LOOPBACK))}), not on {host!r}")
        self.trials, self.port, self.more, self.mcp = trials, port, more, mcp
        self.host = "127.0.0.1" if host == "localhost" else host
        self._chats = Chat()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`; the port is known once the server is open."""
        return f"http://{'[::1]' if self.host == '::1' else self.host}:{self.port}"

    async def __aenter__(self) -> Self:
        """Open the server. Raises OSError if the port is taken."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, logger=logger)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=CLOSE_S, lingering_time=LINGER_S, logger=logger
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self.host, self.port, backlog=BACKLOG).start()
        except OSError:
            await self._runner.cleanup()
            raise
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = segments(request.raw_path)
        trial, path = (path[1], path[2:]) if len(path) > 2 and path[0] == "t" else (None, path)
        wire = wire_for(path, request.headers)
        try:
            return await _sent(await self._answer(request, wire, trial, path), request)
        except Refusal as error:
            failure = error
        except web.HTTPRequestEntityTooLarge:
            failure = Refusal(413, f"The body is larger than {MAX_BODY_BYTES} bytes.", code="request_too_large")
        except web.RequestPayloadError:
            failure = BadRequest("The body could not be read as its headers say.")
        except ConnectionError:  # the client has gone
            raise
        except Exception:  # a bug of ours must not leave a client without an answer in its own format
            logger.exception("a request failed")
            return await _sent(refused(wire, Refusal(500, "The server had an error.")), request)
        shown = request.raw_path.partition("?")[0][:MAX_SHOWN]
        logger.info("refused %s %s: %d: %s", request.method, shown, failure.status, failure)
        return await _sent(refused(wire, failure), request)

    async def _answer(self, request: web.Request, wire: Wire, trial: str | None, path: Path) -> WireAnswer:
        # pages in a browser are refused: those that use another name for this machine (DNS rebinding), and those of another origin
        host = request.headers.get("Host", "").lower()
        if host.removesuffix(f":{self.port}") not in OWN_NAMES or (host in OWN_NAMES and self.port != HTTP_PORT):
            raise Refusal(403, "The Host header must name this server on loopback.", code="host_refused")
        if "Origin" in request.headers:
            raise Refusal(403, "Requests with an Origin header are refused.", code="origin_refused")
        page = wire.page(path)
        own = OwnRequest(request.method, path if trial is None else ("t", trial, *path))
        if page is not None:
            own.require("GET" if page == "models" else "POST")
            if page == "models":
                return json_answer(wire.models(tuple(self.trials.models()), self._chats.started))
            body = read_json(await _body(request))
            read = wire.read(Incoming(body, path, request.query, request.headers, self._chats.recall))
            if page == "count":
                return json_answer(wire.count(estimate_input(read.request)))
            with _none_there():
                served = self.trials.find(trial, read)
            return await self._chats.answer(wire, read, served, trial)
        with _none_there():
            if self.mcp is not None and trial is not None and path == ("mcp",):
                own.require("POST")  # there is no stream to open and no session to end
                structured = request.query.get("structured") == "1"
                answer: WireAnswer = await self._mcp_pages.answer(
                    trial, request.headers, await _body(request), structured=structured
                )
                return answer
            if self.more is not None and path[0] not in VERSIONS:
                body = read_json(await _body(request)) if request.method == "POST" else None
                return json_answer(await self.more(OwnRequest(own.method, own.path, body)))
        raise Refusal(404, f"No page {request.method} {request.raw_path.partition('?')[0][:MAX_SHOWN]}", code="unknown_url")

    @cached_property
    def _mcp_pages(self) -> Any:
        """The pages of MCP, which load its SDK. Raises Refusal if the SDK is not installed."""
        try:
            with needed_by("MCP"):
                return importlib.import_module(f"{__package__}.mcp").McpPages(self.mcp)
        except MissingExtra as error:
            raise Refusal(500, str(error), code="mcp_missing") from None


@contextlib.contextmanager
def _none_there() -> Iterator[None]:
    """Turn a LookupError, which says in one line that a trial or a page is not there, into a refusal."""
    try:
        yield
    except LookupError as error:  # str() of a KeyError would put its message in quotes
        raise Refusal(404, " ".join(str(*error.args[:1]).split()) or "Not found.", code="trial_not_found") from None


async def _body(request: web.Request) -> bytes:
    """Return a request's body. Raises HTTPRequestEntityTooLarge, before it is read where its headers say so."""
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES)
    return await request.read()


async def _sent(answer: WireAnswer, request: web.Request) -> web.StreamResponse:
    """Send an answer; one that is dropped resets the connection: the client sees an error (RST), not the end of a stream (FIN)."""
    transport = request.transport
    if answer.ending == "dropped":
        if isinstance(transport, asyncio.WriteTransport):
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            transport.abort()
        return web.Response()
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    if not request.content.is_eof():
        response.force_close()  # the rest of the body may not come: the client must not use the connection again
    await response.prepare(request)
    for piece in answer.pieces:
        await response.write(piece)
    if answer.ending == "cut" and transport is not None:
        transport.close()  # not aborted: what was written shall arrive
    return response
