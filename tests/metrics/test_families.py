"""Families: what Holm and Shaffer leave of each test, and that no verdict contradicts its interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from whichloop.metrics.paired import PairedFlip, holm_steps, judge_family

P_VALUES = st.lists(st.floats(0, 1), max_size=12)
PAIRS = st.lists(
    st.tuples(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.0, 0.5, 1.0]), min_size=1, max_size=30), st.floats(0.01, 0.5)),
    min_size=1,
    max_size=6,
)


def adjusted(p: list[float]) -> list[float]:
    return [step.p_holm for step in holm_steps(p)]


def test_holm_vector():
    """Holm 1979."""
    assert adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjusted([]) == []


def test_holm_is_statsmodels():
    p = list(np.random.default_rng(3).random(45) ** 3)
    assert adjusted(p) == pytest.approx(multipletests(p, method="holm")[1])


@given(p=P_VALUES, data=st.data())
def test_holm_raises_no_p_beyond_bonferroni_and_ignores_order(p, data):
    assert all(x <= y <= min(1.0, len(p) * x) + 1e-12 or y == max(adjusted(p)) for x, y in zip(p, adjusted(p), strict=True))
    order = data.draw(st.permutations(range(len(p))))
    assert adjusted([p[i] for i in order]) == pytest.approx([adjusted(p)[i] for i in order])


@given(p=P_VALUES, alpha=st.sampled_from([0.01, 0.05, 0.2]))
def test_the_level_of_a_test_is_the_one_at_which_it_was_decided(p, alpha):
    for one, step in zip(p, holm_steps(p, alpha), strict=True):
        if abs(one / step.level - 1) > 1e-9:
            assert (one < step.level) == (step.p_holm < alpha)


@given(pairs=PAIRS, alpha=st.sampled_from([0.05, 0.2]))
@settings(deadline=None)
def test_no_interval_of_a_family_contradicts_its_verdict(pairs, alpha):
    tests = [(PairedFlip(d), margin) for d, margin in pairs]
    for (pair, _), found in zip(tests, judge_family(tests, alpha), strict=True):
        assert found.p == pair.p_difference <= found.p_holm
        assert (found.p_holm < alpha) == (not found.difference.low <= 0 <= found.difference.high)
        assert alpha / len(pairs) <= found.level <= alpha


def test_one_pair_pays_nothing_for_its_two_questions():
    """A difference cannot be 0 and reach the margin at once."""
    pair = PairedFlip([1.0] * 8 + [0.0] * 200)
    (found,) = judge_family([(pair, 0.1)])
    assert (found.p_holm, found.p_equivalence_holm) == (pair.p_difference, pair.p_equivalence(0.1))
    assert found.level == 0.05


def test_a_pair_counts_until_both_of_its_nulls_are_rejected():
    """Two pairs: the first is rejected twice at half the level, and leaves all of it to the second."""
    sure, close = PairedFlip([1.0] * 12 + [0.0] * 400), PairedFlip([1.0] * 6 + [0.0] * 34)
    first, second = judge_family([(sure, 0.1), (close, 0.01)])
    assert first.p_holm == pytest.approx(2 * sure.p_difference)
    assert first.p_equivalence_holm == pytest.approx(2 * sure.p_equivalence(0.1))
    assert (second.p_holm, second.level) == (close.p_difference, 0.05)
