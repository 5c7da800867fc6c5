"""Streamed replies, handed to `on_stream` piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from loopbench.protocol import CallDelta, Chunk, Observer, ProviderError, Reply

from .hooks import call_hook
from .output import FINISH, Output
from .partial import partial_json
from .step import PartialCall, StreamChunk

Hook = Callable[[StreamChunk], Any]


async def streamed(chunks: AsyncIterator[Chunk], output: Output, hook: Hook | None, observer: Observer) -> Reply:
    """Return the whole reply after handing out every piece. Raises ModelError and HookFailed; the stream is closed then."""
    calls: dict[int, PartialCall] = {}
    reply: Reply | None = None
    try:
        async for chunk in chunks:
            if observer.streams:
                observer.chunk(chunk)
            if hook is not None:
                for piece in _pieces(chunk, calls, output):
                    await call_hook(hook, piece)
            reply = chunk.reply or reply
    finally:
        if hasattr(chunks, "aclose"):
            await chunks.aclose()
    if reply is None:
        raise ProviderError("the stream ended without a reply", "server")
    return reply


def _pieces(chunk: Chunk, calls: dict[int, PartialCall], output: Output) -> list[StreamChunk]:
    """Return the pieces of one chunk; the last piece of a reply has `done`, and the whole answer if the reply holds one."""
    made = []
    if chunk.text and (chunk.reply is None or chunk.call is not None or chunk.reply.calls):
        made.append(StreamChunk(chunk.text))
    if chunk.call is not None:
        made.append(_of_call(_grown(calls, chunk.call), output))
    if chunk.reply is not None:
        finish = next((call for call in chunk.reply.calls if call.name == FINISH), None)
        last = StreamChunk(chunk.text or None) if not chunk.reply.calls and chunk.call is None else StreamChunk()
        if finish is not None:
            last = _of_call(PartialCall(FINISH, finish.arguments), output)
        made.append(replace(last, done=True))
    return made


def _grown(calls: dict[int, PartialCall], delta: CallDelta) -> PartialCall:
    known = calls.get(delta.index, PartialCall("", "", delta.index))
    known = PartialCall(known.name + delta.name, known.arguments + delta.arguments, delta.index, known.id + delta.id)
    calls[delta.index] = known
    return known


def _of_call(call: PartialCall, output: Output) -> StreamChunk:
    if call.name != FINISH:
        return StreamChunk(tool_call=call)
    found = partial_json(call.arguments)
    return StreamChunk(partial=None if found is None else output.snapshot(*found))
