"""A Python function of this process as a loop: the trial's model is behind its HTTP client, and its tools are called in place.

A transport takes the place of the network in a client of httpx, or of httpx2, which is the same library under a newer name: no
socket, no port, and time stays virtual. What the model says, and what a fault makes of it, reaches the client as the server on
loopback would send it.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from whichloop.models.server.answers import Chat, WireAnswer, json_answer, refused
from whichloop.models.server.server import read_json, segments, wire_for
from whichloop.models.wires.base import Incoming, Refusal
from whichloop.protocol.json_text import Json
from whichloop.protocol.model import estimate_input
from whichloop.protocol.threads import in_event_loop, in_thread

from .gateway import AT_ONCE_S, MODEL, ProgramTrial
from .loop import ForeignAgent
from .outside.runner import ToolError, Tools
from .worker import API_KEY

ORIGIN = "http://whichloop.invalid"
"""Where clients believe the model to be; names below .invalid exist nowhere (RFC 2606)."""
BASE_URL = f"{ORIGIN}/v1"
_AT_ONCE = {"retry-after-ms": f"{1000 * AT_ONCE_S:g}"}
"""What OpenAI's clients wait for before another attempt; without it they sleep for seconds, in which nothing happens here."""


class InProcessTrial(NamedTuple):
    """A trial that a function of this process solves."""

    trial: ProgramTrial
    loop: asyncio.AbstractEventLoop
    """The event loop in which the trial's model and tools are."""
    chat: Chat

    def from_thread(self, work: Any) -> Any:
        """Run a coroutine in the trial's event loop, and wait for it in this thread. Raises RuntimeError in that loop's thread."""
        if in_event_loop() and asyncio.get_running_loop() is self.loop:
            work.close()
            raise RuntimeError("a blocking call in a coroutine would wait for itself: make the function plain, or use async calls")
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def answer(self, request: Any, body: bytes) -> WireAnswer:
        """Return what the model answers to a request of the library's."""
        path = segments(request.url.raw_path.decode())
        wire = wire_for(path, request.headers)
        page = wire.page(path)
        try:
            if page not in ("reply", "count") or request.method != "POST":
                raise Refusal(404, f"Invalid URL ({request.method} {request.url.path})", code="unknown_url")
            wire_request = wire.read(Incoming(read_json(body), path, request.url.params, request.headers, self.chat.recall))
            if page == "count":
                return json_answer(wire.count(estimate_input(wire_request.request)))
            return await self.chat.answer(wire, wire_request, self.trial.served, None)
        except Refusal as error:
            return refused(wire, error)

    async def call(self, name: str, arguments: Mapping[str, object]) -> str:
        """Run a tool. Raises ToolError with a tool's error, its type in front."""
        try:
            observation = await self.trial.call(name, arguments)
        except Refusal as error:  # the budget is used up, or the trial is over
            raise ToolError(str(error)) from None
        text: str = observation.as_dict()["data"]
        if not observation.ok:
            raise ToolError(text)
        return text


_TRIAL: ContextVar[InProcessTrial | None] = ContextVar("whichloop_trial", default=None)


def current_trial() -> InProcessTrial:
    """Return the trial that the running function solves. Raises RuntimeError outside of one."""
    place = _TRIAL.get()
    if place is None:
        raise RuntimeError("no trial is under way here: call this inside of a function that a run calls, see whichloop.tunnel.loop")
    return place


@cache
def transport_class(library: str) -> Any:
    """Return the class of transports to a trial's model, blocking and asynchronous, of `library`. Raises ImportError."""
    http: Any = importlib.import_module(library)

    class TunnelTransport(http.BaseTransport, http.AsyncBaseTransport):  # type: ignore[misc]  # the library is chosen at run time
        def __init__(self, place: InProcessTrial) -> None:
            self._place = place

        async def handle_async_request(self, request: Any) -> object:
            """Answer a request. Raises the library's ReadError where a fault drops the connection."""
            answer = await self._place.answer(request, await request.aread())

            async def pieces() -> AsyncIterator[bytes]:
                for piece in body(answer):
                    yield piece

            return self._response(answer, pieces(), request)

        def handle_request(self, request: Any) -> object:
            """Answer a request from another thread than the event loop's. Raises as `handle_async_request`, and RuntimeError."""
            answer = self._place.from_thread(self._place.answer(request, request.read()))
            return self._response(answer, body(answer), request)

        def _response(self, answer: WireAnswer, pieces: object, request: object) -> object:
            if answer.status != 200:
                at_once = {} if self._place.trial.tunnel.real_time else _AT_ONCE
                return http.Response(answer.status, headers={**at_once, **answer.headers}, content=b"".join(answer.pieces))
            if answer.ending == "dropped":
                raise http.ReadError("Connection reset by peer", request=request)
            return http.Response(200, headers=answer.headers, content=pieces)

    def body(answer: WireAnswer) -> Iterator[bytes]:
        yield from answer.pieces
        if answer.ending == "cut":
            raise http.RemoteProtocolError("peer closed connection without sending complete message body (incomplete chunked read)")

    return TunnelTransport


