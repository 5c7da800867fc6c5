"""The clients that DSPy would choose for a `dspy.LM`, for direct requests.

`dspy.LM.acall` hops through two threads, copies the request twice and writes a history: four times the cost of the call itself.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import cache
from ipaddress import ip_address
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

import dspy
from dspy import lm15
from dspy._vendor.lm15.transports import StdlibAsyncTransport
from dspy.clients._litellm import get_litellm
from dspy.clients.backend_selection import select_backend
from dspy.clients.engines import AsyncLiteLLMEngine
from dspy.clients.engines.stream_guard import achecked_stream
from dspy.clients.model_metadata import model_info

from whichloop.protocol.json_text import Json

from .wire import PROVIDERS as GEMINI
from .wire import with_calls_apart, with_json_schemas

FIRST_ERROR = 400


class Transport(StdlibAsyncTransport):
    """lm15's transport with readable bodies of errors."""

    def stream(self, request: object) -> Any:
        return _OpenedResponse(super().stream(request))


class _OpenedResponse:
    """A response while it is open, an error among them with its body in OpenAI's envelope."""

    def __init__(self, opened: Any) -> None:
        self.opened = opened

    async def __aenter__(self) -> object:
        response = await self.opened.__aenter__()
        return response if response.status < FIRST_ERROR else _ErrorResponse(response)

    async def __aexit__(self, *error: object) -> None:
        await self.opened.__aexit__(*error)


class _ErrorResponse:
    """An error response, of which lm15 reads the head and the whole body."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self.status = response.status
        self.reason = response.reason
        self.headers = response.headers
        self.http_version = response.http_version

    async def read(self) -> bytes:
        return enveloped(await self.response.read())


def enveloped(body: bytes) -> bytes:
    """Put the body of an error into OpenAI's envelope, which some servers (vLLM, FastAPI) leave out."""
    try:
        data = json.loads(body)
    except ValueError:
        return body
    if not isinstance(data, Mapping) or data.get("error"):
        return body
    message = data.get("message") or data.get("detail")
    if not message:
        return body
    return json.dumps({"error": {"message": _message_text(message), "type": data.get("type"), "code": data.get("code")}}).encode()


def _message_text(message: object) -> str:
    """Return the message as text: FastAPI lists problems, each with its place in the body."""
    if isinstance(message, str):
        return message
    items = message if isinstance(message, list) else [message]
    return "; ".join(_place_and_problem(item) for item in items)


def _place_and_problem(item: object) -> str:
    if not isinstance(item, Mapping):
        return str(item)
    place = item.get("loc")
    where = ".".join(map(str, place)) if isinstance(place, list) else ""
    return f"{where}: {item.get('msg', item)}".removeprefix(": ")


MAX_CONNECTIONS = 1024
"""The limit for one model; how many requests are in flight is decided elsewhere."""
LOCAL_KEY = "none"
"""The key for the user's own server if none is set: clients refuse to send nothing."""
_OPENAI = ("openai.com", "openai.azure.com")
_OLDER_LIMIT = lm15.OpenAIChatCompat(max_tokens_field="max_tokens")
"""Many servers that speak OpenAI's format ignore its newer name for the limit, `max_completion_tokens`."""


class Client(Protocol):
    """One attempt at one lm15 request. Raises lm15's errors, or DSPy's."""

    model: str
    """The name that requests must give it."""
    provider: str | None
    streams: bool

    async def complete(self, request: object) -> object: ...

    def stream(self, request: object) -> AsyncGenerator[Any, None]: ...

    async def aclose(self) -> None: ...


def client_of(lm: Any) -> Client:
    """Return the client that DSPy would use: lm15's own, LiteLLM, or the LM itself if it is not one of DSPy's."""
    if type(lm) is not dspy.LM or not isinstance(lm.engine, str) or lm.model_type == "text":
        return WholeClient(lm)
    selection = select_backend(lm)
    if selection.native:
        return NativeClient(selection)
    is_declared = selection.resolution is not None and selection.resolution.declared
    return WholeClient(lm) if is_declared or lm.model_type != "chat" else LiteLLMClient(lm, selection.clients)


class WholeClient:
    """`lm.acall`, for an LM with an engine or methods of its own."""

    provider: str | None = None
    streams = False

    def __init__(self, lm: Any) -> None:
        self.lm = lm
        self.model = str(lm.model)

    async def complete(self, request: Any) -> object:
        with dspy.context(disable_history=True):
            return await self.lm.acall(request)

    def stream(self, request: object) -> AsyncGenerator[Any, None]:
        raise NotImplementedError("`streams` is False")

    async def aclose(self) -> None:
        await self.lm.aclose()


