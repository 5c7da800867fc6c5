"""The vendors' own clients against the server: whole trials, streams, typed replies, failures, and what only one of them has."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import anthropic
import httpx
import openai
import pytest
from google.genai import errors, types
from pydantic import BaseModel

from whichloop.models.profiles import Profile
from whichloop.models.server import Server
from whichloop.protocol import ContextOverflow, ModelError, NativeCall, ProviderError, Reply, ToolCall, Usage

from . import bench
from .official import CLIENTS, asking
from .served import BODY, QUESTION, SUBMIT, Book, client, failure, fixed, of, run, specs, struck_by
from .wire_faults import struck
from .wire_refusals import REFUSALS

vendors = pytest.mark.parametrize("vendor", CLIENTS)
SAID = Reply("It is  4.", usage=Usage(12, 3))


@pytest.mark.parametrize(
    ("vendor", "stream"), [("chat", False), *((vendor, stream) for vendor in ("responses", "messages") for stream in (False, True))]
)
def test_the_official_client_goes_through_a_whole_trial(vendor: str, stream: bool) -> None:
    """Google's does so in tests/experiments/serve/test_gemini.py."""
    trial = bench.Bench(bench.chain(3))
    book = Book(any=of(trial, tools=("add", "concat", "reject")))
    assert asking(vendor, book, lambda opened: CLIENTS[vendor].loop(opened, trial, stream=stream)) == trial.expected
    assert trial.tunnel.unknown == ()
    ids = [call.id for message in book.asked[-1].request.messages for call in message.calls]
    assert len(ids) == len(set(ids)) == 3


@vendors
def test_a_text_is_the_same_whole_streamed_and_without_asyncio_and_models_are_listed(vendor: str) -> None:
    own = CLIENTS[vendor]

    async def work(opened: Any) -> list[Any]:
        return [await own.whole(opened), await own.stream(opened), await own.models(opened)]

    names = ["scripted", "scripted/flaky-tools", "scripted/flaky-tools"]
    assert asking(vendor, Book(any=fixed(SAID)), work) == [SAID.text, SAID.text, names]
    plain = run(lambda server, _: asyncio.to_thread(own.blocking, server.url), Book(any=fixed(SAID)))
    assert plain == [SAID.text] * 2


class Solved(BaseModel):
    reasoning: str
    answer: int


@vendors
def test_a_reply_after_a_schema_is_read_by_the_clients_own_parser(vendor: str) -> None:
    trial = bench.Bench(bench.chain(1))
    text = f"{QUESTION} {trial.results()['c1']}"
    found = asking(vendor, Book(any=of(trial)), lambda opened: CLIENTS[vendor].parsed(opened, text, Solved))
    assert (type(found), found.answer) == (Solved, 2)


# --- failures ---

FAILURES: dict[str, Exception] = {
    **{kind: ProviderError("no", kind) for kind in ("refused", "auth", "server", "overloaded", "timeout")},
    "rate_limit": ProviderError("no", "rate_limit", retry_after_s=3.0),
    "overflow": ContextOverflow("9 of 8"),
    "of a model": ModelError("no"),
    "a bug": RuntimeError("secret"),
}
OF_OPENAI: dict[str, tuple[Any, ...]] = {
    "overflow": (openai.BadRequestError, "context_length_exceeded", "messages"),
    "refused": (openai.BadRequestError, "unsupported_parameter", "tool_choice"),
    "auth": (openai.AuthenticationError, "invalid_api_key", None),
    "rate_limit": (openai.RateLimitError, "rate_limit_exceeded", None),
    "timeout": (openai.InternalServerError, "timeout", None),
}
"""Class, code and param of those that are not failures of the server."""
OF_ANTHROPIC: dict[str, tuple[Any, str]] = {
    "overflow": (anthropic.BadRequestError, "invalid_request_error"),
    "refused": (anthropic.BadRequestError, "invalid_request_error"),
    "auth": (anthropic.AuthenticationError, "authentication_error"),
    "rate_limit": (anthropic.RateLimitError, "rate_limit_error"),
    "overloaded": (anthropic.OverloadedError, "overloaded_error"),
    "timeout": (anthropic.GatewayTimeoutError, "timeout_error"),
}
OF_GOOGLE = {
    **dict.fromkeys(("overflow", "refused"), "INVALID_ARGUMENT"),
    **{"auth": "UNAUTHENTICATED", "rate_limit": "RESOURCE_EXHAUSTED", "overloaded": "UNAVAILABLE", "timeout": "DEADLINE_EXCEEDED"},
}


