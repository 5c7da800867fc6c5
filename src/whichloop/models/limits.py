"""How many requests may be under way: a concurrency that gives way to refusals, and limits per minute; and how they sample.

Time is the event loop's own clock. One event loop at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, fields, replace

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

WINDOW_S = 60.0


class Window:
    """At most `limit` units in any span of 60 s, exactly. A larger amount goes alone instead of never."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._spent: deque[_Spent] = deque()
        self._sum = 0

    def wait_s(self, amount: int, now: float) -> float:
        """Return the seconds until there is room if nothing else is spent; 0 if there is."""
        while self._spent and now >= self._spent[0].at + WINDOW_S:
            gone = self._spent.popleft()
            gone.is_over = True
            self._sum -= gone.amount
        over = self._sum + min(amount, self.limit) - self.limit
        if over <= 0:
            return 0.0
        for spent in self._spent:
            over -= spent.amount
            if over <= 0:
                return spent.at + WINDOW_S - now
        raise AssertionError("the sum is that of the entries")

    def spend(self, amount: int, now: float) -> _Spent:
        spent = _Spent(now, amount)
        self._spent.append(spent)
        self._sum += amount
        return spent

    def correct(self, spent: _Spent, amount: int) -> None:
        """Correct an estimate to the amount that was used."""
        if not spent.is_over:
            self._sum += amount - spent.amount
            spent.amount = amount


@dataclass(slots=True, eq=False)
class _Spent:
    at: float
    """Seconds, of the event loop's clock."""
    amount: int
    is_over: bool = False


class Concurrency:
    """Additive increase, multiplicative decrease (Chiu and Jain 1989): a step up per round of successes, half at a refusal."""

    def __init__(self, most: int) -> None:
        self.most = self.limit = self.smallest = most
        self.round_trip = 0
        """Counts the decreases: requests sent before the last one were refused by the same crowd."""
        self._successes = 0

    def succeeded(self) -> None:
        self._successes += 1
        if self._successes >= self.limit:
            self._successes = 0
            self.limit = min(self.limit + 1, self.most)

    def refused(self, round_trip: int) -> None:
        """Halve the limit after a refusal, once for all that were sent in the same `round_trip`."""
        if round_trip == self.round_trip:
            self.limit = max(1, self.limit // 2)
            self.smallest = min(self.smallest, self.limit)
            self.round_trip += 1
            self._successes = 0


@dataclass(frozen=True, slots=True)
class Pressure:
    """What the limits did to a run."""

    most_in_flight: int
    """Concurrency that was allowed at first."""
    smallest_in_flight: int
    """What refusals brought it down to."""
    waited_s: float
    """Seconds that requests waited for their turn, added up."""


class Limits:
    """Lets requests through, first come, first served."""

    def __init__(self, most_in_flight: int, requests_per_minute: int | None = None, tokens_per_minute: int | None = None) -> None:
        self.concurrency = Concurrency(most_in_flight)
        self.requests = None if requests_per_minute is None else Window(requests_per_minute)
        self.tokens = None if tokens_per_minute is None else Window(tokens_per_minute)
        self.in_flight = 0
        self.waited_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        self._slot_freed = asyncio.Event()

    @property
    def pressure(self) -> Pressure:
        return Pressure(self.concurrency.most, self.concurrency.smallest, self.waited_s)

    async def enter(self, tokens: int = 0) -> Permit:
        """Wait for a turn; `tokens`: what the request is expected to take. The permit must be given back."""
        loop = self._bind()
        came = loop.time()
        async with self._turn:
            await self._room(tokens, loop)
            now = loop.time()
            self.in_flight += 1
            if self.requests is not None:
                self.requests.spend(1, now)
            spent = None if self.tokens is None else self.tokens.spend(tokens, now)
            self.waited_s += now - came
            return Permit(self, self.concurrency.round_trip, spent)

    async def _room(self, tokens: int, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until there is room for a request.

        Only the first in the queue waits here, so nothing is spent meanwhile; a correction may still take room away.
        """
        while True:
            if self.in_flight >= self.concurrency.limit:
                self._slot_freed.clear()
                await self._slot_freed.wait()
                continue
            now = loop.time()
            waits = [0.0]
            if self.requests is not None:
                waits.append(self.requests.wait_s(1, now))
            if self.tokens is not None:
                waits.append(self.tokens.wait_s(tokens, now))
            if max(waits) <= 0:
                return
            await asyncio.sleep(max(waits))

    def leave(self) -> None:
        self.in_flight -= 1
        self._slot_freed.set()

    def _bind(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # what was under way on another one has ended with it
            self._loop, self._turn, self._slot_freed, self.in_flight = loop, asyncio.Lock(), asyncio.Event(), 0
        return loop


@dataclass(slots=True)
class Permit:
    """One request's leave to be under way."""

    limits: Limits
    round_trip: int
    spent: _Spent | None = None
    is_back: bool = field(default=False, init=False)

    def succeeded(self, tokens: int | None = None) -> None:
        """Give the permit back after a reply; `tokens`: what the reply took, if counted."""
        if self._give_back():
            self.limits.concurrency.succeeded()
            if tokens is not None and self.spent is not None and self.limits.tokens is not None:
                self.limits.tokens.correct(self.spent, tokens)

    def refused(self) -> None:
        """Give the permit back after a refusal: the provider had too many requests."""
        if self._give_back():
            self.limits.concurrency.refused(self.round_trip)

    def failed(self) -> None:
        """Give the permit back after any other failure."""
        self._give_back()

    def _give_back(self) -> bool:
        if self.is_back:
            return False
        self.is_back = True
        self.limits.leave()
        return True


def with_defaults(request: Request, defaults: Sampling) -> Request:
    """Return the request with the defaults for what it leaves open."""
    if defaults == DEFAULT_SAMPLING:
        return request
    fields_set = request.sampling.as_dict()
    left_open = {field.name: getattr(defaults, field.name) for field in fields(Sampling) if field.name not in fields_set}
    return replace(request, sampling=replace(request.sampling, **left_open))


class WithSampling(WrappedModel):
    """A model whose requests all say how their replies are drawn: a recording of it knows what was asked."""

    def __init__(self, model: Model, defaults: Sampling, tools: Sequence[ToolSpec] | None = None) -> None:
        """`tools`: all of the trial, where replies are held to the grammar of their codec or to the JSON schema of their reply.

        A codec without either, such as that of a loop from outside, is asked as ever.
        """
        super().__init__(model)
        self.defaults, self.tools = defaults, tools

    async def complete(self, request: Request) -> Reply:
        return await self.model.complete(self._asked(request))

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        return self.model.stream(self._asked(request))

    def _asked(self, request: Request) -> Request:
        request = with_defaults(request, self.defaults)
        if self.tools is None:
            return request
        if isinstance(request.codec, GrammarCodec):
            return replace(request, grammar=request.codec.grammar(request.tools or self.tools))
        schema = request.response_schema
        if schema is None and isinstance(request.codec, SchemaCodec):  # a model that takes no schema is asked for it in words
            schema = request.codec.schema
        return request if schema is None else replace(request, grammar=Grammar(((JsonValue(schema),),)))
