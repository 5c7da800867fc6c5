"""Runs that are taken up again: one that was stopped at any place, and goes on, is the run that was never stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.loops.helpers import Heard
from tests.loops.shopper import ANSWER, PRICES, QUESTION, Shopper, price
from whichloop.loops import Bare, Finish, Guarded, Microcompact, Phased, ProviderRetry, ReactExtract, RepeatGuard, Stateless
from whichloop.loops.checkpoint import Checkpoint, ResumeError
from whichloop.loops.resumable import ApprovalRequired, Resumable
from whichloop.models.fake import FakeModel
from whichloop.protocol import Loop, ProviderError, Query, Reply, Request, StopRun, Tool, Toolbox, ToolCall, run_sync
from whichloop.protocol.events import Observer
from whichloop.protocol.outcome import Outcome, StopReason

DESIGNS: dict[str, Loop] = {
    "bare": Bare(),
    "native": Bare(decision_format="native"),
    "finish": Finish(max_steps=6),
    "finish in parallel": Finish(max_steps=6, parallel_tools=True),
    "finish forced": Finish(max_steps=0),
    "finish streamed": Finish(max_steps=6, on_stream=lambda chunk: None),
    "phased": Phased(),
    "phased agent": Phased(tool_layout="agent"),
    "react_extract": ReactExtract(),
    "stateless": Stateless(),
    "stateless in parallel": Stateless(execution_mode="parallel", response_style="detailed"),
    "guarded": Guarded(Bare(), tools="needed", writes="confirmed"),
    "repeat_guard": RepeatGuard(Finish(max_steps=6)),
    "microcompact": Microcompact(Finish(max_steps=6), keep=1),
    "provider_retry": ProviderRetry(ReactExtract(), attempts=2),
}


class Interrupted(StopRun):
    """The run stops here."""


@dataclass
class World:
    """A model and tools that count what they are asked, and stop the run at the k-th time."""

    stop_at: int | None
    spoiled: int | None
    fails: int | None = None
    """The number of the request at which the provider fails once, counted over all runs."""
    asked: int = 0
    begun: int = 0

    def __post_init__(self) -> None:
        self.model = Counted(self)
        self.calls = Counter[str]()
        self.requests = Counter[str]()

    def _count(self) -> None:
        self.begun += 1
        if self.begun == self.stop_at:
            raise Interrupted

    async def price(self, item: str) -> str:
        self._count()
        self.calls[item] += 1
        if item == "milk" and self.spoiled and self.calls[item] == 1:
            raise ValueError("sold out")
        return price(item)


class Counted(Shopper):
    def __init__(self, world: World) -> None:
        super().__init__(world.spoiled)
        self.world = world

    async def complete(self, request: Request) -> Reply:
        self.world._count()
        self.world.asked += 1
        self.world.requests[f"{request.scope} {json.dumps(request.as_dict())}"] += 1
        if self.world.asked == self.world.fails:
            raise ProviderError("slow down", "rate_limit")
        return await super().complete(request)


def went(outcome: Outcome[Any]) -> Any:
    """All that an outcome has, without times and ids that differ between any two runs."""
    text = repr(replace(outcome, details={})) + repr(outcome.details) + repr(outcome.messages)
    text = re.sub(r"(timestamp|execution_time|processing_time|start_time|seconds)('?[:=]) ?[\d.e-]+", r"\1\2", text)
    return re.sub(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}| at 0x[0-9a-f]+", "", text)


OWN = ("bare", "finish", "phased", "react_extract", "stateless")
STOPPED = [(name, 3 if name in OWN else None) for name in DESIGNS] + [("bare", None)]
"""A loop, and that a reply in three is spoiled, or none."""


def ran(loop: Loop, world: World, checkpoint: Checkpoint, observer: Observer | None = None) -> Outcome[Any]:
    query = Query(QUESTION, history=())
    tools = Toolbox([world.price])
    return run_sync(Resumable(loop, checkpoint).run(query, tools, world.model, observer or Observer()))


@pytest.mark.parametrize(("name", "spoiled"), STOPPED)
def test_a_run_that_is_stopped_anywhere_and_taken_up_is_the_run_that_was_never_stopped(name: str, spoiled: int | None) -> None:
    loop = DESIGNS[name]
    plain = World(None, spoiled)
    alone = run_sync(loop.run(Query(QUESTION, history=()), Toolbox([plain.price]), plain.model))
    whole = World(None, spoiled)
    assert went(ran(loop, whole, Checkpoint())) == went(alone)
    for k in range(1, whole.begun + 1):
        world = World(k, spoiled)
        checkpoint = Checkpoint()
        with pytest.raises(Interrupted):
            ran(loop, world, checkpoint)
        stored = json.loads(json.dumps(checkpoint.entries))
        assert went(ran(loop, world, Checkpoint(stored))) == went(alone), k
        assert world.calls == whole.calls
        lost = world.requests - whole.requests  # asked beside the one that stopped, and without a reply at the time
        assert (whole.requests - world.requests).total() == 0
        assert lost.total() <= (2 if "phased" in name else 0)


def test_a_run_that_ended_is_told_again_without_the_model_or_the_tools() -> None:
    world, checkpoint = World(None, None), Checkpoint()
    first = ran(Bare(), world, checkpoint)
    before = world.begun
    assert went(ran(Bare(), world, Checkpoint(json.loads(json.dumps(checkpoint.entries))))) == went(first)
    assert world.begun == before


def test_a_run_that_failed_of_its_provider_goes_on_with_the_same_request() -> None:
    world, checkpoint = World(None, None, fails=2), Checkpoint()
    assert ran(Finish(max_steps=6), world, checkpoint).stop is StopReason.PROVIDER_ERROR
    assert ran(Finish(max_steps=6), world, checkpoint).answer == ANSWER
    assert world.calls == Counter(PRICES.keys())
    again = World(1, None)
    assert ran(Finish(max_steps=6), again, Checkpoint(json.loads(json.dumps(checkpoint.entries)))).answer == ANSWER
    assert again.begun == 0


def test_a_failure_that_a_design_overcame_is_part_of_the_run() -> None:
    world, checkpoint = World(None, None, fails=2), Checkpoint()
    first = ran(Bare(on_provider_error="observe"), world, checkpoint)
    assert "LLM call failed" in repr(first.details)
    assert went(ran(Bare(on_provider_error="observe"), World(1, None), Checkpoint(checkpoint.entries))) == went(first)


async def until(event: asyncio.Event, running: asyncio.Task[Any]) -> None:
    """Wait for an event, or for a run that ends without it."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({waiting, running}, return_when=asyncio.FIRST_COMPLETED)
    assert event.is_set(), running
    await waiting


