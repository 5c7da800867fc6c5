"""Outages of a provider: what each kind is, and a real model whose provider has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Mapping

from whichloop.protocol import Chunk, Model, ProviderError, Request
from whichloop.protocol.json_text import digest
from whichloop.protocol.model import Asks, ModelAround, ProviderTrouble

from .faults import Fault, FaultPoint, draw
from .tunnel import Tunnel

PROVIDER_FAULTS: Mapping[str, tuple[ProviderTrouble, int | None, str]] = {
    "provider.rate_limit": ("rate_limit", 429, "rate limit reached"),
    "provider.server": ("server", 500, "internal server error"),
    "provider.overloaded": ("overloaded", 503, "the model is overloaded"),
    "provider.interrupted": ("server", None, "the provider failed in the middle of the reply"),
    "provider.timeout": ("timeout", 504, "the provider did not answer in time"),
    "provider.dropped": ("connection", None, "the connection broke before the reply"),
    "provider.cut": ("connection", None, "the connection broke in the middle of the reply"),
    "provider.garbled": ("server", None, "the provider's answer is no JSON"),
}
"""Kind of fault → the trouble that it is, its HTTP status (None if the provider gives none), and words for it."""


def outage(kind: str) -> ProviderError:
    """Return the error of a kind of outage."""
    trouble, status, text = PROVIDER_FAULTS[kind]
    return ProviderError(text if status is None else f"{status}: {text}", trouble, status=status, injected=True)


class WithOutages(ModelAround):
    """One trial's real model, whose provider fails as the profile has it.

    A fault is drawn for the n-th request that a trial sends; a request that is sent again meets the same one until it clears.
    """

    def __init__(self, model: Model, tunnel: Tunnel, key: tuple[object, ...]) -> None:
        super().__init__(model)
        self._tunnel, self._key = tunnel, key
        self._drawn: dict[str, Fault | None] = {}
        self._attempts = Counter[str]()

    async def chunks(self, request: Request, ask: Asks) -> AsyncGenerator[Chunk, None]:
        await self._strike(request)
        async for chunk in ask(request):
            yield chunk

    async def _strike(self, request: Request) -> None:
        same = digest(request.as_dict())
        if same not in self._drawn:
            point = FaultPoint(str(request.role), f"request {len(self._drawn) + 1}")
            fault = self._drawn[same] = draw(self._tunnel.profile, self._key, point, None, False)
            if fault is not None:
                self._tunnel.faults.append(fault)
        fault, attempt = self._drawn[same], self._attempts[same]
        self._attempts[same] += 1
        if fault is None:
            return
        if fault.active(attempt):
            self._tunnel.land(fault, request)
            if fault.kind != "provider.slow":
                raise outage(fault.kind)
            await self._tunnel.spend(self._tunnel.profile.slow_s)
        fault.recovered = True
