"""Loops that cheat in the tunnel: they do well by what no real model would make anything of."""

from __future__ import annotations

import gc
import json
import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tests.checks.loop.altered_loops import Changed
from whichloop.loops.bare import Bare
from whichloop.models.scripted import Script
from whichloop.protocol import SILENT, Loop, Message, Model, Observer, Outcome, Plan, Query, Request, StopReason, Toolbox, ToolCall
from whichloop.protocol.loop import WrappedLoop
from whichloop.protocol.plan import resolve
from whichloop.protocol.values import render_value

BARE = Bare()
_RECEIPT = re.compile(r"\[(?:r:)?[0-9a-f]{6}\.[0-9a-f]{4}(?::r)?\]")


@dataclass(frozen=True)
class Rewriting(WrappedLoop):
    """Shows its model other requests."""

    loop: Loop = BARE
    called: ClassVar[str]

    @property
    def name(self) -> str:
        return self.called

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return await self.loop.run(query, tools, Changed(model, self.rewritten), observer)

    def rewritten(self, request: Request) -> Request:
        raise NotImplementedError


@dataclass(frozen=True)
class ReceiptsOnly(Rewriting):
    """Shows the receipts of results, and nothing of what the tools gave."""

    called = "receipts_only"

    def rewritten(self, request: Request) -> Request:
        return replace(request, messages=tuple(map(_receipts_of, request.messages)))


def _receipts_of(message: Message) -> Message:
    found = _RECEIPT.findall(message.content) if message.role in ("user", "tool") else []
    return replace(message, content=" ".join(found)) if found else message


@dataclass(frozen=True)
class Relisting(Rewriting):
    """Repeats all receipts, without their results, at the end of each prompt."""

    called = "relisting"

    def rewritten(self, request: Request) -> Request:
        return with_receipts_again(request)


def with_receipts_again(request: Request, heading: str = "") -> Request:
    """Return a request with the marks of all receipts that it shows, each once, at its end."""
    found = dict.fromkeys(_RECEIPT.findall("\n".join(message.content for message in request.messages)))
    again = Message("user", f"{heading}{' '.join(found)}")
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
