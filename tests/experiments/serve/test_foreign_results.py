"""What the text of a program's own tool means."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.datasets import calculator
from whichloop.experiments.serve.trials import is_error, read_result, same_result, unwrapped

FUNCTIONS = {tool.name: tool.function for tool in calculator.TOOLS}
MORE = "One of them is not enough."

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["data", "result", "text", "status", "ok", "other"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_the_same_however_it_is_written(number):
    for text in (json.dumps(number), json.dumps(json.dumps(number)), f" {number} "):
        assert same_result(read_result(text), number)
        assert not is_error(text)


@pytest.mark.parametrize(
    ("value", "held"),
    [
        ({"status": "success", "data": "180", "tool_name": "multiply"}, 180),
        ({"result": {"value": 3}}, 3),
        ([{"type": "text", "text": "3.5"}], 3.5),
        ({"status": "shipped", "order": 17}, {"status": "shipped", "order": 17}),
        ({"data": 1, "value": 2}, {"data": 1, "value": 2}),
        ([{"text": "1"}, {"text": "2"}], [{"text": "1"}, {"text": "2"}]),
        ({"status": "success"}, {"status": "success"}),
        (3, 3),
        (None, None),
    ],
)
def test_an_envelope_is_looked_into(value, held):
    assert unwrapped(value) == held


@given(json_values)
def test_what_is_looked_into_is_a_part_of_the_value_and_needs_it_once(value):
    inner = unwrapped(value)
    assert unwrapped(inner) == inner


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (9, "9", True),
        ("9.0", 9, True),
        (1 / 3, 0.3333333333333, True),
        (9, 8, False),
        (True, 1, False),
        ("a", "a", True),
        ({"x": 1}, {"x": 1.0}, True),
        ({"x": 1}, {"y": 1}, False),
        ([1, "2"], [1, 2], True),
        ([1], [1, 2], False),
        (None, 0, False),
        (10**400, 1.0, False),
    ],
)
def test_same_results(one, other, same):
    assert same_result(one, other) is same


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Error: x", True),
        ("error", True),
        ("ZeroDivisionError: division by zero", True),
        ('{"error": null, "value": 3}', False),
        ('{"error": "x"}', True),
        ("errors are 3", False),
        ("the error is 0.3", False),
        ("3", False),
        ("", False),
        ('{"status": "success", "data": "3", "tool_name": "add"}', False),
        ('{"status": "error", "data": "no such city", "tool_name": "find"}', True),
        ('{"ok": false, "result": null}', True),
        ('{"status": "failed", "order": 17}', False),
    ],
)
def test_errors_are_told_by_their_beginning(text, error):
    assert is_error(text) is error
