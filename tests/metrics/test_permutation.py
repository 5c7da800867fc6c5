"""The sign-flip law: every sign, published vectors, and the smallest p at any number of tasks."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from whichloop.metrics.bootstrap import MAX_UNITS, sign_flip


def enumerated(d: list[float]) -> tuple[float, float]:
    """Both tails over all sign vectors."""
    sums = np.array(list(product([-1, 1], repeat=len(d)))) @ np.abs(d)
    rounding = 1e-9 * np.abs(d).sum()
    return float((sums >= sum(d) - rounding).mean()), float((sums <= sum(d) + rounding).mean())


@given(d=st.lists(st.integers(-4, 4), min_size=1, max_size=9), repeats=st.integers(1, 12))
def test_tails_count_every_sign(d, repeats):
    found = sign_flip([x / repeats for x in d])
    assert found == pytest.approx(enumerated([float(x) for x in d]))
    assert found.two_sided == pytest.approx(min(1.0, 2 * min(found)))


@given(d=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=10))
@settings(deadline=None)
def test_numbers_without_a_common_fraction_are_counted_on_a_grid(d):
    """Rounding may tell apart sums that are equal, or the other way round: no more than a few sign vectors of all."""
    found = sign_flip(d)
    sums = np.array(list(product([-1, 1], repeat=len(d)))) @ np.abs(d)
    unsure = float((np.abs(sums - sum(d)) <= 2e-3 * np.abs(d).sum()).mean())
    assert found == pytest.approx(enumerated(d), abs=unsure + 1e-12)


@given(only_a=st.integers(0, 400), only_b=st.integers(0, 400), ties=st.integers(0, 50))
def test_single_0_1_outcomes_give_mcnemar_test(only_a, only_b, ties):
    assume(only_a + only_b)
    p = min(1.0, 2 * float(stats.binom.cdf(min(only_a, only_b), only_a + only_b, 0.5)))
    assert sign_flip([1] * only_a + [-1] * only_b + [0] * ties).two_sided == pytest.approx(p)


@pytest.mark.parametrize("n", [30, 300, 1_000])
def test_the_smallest_p_has_no_floor(n):
    assert sign_flip([1 / 3] * n).greater == pytest.approx(0.5**n)
    assert sign_flip([1 / 3, 2 / 3] * (n // 2)).greater == pytest.approx(0.5**n)


@given(n=st.integers(1, 40))
def test_no_difference_anywhere_is_p_1(n):
    assert sign_flip([0.0] * n) == (1.0, 1.0)


@given(d=st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=2, max_size=6), copies=st.integers(2, 4))
def test_clusters_change_signs_whole(d, copies):
    """Tasks that are copies of each other flip together: the p is that of one task of each kind."""
    names = [str(i) for i in range(len(d)) for _ in range(copies)]
    assert sign_flip([x for x in d for _ in range(copies)], names) == pytest.approx(sign_flip(d))


@given(d=st.lists(st.integers(-5, 5) | st.floats(-1, 1), min_size=1, max_size=40), data=st.data())
@settings(deadline=None)
def test_neither_order_nor_unit_changes_p_and_turning_swaps_the_tails(d, data):
    found = sign_flip(d)
    assert sign_flip(data.draw(st.permutations(d))) == pytest.approx(found)
    assert sign_flip([-x for x in d]) == pytest.approx((found.less, found.greater))


@pytest.mark.parametrize("seed", range(4))
def test_the_approximation_of_many_units_is_the_law_of_the_grid(seed):
    """Either side of the limit: the same values, once with a unit of 0 too few to count, once approximated."""
    generator = np.random.default_rng(seed)
    d = generator.lognormal(0, 1, MAX_UNITS) * generator.choice([-1.0, 1.0], MAX_UNITS) + 0.02 * seed
    more = np.append(d, 1e-6)
    for exact, near in zip(sign_flip(d), sign_flip(more), strict=True):
        assert near == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize(
    ("n", "repeats", "rate"),
    [(20, 1, 0.5), (30, 3, 0.7), *(pytest.param(*more, marks=pytest.mark.slow) for more in ((60, 1, 0.9), (60, 5, 0.9)))],
)
def test_equal_arms_are_told_apart_no_more_often_than_alpha(n, repeats, rate):
    generator = np.random.default_rng(7)
    runs = 500
    a, b = (generator.binomial(repeats, rate, (runs, n)) / repeats for _ in range(2))
    rejected = np.mean([sign_flip(d).two_sided < 0.05 for d in a - b])
    assert rejected <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
