"""Calls that a model makes at once: ones that come late, ones that should have waited, and ids that are the same.

A model that makes several calls in one reply leaves their order to the loop. Three kinds of fault ask what the loop makes of it:

- `calls.late`: a call ends only after those that run beside it, so that results come back in another order than calls were made in.
- `calls.same_ids`: the calls of a reply have one id, by which a loop cannot tell their results apart.
- `calls.too_early`: beside calls that change something stands one that needs the change done. Made one after the other they give
  what is true; where they run at once, the call that needs the change is done before it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from whichloop.protocol import Chunk, Model, Reply, Request, ToolCall, WrappedModel, refs

from .prompt_view import PromptView
from .receipts import concrete

LATE, SAME_IDS, TOO_EARLY = "calls.late", "calls.same_ids", "calls.too_early"
HOLDING = frozenset({LATE, TOO_EARLY})
"""Kinds that hold a call back until those beside it have ended."""
TURNS = 8
"""Turns of the event loop in which a loop begins the calls that it makes at once; fewer than `TURNS_OF_REQUESTS`, so that a call
that is held back does not change which request is answered next."""


def with_one_id(reply: Reply) -> Reply:
    """Return a reply whose calls all have the first one's id; the reply itself if it has fewer than two."""
    return replace(reply, calls=tuple(replace(call, id=reply.calls[0].id) for call in reply.calls))


def early_call(view: PromptView, made_now: Collection[str]) -> tuple[ToolCall, tuple[str, ...]] | None:
    """Return the first planned call that waits for nothing but the effects of calls that are `made_now` now, and those calls; None
    if there is none.

    Its arguments are known: it takes no result of a call that is made now.
    """
    for planned in view.unknown:
        needs = view.plan.dependencies[planned.id] - view.results.keys()
        if planned.id in made_now or not needs or not needs <= set(made_now):
            continue
        if needs & {ref.call for ref in refs(planned.arguments)}:
            continue
        call = concrete(planned, view.values)
        if call is not None:
            return call, tuple(name for name in made_now if name in needs)
    return None


@dataclass(slots=True, eq=False)
class RunningCall:
    """A call that has begun and not ended."""

    scope: str
    is_held: bool = False


class CallsAtOnce:
    """The calls of one trial that run at the same time."""

    def __init__(self) -> None:
        self.others_s = 0.0
        """Seconds in which a program may begin the calls that it makes at once, beside `TURNS`: its calls come over HTTP."""
        self.chances = 0
        """Calls that were made beside what they need done, and that ran."""
        self.overlaps = 0
        """Of those, the ones that began before all of it was done."""
        self._running: list[RunningCall] = []
        self._awaited: dict[str, set[str]] = {}
        """CALL digest of a call that should have waited → those of the calls that it needs done."""
        self._waiting: list[asyncio.Future[None]] = []

    def expect_apart(self, early: str, awaited: Collection[str]) -> None:
        """Note, by their CALL digests, that one call has to run after others of its reply."""
        self._awaited[early] = set(awaited)

    @contextlib.contextmanager
    def running(self, digest: str, scope: str) -> Iterator[RunningCall]:
        """Count a call among the running ones for as long as this context lasts."""
        missing = self._awaited.pop(digest, None)
        if missing is not None:
            self.chances += 1
            self.overlaps += bool(missing)
        mine = RunningCall(scope)
        self._running.append(mine)
        self._tell()
        try:
            yield mine
        finally:
            self._running.remove(mine)
            for others in self._awaited.values():
                others.discard(digest)
            self._tell()

    async def let_others_pass(self, mine: RunningCall) -> None:
        """Wait until the calls that run beside this one have ended; of several that wait, the last that came goes first."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if self.others_s and self._beside(mine) == [mine]:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._change(), self.others_s)
        mine.is_held = True
        self._tell()
        while any(not other.is_held for other in self._beside(mine)) or self._beside(mine)[-1] is not mine:
            await self._change()
        mine.is_held = False

    def _beside(self, mine: RunningCall) -> list[RunningCall]:
        """Return the running calls of a call's scope, itself included."""
        return [call for call in self._running if call.scope == mine.scope]

    def _change(self) -> asyncio.Future[None]:
        """Return what is done once a call begins, ends or is held."""
        self._waiting.append(asyncio.get_running_loop().create_future())
        return self._waiting[-1]

    def _tell(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()


TURNS_OF_REQUESTS = 24
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
        async with self._turn(request.scope):
            return await self.model.complete(request)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Take a turn for each chunk: between two of them a design may wait for what it asks in another scope."""
        async with contextlib.aclosing(cast(AsyncGenerator[Chunk, None], self.model.stream(request))) as chunks:
            while True:
                async with self._turn(request.scope):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                yield chunk

    @contextlib.asynccontextmanager
    async def _turn(self, scope: str) -> AsyncIterator[None]:
        """Wait until a request of this scope is to be answered; the next one is, once this context ends."""
        if not scope:
            yield
            return
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append((scope, mine))
        self._go_on()
        try:
            await mine
            yield
        finally:
            if (scope, mine) in self._waiting:  # cancelled while it waited
                self._waiting.remove((scope, mine))
            else:
                self._busy = False
                self._go_on()

    def _go_on(self) -> None:
        if not self._busy and self._waiting:
            self._busy = True
            _after(TURNS_OF_REQUESTS, self._answer_first, asyncio.get_running_loop().call_soon)

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
