"""The clients that DSPy would choose for a `dspy.LM`, for direct requests: one attempt each.

`dspy.LM.acall` hops through two threads, copies the request twice and writes a history: four times the cost of the call itself.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import replace
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import dspy
from dspy import lm15
from dspy._vendor.lm15.providers.async_base import _aiter_lines
from dspy._vendor.lm15.sse import aparse_sse
from dspy._vendor.lm15.transports import StdlibAsyncTransport
from dspy.clients._http import retry_after_seconds
from dspy.clients._litellm import get_litellm
from dspy.clients.backend_selection import select_backend
from dspy.clients.engines import AsyncLiteLLMEngine
from dspy.clients.engines.litellm_errors import litellm_errors
from dspy.clients.legacy_outputs import plain
from dspy.clients.model_metadata import model_info

from whichloop.protocol import Chunk, NativeCall, ProviderError, Reply, Request, Usage
from whichloop.protocol.chat import FinishReason

from .errors import is_refusal_of, refused
from .replies import READINGS, ChatReading, Reading
from .requests import Items, ToolNames, lm15_request, turns_of, with_json_schemas, with_texts, with_turns

MAX_CONNECTIONS = 1024
"""The limit for one model; how many requests are in flight is decided elsewhere."""
MAX_EVENT_BYTES = 64 * 1024 * 1024
"""The longest event of a stream: that of Responses ends with the whole reply."""
LOCAL_KEY = "none"
"""The key for the user's own server if none is set: clients refuse to send nothing."""
LM15_FINISH: dict[FinishReason, str] = {
    "stop": "stop",
    "tool_calls": "tool_call",
    "length": "length",
    "content_filter": "content_filter",
    "other": "error",
}
_OPENAI = ("openai.com", "openai.azure.com")
_OLDER_LIMIT = lm15.OpenAIChatCompat(max_tokens_field="max_tokens")
"""Many servers that speak OpenAI's format ignore its newer name for the limit, `max_completion_tokens`."""


def client_of(lm: Any) -> Client:
    """Return the client that DSPy would use: lm15's own, LiteLLM, or the LM itself if it is not one of DSPy's."""
    if type(lm) is not dspy.LM or not isinstance(lm.engine, str) or lm.model_type == "text":
        return WholeClient(lm)
    selection = select_backend(lm)
    route, settings = selection.resolution, selection.clients
    if not selection.native:
        is_declared = route is not None and route.declared
        return WholeClient(lm) if is_declared or lm.model_type != "chat" else LiteLLMClient(lm, settings)
    provider, url, key = str(route.provider), settings.get("api_base") or settings.get("base_url"), settings.get("api_key")

    def dialect() -> Any:
        config = lm15.RouterConfig(
            api_keys={provider: key} if key else None, base_urls={provider: url} if url else None, transport=object()
        )
        return lm15.LMRouter(config).lm(f"{provider}:{route.model}")

    return HttpClient(dialect, provider, str(route.model), url)


