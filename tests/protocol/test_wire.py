"""Strict JSON both ways."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.protocol import Inexpressible, NativeCall, ToolCall, WireError
from whichloop.protocol.wire import from_json, native_call, read_call, to_json

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
