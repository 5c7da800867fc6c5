"""Loops that word things in ways of their own, keep things from the model, or cheat: each is `Bare` with one change."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, ClassVar

from whichloop import Bare
from whichloop.protocol import Chunk, Loop, Model, Observation, Outcome, Reply, Request, StopReason, Toolbox, ToolCall, WrappedModel
from whichloop.protocol.tools import ToolboxAround

Change = Callable[[str], str]
"""From one text of a request to another."""


class Bent:
    """A loop whose requests are changed on their way."""

    name = "bent"

    def __init__(self, inner: Any = None, change: Change = str, *, scopes: bool = False) -> None:
        """`scopes`: each request has a scope of its own."""
        self.inner = Bare() if inner is None else inner
        self.change, self.scopes = change, scopes

    @property
    def stops(self) -> frozenset[StopReason]:
        stops: frozenset[StopReason] = self.inner.stops
        return stops

    def with_step_limit(self, tool_steps: int) -> Loop:
        bent: Any = type(self)(self.inner.with_step_limit(tool_steps), self.change, scopes=self.scopes)
        return bent  # type: ignore[no-any-return]

    async def run(self, query: Any, tools: Toolbox, model: Model, observer: Any) -> Outcome[Any]:
        outcome: Outcome[Any] = await self.inner.run(query, tools, Changed(model, self.change, self.scopes), observer)
        return outcome


class Changed(WrappedModel):
    """A model whose requests are changed."""

    def __init__(self, model: Model, change: Change, scopes: bool) -> None:
        super().__init__(model)
        self._change, self._numbers = change, itertools.count() if scopes else None

    def _changed(self, request: Request) -> Request:
        messages = tuple(replace(message, content=self._change(message.content)) for message in request.messages)
        scope = request.scope if self._numbers is None else f"step {next(self._numbers)}"
        return replace(request, messages=messages, scope=scope)

    async def complete(self, request: Request) -> Reply:
        return await self.model.complete(self._changed(request))

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        return self.model.stream(self._changed(request))


def of_errors(told: Callable[[str], str]) -> Change:
    """Change what `Bare` shows of an error: `told` gets its text."""

    def change(text: str) -> str:
        if not re.match(r'\{"status": ?"error"', text):
            return text
        return told(json.loads(text)["data"])

    return change


class Dodger(Bent):
    """Makes its calls in a scope of their own, away from the one in which the model decided on them."""

    async def run(self, query: Any, tools: Toolbox, model: Model, observer: Any) -> Outcome[Any]:
        outcome: Outcome[Any] = await self.inner.run(query, Elsewhere(tools), Changed(model, str, True), observer)
        return outcome


class Elsewhere(ToolboxAround):
    """Runs each call in a task that knows nothing of the requests before it."""

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        running = asyncio.create_task(self.within.call(call, validate=validate), context=contextvars.Context())
        return await running


class Borrower(Bent):
    """Keeps results over trials, and answers a failed call with the one of another trial."""

    kept: ClassVar[dict[str, Observation]] = {}

    async def run(self, query: Any, tools: Toolbox, model: Model, observer: Any) -> Outcome[Any]:
        outcome: Outcome[Any] = await self.inner.run(query, Borrowing(tools, self.kept), model, observer)
        return outcome


class Borrowing(ToolboxAround):
    """Gives an earlier trial's result where a call fails."""

    def __init__(self, within: Toolbox, kept: dict[str, Observation]) -> None:
        super().__init__(within)
        self._kept = kept

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        seen, key = await self.within.call(call, validate=validate), str(call)
        if seen.ok:
            self._kept[key] = seen
        return seen if seen.ok else self._kept.get(key, seen)


class AtLimit(Bent):
    """Says of every answer that it stands at the limit of steps."""

    async def run(self, query: Any, tools: Toolbox, model: Model, observer: Any) -> Outcome[Any]:
        outcome: Outcome[Any] = await self.inner.run(query, tools, model, observer)
        return replace(outcome, stop=StopReason.MAX_STEPS)
