"""Limits in virtual time: what is never exceeded, and what is never lost."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whichloop.models.limits import WINDOW_S, Limits
from whichloop.models.metering import Waits

from .virtual_time import EACH, now, virtually


@EACH
@given(
    st.integers(1, 5),
    st.integers(10, 100),
    st.lists(st.tuples(st.floats(0, 200), st.integers(0, 4), st.integers(1, 150), st.integers(0, 150)), min_size=1, max_size=20),
)
@example(2, 100, [(at, 0, 1, 0) for at in (0.0, 50.0, 55.0, 56.0)])
def test_no_span_of_a_minute_has_more_than_the_limits_but_one_larger_request_goes_alone(requests, tokens, arrivals):
    """A request may take less than it was expected to, and then leaves room."""

    async def go() -> list[tuple[float, int]]:
        limits, sent = Limits(100, requests, tokens), list[tuple[float, int]]()

        async def one(at: float, lasts: int, expected: int, less: int) -> None:
            await asyncio.sleep(at)
            permit = await limits.enter(expected)
            used = max(0, expected - less)
            sent.append((now(), used))
            await asyncio.sleep(lasts)
            limits.leave(permit, replied=True, tokens=used)

        await asyncio.gather(*(one(*arrival) for arrival in arrivals))
        assert not limits.under_way
        return sent

    sent = virtually(go())
    assert len(sent) == len(arrivals)
    for start, _ in sent:
        inside = [used for at, used in sent if start <= at < start + WINDOW_S]
        assert len(inside) <= requests
        assert sum(inside) <= tokens or len(inside) == 1


def test_a_minute_waits_no_longer_than_it_must_and_an_estimate_is_corrected_by_what_was_used():
    async def go() -> None:
        limits = Limits(100, tokens_per_minute=3)
        permits = []
        for _ in range(3):
            permits.append(await limits.enter(1))
            await asyncio.sleep(10)
        assert [limits.wait_s(tokens, now()) for tokens in (1, 2, 99)] == [30, 40, 50], "more than the limit: alone"
        limits.leave(permits[0], replied=True, tokens=0)
        assert limits.wait_s(1, now()) == 0
        limits.leave(permits[1], replied=True, tokens=9)
        assert limits.wait_s(1, now()) == 40
        await asyncio.sleep(40)
        assert limits.wait_s(1, now()) == 0, "what is over counts no more"
        limits.leave(permits[0], tokens=1000)
        assert limits.wait_s(1, now()) == 0, "a permit is given back once"

    virtually(go())


def test_a_turn_costs_no_more_after_many_others():
    async def go() -> None:
        limits = Limits(20_000, 100_000, 10_000_000)
        began = time.process_time()
        for _ in range(10_000):
            limits.leave(await limits.enter(10), tokens=20)
        assert time.process_time() - began < 2

    virtually(go())


@given(st.integers(1, 64), st.lists(st.sampled_from(["success", "refused", "late"]), max_size=200))
def test_concurrency_stays_within_its_bounds_and_halves_once_for_a_crowd(most, events):
    async def go() -> None:
        limits = Limits(most)
        late = await limits.enter()
        for event in events:
            before, smallest = limits.allowed, limits.smallest
            permit = late if event == "late" else await limits.enter() if len(limits.under_way) < int(before) else late
            is_of_now = permit.halvings == limits._halvings
            limits.under_way.add(permit)
            limits.leave(permit, replied=event == "success", refused=event != "success")
            if event == "success":
                assert before <= limits.allowed <= before + 1
            else:
                assert limits.allowed == (max(1, before // 2) if is_of_now else before)
            assert 1 <= limits.smallest <= smallest
            assert limits.smallest <= limits.allowed <= most

    virtually(go())


def test_a_round_of_successes_is_one_step_up():
    async def go() -> None:
        limits = Limits(8)
        limits.leave(await limits.enter(), refused=True)
        assert limits.allowed == 4
        for _ in range(5):
            limits.leave(await limits.enter(), replied=True)
        assert 5 <= limits.allowed < 5.2

    virtually(go())


@EACH
@given(
    st.integers(1, 4),
    st.lists(
        st.tuples(st.floats(0, 5), st.floats(0, 5), st.sampled_from(["replied", "refused", ""]), st.none() | st.floats(0, 5)),
        min_size=1,
        max_size=25,
    ),
)
def test_permits_are_never_lost_whoever_is_cancelled_and_go_to_who_came_first(most, visits):
    """The virtual clock fails a loop in which all wait and no timer is set, so that a lost wakeup cannot hide."""
    came, entered = list[int](), list[int]()

    async def one(limits: Limits, number: int, arrives: float, stays: float, ends: str) -> None:
        await asyncio.sleep(arrives)
        came.append(number)
        permit = await limits.enter()
        entered.append(number)
        assert len(limits.under_way) <= limits.allowed
        try:
            await asyncio.sleep(stays)
            limits.leave(permit, **({ends: True} if ends else {}))
        finally:
            limits.leave(permit)

    async def go() -> Limits:
        limits, running = Limits(most), list[asyncio.Task[None]]()
        for number, (arrives, stays, ends, cancelled_at) in enumerate(visits):
            running.append(asyncio.ensure_future(one(limits, number, arrives, stays, ends)))
            if cancelled_at is not None:
                asyncio.get_running_loop().call_later(cancelled_at, running[-1].cancel)
        await asyncio.wait(running)
        assert not [task for task in running if not task.cancelled() and task.exception()]
        limits.allowed = most
        for _ in range(most):  # all of the limit can be had again
            await limits.enter()
        return limits

    assert len(virtually(go()).under_way) == most
    assert entered == [number for number in came if number in entered]


def test_limits_outlive_an_event_loop():
    limits = Limits(1)

    async def enter_and_vanish() -> None:
        await limits.enter()

    for _ in range(3):
        virtually(enter_and_vanish())


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=6))
def test_what_is_lost_at_the_same_time_counts_once(spans) -> None:
    async def one(waits: Waits, starts: int, lasts: int) -> None:
        await asyncio.sleep(starts)
        with waits.counted():
            await asyncio.sleep(lasts)

    async def all_of_them() -> float:
        waits = Waits()
        await asyncio.gather(*(one(waits, *span) for span in spans))
        return waits.seconds

    covered = {second for starts, lasts in spans for second in range(starts, starts + lasts)}
    assert virtually(all_of_them()) == pytest.approx(len(covered))
