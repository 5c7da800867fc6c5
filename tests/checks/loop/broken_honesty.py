"""Loops that know, beside what the model knows, one thing each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.checks.loop.altered_loops import Own
from tests.checks.loop.broken_runs import asked
from tests.checks.loop.cheats import plan_of, with_receipts_again
from whichloop.protocol import SILENT, Model, Observer, Outcome, Query, Request, StopReason, Toolbox, resolve


def _with_the_last_exchange(request: Request) -> Request:
    """Show the question and the last exchange only."""
    first = 2 + request.examples
    return replace(request, messages=(*request.messages[:first], *request.messages[first:][-2:]))


Indexing = asked("Indexing", partial(with_receipts_again, heading="Index: "))
Forgetful = asked("Forgetful", _with_the_last_exchange)


@dataclass(frozen=True)
class Clairvoyant(Own):
    """Answers what the plan says, whatever the model said."""

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        outcome = await super().run(query, tools, model, observer)
        plan = plan_of(query) if outcome.stop is StopReason.FINISHED else None
        if plan is None or any(call.fails for call in plan.calls):
            return outcome
        results: dict[str, Any] = {}
        for call in plan.calls:
            tool = tools.get(call.tool)
            assert tool is not None
            results[call.id] = tool.function(**resolve(call.arguments, results))
        return replace(outcome, answer=resolve(plan.answer, results))
