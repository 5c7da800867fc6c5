"""`--model anthropic/…` over loopback: our own client path and the server's Messages hold each other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from whichloop.models.local.model import open_model
from whichloop.models.real import RealModel, RealOptions
from whichloop.models.server import Server
from whichloop.protocol import (
    ContextOverflow,
    Message,
    NativeCall,
    ProviderError,
    Reply,
    Request,
    Sampling,
    ToolSpec,
    Usage,
)

from .served import Book, fixed

pytest.importorskip("dspy")

NAME = "claude-haiku-4-5"
TOOLS = (ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}}),)
CALLS = (NativeCall("call_0", "add", '{"a": 1, "b": "\u00e9"}'), NativeCall("call_1", "add", '{"a": 2}'))
TALK = Request(
    (
        Message("system", "Be brief."),
        Message("user", "1 + 1?"),
        Message("assistant", "Next.", CALLS),
        Message("tool", "2 [r:1]", call_id="call_0"),
        Message("tool", "no", call_id="call_1"),
        Message("assistant", "", CALLS[:1]),
        Message("tool", "2", call_id="call_0"),
        Message("user", "Hurry."),
    ),
    TOOLS,
    "add",
    None,
    Sampling(0.5, 9, None, None, ("END",)),
    parallel_calls=False,
)
ASK = Request((Message("user", "1 + 1?"),))


class Listed(Book):
    """Trials whose model has a name that price lists know."""

    def models(self) -> list[str]:
        return [NAME]


def asked(work: Callable[[RealModel], Awaitable[Any]], book: Book, **options: Any) -> Any:
    """Do some work with the model behind a server, under the address that Anthropic's clients take."""

    async def whole() -> Any:
        async with Server(book) as server:
            model = open_model(f"anthropic/{NAME}", server.url, RealOptions(**options))
            try:
                return await work(model)
            finally:
                await model.aclose()

    return asyncio.run(whole())


def test_what_is_sent_is_read_as_the_request_that_was_meant() -> None:
    book = Listed(any=fixed(Reply("", CALLS, Usage(30, 4), "tool_calls")))
    reply = asked(lambda model: model.complete(TALK), book)
    assert book.asked[0].request == TALK
    assert [json.loads(call.arguments) for call in reply.calls] == [json.loads(call.arguments) for call in CALLS]
    assert reply.finish_reason == "tool_calls"


def test_the_calls_of_a_reply_are_those_of_the_next_request() -> None:
    """Ids come back from the client as the vendor writes them, and are read as ours."""

    async def work(model: RealModel) -> None:
        reply = await model.complete(ASK)
        results = tuple(Message("tool", "2", call_id=call.id) for call in reply.calls)
        await model.complete(Request((*ASK.messages, Message("assistant", reply.text, reply.calls), *results)))

    book = Listed(any=fixed(Reply("Hm.", CALLS, Usage(30, 4), "tool_calls")))
    asked(work, book)
    assert book.asked[1].request.messages[1] == Message("assistant", "Hm.", CALLS)


def test_a_stream_has_arguments_as_they_were_said_and_the_price_of_the_whole() -> None:
    cut = NativeCall("call_0", "add", '{"a": 12345678901234567890, "b"')

    async def work(model: RealModel) -> list[Any]:
        chunks = [chunk async for chunk in model.stream(Request(ASK.messages, TOOLS))]
        return [model.is_priced, "".join(chunk.text for chunk in chunks), chunks[-1].reply]

    sent = fixed(Reply("Let me add.", (cut,), Usage(1_000_000, 100_000), "length"))
    is_priced, text, reply = asked(work, Listed(any=sent))
    assert text == reply.text == "Let me add."
    assert (reply.calls[0].arguments, reply.finish_reason) == (cut.arguments, "length")
    assert is_priced
    assert reply.usage.cost_usd == pytest.approx(1.0 + 0.1 * 5.0)  # Claude Haiku 4.5: 1 USD per million tokens in, 5 out


def test_limits_on_the_way_are_waited_for_and_told() -> None:
    """A refusal that may pass is asked again after the wait that its header names; the failures are kept."""
    failures: list[Exception | Reply] = [
        ProviderError("slow down", "rate_limit", retry_after_s=0.001),
        ProviderError("busy", "overloaded", retry_after_s=0.001),
        Reply("2", usage=Usage(3, 1)),
    ]

    class Recovering(Listed):
        """Trials that are another one with each request."""

        def find(self, trial: str | None, asked: Any) -> Any:
            return fixed(failures.pop(0))

    reply = asked(lambda model: model.complete(ASK), Recovering())
    assert (reply.text, reply.failed_attempts) == ("2", ("rate_limit", "overloaded"))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ProviderError("no key", "auth"), "auth"),
        (ProviderError("bad", "bad_request"), "bad_request"),
        (ProviderError("late", "timeout"), "timeout"),
        (ProviderError("broken", "server"), "server"),
    ],
)
def test_failures_have_their_kind_on_the_other_side(error: ProviderError, kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        asked(lambda model: model.complete(ASK), Listed(any=fixed(error)), attempts=1)
    assert caught.value.kind == kind


def test_a_request_beyond_the_context_is_known_as_one() -> None:
    with pytest.raises(ContextOverflow):
        asked(lambda model: model.complete(ASK), Listed(any=fixed(ContextOverflow("the context holds 8 tokens"))))


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
def test_an_address_may_end_before_the_version_or_after_it(end: str) -> None:
    async def work() -> str:
        async with Server(Listed(any=fixed(Reply("2", usage=Usage(3, 1))))) as server:
            model = open_model(f"anthropic/{NAME}", f"{server.url}{end}")
            try:
                return (await model.complete(ASK)).text
            finally:
                await model.aclose()

    assert asyncio.run(work()) == "2"
