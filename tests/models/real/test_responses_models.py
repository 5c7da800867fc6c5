"""Models over OpenAI's Responses as real models: the client that asks them against the server that speaks as they do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.loops.finish.loop import Finish
from whichloop.models.local.model import open_model
from whichloop.models.metering import MeteredModel
from whichloop.models.real import RealModel, RealOptions
from whichloop.models.server import ServedTrial, Server
from whichloop.protocol import ContextOverflow, Message, NativeCall, ProviderError, Query, Reply, Request, Sampling
from whichloop.protocol.tokens import estimate_usage
from whichloop.protocol.wire import to_json

from .. import bench
from ..served import QUESTION, Book, fixed, of
from ..test_server_faults import struck

NAME = "openai/responses/scripted"
PRICED = "openai/gpt-5-pro"
ONCE = RealOptions(attempts=1)
Value = TypeVar("Value")


class Listing(Book):
    """Trials behind a model that the public list says is served over Responses only."""

    def models(self) -> list[str]:
        return ["scripted", PRICED.partition("/")[2]]


def asking(served: ServedTrial, use: Callable[[RealModel], Awaitable[Value]], name: str = NAME) -> tuple[Value, Book]:
    """What `use` makes of the model over loopback, and what the server was asked."""
    book = Listing(any=served)

    async def whole() -> Value:
        async with Server(book) as server:
            model = open_model(name, f"{server.url}/v1", ONCE)
            try:
                return await use(model)
            finally:
                await model.aclose()

    return asyncio.run(whole()), book


async def streamed(model: RealModel, request: Request) -> Reply:
    chunks = [chunk async for chunk in model.stream(request)]
    reply = chunks[-1].reply
    assert reply is not None
    assert "".join(chunk.text for chunk in chunks) == reply.text
    return reply


TOOLS = tuple(bench.Bench(bench.chain(1)).toolbox.specs)
HISTORY = (
    Message("system", "Add."),
    Message("user", QUESTION),
    Message("assistant", "First.", (NativeCall("call_7", "add", '{"a": 1, "b": 1}'),)),
    Message("tool", "2", (), "call_7"),
)
arguments = st.dictionaries(st.text("abc", min_size=1), st.integers() | st.text(max_size=5)).map(to_json)
calls = st.lists(arguments, max_size=3).map(lambda texts: tuple(NativeCall(f"call_{n}", "add", t) for n, t in enumerate(texts)))


@given(st.text("ab c", max_size=20), calls, st.booleans())
def test_a_reply_comes_as_it_was_sent_whole_and_in_a_stream(text: str, made: tuple[NativeCall, ...], cut: bool) -> None:
    """A cut reply has arguments that are no JSON, which lm15 replaces: they are read from the body."""
    if cut and made:
        made = (*made[:-1], replace(made[-1], arguments=made[-1].arguments[:-1]))
    sent = Reply(text, made, finish_reason="length" if cut else "tool_calls" if made else "stop")
    sent = replace(sent, usage=estimate_usage(9, sent))

    async def both(model: RealModel) -> list[Reply]:
        request = Request(HISTORY, TOOLS)
        return [await model.complete(request), await streamed(model, request)]

    found, _ = asking(fixed(sent), both)
    for reply in found:
        assert (reply.text, reply.calls, reply.finish_reason) == (sent.text, sent.calls, sent.finish_reason)
        assert reply.usage is not None
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (sent.usage.input_tokens, sent.usage.output_tokens)  # type: ignore[union-attr]


def test_a_request_comes_as_it_was_asked() -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
    sampling = Sampling(0.5, 99, 0.9)
    asked = Request(HISTORY, TOOLS, "add", schema, sampling, parallel_calls=False)
    _, book = asking(fixed(Reply("4")), lambda model: model.complete(asked))
    (heard,) = book.asked
    assert list(heard.request.messages) == list(HISTORY)
    assert [tool.name for tool in heard.request.tools] == [tool.name for tool in TOOLS]
    assert (heard.request.tool_choice, heard.request.parallel_calls) == ("add", False)
    assert heard.request.response_schema == schema
    assert heard.request.sampling == sampling


def test_a_design_with_native_calls_solves_a_trial() -> None:
    trial = bench.Bench(bench.chain(3))

    async def run(model: RealModel) -> Any:
        metered = MeteredModel(model, trial.meter, trial.ear)
        return await Finish().with_step_limit(9).run(Query(QUESTION), trial.toolbox, metered)

    outcome, _ = asking(of(trial), run)
    assert str(outcome.answer) == trial.expected


def test_a_model_that_is_served_over_responses_only_is_asked_there_and_has_its_price() -> None:
    said = replace(Reply("4"), usage=estimate_usage(1_000_000, Reply("4")))
    reply, book = asking(fixed(said), lambda model: model.complete(Request(HISTORY)), PRICED)
    assert book.asked[0].items  # Responses has items, chat completions has none
    assert reply.usage is not None
    assert reply.usage.cost_usd is not None
    assert reply.usage.cost_usd > 1


@pytest.mark.parametrize(
    ("kind", "trouble"),
    [
        ("rate_limit", "rate_limit"),
        ("server", "server"),
        ("overloaded", "overloaded"),
        ("timeout", "timeout"),
        ("cut", "connection"),
    ],
)
def test_failures_have_their_kind(kind: str, trouble: str) -> None:
    async def fail(model: RealModel) -> list[Any]:
        met = []
        for ask in (model.complete, lambda request: streamed(model, request)):
            with pytest.raises(ProviderError) as caught:
                await ask(Request(HISTORY[:2]))
            met.append(caught.value.kind)
        return met

    found, _ = asking(struck(f"provider.{kind}"), fail)
    assert found == [trouble, trouble]


def test_an_interrupted_stream_is_a_failure_of_the_server() -> None:
    async def fail(model: RealModel) -> Any:
        with pytest.raises(ProviderError, match="in the middle of the reply") as caught:
            await streamed(model, Request(HISTORY[:2]))
        return caught.value.kind

    assert asking(struck("provider.interrupted"), fail)[0] == "server"


def test_a_request_beyond_the_context_is_told() -> None:
    async def fail(model: RealModel) -> None:
        with pytest.raises(ContextOverflow):
            await model.complete(Request(HISTORY))

    asking(fixed(ContextOverflow("too long")), fail)


@pytest.mark.parametrize("name", ["openai/responses/", "openai/"])
def test_a_name_without_a_model_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(ValueError, match=r"write (openai/responses/MODEL|provider/model)") as caught:
        open_model(name, "http://localhost:1/v1")
    assert "\n" not in str(caught.value)
