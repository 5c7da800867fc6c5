"""Calls and answers beside a call that waits for a person: each is made once, and no answer comes before the decision."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loops.shopper import Shopper
from tests.loops.stateless.helpers import think
from tests.loops.test_approval import again
from whichloop.loops import ApprovalRequired, Checkpoint, Finish, Loop, Model, Phased, Resumable, Stateless
from whichloop.loops.bare import NOT_TAKEN, Bare
from whichloop.loops.checkpoint import REFUSED as REJECTED
from whichloop.models.fake import FakeModel
from whichloop.protocol import Outcome, Query, Request, Tool, Toolbox, ToolCall, run_sync
from whichloop.protocol.chat import NativeCall, Reply
from whichloop.protocol.moves import Act, Answer, Role

WAITS = ("pay", "refund")
PLAIN = ("send", "send_sync", "send_slowly")


class World:
    """Tools that count their calls: sync and async, those that wait for a person among them."""

    def __init__(self) -> None:
        self.made = Counter[str]()

    def tools(self, threads: bool | None = None) -> Toolbox:
        return Toolbox([self._tool(name) for name in (*WAITS, *PLAIN)], threads=threads)

    def _tool(self, name: str) -> Tool:
        async def later(to: str) -> str:
            for _ in range(50 if name == "send_slowly" else 1):
                await asyncio.sleep(0)
            return made(to)

        def made(to: str) -> str:
            self.made[f"{name} {to}"] += 1
            return f"{name}: {to}"

        return Tool.from_function(made if name in ("refund", "send_sync") else later, name=name)


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


def design(name: str, calls: tuple[ToolCall, ...]) -> tuple[Loop, Model]:
    """Return a design that calls in parallel, and a model that makes it make these calls."""
    if name == "finish":
        return Finish(max_steps=4, parallel_tools=True), FakeModel(Act("", calls), Answer("", "Done."))
    if name == "phased":
        return Phased(), Selecting(calls)
    if name == "phased agent":
        return Phased(tool_layout="agent"), Selecting(calls)
    loop = Stateless(execution_mode="parallel", enable_error_recovery=False, response_style=None)
    return loop, FakeModel(Act("", calls), then=Answer("", "Done.", 0.9))


DESIGNS = ("finish", "phased", "phased agent", "stateless")


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


@pytest.mark.parametrize("at_once", [True, False])
def test_equal_calls_wait_for_themselves_and_results_stand_in_call_order(at_once: bool) -> None:
    first = [("send_slowly", "1"), ("pay", "5"), ("send", "2"), ("pay", "6")]
    replies = [Act("", tuple(ToolCall(tool, {"to": to}) for tool, to in calls)) for calls in (first, [("pay", "5")])]
    world, model, shown = World(), FakeModel(*replies, Answer("", "Done.")), list[list[str]]()
    checkpoint, loop = Checkpoint(needs_approval=["pay"]), Finish(max_steps=5, parallel_tools=at_once)
    while True:
        try:
            outcome = Resumable(loop, checkpoint).run_sync(Query("Pay."), world.tools(), model)
            break
        except ApprovalRequired as stopped:
            shown.append([one.call.arguments["to"] for one in stopped.pending])
            for one in stopped.pending:
                checkpoint.approve(one)
    assert shown == ([["5", "6"], ["5"]] if at_once else [["5"], ["6"], ["5"]])
    assert world.made == Counter({"send_slowly 1": 1, "send 2": 1, "pay 5": 2, "pay 6": 1})
    results = [message.content for message in model.requests[1].messages if message.role == "tool"]
    assert results == ["send_slowly: 1", "pay: 5", "send: 2", "pay: 6"]
    assert outcome.answer == "Done."


# --- an answer in a reply that calls a tool of which a person has to know: it says "refunded", and nothing was ---


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


def test_bare_tells_the_model_to_call_the_tool_alone() -> None:
    beside = Reply(json.dumps({"tool_name": "pay", "arguments": {"order": 1}, "final_answer": EARLY}))
    desk = Desk(Bare(), beside)
    outcome = desk.run(Checkpoint(needs_approval=["pay"]))
    assert (outcome.answer, desk.paid) == (LATE, 0)
    assert NOT_TAKEN.format(tool="pay") in desk.model.requests[-1].messages[-1].content
