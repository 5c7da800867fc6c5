"""A server on loopback for models of trials that speaks the vendors' APIs, with faults on the wire for real.

Routes: the pages of all wires (`wires/registry.py`), and the same below `/t/TRIAL`. A body's `metadata` may name role, scope, codec
and the number of examples; without a codec the program is spoken to as a vendor's model would (`foreign.py`).

Nothing is logged unless the logger `whichloop.models.server` is given a handler, and bodies never are. On level INFO it is told of
each request that is refused, other than by the trial's fault profile, and of each that no program with the task's tools makes.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Any, Self
from weakref import WeakKeyDictionary

from aiohttp import web
from aiohttp.web_request import BaseRequest

from whichloop._extras import MissingExtra, needed_by
from whichloop.models.wires.contract import Incoming, Path, Wire, WirePage
from whichloop.models.wires.fields import MAX_BODY_BYTES, json_response, read_json
from whichloop.protocol.tokens import estimate_input
from whichloop.protocol.tool_calls import ToolListing

from .answers import send
from .chatting import BACKLOG, HOLD_S, VERSIONS, Chat, HttpServer, ListeningSocket, logger, page_meant, segments, wire_for
from .refusals import MAX_SHOWN, UNREADABLE, Refusal, line_of, no_model, no_page, unreadable, wrong_method
from .trials import McpTrial, More, OwnRequest, Trials, UnknownModel, WrongMethod

JSON, EVENTS = "application/json", "text/event-stream"


class McpPages:
    """Answers requests of MCP clients for the trials of one server. Not thread-safe.

    An answer is JSON; the one that follows a change of the tool list is a stream of two events, the first of which tells of the
    change.
    """

    def __init__(self, find: Callable[[str], McpTrial]) -> None:
        """`find` returns a trial by the segment of the path that names it. Raises LookupError."""
        self._find = find
        self._announced: WeakKeyDictionary[McpTrial, ToolListing] = WeakKeyDictionary()
        """Trial → the list that its clients have been told of last."""
        self._running: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Any] | None = None

    async def answer(self, request: BaseRequest, name: str) -> web.StreamResponse:
        """Answer a request. Raises Refusal and HTTPRequestEntityTooLarge."""
        if request.method != "POST":  # there is no stream to open and no session to end
            raise wrong_method(request, "POST")
        try:
            trial = self._find(name)
        except LookupError as error:
            raise Refusal(404, line_of(error), code="trial_not_found") from None
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES)
        body = await request.read()
        sdk, manager = await self._open()
        before = self._announced.setdefault(trial, trial.listed())
        accepts = request.headers.get("Accept", "")
        headers = {**request.headers, "Accept": accepts if JSON in accepts else f"{JSON}, {accepts}".strip(", ")}
        scope = sdk.scope_of(trial, request.method, headers, structured=request.query.get("structured") == "1")
        status, answer_headers, text = await sdk.ask(manager, scope, body)
        now = trial.listed()
        if now != before and EVENTS in accepts and text:
            self._announced[trial] = now
            return web.Response(status=200, body=sdk.change_told_with(text), content_type=EVENTS)
        return web.Response(
            status=status, body=text, headers=[(key, value) for key, value in answer_headers if key != "content-length"]
        )

    async def _open(self) -> tuple[Any, Any]:
        """Return the SDK and its session manager, which runs until `close`. Raises Refusal if the SDK is not installed."""
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            try:
                with needed_by("MCP"):
                    sdk = importlib.import_module(f"{__package__}.mcp_sdk")
            except MissingExtra as error:
                self._ready = None
                raise Refusal(500, str(error), code="mcp_missing") from None
            self._running = asyncio.create_task(self._run(sdk, self._ready))
        return await asyncio.shield(self._ready)

    async def _run(self, sdk: Any, ready: asyncio.Future[Any]) -> None:
        """Keep the session manager open: it must be left in the task that has entered it."""
        try:
            manager = sdk.session_manager()
            async with manager.run():
                ready.set_result((sdk, manager))
                await asyncio.Event().wait()
        except Exception as error:
            if ready.done():
                raise
            self._ready = None
            ready.set_exception(error)  # whoever waits for the SDK is told, and the next request tries again

    async def close(self) -> None:
        """End all that the SDK has running."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})


CLOSE_S = 0.5
"""Seconds that requests in flight get to end when the server closes."""
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
HTTP_PORT = 80
_HOST_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""The server in a Host header: any other name there means that someone else's name points here (DNS rebinding)."""


