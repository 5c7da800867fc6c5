"""A real model asked again after failures, in virtual time, and the options that say how."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models import real
from whichloop.models.limits import WithSampling
from whichloop.models.prices import Price
from whichloop.models.real import ABILITIES, RealModel, RealOptions
from whichloop.protocol import Capabilities, Chunk, ContextOverflow, Message, ProviderError, Reply, Request, Sampling, Usage
from whichloop.protocol.model import estimate_input

from .virtual_time import EACH, now, virtually

HELLO = Request((Message("user", "hello"),))


@dataclass
class Flaky:
    """Does one thing after the other, the last one for ever; notes when it was asked."""

    turns: list[Any]
    takes_s: float = 0.0
    breaks_after: int = 0
    """Chunks of a stream before its failure."""
    name: str = "openai/flaky"
    capabilities: Capabilities = Capabilities()  # noqa: RUF009  frozen
    asked: list[tuple[float, Request]] = field(default_factory=list)
    closed: int = 0

    def turn(self, request: Request) -> Any:
        self.asked.append((now(), request))
        return self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]

    async def complete(self, request: Request) -> Reply:
        turn = self.turn(request)
        await asyncio.sleep(self.takes_s)
        if isinstance(turn, Exception):
            raise turn
        return turn if isinstance(turn, Reply) else Reply(str(turn), usage=Usage(100, 50, 40))

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        turn = self.turn(request)
        try:
            for piece in range(self.breaks_after):
                await asyncio.sleep(self.takes_s)
                yield Chunk(f"{piece} ")
            await asyncio.sleep(self.takes_s)
            if isinstance(turn, Exception):
                raise turn
            yield Chunk(reply=Reply(str(turn), usage=Usage(100, 50, 40)))
        finally:
            self.closed += 1

    @property
    def gaps(self) -> list[float]:
        times = [at for at, _ in self.asked]
        return [later - earlier for earlier, later in itertools.pairwise(times)]


def failing(kind: Any, **more: Any) -> ProviderError:
    return ProviderError(kind, kind, **more)


async def read(model: RealModel, request: Request = HELLO) -> Reply:
    """Through a stream."""
    async for chunk in model.stream(request):
        if chunk.reply is not None:
            return chunk.reply
    raise AssertionError("no last chunk")


def complete(model: RealModel, request: Request = HELLO) -> Coroutine[Any, Any, Reply]:
    return model.complete(request)


BOTH = pytest.mark.parametrize("ask", [complete, read], ids=["whole", "streamed"])
Ask = Callable[..., Coroutine[Any, Any, Reply]]
TRANSIENT = ("rate_limit", "server", "overloaded", "timeout", "connection")


@BOTH
@given(st.lists(st.sampled_from(TRANSIENT), max_size=3))
@EACH
def test_failures_that_pass_are_overcome_and_told(ask: Ask, kinds: list[str]) -> None:
    model = Flaky([*map(failing, kinds), "at last"])
    reply = virtually(ask(RealModel(model)))
    assert (reply.text, reply.failed_attempts) == ("at last", tuple(kinds))


@BOTH
@pytest.mark.parametrize("kind", ["auth", "refused", "bad_request"])
def test_failures_that_stay_are_not_tried_again(ask: Ask, kind: str) -> None:
    model = Flaky([failing("server"), failing(kind)])
    with pytest.raises(ProviderError) as caught:
        virtually(ask(RealModel(model)))
    assert (caught.value.kind, caught.value.failed_attempts, len(model.asked)) == (kind, ("server",), 2)


@BOTH
def test_a_request_longer_than_is_allowed_is_an_overflow_and_is_not_sent(ask: Ask) -> None:
    model = Flaky(["ok"])
    allowed = estimate_input(HELLO)
    virtually(ask(RealModel(model, RealOptions(context_tokens=allowed))))
    with pytest.raises(ContextOverflow, match=f"about {allowed} tokens, and {allowed - 1} are allowed"):
        virtually(ask(RealModel(model, RealOptions(context_tokens=allowed - 1))))
    assert len(model.asked) == 1


@BOTH
def test_attempts_are_bounded_and_pauses_grow(ask: Ask) -> None:
    model = Flaky([failing("server")])
    with pytest.raises(ProviderError) as caught:
        virtually(ask(RealModel(model)))
    assert caught.value.failed_attempts == ("server",) * 3
    for number, gap in enumerate(model.gaps):
        pause = real.FIRST_PAUSE_S * 2**number
        assert pause <= gap <= 1.5 * pause


@BOTH
@given(st.floats(0, 20))
@EACH
def test_a_pause_is_as_long_as_the_provider_asks(ask: Ask, asked_s: float) -> None:
    model = Flaky([failing("rate_limit", retry_after_s=asked_s), "ok"])
    virtually(ask(RealModel(model)))
    assert asked_s <= model.gaps[0] <= asked_s + 1


@BOTH
def test_each_attempt_has_its_time_and_all_of_them_have_theirs(ask: Ask) -> None:
    async def go(**options: Any) -> tuple[str, int, float]:
        model = Flaky(["never"], takes_s=1000.0)
        with pytest.raises(ProviderError) as caught:
            await ask(RealModel(model, RealOptions(**options)))
        assert caught.value.kind == "timeout"
        return str(caught.value), len(model.asked), now()

    said, attempts, took_s = virtually(go(call_timeout_s=5.0, patience_s=100.0))
    assert (said, attempts) == ("no reply within 5 s", 4)
    assert 20 <= took_s <= 30
    said, attempts, took_s = virtually(go(call_timeout_s=60.0, patience_s=10.0))
    assert (said, attempts, took_s) == ("no reply within 10 s", 1, 10.0)


def test_a_stream_is_not_begun_again() -> None:
    model = Flaky([failing("connection"), "second"], breaks_after=1)
    with pytest.raises(ProviderError) as caught:
        virtually(read(RealModel(model)))
    assert (caught.value.kind, len(model.asked), model.closed) == ("connection", 1, 1)


def test_a_stream_that_stalls_is_given_up_on() -> None:
    model = Flaky(["never"], takes_s=2.0, breaks_after=10)
    wrapped = RealModel(model, RealOptions(call_timeout_s=5.0, most_in_flight=1))
    with pytest.raises(ProviderError, match="did not end in time"):
        virtually(read(wrapped))
    assert model.closed == 1


@BOTH
def test_a_cancelled_call_gives_its_permit_back(ask: Ask) -> None:
    async def go() -> None:
        wrapped = RealModel(Flaky(["ok"], takes_s=10.0), RealOptions(most_in_flight=1))
        running = asyncio.ensure_future(ask(wrapped))
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.wait({running})
        assert (await ask(wrapped)).text == "ok"

    virtually(go())


def test_a_stream_that_nobody_reads_to_its_end_gives_its_permit_back() -> None:
    async def go() -> Flaky:
        model = Flaky(["ok"], breaks_after=3)
        wrapped = RealModel(model, RealOptions(most_in_flight=1))
        stream = wrapped.stream(HELLO)
        await anext(stream)
        await stream.aclose()
        assert (await read(wrapped)).text == "ok"
        return model

    assert virtually(go()).closed == 2


@BOTH
@pytest.mark.parametrize("kind", ["rate_limit", "overloaded"])
def test_refusals_bring_the_concurrency_down_and_it_recovers(ask: Ask, kind: str) -> None:
    refusals: list[Any] = [failing(kind) for _ in range(8)]

    async def go() -> RealModel:
        model = RealModel(Flaky([*refusals, "ok"], takes_s=1.0), RealOptions(most_in_flight=8))
        await asyncio.gather(*(ask(model) for _ in range(40)))
        return model

    limits = virtually(go()).limits
    assert limits._halvings == 1, "eight refusals of one crowd count once"
    assert limits.allowed > 4


def test_waiting_for_a_turn_uses_up_no_patience() -> None:
    async def go() -> list[Reply]:
        model = RealModel(Flaky(["ok"], takes_s=5.0), RealOptions(most_in_flight=1, patience_s=6.0))
        return await asyncio.gather(*(model.complete(HELLO) for _ in range(10)))

    assert len(virtually(go())) == 10


def test_what_a_request_leaves_open_is_filled() -> None:
    model = Flaky(["ok"])
    wrapped = WithSampling(model, Sampling(temperature=0.5, max_tokens=9, stop=("x",)))
    virtually(wrapped.complete(Request(HELLO.messages, sampling=Sampling(temperature=0.0, seed=3))))
    assert model.asked[0][1].sampling == Sampling(0.0, 9, None, 3, ("x",))


@BOTH
def test_a_given_price_wins(ask: Ask) -> None:
    usage = virtually(ask(RealModel(Flaky(["ok"]), RealOptions(prices={"openai/flaky": Price(1, 2, 0.5)})))).usage
    assert usage is not None
    assert usage.cost_usd == pytest.approx((60 + 40 * 0.5 + 50 * 2) / 1e6)
    assert usage.nominal_usd == pytest.approx((100 + 50 * 2) / 1e6)


@given(st.sets(st.sampled_from(sorted(ABILITIES))), st.none() | st.integers(1, 9999))
def test_what_is_taken_away_is_gone(without, context_tokens):
    known = Capabilities(response_schema=True, context_tokens=10_000)
    model = RealModel(Flaky(["ok"], capabilities=known), RealOptions(without=frozenset(without), context_tokens=context_tokens))
    for found in (model.capabilities, model.with_capabilities(known).capabilities):
        assert not any(getattr(found, name) for name in without)
        lost = without
        assert all(getattr(found, name) for name in ABILITIES - lost)
        assert found.context_tokens == (context_tokens or 10_000)
