"""Calls that run at once: in which order they end, which one was made too early, and what it comes to."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.models.at_once import CallsAtOnce, early_call, with_one_id
from whichloop.models.prompt_view import PromptView
from whichloop.protocol import NativeCall, Plan, PlannedCall, Ref, Reply, ToolCall, run_sync

LAW = settings(max_examples=cases(30), deadline=None)


def ends(held: list[bool], scopes: list[str], *, at_once: bool) -> list[int]:
    """Run calls, some of which are held back; return their places in the order in which they end."""
    calls, ended = CallsAtOnce(), list[int]()

    async def one(place: int) -> None:
        with calls.running(str(place), scopes[place]) as running:
            if held[place]:
                await calls.let_others_pass(running)
            ended.append(place)

    async def all_of_them() -> None:
        if at_once:
            await asyncio.gather(*[one(place) for place in range(len(held))])
        else:
            for place in range(len(held)):
                await one(place)

    run_sync(all_of_them())
    return ended


@LAW
@given(st.lists(st.booleans(), max_size=8))
def test_a_held_call_ends_after_those_beside_it_and_before_those_that_came_first(held):
    free = [place for place, is_held in enumerate(held) if not is_held]
    back = [place for place, is_held in enumerate(held) if is_held]
    scopes = [""] * len(held)
    assert ends(held, scopes, at_once=True) == [*free, *reversed(back)]
    assert ends(held, scopes, at_once=False) == list(range(len(held)))  # nothing runs beside it: it is not held for ever


@LAW
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("ab")), max_size=8))
def test_calls_of_another_scope_hold_nothing_back(drawn):
    held, scopes = [is_held for is_held, _ in drawn], [scope for _, scope in drawn]
    ended = ends(held, scopes, at_once=True)
    assert sorted(ended) == list(range(len(drawn)))
    for scope in "ab":
        of_scope = [is_held for is_held, own in drawn if own == scope]
        places = [place for place, (_, own) in enumerate(drawn) if own == scope]
        alone = ends(of_scope, [scope] * len(of_scope), at_once=True)
        assert [places[index] for index in alone] == [place for place in ended if scopes[place] == scope]


@LAW
@given(st.integers(1, 5), st.booleans())
def test_a_call_overlaps_iff_it_begins_before_all_that_it_needs_is_done(writes, at_once):
    calls = CallsAtOnce()
    names = [f"write {number}" for number in range(writes)]
    calls.expect_apart("read", names)

    async def one(name: str) -> None:
        with calls.running(name, "") as running:
            if name != "read":
                await calls.let_others_pass(running)

    async def all_of_them() -> None:
        if at_once:
            await asyncio.gather(*[one(name) for name in (*names, "read")])
        else:
            for name in (*names, "read"):
                await one(name)
        await one("read")  # again, when nobody expects it any more

    run_sync(all_of_them())
    assert (calls.chances, calls.overlaps) == (1, int(at_once))


def test_a_call_that_is_cancelled_lets_the_others_go_on():
    calls, ended = CallsAtOnce(), list[str]()

    async def one(name: str, *, held: bool) -> None:
        with calls.running(name, "") as running:
            if held:
                await calls.let_others_pass(running)
            else:
                await asyncio.get_running_loop().create_future()
            ended.append(name)

    async def both() -> None:
        stuck = asyncio.create_task(one("stuck", held=False))
        waiting = asyncio.create_task(one("held", held=True))
        await asyncio.sleep(0)
        stuck.cancel()
        await waiting

    run_sync(both())
    assert ended == ["held"]


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


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=5))
def test_one_id_for_all_changes_nothing_else(drawn):
    reply = Reply("t", tuple(NativeCall(identity, name, "{}") for identity, name in drawn))
    made = with_one_id(reply)
    assert {call.id for call in made.calls} == {call.id for call in reply.calls[:1]}
    assert [call.name for call in made.calls] == [call.name for call in reply.calls]
    assert made.text == reply.text
