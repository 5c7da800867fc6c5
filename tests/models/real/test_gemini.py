"""`--model gemini/…` against our own Gemini API: the client's half and the server's half hold each other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.served import Book, fixed
from whichloop.models.fake import FakeModel
from whichloop.models.local.model import open_model
from whichloop.models.real import RealModel, RealOptions
from whichloop.models.server import ServedTrial, Server
from whichloop.models.tunnel import Tunnel
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

from .provider import EACH, NAMES, OBJECT, TEXT

NAME = "gemini-2.5-flash"
HELLO = Request((Message("user", "hello"),))
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False})
CALLS = (NativeCall("call_0", "add", '{"a": 1}'), NativeCall("call_1", "add", '{"a": 2}'))


class Named(Book):
    """Trials behind a model whose name has a price."""

    def models(self) -> list[str]:
        return [NAME]


def with_model(
    work: Callable[[RealModel], Coroutine[Any, Any, Any]], said: Reply | Exception | ServedTrial, attempts: int = 1
) -> Any:
    """Let a model that is opened by name do some work; return what comes of it and what the server was asked."""
    book = Named(any=said if isinstance(said, ServedTrial) else fixed(said))

    async def whole() -> Any:
        async with Server(book) as server:
            model = open_model(f"gemini/{NAME}", f"{server.url}/v1beta", RealOptions(attempts=attempts))
            try:
                return await work(model)
            finally:
                await model.aclose()

    return asyncio.run(whole()), [asked.request for asked in book.asked]


def asked_once(request: Request, said: Reply | Exception) -> tuple[Reply, Request]:
    reply, (seen,) = with_model(lambda model: model.complete(request), said)
    return reply, seen


def streamed(request: Request, said: Reply | Exception) -> list[Chunk]:
    async def work(model: RealModel) -> list[Chunk]:
        return [chunk async for chunk in model.stream(request)]

    return list(with_model(work, said)[0])


def test_a_request_arrives_as_it_was_meant():
    request = Request(
        (
            Message("system", "Be brief."),
            Message("user", "1 + 2?"),
            Message("assistant", "I add.", CALLS),
            Message("tool", "3", call_id="call_1"),
            Message("tool", '{"error": "no"}', call_id="call_0"),
            Message("user", "Well?"),
        ),
        (ADD,),
        "add",
        sampling=Sampling(0.5, 9, 0.9, 3, ("END",)),
    )
    assert asked_once(request, Reply("3"))[1] == request


def test_a_schema_of_the_reply_arrives():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    reply, seen = asked_once(Request(HELLO.messages, response_schema=schema), Reply('{"n": 3}'))
    assert (reply.text, seen.response_schema) == ('{"n": 3}', schema)


def test_a_schema_of_the_reply_may_be_any_json_schema():
    schema = {"type": "object", "properties": {"kind": {"enum": ["a", 1]}, "n": {"type": ["integer", "null"]}}}
    reply, seen = asked_once(Request(HELLO.messages, response_schema=schema), Reply('{"kind": 1, "n": null}'))
    assert (reply.text, seen.response_schema) == ('{"kind": 1, "n": null}', {"additionalProperties": True, **schema})


def test_a_reply_has_its_calls_counts_and_price():
    reply, _ = asked_once(Request(HELLO.messages, (ADD,)), Reply("I add.", CALLS, Usage(1000, 100, 400), "tool_calls"))
    assert (reply.text, reply.calls, reply.finish_reason) == ("I add.", CALLS, "tool_calls")
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens) == (1000, 100, 400)
    assert 0 < (reply.usage.cost_usd or 0) < (reply.usage.nominal_usd or 0)


def test_a_stream_keeps_several_calls_apart():
    """Gemini sends a call in a chunk of its own."""
    chunks = streamed(Request(HELLO.messages, (ADD,)), Reply("I add.", CALLS, Usage(10, 5), "tool_calls"))
    assert "".join(chunk.text for chunk in chunks) == "I add."
    assert [chunk.call.index for chunk in chunks if chunk.call is not None] == [0, 1]
    last = chunks[-1].reply
    assert last is not None
    assert [(call.id, call.name, call.arguments.replace(" ", "")) for call in last.calls] == [
        ("call_0", "add", '{"a":1}'),
        ("call_1", "add", '{"a":2}'),
    ]
    assert last.usage is not None
    assert last.usage.total_tokens == 15


@EACH
@given(TEXT.filter(str.strip), st.lists(st.tuples(NAMES, OBJECT), max_size=3), st.booleans())
def test_what_is_said_is_read(text, made, stream):
    calls = tuple(NativeCall(f"call_{place}", name, json.dumps(given)) for place, (name, given) in enumerate(made))
    said = Reply(text, calls, Usage(10, 5), "tool_calls" if calls else "stop")
    reply = streamed(HELLO, said)[-1].reply if stream else asked_once(HELLO, said)[0]
    assert reply is not None
    assert reply.text == text
    assert [(call.id, call.name, json.loads(call.arguments)) for call in reply.calls] == [
        (f"call_{place}", name, given) for place, (name, given) in enumerate(made)
    ]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("spoiled", ['{"a": ', "{'a': 1}", '{"a": "print(x))"}}', "a\n\nb (gemini)", "[1]"])
def test_a_malformed_call_is_a_reply_and_no_error_of_the_request(spoiled, stream):
    calls = (NativeCall("call_0", "add", spoiled), NativeCall("call_1", "sub", '{"b": 1}'))
    said = Reply("", calls, Usage(10, 5), "tool_calls")
    reply = streamed(HELLO, said)[-1].reply if stream else asked_once(HELLO, said)[0]
    assert reply is not None
    assert [(call.name, call.arguments) for call in reply.calls] == [("add", spoiled), ("sub", '{"b": 1}')]
    assert reply.finish_reason == "tool_calls"


def test_limits_are_kept():
    reply, _ = asked_once(Request(HELLO.messages, sampling=Sampling(max_tokens=2)), Reply("one two three four", (), Usage(10, 5)))
    assert (reply.text, reply.finish_reason) == ("one two ", "length")
    reply, _ = asked_once(Request(HELLO.messages, sampling=Sampling(stop=("three",))), Reply("one two three", (), Usage(10, 5)))
    assert (reply.text, reply.finish_reason) == ("one two ", "stop")


@pytest.mark.parametrize(
    ("failed", "kind"),
    [
        (ProviderError("no", "rate_limit", retry_after_s=7), "rate_limit"),
        (ProviderError("no", "server"), "server"),
        (ProviderError("no", "overloaded"), "overloaded"),
        (ProviderError("no", "timeout"), "timeout"),
        (ProviderError("no", "connection"), "connection"),
        (ProviderError("tool_choice is not supported", "refused"), "refused"),
        (ContextOverflow("9 of 8 tokens"), "overflow"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("ask", [asked_once, streamed], ids=["whole", "stream"])
def test_failures_keep_their_kinds(failed, kind, ask):
    with pytest.raises(ModelError) as caught:
        ask(HELLO, failed)
    assert isinstance(caught.value, ContextOverflow) == (kind == "overflow")
    if isinstance(caught.value, ProviderError):
        assert caught.value.kind == kind
        assert caught.value.retry_after_s == (7 if kind == "rate_limit" else None)


def test_a_failure_that_passes_is_overcome():
    items = (ProviderError("no", "overloaded"), Reply("at last", (), Usage(10, 5)))
    reply, asked = with_model(lambda model: model.complete(HELLO), ServedTrial(FakeModel(*items), Tunnel()), attempts=2)
    assert (reply.text, reply.failed_attempts, len(asked)) == ("at last", ("overloaded",), 2)
