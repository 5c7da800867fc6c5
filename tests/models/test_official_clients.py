"""The vendors' own clients against the server: whole trials, streams, typed replies, failures, and what only one of them has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import anthropic
import httpx
import openai
import pytest
from google import genai

from whichloop.models.server import Server
from whichloop.protocol import ContextOverflow, ProviderError, Reply, ToolCall, Usage

from . import bench
from .served import QUESTION, Book, client, failure, fixed, of, run, specs, struck

LIMIT = 9
"""Most replies of a loop."""


class Official:
    """One vendor's client: `whole` and `stream` give the text of a reply, `parsed` what it reads of a reply after a schema, and
    `loop` the answer of a while loop as anyone writes it, on the trial's tools."""

    failed: ClassVar[type[Exception]]
    """What all errors of the client are."""


class Chat(Official):
    failed = openai.OpenAIError

    @asynccontextmanager
    async def opened(self, server: Server) -> AsyncIterator[Any]:
        async with client(server) as asking:
            yield asking

    def ask(self, **more: Any) -> dict[str, Any]:
        return {"model": "scripted", "messages": [{"role": "user", "content": QUESTION}]} | more

    async def whole(self, asking: Any, **more: Any) -> Any:
        return (await asking.chat.completions.create(**self.ask(**more))).choices[0].message.content or ""

    async def stream(self, asking: Any, **more: Any) -> Any:
        async with asking.chat.completions.stream(**self.ask(**more)) as stream:
            return (await stream.get_final_completion()).choices[0].message.content or ""

    async def loop(self, asking: Any, trial: Any) -> Any:
        messages: list[Any] = self.ask()["messages"]
        for _ in range(LIMIT):
            message = (await asking.chat.completions.create(**self.ask(messages=messages, tools=specs(trial)))).choices[0].message
            if not message.tool_calls:
                return message.content
            messages = [*messages, message.model_dump(exclude_none=True)]
            for call in message.tool_calls:
                seen = await trial.toolbox.call(ToolCall(call.function.name, json.loads(call.function.arguments), call.id))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": seen.data})
        return None


class Responses(Chat):
    def ask(self, **more: Any) -> dict[str, Any]:
        return {"model": "scripted", "input": QUESTION} | more

    async def whole(self, asking: Any, **more: Any) -> Any:
        return (await asking.responses.create(**self.ask(**more))).output_text

    async def stream(self, asking: Any, **more: Any) -> Any:
        async with asking.responses.stream(**self.ask(**more)) as stream:
            return (await stream.get_final_response()).output_text

    async def loop(self, asking: Any, trial: Any) -> Any:
        """In streams, with the items that the client keeps itself."""
        tools = [{"type": "function", **spec["function"]} for spec in specs(trial)]
        items: list[Any] = [{"role": "user", "content": QUESTION}]
        for _ in range(LIMIT):
            async with asking.responses.stream(model="scripted", input=items, tools=tools, store=False) as answer:
                made = await answer.get_final_response()
            items += [item.model_dump(exclude={"parsed_arguments"}, exclude_none=True) for item in made.output]
            calls = [item for item in made.output if item.type == "function_call"]
            if not calls:
                return made.output_text
            for call in calls:
                seen = await trial.toolbox.call(ToolCall(call.name, json.loads(call.arguments), call.call_id))
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": seen.data})
        return None


class Messages(Official):
    failed = anthropic.AnthropicError

    @asynccontextmanager
    async def opened(self, server: Server) -> AsyncIterator[Any]:
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key="none", max_retries=0, timeout=30) as asking:
            yield asking

    def ask(self, **more: Any) -> dict[str, Any]:
        return {"model": "scripted", "max_tokens": 999, "messages": [{"role": "user", "content": QUESTION}]} | more

    async def whole(self, asking: Any, **more: Any) -> Any:
        return (await asking.messages.create(**self.ask(**more))).content[0].text

    async def stream(self, asking: Any, **more: Any) -> Any:
        async with asking.messages.stream(**self.ask(**more)) as stream:
            return "".join([piece async for piece in stream.text_stream])

    async def loop(self, asking: Any, trial: Any) -> Any:
        messages: list[Any] = self.ask()["messages"]
        tools = [{"name": t.name, "description": t.description, "input_schema": t.parameters} for t in trial.toolbox.specs]
        for _ in range(LIMIT):
            async with asking.messages.stream(**self.ask(messages=messages, tools=tools)) as answer:
                message = await answer.get_final_message()
            calls = [block for block in message.content if block.type == "tool_use"]
            if not calls:
                return message.content[0].text
            results = []
            for call in calls:
                seen = await trial.toolbox.call(ToolCall(call.name, call.input, call.id))
                results.append({"type": "tool_result", "tool_use_id": call.id, "content": seen.data, "is_error": not seen.ok})
            messages = [*messages, message.to_param(), {"role": "user", "content": results}]
        return None


