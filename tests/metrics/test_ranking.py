"""The order in which people read a comparison: nothing is lost, the best comes first, and a pair begins with the higher arm."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import compare
from whichloop.metrics.sums import ranked


@settings(max_examples=cases(12))
@given(
    shares=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_the_most_accurate_arm_of_each_profile_comes_first_whatever_the_order_was(record, shares, order):
    arms = [(f"l{n}/{profile}", profile, right) for profile in ("p", "q") for n, right in enumerate(shares)]
    records = [
        record(arm=arm, task=f"t{task}", scores={"accuracy": float(task < right)}, input_tokens=10 + right)
        for arm, _, right in arms
        for task in range(12)
    ]
    order.shuffle(arms)
    compared = compare(records, [ArmInfo(arm, arm.partition("/")[0], {}, "scripted", profile, "s") for arm, profile, _ in arms])
    found = ranked(compared)
    assert sorted(arm.info.arm for arm in found.arms) == sorted(arm for arm, _, _ in arms)
    means = {arm.info.arm: arm.summary.accuracy.value for arm in found.arms if arm.summary.accuracy}
    for profile in ("p", "q"):
        own = [means[arm.info.arm] for arm in found.arms if arm.info.profile == profile]
        assert own == sorted(own, reverse=True)
    assert len(found.pairs) == len(compared.pairs)
    for pair in found.pairs:
        if pair.metric == "accuracy":
            assert pair.difference.value >= 0
            assert pair.difference.low <= pair.difference.value <= pair.difference.high
            assert pair.verdict.word != "worse"
    assert ranked(found) == found


def test_a_turned_pair_says_the_same_of_the_other_arm(record):
    records = [
        record(arm=arm, task=f"t{task}", scores={"accuracy": float(arm == "a" or task % 2)}) for arm in "ab" for task in range(40)
    ]
    (pair,) = (
        pair
        for pair in compare(records, [ArmInfo(arm, arm, {}, "scripted", "p", "s") for arm in "ab"]).pairs
        if pair.metric == "accuracy"
    )
    turned = pair.turned
    assert (pair.verdict.word, turned.verdict.word) == ("better", "worse")
    assert (turned.a, turned.b) == ("b", "a")
    assert turned.difference.value == pytest.approx(-pair.difference.value)
    assert (turned.difference.low, turned.difference.high) == (-pair.difference.high, -pair.difference.low)
    assert turned.turned == pair
