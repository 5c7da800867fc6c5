"""A budget of a whole run over the ends of its processes, and a store or observer that raises: nothing is paid twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.helpers import in_turn
from tests.loops.shopper import ANSWER, DESIGNS, PRICES, QUESTION, Shopper
from whichloop.loops import Bare, Checkpoint, Finish, Guarded, Microcompact, Phased, ReactExtract, Stateless
from whichloop.loops.provider_retry import ProviderRetry
from whichloop.loops.resumable import ApprovalRequired, Resumable
from whichloop.loops.shared.boundary import run_of
from whichloop.models.fake import FakeModel
from whichloop.models.metering import Budget
from whichloop.protocol import Answer, Loop, Outcome, Query, Reply, Toolbox, Usage, WrappedLoop, run_sync
from whichloop.protocol.events import SILENT, Observer, RunEnded, RunEvent
from whichloop.protocol.model import Model, ProviderError, Request, WrappedModel, estimate_input
from whichloop.protocol.tool_calls import BudgetExceeded, Observation, StopRun, ToolCall
from whichloop.protocol.tools import ToolboxAround

Entry = dict[str, Any]
SPENDING: dict[str, Loop] = {
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


class Gone(BaseException):
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
                raise Gone
            self.stored.append(entry)

        class Provider(Shopper):
            async def complete(self, request: Request) -> Reply:
                if not is_alive:
                    raise Gone
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
            if count("stop"):
                raise Stopped
            return PRICES[item]

        resumable = Resumable(loop, Checkpoint(list(self.stored), on_entry=store), budget=budget)
        try:
            return asyncio.run(resumable.run(Query(QUESTION), Toolbox([price]), Provider()))
        except (Gone, Stopped, asyncio.CancelledError):
            return None


PARTS = st.lists(st.tuples(st.sampled_from(["kill", "stop", "cancel"]), st.integers(0, 8)), max_size=5)
BUDGETS = st.one_of(
    st.builds(Budget, calls=st.integers(0, 12)),
    st.builds(Budget, tokens=st.integers(0, 6_000)),
    st.builds(Budget, dollars=st.integers(0, 12).map(lambda number: number * DOLLARS)),
)


@settings(deadline=None, max_examples=cases(60))
@given(name=st.sampled_from(sorted(SPENDING)), parts=PARTS, budget=BUDGETS, fails_at=st.integers(0, 6))
def test_whatever_ends_its_parts_a_run_spends_its_budget_and_at_most_one_call_more(
    name: str, parts: list[tuple[str, int]], budget: Budget, fails_at: int
) -> None:
    world = World(fails_at)
    is_over = False
    for how, at in [*parts, ("none", 0), ("none", 0), ("none", 0)]:
        before, was_over = world.asked, is_over
        try:
            world.part(SPENDING[name], budget, how, at)
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


def test_a_budget_of_dollars_that_cannot_be_kept_is_refused() -> None:
    """Before the run by a model that says that it has no price, else once the first reply has none."""

    class Unpriced(FakeModel):
        is_priced = False

    query, tools, budget = Query("Hello?"), Toolbox(), Budget(dollars=5)
    unpriced = Unpriced(then=Answer("", "Hello."))
    with pytest.raises(ValueError, match=r"^a budget in dollars needs the price of fake, which is in no price list"):
        Resumable(Bare(), budget=budget).run_sync(query, tools, unpriced)
    assert unpriced.requests == []
    model = FakeModel("no move", Answer("", "Hello."))
    with pytest.raises(BudgetExceeded, match=r"^a budget of 5 dollars cannot be kept, for the model does not say"):
        Resumable(Bare(), budget=budget).run_sync(query, tools, model)
    assert len(model.requests) == 1


# --- a store or an observer that raises ---


class TakesAllForErrors(ToolboxAround):
    """What is raised at a call is an error of the tool."""

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        try:
            return await self.within.call(call, validate=validate)
        except Exception as error:
            return Observation(call.name, "error", str(error), type(error).__name__)


class TakesAllForFailures(WrappedModel):
    """What is raised at a request is a failure of the provider."""

    async def complete(self, request: Request) -> Reply:
        try:
            return await self.model.complete(request)
        except Exception as error:
            raise ProviderError(str(error), "server") from error


@dataclass(frozen=True, slots=True)
class Stubborn(WrappedLoop):
    """A design of a user's own that nothing stops."""

    async def run(self, query: Query[Any], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[Any]:
        return await self.loop.run(query, TakesAllForErrors(tools), TakesAllForFailures(model), observer)


LOOPS: dict[str, Callable[[], Loop]] = {
    "finish in parallel": DESIGNS["finish in parallel"],
    "phased": Phased,
    "react_extract": ReactExtract,
    "stateless in parallel": lambda: Stateless(execution_mode="parallel"),
    "guarded": lambda: Guarded(loop=Finish(max_steps=6), writes="confirmed"),
    "microcompact": lambda: Microcompact(loop=Bare()),
    "provider_retry": lambda: ProviderRetry(loop=Phased(tool_layout="agent")),
    "bare": Bare,
    "stubborn bare": lambda: Stubborn(Bare(on_provider_error="observe")),
    "stubborn stateless": lambda: Stubborn(Stateless()),
}


class Broken(Exception):
    """What the store or the observer raises."""


class Ended(StopRun):
    """The process ends after the tool has acted."""


class Shop(Observer):
    """A tool that needs approval, its store, and an observer; one of them raises when something has happened so many times."""

    def __init__(self, at: int, breaks: str) -> None:
        """`breaks`: `entry` before it is stored, `stored entry` after that, `event`, or `call`, when the tool has acted."""
        self.at, self.breaks = at, breaks
        self.is_let = at % 2 == 0
        """Whether a rule lets the calls run, or each waits for a person."""
        self.count = 0
        self.lines: list[str] = []
        self.paid = Counter[str]()
        self.approved = Counter[str]()
        self.events: list[RunEvent] = []
        self.model = Shopper()
        self.asked_before = 0

    def _happens(self, what: str) -> None:
        if what != self.breaks:
            return
        self.count += 1
        if self.count == self.at:
            self.asked_before = len(self.model.requests)
            raise Ended if what == "call" else Broken(what)

    def on_event(self, event: RunEvent) -> None:
        self.events.append(event)
        self._happens("event")

    def store(self, entry: dict[str, Any]) -> None:
        self._happens("entry")
        self.lines.append(json.dumps(entry))
        self._happens("stored entry")

    def price(self, item: str) -> str:
        self.paid[item] += 1
        self._happens("call")
        return PRICES[item]

    def run(self, loop: Loop, checkpoint: Checkpoint | None = None) -> Outcome[Any]:
        given = loop if checkpoint is None else Resumable(loop, checkpoint)
        return run_sync(run_of(given)(Query(QUESTION), Toolbox([self.price]), self.model, self))

    def checkpoint(self, entries: list[dict[str, Any]] | None = None) -> Checkpoint:
        stored = map(json.loads, list(self.lines)) if entries is None else entries
        rule = {"price": lambda arguments: False} if self.is_let else ["price"]
        return Checkpoint(stored, needs_approval=rule, on_entry=self.store)

    def goes_on(self, loop: Loop, checkpoint: Checkpoint) -> Any:
        """Carry the run out until it ends; a person lets what waits be called."""
        for _ in range(9):
            try:
                return self.run(loop, checkpoint).answer
            except ApprovalRequired as stopped:
                for waiting in stopped.pending:
                    try:
                        checkpoint.approve(waiting)
                    except Broken:  # the decision is not known to be stored
                        checkpoint = self.checkpoint()
                        if waiting not in checkpoint.pending:
                            self.approved[waiting.call.arguments["item"]] += 1
                        break
                    self.approved[waiting.call.arguments["item"]] += 1
            except (Broken, Ended) as error:
                if isinstance(error, Broken):
                    assert len(self.model.requests) == self.asked_before
                    assert isinstance(self.events[-1], RunEnded)
                checkpoint = checkpoint if self.breaks == "entry" and self.at % 4 > 1 else self.checkpoint()
        raise AssertionError("it waits for ever")


BREAKS = ["entry", "stored entry", "event", "call"]
PLACES = [(name, breaks) for name, breaks in in_turn(LOOPS, BREAKS) if (name, breaks) != ("stubborn bare", "call")]
"""Not where a design takes the end of its process for an error; each at every third of the places where a run may break."""


@pytest.mark.parametrize(("name", "breaks"), PLACES)
def test_whatever_ends_a_run_anywhere_nothing_is_paid_undecided_or_twice_on_one_decision(name: str, breaks: str) -> None:
    """An observer or a store raises, or the process ends."""
    loop = LOOPS[name]()
    whole = Shop(0, breaks)
    assert whole.goes_on(loop, whole.checkpoint()) == ANSWER
    for at in range(whole.count + 4, 0, -3):  # there are more where calls wait
        shop = Shop(at, breaks)
        assert shop.goes_on(loop, shop.checkpoint()) == ANSWER, at
        for item in PRICES:
            assert shop.paid[item] <= shop.is_let + shop.approved[item], at


@pytest.mark.parametrize("name", ["bare", "phased", "stateless in parallel", "stubborn bare"])
def test_what_an_observer_raises_leaves_a_run_without_a_checkpoint(name: str) -> None:
    loop = LOOPS[name]()
    whole = Shop(0, "event")
    assert whole.run(loop).answer == ANSWER
    for at in range(whole.count, 0, -3):
        shop = Shop(at, "event")
        with pytest.raises(Broken):
            shop.run(loop)
        assert len(shop.model.requests) == shop.asked_before, at


@pytest.mark.parametrize("name", ["stubborn bare", "stubborn stateless"])
def test_a_design_that_takes_a_stop_for_an_error_does_not_end_the_run(name: str) -> None:
    shop = Shop(0, "")
    checkpoint = Checkpoint(needs_approval=["price"])
    with pytest.raises(ApprovalRequired):
        shop.run(LOOPS[name](), checkpoint)
    asked = len(shop.model.requests)
    with pytest.raises(ApprovalRequired):
        shop.run(LOOPS[name](), checkpoint)
    assert (len(shop.model.requests), shop.paid) == (asked, Counter())
    assert shop.goes_on(LOOPS[name](), checkpoint) == ANSWER
    assert shop.paid == shop.approved == Counter(PRICES.keys())
