"""Calls compared with those wanted, as BFCL's AST check does it, and texts that an answer has to contain."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets.bfcl.strict import same_calls

LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(max_size=6)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
ARGUMENTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=3)
CALLS = st.lists(st.tuples(st.sampled_from(["f", "g.h"]), ARGUMENTS), min_size=1, max_size=4)


def state(*calls: tuple[str, Any], refused: int = 0) -> dict[str, Any]:
    made = [{"function": name, "arguments": arguments} for name, arguments in calls]
    return {"calls": made, "refused": [{"function": "f", "arguments": {}}] * refused}


def wanted(*calls: tuple[str, dict[str, Any]]) -> list[Any]:
    return [{name: {key: [value] for key, value in arguments.items()}} for name, arguments in calls]


def fits(value: Any, *options: Any) -> bool:
    return same_calls([{"f": {"x": list(options)}}], state(("f", {"x": value})))


@given(CALLS, st.randoms(use_true_random=False))
def test_the_wanted_calls_are_right_in_any_order(calls, random):
    shuffled = random.sample(calls, len(calls))
    assert same_calls(wanted(*calls), state(*shuffled))
    assert same_calls(wanted(*calls), state(*shuffled, refused=2))


@given(CALLS, st.data())
def test_one_call_more_or_less_is_wrong(calls, data):
    place = data.draw(st.integers(0, len(calls) - 1))
    assert not same_calls(wanted(*calls), state(*calls, calls[place]))
    assert not same_calls(wanted(*calls), state(*calls[:place], *calls[place + 1 :]))


@given(ARGUMENTS, st.sampled_from("abcd"))
def test_an_argument_that_is_not_wanted_is_wrong_and_one_that_is_missing_too(arguments, name):
    more = arguments | {name: 1}
    less = {key: value for key, value in more.items() if key != name}
    assert not same_calls(wanted(("f", less)), state(("f", more)))
    assert not same_calls(wanted(("f", {name: 1})), state(("f", {})))
    assert same_calls([{"f": {name: [1, ""]}}], state(("f", {})))


@settings(max_examples=cases(40))
@given(
    st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=4), st.lists(st.integers(0, 3), min_size=1, max_size=4)
)
def test_overlapping_sets_are_paired_off_as_trying_all_pairings_would(sets, values):
    """Taking the first call that fits would use up the one that another wanted call needs."""
    want = [{"f": {"x": sorted(options)}} for options in sets]
    by_trying = len(sets) == len(values) and any(
        all(value in options for value, options in zip(order, sets, strict=True)) for order in itertools.permutations(values)
    )
    assert same_calls(want, state(*(("f", {"x": value}) for value in values))) is by_trying


@given(VALUES, VALUES)
def test_another_value_is_wrong_unless_texts_or_numbers_are_alike(value, other):
    def plain(item: Any) -> Any:
        if isinstance(item, str):
            return "".join(char for char in item.lower() if char not in " ,./-_*^").replace("'", '"')
        return [plain(part) for part in item] if isinstance(item, list) else (type(item) is bool, item)

    assert fits(value, other) is (plain(value) == plain(other))


def test_values_as_bfcl_compares_them():
    assert fits("new york NY", "New York, N.Y.")
    assert fits("it's", 'IT"S')
    assert not fits("New York", "New Jersey")
    assert fits(5, 5.0)
    assert not fits(5.5, 5)
    assert not fits("5", 5)
    assert not fits(True, 1)
    assert not fits(1, True)
    assert fits(["a b", 1], ["A-B", 1.0])
    assert not fits([1, 2], [2, 1])
    assert fits([2, 1], [1, 2], [2, 1])
    assert not fits({"x": 1}, "x")
    assert fits(None, None)
    assert not fits(None, "")


def test_fields_of_objects_have_sets_of_allowed_values():
    want = {"min": [1, 2], "unit": ["EUR", ""]}
    assert fits({"min": 2}, want)
    assert fits({"min": 1, "unit": "eur"}, want)
    assert not fits({"min": 3}, want)
    assert not fits({"unit": "EUR"}, want)
    assert not fits({"min": 1, "max": 2}, want)
    assert fits([{"min": 1}, {"min": 2}], [want, want])
    assert fits({"deep": {"min": 1}}, {"deep": {"min": 1}})


def test_where_no_call_is_right_none_may_have_been_tried():
    assert same_calls([], state())
    assert same_calls([], None)
    assert not same_calls([], state(("f", {})))
    assert not same_calls([], state(refused=1))
