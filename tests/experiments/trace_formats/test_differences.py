"""What differs between two JSON values makes the one of the other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.trace_formats.own_trials import difference, patched

leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([1.0, -0.5]), st.sampled_from(["", "a", "is", "at"])
)
keys = st.sampled_from(["a", "b", "is", "at", "drop", "more", "length", "0"])
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12)


@given(values, values)
def test_a_difference_makes_the_new_value_of_the_old_one(old: Any, new: Any) -> None:
    change = difference(old, new)
    made = patched(old, json.loads(json.dumps(change)))
    assert json.dumps(made, sort_keys=True) == json.dumps(new, sort_keys=True)  # unlike ==, tells 1 from 1.0 and from true


@given(values)
def test_equal_values_have_no_difference(value: Any) -> None:
    assert difference(value, json.loads(json.dumps(value))) is None


def test_only_what_differs_is_kept() -> None:
    old = {"steps": [{"text": "long" * 100, "n": 1}, {"n": 2}]}
    new = {"steps": [{"text": "long" * 100, "n": 1.5}, {"n": 2}, {"n": 3}]}
    assert difference(old, new) == {"at": {"steps": {"at": {"0": {"at": {"n": {"is": 1.5}}}}, "more": [{"n": 3}]}}}


@pytest.mark.parametrize("change", [{"at": {"7": {"is": 1}}}, {"at": {"x": {"is": 1}}}, {"length": "x"}, [], "is", 3])
def test_a_change_that_does_not_fit_is_refused(change: Any) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        patched([1, 2], change)
