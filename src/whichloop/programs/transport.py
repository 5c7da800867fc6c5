"""The trial's model behind an HTTP client of this process: no socket, no port, and time stays virtual.

A transport takes the place of the network in a client of httpx, or of httpx2, which is the same library under a newer name. What
the model says, and what a fault makes of it, reaches the client as the server on loopback would send it.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any, NamedTuple

from whichloop.models.server.answers import JSON, WireAnswer
from whichloop.models.server.bodies import json_bytes
from whichloop.models.server.chatting import Chat
from whichloop.models.server.refusals import Refusal, unreadable
from whichloop.models.wires.contract import ErrorAnswer, Incoming
from whichloop.models.wires.fields import BadRequest
from whichloop.models.wires.registry import segments, wire_for
from whichloop.protocol.tokens import estimate_input
from whichloop.protocol.wire import from_json

from .trial import AT_ONCE_S, ProgramTrial

ORIGIN = "http://whichloop.invalid"
"""Where clients believe the model to be; names below .invalid exist nowhere (RFC 2606)."""
_AT_ONCE = {"retry-after-ms": f"{1000 * AT_ONCE_S:g}"}
"""What OpenAI's clients wait for before another attempt; without it they sleep for seconds, in which nothing happens here."""


class InProcessTrial(NamedTuple):
    """A trial that a function of this process solves."""

    trial: ProgramTrial
    loop: asyncio.AbstractEventLoop
    """The event loop in which the trial's model and tools are."""
    thread: int
    """The thread that runs it."""
    chat: Chat

    @classmethod
    def begun(cls, trial: ProgramTrial) -> InProcessTrial:
        """Return a trial that begins in the running event loop."""
        return cls(trial, asyncio.get_running_loop(), threading.get_ident(), Chat())

    def from_thread(self, work: Any) -> Any:
        """Run a coroutine in the trial's event loop, and wait for it in this thread. Raises RuntimeError in that loop's thread."""
        if threading.get_ident() == self.thread:
            work.close()
            raise RuntimeError("a blocking call in a coroutine would wait for itself: make the function plain, or use async calls")
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def answer(self, request: Any, body: bytes) -> WireAnswer | ErrorAnswer:
        """Return what the model answers to a request of the library's."""
        path = segments(request.url.raw_path.decode())
        wire = wire_for(path, request.headers)
        page = wire.page(path)
        try:
            if page is None or page.kind == "models" or request.method != page.method:
                raise Refusal(404, f"Invalid URL ({request.method} {request.url.path})", code="unknown_url")
            recall = self.chat.memory.recall
            wire_request = wire.read(Incoming(_object(body), path, request.url.params, request.headers, recall))
            if page.kind == "count":
                body_bytes = json_bytes(wire.count(estimate_input(wire_request.request)))
                return WireAnswer((body_bytes,), {**JSON, "Content-Length": str(len(body_bytes))})
            return await self.chat.answer(wire, wire_request, self.trial.served, None)
        except BadRequest as error:
            return unreadable(error).on(wire)
        except Refusal as error:
            return error.on(wire)


def _object(body: bytes) -> object:
    """Read a body. Raises BadRequest for what is not JSON."""
    try:
        return from_json(body.decode("utf-8"))
    except ValueError:
        raise BadRequest("We could not parse the JSON body of your request.") from None


class TunnelTransport:
    """A transport, blocking and asynchronous, for clients of one HTTP library."""

    def __init__(self, library: str, place: InProcessTrial) -> None:
        self._http: Any = importlib.import_module(library)
        self._stream = _stream_class(library)
        self._place = place

    async def handle_async_request(self, request: Any) -> object:
        """Answer a request. Raises the library's ReadError where a fault drops the connection."""
        return self._response(await self._place.answer(request, await request.aread()), request)

    def handle_request(self, request: Any) -> Any:
        """Answer a request from another thread than the event loop's. Raises as `handle_async_request`, and RuntimeError."""
        work = self._place.answer(request, request.read())
        return self._response(self._place.from_thread(work), request)

    def _response(self, answer: WireAnswer | ErrorAnswer, request: object) -> Any:
        if isinstance(answer, ErrorAnswer):
            at_once = {} if self._place.trial.tunnel.real_time else _AT_ONCE
            headers = {**JSON, **at_once, **answer.headers}
            return self._http.Response(answer.status, headers=headers, content=json.dumps(answer.body).encode())
        if answer.ending == "dropped":
            raise self._http.ReadError("Connection reset by peer", request=request)
        return self._http.Response(200, headers=answer.headers, stream=self._stream(answer))

    # --- what clients do with a transport beside asking ---

    def close(self) -> None:
        """Do nothing: there is no connection."""

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""

    def __enter__(self) -> TunnelTransport:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> TunnelTransport:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


@cache
def _stream_class(library: str) -> Any:
    """Return a class for bodies that the library takes for its own: it asks for the type of a stream."""
    http: Any = importlib.import_module(library)

    class Body(_Pieces, http.SyncByteStream, http.AsyncByteStream):  # type: ignore[misc]  # the library is chosen at run time
        cut = http.RemoteProtocolError

    return Body


class _Pieces:
    """A body in pieces, which may end too early."""

    cut: type[Exception] = ConnectionError

    def __init__(self, answer: WireAnswer) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        yield from self._answer.pieces
        if self._answer.ending == "cut":
            raise self.cut("peer closed connection without sending complete message body (incomplete chunked read)")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece

    def close(self) -> None:
        """Do nothing: everything has come."""

    async def aclose(self) -> None:
        """Do nothing: everything has come."""
