"""Models whose requests are changed on the way: how a reply is drawn, the grammar that it is held to, and the order of
concurrent ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from whichloop.protocol import (
    DEFAULT_SAMPLING,
    Chunk,
    Grammar,
    GrammarCodec,
    JsonValue,
    Model,
    Reply,
    Request,
    Sampling,
    SchemaCodec,
    ToolSpec,
    WrappedModel,
)


def with_defaults(request: Request, defaults: Sampling) -> Request:
    """Return the request with the defaults for what it leaves open."""
    if defaults == DEFAULT_SAMPLING:
        return request
    fields_set = request.sampling.as_dict()
    left_open = {field.name: getattr(defaults, field.name) for field in fields(Sampling) if field.name not in fields_set}
    return replace(request, sampling=replace(request.sampling, **left_open))


class WithSampling(WrappedModel):
    """A model whose requests all say how their replies are drawn: a recording of it knows what was asked."""

    def __init__(self, model: Model, defaults: Sampling) -> None:
        super().__init__(model)
        self.defaults = defaults

    async def complete(self, request: Request) -> Reply:
        return await self.model.complete(with_defaults(request, self.defaults))

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        return self.model.stream(with_defaults(request, self.defaults))


class Constrained(WrappedModel):
    """A model whose requests carry the grammar of their codec, or that of the JSON schema of their reply.

    A codec without either, such as that of a loop from outside, is asked as ever.
    """

    def __init__(self, model: Model, tools: Sequence[ToolSpec]) -> None:
        """`tools`: all of the trial, for formats that do not offer them natively.

        A loop that shows fewer of them in its text, as in `guarded(tools="needed")`, refuses calls of the others.
        """
        super().__init__(model)
        self.tools = tools

    async def complete(self, request: Request) -> Reply:
        return await self.model.complete(self._with_grammar(request))

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        return self.model.stream(self._with_grammar(request))

    def _with_grammar(self, request: Request) -> Request:
        if isinstance(request.codec, GrammarCodec):
            return replace(request, grammar=request.codec.grammar(request.tools or self.tools))
        schema = request.response_schema
        if schema is None and isinstance(request.codec, SchemaCodec):  # a model that takes no schema is asked for it in words
            schema = request.codec.schema
        return request if schema is None else replace(request, grammar=Grammar(((JsonValue(schema),),)))


TURNS = 24
"""Turns of the event loop that a design has to act on the last reply, and to send what it sends at the same time: each task within
a task takes one or two of them."""


class InOrder(WrappedModel):
    """One trial's model in virtual time: of the requests that wait at the same time the first by scope is answered, then the next.

    A design that ends its concurrent work at the first failure would otherwise send one request more or less as machine and wire
    have it. Requests without a scope are never concurrent, and pass at once.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._busy = False
        """A request is being answered, or turns are counted before one is."""

    def complete(self, request: Request) -> Coroutine[Any, Any, Reply]:
        return self._in_turn(request) if request.scope else self.model.complete(request)

    async def _in_turn(self, request: Request) -> Reply:
        await self._wait(request.scope)
        try:
            return await self.model.complete(request)
        finally:
            self._end()

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        return self._chunks_in_turn(request) if request.scope else self.model.stream(request)

    async def _chunks_in_turn(self, request: Request) -> AsyncIterator[Chunk]:
        """Take a turn for each chunk: between two of them a design may wait for what it asks in another scope."""
        chunks = cast(AsyncGenerator[Chunk, None], self.model.stream(request))
        async with contextlib.aclosing(chunks):
            while True:
                await self._wait(request.scope)
                try:
                    chunk = await anext(chunks, None)
                finally:
                    self._end()
                if chunk is None:
                    return
                yield chunk

    async def _wait(self, scope: str) -> None:
        """Wait until a request is to be answered; `_end` follows once it is."""
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append((scope, mine))
        self._go_on()
        try:
            await mine
        except BaseException:
            if (scope, mine) in self._waiting:  # cancelled while it waited
                self._waiting.remove((scope, mine))
            else:
                self._end()
            raise

    def _end(self) -> None:
        self._busy = False
        self._go_on()

    def _go_on(self) -> None:
        if not self._busy and self._waiting:
            self._busy = True
            _after(TURNS, self._answer_first, asyncio.get_running_loop().call_soon)

    def _answer_first(self) -> None:
        """Let the first of those who still wait go on."""
        still = [waiting for waiting in self._waiting if not waiting[1].cancelled()]
        if still:
            first = min(still, key=lambda waiting: waiting[0])
            self._waiting.remove(first)
            first[1].set_result(None)
        else:
            self._busy = False


def _after(turns: int, act: Callable[[], None], call_soon: Callable[..., object]) -> None:
    """Act once so many turns of the event loop have passed. The scheduling is handed on, because each turn would look it up."""
    if turns:
        call_soon(_after, turns - 1, act, call_soon)
    else:
        act()
