"""Limits that a request sets on its reply."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whichloop.models.server.answers import within_limits
from whichloop.protocol import NativeCall, Reply, Sampling, Usage
from whichloop.protocol.tokens import estimate_usage

from . import bench
from .served import BODY, Book, fixed, of, run, specs

texts = st.text(st.sampled_from("ab \n."), max_size=40)
calls = st.builds(NativeCall, st.sampled_from(["call_0", "call_1"]), st.sampled_from(["add", "concatenate"]), texts)


def counted(text: str, made: list[NativeCall]) -> Reply:
    reply = Reply(text, tuple(made), None, "tool_calls" if made else "stop")
    return Reply(text, tuple(made), estimate_usage(3, reply), reply.finish_reason)


replies = st.builds(counted, texts, st.lists(calls, max_size=3))


def output_tokens(reply: Reply) -> int:
    assert reply.usage is not None
    return reply.usage.output_tokens


# --- laws ---


@given(replies, st.integers(1, 30))
@example(counted("a b ", [NativeCall("call_0", "add", "{}"), NativeCall("call_1", "concatenate", "{} {} {} {}")]), 4)
def test_a_reply_has_no_more_tokens_than_allowed_and_begins_as_the_whole_one(reply: Reply, limit: int) -> None:
    kept, _ = within_limits(reply, Sampling(max_tokens=limit))
    assert estimate_usage(0, kept).output_tokens <= limit
    assert reply.text.startswith(kept.text)
    assert not kept.calls or kept.text == reply.text
    for ours, whole in zip(kept.calls, reply.calls, strict=False):
        assert (ours.id, ours.name) == (whole.id, whole.name)
        assert whole.arguments.startswith(ours.arguments)
    assert kept.calls[:-1] == reply.calls[: max(0, len(kept.calls) - 1)]  # only the last may be cut
    assert (kept is reply) if output_tokens(reply) <= limit else (kept.finish_reason == "length")


@given(replies, st.lists(st.text(st.sampled_from("ab ."), min_size=1, max_size=3), min_size=1, max_size=4))
def test_a_reply_ends_before_the_first_stop_sequence_in_its_text(reply: Reply, stops: list[str]) -> None:
    kept, stopped_at = within_limits(reply, Sampling(stop=tuple(stops)))
    assert not any(stop in kept.text for stop in stops)
    if any(stop in reply.text for stop in stops):
        assert stopped_at in stops
        assert reply.text.startswith(kept.text + stopped_at)
        assert (kept.calls, kept.finish_reason) == ((), "stop")
    else:
        assert kept is reply
        assert stopped_at == ""


@given(replies)
def test_without_limits_a_reply_is_left_alone(reply: Reply) -> None:
    assert within_limits(reply, Sampling())[0] is reply


# --- over HTTP ---


async def asked(asking: Any, stream: bool, **more: Any) -> tuple[str, str, list[str], int]:
    """The reply's text, reason to finish, arguments of its calls, and tokens."""
    if not stream:
        made = await asking.chat.completions.create(**BODY, **more)
        message = made.choices[0].message
        arguments = [call.function.arguments for call in message.tool_calls or ()]
        return message.content or "", made.choices[0].finish_reason, arguments, made.usage.completion_tokens
    text, finish, tokens = "", "", 0
    found: dict[int, str] = {}
    async for chunk in await asking.chat.completions.create(**BODY, **more, stream=True, stream_options={"include_usage": True}):
        tokens = chunk.usage.completion_tokens if chunk.usage else tokens
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for call in choice.delta.tool_calls or ():
                found[call.index] = found.get(call.index, "") + (call.function.arguments or "")
    return text, finish, list(found.values()), tokens


SAID = Reply("One two three. END Four.", usage=Usage(5, 6, estimated=True))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("more", "reply"),
    [
        ({}, ("One two three. END Four.", "stop", [], 6)),
        ({"max_tokens": 2}, ("One two ", "length", [], 2)),
        ({"max_completion_tokens": 2}, ("One two ", "length", [], 2)),
        ({"stop": "END"}, ("One two three. ", "stop", [], 4)),
        ({"stop": ["END", "two"], "max_tokens": 3}, ("One ", "stop", [], 1)),
    ],
)
def test_max_tokens_and_stop_are_kept(more: dict[str, Any], reply: Any, stream: bool) -> None:
    assert run(lambda server, asking: asked(asking, stream, **more), Book(any=fixed(SAID))) == reply


def test_a_loop_that_names_its_codec_gets_the_whole_reply() -> None:
    """It gets what it gets in a comparison, where the scripted model knows no limit."""
    book = Book(any=of(bench.Bench(bench.chain(1))))
    more = {"tools": specs(bench.Bench(bench.chain(1))), "max_tokens": 1, "metadata": {"codec": "native"}}
    assert run(lambda server, asking: asked(asking, False, **more), book)[1] == "tool_calls"
