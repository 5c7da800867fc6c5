"""A budget of a whole run, over stops, cancellations and the ends of its processes: what was spent before counts."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.shopper import PRICES, QUESTION, Shopper
from whichloop.loops import Bare, Budget, Checkpoint, Finish, Loop, Phased, Query, Resumable, StopReason, StopRun, Toolbox
from whichloop.loops.provider_retry import ProviderRetry
from whichloop.loops.react_extract import ReactExtract
from whichloop.loops.resumable import ApprovalRequired
from whichloop.loops.stateless import Stateless
from whichloop.models.fake import FakeModel
from whichloop.models.metering import Meter, MeteredModel
from whichloop.protocol import Answer, BudgetExceeded, ProviderError, Reply, Request, ToolCall, Usage, run_sync
from whichloop.protocol.outcome import Expenses
from whichloop.protocol.tokens import estimate_input

Entry = dict[str, Any]
LOOPS: dict[str, Loop] = {
    "bare": Bare(),
    "finish in parallel": Finish(max_steps=6, parallel_tools=True),
    "finish streamed": Finish(max_steps=6, on_stream=lambda chunk: None),
    "phased": Phased(),
    "react_extract": ReactExtract(),
    "stateless": Stateless(),
    "provider_retry": ProviderRetry(Bare(), attempts=3),
}
OUTPUT = 40
"""Tokens of each reply."""
DOLLARS = 0.125
"""What a reply costs."""


class Ended(BaseException):
    """The process is gone."""


class Stopped(StopRun):
    """A tool ends the run."""


class World:
    """A provider that knows what it was asked, and processes that end before an entry is stored, by a stop or by a cancellation."""

    def __init__(self, fails_at: int) -> None:
        self.stored: list[Entry] = []
        self.replied = self.tokens = self.most = 0
        self.fails_at = fails_at
        self.asked = 0

    def part(self, loop: Loop, budget: Budget, how: str, at: int) -> Any:
        """Carry a part of the run out in a process of its own, and return its outcome; None if it was cut short."""
        is_alive, left, world = True, at, self

        def count(place: str) -> bool:
            nonlocal left
            left -= place == how
            return place == how and left < 0

        def store(entry: Entry) -> None:
            nonlocal is_alive
            if not is_alive or count("kill"):
                is_alive = False
                raise Ended
            self.stored.append(entry)

        class Provider(Shopper):
            async def complete(self, request: Request) -> Reply:
                if not is_alive:
                    raise Ended
                world.asked += 1
                if count("cancel"):
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()
                    await asyncio.sleep(0)
                if world.asked == world.fails_at:
                    raise ProviderError("busy", "rate_limit")
                reply = await super().complete(request)
                usage = Usage(estimate_input(request), OUTPUT, cost_usd=DOLLARS)
                world.replied += 1
                world.tokens += usage.total_tokens
                world.most = max(world.most, usage.total_tokens)
                return Reply(reply.text, reply.calls, usage, reply.finish_reason)

        def price(item: str) -> str:
            """What an item costs."""
            if count("stop"):
                raise Stopped
            return PRICES[item]

        resumable = Resumable(loop, Checkpoint(list(self.stored), on_entry=store), budget=budget)
        try:
            return asyncio.run(resumable.run(Query(QUESTION), Toolbox([price]), Provider()))
        except (Ended, Stopped, asyncio.CancelledError):
            return None


PARTS = st.lists(st.tuples(st.sampled_from(["kill", "stop", "cancel"]), st.integers(0, 8)), max_size=5)
BUDGETS = st.one_of(
    st.builds(Budget, calls=st.integers(0, 12)),
    st.builds(Budget, tokens=st.integers(0, 6_000)),
    st.builds(Budget, dollars=st.integers(0, 12).map(lambda number: number * DOLLARS)),
)


@settings(deadline=None, max_examples=cases(60))
@given(name=st.sampled_from(sorted(LOOPS)), parts=PARTS, budget=BUDGETS, fails_at=st.integers(0, 6))
def test_whatever_ends_its_parts_a_run_spends_its_budget_and_at_most_one_call_more(
    name: str, parts: list[tuple[str, int]], budget: Budget, fails_at: int
) -> None:
    world = World(fails_at)
    is_over = False
    for how, at in [*parts, ("none", 0), ("none", 0), ("none", 0)]:
        before, was_over = world.asked, is_over
        try:
            world.part(LOOPS[name], budget, how, at)
        except BudgetExceeded:
            is_over = True
        spent = Checkpoint(world.stored).spent
        assert world.asked == before or not was_over
        cut_off = spent.calls - sum(entry["kind"] in ("reply", "failure") for entry in world.stored)
        assert world.asked <= spent.calls  # nothing that was asked is forgotten, whenever the process ended
        assert world.tokens <= spent.tokens + OUTPUT * cut_off
        if budget.calls is not None:
            assert spent.calls <= budget.calls
        if budget.tokens is not None:
            assert spent.tokens < budget.tokens + max(world.most, 1) * in_flight(name) or spent.calls == 0
        if budget.dollars is not None:
            assert spent.dollars < budget.dollars + DOLLARS * in_flight(name) or spent.calls == 0


def in_flight(name: str) -> int:
    """How many requests a design has under way at once."""
    return 4 if name == "phased" else 1


def test_the_budget_is_that_of_all_parts_and_what_is_recorded_costs_nothing() -> None:
    def pay(amount: int) -> str:
        """Pay."""
        return f"{amount} paid"

    model = FakeModel.script([ToolCall("pay", {"amount": amount}) for amount in (1, 2, 3)], "Done.")
    checkpoint = Checkpoint(needs_approval={"pay": lambda arguments: arguments["amount"] == 2})
    parts = [(3, ApprovalRequired, 2), (3, BudgetExceeded, 3), (3, BudgetExceeded, 3), (4, None, 4), (4, None, 4)]
    for calls, ends, requests in parts:
        resumable = Resumable(Bare(), checkpoint, budget=Budget(calls=calls))
        with pytest.raises(ends) if ends else contextlib.nullcontext():
            assert resumable.run_sync(Query("Pay."), Toolbox([pay]), model).answer == "Done."
        for waiting in checkpoint.pending:
            checkpoint.approve(waiting)
        assert (len(model.requests), checkpoint.spent.calls) == (requests, requests)


def test_a_request_that_was_cut_off_is_spent() -> None:
    asked = [{"kind": "asked", "scope": "", "input_tokens": tokens} for tokens in (100, 50)]
    assert Checkpoint(asked).spent == Expenses(2, 150)


def test_a_budget_of_dollars_that_cannot_be_kept_is_refused() -> None:
    """Before the run by a model that says that it has no price, else once the first reply has none."""

    class Unpriced(FakeModel):
        is_priced = False

    query, tools, budget = Query("Hello?"), Toolbox(), Budget(dollars=5)
    unpriced = Unpriced(then=Answer("", "Hello."))
    told = "^a budget in dollars needs the price of fake, which is in no price list: give it with RealOptions"
    with pytest.raises(ValueError, match=told):
        Resumable(Bare(), budget=budget).run_sync(query, tools, unpriced)
    with pytest.raises(ValueError, match=told):
        MeteredModel(unpriced, Meter(Budget(calls=1), parent=Meter(budget)))
    assert unpriced.requests == []
    model = FakeModel("no move", Answer("", "Hello."))
    with pytest.raises(BudgetExceeded, match=r"^a budget of 5 dollars cannot be kept, for the model does not say"):
        Resumable(Bare(), budget=budget).run_sync(query, tools, model)
    assert len(model.requests) == 1


def test_a_budget_of_seconds_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^budget: limit calls, tokens or dollars, not seconds"):
        Resumable(Bare(), budget=Budget(seconds=5))


def test_a_run_without_a_budget_records_what_it_did_and_knows_what_it_spent() -> None:
    checkpoint = Checkpoint()
    outcome = run_sync(Resumable(Bare(), checkpoint).run(Query("Hello?"), Toolbox(), FakeModel(then=Answer("", "Hello."))))
    assert outcome.stop is StopReason.FINISHED
    assert [entry["kind"] for entry in checkpoint.entries] == ["run", "reply"]
    assert outcome.usage is not None
    assert checkpoint.spent == Expenses(1, outcome.usage.total_tokens or 0, 0.0, 1)
