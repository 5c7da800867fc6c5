"""Concurrent requests of a trial in virtual time: answered one at a time, by scope, whatever comes in between."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.at_once import TURNS_OF_REQUESTS, InOrder
from whichloop.models.fake import FakeModel
from whichloop.protocol import Message, ProviderError, Reply, Request


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


def test_what_a_design_does_between_two_chunks_holds_up_no_other_scope() -> None:
    async def nested() -> list[str]:
        model = InOrder(Wire(1))
        heard = []
        async for chunk in model.stream(ask("a")):
            heard += [chunk.text, (await model.complete(ask("a.b"))).text]
        return heard

    async def left_open() -> str:
        model = InOrder(Wire(1))
        first = model.stream(ask("a"))
        assert (await anext(first)).text == "a"
        return (await model.complete(ask("b"))).text

    assert asyncio.run(asyncio.wait_for(nested(), 5)) == ["a", "a.b", "", "a.b"]  # the last chunk holds the reply
    assert asyncio.run(asyncio.wait_for(left_open(), 5)) == "b"


@given(SCOPES, st.integers(0, 99))
def test_streams_that_are_read_at_once_come_one_after_the_other(scopes, seed) -> None:
    heard: list[str] = []

    async def one(model: InOrder, scope: str) -> None:
        async for chunk in model.stream(ask(scope)):
            heard.append(scope if chunk.reply is None else f"{scope}.")

    async def all_of_them() -> None:
        model = InOrder(Wire(seed))
        await asyncio.gather(*(one(model, scope) for scope in scopes))

    asyncio.run(all_of_them())
    assert heard == [said for scope in sorted(scopes) for said in (scope, f"{scope}.")]


def test_requests_without_a_scope_pass_at_once() -> None:
    async def one() -> Reply:
        asking = asyncio.create_task(InOrder(Wire(0)).complete(ask("")))
        for _ in range(8):
            await asyncio.sleep(0)
        assert asking.done()
        return asking.result()

    assert asyncio.run(one()) == Reply("")
