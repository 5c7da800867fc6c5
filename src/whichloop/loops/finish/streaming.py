"""Streamed replies, handed to `on_stream` piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from whichloop.protocol import CallDelta, Chunk, ProviderError, Reply

from .hooks import call_hook
from .output import FINISH, Output
from .partial import partial_json
from .step import PartialCall, StreamChunk

Hook = Callable[[StreamChunk], Any]

MAX_EACH = 20_000
"""Characters of a call's arguments up to which every piece is handed out."""
MIN_GROWTH = 1 / 64
"""Share by which longer arguments have to grow before they are read again: otherwise the time would grow with their square."""


async def streamed(chunks: AsyncIterator[Chunk], output: Output, hook: Hook) -> Reply:
    """Return the whole reply after handing out its pieces. Raises ModelError and HookFailed; the stream is closed then."""
    calls: dict[int, _ArrivingCall] = {}
    reply: Reply | None = None
    try:
        async for chunk in chunks:
            for piece in _pieces(chunk, calls, output):
                await call_hook(hook, piece)
            reply = chunk.reply or reply
    finally:
        if hasattr(chunks, "aclose"):
            await chunks.aclose()
    if reply is None:
        raise ProviderError("the stream ended without a reply", "server")
    return reply


@dataclass(slots=True)
class _ArrivingCall:
    """A call of which a part has come."""

    index: int
    name: str = ""
    id: str = ""
    parts: list[str] = field(default_factory=list)
    chars: int = 0
    shown: int = 0
    """Characters of the arguments that were handed out."""

    def take(self, delta: CallDelta) -> PartialCall | None:
        """Add a piece; return the call so far, unless it has not grown enough since it was last handed out."""
        self.name += delta.name
        self.id += delta.id
        self.parts.append(delta.arguments)
        self.chars += len(delta.arguments)
        if self.chars > MAX_EACH and self.chars - self.shown < self.shown * MIN_GROWTH:
            return None
        self.shown = self.chars
        self.parts = ["".join(self.parts)]
        return PartialCall(self.name, self.parts[0], self.index, self.id)


def _pieces(chunk: Chunk, calls: dict[int, _ArrivingCall], output: Output) -> list[StreamChunk]:
    """Return the pieces of one chunk; the last piece of a reply has `done`, and the whole answer if the reply holds one."""
    pieces = []
    if chunk.text and (chunk.reply is None or chunk.call is not None or chunk.reply.calls):
        pieces.append(StreamChunk(chunk.text))
    if chunk.call is not None:
        call = calls.setdefault(chunk.call.index, _ArrivingCall(chunk.call.index)).take(chunk.call)
        pieces += [] if call is None else [_of_call(call, output)]
    if chunk.reply is not None:
        finish = next((call for call in chunk.reply.calls if call.name == FINISH), None)
        last = StreamChunk(chunk.text or None) if not chunk.reply.calls and chunk.call is None else StreamChunk()
        if finish is not None:
            last = _of_call(PartialCall(FINISH, finish.arguments), output)
        pieces.append(replace(last, done=True))
    return pieces


def _of_call(call: PartialCall, output: Output) -> StreamChunk:
    if call.name != FINISH:
        return StreamChunk(tool_call=call)
    arguments = partial_json(call.arguments)
    return StreamChunk(partial=None if arguments is None else output.snapshot(*arguments))