class Server:
    """Serves trials on loopback while it is open, as an async context manager. No thread: it runs in the event loop around it."""

    def __init__(
        self,
        trials: Trials,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        more: More | None = None,
        mcp: McpPages | None = None,
        hold_s: float = HOLD_S,
    ) -> None:
        """`port`: 0 for any that is free. `more`: answers pages that no vendor's API has. `mcp`: answers `/t/TRIAL/mcp`.
        `hold_s`: how long a time-out in real time keeps the line silent. Raises ValueError for a host beyond loopback.
        """
        if host not in LOOPBACK:
            raise ValueError(f"the scripted model is served on loopback only ({', '.join(sorted(LOOPBACK))}), not on {host!r}")
        self.trials = trials
        self.host = "127.0.0.1" if host == "localhost" else host
        self.port = port
        self.more = more
        self.mcp = mcp
        self._chats = Chat(hold_s)
        self._runner: web.ServerRunner | None = None
        self._listener: ListeningSocket | None = None

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`; the port is known once the server is open."""
        return f"http://{'[::1]' if self.host == '::1' else self.host}:{self.port}"

    async def __aenter__(self) -> Self:
        """Open the server. Raises OSError if the port is taken."""
        self._runner = web.ServerRunner(HttpServer(self._handle, handler_cancellation=True), shutdown_timeout=CLOSE_S)
        await self._runner.setup()
        try:
            self._listener = ListeningSocket(self.host, self.port)
            await web.SockSite(self._runner, self._listener, backlog=BACKLOG).start()
        except OSError:
            await self._runner.cleanup()
            raise
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            if self._runner is not None:
                await self._runner.cleanup()
        finally:
            if self._listener is not None:
                self._listener.close_accepted()
        if self.mcp is not None:
            await self.mcp.close()

    # --- from a request to a page ---

    async def _handle(self, request: BaseRequest) -> web.StreamResponse:
        response = await self._answer(request)
        if not request.content.is_eof():
            response.force_close()  # the connection ends after it, unless the rest comes soon: the client must not use it again
        return response

    async def _answer(self, request: BaseRequest) -> web.StreamResponse:
        trial, path = _place(request)
        wire = wire_for(path, request.headers)
        try:
            # pages in a browser are refused: those that use another name for this machine, and those of another origin
            if request.headers.get("Host", "").lower() not in own_hosts(self.port):
                raise Refusal(403, "The Host header must name this server on loopback.", code="host_refused")
            if "Origin" in request.headers:
                raise Refusal(403, "Requests with an Origin header are refused.", code="origin_refused")
            return await self._page(request, wire, trial, path)
        except Refusal as error:
            refusal = error
        except UNREADABLE as error:
            refusal = unreadable(error)
        except ConnectionError:  # the client has gone
            raise
        except Exception:  # a bug of ours must not leave a client without an answer in its own format
            logger.exception("a request failed")
            return Refusal(500, "The server had an error while processing your request.").response(wire)
        if not refusal.is_treatment:
            failure, path_shown = refusal.failure, request.raw_path.partition("?")[0][:MAX_SHOWN]
            at = f" at {failure.param}" if failure.param else ""
            logger.info("refused %s %s: %d%s: %s", request.method, path_shown, failure.status, at, failure.message)
        return refusal.response(wire)

    async def _page(self, request: BaseRequest, wire: Wire, trial: str | None, path: Path) -> web.StreamResponse:
        page = wire.page(path)
        if page is not None:
            if request.method != page.method:
                raise wrong_method(request, page.method)
            if page.kind == "models":
                return json_response(self._models(wire, page))
            return await self._reply_page(request, wire, page, trial)
        if self.mcp is not None and trial is not None and path == ("mcp",):
            return await self.mcp.answer(request, trial)
        right_path = page_meant(path, request.headers)
        if self.more is None or right_path is not None or path[:1] in _VENDORS_ROOTS:
            raise no_page(request, path, right_path)
        return await self._further(request, path if trial is None else ("t", trial, *path), self.more)

    async def _further(self, request: BaseRequest, path: tuple[str, ...], more: More) -> web.StreamResponse:
        body = await read_json(request) if request.method == "POST" else None
        try:
            return json_response(await more(OwnRequest(request.method, path, body)))
        except LookupError as error:
            raise Refusal(404, line_of(error) or "Not found.", code="not_found") from None
        except WrongMethod as error:
            raise wrong_method(request, str(error)) from None

    def _models(self, wire: Wire, page: WirePage) -> object:
        models, created = self.trials.models(), self._chats.started
        if page.model is None:
            return wire.models(tuple(models), created)
        if page.model not in models:
            raise no_model(f"The model '{page.model[:MAX_SHOWN]}' does not exist.")
        return wire.model(page.model, created)

    # --- replies and counts ---

    async def _reply_page(self, request: BaseRequest, wire: Wire, page: WirePage, trial: str | None) -> web.StreamResponse:
        path = _place(request)[1]
        wire_request = wire.read(
            Incoming(await read_json(request), path, request.query, request.headers, self._chats.memory.recall)
        )
        if page.kind == "count":
            return json_response(wire.count(estimate_input(wire_request.request)))
        try:
            served = self.trials.find(trial, wire_request)
        except UnknownModel as error:
            raise no_model(line_of(error)) from None
        except LookupError as error:
            raise Refusal(404, line_of(error), code="trial_not_found") from None
        return await send(await self._chats.answer(wire, wire_request, served, trial), request)


_VENDORS_ROOTS = tuple((version,) for version in VERSIONS)


def _place(request: BaseRequest) -> tuple[str | None, Path]:
    """Return the trial that a request names, None if it names none, and the path below it."""
    path = segments(request.raw_path)
    return (path[1], path[2:]) if len(path) > 2 and path[0] == "t" else (None, path)


def own_hosts(port: int) -> frozenset[str]:
    """Return what a Host header may be, in small letters; clients leave HTTP's own port out."""
    return frozenset(f"{name}:{port}" for name in _HOST_NAMES) | (_HOST_NAMES if port == HTTP_PORT else frozenset())
