"""Strict JSON both ways."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.protocol import Inexpressible, NativeCall, Reply, ToolCall, WireError
from whichloop.protocol.wire import from_json, native_call, read_call, read_once, to_json

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_any_json_comes_back_as_it_was(value: Any) -> None:
    assert from_json(to_json(value)) == value


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, (1, 2), {1: 2}, {1}, b"b", object(), [math.nan], {"a": (1,)}],
    ids=lambda value: type(value).__name__,
)
def test_what_json_lacks_cannot_be_said(value: Any) -> None:
    with pytest.raises(Inexpressible):
        to_json(value)


@given(st.text(max_size=30))
def test_any_text_is_json_or_a_value_error(text: str) -> None:
    try:
        value = from_json(text)
    except ValueError:
        return
    assert from_json(to_json(value)) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NaN", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("1e999", "1e999 is out of range"),
        ("{", "line 1"),
        ("", "line 1"),
        ("[" * 100_000, "too deep"),
    ],
)
def test_what_is_no_json_says_why(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        from_json(text)


@given(st.text(max_size=20))
def test_any_arguments_are_an_object_or_a_wire_error(arguments: str) -> None:
    try:
        call = read_call(NativeCall("1", "add", arguments))
    except WireError:
        return
    assert (call.name, call.call_id) == ("add", "1")
    assert read_call(native_call(call)) == call


def test_a_call_in_a_provider_s_form() -> None:
    assert native_call(ToolCall("add", {"a": "é"}), 2) == NativeCall("call_2", "add", '{"a": "é"}')
    with pytest.raises(Inexpressible):
        native_call(ToolCall("add", {"a": {1, 2}}))


# --- a reply is read once ---


class Reader:
    """Reads a reply's text as JSON, and counts."""

    def __init__(self) -> None:
        self.reads = 0

    @read_once
    def parse(self, reply: Reply) -> Any:
        self.reads += 1
        return from_json(reply.text)


def test_the_second_of_two_readers_gets_what_the_first_found_and_a_third_reads_again() -> None:
    reader, reply = Reader(), Reply('{"a": [1]}')
    first, second = reader.parse(reply), reader.parse(reply)
    assert first is second
    assert reader.reads == 1
    third = reader.parse(reply)
    assert third == first
    assert third is not first
    assert reader.parse(reply=reply) == first


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=30))
def test_in_any_order_each_reader_gets_what_its_reply_says(course: list[tuple[int, int]]) -> None:
    readers = [Reader(), Reader()]
    replies = [Reply("[0]"), Reply("[1]"), Reply("[1]")]
    for reader, number in course:
        assert readers[reader].parse(replies[number]) == json.loads(replies[number].text)


def test_what_cannot_be_read_fails_each_time() -> None:
    reader, reply = Reader(), Reply("no JSON")
    for reads in (1, 2, 3):
        with pytest.raises(ValueError, match="Expecting value"):
            reader.parse(reply)
        assert reader.reads == reads


def test_what_was_written_is_read_into_a_value_of_the_reader_s_own() -> None:
    value = {"a": [1, 2.5, None]}
    text = to_json(value)
    first, second = from_json(text), from_json(text)
    assert first == second == value
    first["a"].append("changed")
    assert second == value == from_json(text)
