"""A Python function of this process as a loop: the trial's model is behind its HTTP client, and its tools are called in place.

A transport takes the place of the network in a client of httpx, or of httpx2, which is the same library under a newer name: no
socket, no port, and time stays virtual. What the model says, and what a fault makes of it, reaches the client as the server on
loopback would send it.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from whichloop.models.server.answers import Chat, WireAnswer, json_answer, refused
from whichloop.models.server.server import read_json, segments, wire_for
from whichloop.models.wires.base import Incoming, Refusal
from whichloop.protocol.json_text import Json
from whichloop.protocol.threads import in_thread
from whichloop.protocol.tokens import estimate_input

from .gateway import AT_ONCE_S, MODEL, ProgramTrial
from .loop import ForeignAgent
from .outside.typed_functions import ToolError, Tools

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

    async def answer(self, request: Any, body: bytes) -> WireAnswer:
        """Return what the model answers to a request of the library's."""
        path = segments(request.url.raw_path.decode())
        wire = wire_for(path, request.headers)
        page = wire.page(path)
        try:
            if page is None or page.kind == "models" or request.method != page.method:
                raise Refusal(404, f"Invalid URL ({request.method} {request.url.path})", code="unknown_url")
            incoming = Incoming(read_json(body), path, request.url.params, request.headers, self.chat.recall)
            wire_request = wire.read(incoming)
            if page.kind == "count":
                return json_answer(wire.count(estimate_input(wire_request.request)))
            return await self.chat.answer(wire, wire_request, self.trial.served, None)
        except Refusal as error:
            return refused(wire, error.failure)


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

    def _response(self, answer: WireAnswer, request: object) -> Any:
        if answer.status != 200:
            at_once = {} if self._place.trial.tunnel.real_time else _AT_ONCE
            return self._http.Response(answer.status, headers={**at_once, **answer.headers}, content=b"".join(answer.pieces))
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


API_KEY = "none"
BASE_URL = f"{ORIGIN}/v1"
_TRIAL: ContextVar[InProcessTrial | None] = ContextVar("whichloop_trial", default=None)


def current_trial() -> InProcessTrial:
    """Return the trial that the running function solves. Raises RuntimeError outside of one."""
    place = _TRIAL.get()
    if place is None:
        raise RuntimeError("no trial is under way here: call this inside of a function that a run calls, see whichloop.tunnel.loop")
    return place


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
        """The files of this package, and that of the function."""
        try:
            source_files = (Path(inspect.getfile(inspect.unwrap(self.function))),)
        except TypeError:  # an object that is called
            source_files = (Path(inspect.getfile(type(self.function))),)
        return (*super(FunctionLoop, self).sources, *(file for file in source_files if file.is_file()))

    async def solve_trial(self, trial: ProgramTrial, question: str) -> Mapping[str, Json]:
        """Call the function, and return its answer or what left it."""
        place = InProcessTrial.begun(trial)
        is_async = inspect.iscoroutinefunction(self.function)
        tools = Tools(trial.tool_list(), _caller(place, is_async), is_async)
        arguments = _FurtherArguments(place, is_async, self.max_steps).of(self.function)
        before = _TRIAL.set(place)
        try:
            return {"answer": await _awaited_answer(functools.partial(self.function, question, tools, **arguments), is_async)}
        except (Exception, SystemExit) as error:  # the boundary to the user's function: whatever leaves it is named
            return {"type": type(error).__name__, "error": str(error)}
        finally:
            _TRIAL.reset(before)


async def _awaited_answer(work: Callable[[], object], is_async: bool) -> Any:
    answer = work() if is_async else await in_thread(work)
    return await answer if inspect.isawaitable(answer) else answer


def _caller(place: InProcessTrial, is_async: bool) -> Callable[[str, dict[str, Json]], Any]:
    """Return `call(name, arguments)`, which raises ToolError with a tool's error, its type in front."""

    async def call(name: str, arguments: Mapping[str, object]) -> str:
        try:
            observation = await place.trial.call(name, arguments)
        except Refusal as error:  # the budget is used up, or the trial is over
            raise ToolError(str(error)) from None
        text: str = observation.as_dict()["data"]
        if not observation.ok:
            raise ToolError(text)
        return text

    def call_and_wait(name: str, arguments: Mapping[str, object]) -> str:
        text: str = place.from_thread(call(name, arguments))
        return text

    return call if is_async else call_and_wait


class _FurtherArguments:
    """What a function may get beside question and tools."""

    def __init__(self, place: InProcessTrial, is_async: bool, max_steps: int) -> None:
        self._makers: dict[str, Callable[[], Any]] = {
            "client": lambda: openai_client(place, is_async=is_async),
            "http_client": lambda: http_client(place, "httpx", is_async=is_async),
            "model": lambda: MODEL,
            "base_url": lambda: BASE_URL,
            "url": lambda: ORIGIN,
            "api_key": lambda: API_KEY,
            "max_steps": lambda: max_steps,
        }

    def of(self, function: Callable[..., Any]) -> dict[str, Any]:
        """Return what the function's parameters name."""
        parameters = list(inspect.signature(function).parameters)[2:]
        return {name: self._makers[name]() for name in parameters if name in self._makers}


def http_client(place: InProcessTrial, library: str, *, is_async: bool, **options: object) -> Any:
    """Return a client of `httpx` or `httpx2` whose every request goes to the trial's model. Raises ImportError."""
    http: Any = importlib.import_module(library)
    client_class = http.AsyncClient if is_async else http.Client
    return client_class(transport=TunnelTransport(library, place), timeout=None, **options)  # the model takes no time, tools may


def openai_client(place: InProcessTrial, *, is_async: bool, **options: object) -> object:
    """Return a client of OpenAI's package whose model is the trial's; `options` as the package has them. Raises ImportError."""
    return _vendors_client(place, "openai", "OpenAI", is_async, {"base_url": BASE_URL, **options})


def anthropic_client(place: InProcessTrial, *, is_async: bool, **options: object) -> object:
    """Return a client of Anthropic's package whose model is the trial's; `options` as the package has them. Raises ImportError."""
    return _vendors_client(place, "anthropic", "Anthropic", is_async, {"base_url": ORIGIN, **options})


def gemini_client(place: InProcessTrial, http_options: Mapping[str, object], **options: object) -> Any:
    """Return a `google.genai.Client` whose model is the trial's, blocking and asynchronous in one. Raises ImportError."""
    genai: Any = importlib.import_module("google.genai")
    clients = {"httpx_client": False, "httpx_async_client": True}
    http_clients = {name: http_client(place, "httpx", is_async=is_async) for name, is_async in clients.items()}
    return genai.Client(**{"api_key": API_KEY, **options}, http_options={"base_url": ORIGIN, **http_clients, **http_options})


def _vendors_client(place: InProcessTrial, package: str, name: str, is_async: bool, options: Mapping[str, object]) -> Any:
    """Return a client of a vendor's package, over the library that the package itself uses."""
    vendor: Any = importlib.import_module(package)
    default = vendor.DefaultAsyncHttpxClient if is_async else vendor.DefaultHttpxClient
    library = next(base.__module__ for base in default.__mro__ if base.__module__.partition(".")[0] in ("httpx", "httpx2"))
    http = http_client(place, library.partition(".")[0], is_async=is_async)
    client_class = getattr(vendor, f"Async{name}" if is_async else name)
    return client_class(**{"api_key": API_KEY, "http_client": http, **options})
