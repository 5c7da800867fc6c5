"""Limits in virtual time: what is never exceeded, and what is never lost."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.limits import WINDOW_S, Concurrency, Limits, Window
from whichloop.models.metering import Waits

from .virtual_time import EACH, now, virtually

# --- windows ---


def most_in_any_window(spent: list[tuple[float, int]]) -> int:
    return max(sum(amount for at, amount in spent if start <= at < start + WINDOW_S) for start, _ in spent)


@EACH
@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.floats(0, 200), st.integers(0, 4)), min_size=1, max_size=20),
)
def test_no_span_of_a_minute_has_more_requests_than_the_limit(limit, arrivals):
    async def go() -> list[tuple[float, int]]:
        limits, sent = Limits(100, requests_per_minute=limit), list[tuple[float, int]]()

        async def one(at: float, takes: int) -> None:
            await asyncio.sleep(at)
            permit = await limits.enter()
            sent.append((now(), 1))
            await asyncio.sleep(takes)
            permit.succeeded()

        await asyncio.gather(*(one(*arrival) for arrival in arrivals))
        assert limits.in_flight == 0
        return sent

    sent = virtually(go())
    assert len(sent) == len(arrivals)
    assert most_in_any_window(sent) <= limit


@EACH
@given(st.integers(10, 100), st.lists(st.tuples(st.floats(0, 100), st.integers(1, 150)), min_size=1, max_size=20))
def test_no_span_of_a_minute_has_more_tokens_than_the_limit_but_one_larger_request_goes_alone(limit, arrivals):
    async def go() -> list[tuple[float, int]]:
        limits, sent = Limits(100, tokens_per_minute=limit), list[tuple[float, int]]()

        async def one(at: float, tokens: int) -> None:
            await asyncio.sleep(at)
            permit = await limits.enter(tokens)
            sent.append((now(), tokens))
            permit.succeeded(tokens)

        await asyncio.gather(*(one(*arrival) for arrival in arrivals))
        return sent

    sent = virtually(go())
    assert len(sent) == len(arrivals)
    for start, _ in sent:
        inside = [tokens for at, tokens in sent if start <= at < start + WINDOW_S]
        assert sum(inside) <= limit or len(inside) == 1


def test_a_window_waits_no_longer_than_it_must():
    window = Window(3)
    for at in (0.0, 10.0, 20.0):
        assert window.wait_s(1, at) == 0
        window.spend(1, at)
    assert window.wait_s(1, 25.0) == 35.0
    assert window.wait_s(2, 25.0) == 45.0
    assert window.wait_s(99, 25.0) == 55.0, "more than the limit: alone"
    assert window.wait_s(1, 60.0) == 0


def test_an_estimate_is_corrected_by_what_was_used():
    window = Window(100)
    spent = window.spend(90, 0.0)
    assert window.wait_s(50, 1.0) == 59.0
    window.correct(spent, 40)
    assert window.wait_s(50, 1.0) == 0
    window.correct(spent, 100)
    assert window.wait_s(1, 1.0) == 59.0
    assert window.wait_s(1, 60.0) == 0
    window.correct(spent, 1000)
    assert window.wait_s(100, 60.0) == 0, "what is over counts no more"


# --- concurrency ---


@given(st.integers(1, 64), st.lists(st.sampled_from(["success", "refused", "late"]), max_size=200))
def test_concurrency_stays_within_its_bounds_and_halves_once_per_round_trip(most, events):
    concurrency = Concurrency(most)
    for event in events:
        before, trip = concurrency.limit, concurrency.round_trip
        if event == "success":
            concurrency.succeeded()
            assert before <= concurrency.limit <= before + 1
        elif event == "refused":
            concurrency.refused(trip)
            assert concurrency.limit == max(1, before // 2)
        else:
            concurrency.refused(trip - 1)
            assert concurrency.limit == before
        assert 1 <= concurrency.smallest <= concurrency.limit <= most


def test_a_round_of_successes_is_one_step_up():
    concurrency = Concurrency(8)
    concurrency.refused(0)
    assert concurrency.limit == 4
    for _ in range(3):
        concurrency.succeeded()
    assert concurrency.limit == 4
    concurrency.succeeded()
    assert concurrency.limit == 5


@EACH
@given(
    st.integers(1, 4),
    st.lists(
        st.tuples(st.floats(0, 5), st.floats(0, 5), st.sampled_from(["ok", "refused", "failed"]), st.none() | st.floats(0, 5)),
        min_size=1,
        max_size=25,
    ),
)
def test_permits_are_never_lost_whoever_is_cancelled(most, visits):
    """The virtual clock fails a loop in which all wait and no timer is set, so that a lost wakeup cannot hide."""
    seen = 0

    async def one(limits: Limits, arrives: float, stays: float, ends: str) -> None:
        nonlocal seen
        await asyncio.sleep(arrives)
        permit = await limits.enter()
        assert limits.in_flight <= limits.concurrency.limit
        seen = max(seen, limits.in_flight)
        try:
            await asyncio.sleep(stays)
            {"ok": permit.succeeded, "refused": permit.refused, "failed": permit.failed}[ends]()
        finally:
            permit.failed()

    async def go() -> Limits:
        limits, running = Limits(most), list[asyncio.Task[None]]()
        for arrives, stays, ends, cancelled_at in visits:
            running.append(asyncio.ensure_future(one(limits, arrives, stays, ends)))
            if cancelled_at is not None:
                asyncio.get_running_loop().call_later(cancelled_at, running[-1].cancel)
        await asyncio.wait(running)
        assert not [task for task in running if not task.cancelled() and task.exception()]
        for _ in range(most):  # all of the limit can be had again
            limits.concurrency.limit = most
            await limits.enter()
        return limits

    limits = virtually(go())
    assert seen <= most
    assert limits.in_flight == most


def test_requests_are_let_through_in_the_order_in_which_they_came():
    order: list[int] = []

    async def one(limits: Limits, number: int) -> None:
        permit = await limits.enter()
        order.append(number)
        await asyncio.sleep(1)
        permit.succeeded()

    async def go() -> Limits:
        limits = Limits(2)
        await asyncio.gather(*(one(limits, number) for number in range(9)))
        return limits

    limits = virtually(go())
    assert order == list(range(9))
    assert limits.pressure.waited_s == pytest.approx(2 * (1 + 2 + 3) + 4)


def test_limits_outlive_an_event_loop():
    limits = Limits(1)

    async def enter_and_vanish() -> None:
        await limits.enter()

    for _ in range(3):
        virtually(enter_and_vanish())


# --- what a trial loses by them ---


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
