"""Anthropic's own client, unmodified, against the server: blocking and asynchronous, whole and streamed, tools and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from whichloop.models.profiles import Profile
from whichloop.models.server import Server
from whichloop.protocol import ContextOverflow, NativeCall, ProviderError, Reply, Usage

from . import bench
from .served import QUESTION, Book, fixed, of, trial_call
from .wire_refusals import ADD, RESULT

anthropic = pytest.importorskip("anthropic")

ASK = {"model": "scripted", "max_tokens": 999, "messages": [{"role": "user", "content": QUESTION}]}
SUBMIT = {
    "name": "submit",
    "input_schema": {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]},
}


def run(work: Callable[[Server, Any], Coroutine[Any, Any, Any]], book: Book, trial: str = "", **server: Any) -> Any:
    """Open a server, an official client of its, do the work."""

    async def whole() -> Any:
        async with Server(book, **server) as opened:
            address = f"{opened.url}/t/{trial}" if trial else opened.url
            async with anthropic.AsyncAnthropic(base_url=address, api_key="none", max_retries=0, timeout=30) as asking:
                return await work(opened, asking)

    return asyncio.run(whole())


def specs(trial: Any) -> list[Any]:
    return [{"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in trial.toolbox.specs]


async def failure(asking: Any, **more: Any) -> Any:
    with pytest.raises(anthropic.AnthropicError) as caught:
        await asking.messages.create(**ASK | more)
    return caught.value


async def streamed(asking: Any, **more: Any) -> tuple[str, Any]:
    async with asking.messages.stream(**more) as stream:
        text = "".join([piece async for piece in stream.text_stream])
        return text, await stream.get_final_message()


async def whole_loop(asking: Any, trial: Any, *, is_streamed: bool) -> Any:
    """A while loop as anyone writes it, on the official client and the trial's tools; gives the last message."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    for _ in range(9):
        ask = ASK | {"messages": messages, "tools": specs(trial)}
        message = (await streamed(asking, **ask))[1] if is_streamed else await asking.messages.create(**ask)
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return message
        results = []
        for call in calls:
            seen = await trial.toolbox.call(replace(trial_call(_Named(call)), arguments=call.input))
            results.append(RESULT | {"tool_use_id": call.id, "content": seen.data, "is_error": seen.status == "error"})
        messages += [message.to_param(), {"role": "user", "content": results}]
    return None


class _Named:
    """A call in the form that `trial_call` reads."""

    def __init__(self, call: Any) -> None:
        self.id = call.id
        self.function = type("Function", (), {"name": call.name, "arguments": "{}"})


# --- the client ---


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_official_client_goes_through_a_whole_trial(is_streamed: bool) -> None:
    trial = bench.Bench(bench.chain(3))
    message = run(lambda server, asking: whole_loop(asking, trial, is_streamed=is_streamed), Book(any=of(trial)))
    assert message.content[0].text == trial.expected
    assert trial.tunnel.unknown == ()


def test_the_blocking_client_gets_the_same() -> None:
    def ask(url: str) -> list[Any]:
        with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client:
            made = client.messages.create(**ASK)
            with client.messages.stream(**ASK) as stream:
                text = "".join(stream.text_stream)
                return [made, text, stream.get_final_message(), client.messages.count_tokens(model="x", messages=ASK["messages"])]

    reply = Reply("It is 4.", usage=Usage(12, 3))
    made, text, final, counted = run(lambda server, _: asyncio.to_thread(ask, server.url), Book(any=fixed(reply)))
    assert made.content[0].text == text == final.content[0].text == "It is 4."
    assert (made.stop_reason, final.stop_reason) == ("end_turn", "end_turn")
    assert (made.usage.input_tokens, final.usage.output_tokens, counted.input_tokens) == (12, 3, 8)


def test_the_tool_runner_comes_to_the_answer() -> None:
    """It runs the tools by itself until no call is left, and shows their errors to the model."""
    trial = bench.Bench(bench.chain(2))

    async def work(server: Server, asking: Any) -> Any:
        @anthropic.beta_async_tool
        async def add(a: int, b: int) -> str:
            """Add two numbers."""
            seen = await trial.toolbox.call(replace(trial_call(_Named(_Call("add"))), arguments={"a": a, "b": b}))
            return seen.data

        runner = asking.beta.messages.tool_runner(**ASK, tools=[add])
        return await runner.until_done()

    assert run(work, Book(any=of(trial, tools=("add",)))).content[0].text == trial.expected


class _Call:
    id = "toolu_1"

    def __init__(self, name: str) -> None:
        self.name = name


def test_a_thread_that_is_not_kept_is_begun_anew() -> None:
    """The client sends the whole conversation again, as it does to the vendor, and does not send the tools twice."""

    async def work(server: Server, asking: Any) -> Any:
        thread = asking.beta.messages.thread(model="scripted", max_tokens=99, system="Be brief.")
        for text in ("One?", "Two?"):
            await thread.send({"role": "user", "content": text})
        server._chats.kept.clear()
        return await thread.send({"role": "user", "content": "Three?"})

    book = Book(any=fixed(Reply("x", usage=Usage(1, 1))))
    assert run(work, book).content[0].text == "x"
    assert [len(asked.request.messages) for asked in book.asked] == [2, 4, 6]


