"""The scripted model over HTTP: asked through a real server on loopback, by the client that asks real models.

A trial's tunnel is shared by both ends, which are one process: receipts, the tools' faults and virtual time need no wire. What
crosses it is what a provider would see, and in the body's `metadata` the names of codec, role and scope and the number of examples.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dspy import lm15

from whichloop.dspy_seam import ClientModel
from whichloop.dspy_seam.clients import LOCAL_KEY, HttpClient
from whichloop.models.metering import Meter, MeteredExchange, MeteredModel
from whichloop.models.scripted import Scripted
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.server import ServedTrial, Server
from whichloop.models.tunnel import SCOPE, Tunnel
from whichloop.models.wires.base import WireRequest
from whichloop.protocol import Capabilities, Chunk, Codec, ModelError, ProviderError, Reply, Request, WrappedModel
from whichloop.protocol.model import estimate_input, estimate_usage

VERSIONS = {"gemini": "v1beta"}
"""Wire → the first part of its paths, where it is not `v1`."""
WRITERS: dict[str, tuple[str, Any]] = {
    "chat": ("openai-chat", lm15.OpenAIChatLM),
    "responses": ("openai", lm15.OpenAILM),
    "messages": ("anthropic", lm15.AnthropicLM),
    "gemini": ("gemini", lm15.GeminiLM),
}
"""Wire → the provider that it is the API of, and lm15's writer for that."""
FIELDS = {"gemini": "labels"}
"""Wire → the field of a request that says codec, role and scope, where it is not `metadata`."""

CONNECTIONS = dict[Any, Any]()


class Switchboard:
    """Puts trials through a server of their own; the server finds them here by name."""

    def __init__(self, wire: str = "chat") -> None:
        """`wire`: what clients and server speak."""
        self.url = ""
        self._wire = wire
        self._trials: dict[str, ServedTrial] = {}
        self._numbers = itertools.count(1)

    def models(self) -> tuple[str, ...]:
        return ("scripted",)

    def find(self, trial: str | None, asked: WireRequest) -> ServedTrial:
        """Raises LookupError."""
        if trial is None or trial not in self._trials:
            raise LookupError(f"no trial {trial!r} is under way")
        return self._trials[trial]

    @contextlib.contextmanager
    def put_through(self, scripted: Scripted) -> Iterator[OverHttp]:
        """A trial's scripted model behind the server, for as long as the trial lasts."""
        name = f"trial-{next(self._numbers)}"
        behind = _Behind(scripted)
        self._trials[name] = ServedTrial(behind.ask, scripted.tunnel, behind.codecs)
        try:
            yield OverHttp(f"{self.url}/t/{name}/{VERSIONS.get(self._wire, 'v1')}", scripted.tunnel, behind, self._wire)
        finally:
            del self._trials[name]


@contextlib.asynccontextmanager
async def open_switchboard(wire: str = "chat") -> AsyncIterator[Switchboard]:
    """Its server runs in this event loop, on a free port of loopback."""
    switchboard = Switchboard(wire)
    async with Server(switchboard) as server:
        switchboard.url = server.url
        try:
            yield switchboard
        finally:
            if (transport := CONNECTIONS.pop(asyncio.get_running_loop(), None)) is not None:
                await transport.aclose()


class _Behind(WrappedModel):
    """A trial's scripted model at the server's end."""

    def __init__(self, scripted: Scripted) -> None:
        super().__init__(scripted)
        self.tunnel = scripted.tunnel
        self.struck: dict[str, str] = {}
        """Scope → the kind of fault that its last reply suffered."""
        self.codecs: dict[str, Codec] = {}
        """Where the server looks up the codecs that requests name."""
        self.failures: dict[str, ModelError] = {}
        """Scope → what its last request was failed with."""

    def named(self, codec: Codec) -> str:
        """The codec's name on the wire; the codec is kept, so that no other has its id."""
        name = f"{codec.name}#{id(codec)}"
        self.codecs[name] = codec
        return name

    async def ask(self, request: Request) -> MeteredExchange:
        exchange = await MeteredModel(self, Meter()).exchange(request)
        return exchange._replace(fault=self.tunnel.struck.pop(request.scope, None))

    async def complete(self, request: Request) -> Reply:
        try:
            return await self.model.complete(request)
        except ModelError as error:
            self.failures[request.scope] = error
            raise
        finally:
            if request.scope in self.tunnel.struck:
                self.struck[request.scope] = self.tunnel.struck[request.scope]


class _Telling(HttpClient):
    """A client whose bodies hold further fields, which `told` makes of a request."""

    told: Any

    async def _written(self, request: Request, *, stream: bool) -> Any:
        sent, *rest = await super()._written(request, stream=stream)
        sent.body = json.dumps(json.loads(sent.body) | self.told(request)).encode()
        return sent, *rest


class OverHttp:
    """One trial's model behind the server. Nothing is asked twice: a fault is the loop's to deal with."""

    name = "scripted"

    def __init__(self, url: str, tunnel: Tunnel, behind: _Behind, wire: str) -> None:
        self._tunnel = tunnel
        self._behind = behind
        self._field = FIELDS.get(wire, "metadata")
        provider, writer = WRITERS[wire]
        client = _Telling(lambda: writer(api_key=LOCAL_KEY, base_url=url, transport=object()), provider, "scripted", url)
        client.told, client.transports = self._metadata, CONNECTIONS
        self._client = ClientModel("openai/scripted", client, Capabilities(response_schema=True))

    @property
    def capabilities(self) -> Capabilities:
        return self._behind.capabilities

    async def complete(self, request: Request) -> Reply:
        """Raises ContextOverflow and ProviderError, which is injected where the scripted model meant it."""
        with self._on_its_way(request):
            return _counted(request, await self._client.complete(request))

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Raises what `complete` raises."""
        with self._on_its_way(request):
            async with contextlib.aclosing(self._client.stream(request)) as chunks:
                async for chunk in chunks:
                    yield chunk if chunk.reply is None else replace(chunk, reply=_counted(request, chunk.reply))

    def _metadata(self, request: Request) -> Mapping[str, Any]:
        codec = self._behind.named(request.codec or NATIVE)
        told = {"role": request.role.value, "scope": request.scope, "codec": codec, "examples": str(request.examples)}
        return {self._field: told}

    @contextlib.contextmanager
    def _on_its_way(self, request: Request) -> Iterator[None]:
        """Afterwards tunnel and server's end say what the model did on purpose.

        Such a failure keeps the kind that the client made of it, and gets the model's own words: a client's tell of ids and bytes,
        and a loop may show them to the model.
        """
        SCOPE.set(request.scope)
        self._behind.failures.pop(request.scope, None)
        try:
            yield
        except ModelError as error:
            meant = self._behind.failures.get(request.scope)
            if meant is not None:
                error.args = meant.args
            if isinstance(error, ProviderError):
                error.injected = isinstance(meant, ProviderError) and meant.injected
            raise
        finally:
            if (kind := self._behind.struck.pop(request.scope, None)) is not None:
                self._tunnel.struck[request.scope] = kind


def _counted(request: Request, reply: Reply) -> Reply:
    """With the tokens of the request as the loop sent it: clients rewrite some of what is counted on its way."""
    return replace(reply, usage=estimate_usage(estimate_input(request), reply))
