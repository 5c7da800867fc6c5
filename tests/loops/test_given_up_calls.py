"""Calls that wait for a person, given up at a time limit or told to an observer that raises: what has acted is never hidden."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopbench.loops.checkpoint import ApprovalRequired, Checkpoint
from loopbench.loops.finish import Finish
from loopbench.loops.resumable import BEGUN, EARLIER, GIVEN_UP, REJECTED, Resumable
from loopbench.models.fake import FakeModel
from loopbench.protocol import Loop, Observer, Outcome, Query, RunEvent, Tool, Toolbox, ToolCall
from loopbench.protocol.events import ToolFinished
from tests.loops.test_approval_events import DESIGNS, again

LET = {"pay": lambda arguments: False}


class Till:
    """A tool that pays at once, and whose first calls then give no result."""

    def __init__(self, hangs: int = 1, calls: int = 1) -> None:
        """`calls`: how many times the model asks for the same payment."""
        self.hangs = hangs
        self.paid = 0
        self.model = FakeModel.script([ToolCall("pay", {"order": 1})] * calls, "Done.")

    async def pay(self, order: int) -> str:
        """Pay an order."""
        self.paid += 1
        if self.paid <= self.hangs:
            await asyncio.Event().wait()
        return f"paid in call {self.paid}"

    def run(self, loop: Loop, checkpoint: Checkpoint, observer: Observer | None = None) -> Outcome[Any]:
        tools = Toolbox([Tool.from_function(self.pay, time_limit_s=0.02 if self.paid < self.hangs else None)])
        return Resumable(loop, checkpoint).run_sync(Query("Pay."), tools, self.model, observer or Observer())


def given_up(loop: Loop, calls: int = 1) -> tuple[Till, Checkpoint]:
    """A call that a rule had let run, after its time limit."""
    till, checkpoint = Till(calls=calls), Checkpoint(needs_approval=LET)
    with pytest.raises(ApprovalRequired, match=GIVEN_UP):
        till.run(loop, checkpoint)
    return till, checkpoint


@pytest.mark.parametrize("name", DESIGNS)
def test_a_call_that_was_given_up_at_its_limit_waits_as_one_that_may_have_acted(name: str) -> None:
    loop = DESIGNS[name]()
    till, checkpoint = given_up(loop)
    for rule in (LET, ()):
        with pytest.raises(ApprovalRequired, match=GIVEN_UP):
            till.run(loop, again(checkpoint, needs_approval=rule))
    assert (till.paid, [one.problem for one in checkpoint.pending]) == (1, [GIVEN_UP])
    answered = again(checkpoint)
    answered.answer(answered.pending[0], "paid, says the bank")
    outcome = till.run(loop, answered)
    assert (outcome.answer, till.paid) == ("Done.", 1)
    assert any("paid, says the bank" in message.content for message in outcome.messages)


@pytest.mark.parametrize("name", ["bare", "finish in parallel"])
def test_a_call_that_was_given_up_is_made_again_once_it_is_approved(name: str) -> None:
    loop = DESIGNS[name]()
    till, checkpoint = given_up(loop)
    checkpoint.approve(checkpoint.pending[0])
    assert (till.run(loop, checkpoint).answer, till.paid) == ("Done.", 2)


def test_a_timeout_of_the_tools_own_counts_like_its_limit() -> None:
    def pay(order: int) -> str:
        """Pay an order."""
        raise TimeoutError("the bank did not answer")

    def model() -> FakeModel:
        return FakeModel.script([ToolCall("pay", {"order": 1})], "Done.")

    with pytest.raises(ApprovalRequired, match=GIVEN_UP):
        Resumable(Finish(max_steps=4), Checkpoint(needs_approval=LET)).run_sync(Query("Pay."), Toolbox([pay]), model())
    outcome = Resumable(Finish(max_steps=4), Checkpoint()).run_sync(Query("Pay."), Toolbox([pay]), model())
    assert outcome.answer == "Done."  # nobody has to know of the tool: an error as ever


@pytest.mark.parametrize(("decision", "asks"), [("reject", True), ("approve", True), ("answer", False)])
def test_an_equal_call_after_one_that_was_given_up_waits_and_names_it(decision: str, asks: bool) -> None:
    loop = Finish(max_steps=6)
    till, checkpoint = given_up(loop, calls=2)
    first = checkpoint.pending[0].id
    {
        "reject": lambda: checkpoint.reject(first, "look it up"),
        "approve": lambda: checkpoint.approve(first),
        "answer": lambda: checkpoint.answer(first, "paid, says the bank"),
    }[decision]()
    paid = till.paid + (decision == "approve")
    if not asks:
        assert (till.run(loop, checkpoint).answer, till.paid) == ("Done.", 2)
        return
    with pytest.raises(ApprovalRequired):
        till.run(loop, checkpoint)
    waiting = checkpoint.pending[0]
    assert (waiting.problem, till.paid) == (EARLIER.format(id=first), paid)
    assert waiting.id != first
    checkpoint.reject(waiting)
    texts = [message.content for message in till.run(loop, checkpoint).messages if message.role == "tool"]
    assert any(f"{REJECTED}: look it up {BEGUN}" in text for text in texts) == (decision == "reject")
    assert texts[-1].endswith(f"{REJECTED}.")  # the second one never began
    assert till.paid == paid


class Breaks(Observer):
    """Raises when it is told of a tool's result."""

    def on_event(self, event: RunEvent) -> None:
        if isinstance(event, ToolFinished):
            raise KeyError("the log is full")


@pytest.mark.parametrize("name", DESIGNS)
def test_a_result_is_recorded_although_the_observer_raises_at_it(name: str) -> None:
    loop, till, checkpoint = DESIGNS[name](), Till(hangs=0), Checkpoint(needs_approval=LET)
    with pytest.raises(KeyError, match="the log is full"):
        till.run(loop, checkpoint, observer=Breaks())
    assert [entry["result"]["data"] for entry in checkpoint.entries if entry["kind"] == "result"] == ["paid in call 1"]
    assert (till.run(loop, checkpoint).answer, till.paid) == ("Done.", 1)


def test_an_observer_that_raises_at_a_call_that_was_given_up_is_heard_and_the_call_waits() -> None:
    till, checkpoint = Till(), Checkpoint(needs_approval=LET)
    with pytest.raises(KeyError, match="the log is full"):
        till.run(Finish(max_steps=4), checkpoint, observer=Breaks())
    assert checkpoint.pending[0].problem == GIVEN_UP