def test_a_forced_tool_is_called_and_a_forbidden_one_is_not() -> None:
    trial = bench.Bench(bench.chain(1))

    async def work(server: Server, asking: Any) -> list[Any]:
        tools = {"tools": [*specs(trial), SUBMIT]}
        choices = ({"type": "tool", "name": "submit"}, {"type": "any", "disable_parallel_tool_use": True}, {"type": "none"})
        return [await asking.messages.create(**ASK, **tools, tool_choice=choice) for choice in choices]

    book = Book(any=of(trial, tools=("add", "concat", "reject")))
    forced, some, none = run(work, book)
    assert [block.name for block in forced.content if block.type == "tool_use"] == ["submit"]
    assert some.stop_reason == "tool_use"
    assert [block.type for block in none.content] == ["text"]
    assert [(asked.request.tool_choice, asked.request.parallel_calls) for asked in book.asked][1:] == [
        ("required", False),
        ("none", True),
    ]


def test_a_reply_after_a_schema_parses() -> None:
    from pydantic import BaseModel

    class Found(BaseModel):
        answer: str

    async def work(server: Server, asking: Any) -> Any:
        return (await asking.messages.parse(**ASK, output_format=Found)).parsed_output

    assert run(work, Book(any=fixed(Reply("22", usage=Usage(3, 1))))).answer == "22"


def test_max_tokens_in_the_middle_of_a_call_and_a_stop_sequence() -> None:
    call = Reply("", (NativeCall("call_0", "add", '{"a": 1, "b": 1234567890}'),), Usage(9, 9), "tool_calls")

    async def work(server: Server, asking: Any) -> list[Any]:
        cut = ASK | {"max_tokens": 4, "tools": [ADD]}
        whole = await asking.messages.create(**cut)
        raw = [event async for event in await asking.messages.create(**cut, stream=True)]
        return [whole, raw]

    whole, raw = run(work, Book(any=fixed(call)))
    assert (whole.stop_reason, whole.content[0].input) == ("max_tokens", {"a": 1})
    pieces = [event.delta.partial_json for event in raw if event.type == "content_block_delta"]
    assert "".join(pieces) == '{"a": 1, "b"'
    assert raw[-2].delta.stop_reason == "max_tokens"
    stopped = run(lambda _, asking: asking.messages.create(**ASK, stop_sequences=["is", "4"]), Book(any=fixed(Reply("It is 4."))))
    assert (stopped.stop_reason, stopped.stop_sequence, stopped.content[0].text) == ("stop_sequence", "is", "It ")


def test_models_are_listed_in_the_vendors_form() -> None:
    async def work(server: Server, asking: Any) -> list[str]:
        return [found.id async for found in asking.models.list()] + [(await asking.models.retrieve("scripted/flaky-tools")).id]

    assert run(work, Book()) == ["scripted", "scripted/flaky-tools", "scripted/flaky-tools"]


# --- errors ---


@pytest.mark.parametrize(
    ("error", "raised", "kind"),
    [
        (ProviderError("slow down", "rate_limit", retry_after_s=3.0), anthropic.RateLimitError, "rate_limit_error"),
        (ProviderError("busy", "overloaded"), anthropic.OverloadedError, "overloaded_error"),
        (ProviderError("broken", "server"), anthropic.InternalServerError, "api_error"),
        (ProviderError("late", "timeout"), anthropic.GatewayTimeoutError, "timeout_error"),
        (ProviderError("no key", "auth"), anthropic.AuthenticationError, "authentication_error"),
        (ContextOverflow("the context holds 8 tokens"), anthropic.BadRequestError, "invalid_request_error"),
        (ProviderError("gone", "connection"), anthropic.APIConnectionError, None),
    ],
)
def test_each_failure_is_raised_as_the_vendors(error: Exception, raised: type, kind: str | None) -> None:
    met: Any = run(lambda _, asking: failure(asking), Book(any=fixed(error)))
    assert [type(met)] == [raised]
    assert getattr(met, "type", None) == kind
    if kind == "rate_limit_error":
        assert met.response.headers["retry-after"] == "3"
    if isinstance(error, ContextOverflow):
        assert met.api_message.startswith("prompt is too long")


def test_pages_and_models_that_are_not_there() -> None:
    async def work(server: Server, asking: Any) -> list[str]:
        met = [await failure(asking, model="other")]
        for page in (asking.beta.files.list(), asking.messages.batches.list()):
            with pytest.raises(anthropic.NotFoundError) as caught:
                await page
            met.append(caught.value)
        return [error.type for error in met]

    assert run(work, Book(any=fixed(Reply("x")))) == ["not_found_error"] * 3


def faulty(kind: str) -> Any:
    return of(bench.Bench(bench.chain(1), Profile(name="x", rates={kind: 1.0})))


@pytest.mark.parametrize(
    ("kind", "whole", "stream"),
    [
        ("provider.overloaded", anthropic.OverloadedError, anthropic.OverloadedError),
        ("provider.interrupted", anthropic.InternalServerError, anthropic.APIStatusError),
        ("provider.dropped", anthropic.APIConnectionError, anthropic.APIConnectionError),
        ("provider.cut", Exception, Exception),
        ("provider.garbled", Exception, Exception),
    ],
)
def test_faults_on_the_wire(kind: str, whole: type, stream: type) -> None:
    async def work(server: Server, asking: Any) -> list[Any]:
        met = []
        for asked in (asking.messages.create(**ASK), streamed(asking, **ASK)):
            with pytest.raises(Exception) as caught:  # noqa: PT011  # some leave the client as they come from its libraries
                await asked
            met.append(caught.value)
        return met

    met = run(work, Book(any=faulty(kind)))
    assert isinstance(met[0], whole)
    assert isinstance(met[1], stream)
    assert not isinstance(met[0], AssertionError)
