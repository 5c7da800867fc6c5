"""Offline token counts, and the codec of native calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import Message, NativeCall, Reply, Request, ToolCall, ToolSpec, Usage
from whichloop.protocol.model import MESSAGE_OVERHEAD, estimate_input, estimate_tokens, estimate_usage, tool_tokens
from whichloop.protocol.moves import Act, Answer, Completion, Inexpressible, Recovery, Tasks, Text, Understanding, WireError

LAW = settings(max_examples=cases(40), deadline=None)


@LAW
@given(st.text(max_size=50), st.text(max_size=50))
def test_a_text_s_estimate_grows_with_it(one: str, other: str) -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens(one) <= estimate_tokens(one + other) <= estimate_tokens(one) + estimate_tokens(other)
    assert estimate_tokens(one + "x") >= 1
    assert [estimate_tokens("x" * length) for length in (1, 4, 5, 400)] == [1, 1, 2, 100]


TOOL = ToolSpec("add", "The sum of two.", {"type": "object", "properties": {"a": {"type": "number"}}})


def test_all_that_a_request_shows_counts() -> None:
    messages = (Message("system", "x" * 40), Message("assistant", "", (NativeCall("1", "add", '{"a": 1}'),)))
    plain = estimate_input(Request(messages))
    assert plain == 10 + 1 + 2 + 2 * MESSAGE_OVERHEAD
    assert estimate_input(Request(messages, (TOOL, TOOL))) == plain + 2 * tool_tokens(TOOL)
    schema = {"type": "object", "properties": {"answer": {"type": "number"}}}
    assert estimate_input(Request(messages, response_schema=schema)) > plain + 10
    assert estimate_input(Request(messages, tool_choice="add", scope="x")) == plain
    reply = Reply("x" * 8, (NativeCall("1", "add", '{"a": 1}'),))
    assert estimate_usage(7, reply) == Usage(7, 2 + 1 + 2, estimated=True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
CALLS = st.builds(ToolCall, st.text(max_size=5), st.dictionaries(st.text(max_size=4), JSON, max_size=3))
TEXT = st.text(max_size=10)
MOVES = st.one_of(
    st.builds(Act, TEXT, st.lists(CALLS, max_size=3).map(tuple)),
    st.builds(Answer, TEXT, JSON, st.none() | st.floats(0, 1)),
    st.builds(Answer, st.just(""), TEXT),
    st.builds(Text, TEXT),
    st.builds(Tasks, st.just(())),
    st.builds(Completion, st.booleans()),
    st.builds(Understanding, TEXT),
    st.builds(Recovery, st.just("skip")),
)


@LAW
@given(MOVES)
def test_a_move_comes_back_as_it_was_or_cannot_be_said(move: Any) -> None:
    try:
        reply = NATIVE.render(move)
    except Inexpressible:
        plain = isinstance(move, Answer) and isinstance(move.value, str) and not move.thought and move.confidence is None
        assert not plain
        assert not (isinstance(move, Act) and move.calls)
    else:
        assert NATIVE.parse(reply) == move
        assert all(json.loads(call.arguments) is not None for call in reply.calls)


@pytest.mark.parametrize("arguments", [{"a": {1}}, {"a": float("nan")}, {"a": (1, 2)}, {1: 2}, {"a": object()}])
def test_arguments_that_json_does_not_give_back_cannot_be_said(arguments: Any) -> None:
    with pytest.raises(Inexpressible, match="arguments"):
        NATIVE.render(Act("", (ToolCall("add", arguments),)))


def test_raw_arguments_that_are_no_object_are_a_wire_error() -> None:
    for raw in ('{"a": 1', "[1]", "null", "nope", "[" * 100_000):
        with pytest.raises(WireError, match="The arguments of add"):
            NATIVE.parse(Reply("", (NativeCall("1", "add", raw),)))


def test_calls_keep_their_ids_and_empty_arguments_are_none() -> None:
    move = NATIVE.parse(Reply("why", (NativeCall("x", "add", ""), NativeCall("y", "add", '{"a": 1}'))))
    assert move == Act("why", (ToolCall("add", {}), ToolCall("add", {"a": 1})))
    assert isinstance(move, Act)
    assert [call.call_id for call in move.calls] == ["x", "y"]
    reply = NATIVE.render(move)
    assert (reply.finish_reason, len({call.id for call in reply.calls})) == ("tool_calls", 2)
    assert NATIVE.render(Answer("", "done")) == Reply("done")