def test_a_cancelled_run_goes_on() -> None:
    calls, checkpoint = Counter[str](), Checkpoint()
    loop = Resumable(Bare(), checkpoint)

    async def twice() -> Outcome[Any]:
        begun = asyncio.Event()

        async def price(item: str) -> str:
            calls[item] += 1
            if calls["milk"] == 1:
                begun.set()
                await asyncio.Event().wait()
            return PRICES[item]

        tools = Toolbox([price])
        running = asyncio.create_task(loop.run(Query(QUESTION), tools, Shopper()))
        await until(begun, running)
        with pytest.raises(RuntimeError, match="the run of this checkpoint is under way"):
            await loop.run(Query(QUESTION), tools, Shopper())
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return await loop.run(Query(QUESTION), tools, Shopper())

    assert run_sync(twice()).answer == ANSWER
    assert calls == Counter(tea=1, milk=2)  # the call that was under way is made again


@pytest.mark.parametrize("name", ["finish", "phased"])
def test_events_tell_what_happens_now_and_not_what_is_recorded(name: str) -> None:
    whole = Heard()
    world = World(None, None)
    ran(DESIGNS[name], world, Checkpoint(), whole)
    parts = Heard()
    interrupted, checkpoint = World(world.begun // 2 + 1, None), Checkpoint()
    with pytest.raises(Interrupted):
        ran(DESIGNS[name], interrupted, checkpoint, parts)
    ran(DESIGNS[name], interrupted, checkpoint, parts)
    kinds = Counter(event.name for event in whole.events)
    again = Counter(event.name for event in parts.events)
    assert (again["reply_received"], again["tool_finished"]) == (kinds["reply_received"], kinds["tool_finished"])
    assert again["run_ended"] == 2


# --- what is wrong ---


def pay(amount: int) -> str:
    """Pay."""
    PAID.append(amount)
    return f"{amount} paid"


def pay_otherwise(amount: int) -> str:
    """Pay somebody else."""
    raise AssertionError("nobody has approved that")


PAID: list[int] = []
ASKED = Query("Pay.")
SAME = Finish(max_steps=5)
CHANGES: dict[str, tuple[Loop, Query, Any]] = {
    "query": (SAME, Query("Pay twice."), pay),
    "docstring": (SAME, ASKED, pay_otherwise),
    "system text": (Finish(max_steps=5, system_prompt="Be brief."), ASKED, pay),
    "temperature": (Finish(max_steps=5, temperature=0.1), ASKED, pay),
    "design": (Bare(), ASKED, pay),
}


def approved(calls: int = 1) -> Checkpoint:
    """A run that has made some payments, and whose last one is approved and not made."""
    checkpoint = Checkpoint(needs_approval=["pay"])
    model = FakeModel.script([ToolCall("pay", {"amount": number}) for number in range(calls)], "Done.")
    for _ in range(calls):
        with pytest.raises(ApprovalRequired):
            Resumable(SAME, checkpoint).run_sync(ASKED, Toolbox([pay]), model)
        checkpoint.approve(checkpoint.pending[0])
    PAID.clear()
    return Checkpoint(json.loads(json.dumps(checkpoint.entries)), needs_approval=["pay"])


@pytest.mark.parametrize("change", CHANGES)
def test_another_run_than_the_recorded_one_is_refused(change: str) -> None:
    loop, query, function = CHANGES[change]
    checkpoint, model = approved(), FakeModel()
    before = list(checkpoint.entries)
    tools = Toolbox([Tool.from_function(function, name="pay")])
    with pytest.raises(ResumeError, match=r"^a request of role decide is not the recorded one: "):
        run_sync(Resumable(loop, checkpoint).run(query, tools, model))
    assert (PAID, model.requests, checkpoint.entries) == ([], [], before)


def test_a_limit_may_change_and_a_call_that_no_recorded_reply_asks_for_is_refused() -> None:
    checkpoint = approved()
    loop = Resumable(Finish(max_steps=9, parallel_tools=True), checkpoint)
    assert loop.run_sync(ASKED, Toolbox([pay]), FakeModel.script([], "Done.")).answer == "Done."
    assert PAID == [0]

    @dataclass(frozen=True)
    class Eager:
        """It pays before it asks."""

        name: str = "eager"
        stops: frozenset[StopReason] = frozenset()

        async def run(self, query: Any, tools: Toolbox, model: Any, observer: Any = None) -> Any:
            await tools.call(ToolCall("pay", {"amount": 9}))

        def with_step_limit(self, tool_steps: int) -> Any:
            return self

    with pytest.raises(ResumeError, match=r"^a call of pay is not the recorded one: "):
        run_sync(Resumable(Eager(), approved(2)).run(ASKED, Toolbox([pay]), FakeModel()))
    assert PAID == []
