"""`--model local`: a model in this process, behind the same retries and limits as a provider's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from whichloop.dspy_seam import close_local_clients, local_client
from whichloop.models.real import DEFAULTS, RealModel, RealOptions
from whichloop.protocol import Capabilities, Chunk, Model, ProviderError, Reply, Request

from .lark import lark
from .server import LocalServer, started_server
from .tools_as_text import with_calls_read, with_tools_as_text
from .weights import find_weights

ABILITIES = Capabilities(native_tools=True, tool_choice=True, response_schema=True, streaming=True, parallel_calls=False)


class LocalModel:
    """The model behind a server of this process. Native tools go there as text."""

    def __init__(self, name: str, server: LocalServer) -> None:
        self.name = name
        self.capabilities = ABILITIES
        self.server = server
        """Held, so that it answers as long as the model is there."""
        self.client: Model = local_client(server.url, _body, "local")

    async def complete(self, request: Request) -> Reply:
        """Return the reply, in which calls that stand as text are read. Raises ModelError."""
        return with_calls_read(await self.client.complete(_as_served(request)), request)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the reply in pieces; one that may call tools comes whole, as it is text until it is read. Raises ModelError."""
        if request.tools:
            reply = await self.complete(request)
            yield Chunk(reply.text, reply=reply)
            return
        async for chunk in self.client.stream(_as_served(request)):
            yield chunk

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await close_local_clients()


def _as_served(request: Request) -> Request:
    """Return the request as the server gets it; a grammar stands for the schema, as it takes one of them only.

    Raises ProviderError for images.
    """
    if any(message.images for message in request.messages):
        raise ProviderError("the local model takes no images: it reads text alone", "bad_request")
    as_text = with_tools_as_text(request)
    return as_text if as_text.grammar is None else replace(as_text, response_schema=None)


def _body(request: Request) -> Mapping[str, Any]:
    """Return what the body says beyond OpenAI's protocol."""
    return {} if request.grammar is None else {"grammar": lark(request.grammar)}


def open_local(name: str, options: RealOptions = DEFAULTS) -> RealModel:
    """Open `local` or `local:FILE`: load the weights and serve them here, which takes seconds.

    Raises ValueError, in one line: for weights that are not there or cannot be loaded, and for the package that would serve them.
    """
    return RealModel(LocalModel(name, started_server(name, find_weights(name), options.context_tokens)), options)