@vendors
@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_is_raised_as_the_vendors_own_whole_and_in_a_stream(vendor: str, kind: str) -> None:
    async def work(opened: Any) -> list[Any]:
        met = []
        for ask in (CLIENTS[vendor].whole, CLIENTS[vendor].stream):
            with pytest.raises(CLIENTS[vendor].failed) as caught:
                await ask(opened)
            met.append(caught.value)
        return met

    for raised in asking(vendor, Book(any=fixed(FAILURES[kind])), work):
        assert "secret" not in str(raised)
        if vendor == "messages":
            assert (type(raised), raised.type) == OF_ANTHROPIC.get(kind, (anthropic.InternalServerError, "api_error"))
            assert kind != "overflow" or raised.api_message.startswith("prompt is too long")
        elif vendor == "gemini":
            assert isinstance(raised, errors.APIError)
            assert raised.status == OF_GOOGLE.get(kind, "INTERNAL")
        else:
            met = type(raised), raised.code, raised.param
            assert met == OF_OPENAI.get(kind, (openai.InternalServerError, None, None))
        if kind == "rate_limit":
            waits = "retry in 3s" in raised.message if vendor == "gemini" else raised.response.headers["retry-after"] == "3"
            assert waits


@vendors
@pytest.mark.parametrize("fault", ["dropped", "cut", "garbled", "interrupted"])
def test_faults_on_the_wire_are_errors_of_the_client_or_of_its_libraries(vendor: str, fault: str) -> None:
    own = CLIENTS[vendor]

    async def work(opened: Any) -> list[Any]:
        met = []
        for ask in (own.whole, own.stream):
            with pytest.raises(Exception) as caught:  # noqa: PT011  # some leave the client as they come from its libraries
                await ask(opened)
            met.append(caught.value)
        return met

    whole, stream = asking(vendor, Book(any=struck(f"provider.{fault}")), work)
    if fault == "dropped":
        assert isinstance(whole, own.dropped)
        assert isinstance(stream, own.dropped)
    if fault == "interrupted":
        assert isinstance(whole, own.broken), "a whole reply has no middle"
        assert isinstance(stream, own.interrupted)
    assert not isinstance(whole, AssertionError)


@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_openais_client_raises_its_own_error_with_the_field(wire: str) -> None:
    rows = [case for case in REFUSALS if case.wire == wire][::4]

    async def work(opened: Any) -> list[Any]:
        met = []
        for case in rows:
            with pytest.raises(openai.APIStatusError) as caught:
                await CLIENTS[wire].whole(opened, extra_body=case.change)
            met.append(caught.value)
        return met

    for case, raised in zip(rows, asking(wire, Book(any=fixed(Reply("x"))), work), strict=True):
        assert (raised.status_code, raised.type) == (case.status, "invalid_request_error"), case.what
        assert (raised.param or "").startswith(case.param)


# --- OpenAI's ---


def test_unknown_model_trial_and_codec() -> None:
    async def work(server: Server, opened: Any) -> list[Any]:
        async with client(server, "nowhere") as elsewhere:
            return [await failure(opened, model="gpt"), await failure(elsewhere), await failure(opened, metadata={"codec": "xml"})]

    model, trial, codec = run(work, Book(any=fixed(SAID)))
    assert [(type(error), error.code) for error in (model, trial)] == [
        (openai.NotFoundError, "model_not_found"),
        (openai.NotFoundError, "trial_not_found"),
    ]
    assert (type(codec), "'xml'" in str(codec)) == (openai.BadRequestError, True)


def test_what_a_profile_cannot_do_is_refused() -> None:
    trial = bench.Bench(bench.chain(1), Profile.model_validate({"name": "old", "abilities": {"tool_choice": False}}))
    raised = run(lambda _, opened: failure(opened, tools=[SUBMIT], tool_choice="required"), Book(any=of(trial)))
    assert (type(raised), raised.param, raised.code) == (openai.BadRequestError, "tool_choice", "unsupported_parameter")


def test_a_request_beyond_the_context_is_refused_in_openais_words_and_a_loops_own_client_is_told_the_models() -> None:
    trial = bench.Bench(bench.chain(1), Profile.model_validate({"name": "short", "abilities": {"context_tokens": 20}}))
    long = {"messages": [{"role": "user", "content": "x" * 999}]}

    async def work(_: Server, opened: Any) -> list[Any]:
        return [await failure(opened, **long), await failure(opened, **long, metadata={"codec": "native"})]

    found = run(work, Book(any=of(trial)))
    assert [raised.code for raised in found] == ["context_length_exceeded"] * 2
    for raised, begins in zip(found, ("This model's maximum context length", "the request has"), strict=True):
        assert raised.body["message"].startswith(begins)


def test_the_metadata_of_a_loops_own_client_say_role_scope_and_codec() -> None:
    trial = bench.Bench(bench.chain(1))
    book = Book(any=of(trial))

    async def work(_: Server, opened: Any) -> list[Any]:
        create = opened.chat.completions.create
        made = await create(**BODY, tools=specs(trial), metadata={"codec": "native", "scope": "left"})
        return [made, await create(**BODY, metadata={"role": "summarize", "codec": "native"})]

    made, summary = run(work, book)
    assert [call.id for call in made.choices[0].message.tool_calls] == ["call_0"]
    assert summary.choices[0].message.content
    assert [asked.request.role.value for asked in book.asked] == ["decide", "summarize"]
    assert trial.tunnel.calls_shown("left") == ()


