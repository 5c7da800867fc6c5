"""A model and a toolbox that tell an observer, as events, what a loop does with them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator
from itertools import count
from typing import Any, cast

from whichloop.protocol import (
    Act,
    Chunk,
    Model,
    ModelError,
    Observation,
    Observer,
    ProviderError,
    Reply,
    Request,
    Toolbox,
    ToolCall,
    WireError,
    WrappedModel,
)
from whichloop.protocol.cancellation import failure_of_model
from whichloop.protocol.chat import whole_pieces
from whichloop.protocol.events import (
    CallInvalid,
    EventOf,
    LoopNote,
    ReplyChunk,
    ReplyReceived,
    ReplyUnreadable,
    RequestFailed,
    RequestStarted,
    ToolFinished,
    ToolStarted,
)
from whichloop.protocol.tools import ToolboxAround

from .call_ids import CallIds, RunFailed, as_asked
from .received_arguments import problem_of, shown_arguments


class RelayingObserver(Observer):
    """Passes events and notes on to a product's observer; a loop that gets it does not tell the same again."""

    def __init__(self, observer: Observer, ids: CallIds) -> None:
        self.observer = observer
        self.ids = ids
        self.streams = observer.streams

    def on_event(self, event: EventOf[Any]) -> None:
        """Raises RunFailed for what the observer raises."""
        with self.ids.failure.noticed():
            self.observer.on_event(event)

    def note(self, kind: str, **data: Any) -> None:
        """Raises as `on_event` does."""
        with self.ids.failure.noticed():
            self.observer.note(kind, **data)
            self.observer.on_event(LoopNote(kind, data))


class InnerObserver(RelayingObserver):
    """What a loop within another gets: the outermost does all that is done once for a run."""

    only_answers = True

    def note(self, kind: str, **data: Any) -> None:
        with self.ids.failure.noticed():
            self.observer.note(kind, **data)


class WatchedModel(WrappedModel):
    """A model whose requests and replies are told; it streams every reply where the observer wants that and the model can."""

    def __init__(self, model: Model, tools: Toolbox, watching: RelayingObserver) -> None:
        """Make a model that tells what it is asked and replies. `tools`: those that calls are checked against."""
        super().__init__(model)
        self._tools = tools
        self._watching = watching
        self._numbers = count()
        self.invalid: set[str] = set()
        """Ids of the calls that were told as invalid and not made yet."""

    async def complete(self, request: Request) -> Reply:
        if self._watching.streams and self.capabilities.streaming:
            return await self._whole(request)
        number, started = self._begin(request)
        try:
            reply = await self.model.complete(request)
        except (ModelError, asyncio.CancelledError) as error:
            failure = failure_of_model(error)
            self._watching.on_event(RequestFailed(number, request, failure, time.perf_counter() - started))
            raise failure from failure.__cause__
        self._received(number, request, reply, started)
        return reply

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        number, started = self._begin(request)
        text, has_calls, whole = "", False, False
        try:
            async with contextlib.aclosing(cast(AsyncGenerator[Chunk, None], self.model.stream(request))) as chunks:
                async for chunk in chunks:
                    text += chunk.text
                    if self._watching.streams:
                        self._tell_piece(number, request, chunk, not text and not has_calls)
                    has_calls = has_calls or chunk.call is not None
                    if chunk.reply is not None:
                        whole = True
                        self._received(number, request, chunk.reply, started)
                    yield chunk
        except (ModelError, asyncio.CancelledError) as error:
            failure = failure_of_model(error)
            self._watching.on_event(RequestFailed(number, request, failure, time.perf_counter() - started))
            raise failure from failure.__cause__
        except GeneratorExit:
            if not whole:  # the loop has read enough
                part = Reply(text, finish_reason="other")
                self._watching.on_event(ReplyReceived(number, request, part, time.perf_counter() - started))
            raise

    async def _whole(self, request: Request) -> Reply:
        """Return the reply of a stream. Raises ModelError, also for a stream that ends without a reply."""
        reply = None
        async for chunk in self.stream(request):
            reply = chunk.reply or reply
        if reply is None:
            raise ProviderError("the stream ended without a reply", "server")
        return reply

    def _tell_piece(self, number: int, request: Request, chunk: Chunk, is_first: bool) -> None:
        """Tell of a piece that says something; a reply that comes whole is one piece of text and one of each call."""
        has_content = chunk.text or chunk.call is not None
        pieces = [chunk] if has_content else whole_pieces(chunk.reply) if is_first and chunk.reply is not None else []
        for piece in pieces:
            self._watching.on_event(ReplyChunk(number, request, piece))

    def _begin(self, request: Request) -> tuple[int, float]:
        number = next(self._numbers)
        self._watching.on_event(RequestStarted(number, request))
        return number, time.perf_counter()

    def _received(self, number: int, request: Request, reply: Reply, started: float) -> None:
        """Tell of a reply, and of what is wrong with it wherever its design notices that."""
        tell = self._watching.on_event
        tell(ReplyReceived(number, request, reply, time.perf_counter() - started))
        if request.codec is None:
            return
        try:
            move = request.codec.parse(reply)
        except WireError as error:
            tell(ReplyUnreadable(number, request, str(error)))
            return
        for call in self._watching.ids.coming(move.calls) if isinstance(move, Act) else ():
            if problem := problem_of(call, self._tools):
                self.invalid.add(call.call_id)
                tell(CallInvalid(number, call, *problem))


class WatchedToolbox(ToolboxAround):
    """A toolbox whose calls and results are told."""

    def __init__(self, within: Toolbox, watching: RelayingObserver, model: WatchedModel) -> None:
        """`model`: that of the same run, which tells of calls that it asks for and that cannot be made."""
        super().__init__(within)
        self._watching = watching
        self._model = model
        self._numbers = count()

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        named = self._watching.ids.named(call)
        was_told = named.call_id in self._model.invalid
        self._model.invalid.discard(named.call_id)
        problem = problem_of(named, self.within) if named.name not in self else None
        if problem is not None:
            if not was_told:
                self._watching.on_event(CallInvalid(None, named, *problem))
            return as_asked(await self.within.call(named, validate=validate), call)
        number = next(self._numbers)
        self._watching.on_event(ToolStarted(number, named, shown_arguments(named, self.within)))
        seen = await self.within.call(named, validate=validate)
        with contextlib.suppress(RunFailed):  # raised again once the result is recorded: the tool has acted
            self._watching.on_event(ToolFinished(number, named, seen))
        return as_asked(seen, call)
