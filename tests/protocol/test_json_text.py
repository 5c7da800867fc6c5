"""An encoder that is made once writes what the standard library's writes, and fails as it fails."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.protocol.json_text import Encoder

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just({1, 2}) | st.binary(max_size=2)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.none() | st.tuples(), inner, max_size=4)
    ),
    max_leaves=12,
)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "ensure_ascii": st.booleans(),
        "sort_keys": st.booleans(),
        "allow_nan": st.booleans(),
        "skipkeys": st.booleans(),
        "separators": st.sampled_from([(",", ":"), (", ", ": ")]),
        "default": st.sampled_from([str, sorted]),
    },
)


def outcome(encoder: json.JSONEncoder, value: Any) -> tuple[object, ...]:
    try:
        return ("text", encoder.encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        return (type(error), str(error))


@given(SETTINGS, VALUES, VALUES)
def test_nothing_is_left_over_from_a_text_that_failed(settings: dict[str, Any], before: Any, value: Any) -> None:
    encoder = Encoder(**settings)
    outcome(encoder, [before, math.nan, object()])
    assert outcome(encoder, value) == outcome(json.JSONEncoder(**settings), value)


def test_a_cycle_is_told_from_what_is_nested_too_deep() -> None:
    circle: list[Any] = []
    circle.append({"again": circle})
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="Circular reference detected"):
        Encoder().encode(circle)
    with pytest.raises(RecursionError):
        Encoder().encode(deep)
    assert Encoder().encode([[]]) == "[[]]"
