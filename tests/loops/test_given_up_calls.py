"""Calls that wait for a person, given up at a time limit or told to an observer that raises: what has acted is never hidden."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.loops.shopper import DESIGNS
from tests.loops.test_approval_events import again
from whichloop.loops.checkpoints.checkpoint import ApprovalRequired, Checkpoint
from whichloop.loops.checkpoints.replayed_toolbox import BEGUN, EARLIER, GIVEN_UP, MADE, RAISED, REJECTED
from whichloop.loops.finish import Finish
from whichloop.loops.resumable import Resumable
from whichloop.models.fake import FakeModel
from whichloop.protocol import Loop, Observer, Outcome, Query, RunEvent, Tool, Toolbox, ToolCall
from whichloop.protocol.events import ToolFinished

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


# --- what a tool raises ---


class NoAnswer(Exception):
    """As of a client of HTTP: no TimeoutError of Python's."""


class NoSuchOrder(Exception):
    """The tool's own refusal, before it has acted."""


class Unpaid(NoSuchOrder):
    """A kind of it."""


class Bank:
    """A tool that counts what it does and raises."""

    def __init__(self, raised: BaseException, calls: int = 1) -> None:
        self.raised, self.paid = raised, 0
        self.model = FakeModel.script([ToolCall("pay", {"order": 1})] * calls, "Done.")

    def pay(self, order: int) -> str:
        """Pay an order."""
        self.paid += 1
        raise self.raised

    def run(self, loop: Loop, checkpoint: Checkpoint) -> Outcome[Any]:
        return Resumable(loop, checkpoint).run_sync(Query("Pay."), Toolbox([self.pay]), self.model)


@pytest.mark.parametrize("raised", [NoAnswer("read timed out"), ConnectionError("reset"), SystemExit(3), ValueError("no JSON")])
@pytest.mark.parametrize("name", DESIGNS)
def test_a_call_that_raised_may_have_acted_and_is_not_made_again_undecided(name: str, raised: BaseException) -> None:
    calls = 1 if name.startswith("phased") else 2  # a plan of two calls begins both before it knows of either
    loop, bank, checkpoint = DESIGNS[name](), Bank(raised, calls), Checkpoint(needs_approval=LET)
    problem = RAISED.format(error=f"{type(raised).__name__}: {raised}")
    for _ in range(2):
        with pytest.raises(ApprovalRequired):
            bank.run(loop, checkpoint)
    assert (bank.paid, {one.problem for one in checkpoint.pending}) == (1, {problem})


@pytest.mark.parametrize("named", [False, True])
def test_a_refusal_is_an_error_that_the_model_reads(named: bool) -> None:
    bank = Bank(Unpaid("there is no order 1"))
    checkpoint = Checkpoint(needs_approval=["pay"] if named else LET, refusals=[NoSuchOrder])
    if named:
        with pytest.raises(ApprovalRequired):
            bank.run(Finish(max_steps=4), checkpoint)
        checkpoint.approve(checkpoint.pending[0])
    outcome = bank.run(Finish(max_steps=4), checkpoint)
    assert (outcome.answer, bank.paid) == ("Done.", 1)
    assert any("Unpaid: there is no order 1" in message.content for message in outcome.messages)


def test_a_time_limit_is_no_refusal() -> None:
    checkpoint = Checkpoint(needs_approval=LET, refusals=[OSError])
    with pytest.raises(ApprovalRequired, match=GIVEN_UP):
        Bank(TimeoutError("no answer")).run(Finish(max_steps=4), checkpoint)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (NoSuchOrder, "refusals: give a list of exception classes, such as [NoSuchOrder], not NoSuchOrder"),
        (3, "refusals: give a list of exception classes, such as [NoSuchOrder], not 3"),
        ([3], "refusals: give classes of exceptions, not 3"),
        ([SystemExit], "refusals: give classes of exceptions, not <class 'SystemExit'>"),
        ([BaseException], "refusals: give classes of exceptions, not <class 'BaseException'>"),
        (
            [NoSuchOrder, Exception],
            "refusals: Exception is every error, so that no call that may have acted would wait; give exceptions that the tool "
            "raises only before it acts, such as [NoSuchOrder]",
        ),
    ],
)
def test_what_is_no_list_of_refusals_is_told(given: Any, told: str) -> None:
    with pytest.raises(TypeError) as error:
        Checkpoint(refusals=given)
    assert str(error.value) == told


def test_a_call_that_equals_one_that_was_made_says_so() -> None:
    till, checkpoint = Till(hangs=0, calls=2), Checkpoint(needs_approval=["pay"])
    for _ in range(2):
        with pytest.raises(ApprovalRequired):
            till.run(Finish(max_steps=4), checkpoint)
        first = checkpoint.pending[0]
        if not first.problem:
            checkpoint.approve(first)
            made = first.id
    assert (first.problem, till.paid) == (MADE.format(id=made, result="paid in call 1"), 1)
