"""The model that makes the moves it is told to."""

from __future__ import annotations

import pytest

from loopbench.loops.bare import Bare
from loopbench.models.fake import FakeModel
from loopbench.protocol import (
    Act,
    Answer,
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
    run_sync,
)


def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


TOOLS = Toolbox([Tool.from_function(add, blocking=False)])
SUM = Act("Add them.", (ToolCall("add", {"a": 2, "b": 3}),))


def test_moves_are_said_in_the_format_that_is_asked_for() -> None:
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
    with pytest.raises(LookupError, match=r"asked 2 times \(now to decide\), but 1 items are listed"):
        run_sync(Bare().run(Query("2 + 3?"), TOOLS, FakeModel(SUM)))


def test_a_move_that_the_format_cannot_say_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"item 1 cannot be said in the format bare.json, which lacks: a Text. It is Text\(text='hello'\)"
    ):
        run_sync(Bare().run(Query("2 + 3?"), TOOLS, FakeModel(Text("hello"))))


def test_without_a_codec_moves_are_native_calls_and_streams_add_up() -> None:
    async def streamed() -> list[str]:
        request = Request((Message("user", "2 + 3?"),))
        return [chunk.call.arguments async for chunk in FakeModel(SUM).stream(request) if chunk.call is not None]

    reply = run_sync(FakeModel(SUM).complete(Request((Message("user", "2 + 3?"),))))
    assert reply.calls == (NativeCall("call_0", "add", '{"a": 2, "b": 3}'),)
    assert "".join(run_sync(streamed())) == reply.calls[0].arguments
    assert reply.usage is not None
    assert reply.usage.estimated
