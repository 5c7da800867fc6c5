"""Models by name against our own server, on all four wires: the client's half and the server's half hold each other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.local.model import open_model
from whichloop.models.real import RealModel, RealOptions
from whichloop.models.server import ServedTrial, Server
from whichloop.protocol import (
    Chunk,
    ContextOverflow,
    Message,
    ModelError,
    NativeCall,
    ProviderError,
    Reply,
    Request,
    Sampling,
    ToolSpec,
    Usage,
)

from ..served import Book, fixed, struck
from .provider import EACH, NAMES, OBJECT, TEXT
from .vendors import KEYS

MODELS = {
    "chat": "openai/gpt-4o-mini",
    "responses": "openai/gpt-5-pro",  # which the list says is served there only
    "messages": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
}
"""Names that have a price."""
WIRES = list(MODELS)
PATHS = dict.fromkeys(WIRES, "/v1") | {"gemini": "/v1beta"}
HELLO = Request((Message("user", "hello"),))
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False})
Value = TypeVar("Value")


@pytest.fixture(autouse=True, scope="module")
def _keys() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        yield


class Named(Book):
    def models(self) -> list[str]:
        return ["scripted", *(name.partition("/")[2] for name in MODELS.values())]


def asking(
    wire: str, said: Reply | Exception | ServedTrial, use: Callable[[RealModel], Awaitable[Value]], end: str = ""
) -> tuple[Value, Book]:
    """What `use` makes of the model over loopback, and what the server was asked."""
    book = Named(any=said if isinstance(said, ServedTrial) else fixed(said))

    async def whole() -> Value:
        async with Server(book) as server:
            model = open_model(MODELS[wire], f"{server.url}{end or PATHS[wire]}", RealOptions(attempts=1))
            try:
                return await use(model)
            finally:
                await model.aclose()

    return asyncio.run(whole()), book


async def read(model: RealModel, request: Request) -> list[Chunk]:
    return [chunk async for chunk in model.stream(request)]


async def both(model: RealModel, request: Request) -> list[Reply]:
    """The reply, whole and streamed: its pieces make the same text and calls."""
    *chunks, last = await read(model, request)
    streamed = last.reply
    assert streamed is not None
    assert "".join(chunk.text for chunk in chunks) == streamed.text
    pieces: dict[int, NativeCall] = {}
    for call in [chunk.call for chunk in chunks if chunk.call is not None]:
        before = pieces.get(call.index, NativeCall("", "", ""))
        pieces[call.index] = NativeCall(call.id or before.id, call.name or before.name, before.arguments + call.arguments)
    assert tuple(pieces.values()) == streamed.calls
    return [await model.complete(request), streamed]


CALLS = st.lists(st.tuples(NAMES.filter(lambda name: not name[0].isdigit()), OBJECT), max_size=3).map(
    lambda made: tuple(NativeCall(f"call_{place}", name, json.dumps(given)) for place, (name, given) in enumerate(made))
)


@EACH
@given(st.sampled_from(WIRES), TEXT.filter(str.strip), CALLS, st.tuples(*[st.integers(0, 9)] * 3))
def test_a_reply_comes_as_it_was_sent_whole_and_in_a_stream(wire, text, calls, counts):
    usage = Usage(counts[0] + counts[1], counts[2], counts[1])
    said = Reply(text, calls, usage, "tool_calls" if calls else "stop")
    for reply in asking(wire, said, lambda model: both(model, Request(HELLO.messages, (ADD,))))[0]:
        assert (reply.text, reply.finish_reason) == (text, said.finish_reason)
        assert [(call.id, call.name, json.loads(call.arguments)) for call in reply.calls] == [
            (call.id, call.name, json.loads(call.arguments)) for call in calls
        ]
        assert reply.usage is not None
        assert replace(reply.usage, cost_usd=None, nominal_usd=None) == usage


@pytest.mark.parametrize("wire", WIRES)
def test_tokens_have_the_price_of_the_list_and_those_from_a_cache_their_own(wire):
    said = Reply("4", (), Usage(1_000_000, 100_000, 400_000))
    for reply in asking(wire, said, lambda model: both(model, HELLO))[0]:
        assert reply.usage is not None
        assert 0 < (reply.usage.cost_usd or 0) <= (reply.usage.nominal_usd or 0)
        assert (reply.usage.cost_usd == reply.usage.nominal_usd) == (wire == "responses")  # gpt-5-pro has no price for a cache


TALK = (
    Message("system", "Be brief."),
    Message("user", "1 + 2?"),
    Message("assistant", "I add.", (NativeCall("call_0", "add", '{"a": 1}'), NativeCall("call_1", "add", '{"a": 2}'))),
    Message("tool", "3", call_id="call_0"),
    Message("tool", '{"error": "no"}', call_id="call_1"),
    Message("user", "Well?"),
)

CHOICES = [("chat", "auto"), ("chat", "none"), ("responses", "required"), *((wire, "add") for wire in WIRES)]


@pytest.mark.parametrize(("wire", "choice"), CHOICES)
def test_a_request_arrives_as_it_was_meant(wire, choice):
    sampling = Sampling(0.5, 99, 0.9, *((3, ("END",)) if wire in ("chat", "gemini") else ()))
    asked = Request(TALK, (ADD,), choice, None, sampling, parallel_calls=wire == "gemini" or choice == "none")
    _, book = asking(wire, Reply("3"), lambda model: model.complete(asked))
    (seen,) = [each.request for each in book.asked]
    assert [(m.role, m.content, m.call_id, m.calls) for m in seen.messages] == [
        (m.role, m.content, m.call_id, m.calls) for m in asked.messages
    ]
    assert (seen.tools, seen.tool_choice, seen.parallel_calls) == ((ADD,), choice, asked.parallel_calls)
    assert seen.sampling == sampling


@pytest.mark.parametrize("wire", WIRES)
def test_a_schema_of_the_reply_arrives_and_may_be_any_json_schema(wire):
    schema: dict[str, Any] = {"type": "object", "properties": {"kind": {"enum": ["a", 1]}, "n": {"type": ["integer", "null"]}}}
    schema |= {"required": ["kind", "n"], "additionalProperties": False}
    (reply, streamed), book = asking(
        wire, Reply('{"kind": 1,  "n": null}'), lambda model: both(model, replace(HELLO, response_schema=schema))
    )
    assert reply.text == streamed.text == '{"kind": 1,  "n": null}'
    assert book.asked[0].request.response_schema == schema


@pytest.mark.parametrize("wire", WIRES)
def test_a_reply_that_is_cut_says_so(wire):
    request = Request(HELLO.messages, sampling=Sampling(max_tokens=20))
    for reply in asking(wire, Reply("one two three " * 30), lambda model: both(model, request))[0]:
        assert reply.finish_reason == "length"
        assert len(reply.text) < 200


KINDS: tuple[Any, ...] = ("server", "overloaded", "timeout", "connection", "auth", "bad_request")
FAILURES = [
    (ProviderError("no", "rate_limit", retry_after_s=7), "rate_limit"),
    *((ProviderError("no", kind), kind) for kind in KINDS),
    (ContextOverflow("9 of 8 tokens"), "overflow"),
    (struck("provider.cut"), "connection"),
]


@pytest.mark.parametrize(("place", "wire"), [(n, WIRES[(n + more) % 4]) for n in range(len(FAILURES)) for more in (0, 1)])
def test_failures_keep_their_kinds_whole_and_in_a_stream(place, wire):
    """Each on two of the wires: the status of each failure on each wire is in test_wires.py of the server."""
    said, kind = FAILURES[place]

    async def fail(model: RealModel) -> list[ModelError]:
        failures = []
        for ask in (model.complete, lambda request: read(model, request)):
            with pytest.raises(ModelError) as caught:
                await ask(HELLO)
            failures.append(caught.value)
        return failures

    for failure in asking(wire, said, fail)[0]:
        if kind == "overflow":
            assert isinstance(failure, ContextOverflow)
        else:
            assert isinstance(failure, ProviderError)
            assert (failure.kind, failure.retry_after_s) == (kind, 7 if kind == "rate_limit" else None)


@pytest.mark.parametrize("name", ["openai/responses/", "gpt-4o", ""])
def test_a_name_without_provider_or_model_is_refused_in_one_line(name):
    with pytest.raises(ValueError, match=r"write (openai/responses/MODEL|provider/model)") as caught:
        open_model(name, "http://localhost:1/v1")
    assert "\n" not in str(caught.value)


def test_an_address_of_anthropics_form_may_end_before_the_version_or_after_it():
    for end in ("/", "/v1/"):
        assert asking("messages", Reply("2"), lambda model: model.complete(HELLO), end)[0].text == "2"
