"""A part of a comparison is made of its own arms alone, over all profiles together, too."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.compare.conftest import PROFILES
from whichloop.experiments.compare.measured_forms import part_of, under_profile

SHARES = {"a": (0.9, 0.8), "b": (0.5, 0.4), "c": (0.7, 0.7)}
ARMS = [f"{loop}/{profile}" for loop in SHARES for profile in PROFILES]


@settings(max_examples=cases(40))
@given(st.sets(st.sampled_from(ARMS)))
def test_a_part_has_the_pairs_of_its_own_arms_and_of_loops_all_of_whose_arms_it_has(compared, names):
    part = part_of(compared(SHARES, n=20), lambda info: info.arm in names)
    assert {arm.info.arm for arm in part.arms} == names
    assert all({pair.a, pair.b} <= names for pair in part.pairs)
    assert all(names.issuperset(pair) for pair in part.same)
    whole = {loop for loop in SHARES if all(f"{loop}/{profile}" in names for profile in PROFILES)}
    assert {(pair.a, pair.b) for pair in part.pooled} == {(a, b) for a in whole for b in whole if a < b}


def test_under_one_profile_no_pair_over_all_of_them_is_left(compared):
    comparison = compared(SHARES, n=20)
    assert len(comparison.pooled) == 3
    assert under_profile(comparison, PROFILES[0]).pooled == ()
