"""The public fake model: it gives listed answers."""

from __future__ import annotations

import asyncio

import pytest

from whichloop.loops.bare import Bare
from whichloop.loops.finish import Finish
from whichloop.loops.stateless import Stateless
from whichloop.models.fake import FakeModel
from whichloop.protocol import (
    Act,
    Answer,
    Capabilities,
    Message,
    NativeCall,
    ProviderError,
    Query,
    Reply,
    Request,
    StopReason,
    Text,
    Tool,
    Toolbox,
    ToolCall,
    Usage,
    run_sync,
)


def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


TOOLS = Toolbox([Tool.from_function(add, blocking=False)])
SUM = Act("Add them.", (ToolCall("add", {"a": 2, "b": 3}),))


def test_moves_are_written_in_the_format_of_the_request() -> None:
    model = FakeModel(SUM, Answer("That is it.", "5"))
    outcome = run_sync(Bare().run(Query("2 + 3?"), TOOLS, model))
    assert (outcome.answer, outcome.stop) == ("5", StopReason.FINISHED)
    assert [request.messages[-1].content for request in model.requests] == [
        "2 + 3?",
        '{"status": "success", "data": "5", "tool_name": "add"}',
    ]


def test_whole_replies_and_errors_are_given_as_they_are() -> None:
    model = FakeModel(Reply("no JSON"), ProviderError("down"), SUM)
    outcome = run_sync(Bare().run(Query("2 + 3?"), TOOLS, model))
    assert outcome.stop is StopReason.PROVIDER_ERROR
    assert len(model.requests) == 2


def test_a_list_that_is_too_short_says_so() -> None:
    with pytest.raises(LookupError, match=r"request 2 \(role decide\) has no item: the list has 1"):
        run_sync(Bare().run(Query("2 + 3?"), TOOLS, FakeModel(SUM)))


def test_what_a_format_wants_of_a_move_is_said_in_its_own_words() -> None:
    with pytest.raises(ValueError, match=r"^item 1 .* with Answer.*: it takes an Act, or an Answer with a confidence, .*$"):
        Stateless().run_sync(Query("?"), Toolbox([]), FakeModel(Answer("", "ok")))


def test_a_move_that_the_format_cannot_express_is_named() -> None:
    with pytest.raises(
        ValueError,
        match=r"^item 1 cannot answer request 1, .* bare.json, with Text\(text='hello'\): .+$",
    ):
        run_sync(Bare().run(Query("2 + 3?"), TOOLS, FakeModel(Text("hello"))))
    with pytest.raises(ValueError, match=r"^then cannot answer request 2, .*: only calls and an answer .* alone$"):
        run_sync(Finish(max_steps=1).run(Query("2 + 3?"), TOOLS, FakeModel(then=SUM)))


def test_without_a_codec_moves_are_native_calls_and_streams_add_up() -> None:
    async def streamed() -> list[str]:
        request = Request((Message("user", "2 + 3?"),))
        return [chunk.call.arguments async for chunk in FakeModel(SUM).stream(request) if chunk.call is not None]

    reply = run_sync(FakeModel(SUM).complete(Request((Message("user", "2 + 3?"),))))
    assert reply.calls == (NativeCall("call_0", "add", '{"a": 2, "b": 3}'),)
    assert "".join(run_sync(streamed())) == reply.calls[0].arguments
    assert reply.usage is not None
    assert reply.usage.estimated


def ask(text: str = "2 + 3?") -> Request:
    return Request((Message("user", text),))


def test_a_whole_reply_keeps_its_usage_and_a_text_gets_an_estimate() -> None:
    whole = Reply("5", usage=Usage(7, 1, cost_usd=0.5))
    model = FakeModel(whole, Reply("6"), "7")
    replies = [run_sync(model.complete(ask())) for _ in model.items]
    assert replies[:2] == [whole, Reply("6")]
    assert replies[2].text == "7"
    assert replies[2].usage is not None
    assert replies[2].usage.estimated


def test_a_function_answers_by_the_request_and_then_follows_the_list() -> None:
    async def slowly(request: Request) -> str:
        await asyncio.sleep(0)
        return f"slowly: {request.messages[-1].content}"

    def fails(request: Request) -> Exception:
        return ProviderError(f"down for {request.messages[-1].content}")

    model: FakeModel = FakeModel(slowly, fails, then=lambda request: Reply(f"{len(model.requests)}"))
    assert run_sync(model.complete(ask("a"))).text == "slowly: a"
    with pytest.raises(ProviderError, match="down for b"):
        run_sync(model.complete(ask("b")))
    assert [run_sync(model.complete(ask(text))).text for text in "cd"] == ["3", "4"]
    assert [request.messages[-1].content for request in model.requests] == ["a", "b", "c", "d"]


def test_errors_of_every_kind_are_raised_and_may_be_what_follows() -> None:
    model = FakeModel(KeyboardInterrupt(), then=ProviderError("down"))
    with pytest.raises(KeyboardInterrupt):
        run_sync(model.complete(ask()))
    for _ in range(2):
        with pytest.raises(ProviderError, match="down"):
            run_sync(model.complete(ask()))


def test_name_and_capabilities_are_given() -> None:
    model = FakeModel(name="quick", capabilities=Capabilities(streaming=False))
    assert (model.name, model.capabilities.streaming, FakeModel().name) == ("quick", False, "fake")
