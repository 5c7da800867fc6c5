"""Answers that are made up in the form that is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets import typed
from whichloop.models.filling import fits, otherwise, same

leaves = st.none() | st.booleans() | st.integers(-50, 50) | st.floats(-9, 9, allow_nan=False) | st.text("abc123-", max_size=6)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner), max_leaves=8
)


def flat(value: Any) -> list[Any]:
    """The leaves, those of an object by its keys' order."""
    if not isinstance(value, dict | list):
        return [value]
    items = [value[key] for key in sorted(value)] if isinstance(value, dict) else value
    return [leaf for item in items for leaf in flat(item)]


@settings(max_examples=cases(40), deadline=None)
@given(value=values)
def test_where_anything_goes_every_leaf_but_null_is_another_of_its_kind(value: Any) -> None:
    made = otherwise({}, value)
    told = [leaf for leaf in flat(value) if leaf is not None]
    assert (made is None) == (not told)
    for old, new in zip(flat(value), flat(made), strict=True) if made is not None else ():
        assert type(old) is type(new)
        assert same(old, new) == (old is None)


def test_every_form_of_the_typed_suite_can_be_made_up_and_nothing_in_it_is_right() -> None:
    for task in typed.load().tasks[::5]:
        schema = task.query.schema
        assert schema is not None
        made = otherwise(schema, task.expected)
        assert fits(schema, made)
        kept = [new for old, new in zip(flat(task.expected), flat(made), strict=True) if old is not None and same(old, new)]
        assert len(kept) <= 2, (task.id, kept)


@pytest.mark.parametrize(
    ("schema", "value", "made"),
    [
        ({"enum": ["red", "blue"]}, "red", "blue"),
        ({"type": "string", "pattern": r"^W-\d{3}$"}, "W-129", "W-230"),
        ({"type": "integer", "maximum": 7}, 7, None),
        ({"const": 3}, 3, None),
        ({"type": "nonsense"}, 3, None),
    ],
)
def test_the_schema_decides_what_can_be_said(schema: dict[str, Any], value: Any, made: Any) -> None:
    assert otherwise(schema, value) == made
