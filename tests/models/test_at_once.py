"""Calls and requests at once: in which order calls end, which was made too early, and in which order requests are answered."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.models.fake import FakeModel
from whichloop.models.receipts import PromptView
from whichloop.models.tunnel import TURNS_OF_REQUESTS, CallsAtOnce, InOrder, early_call
from whichloop.protocol import Message, Plan, PlannedCall, ProviderError, Ref, Reply, Request, ToolCall, run_sync

LAW = settings(max_examples=cases(30), deadline=None)


def ran(
    names: Sequence[str], scopes: Sequence[str], held: Collection[str], calls: CallsAtOnce, *, at_once: bool = True
) -> list[str]:
    """Run calls, some of which are held back; return their names in the order in which they end."""
    ended = list[str]()

    async def one(name: str, scope: str) -> None:
        with calls.running(name, scope) as running:
            if name in held:
                await calls.let_others_pass(running)
            ended.append(name)

    async def all_of_them() -> None:
        made = [one(name, scope) for name, scope in zip(names, scopes, strict=True)]
        if at_once:
            await asyncio.gather(*made)
        else:
            for each in made:
                await each

    run_sync(all_of_them())
    return ended


@LAW
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("ab")), max_size=8))
def test_a_held_call_ends_after_those_beside_it_in_its_scope_and_before_those_that_came_first(drawn):
    names, scopes = [f"{place}" for place in range(len(drawn))], [scope for _, scope in drawn]
    held = {name for name, (is_held, _) in zip(names, drawn, strict=True) if is_held}
    ended = ran(names, scopes, held, CallsAtOnce())
    assert sorted(ended) == names
    for scope in "ab":
        own = [name for name, its in zip(names, scopes, strict=True) if its == scope]
        free, back = [name for name in own if name not in held], [name for name in own if name in held]
        assert [name for name in ended if name in own] == [*free, *reversed(back)]
    assert ran(names, scopes, held, CallsAtOnce(), at_once=False) == names  # nothing runs beside it: it is not held for ever


@LAW
@given(st.integers(1, 5), st.booleans())
def test_a_call_overlaps_iff_it_begins_before_all_that_it_needs_is_done(writes, at_once):
    calls, names = CallsAtOnce(), [f"write {number}" for number in range(writes)]
    calls.awaited["read"] = set(names)
    ran([*names, "read"], [""] * (writes + 1), names, calls, at_once=at_once)
    ran(["read"], [""], (), calls)  # again, when nobody expects it any more
    assert (calls.chances, calls.overlaps) == (1, int(at_once))


A, B = PlannedCall("a", "put", {"n": 1}, "Put one."), PlannedCall("b", "put", {"n": 2}, "Put two.")
COUNT = PlannedCall("count", "count", {}, "Count.", after=("a", "b"))
TAKE = PlannedCall("take", "take", {"n": Ref("a")}, "Take.", after=("b",))


def test_what_is_made_too_early_waits_for_effects_alone():
    view = PromptView(Plan((A, B, TAKE, COUNT), Ref("count")), "", ())
    assert early_call(view, ("a",)) is None  # the count needs the other one as well
    early = early_call(view, ("a", "b"))
    assert early == (ToolCall("count", {}), ("a", "b"))  # to take needs the result of what is made now
    assert early_call(view, ("a", "b", "count")) is None
    assert early_call(view, ()) is None


class Wire(FakeModel):
    """Answers after a random number of turns, and counts the requests in flight; fails if the scope is in `failing`."""

    def __init__(self, seed: int, failing: frozenset[str] = frozenset()) -> None:
        super().__init__(then=self._answer)
        self.random = random.Random(seed)
        self.failing = failing
        self.in_flight = self.max_in_flight = 0

    @property
    def scopes(self) -> list[str]:
        return [request.scope for request in self.requests]

    async def _answer(self, request: Request) -> Reply:
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)
            if request.scope in self.failing:
                raise ProviderError("500", "server")
            return Reply(request.scope)
        finally:
            self.in_flight -= 1


def ask(scope: str) -> Request:
    return Request((Message("user", "?"),), scope=scope)


SCOPES = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=6, unique=True)


@given(SCOPES, st.integers(0, 99), st.data())
def test_what_is_asked_together_is_answered_by_scope_and_one_at_a_time(scopes, seed, data) -> None:
    late = {scope: data.draw(st.integers(0, TURNS_OF_REQUESTS // 3)) for scope in scopes}

    async def one(model: InOrder, scope: str) -> str:
        for _ in range(late[scope]):  # as a task within a task, or a turnstile, makes it
            await asyncio.sleep(0)
        return (await model.complete(ask(scope))).text

    async def all_of_them() -> list[str]:
        model = InOrder(wire)
        return await asyncio.gather(*(one(model, scope) for scope in scopes))

    wire = Wire(seed)
    assert asyncio.run(all_of_them()) == scopes
    assert wire.scopes == sorted(scopes)
    assert wire.max_in_flight == 1


@given(SCOPES, st.integers(0, 99), st.data())
def test_concurrent_work_that_ends_at_the_first_failure_sends_the_same_requests_on_any_wire(scopes, seed, data) -> None:
    failing = frozenset([data.draw(st.sampled_from(scopes))])

    async def at_once(wire: Wire) -> None:
        model = InOrder(wire)
        async with asyncio.TaskGroup() as group:
            for scope in scopes:
                group.create_task(model.complete(ask(scope)))

    sent = []
    for number in (seed, seed + 1):
        wire = Wire(number, failing)
        with pytest.raises(BaseExceptionGroup):
            asyncio.run(at_once(wire))
        sent.append(wire.scopes)
    expected = sorted(scopes)
    assert sent == [expected[: expected.index(*failing) + 1]] * 2


@given(st.sets(st.integers(0, 5), max_size=5), st.integers(0, 60))
def test_a_request_that_is_cancelled_holds_up_no_other(given_up, turns) -> None:
    async def some_give_up() -> list[object]:
        model = InOrder(wire)
        tasks = [asyncio.create_task(model.complete(ask(str(number)))) for number in range(6)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for number in given_up:
            tasks[number].cancel()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)

    wire = Wire(1)
    for number, ended in enumerate(asyncio.run(some_give_up())):
        assert ended == Reply(str(number)) or (number in given_up and isinstance(ended, asyncio.CancelledError))
    assert wire.in_flight == 0


def test_what_a_design_does_between_two_chunks_holds_up_no_other_scope_and_none_waits_for_nothing() -> None:
    async def nested() -> list[str]:
        model = InOrder(Wire(1))
        heard = []
        async for chunk in model.stream(ask("a")):
            heard += [chunk.text, (await model.complete(ask("a.b"))).text]
        return heard

    async def without_scope() -> bool:
        asking = asyncio.create_task(InOrder(Wire(0)).complete(ask("")))
        for _ in range(8):
            await asyncio.sleep(0)
        return asking.done() and asking.result() == Reply("")

    assert asyncio.run(without_scope())
    assert asyncio.run(asyncio.wait_for(nested(), 5)) == ["a", "a.b", "", "a.b"]  # the last chunk holds the reply
