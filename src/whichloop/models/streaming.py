"""A whole reply cut into the chunks of a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from whichloop.protocol import CallDelta, Chunk, Model, Reply, Request

PIECE = 12
"""Characters of a call's arguments in one chunk."""


def pieces(reply: Reply) -> Iterator[Chunk]:
    """Yield the text word by word, then each call's name and its arguments in pieces; the last chunk holds the reply."""
    for index, word in enumerate(reply.text.split(" ") if reply.text else ()):
        yield Chunk(word if index == 0 else f" {word}")
    for index, call in enumerate(reply.calls):
        yield Chunk(call=CallDelta(index, call.id, call.name))
        for start in range(0, len(call.arguments), PIECE):
            yield Chunk(call=CallDelta(index, arguments=call.arguments[start : start + PIECE]))
    yield Chunk(reply=reply)


class StreamsInPieces:
    """Gives a model `stream`, which yields the reply of its `complete` in pieces."""

    async def stream(self: Model, request: Request) -> AsyncIterator[Chunk]:
        """Yield the same reply in pieces."""
        for chunk in pieces(await self.complete(request)):
            yield chunk
