"""The page `/t/TRIAL/mcp`: a trial's tools over the Model Context Protocol, streamable HTTP without sessions.

An answer is JSON; the one that follows a change of the tool list is a stream of two events, the first of which tells of the change.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from aiohttp import web
from aiohttp.web_request import BaseRequest

from whichloop._extras import MissingExtra, needed_by
from whichloop.models.wires.fields import MAX_BODY_BYTES
from whichloop.protocol.tool_calls import ToolListing

from .refusals import Refusal, line_of, wrong_method
from .trials import McpTrial

JSON, EVENTS = "application/json", "text/event-stream"


class McpPages:
    """Answers requests of MCP clients for the trials of one server. Not thread-safe."""

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
