"""A model that makes the moves it is told to: for tests of what a product does with a loop, and for examples that run offline."""

from __future__ import annotations

from collections.abc import AsyncIterator

from loopbench.protocol import Capabilities, Chunk, Inexpressible, ModelError, Move, Reply, Request

from .native import NATIVE
from .streaming import pieces
from .tokens import estimate_input, estimate_usage


class FakeModel:
    """Answers the n-th request with the n-th item: a move, said in the request's own format; a whole Reply; or an error, raised.

        model = Listed(Act("Add them.", (ToolCall("add", {"a": 2, "b": 3}),)), Answer("That is it.", "5"))

    What no format should say, an invalid answer for one, is listed as a Reply. `requests` holds what it was asked. Raises
    LookupError when asked more often than there are items, ValueError for a move that the request's format cannot say.
    """

    def __init__(self, *items: Move | Reply | ModelError, capabilities: Capabilities | None = None) -> None:
        self.items = items
        self.capabilities = capabilities or Capabilities()
        self.requests: list[Request] = []

    @property
    def name(self) -> str:
        return "listed"

    async def complete(self, request: Request) -> Reply:
        """Raises the listed errors."""
        self.requests.append(request)
        if len(self.requests) > len(self.items):
            raise LookupError(
                f"asked {len(self.requests)} times (now to {request.role.value}), but {len(self.items)} items are listed"
            )
        item = self.items[len(self.requests) - 1]
        if isinstance(item, ModelError):
            raise item
        reply = item if isinstance(item, Reply) else self._said(item, request)
        return Reply(reply.text, reply.calls, estimate_usage(estimate_input(request), reply), reply.finish_reason)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """The same in pieces."""
        for chunk in pieces(await self.complete(request)):
            yield chunk

    def _said(self, move: Move, request: Request) -> Reply:
        codec = request.codec or NATIVE
        try:
            return codec.render(move)
        except Inexpressible as error:
            count = len(self.requests)
            raise ValueError(
                f"item {count} cannot be said in the format {codec.name}, which lacks: {error}. It is {move}"
            ) from None
