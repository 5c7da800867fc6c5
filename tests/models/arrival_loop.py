"""A loop with a mistake: it makes calls at once, and gives the results for them in the order in which they come."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import (
    SILENT,
    Message,
    Model,
    Observation,
    Observer,
    Outcome,
    Query,
    Request,
    Role,
    StopReason,
    Toolbox,
    ToolCall,
)
from whichloop.protocol.wire import read_call


@dataclass(frozen=True, slots=True)
class ByArrival:
    """The loop; `by_arrival=False` gives each result for its own call, `drops=True` none but the first."""

    max_steps: int = 12
    """Most replies."""
    by_arrival: bool = True
    """Give results in the order in which they come."""
    drops: bool = False
    """Give the first result only."""
    runs: int = 1
    """How often each call is run."""

    name: ClassVar[str] = "by_arrival"
    stops: ClassVar[frozenset[StopReason]] = frozenset({StopReason.FINISHED, StopReason.MAX_STEPS})

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, max_steps=tool_steps + 1)

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        messages = [Message("user", query.full_text)]
        for step in range(self.max_steps):
            request = Request(tuple(messages), tools.specs, role=Role.DECIDE, codec=NATIVE)
            reply = await model.complete(request)
            if not reply.calls:
                return Outcome(reply.text, StopReason.FINISHED, step + 1)
            messages.append(Message("assistant", reply.text, reply.calls))
            seen = await self._results([read_call(call) for call in reply.calls], tools)
            kept = seen[:1] if self.drops else seen
            messages += [
                Message("tool", one.data if one.ok else f"{one.error_type}: {one.data}", call_id=call.id)
                for call, one in zip(reply.calls, kept, strict=False)
            ]
        return Outcome(None, StopReason.MAX_STEPS, self.max_steps)

    async def _results(self, calls: list[ToolCall], tools: Toolbox) -> list[Observation]:
        came: list[Observation] = []

        async def one(call: ToolCall) -> Observation:
            for _ in range(self.runs):
                seen = await tools.call(call)
            came.append(seen)
            return seen

        in_order = await asyncio.gather(*[one(call) for call in calls])
        return came if self.by_arrival else list(in_order)
