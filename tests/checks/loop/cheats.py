"""Loops that cheat in the tunnel: they do well by what no real model would make anything of."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

from whichloop.loops.bare import Bare
from whichloop.models.scripted import Script
from whichloop.protocol import (
    SILENT,
    Chunk,
    Loop,
    Message,
    Model,
    Observer,
    Outcome,
    Plan,
    Query,
    Reply,
    Request,
    StopReason,
    Toolbox,
    ToolCall,
    WrappedLoop,
    WrappedModel,
    render_value,
    resolve,
)

BARE = Bare()
_RECEIPT = re.compile(r"\[(?:r:)?[0-9a-f]{6}\.[0-9a-f]{4}(?::r)?\]")


class _Rewritten(WrappedModel):
    """A model that gets requests in other words."""

    def __init__(self, model: Model, rewrite: Callable[[Request], Request]) -> None:
        super().__init__(model)
        self.rewrite = rewrite

    async def complete(self, request: Request) -> Reply:
        return await self.model.complete(self.rewrite(request))

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


@dataclass(frozen=True, slots=True)
class ReceiptsOnly(WrappedLoop):
    """Shows the receipts of results, and nothing of what the tools gave."""

    loop: Loop = BARE

    @property
    def name(self) -> str:
        return "receipts_only"

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return await self.loop.run(query, tools, _Rewritten(model, _without_values), observer)


def _without_values(request: Request) -> Request:
    return replace(request, messages=tuple(map(_receipts_of, request.messages)))


def _receipts_of(message: Message) -> Message:
    found = _RECEIPT.findall(message.content) if message.role in ("user", "tool") else []
    return replace(message, content=" ".join(found)) if found else message


@dataclass(frozen=True, slots=True)
class Relisting(WrappedLoop):
    """Repeats all receipts, without their results, at the end of each prompt."""

    loop: Loop = BARE

    @property
    def name(self) -> str:
        return "relisting"

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return await self.loop.run(query, tools, _Rewritten(model, _with_receipts_again), observer)


def receipts_in(request: Request) -> list[str]:
    """Return the marks of all receipts that a request shows, each once."""
    return list(dict.fromkeys(_RECEIPT.findall("\n".join(message.content for message in request.messages))))


def _with_receipts_again(request: Request) -> Request:
    found = receipts_in(request)
    again = Message("user", " ".join(found))
    return replace(request, messages=(*request.messages, again)) if found else request


@dataclass(frozen=True, slots=True)
class FromMemory(WrappedLoop):
    """Finds the plan of its task in the memory of the process and follows it; the model is asked for show, or not at all."""

    loop: Loop = BARE
    asks: bool = False

    @property
    def name(self) -> str:
        return "from_memory"

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        plan = plan_of(query)
        if plan is None:
            return await self.loop.run(query, tools, model, observer)
        if self.asks:
            await self.loop.run(query, Toolbox(), model, observer)
        results: dict[str, Any] = {}
        for call in plan.calls:
            seen = await tools.call(ToolCall(call.tool, resolve(call.arguments, results)))
            results[call.id] = _value(_RECEIPT.sub("", seen.data).strip())
        return Outcome(render_value(resolve(plan.answer, results)), StopReason.FINISHED, 0)


def plan_of(query: Query) -> Plan | None:
    """Return the plan of a question that a scripted model in this process follows."""
    return next((it.plan for it in gc.get_objects() if type(it) is Script and it.question == query.text), None)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