@dataclass(frozen=True, slots=True)
class FunctionLoop(ForeignAgent):
    """A loop that a function makes: `solve(question, tools, ...)`, a coroutine or plain, which runs on a thread then.

    Further parameters get what they are named for: `client`, `model`, `base_url`, `url`, `api_key`, `http_client`, `max_steps`.
    """

    function: Callable[..., Any]

    def __call__(self) -> FunctionLoop:
        """Return itself: `--loop my.module:solve` calls what it names."""
        return self

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files of this package, and that of the function, or of the class of an object that is called."""
        function = inspect.unwrap(self.function)
        file = Path(inspect.getfile(function if inspect.isroutine(function) or inspect.isclass(function) else type(function)))
        return (*super(FunctionLoop, self).sources, *([file] if file.is_file() else []))

    async def solve_trial(self, trial: ProgramTrial, question: str) -> Mapping[str, Json]:
        """Call the function, and return its answer or what left it."""
        is_async = inspect.iscoroutinefunction(self.function)
        place = InProcessTrial(trial, asyncio.get_running_loop(), Chat())
        call = place.call if is_async else lambda name, arguments: place.from_thread(place.call(name, arguments))
        tools = Tools(trial.tool_list(), call, is_async)
        given: dict[str, Callable[[], Any]] = {
            "client": lambda: vendors_client(place, "openai", "AsyncOpenAI" if is_async else "OpenAI", {"base_url": BASE_URL}),
            "http_client": lambda: http_client(place, "httpx", is_async=is_async),
            "model": lambda: MODEL,
            "base_url": lambda: BASE_URL,
            "url": lambda: ORIGIN,
            "api_key": lambda: API_KEY,
            "max_steps": lambda: self.max_steps,
        }
        named = [name for name in list(inspect.signature(self.function).parameters)[2:] if name in given]
        work = partial(self.function, question, tools, **{name: given[name]() for name in named})
        before = _TRIAL.set(place)
        try:
            answer: Any = work() if is_async else await in_thread(work)
            return {"answer": await answer if inspect.isawaitable(answer) else answer}
        except (Exception, SystemExit) as error:  # the boundary to the user's function: whatever leaves it is named
            return {"type": type(error).__name__, "error": str(error)}
        finally:
            _TRIAL.reset(before)


def http_client(place: InProcessTrial, library: str, *, is_async: bool) -> Any:
    """Return a client of `httpx` or `httpx2` whose every request goes to the trial's model. Raises ImportError."""
    http: Any = importlib.import_module(library)
    client_class = http.AsyncClient if is_async else http.Client
    return client_class(transport=transport_class(library)(place), timeout=None)  # the model takes no time, tools may


def vendors_client(place: InProcessTrial, package: str, name: str, options: Mapping[str, object]) -> Any:
    """Return a client of a vendor's class, over the library that the package itself uses, whose model is the trial's.

    Raises ImportError.
    """
    vendor: Any = importlib.import_module(package)
    is_async = name.startswith("Async")
    default = vendor.DefaultAsyncHttpxClient if is_async else vendor.DefaultHttpxClient
    library = next(base.__module__ for base in default.__mro__ if base.__module__.partition(".")[0] in ("httpx", "httpx2"))
    http = http_client(place, library.partition(".")[0], is_async=is_async)
    return getattr(vendor, name)(**{"api_key": API_KEY, "http_client": http, **options})


def gemini_client(place: InProcessTrial, http_options: Mapping[str, object], options: Mapping[str, object]) -> Any:
    """Return a `google.genai.Client` whose model is the trial's, blocking and asynchronous in one. Raises ImportError."""
    genai: Any = importlib.import_module("google.genai")
    kinds = {"httpx_client": False, "httpx_async_client": True}
    clients = {name: http_client(place, "httpx", is_async=is_async) for name, is_async in kinds.items()}
    return genai.Client(**{"api_key": API_KEY, **options}, http_options={"base_url": ORIGIN, **clients, **http_options})
