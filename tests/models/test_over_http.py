"""The scripted model over HTTP: what comes out of the client is what went into the server, fault by fault."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
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
    ContextOverflow,
    Message,
    Model,
    ModelError,
    NativeCall,
    ProviderError,
    Reply,
    Request,
    WrappedModel,
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


class Noting(WrappedModel):
    """A trial's scripted model that keeps what it is asked."""

    def __init__(self, scripted: Any) -> None:
        super().__init__(scripted)
        self.tunnel = scripted.tunnel
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        return await self.model.complete(request)


@pytest.mark.parametrize("examples", [0, 2])
def test_the_server_is_told_how_many_messages_are_examples(examples):
    trial = bench.Bench(bench.chain(1))
    demo = (Message("user", "1 + 1?"), Message("assistant", "2"))[:examples]
    asked = trial.request(codec=CODEC, examples=examples)
    request = replace(asked, messages=(Message("system", "Be brief."), *demo, *asked.messages))
    noting = Noting(trial.scripted)

    async def ask(switchboard: Switchboard) -> None:
        with switchboard.put_through(noting) as model:  # type: ignore[arg-type]  # of a scripted model, nothing else is wanted
            await model.complete(request)

    connected(ask)
    assert [(told.examples, told.messages) for told in noting.requests] == [(examples, request.messages)]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", PROVIDER_FAULTS)
def test_an_injected_failure_is_marked_and_of_the_kind_that_was_meant(kind, streamed):
    trial = bench.Bench(bench.chain(1), struck(kind))

    async def ask(model: OverHttp) -> None:
        await (Streamed(model) if streamed else model).complete(trial.request())

    with pytest.raises(ProviderError) as caught:
        with_model(trial, ask)
    assert (caught.value.kind, caught.value.injected) == (PROVIDER_FAULTS[kind][0], True)
    assert [(fault.kind, fault.landed) for fault in trial.tunnel.faults] == [(kind, True)]


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


def test_one_request_may_be_sent_several_times_at_once():
    trial = bench.Bench(bench.chain(1))
    request = trial.request(codec=CODEC)

    async def ask(model: OverHttp) -> list[Reply]:
        return await asyncio.gather(*(model.complete(request) for _ in range(5)))

    assert len({reply.text for reply in with_model(trial, ask)}) == 1


def test_what_the_model_cannot_do_is_told():
    abilities = {"name": "small", "abilities": {"context_tokens": 200, "tool_choice": False}}
    trial = bench.Bench(bench.chain(1), Profile.model_validate(abilities))

    async def ask(model: OverHttp) -> None:
        with pytest.raises(ContextOverflow):
            await model.complete(trial.request("x" * 1000))
        with pytest.raises(ProviderError) as caught:
            await model.complete(trial.request(tool_choice="add"))
        assert (caught.value.kind, caught.value.injected) == ("refused", True)
        assert (await model.complete(trial.request())).calls

    with_model(trial, ask)


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
