"""Defaults for what a request leaves open about how its reply is drawn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import fields, replace

from whichloop.protocol import DEFAULT_SAMPLING, Chunk, Model, Reply, Request, Sampling, WrappedModel


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
