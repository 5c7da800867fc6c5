"""Constrained decoding: every reply is held to the format of the codec that will read it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from loopbench.protocol import Chunk, Grammar, GrammarCodec, JsonValue, Model, Reply, Request, ToolSpec, WrappedModel


class Constrained(WrappedModel):
    """A model whose requests carry the grammar of their codec, or that of the JSON schema that they ask for.

    A codec without a grammar, such as that of a loop from outside or `finish.xml`, is asked as ever.
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
        if request.response_schema is not None:
            return replace(request, grammar=Grammar(((JsonValue(request.response_schema),),)))
        return request
