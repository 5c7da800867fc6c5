"""The scripted model over HTTP: what comes out of the client is what went into the server, fault by fault."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from tests.over_http import OverHttp, Switchboard, open_switchboard
from whichloop.dspy_seam import close_local_clients
from whichloop.loops.bare_codecs import CODEC
from whichloop.models.metering import MeteredModel
from whichloop.models.outages import PROVIDER_FAULTS
from whichloop.models.profiles import Profile
from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import (
    Capabilities,
    Message,
    Model,
    ModelError,
    NativeCall,
    ProviderError,
    Reply,
    Request,
    run_sync,
)

from . import bench

Value = TypeVar("Value")


def connected(work: Callable[[Switchboard], Awaitable[Value]]) -> Value:
    async def whole() -> Value:
        async with open_switchboard() as switchboard:
            return await work(switchboard)

    return asyncio.run(whole())


def with_model(trial: Any, use: Callable[[OverHttp], Awaitable[Value]]) -> Value:
    """What `use` makes of a trial's model while it is put through."""

    async def used(switchboard: Switchboard) -> Value:
        with switchboard.put_through(trial.scripted) as model:
            return await use(model)

    return connected(used)


class Streamed:
    """A model whose replies are read as streams."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.name = model.name
        self.capabilities: Capabilities = model.capabilities

    async def complete(self, request: Request) -> Reply:
        chunks = [chunk async for chunk in self.model.stream(request)]
        reply = chunks[-1].reply
        assert reply is not None
        assert "".join(chunk.text for chunk in chunks) == reply.text
        return reply

    def stream(self, request: Request) -> Any:
        return self.model.stream(request)


def struck(kind: str, **clears: float) -> Profile:
    """Every point is struck by one kind of fault."""
    never = {"never": 1.0} | clears
    return Profile.model_validate({"name": "struck", "rates": {kind: 1.0}, "clears": never})


# --- one reply ---


CHOICES = {
    "type": "object",
    "properties": {"done": {"type": "boolean"}, "kind": {"enum": ["a", "b"]}},
    "required": ["done", "kind"],
    "additionalProperties": False,
}
"""lm15 reads the JSON of a reply to such a schema, and keeps no text of it."""


@pytest.mark.parametrize("schema", [None, CHOICES], ids=["free", "schema"])
@pytest.mark.parametrize("codec", [None, CODEC], ids=["native", "by name"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_reply_is_that_of_the_model_in_process(codec, streamed, schema):
    request = bench.Bench(bench.chain(2)).request("It begins.", codec=codec, response_schema=schema)
    inside = run_sync(bench.Bench(bench.chain(2)).scripted.complete(request))
    outside = with_model(bench.Bench(bench.chain(2)), lambda model: (Streamed(model) if streamed else model).complete(request))
    assert outside.text == inside.text
    assert outside.finish_reason == inside.finish_reason
    assert outside.usage == inside.usage
    assert (codec or NATIVE).parse(outside) == (codec or NATIVE).parse(inside)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", [*PROVIDER_FAULTS, "refused", "overflow"])
def test_a_failure_is_told_in_the_words_that_it_has_in_process(kind, streamed):
    """A loop may show them to the model: the client's would tell ids and numbers of bytes, and no two runs would be equal."""
    abilities = {"context_tokens": 20} if kind == "overflow" else {"tool_choice": False}
    profile = struck(kind) if kind in PROVIDER_FAULTS else Profile.model_validate({"name": "small", "abilities": abilities})

    async def words(model: Model) -> str:
        with pytest.raises(ModelError) as caught:
            await (Streamed(model) if streamed else model).complete(request)
        return f"{type(caught.value).__name__}: {caught.value}"

    request = bench.Bench(bench.chain(1)).request(tool_choice="add" if kind == "refused" else None)
    inside = run_sync(words(bench.Bench(bench.chain(1), profile).scripted))
    assert with_model(bench.Bench(bench.chain(1), profile), words) == inside


def test_a_failure_that_is_none_of_the_models_is_never_marked_as_injected():
    """Each follows an injected failure of the same scope: what that did must not be taken for the effect of this."""
    trial = bench.Bench(bench.chain(1), struck("provider.server"))
    unsendable = Request((Message("user", "?"), Message("assistant", "", (NativeCall("", "", "{}"),))))

    async def failed(model: OverHttp, request: Request) -> tuple[str, bool]:
        with pytest.raises(ProviderError) as caught:
            await model.complete(request)
        return caught.value.kind, caught.value.injected

    async def ask(switchboard: Switchboard) -> list[tuple[str, bool]]:
        with switchboard.put_through(trial.scripted) as model:
            seen = [await failed(model, trial.request()), await failed(model, unsendable), await failed(model, trial.request())]
        seen.append(await failed(model, trial.request()))  # the trial is over: the server knows it no more
        await close_local_clients()
        return seen

    injected = ("server", True)
    assert connected(ask) == [injected, ("bad_request", False), injected, ("bad_request", False)]


# --- many at once ---

TRIALS = 12
WINDY = Profile.model_validate(
    {
        "name": "windy",
        "rates": {"provider.dropped": 0.4, "provider.cut": 0.4, "provider.garbled": 0.1},
        "clears": {"never": 0, "attempts": 2, "nothing": 0.5, "failed": 0.5, "words": 0.5},
    }
)


@pytest.mark.thorough
@pytest.mark.parametrize("streamed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_broken_connection_is_felt_by_the_request_that_it_was_meant_for_alone(streamed):
    """All trials share their connections: one that the server is about to close must not be used for the next request."""
    trials = [bench.Bench(bench.chain(1 + n % 6), WINDY, seed=n) for n in range(TRIALS)]
    alone = [bench.Bench(trial.plan, WINDY, seed=n) for n, trial in enumerate(trials)]

    async def one(switchboard: Switchboard, trial: Any) -> Any:
        with switchboard.put_through(trial.scripted) as model:
            trial.model = MeteredModel(Streamed(model) if streamed else model, trial.meter, trial.ear, trial.tunnel)
            return await trial.run(40)

    async def together(switchboard: Switchboard) -> list[Any]:
        return await asyncio.gather(*(one(switchboard, trial) for trial in trials))

    def told(trial: Any) -> list[tuple[str, Any]]:
        exchanges = trial.ear.exchanges
        return [(reply.text, reply.calls) if error is None else ("", marks(error)) for _, reply, error, _ in exchanges]

    def marks(error: ModelError) -> tuple[Any, ...]:
        assert isinstance(error, ProviderError)
        return error.kind, error.injected

    answers = connected(together)
    assert answers == [run_sync(trial.run(40)) for trial in alone]
    assert [told(trial) for trial in trials] == [told(trial) for trial in alone]
    failures = [error for trial in trials for _, _, error, _ in trial.ear.exchanges if error is not None]
    assert len(failures) > TRIALS
    assert all(error.injected for error in failures)
