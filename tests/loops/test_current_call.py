"""A tool learns the id of its call, and a key that stays the same whenever that call is made again, and is no other call's."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from tests.loops.helpers import in_turn
from tests.loops.shopper import ANSWER, DESIGNS, PRICES, QUESTION, Shopper
from whichloop import current_call
from whichloop.loops import Bare, Checkpoint, CurrentCall, Finish, Guarded, Microcompact, RepeatGuard, Stateless, run_events
from whichloop.loops.provider_retry import ProviderRetry
from whichloop.loops.react_extract import ReactExtract
from whichloop.loops.resumable import ApprovalRequired, Resumable
from whichloop.models.fake import FakeModel
from whichloop.protocol import Loop, Query, StopRun, Tool, Toolbox, ToolCall, run_sync
from whichloop.protocol.events import ToolStarted

MADE: dict[str, Callable[[], Loop]] = {
    **DESIGNS,
    "stateless in parallel": lambda: Stateless(execution_mode="parallel"),
    "guarded": lambda: Guarded(Bare(), tools="needed", writes="confirmed"),
    "repeat_guard": lambda: RepeatGuard(Finish(max_steps=6)),
    "microcompact": lambda: Microcompact(Finish(max_steps=6), keep=1),
    "provider_retry": lambda: ProviderRetry(ReactExtract(), attempts=2),
}


class Killed(StopRun):
    """The process ends here."""


class Shop:
    """A tool that keeps what it was told of its calls, and whose process ends after the k-th one has acted."""

    def __init__(self, end_at: int = 0, approval: bool = False, **how: Any) -> None:
        self.end_at = end_at
        self.needs_approval = ["price"] if approval else []
        self.told: list[tuple[str, CurrentCall]] = []
        self.lines: list[str] = []
        self.tools = Toolbox([Tool.from_function(self.price, **how)])

    def price(self, item: str) -> str:
        """What an item costs."""
        self.told.append((item, current_call()))
        if len(self.told) == self.end_at:
            raise Killed
        return PRICES[item]

    def keys(self) -> dict[str, set[str]]:
        """The keys under which each item was asked for."""
        found: dict[str, set[str]] = {}
        for item, call in self.told:
            found.setdefault(item, set()).add(call.idempotency_key)
        return found

    def work(self, loop: Loop) -> Any:
        """Carry the run out in one process after the other until it ends, a person lets all calls run; return the answer."""
        for _ in range(12):
            stored = map(json.loads, list(self.lines))
            checkpoint = Checkpoint(
                stored, needs_approval=self.needs_approval, on_entry=lambda entry: self.lines.append(json.dumps(entry))
            )
            try:
                return Resumable(loop, checkpoint).run_sync(Query(QUESTION), self.tools, Shopper()).answer
            except ApprovalRequired:
                for waiting in checkpoint.pending:
                    checkpoint.approve(waiting)
            except Killed:
                continue
        return None


@pytest.mark.parametrize(("name", "approval"), in_turn(MADE, [False, True]))
def test_a_call_that_is_made_again_after_a_kill_has_the_same_key(name: str, approval: bool) -> None:
    for end_at in (1, 2):
        shop = Shop(end_at, approval, blocking=False)  # in place: of two threads either could be the first
        assert shop.work(MADE[name]()) == ANSWER
        keys = shop.keys()
        assert {item: len(found) for item, found in keys.items()} == dict.fromkeys(PRICES, 1)
        assert keys["tea"] != keys["milk"]
        asked = [item for item, _ in shop.told]
        assert sorted(asked) == sorted([*PRICES, asked[end_at - 1]])  # the one that was cut off is made again
        attempts = Counter(call.attempt for _, call in shop.told)
        assert attempts == Counter({1: 2, 2: 1})


@pytest.mark.parametrize("name", MADE)
def test_each_run_has_keys_of_its_own_and_the_ids_that_its_events_tell(name: str) -> None:
    shop, started = Shop(), list[ToolStarted]()

    async def twice() -> None:
        for _ in range(2):
            events = run_events(MADE[name](), Query(QUESTION), shop.tools, Shopper())
            started.extend([event async for event in events if isinstance(event, ToolStarted)])

    run_sync(twice())
    told = [call for _, call in shop.told]
    assert sorted(call.call_id for call in told) == sorted(event.call.call_id for event in started)
    assert len({call.idempotency_key for call in told}) == len(told) == 4
    assert len({call.run_id for call in told}) == 2
    assert {len(UUID(call.idempotency_key).hex) for call in told} == {32}
    assert {call.tool for call in told} == {"price"}


@pytest.mark.parametrize(("runs", "how"), in_turn(["run", "run_sync"], [{}, {"time_limit_s": 999}, {"blocking": False}]))
def test_a_tool_knows_its_call_on_any_thread_that_it_runs_on(runs: str, how: dict[str, Any]) -> None:
    shop, loop = Shop(**how), Finish(max_steps=6, parallel_tools=True)
    if runs == "run":
        asyncio.run(loop.run(Query(QUESTION), shop.tools, Shopper()))
    else:
        loop.run_sync(Query(QUESTION), shop.tools, Shopper())
    assert {item: call.tool for item, call in shop.told} == dict.fromkeys(PRICES, "price")
    assert len({call.call_id for _, call in shop.told}) == 2


def test_equal_calls_of_a_run_are_different_calls_and_the_person_sees_the_key() -> None:
    told: list[CurrentCall] = []

    def pay(cents: int) -> str:
        """Pay."""
        told.append(current_call())
        return "paid"

    checkpoint = Checkpoint(needs_approval=["pay"])
    model, seen = FakeModel.script([ToolCall("pay", {"cents": 5})] * 2, "Done."), list[str]()
    loop = Resumable(Finish(max_steps=6), checkpoint)
    for edit in (None, {"cents": 7}):  # the key is the call's, whatever a person makes of its arguments
        with pytest.raises(ApprovalRequired):
            loop.run_sync(Query("Pay."), Toolbox([pay]), model)
        (waiting,) = Checkpoint(json.loads(json.dumps(checkpoint.entries))).pending
        seen.append(waiting.idempotency_key)
        checkpoint.approve(waiting, arguments=edit)
    assert loop.run_sync(Query("Pay."), Toolbox([pay]), model).answer == "Done."
    assert [call.idempotency_key for call in told] == seen
    assert len({call.run_id for call in told}) == 1 == len({checkpoint.run_id for _ in told})
    assert told[0].run_id == checkpoint.run_id
    assert seen[0] != seen[1]


def test_an_agent_that_is_a_tool_has_the_same_keys_when_its_call_is_made_again() -> None:
    made = 2
    keys: list[str] = []
    ends = [True]

    def pay(cents: int) -> str:
        """Pay."""
        keys.append(current_call().idempotency_key)
        return "paid"

    async def buy(what: str) -> str:
        """Let another agent buy it."""
        own = current_call()
        for _ in range(made):  # equal runs within one call differ, too
            inner = FakeModel.script([ToolCall("pay", {"cents": 5})], "Bought.")
            await Finish(max_steps=3).run(Query(f"Buy {what}."), Toolbox([pay]), inner)
        assert current_call() is own
        if ends.pop():
            raise Killed
        return "bought"

    checkpoint = Checkpoint()
    model = FakeModel.script([ToolCall("buy", {"what": "tea"})], "Done.")
    with pytest.raises(Killed):
        Resumable(Bare(), checkpoint).run_sync(Query("Buy."), Toolbox([buy]), model)
    ends.append(False)
    again = Resumable(Bare(), Checkpoint(json.loads(json.dumps(checkpoint.entries))))
    assert again.run_sync(Query("Buy."), Toolbox([buy]), FakeModel.script([], "Done.")).ok
    assert keys[:made] == keys[made:]
    assert len(set(keys)) == made