class HttpClient:
    """A provider's API, or a server's that speaks like one: lm15 writes the request, `replies.py` reads what comes."""

    streams = True

    def __init__(self, dialect: Callable[[], Any], provider: str, model: str, url: str | None = None) -> None:
        """`dialect`: gives lm15's writer of requests, with the key, which a cloud reads over the network."""
        self.provider: str | None = provider
        self.model = model
        self.url = url
        self.transports: dict[asyncio.AbstractEventLoop, Any] = {}
        """A pool of connections for each event loop."""
        self._make_dialect = dialect
        self._dialect: Any = None
        self._reading: type[Reading] = ChatReading
        self._is_own = False
        self._takes_turns = True

    async def complete(self, request: Request) -> Reply:
        sent, names, turns = await self._written(request, stream=False)
        async with self._transport().stream(sent) as response:
            body = await response.read()
        if self._refuses(turns, response, body):
            return await self.complete(request)
        _check_status(response, body)
        return self._read(_loaded(body, response.status), names)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        sent, names, turns = await self._written(request, stream=True)
        reading = self._reading()
        async with self._transport().stream(sent) as response:
            if response.status >= 300:
                body = await response.read()
                if self._refuses(turns, response, body):
                    async with aclosing(self.stream(request)) as chunks:
                        async for chunk in chunks:
                            yield chunk
                    return
                _check_status(response, body)
            async for event in aparse_sse(_aiter_lines(response), max_line_bytes=MAX_EVENT_BYTES, max_event_bytes=MAX_EVENT_BYTES):
                reading.is_empty = False
                reading.ended = reading.ended or event.data == "[DONE]"
                for chunk in reading.push(_loaded(event.data)) if event.data not in ("", "[DONE]") else ():
                    yield names.in_chunk(chunk)
        yield Chunk(reply=self._read(_whole(reading), names))

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        transport = self.transports.pop(asyncio.get_running_loop(), None)
        if transport is not None:
            await transport.aclose()

    def _transport(self) -> Any:
        """Return the running loop's pool of connections; to this machine it never uses a proxy."""
        loop = asyncio.get_running_loop()
        if loop not in self.transports:
            for closed in [each for each in self.transports if each.is_closed()]:
                del self.transports[closed]  # lm15 closes the sockets when they are collected
            is_local = self.url is not None and _is_loopback(self.url)
            self.transports[loop] = StdlibAsyncTransport(max_connections=MAX_CONNECTIONS, trust_env=not is_local)
        return self.transports[loop]

    def _read(self, body: Mapping[str, Any], names: ToolNames) -> Reply:
        reply = self._reading.read(body)
        if self.provider == "xai" and reply.usage is not None:  # which does not count reasoning as output
            more = (body["usage"].get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
            reply = replace(reply, usage=replace(reply.usage, output_tokens=reply.usage.output_tokens + more))
        return names.in_reply(reply)

    async def _written(self, request: Request, *, stream: bool) -> tuple[Any, ToolNames, list[tuple[Items, int]]]:
        """Return the HTTP request, the names in it and the turns that go back."""
        if self._dialect is None:
            await self._open()
        dialect, names = self._dialect, ToolNames(request)
        asked = lm15_request(request, self.model, names)
        if self._reading.wire == "gemini":
            asked = with_json_schemas(asked)
        elif self._is_own:
            asked = with_texts(asked)
        if callable(dialect.api_key):  # which a cloud reads over the network
            sent, _ = await asyncio.to_thread(dialect._build, asked, stream)
        else:
            sent, _ = dialect._build(asked, stream)
        is_signed = any(name.lower() == "authorization" and value.startswith("AWS4") for name, value in sent.headers)
        # A signature is of the body as it is.
        turns = turns_of(request, self._reading.wire) if self._takes_turns and not is_signed else []
        if turns:
            sent = copy.copy(sent)
            sent.body = json.dumps(with_turns(json.loads(sent.body), turns, self._reading.wire)).encode()
        return sent, names, turns

    def _refuses(self, turns: list[tuple[Items, int]], response: Any, body: bytes) -> bool:
        """Note that a server refuses fields that it sent itself, as Groq does with `reasoning`; from now on they stay away."""
        if self._reading.wire != "chat" or response.status not in (400, 422):
            return False
        fields = {field for items, _ in turns for item in items for field in item} - {"tool_calls"}
        is_refused = is_refusal_of(body.decode("utf-8", "replace"), fields)
        self._takes_turns = self._takes_turns and not is_refused
        return is_refused

    async def _open(self) -> None:
        dialect = await asyncio.to_thread(self._make_dialect)
        kinds = {lm15.OpenAILM: "responses", lm15.AnthropicLM: "messages", lm15.GeminiLM: "gemini"}
        wire = next((wire for kind, wire in kinds.items() if isinstance(dialect, kind)), "chat")
        self._is_own = wire == "chat" and _is_own(self.url, dialect.base_url)
        # All but OpenAI's reasoning models take the older name, and lm15 knows other providers.
        if self._is_own and self.provider == "openai-chat" and not model_info(self.provider, self.model).get("supports_reasoning"):
            dialect = replace(dialect, compat=_OLDER_LIMIT)
        self._reading, self._dialect = READINGS[wire], dialect


def _check_status(response: Any, body: bytes) -> None:
    """Raise the failure that a status tells."""
    if response.status >= 300:
        wait = next((value for name, value in response.headers if name.lower() == "retry-after"), None)
        raise refused(response.status, body, retry_after_seconds(wait))


def _loaded(text: bytes | str, status: int | None = None) -> Mapping[str, Any]:
    """Return a body, or an event of a stream. Raises the failure that it tells."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProviderError(f"the reply is no JSON: {error}", "server", status=status) from None
    if isinstance(data, list) and data and isinstance(data[0], Mapping) and data[0].get("error"):
        data = data[0]  # so Gemini streams its errors
    if not isinstance(data, Mapping):
        raise ProviderError("the reply is no JSON object", "server")
    if data.get("error") or data.get("type") == "error":
        raise refused(None, data)
    return data


def _whole(reading: Reading) -> Mapping[str, Any]:
    """Return the body of a stream that is over. An empty one is the server's failure; one without its end was cut."""
    if reading.is_empty:
        raise ProviderError("the stream was empty", "server")
    if not reading.ended:
        raise ProviderError("the stream ended before its end", "connection")
    return reading.body


def _is_own(url: str | None, address: str) -> bool:
    """Return whether the server is the user's own. `url`: the address from the user, if any; `address`: the one in use."""
    if url is None:
        return _is_loopback(address)
    host = urlsplit(url).hostname or ""
    return not any(host == name or host.endswith(f".{name}") for name in _OPENAI)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


CURRENT_REQUEST: ContextVar[Request] = ContextVar("whichloop_request")
"""The request behind a call of an LM: a Model within that (`lm_of`) gets its role and codec, too."""


class WholeClient:
    """`lm.acall`, for an LM with an engine or methods of its own."""

    provider: str | None = None
    streams = False

    def __init__(self, lm: Any) -> None:
        self.lm = lm
        self.model = str(lm.model)
        """The name that the provider gives it, as in the other clients."""

    async def complete(self, request: Request) -> Reply:
        asked = lm15_request(request, self.model, ToolNames(Request(())))
        token = CURRENT_REQUEST.set(request)
        try:
            with dspy.context(disable_history=True):
                response = await self.lm.acall(asked)
        finally:
            CURRENT_REQUEST.reset(token)
        parts, counts = response.message.parts, response.usage
        texts = [json.dumps(part.value) if part.type == "data" else part.text for part in parts if part.type in _TEXTS]
        calls = [
            NativeCall(part.id, part.name, json.dumps(part.input, ensure_ascii=False)) for part in parts if part.type == "tool_call"
        ]
        is_counted = counts.input_tokens is not None and counts.output_tokens is not None
        usage = Usage(counts.input_tokens, counts.output_tokens, counts.cache_read_tokens or 0) if is_counted else None
        finish = next(ours for ours, theirs in LM15_FINISH.items() if theirs == response.finish_reason)
        return Reply("".join(texts), tuple(calls), usage, finish)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        reply = await self.complete(request)
        yield Chunk(reply.text, reply=reply)

    async def aclose(self) -> None:
        await self.lm.aclose()


_TEXTS = frozenset({"text", "refusal", "data"})


class LiteLLMClient:
    """LiteLLM, for the providers that lm15 lacks."""

    streams = True

    def __init__(self, lm: Any, settings: Mapping[str, Any]) -> None:
        self.model = str(lm.model)
        self.provider: str | None = self.model.partition("/")[0]
        self._engine = AsyncLiteLLMEngine(**settings)

    async def complete(self, request: Request) -> Reply:
        names, raw = await self._ask(request, streaming=False)
        return names.in_reply(ChatReading.read(plain(raw)))

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        names, source = await self._ask(request, streaming=True)
        reading = ChatReading()
        async with aclosing(source) as chunks:
            with litellm_errors(model=self.model):
                async for chunk in chunks:
                    reading.is_empty = False
                    for piece in reading.push(plain(chunk)):
                        yield names.in_chunk(piece)
        yield Chunk(reply=names.in_reply(ChatReading.read(_whole(reading))))

    async def _ask(self, request: Request, *, streaming: bool) -> tuple[ToolNames, Any]:
        names = ToolNames(request)
        litellm = get_litellm(feature="LiteLLM engine")
        asked = lm15_request(request, self.model, names)
        arguments: dict[str, Any] = self._engine._arguments(asked, streaming=streaming)
        arguments["_skip_mcp_handler"] = True  # which imports the package `mcp`, that LiteLLM does not require
        if turns := turns_of(request, ChatReading.wire):
            arguments = with_turns(arguments, turns, ChatReading.wire)
        with litellm_errors(model=self.model):
            return names, await litellm.acompletion(**arguments)

    async def aclose(self) -> None:
        """Close nothing: LiteLLM's connections belong to the whole process."""


Client = HttpClient | LiteLLMClient | WholeClient
"""One attempt at one request."""