class _Lm15Client(ABC):
    """One of lm15's clients, with what it needs on each event loop."""

    streams = True

    @abstractmethod
    async def _connection(self) -> _LoopConnection:
        """Return what the client holds for the running event loop."""

    async def complete(self, request: object) -> object:
        connection = await self._connection()
        return await connection.provider.complete(connection.adapted(request))

    async def stream(self, request: object) -> AsyncGenerator[Any, None]:
        connection = await self._connection()
        checked = _checked(connection.provider, connection.adapted(request))
        async with aclosing(with_calls_apart(checked) if connection.is_gemini else checked) as events:
            async for event in events:
                yield event


class NativeClient(_Lm15Client):
    """lm15's client of a provider, with one pool of connections per event loop."""

    def __init__(self, selection: Any) -> None:
        route, settings = selection.resolution, selection.clients
        self.provider: str | None = str(route.provider)
        self.model = str(route.model)
        self._key = settings.get("api_key")
        self._url = settings.get("api_base") or settings.get("base_url")
        self._connections: dict[asyncio.AbstractEventLoop, _LoopConnection] = {}

    async def aclose(self) -> None:
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.transport.aclose()

    async def _connection(self) -> _LoopConnection:
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None:
            _forget_closed(self._connections)
            connection = self._connections[loop] = _LoopConnection(_transport(self._url), is_gemini=self.provider in GEMINI)
        if connection.provider is None:
            async with connection.opening:  # hundreds of trials begin at the same time
                if connection.provider is None:
                    config = lm15.RouterConfig(
                        api_keys={self.provider: self._key} if self._key else None,
                        base_urls={self.provider: self._url} if self._url else None,
                        transport=connection.transport,
                    )
                    # Reads credentials, for a cloud over the network.
                    provider = await asyncio.to_thread(lm15.AsyncLMRouter(config).lm, f"{self.provider}:{self.model}")
                    connection.is_own = isinstance(provider, lm15.AsyncOpenAIChatLM) and _is_own(self._url, provider.base_url)
                    provider = _reading_incomplete(provider)
                    connection.provider = (
                        replace(provider, compat=_OLDER_LIMIT) if connection.is_own and self._takes_older_limit() else provider
                    )
        return connection

    def _takes_older_limit(self) -> bool:
        """Return whether the model takes the older name: all but OpenAI's reasoning models do, and lm15 knows other providers."""
        return self.provider == "openai-chat" and not model_info(self.provider, self.model).get("supports_reasoning")


class _IncompleteStreamReader:
    """lm15's reader of OpenAI's Responses, for streams that end incomplete too.

    It knows no end of a stream but `response.completed`, and takes one that was cut for its length for a broken connection. Why a
    response is incomplete stands in the event itself, from which `wire.py` reads it.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> object:
        return getattr(self._reader, name)

    def parse_stream_events(self, request: Any, event: Any) -> object:
        if event.event == "response.incomplete":
            event = replace(event, data=json.dumps(json.loads(event.data) | {"type": "response.completed"}))
        return self._reader.parse_stream_events(request, event)


def _reading_incomplete(provider: object) -> Any:
    """Return lm15's client of a provider; that of OpenAI's Responses reads streams that end incomplete."""
    if isinstance(provider, lm15.AsyncOpenAILM):
        provider._inner = _IncompleteStreamReader(provider._inner)
    return provider


@dataclass(slots=True)
class _LoopConnection:
    """What a client holds for one event loop."""

    transport: Any
    provider: Any = None
    is_own: bool = False
    """The service is not a provider's but some server that speaks OpenAI's format."""
    is_gemini: bool = False
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    def adapted(self, request: object) -> object:
        """Return the request as this server takes it."""
        if self.is_gemini:
            return with_json_schemas(request)
        return _with_texts(request) if self.is_own else request


def _with_texts(request: Any) -> object:
    """Put an empty text in place of null into turns that only make calls.

    llama-cpp-python, Ollama and LM Studio refuse null; services on Bedrock refuse the empty text, so theirs stays null.
    """
    messages = tuple(
        replace(message, parts=(lm15.TextPart(""), *message.parts)) if _is_calls_alone(message) else message
        for message in request.messages
    )
    return replace(request, messages=messages)


def _is_calls_alone(message: Any) -> bool:
    return message.role == "assistant" and not any(part.type == "text" for part in message.parts)


def _is_own(url: str | None, address: str) -> bool:
    """Return whether the server is the user's own. `url`: the address from the user, if any; `address`: the one in use."""
    if url is None:
        return _is_loopback(address)
    host = urlsplit(url).hostname or ""
    return not any(host == name or host.endswith(f".{name}") for name in _OPENAI)


