"""Calls beside one that waits for a person: each is made once over a stop, the decisions and the run that goes on."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loops.shopper import Shopper
from whichloop.loops.bare import Bare
from whichloop.loops.checkpoints.checkpoint import ApprovalRequired, Checkpoint
from whichloop.loops.checkpoints.replayed_toolbox import BESIDE, EARLIER
from whichloop.loops.finish import Finish
from whichloop.loops.phased import Phased
from whichloop.loops.resumable import Resumable
from whichloop.loops.stateless import Stateless
from whichloop.models.fake import FakeModel
from whichloop.protocol import (
    SILENT,
    Act,
    Answer,
    Loop,
    Model,
    Observation,
    Observer,
    Outcome,
    Query,
    Reply,
    Request,
    Role,
    StopReason,
    Toolbox,
    ToolCall,
    run_sync,
)

WAITS = ("pay", "refund")
PLAIN = ("send", "send_sync", "send_slowly")


class World:
    """Tools that count their calls: sync and async, those that wait for a person among them."""

    def __init__(self) -> None:
        self.made = Counter[str]()

    def tools(self, threads: bool | None = None) -> Toolbox:
        async def pay(to: str) -> str:
            """Pay somebody."""
            self.made[f"pay {to}"] += 1
            return f"paid {to}"

        def refund(to: str) -> str:
            """Give money back."""
            self.made[f"refund {to}"] += 1
            return f"refunded {to}"

        async def send(to: str) -> str:
            """Send a letter."""
            self.made[f"send {to}"] += 1
            await asyncio.sleep(0)
            return f"sent {to}"

        async def send_slowly(to: str) -> str:
            """Send a parcel."""
            self.made[f"send_slowly {to}"] += 1
            for _ in range(50):
                await asyncio.sleep(0)
            return f"sent {to}"

        def send_sync(to: str) -> str:
            """Send a message."""
            self.made[f"send_sync {to}"] += 1
            return f"sent {to}"

        return Toolbox([pay, refund, send, send_slowly, send_sync], threads=threads)


class Selecting(Shopper):
    """A model of `phased` that plans two tasks, and selects some of the calls for the one and the others for the other."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        super().__init__()
        self.calls = calls

    async def complete(self, request: Request) -> Reply:
        if request.role is not Role.SELECT or request.codec is None:
            return await super().complete(request)
        half = len(self.calls) // 2
        chosen = self.calls[half:] if "milk" in request.messages[-1].content else self.calls[:half]
        return request.codec.render(Act("", tuple(chosen)))


