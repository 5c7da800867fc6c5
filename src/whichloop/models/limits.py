"""How many requests may be under way: limits per minute, and a concurrency that gives way to refusals. Time is the event loop's.

One event loop at a time. Here too is how requests sample.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, fields, replace

from whichloop.protocol import DEFAULT_SAMPLING, Model, Request, Sampling
from whichloop.protocol.model import ModelAround

WINDOW_S = 60.0


@dataclass(slots=True, eq=False)
class Permit:
    """One request's leave to be under way."""

    at: float
    """Seconds, of the event loop's clock."""
    tokens: int
    """What the request is expected to take; what it took once that is known."""
    halvings: int
    """How often the concurrency had been halved: requests of one crowd halve it once."""
    is_recent: bool = False


class Limits:
    """Lets requests through, first come, first served.

    A refusal halves the number of requests at once, each round of successes adds one (Chiu and Jain 1989). Limits per minute hold
    for any 60 seconds; a request larger than that of tokens goes alone instead of never.
    """

    def __init__(self, most: int, requests_per_minute: int | None = None, tokens_per_minute: int | None = None) -> None:
        self.most = most
        self.allowed = float(most)
        """Requests at once: at most, and now."""
        self.requests_per_minute, self.tokens_per_minute = requests_per_minute, tokens_per_minute
        self.under_way = set[Permit]()
        self._recent = deque[Permit]()
        self._recent_tokens = 0
        self._halvings = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    async def enter(self, tokens: int = 0) -> Permit:
        """Wait for a turn; `tokens`: what the request is expected to take. Each permit must be given back."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # what was under way on another one has ended with it
            self._loop, self._turn, self._freed, self.under_way = loop, asyncio.Lock(), asyncio.Event(), set()
        async with self._turn:  # only the first in the queue waits below, so nothing is spent meanwhile
            while True:
                if len(self.under_way) >= int(self.allowed):
                    self._freed.clear()
                    await self._freed.wait()
                elif (wait_s := self.wait_s(tokens, loop.time())) > 0:
                    await asyncio.sleep(wait_s)
                else:
                    break
            permit = Permit(loop.time(), tokens, self._halvings)
            self.under_way.add(permit)
            if self.requests_per_minute is not None or self.tokens_per_minute is not None:
                permit.is_recent = True
                self._recent.append(permit)
                self._recent_tokens += tokens
            return permit

    def wait_s(self, tokens: int, now: float) -> float:
        """Return the seconds until there is room within a minute if nothing else is spent; 0 if there is."""
        while self._recent and now >= self._recent[0].at + WINDOW_S:
            old = self._recent.popleft()
            old.is_recent = False
            self._recent_tokens -= old.tokens
        wait_s = 0.0
        for limit, amount, spent, of_tokens in (
            (self.requests_per_minute, 1, len(self._recent), False),
            (self.tokens_per_minute, tokens, self._recent_tokens, True),
        ):
            over = 0 if limit is None else spent + min(amount, limit) - limit
            for permit in self._recent:
                if over <= 0:
                    break
                over -= permit.tokens if of_tokens else 1
                wait_s = max(wait_s, permit.at + WINDOW_S - now)
        return wait_s

    def leave(self, permit: Permit, *, tokens: int | None = None, replied: bool = False, refused: bool = False) -> None:
        """Give a permit back, once. `tokens`: what the reply took. `refused`: the provider had too many requests."""
        if permit not in self.under_way:
            return
        self.under_way.remove(permit)
        self._freed.set()
        if tokens is not None:
            self._recent_tokens += tokens - permit.tokens if permit.is_recent else 0
            permit.tokens = tokens
        if replied:
            self.allowed = min(self.allowed + 1 / self.allowed, self.most)
        elif refused and permit.halvings == self._halvings:
            self._halvings += 1
            self.allowed = max(1.0, self.allowed // 2)


class WithSampling(ModelAround):
    """A model whose requests all say how their replies are drawn: a recording of it knows what was asked."""

    def __init__(self, model: Model, defaults: Sampling, *, constrain: bool = False) -> None:
        """`constrain`: a reply has to follow the JSON schema of its codec, where that has one."""
        super().__init__(model, self._asked)
        self.defaults, self.constrain = defaults, constrain

    def _asked(self, request: Request) -> Request:
        if self.defaults != DEFAULT_SAMPLING:
            left_open = {field.name for field in fields(Sampling)} - request.sampling.as_dict().keys()
            sampling = replace(request.sampling, **{name: getattr(self.defaults, name) for name in left_open})
            request = replace(request, sampling=sampling)
        if not self.constrain or request.response_schema is not None:
            return request
        return replace(request, response_schema=getattr(request.codec, "schema", None))
