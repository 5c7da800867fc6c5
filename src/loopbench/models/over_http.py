"""The scripted model over HTTP: asked through a real server on loopback, by the client that asks real models.

A trial's tunnel is shared by both ends, which are one process: receipts, the tools' faults and virtual time need no wire. What
crosses it is what a provider would see, and the names of codec, role and scope in the body's `metadata`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from typing import Any

from loopbench.dspy_seam import close_local_clients, local_client
from loopbench.protocol import Capabilities, Chunk, Codec, ModelError, ProviderError, Reply, Request

from .native import NATIVE
from .openai_wire import Asked
from .scripted import Scripted
from .server import ServedTrial, Server
from .tokens import estimate_input, estimate_usage
from .tunnel import Tunnel


class Switchboard:
    """Puts trials through a server of their own; the server finds them here by name."""

    def __init__(self) -> None:
        self.url = ""
        self._trials: dict[str, ServedTrial] = {}
        self._numbers = itertools.count(1)

    def models(self) -> tuple[str, ...]:
        return ("scripted",)

    def find(self, trial: str | None, asked: Asked) -> ServedTrial:
        """Raises LookupError."""
        if trial is None or trial not in self._trials:
            raise LookupError(f"no trial {trial!r} is under way")
        return self._trials[trial]

    @contextlib.contextmanager
    def put_through(self, scripted: Scripted) -> Iterator[OverHttp]:
        """A trial's scripted model behind the server, for as long as the trial lasts."""
        name = f"trial-{next(self._numbers)}"
        codecs: dict[str, Codec] = {}
        self._trials[name] = ServedTrial(scripted, scripted.tunnel, codecs)
        try:
            yield OverHttp(f"{self.url}/t/{name}/v1", scripted.tunnel, codecs, scripted.capabilities)
        finally:
            del self._trials[name]


@contextlib.asynccontextmanager
async def open_switchboard() -> AsyncIterator[Switchboard]:
    """Its server runs in this event loop, on a free port of loopback."""
    switchboard = Switchboard()
    async with Server(switchboard) as server:
        switchboard.url = server.url
        try:
            yield switchboard
        finally:
            await close_local_clients()


class OverHttp:
    """One trial's model behind the server. Nothing is asked twice: a fault is the loop's to deal with."""

    name = "scripted"

    def __init__(self, url: str, tunnel: Tunnel, codecs: dict[str, Codec], capabilities: Capabilities) -> None:
        """`codecs`: where the server looks up the codecs that requests name."""
        self.capabilities = capabilities
        self._tunnel = tunnel
        self._codecs = codecs
        self._client = local_client(url, self._metadata)
        self._names: dict[int, str] = {}
        self._numbers = itertools.count(1)

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
        return {"metadata": {"role": request.role.value, "scope": request.scope, "codec": self._names[id(request)]}}

    @contextlib.contextmanager
    def _on_its_way(self, request: Request) -> Iterator[None]:
        """The server knows the request's codec by name; afterwards the tunnel says what the model did on purpose."""
        codec = request.codec or NATIVE
        name = self._names[id(request)] = f"{codec.name}#{next(self._numbers)}"
        self._codecs[name] = codec
        self._tunnel.asked(request.scope)
        try:
            yield
        except ModelError as error:
            effects = self._tunnel.effects(request.scope)
            if isinstance(error, ProviderError) and effects is not None:
                error.injected = effects.injected
            raise
        finally:
            del self._codecs[name], self._names[id(request)]
            effects = self._tunnel.effects(request.scope)
            self._tunnel.mark_struck(request, effects.struck if effects is not None else None)


def _counted(request: Request, reply: Reply) -> Reply:
    """With the tokens of the request as the loop sent it: clients rewrite some of what is counted on its way."""
    return replace(reply, usage=estimate_usage(estimate_input(request), reply))
