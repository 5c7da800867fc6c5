"""What an outcome says that its run took, how the replies of a function stream, and what a tool learns of its call."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import pytest

from tests.loops.helpers import Heard, in_turn
from tests.loops.shopper import ANSWER, DESIGNS, PRICES, QUESTION, Shopper, price
from tests.loops.test_resumable import DESIGNS as LOOPS
from whichloop import current_call
from whichloop.loops import (
    Bare,
    Checkpoint,
    CurrentCall,
    Finish,
    Guarded,
    Microcompact,
    ProviderRetry,
    RepeatGuard,
    Resumable,
    Stateless,
    run_events,
)
from whichloop.loops.react_extract import ReactExtract
from whichloop.loops.resumable import ApprovalRequired
from whichloop.models.fake import FakeModel
from whichloop.protocol import Loop, Outcome, Query, Reply, RunEvent, StopRun, Tool, Toolbox, ToolCall, Usage, run_sync
from whichloop.protocol.events import ReplyChunk, ReplyReceived, RequestStarted, RunEnded, ToolFinished, ToolStarted
from whichloop.protocol.model import FunctionModel, ProviderError, Request
from whichloop.protocol.moves import Act, Answer
from whichloop.protocol.outcome import RunUsage


class Counted(Shopper):
    """A shopper whose client tells what each reply took, or nothing."""

    def __init__(self, tells: bool, spoiled: int | None = 3) -> None:
        super().__init__(spoiled)
        self.tells = tells

    async def complete(self, request: Request) -> Reply:
        reply = await super().complete(request)
        usage = Usage(len(str(request.messages)), len(reply.text), cost_usd=0.25) if self.tells else None
        return Reply(reply.text, reply.calls, usage)


def told(events: list[RunEvent]) -> RunUsage:
    """The sum of what events tell."""
    replies = [event.reply for event in events if isinstance(event, ReplyReceived)]
    tokens = None
    for reply in replies:
        if reply.usage is not None:
            tokens = reply.usage if tokens is None else tokens + reply.usage
    return RunUsage(
        sum(isinstance(event, RequestStarted) for event in events),
        sum(isinstance(event, ToolFinished) for event in events),
        tokens,
        sum(reply.usage is None for reply in replies),
    )


@pytest.mark.parametrize(("name", "tells"), in_turn(LOOPS, [True, False]))
def test_the_usage_of_an_outcome_is_the_sum_of_its_events(name: str, tells: bool) -> None:
    heard = Heard(streams=tells)
    outcome: Outcome[Any] = run_sync(LOOPS[name].run(Query(QUESTION), Toolbox([price]), Counted(tells), heard))
    assert outcome.usage == told(heard.events)
    assert outcome.usage.requests > 0
    assert (outcome.usage.tokens is not None) is tells
    alone: Outcome[Any] = run_sync(LOOPS[name].run(Query(QUESTION), Toolbox([price]), Counted(tells)))
    assert alone.usage == outcome.usage
    last = heard.events[-1]
    assert isinstance(last, RunEnded)
    assert last.as_dict()["usage"] == outcome.usage.as_dict()


def test_each_attempt_is_a_request_and_one_that_fails_has_no_tokens() -> None:
    model = FakeModel(ProviderError("busy", "rate_limit"), Act("", (ToolCall("prise", {}),)), Answer("", "1.5"))
    usage = ProviderRetry(Bare()).run_sync(Query(QUESTION), Toolbox([price]), model).usage
    assert usage is not None
    assert (usage.requests, usage.tool_calls, usage.uncounted) == (3, 0, 0)
    assert usage.total_tokens == (usage.input_tokens or 0) + (usage.output_tokens or 0) > 0
    nothing = RunUsage(1, 0, None, 1)
    assert (nothing.input_tokens, nothing.output_tokens, nothing.total_tokens, nothing.cost_usd) == (None,) * 4
    assert nothing.as_dict() == {"requests": 1, "tool_calls": 0, "uncounted": 1}


def test_a_run_that_was_taken_up_has_the_usage_of_the_whole_run() -> None:
    class Stopped(StopRun):
        """The run stops here."""

    moves: list[Act | Answer] = [Act("", (ToolCall("price", {"item": "tea"}),)), Answer("", "Done.")]
    whole = Bare().run_sync(Query(QUESTION), Toolbox([price]), FakeModel(*moves))
    checkpoint = Checkpoint()
    with pytest.raises(Stopped):
        Resumable(Bare(), checkpoint).run_sync(Query(QUESTION), Toolbox([price]), FakeModel(moves[0], Stopped()))
    again = Resumable(Bare(), checkpoint).run_sync(Query(QUESTION), Toolbox([price]), FakeModel(moves[1]))
    assert (again.usage, again.messages) == (whole.usage, whole.messages)


# --- a function whose reply streams ---


PIECES = ['{"final_', 'answer": ', '"Two."}']


async def in_pieces(request: Request) -> AsyncIterator[str]:
    for piece in PIECES:
        yield piece


async def with_usage(request: Request) -> AsyncIterator[str | Reply]:
    for piece in PIECES:
        yield piece
    yield Reply("".join(PIECES), usage=Usage(7, 3))


async def with_usage_alone(request: Request) -> AsyncIterator[str | Reply]:
    for piece in PIECES:
        yield piece
    yield Reply(usage=Usage(6, 4))


@pytest.mark.parametrize(
    ("function", "pieces", "tokens"),
    [
        (in_pieces, PIECES, None),
        (with_usage, PIECES, 10),
        (with_usage_alone, PIECES, 10),
        (lambda request: "".join(PIECES), ["".join(PIECES)], None),
    ],
)
def test_the_pieces_that_a_function_yields_are_those_that_are_told(
    function: Callable[[Request], Any], pieces: list[str], tokens: int | None
) -> None:
    for streams in (True, False):
        heard = Heard(streams)
        outcome = Bare().run_sync(Query("How many?"), Toolbox(), FunctionModel(function), heard)
        assert outcome.usage is not None
        assert (outcome.answer, outcome.usage.total_tokens) == ("Two.", tokens)
        texts = [event.as_dict()["text"] for event in heard.events if isinstance(event, ReplyChunk)]
        assert texts == (pieces if streams else [])


# --- a tool learns the id of its call, and a key that stays the same when that call is made again ---

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
        self.told.append((item, current_call()))
        if len(self.told) == self.end_at:
            raise Killed
        return PRICES[item]

    def keys(self) -> dict[str, set[str]]:
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


@pytest.mark.parametrize("made", [1, 2])
def test_an_agent_that_is_a_tool_has_the_same_keys_when_its_call_is_made_again(made: int) -> None:
    keys, ends = list[str](), [False, True]

    def pay(cents: int) -> str:
        keys.append(current_call().idempotency_key)
        return "paid"

    async def buy(what: str) -> str:
        for _ in range(made):  # equal runs within one call differ, too
            inner = FakeModel.script([ToolCall("pay", {"cents": 5})], "Bought.")
            await Finish(max_steps=3).run(Query(f"Buy {what}."), Toolbox([pay]), inner)
        if ends.pop():
            raise Killed
        return "bought"

    checkpoint, model = Checkpoint(), FakeModel.script([ToolCall("buy", {"what": "tea"})], "Done.")
    with pytest.raises(Killed):
        Resumable(Bare(), checkpoint).run_sync(Query("Buy."), Toolbox([buy]), model)
    again = Resumable(Bare(), Checkpoint(json.loads(json.dumps(checkpoint.entries))))
    assert again.run_sync(Query("Buy."), Toolbox([buy]), FakeModel.script([], "Done.")).ok
    assert keys[:made] == keys[made:]
    assert len(set(keys)) == made
