"""Limits in virtual time: what is never exceeded, and what is never lost."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whichloop.datasets import arithmetic
from whichloop.datasets.task import Task
from whichloop.models.fake import FakeItem, FakeModel
from whichloop.models.limits import WINDOW_S, Limits
from whichloop.models.metering import Waits
from whichloop.models.prices import Price, read_prices
from whichloop.models.profiles import load_profile
from whichloop.models.real import RealModel, RealOptions
from whichloop.models.recording import Recordings
from whichloop.protocol import Answer, Capabilities, Model, ProviderError, Reply, Request, Usage
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import MAX_LOST, TrialContext, run_trial
from whichloop.runs.trial_models import TrialModels

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


@given(st.integers(1, 64), st.lists(st.sampled_from(["success", "refused", "late"]), max_size=200))
def test_concurrency_stays_within_its_bounds_and_halves_once_for_a_crowd(most, events):
    async def go() -> None:
        limits = Limits(most)
        late = await limits.enter()
        for event in events:
            before = limits.allowed
            permit = late if event == "late" else await limits.enter() if len(limits.under_way) < int(before) else late
            is_of_now = permit.halvings == limits._halvings
            limits.under_way.add(permit)
            limits.leave(permit, replied=event == "success", refused=event != "success")
            if event == "success":
                assert before <= limits.allowed <= before + 1
            else:
                assert limits.allowed == (max(1, before // 2) if is_of_now else before)
            assert 1 <= limits.allowed <= most

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


PAUSE_S = 0.05
SUITE = arithmetic.load(size=2)


def fake(answer: FakeItem) -> FakeModel:
    return FakeModel(then=answer, name="openai/busy", capabilities=Capabilities(streaming=False))


def busy(refusals: int = 0) -> FakeModel:
    """A model that refuses each request this many times, asking for a pause, and then answers."""
    count = itertools.count(1)

    def answer(request: Request) -> Answer | ProviderError:
        if next(count) % (refusals + 1):
            return ProviderError("429", "rate_limit", status=429, retry_after_s=PAUSE_S)
        return Answer("", "42")

    return fake(answer)


def trial(loop: Any, task: Task, model: Model, timeout_s: float, recordings: Recordings | None = None) -> Any:
    spec = parse_spec(loop)
    arm = Arm("bare", spec, make_loop(spec, 3), "openai/busy", load_profile("clean"))
    setting = TrialContext(SUITE, TrialModels({"openai/busy": model}, recordings), timeout_s)
    return run_trial(Trial(arm, task, 0, 0), setting)


def ran(model: Model, timeout_s: float, recordings: Recordings | None = None, loop: str = "bare") -> Any:
    return asyncio.run(trial(loop, SUITE.tasks[0], model, timeout_s, recordings)).record


def test_a_trial_is_not_timed_out_by_refusals_that_passed() -> None:
    record = ran(RealModel(busy(3), RealOptions(attempts=5)), timeout_s=2 * PAUSE_S)
    assert (record.status, record.stop) == ("scored", "finished")
    assert record.wall_s >= 3 * PAUSE_S
    assert record.seconds <= record.wall_s - 3 * PAUSE_S


def test_a_trial_is_not_timed_out_while_it_waits_for_its_turn() -> None:
    async def slowly(request: Request) -> Answer:
        await asyncio.sleep(1.5 * PAUSE_S)
        return Answer("", "42")

    async def both() -> list[Any]:
        model = RealModel(fake(slowly), RealOptions(most_in_flight=1))
        return await asyncio.gather(*(trial("bare", task, model, 2 * PAUSE_S) for task in SUITE.tasks))

    assert [(done.record.status, done.record.stop) for done in asyncio.run(both())] == [("scored", "finished")] * 2


def test_silence_and_waiting_without_end_end_a_trial_as_errored() -> None:
    async def silence(request: Request) -> Answer:
        await asyncio.sleep(60)
        raise AssertionError("the trial has ended before")

    silent, waits = ran(RealModel(fake(silence)), 2 * PAUSE_S), ran(RealModel(busy(100), RealOptions(attempts=100)), 0.01)
    assert [(record.status, record.stop) for record in (silent, waits)] == [("errored", "timeout")] * 2
    assert silent.wall_s < 30
    assert waits.wall_s >= MAX_LOST * 0.01


def test_a_trial_that_met_a_providers_failure_is_never_scored_0() -> None:
    count = itertools.count(1)

    def answer(request: Request) -> Reply | ProviderError:
        """Fail every other request for good, and never answer the question."""
        return ProviderError("500", "server", status=500) if next(count) % 2 else Reply("what?")

    loop = "bare(on_provider_error=observe, max_consecutive_errors=none)"
    record = ran(RealModel(fake(answer), RealOptions(attempts=1)), 5, loop=loop)
    assert (record.status, record.stop) == ("errored", "max_steps")
    assert record.reason.startswith("provider: ")


DOLLARS = st.floats(0, 1000)
ANY_PRICES = st.builds(
    lambda low, high, output, has: Price(max(low, high), output, min(low, high) if has else None),
    DOLLARS,
    DOLLARS,
    DOLLARS,
    st.booleans(),
)
USAGES = st.builds(lambda fresh, cached, output: Usage(fresh + cached, output, cached), *[st.integers(0, 10**7) for _ in range(3)])


@given(ANY_PRICES, USAGES, USAGES)
def test_the_cost_of_two_replies_is_that_of_their_tokens_and_a_cache_makes_nothing_dearer(price, one, other):
    apart, together = price.on(one) + price.on(other), price.on(one + other)
    assert apart.cost_usd == pytest.approx(together.cost_usd, rel=1e-6, abs=1e-9)
    assert apart.nominal_usd == pytest.approx(together.nominal_usd, rel=1e-6, abs=1e-9)
    assert together.nominal_usd >= together.cost_usd >= 0
    fresh = price.on(Usage(one.input_tokens, one.output_tokens))
    assert fresh.cost_usd == fresh.nominal_usd


def test_a_million_tokens_cost_the_price():
    priced = Price(0.15, 0.6, 0.075).on(Usage(1_000_000, 1_000_000, 500_000))
    assert priced.nominal_usd == pytest.approx(0.75)
    assert priced.cost_usd == pytest.approx(0.7125)
    assert Price(0.15, 0.6).on(Usage(1_000_000, 0, 500_000)).cost_usd == pytest.approx(0.15)


def test_a_table_is_read(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(
        '["openai/gpt-4o-mini"]\ninput = 0.15\noutput = 0.6\ncached_input = 0.075\n["ollama_chat/llama3"]\ninput = 0\noutput = 0\n'
    )
    assert read_prices(path) == {"openai/gpt-4o-mini": Price(0.15, 0.6, 0.075), "ollama_chat/llama3": Price(0, 0)}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        *((f'["m"]\ninput = {value}\noutput = 1', "'m': input must be a number") for value in ("inf", "-1", "true")),
        ('["m"]\ninput = 1\noutput = 1\ncached_input = 2', "'m': cached_input must not exceed input"),
        ('["m"]\ninput = 1\noutput = 1\ncached_imput = 2', "'m': write "),
        ('["m"]\ninput = 1', "'m': write "),
        ("[m", ""),
        (None, "No such file"),
    ],
)
def test_a_bad_table_is_one_line_that_names_the_file_and_the_model(tmp_path, text, named):
    path = tmp_path / "prices.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=f"^prices .*prices.toml: .*{named}") as caught:
        read_prices(path)
    assert "\n" not in str(caught.value)


def test_a_round_of_successes_is_one_step_up():
    async def go() -> None:
        limits = Limits(8)
        limits.leave(await limits.enter(), refused=True)
        assert limits.allowed == 4
        for _ in range(5):
            limits.leave(await limits.enter(), replied=True)
        assert 5 <= limits.allowed < 5.2

    virtually(go())


def test_what_is_lost_at_the_same_moment_counts_once() -> None:
    async def lost() -> float:
        waits = Waits()
        waits.lost(5)
        waits.lost(7)
        with waits.counted():
            waits.lost(6)
        return waits.seconds

    assert 7 <= asyncio.run(lost()) < 8
