"""One canonical text for equal JSON, and digests that tell different JSON apart."""

from __future__ import annotations

import hashlib
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.protocol.digest import canonical_json, digest, sha256, whole_numbers_as_int

characters = st.characters() | st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF, categories=["Cs"])
any_text = st.text(characters, max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text
json_values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4))


def shuffled(value: object, source: random.Random) -> object:
    """The same JSON with every object's keys in another order."""
    if isinstance(value, dict):
        items = list(value.items())
        source.shuffle(items)
        return {key: shuffled(item, source) for key, item in items}
    return [shuffled(item, source) for item in value] if isinstance(value, list) else value


@settings(max_examples=cases(25))
@given(json_values, st.randoms(use_true_random=False))
def test_key_order_does_not_count(value: object, source: random.Random) -> None:
    assert canonical_json(shuffled(value, source)) == canonical_json(value)
    assert digest(shuffled(value, source)) == digest(value)


@given(json_values)
def test_canonical_text_is_ascii_and_says_the_same_value(value: object) -> None:
    text = canonical_json(value)
    assert text.isascii()
    assert canonical_json(json.loads(text)) == text


@given(any_text, any_text)
def test_sha256_takes_any_text_and_tells_texts_apart(left: str, right: str) -> None:
    assert (sha256(left) == sha256(right)) == (left == right)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [{"a": -float("inf")}]])
def test_numbers_without_json_form_are_a_value_error(value: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(value)


@pytest.mark.parametrize("value", [{1, 2}, object(), {(1, 2): 3}, {"a": b"bytes"}])
def test_what_json_cannot_say_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


def test_the_form_is_fixed() -> None:
    assert canonical_json({"b": [1, 2.5, None], "a": "é"}) == '{"a":"\\u00e9","b":[1,2.5,null]}'
    assert digest({}) == hashlib.sha256(b"{}").hexdigest()
    assert len(digest([1])) == 64


def as_floats(value: object) -> object:
    """The same JSON with every integer that a float can say exactly as a float."""
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 2**53 else value
    if isinstance(value, dict):
        return {key: as_floats(item) for key, item in value.items()}
    return [as_floats(item) for item in value] if isinstance(value, list) else value


@given(json_values)
def test_equal_numbers_have_one_digest_once_whole_ones_are_integers(value: object) -> None:
    assert whole_numbers_as_int(value) == value
    assert digest(whole_numbers_as_int(as_floats(value))) == digest(whole_numbers_as_int(value))
