"""Models whose requests are changed on the way: how a reply is drawn, and the grammar that it is held to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import fields, replace

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