@dataclass(frozen=True)
class AtOnce:
    """A loop of a user's own that makes two rows of calls at once, and ends both as soon as one raises."""

    calls: tuple[ToolCall, ...]
    name: str = "at_once"
    stops: frozenset[StopReason] = frozenset({StopReason.FINISHED})

    async def run(self, query: Query[Any], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[Any]:
        async def row(calls: Sequence[ToolCall]) -> list[Observation]:
            return [await tools.call(call) for call in calls]

        running = [asyncio.create_task(row(self.calls[half::2])) for half in (0, 1)]
        try:
            await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return Outcome("Done.", StopReason.FINISHED, 1)

    def with_step_limit(self, tool_steps: int) -> AtOnce:
        return self


def design(name: str, calls: tuple[ToolCall, ...]) -> tuple[Loop, Model]:
    """Return a design that calls in parallel, and a model that makes it make these calls."""
    if name == "finish":
        return Finish(max_steps=4, parallel_tools=True), FakeModel(Act("", calls), Answer("", "Done."))
    if name == "phased":
        return Phased(), Selecting(calls)
    if name == "phased agent":
        return Phased(tool_layout="agent"), Selecting(calls)
    if name == "stateless":
        loop = Stateless(execution_mode="parallel", enable_error_recovery=False, response_style=None)
        return loop, FakeModel(Act("", calls), then=Answer("", "Done.", 0.9))
    return AtOnce(calls), FakeModel()


DESIGNS = ("finish", "phased", "phased agent", "stateless", "at_once")


@given(
    names=st.lists(st.sampled_from(WAITS + PLAIN), min_size=2, max_size=6),
    name=st.sampled_from(DESIGNS),
    threads=st.sampled_from([None, True]),
    is_sync=st.booleans(),
)
def test_each_call_is_made_once_whatever_waits_beside_it(names: list[str], name: str, threads: bool | None, is_sync: bool) -> None:
    calls = tuple(ToolCall(tool, {"to": str(place)}) for place, tool in enumerate(names))
    loop, model = design(name, calls)
    world, checkpoint = World(), Checkpoint(needs_approval=WAITS)
    tools = world.tools(threads)
    waiting = sum(tool in WAITS for tool in names)
    stops = 0
    while True:
        resumable = Resumable(loop, checkpoint)
        query = Query("Pay and send.")
        try:
            if is_sync:
                resumable.run_sync(query, tools, model)
            else:
                run_sync(resumable.run(query, tools, model))
            break
        except ApprovalRequired:
            stops += 1
            assert stops <= waiting
            begun = {entry["call"] for entry in checkpoint.entries if entry["kind"] == "result"}
            assert len(begun) == world.made.total(), "a call that has begun has no result"
            assert checkpoint.pending
            for one in checkpoint.pending:
                assert world.made[f"{one.call.name} {one.call.arguments['to']}"] == 0
                checkpoint.approve(one)
            checkpoint = Checkpoint(json.loads(json.dumps(checkpoint.entries)), needs_approval=WAITS)
    assert world.made == Counter(f"{call.name} {call.arguments['to']}" for call in calls)
    assert bool(stops) is bool(waiting)


def test_a_call_beside_one_that_waits_is_made_once_in_any_order() -> None:
    for order in (("pay", "send_sync"), ("send_sync", "pay")):
        calls = tuple(ToolCall(tool, {"to": "ann"}) for tool in order)
        loop, model = design("finish", calls)
        world, checkpoint = World(), Checkpoint(needs_approval=["pay"])
        with pytest.raises(ApprovalRequired, match=r"^waiting for a person to approve or reject: pay$"):
            Resumable(loop, checkpoint).run_sync(Query("Pay."), world.tools(), model)
        checkpoint.approve(checkpoint.pending[0])
        assert Resumable(loop, checkpoint).run_sync(Query("Pay."), world.tools(), model).answer == "Done."
        assert world.made == Counter(["pay ann", "send_sync ann"])


def test_a_call_that_waits_never_runs_undecided_or_rejected_even_if_needs_approval_is_left_out() -> None:
    model = FakeModel(Act("", (ToolCall("pay", {"to": "ann"}),)), Answer("", "Done."))
    world, checkpoint = World(), Checkpoint(needs_approval=["pay"])
    with pytest.raises(ApprovalRequired):
        Resumable(Bare(), checkpoint).run_sync(Query("Pay."), world.tools(), model)
    stored = Checkpoint(json.loads(json.dumps(checkpoint.entries)))
    with pytest.raises(ApprovalRequired) as again:
        Resumable(Bare(), stored).run_sync(Query("Pay."), world.tools(), model)
    assert again.value.pending == checkpoint.pending
    stored.reject(stored.pending[0], "too dear")
    assert Resumable(Bare(), stored).run_sync(Query("Pay."), world.tools(), model).answer == "Done."
    assert "too dear" in model.requests[-1].messages[-1].content
    assert world.made == Counter()


# --- equal calls side by side ---

EQUAL = (ToolCall("pay", {"to": "ann"}),) * 2


class Till:
    """A tool that pays, and may raise after its first payment; it counts how many of its calls are under way."""

    def __init__(self, *, breaks: bool) -> None:
        self.breaks, self.paid, self.under_way, self.most = breaks, 0, 0, 0

    async def pay(self, to: str) -> str:
        """Pay somebody."""
        self.paid += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(20):
            await asyncio.sleep(0)
        self.under_way -= 1
        if self.breaks and self.paid == 1:
            raise ConnectionError("reset")
        return f"paid {to}"


@pytest.mark.parametrize("name", ["finish", "phased agent", "stateless", "at_once"])
@pytest.mark.parametrize("breaks", [False, True])
def test_equal_calls_that_a_rule_lets_run_are_made_one_after_the_other(name: str, breaks: bool) -> None:
    loop, model = design(name, EQUAL)
    till, checkpoint = Till(breaks=breaks), Checkpoint(needs_approval={"pay": lambda arguments: False})
    resumable, tools = Resumable(loop, checkpoint), Toolbox([till.pay])
    if not breaks:
        resumable.run_sync(Query("Pay."), tools, model)
        assert (till.paid, till.most) == (2, 1)
        return
    with pytest.raises(ApprovalRequired, match="the tool raised ConnectionError: reset"):
        resumable.run_sync(Query("Pay."), tools, model)
    assert till.paid == 1
    checkpoint.approve(checkpoint.pending[0])
    with pytest.raises(ApprovalRequired):
        resumable.run_sync(Query("Pay."), tools, model)
    first = next(entry["call"] for entry in checkpoint.entries if entry["kind"] == "begun")
    assert [(one.id != first, one.problem) for one in checkpoint.pending] == [(True, EARLIER.format(id=first))]
    assert till.paid == 2  # as approved, and the equal one waits although a rule lets it run


@pytest.mark.parametrize("name", ["finish", "phased agent", "stateless", "at_once"])
@pytest.mark.parametrize("breaks", [False, True])
def test_equal_calls_that_wait_side_by_side_say_so_and_are_asked_again_if_the_first_may_have_acted(name: str, breaks: bool) -> None:
    loop, model = design(name, EQUAL)
    till, checkpoint = Till(breaks=breaks), Checkpoint(needs_approval=["pay"])
    resumable, tools = Resumable(loop, checkpoint), Toolbox([till.pay])
    with pytest.raises(ApprovalRequired):
        resumable.run_sync(Query("Pay."), tools, model)
    first, second = checkpoint.pending
    assert (first.problem, second.problem) == ("", BESIDE.format(id=first.id))
    for one in (first, second):
        checkpoint.approve(one)
    if not breaks:
        resumable.run_sync(Query("Pay."), tools, model)
        assert (till.paid, till.most) == (2, 1)
        return
    with pytest.raises(ApprovalRequired):
        resumable.run_sync(Query("Pay."), tools, model)
    assert till.paid == 1
    with pytest.raises(ValueError, match="is not what was shown: it waits with"):
        checkpoint.answer(first, "paid, says the bank")
    checkpoint.answer(next(one for one in checkpoint.pending if one.id == first.id), "paid, says the bank")
    for one in checkpoint.pending:
        assert (one.id, one.problem) == (second.id, EARLIER.format(id=first.id))
        checkpoint.approve(one)
    resumable.run_sync(Query("Pay."), tools, model)
    assert (till.paid, till.most) == (2, 1)


def test_a_call_that_was_approved_before_its_equal_may_have_acted_waits_again_with_the_arguments_that_were_given() -> None:
    loop, model = design("finish", EQUAL)
    till, checkpoint = Till(breaks=True), Checkpoint(needs_approval=["pay"])
    resumable, tools = Resumable(loop, checkpoint), Toolbox([till.pay])
    with pytest.raises(ApprovalRequired):
        resumable.run_sync(Query("Pay."), tools, model)
    first, second = checkpoint.pending
    checkpoint.approve(first)
    checkpoint.approve(second, arguments={"to": "bob"})
    with pytest.raises(ApprovalRequired):
        resumable.run_sync(Query("Pay."), tools, model)
    checkpoint.approve(next(one for one in checkpoint.pending if one.id == first.id))
    with pytest.raises(ApprovalRequired):
        resumable.run_sync(Query("Pay."), tools, model)
    (again,) = checkpoint.pending
    assert (again.id, again.arguments) == (second.id, {"to": "bob"})
    assert again.problem == EARLIER.format(id=first.id)
    checkpoint.approve(again)
    assert resumable.run_sync(Query("Pay."), tools, model).answer == "Done."
    assert till.paid == 3
