"""The bounds that a local model's schemas have: without them a small model writes on and on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from whichloop.models.local.model import MAX_ITEMS, MAX_TEXT_CHARS, bounded

PLAIN = st.sampled_from(
    [{"type": name} for name in ("string", "integer", "boolean", "null", ["string", "null"], ["integer", "array"])]
    + [{"enum": ["a", 1]}, {"const": "x"}]
)
NAMES = st.sampled_from(["a", "b", "items", "properties"])


def deeper(inner: st.SearchStrategy) -> st.SearchStrategy:
    objects = st.dictionaries(NAMES, inner, max_size=3)
    return (
        objects.map(lambda known: {"type": "object", "properties": known, "required": list(known)})
        | inner.map(lambda item: {"type": "array", "items": item})
        | st.lists(inner, min_size=1, max_size=3).map(lambda several: {"anyOf": several})
    )


SCHEMAS = st.recursive(PLAIN, deeper, max_leaves=6)


LEAVES = st.sampled_from([None, True, 1, "a", "x", "y" * (MAX_TEXT_CHARS + 1)])
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=9)


@given(SCHEMAS, VALUES)
def test_what_fits_the_bounds_fits_the_schema(schema, value):
    if Draft202012Validator(bounded(schema)).is_valid(value):
        assert Draft202012Validator(schema).is_valid(value)


def test_texts_lists_and_unknown_properties_are_bounded_wherever_they_stand():
    schema = {"type": "object", "properties": {"names": {"type": "array", "items": {"type": "string"}}}}
    known = bounded(schema)
    assert known["additionalProperties"] is False
    assert known["properties"]["names"]["maxItems"] == MAX_ITEMS
    assert known["properties"]["names"]["items"]["maxLength"] == MAX_TEXT_CHARS
    assert schema == {"type": "object", "properties": {"names": {"type": "array", "items": {"type": "string"}}}}


@pytest.mark.parametrize(
    "given_bound",
    [
        {"type": "string", "maxLength": 5000},
        {"type": "array", "maxItems": 90},
        {"type": "string", "enum": ["x"]},
        {"type": "object", "properties": {}, "additionalProperties": True},
    ],
)
def test_a_bound_that_the_schema_has_stays(given_bound):
    assert bounded(given_bound) == given_bound


def test_a_list_or_text_that_must_be_long_may_be():
    assert bounded({"type": "string", "minLength": 900})["maxLength"] == 900
    assert bounded({"type": "array", "minItems": 70})["maxItems"] == 70


def test_a_schema_of_several_types_has_the_bounds_of_each():
    assert bounded({"type": ["string", "null"]}) == {"type": ["string", "null"], "maxLength": MAX_TEXT_CHARS}
    several = bounded({"type": ["null", "array", "object"], "properties": {}})
    assert (several["maxItems"], several["additionalProperties"]) == (MAX_ITEMS, False)
    assert "maxLength" not in several
