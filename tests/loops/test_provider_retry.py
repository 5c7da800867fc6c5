"""A loop whose provider's failures are tried again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loops.helpers import Notes
from whichloop.loops.bare import Bare
from whichloop.loops.provider_retry import MAX_DELAY_S, ProviderRetry, RetryingModel, _warn_of_both
from whichloop.models.local.model import open_model
from whichloop.models.metering import Meter, MeteredModel
from whichloop.models.real import RealOptions
from whichloop.protocol import (
    SILENT,
    Chunk,
    ContextOverflow,
    ModelError,
    ProviderError,
    Query,
    Reply,
    Request,
    Toolbox,
    WrappedModel,
    run_sync,
)

PASSING = ("rate_limit", "server", "overloaded", "timeout", "connection")
LASTING = ("auth", "bad_request", "refused", "setup")
ANSWER = '{"thought": "", "final_answer": "4"}'


class Failing:
    """A model that fails with these errors, one a request, and then answers."""

    def __init__(self, errors: Sequence[ModelError]) -> None:
        self.errors = list(errors)
        self.requests = 0
        self.name = "failing"
        self.capabilities: Any = None

    async def complete(self, request: Request) -> Reply:
        self.requests += 1
        if self.errors:
            raise self.errors.pop(0)
        return Reply(ANSWER)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        reply = await self.complete(request)
        yield Chunk(text=reply.text[:5])
        yield Chunk(text=reply.text[5:], reply=reply)


def asked(model: Any, attempts: int) -> Any:
    return run_sync(RetryingModel(model, attempts, 0, SILENT).complete(Request(())))


@given(st.integers(1, 6), st.lists(st.sampled_from(PASSING), max_size=8))
def test_as_many_attempts_are_made_as_are_allowed_and_needed(attempts: int, failures: list[Any]) -> None:
    model = Failing([ProviderError("no", kind) for kind in failures])
    if len(failures) < attempts:
        assert asked(model, attempts).text == ANSWER
    else:
        with pytest.raises(ProviderError) as raised:
            asked(model, attempts)
        assert raised.value.kind == failures[attempts - 1]
    assert model.requests == min(attempts, len(failures) + 1)


@pytest.mark.parametrize("error", [*(ProviderError("no", kind) for kind in LASTING), ContextOverflow("too long")])  # type: ignore[arg-type]
def test_what_no_other_attempt_mends_is_raised_at_once(error: ModelError) -> None:
    model = Failing([error])
    with pytest.raises(type(error)) as raised:
        asked(model, 5)
    assert raised.value is error
    assert model.requests == 1


def test_a_stream_is_tried_again_only_before_it_begins() -> None:
    async def text_of(model: Any) -> str:
        return "".join([chunk.text async for chunk in RetryingModel(model, 3, 0, SILENT).stream(Request(()))])

    assert run_sync(text_of(Failing([ProviderError("no", "server")] * 2))) == ANSWER

    class Breaking(Failing):
        async def stream(self, request: Request) -> AsyncIterator[Chunk]:
            self.requests += 1
            yield Chunk(text="4")
            raise ProviderError("no", "connection")

    broken = Breaking([])
    with pytest.raises(ProviderError):
        run_sync(text_of(broken))
    assert broken.requests == 1


WISHES = st.lists(st.none() | st.floats(0, 2 * MAX_DELAY_S), max_size=9)


@given(WISHES, st.floats(0, MAX_DELAY_S), st.booleans())
def test_law_waits_double_and_the_providers_wish_comes_first_up_to_the_cap(
    wishes: list[float | None], delay_s: float, is_streamed: bool
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def ask(model: RetryingModel) -> None:
        if is_streamed:
            assert [chunk async for chunk in model.stream(Request(()))]
        else:
            assert await model.complete(Request(()))

    notes = Notes()
    errors = [ProviderError("no", "rate_limit", retry_after_s=wish) for wish in wishes]
    model = Failing(errors)
    asking = RetryingModel(model, len(wishes) + 1, delay_s, notes)
    too_long = next((place for place, wish in enumerate(wishes) if wish is not None and wish > MAX_DELAY_S), None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whichloop.loops.provider_retry.asyncio.sleep", sleep)
        if too_long is None:
            run_sync(ask(asking))
        else:
            with pytest.raises(ProviderError) as raised:
                run_sync(ask(asking))
            assert raised.value is errors[too_long]
    tried = wishes[:too_long]
    assert waited == [min(delay_s * 2**place, MAX_DELAY_S) if wish is None else wish for place, wish in enumerate(tried)]
    assert [data["delay_s"] for _, data in notes.notes] == waited
    assert model.requests == len(tried) + 1


def test_the_loop_within_does_not_see_what_passes_and_the_trace_does() -> None:
    notes = Notes()
    model: Any = Failing([ProviderError("for a moment", "server")])
    outcome = run_sync(ProviderRetry(Bare()).run(Query("2 + 2?"), Toolbox(), model, notes))
    assert (outcome.answer, outcome.stop.value) == ("4", "finished")
    assert [kind for kind, _ in notes.notes] == ["provider_retry"]


class Insisting(WrappedModel):
    """A model that sends a request more than once by itself."""

    own_attempts = 4


def test_two_that_retry_are_told_of_once_and_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    def run(model: Any, attempts: int) -> list[str]:
        caplog.clear()
        ProviderRetry(Bare(), attempts=attempts).run_sync(Query("q"), Toolbox([]), MeteredModel(model, Meter()))
        return [record.getMessage() for record in caplog.records]

    _warn_of_both.cache_clear()
    (told,) = run(Insisting(Failing([])), 3)
    assert told.startswith(
        "the model sends a request up to 4 times by itself, and provider_retry repeats that: up to 12 times in all"
    )
    assert run(Insisting(Failing([])), 3) == run(Insisting(Failing([])), 1) == run(Failing([]), 3) == []
    assert open_model("openai/x", "http://localhost:1", RealOptions(attempts=2)).own_attempts == 2