def _transport(url: str | None) -> object:
    """Return a pool of connections; to this machine they never use a proxy."""
    return Transport(max_connections=MAX_CONNECTIONS, trust_env=url is None or not _is_loopback(url))


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _checked(provider: Any, request: Any) -> AsyncGenerator[Any, None]:
    """Yield a stream's events. An empty stream is the server's failure; one without its last event was cut."""
    name = getattr(provider, "provider", None)
    is_empty = True
    async with aclosing(achecked_stream(provider.stream(request), provider=name)) as events:
        try:
            async for event in events:
                is_empty = False
                yield event
        except lm15.StreamAssemblyError:
            if is_empty:
                raise lm15.ServerError("the stream was empty", provider=name) from None
            raise


def _forget_closed(held: dict[asyncio.AbstractEventLoop, Any]) -> None:
    """Drop closed event loops: nothing can be awaited on them, and lm15 closes the sockets when they are collected."""
    for loop in [loop for loop in held if loop.is_closed()]:
        del held[loop]


class _EngineWithoutMcp(AsyncLiteLLMEngine):
    """DSPy's engine for LiteLLM, without LiteLLM's gateway to MCP servers.

    Since its handler was added, LiteLLM imports the package `mcp`, which it does not require, for every request with tools.
    """

    def _arguments(self, request: object, *, streaming: bool = False) -> dict[str, Json]:
        arguments: dict[str, Any] = super()._arguments(request, streaming=streaming)
        return arguments | {_SKIP_MCP: True} if _knows_mcp() else arguments


_SKIP_MCP = "_skip_mcp_handler"


@cache
def _knows_mcp() -> bool:
    """Return whether this LiteLLM has the handler: one without it would send the switch to the provider."""
    get_litellm(feature="LiteLLM engine")
    helpers = importlib.import_module("litellm.litellm_core_utils.core_helpers")
    inner = getattr(helpers, "filter_internal_params", dict)
    return _SKIP_MCP not in inner({_SKIP_MCP: True})


class LiteLLMClient:
    """LiteLLM, for the providers that lm15 lacks. It may leave extensions out of the body."""

    streams = True

    def __init__(self, lm: Any, settings: Mapping[str, Any]) -> None:
        self.model = str(lm.model)
        self.provider: str | None = self.model.partition("/")[0]
        self._engine = _EngineWithoutMcp(**settings)

    async def complete(self, request: object) -> object:
        return await self._engine.complete(request)

    async def stream(self, request: object) -> AsyncGenerator[Any, None]:
        async with aclosing(_checked(self._engine, request)) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        """Close nothing: LiteLLM's connections belong to the whole process."""


_LOCAL: Mapping[str, tuple[str, type[Any]]] = {
    "chat": ("openai-chat", lm15.AsyncOpenAIChatLM),
    "responses": ("openai", lm15.AsyncOpenAILM),
    "messages": ("anthropic", lm15.AsyncAnthropicLM),
    "gemini": ("gemini", lm15.AsyncGeminiLM),
}
"""Wire of our server → the provider that it is the API of, and lm15's client for that."""


class LocalClient(_Lm15Client):
    """lm15's client of a server that speaks one of our wires. Those of one event loop share their connections, so each is cheap."""

    transports: ClassVar[dict[asyncio.AbstractEventLoop, Any]] = {}

    def __init__(self, url: str, model: str, wire: str = "chat") -> None:
        self.url = url
        self.model = model
        self.provider: str | None
        self.provider, self._speaks = _LOCAL[wire]
        self._connections: dict[asyncio.AbstractEventLoop, _LoopConnection] = {}

    async def _connection(self) -> _LoopConnection:
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None:
            transport = self.transports.get(loop)
            if transport is None:
                _forget_closed(self.transports)
                transport = self.transports[loop] = _transport(self.url)
            speaks = self._speaks(api_key=LOCAL_KEY, base_url=self.url, transport=transport)
            connection = self._connections[loop] = _LoopConnection(
                transport, _reading_incomplete(speaks), is_gemini=self.provider in GEMINI
            )
        return connection

    async def aclose(self) -> None:
        """Close nothing: the connections are shared: see `close_local_clients`."""


async def close_local_clients() -> None:
    """Close the connections that all local clients share on this event loop."""
    transport = LocalClient.transports.pop(asyncio.get_running_loop(), None)
    if transport is not None:
        await transport.aclose()