def test_what_is_not_stored_cannot_be_gone_on_from() -> None:
    async def work(_: Server, opened: Any) -> Any:
        made = await opened.responses.create(model="scripted", input=QUESTION, store=False)
        with pytest.raises(openai.BadRequestError) as caught:
            await opened.responses.create(model="scripted", input=QUESTION, previous_response_id=made.id)
        return caught.value

    assert run(work, Book(any=fixed(SAID))).code == "previous_response_not_found"


# --- Anthropic's ---


def test_a_thread_that_is_not_kept_is_begun_anew() -> None:
    """The client sends the whole conversation again, as it does to the vendor, and does not send the tools twice."""
    book = Book(any=fixed(SAID))

    async def whole() -> Any:
        async with Server(book) as server, CLIENTS["messages"].opened(server) as opened:
            thread = opened.beta.messages.thread(model="scripted", max_tokens=99, system="Be brief.")
            for text in ("One?", "Two?"):
                await thread.send({"role": "user", "content": text})
            server._chats.kept.clear()
            return await thread.send({"role": "user", "content": "Three?"})

    assert asyncio.run(whole()).content[0].text == SAID.text
    assert [len(asked.request.messages) for asked in book.asked] == [2, 4, 6]


def test_the_tool_runner_comes_to_the_answer_and_a_forced_tool_is_called() -> None:
    trial, forced = bench.Bench(bench.chain(2)), bench.Bench(bench.chain(1))
    ask = {"model": "scripted", "max_tokens": 999, "messages": [{"role": "user", "content": QUESTION}]}

    async def work(opened: Any) -> Any:
        @anthropic.beta_async_tool
        async def add(a: int, b: int) -> str:
            """Add two numbers."""
            return (await trial.toolbox.call(ToolCall("add", {"a": a, "b": b}))).data

        return await opened.beta.messages.tool_runner(**ask, tools=[add]).until_done()

    async def force(opened: Any) -> Any:
        submit = {"name": "submit", "input_schema": SUBMIT["function"]["parameters"]}  # type: ignore[index]
        return await opened.messages.create(**ask, tools=[submit], tool_choice={"type": "tool", "name": "submit"})

    assert asking("messages", Book(any=of(trial, tools=("add",))), work).content[0].text == trial.expected
    message = asking("messages", Book(any=of(forced, tools=("add",))), force)
    assert [block.name for block in message.content if block.type == "tool_use"] == ["submit"]


def test_tokens_are_counted_without_asking_the_model() -> None:
    book = Book(any=fixed(SAID))
    talk = [{"role": "user", "content": QUESTION}]
    counted = asking("messages", book, lambda opened: opened.messages.count_tokens(model="scripted", messages=talk))
    assert counted.input_tokens == 8
    counted = asking("gemini", book, lambda opened: opened.models.count_tokens(model="scripted", contents="How are you there?"))
    assert counted.total_tokens > 0
    assert book.asked == []


# --- Google's ---


def test_a_malformed_call_is_told_by_the_reason_of_the_end() -> None:
    book = Book(any=fixed(Reply("", (NativeCall("c", "add", '{"a": '),))))
    reply = asking("gemini", book, lambda opened: opened.models.generate_content(model="scripted", contents="?"))
    assert reply.candidates[0].finish_reason == types.FinishReason.MALFORMED_FUNCTION_CALL
    assert (reply.text, reply.function_calls) == (None, None)


def streams(book: Book) -> list[bytes]:
    """What comes of a stream, as server-sent events and as one list."""

    async def work(server: Server, _: Any) -> list[bytes]:
        got = []
        async with httpx.AsyncClient() as plain:
            for query in ("?alt=sse", ""):
                url, pieces = f"{server.url}/v1beta/models/scripted:streamGenerateContent{query}", b""
                with contextlib.suppress(httpx.RemoteProtocolError):
                    async with plain.stream("POST", url, json={"contents": [{"parts": [{"text": "?"}]}]}) as response:
                        async for piece in response.aiter_bytes():
                            pieces += piece
                    pieces += b"<end>"
                got.append(pieces)
        return got

    return list(run(work, book))


def test_a_stream_without_server_sent_events_is_one_json_list_and_breaks_as_the_events_do() -> None:
    _, listed = streams(Book(any=fixed(SAID)))
    parts = [chunk["candidates"][0]["content"]["parts"][0]["text"] for chunk in json.loads(listed.removesuffix(b"<end>"))]
    assert "".join(parts) == SAID.text
    for fault, ends in (("cut", False), ("garbled", True)):
        for pieces in streams(Book(any=struck_by(f"provider.{fault}"))):
            assert pieces.endswith(b"<end>") is ends
            with pytest.raises(json.JSONDecodeError):
                json.loads(pieces.removesuffix(b"<end>").removeprefix(b"data: "))
    events, listed = streams(Book(any=struck_by("provider.interrupted")))
    chunks = [json.loads(line) for line in events.removesuffix(b"<end>").split(b"data: ")[1:]]
    assert [chunk.keys() for chunk in chunks] == [chunk.keys() for chunk in json.loads(listed.removesuffix(b"<end>"))]
    assert chunks[-1] == {"error": {"code": 500, "message": "Broken.", "status": "INTERNAL"}}
    assert all("finishReason" not in chunk["candidates"][0] for chunk in chunks[:-1])
