"""An answer in a reply that calls a tool of which a person has to know: it says "refunded", and nothing was."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.loops.stateless.helpers import think
from tests.loops.test_approval import again
from whichloop.loops.bare import NOT_TAKEN, Bare
from whichloop.loops.checkpoint import REFUSED as REJECTED
from whichloop.loops.checkpoint import Checkpoint
from whichloop.loops.finish import Finish
from whichloop.loops.resumable import ApprovalRequired, Resumable
from whichloop.loops.stateless import Stateless
from whichloop.models.fake import FakeModel
from whichloop.protocol import Loop, NativeCall, Outcome, Query, Reply, StopReason, Toolbox

EARLY, LATE = "Refunded.", "Not refunded."
CALL = NativeCall("a", "pay", '{"order": 1}')
OVER = NativeCall("b", "__finish__", json.dumps({"answer": EARLY}))
IN_WORDS = think(("pay", {"order": 1}), final=EARLY, should_continue=False)
BESIDE: dict[str, tuple[Callable[[], Loop], Reply]] = {
    "finish": (lambda: Finish(max_steps=4), Reply("", (CALL, OVER))),
    "finish, forced": (lambda: Finish(max_steps=1), Reply("", (CALL, OVER))),
    "stateless": (lambda: Stateless(response_style=None), Reply(IN_WORDS)),
    "stateless, run_first": (lambda: Stateless(finish_with_tools="run_first", response_style=None), Reply(IN_WORDS)),
}


class Desk:
    """A payment that the model asks for beside its answer."""

    def __init__(self, loop: Loop, beside: Reply, then: str = LATE) -> None:
        self.loop = loop
        self.model = FakeModel(beside, then=FakeModel.script([], then).then)
        self.paid = 0

    def pay(self, order: int) -> str:
        """Pay an order."""
        self.paid += 1
        return "paid"

    def run(self, checkpoint: Checkpoint) -> Outcome[Any]:
        return Resumable(self.loop, checkpoint).run_sync(Query("Pay."), Toolbox([self.pay]), self.model)


@pytest.mark.parametrize("name", BESIDE)
def test_an_answer_beside_a_guarded_call_is_asked_for_again_once_a_person_has_decided(name: str) -> None:
    make, beside = BESIDE[name]
    desk, checkpoint = Desk(make(), beside), Checkpoint(needs_approval=["pay"])
    with pytest.raises(ApprovalRequired):
        desk.run(checkpoint)
    undecided = again(checkpoint)  # of another process, which does not say what needs approval
    with pytest.raises(ApprovalRequired):
        desk.run(undecided)
    undecided.reject(undecided.pending[0], "over the limit")
    outcome = desk.run(undecided)
    assert (outcome.answer, desk.paid) == (LATE, 0)
    assert any(f"{REJECTED}: over the limit" in message.content for message in outcome.messages)


@pytest.mark.parametrize("name", ["finish", "stateless"])
def test_the_design_drops_calls_beside_an_answer_that_need_no_approval(name: str) -> None:
    make, beside = BESIDE[name]
    desk = Desk(make(), beside)
    assert (desk.run(Checkpoint(needs_approval=())).answer, desk.paid) == (EARLY, 0)


def test_a_single_turn_ends_without_the_answer() -> None:
    desk, checkpoint = Desk(Finish(), Reply("", (CALL, OVER))), Checkpoint(needs_approval=["pay"])
    with pytest.raises(ApprovalRequired):
        desk.run(checkpoint)
    checkpoint.approve(checkpoint.pending[0])
    outcome = desk.run(checkpoint)
    assert (outcome.answer, outcome.stop, desk.paid) == (None, StopReason.UNFINISHED, 1)


def test_a_forced_answer_beside_a_guarded_call_is_asked_for_again() -> None:
    said = Reply("", (NativeCall("c", "other", "{}"),))
    desk = Desk(Finish(max_steps=1), said)
    desk.model = FakeModel(said, Reply("", (CALL, OVER)), then=FakeModel.script([], LATE).then)
    outcome = desk.run(Checkpoint(needs_approval=["pay"]))
    assert (outcome.answer, outcome.stop, desk.paid) == (LATE, StopReason.FORCED, 0)


def test_bare_tells_the_model_to_call_the_tool_alone() -> None:
    beside = Reply(json.dumps({"tool_name": "pay", "arguments": {"order": 1}, "final_answer": EARLY}))
    desk = Desk(Bare(), beside)
    outcome = desk.run(Checkpoint(needs_approval=["pay"]))
    assert (outcome.answer, desk.paid) == (LATE, 0)
    assert NOT_TAKEN.format(tool="pay") in desk.model.requests[-1].messages[-1].content
