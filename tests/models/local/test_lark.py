"""Grammars as text for llama.cpp, and the bounds that they put on JSON."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import validate

from tests.grammars import drawn_value
from whichloop.models.local.model import MAX_ITEMS, MAX_TEXT_CHARS, bounded, lark
from whichloop.protocol import AnyCall, Grammar, JsonValue, OneOf, Repeated, TextLine, json_object

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


@given(SCHEMAS, st.integers())
def test_what_fits_the_bounds_fits_the_schema(schema, seed):
    value = drawn_value(bounded(schema), random.Random(seed), {})
    validate(value, schema)
    validate(value, bounded(schema))


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


def test_a_grammar_is_alternatives_of_quoted_text_lines_and_schemas():
    text = lark(Grammar((('say "x":\n', TextLine(9)), (json_object({"a": {"type": "integer"}}),), ())))
    head, first, second, third, end = text.split("\n")
    assert head == "%llguidance {}"
    assert first.startswith('start: "say \\"x\\":\\n" /[^')
    assert first.endswith("]{1,9}/")
    assert second.startswith('  | %json {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]')
    assert (third, end) == ('  | ""', "")


def test_a_choice_and_a_repetition_are_bounded():
    parts = (OneOf(("a", 'b"')), Repeated(("<", TextLine(3)), 0, 1), Repeated(("x",), 0), Repeated(("y",), MAX_ITEMS + 2))
    line = lark(Grammar((parts,))).splitlines()[1]
    assert line.startswith('start: ("a" | "b\\"") ("<" /[^')
    assert line.endswith(f'{{1,3}}/){{0,1}} ("x"){{0,{MAX_ITEMS}}} ("y"){{{MAX_ITEMS + 2},{MAX_ITEMS + 2}}}')


def test_a_native_call_must_have_been_written_out():
    with pytest.raises(ValueError, match="no text of its own"):
        lark(Grammar(((AnyCall(),),)))


def test_shared_definitions_of_members_stand_at_the_top_of_an_object():
    spot = {"Spot": {"type": "integer"}}
    made = json_object({"at": {"$ref": "#/$defs/Spot", "$defs": spot}})
    assert isinstance(made, JsonValue)
    assert made.schema["$defs"] == spot
    assert "$defs" not in json_object({"at": {"type": "integer"}}).schema