class Gemini(Official):
    failed = genai.errors.APIError

    @asynccontextmanager
    async def opened(self, server: Server) -> AsyncIterator[Any]:
        async with httpx.AsyncClient(verify=False, timeout=30) as http:  # with aiohttp, its other choice, it meets a warning
            options = genai.types.HttpOptions(base_url=server.url, timeout=30_000, httpx_async_client=http)
            yield genai.Client(api_key="none", http_options=options).aio

    async def whole(self, asking: Any, **more: Any) -> Any:
        return (await asking.models.generate_content(model="scripted", contents=QUESTION, **more)).text

    async def stream(self, asking: Any, **more: Any) -> Any:
        chunks = await asking.models.generate_content_stream(model="scripted", contents=QUESTION, **more)
        return "".join([chunk.text or "" async for chunk in chunks])


CLIENTS: dict[str, Any] = {"chat": Chat(), "responses": Responses(), "messages": Messages(), "gemini": Gemini()}


def asking(vendor: str, book: Any, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """Let a vendor's client, the asynchronous one, do some work against a server of its own."""

    async def whole() -> Any:
        async with Server(book) as server, CLIENTS[vendor].opened(server) as opened:
            return await work(opened)

    return asyncio.run(whole())


vendors = pytest.mark.parametrize("vendor", CLIENTS)
SAID = Reply("It is  4.", usage=Usage(12, 3))


@pytest.mark.parametrize("vendor", ["chat", "responses", "messages"])
def test_the_official_client_goes_through_a_whole_trial(vendor: str) -> None:
    """Chat completions whole, the others in streams; Google's does so in tests/experiments/serve/test_gemini.py."""
    trial = bench.Bench(bench.chain(3))
    book = Book(any=of(trial, tools=("add", "concat", "reject")))
    assert asking(vendor, book, lambda opened: CLIENTS[vendor].loop(opened, trial)) == trial.expected
    assert trial.tunnel.unknown == ()
    ids = [call.id for message in book.asked[-1].request.messages for call in message.calls]
    assert len(ids) == len(set(ids)) == 3


@vendors
def test_a_text_is_the_same_whole_and_streamed(vendor: str) -> None:
    async def work(opened: Any) -> list[Any]:
        return [await CLIENTS[vendor].whole(opened), await CLIENTS[vendor].stream(opened)]

    assert asking(vendor, Book(any=fixed(SAID)), work) == [SAID.text] * 2


MET: dict[str, tuple[Any, Any, Any]] = {
    "chat": (openai.RateLimitError, openai.BadRequestError, openai.InternalServerError),
    "responses": (openai.RateLimitError, openai.BadRequestError, openai.InternalServerError),
    "messages": (anthropic.RateLimitError, anthropic.BadRequestError, anthropic.InternalServerError),
    "gemini": ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "INTERNAL"),
}
"""Class of the error, or its status. What each failure is on each wire: test_wires.py."""
FAILURES = (ProviderError("no", "rate_limit", retry_after_s=3.0), ContextOverflow("9 of 8"), RuntimeError("secret"))


@vendors
def test_a_failure_is_raised_as_the_vendors_own_whole_and_in_a_stream(vendor: str) -> None:
    own = CLIENTS[vendor]

    async def work(opened: Any) -> list[Any]:
        met = []
        for ask in (own.whole, own.stream):
            with pytest.raises(own.failed) as caught:
                await ask(opened)
            met.append(caught.value)
        return met

    for said, expected in zip(FAILURES, MET[vendor], strict=True):
        for raised in asking(vendor, Book(any=fixed(said)), work):
            assert "secret" not in str(raised)
            assert (raised.status if vendor == "gemini" else type(raised)) == expected
            if said is FAILURES[0]:
                assert "retry in 3s" in raised.message if vendor == "gemini" else raised.response.headers["retry-after"] == "3"


@vendors
def test_a_garbled_stream_is_an_error_of_the_client_and_not_its_end(vendor: str) -> None:
    with pytest.raises((json.JSONDecodeError, genai.errors.UnknownApiResponseError)):
        asking(vendor, Book(any=struck("provider.garbled")), CLIENTS[vendor].stream)


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


def test_tokens_are_counted_without_asking_the_model() -> None:
    book = Book(any=fixed(SAID))
    talk = [{"role": "user", "content": QUESTION}]
    counted = asking("messages", book, lambda opened: opened.messages.count_tokens(model="scripted", messages=talk))
    assert counted.input_tokens == 8
    counted = asking("gemini", book, lambda opened: opened.models.count_tokens(model="scripted", contents="How are you there?"))
    assert counted.total_tokens > 0
    assert book.asked == []
