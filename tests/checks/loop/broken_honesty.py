"""Loops that know, beside what the model knows, one thing each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.checks.loop.altered_loops import Changed, Own
from tests.checks.loop.cheats import plan_of, receipts_in
from whichloop.protocol import (
    SILENT,
    Message,
    Model,
    Observer,
    Outcome,
    Query,
    Request,
    StopReason,
    Toolbox,
    resolve,
)


class Indexing(Own):
    """Puts an index of receipts at the end of what it asks."""

    def model(self, model: Model) -> Model:
        return Changed(model, _with_index)


def _with_index(request: Request) -> Request:
    found = " ".join(receipts_in(request))
    return replace(request, messages=(*request.messages, Message("user", f"Index: {found}"))) if found else request


class Forgetful(Own):
    """Shows its model the question and the last exchange only."""

    def model(self, model: Model) -> Model:
        return Changed(model, _with_the_last_exchange)


def _with_the_last_exchange(request: Request) -> Request:
    first = 2 + request.examples
    return replace(request, messages=(*request.messages[:first], *request.messages[first:][-2:]))


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
