"""Streams of real models: they add up to the reply, and may break anywhere."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.local.model import open_model
from whichloop.protocol import (
    ModelError,
    NativeCall,
    ProviderError,
    Reply,
)

from .provider import (
    EACH,
    HELLO,
    NAME,
    NAMES,
    CannedAnswer,
    SeenRequest,
    Server,
    _read,
    ask_once,
    failure,
    frame,
    frames_of,
    in_turn,
    read_once,
    serving,
)

REPLIES = st.builds(
    Reply,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.lists(st.builds(NativeCall, NAMES, NAMES, st.text(max_size=40)), max_size=3).map(tuple),
).map(lambda reply: replace(reply, finish_reason="tool_calls") if reply.calls else reply)


@EACH
@given(reply=REPLIES, usage=st.booleans())
def test_a_stream_adds_up_to_the_reply_that_was_sent(shared, reply, usage):
    shared.rule = lambda heard: CannedAnswer(None, frames=frames_of(reply, usage=usage))
    *chunks, last = read_once(shared)
    assert last.reply is not None
    assert (last.text, last.call) == ("", None)
    assert not any(chunk.reply for chunk in chunks)
    assert (last.reply.text, last.reply.calls, last.reply.finish_reason) == (reply.text, reply.calls, reply.finish_reason)
    assert "".join(chunk.text for chunk in chunks) == reply.text
    counted = last.reply.usage
    assert (counted and (counted.input_tokens, counted.output_tokens, counted.cached_tokens)) == ((11, 5, 4) if usage else None)
    assert shared.seen[-1].body["stream"] is True


@pytest.mark.parametrize(
    ("frames", "cut", "kind"),
    [
        ([frame({"content": "a"})], True, "connection"),
        ([frame({"content": "a"})], False, "connection"),
        ([], False, "server"),
        ([], True, "connection"),
        ([frame({"content": "a"}), "{no json", "[DONE]"], False, "server"),
        ([frame({"content": "a"}), {"error": {"message": "oops", "type": "server_error", "code": None}}], False, "server"),
    ],
    ids=["cut", "no end", "nothing", "cut at once", "garbled", "error"],
)
def test_a_broken_stream_is_an_error(shared, frames, cut, kind):
    shared.rule = lambda heard: CannedAnswer(None, frames=frames, cut=cut)
    with pytest.raises(ProviderError) as caught:
        read_once(shared)
    assert caught.value.kind == kind
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("said", [failure(401, "no"), failure(400, "long", "context_length_exceeded"), failure(500, "oops")])
def test_a_stream_that_is_refused_fails_as_a_whole_reply_does(shared, said):
    shared.rule = lambda heard: said
    errors = []
    for attempt in (ask_once, read_once):
        with pytest.raises(ModelError) as caught:
            attempt(shared)
        errors.append(caught.value)
    assert [type(error) for error in errors] == [type(errors[0])] * 2
    assert str(errors[0]) == str(errors[1])


def test_a_stream_that_fails_at_once_is_tried_again():
    told = CannedAnswer(None, frames=frames_of(Reply("at last")))
    with serving(in_turn(failure(503, "busy"), told)) as server:
        reply = asyncio.run(_read(open_model(NAME, server.url), HELLO))[-1].reply
    assert reply is not None
    assert (reply.text, reply.failed_attempts) == ("at last", ("overloaded",))


def test_closing_a_stream_early_closes_its_connection():
    def endless(heard: SeenRequest) -> CannedAnswer:
        return CannedAnswer(None, frames=(frame({"content": "x" * 1000}) for _ in range(1_000_000)))

    async def read_a_little(server: Server) -> int:
        model = open_model(NAME, server.url)
        read = 0
        async with aclosing(model.stream(HELLO)) as chunks:
            async for _ in chunks:
                read += 1
                if read == 3:
                    break
        assert await asyncio.to_thread(server.left.wait, 20)
        await model.aclose()
        return read

    with serving(endless) as server:
        assert asyncio.run(read_a_little(server)) == 3
