"""The declarative face: streamed replies."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.loops.finish.module_helpers import SEARCH, AnswerOutput, Review, agent_of, contents, finish, native, says
from tests.loops.helpers import Script, python
from tests.rows import row
from whichloop.loops.finish import (
    Finish,
    Partial,
    StreamChunk,
)
from whichloop.protocol import (
    CallDelta,
    Capabilities,
    Chunk,
    ProviderError,
    Query,
    Reply,
    Request,
    StopReason,
    Toolbox,
    run_sync,
)


class Streaming:
    """Streams replies in pieces of a few characters."""

    name = "streaming"
    capabilities = Capabilities()

    def __init__(self, *replies: Reply, size: int = 4) -> None:
        self.replies = list(replies)
        self.size = size
        self.requests: list[Request] = []
        self.closed = 0

    async def complete(self, request: Request) -> Reply:
        raise AssertionError("on_stream is defined: replies are streamed")

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        reply = self.replies.pop(0)
        try:
            for start in range(0, len(reply.text), self.size):
                yield Chunk(reply.text[start : start + self.size])
            for index, call in enumerate(reply.calls):
                yield Chunk(call=CallDelta(index, call.id, call.name))
                for start in range(0, len(call.arguments), self.size):
                    yield Chunk(call=CallDelta(index, arguments=call.arguments[start : start + self.size]))
            yield Chunk(reply=reply)
        finally:
            self.closed += 1


def streamed(*replies: Reply, on_step: Any = None, size: int = 4, **attributes: Any) -> tuple[Any, list[StreamChunk]]:
    chunks: list[StreamChunk] = []
    model = Streaming(*replies, size=size)
    result = agent_of(model, on_step, lambda self, chunk: chunks.append(chunk), **attributes)(question="?")
    assert model.closed == len(model.requests)
    return result, chunks


DONE = says(native("__finish__", answer="Paris, of course", confidence=0.95), text="Let me answer.")


@pytest.mark.parametrize("size", [1, 4, 1000])
@row("S3-29", "S3-30", "S3-46")
def test_chunks_carry_text_partial_answer_or_call_and_the_last_is_done(size: int) -> None:
    looking = says(native("search", query="python creation"), text="I will look.")
    result, chunks = streamed(looking, DONE, size=size)
    assert result == AnswerOutput(answer="Paris, of course", confidence=0.95)
    assert "".join(chunk.content or "" for chunk in chunks) == "I will look.Let me answer."
    assert all(chunk.content is None for chunk in chunks if chunk.partial is not None or chunk.tool_call is not None)
    assert [index for index, chunk in enumerate(chunks) if chunk.done][-1] == len(chunks) - 1
    assert sum(chunk.done for chunk in chunks) == 2
    calls = [chunk.tool_call for chunk in chunks if chunk.tool_call is not None]
    assert calls[-1].name == "search"
    assert json.loads(calls[-1].arguments) == {"query": "python creation"}
    partials = [chunk.partial for chunk in chunks if chunk.partial is not None]
    kind: Any = Partial[AnswerOutput]
    assert all(isinstance(partial, kind) for partial in partials)
    assert partials[-1].model_dump() == result.model_dump()
    assert {partial.confidence for partial in partials} <= {None, 0.95}
    assert all("Paris, of course".startswith(partial.answer or "") for partial in partials)


@row("S3-31")
def test_text_then_calls_are_streamed_then_tools_run_then_on_step() -> None:
    order: list[str] = []

    def note() -> str:
        """Note that it ran."""
        order.append("tool")
        return ""

    def on_stream(self: Any, chunk: StreamChunk) -> None:
        order.append("done" if chunk.done else "text" if chunk.content else "call" if chunk.tool_call else "partial")

    model = Streaming(says(native("note"), text="Look"), finish())
    agent_of(model, lambda self, step: order.append("on_step"), on_stream, tools=[note])(question="?")
    assert order[: order.index("on_step") + 1] == ["text", "call", "call", "done", "tool", "on_step"]


@row("S3-46")
def test_a_reply_is_streamed_iff_on_stream_is_defined_and_the_forced_call_too() -> None:
    result, chunks = streamed(SEARCH, finish("late"), max_steps=1)
    assert result.answer == "late"
    assert sum(chunk.done for chunk in chunks) == 2
    assert chunks[-1].partial.answer == "late"

    class Unstreamed(Script):
        def stream(self, request: Request) -> Any:
            raise AssertionError("on_stream is not defined")

    assert agent_of(Unstreamed(finish()))(question="?").answer == "x"


@row("S3-46")
def test_a_model_that_streams_one_whole_chunk_gives_text_and_a_done_chunk() -> None:
    class Whole(Script):
        async def stream(self, request: Request) -> AsyncIterator[Chunk]:
            reply = await self.complete(request)
            yield Chunk(reply.text, reply=reply)

    chunks: list[StreamChunk] = []
    agent_of(Whole(Reply("hm"), DONE), None, lambda self, chunk: chunks.append(chunk))(question="?")
    assert [(chunk.content, chunk.done) for chunk in chunks] == [("hm", True), ("Let me answer.", False), (None, True)]
    assert chunks[-1].partial.answer == "Paris, of course"


@row("S3-46")
def test_a_last_chunk_with_a_piece_of_a_call_is_told_apart_and_is_done_once() -> None:
    class Hasty(Script):
        async def stream(self, request: Request) -> AsyncIterator[Chunk]:
            reply = await self.complete(request)
            call = reply.calls[0]
            yield Chunk("Look.", CallDelta(0, call.id, call.name, call.arguments), reply)

    chunks: list[StreamChunk] = []
    agent_of(Hasty(SEARCH, finish("ok")), None, lambda self, chunk: chunks.append(chunk))(question="?")
    assert [chunk.content for chunk in chunks] == ["Look.", None, None] * 2
    assert [chunk.done for chunk in chunks] == [False, False, True] * 2
    assert chunks[1].tool_call is not None
    assert chunks[1].tool_call.name == "search"
    assert chunks[5].partial.answer == "ok"


@pytest.mark.parametrize("is_async", [True, False])
@row("S3-46", "S3-17")
def test_on_stream_that_raises_aborts_and_the_stream_is_closed(is_async: bool) -> None:
    def plain(self: Any, chunk: StreamChunk) -> None:
        raise OSError("pipe")

    async def later(self: Any, chunk: StreamChunk) -> None:
        raise OSError("pipe")

    async def main() -> None:
        model = Streaming(DONE)
        with pytest.raises(OSError, match="pipe") as caught:
            await agent_of(model, None, later if is_async else plain).acall(question="?")
        assert (model.closed, len(model.requests)) == (1, 1), caught  # at once, not when the exception is let go

    run_sync(main())
    loop = Finish(on_stream=lambda chunk: 1 / 0)
    assert run_sync(loop.run(Query("Q"), Toolbox(), Streaming(DONE))).stop is StopReason.TERMINATED
    assert StopReason.TERMINATED in loop.stops


@row("S3-46")
def test_a_stream_without_a_reply_is_a_provider_error() -> None:
    class Cut(Streaming):
        async def stream(self, request: Request) -> AsyncIterator[Chunk]:
            yield Chunk("half")

    with pytest.raises(ProviderError, match="without a reply"):
        agent_of(Cut(), None, lambda self, chunk: None)(question="?")


@row("S3-29")
def test_under_a_json_schema_the_partial_answer_is_a_dict() -> None:
    chunks: list[StreamChunk] = []
    outcome = run_sync(Finish(on_stream=chunks.append).run(Query("Q"), Toolbox(), Streaming(finish("long text"), size=5)))
    assert outcome.answer == "long text"
    partials = [chunk.partial for chunk in chunks if chunk.partial]
    assert partials[-1] == {"answer": "long text"}
    assert any(partial["answer"] in "long text" and partial != partials[-1] for partial in partials)


@row("S3-35")
def test_on_stream_can_branch_into_a_scope_of_its_own() -> None:
    class Talking(Streaming):
        async def complete(self, request: Request) -> Reply:
            self.requests.append(request)
            return finish("child")

    def on_stream(self: Any, chunk: StreamChunk) -> None:
        if chunk.done:
            got.append((self.branch(Review).answer, len(self.history)))

    got: list[Any] = []
    model = Talking(DONE)
    agent_of(model, None, on_stream)(question="?")
    assert got == [("child", 2)]
    assert [request.scope for request in model.requests] == ["", "/Review"]


@row("B3-24")
def test_a_branch_in_on_stream_inherits_a_text_without_calls() -> None:
    def on_stream(self: Any, chunk: StreamChunk) -> None:
        if chunk.done and len(self.history) > 2:
            self.branch(Review)

    model = Script(Reply("Let me think."), finish("ok"), finish("child"))
    agent_of(model, None, on_stream)(question="?")
    child = model.requests[-1]
    assert child.scope == "/Review"
    assert contents(child, "assistant") == ["Let me think."]


def test_importing_the_design_loads_neither_dspy_nor_jsonschema() -> None:
    done = python(
        "import sys, whichloop.loops.finish as f\nprint([n for n in ('dspy', 'jsonschema', 'mlflow') if n in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stderr
    assert "whichloop.loops.finish" in sys.modules
