"""Draws of units: BCa intervals and the sign-flip law, against every sign, published vectors and scipy, and laws of any data."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import special, stats

from tests.cases import cases
from whichloop.metrics import bootstrap
from whichloop.metrics.bootstrap import (
    MAX_UNITS,
    bca_ratio,
    draw_counts,
    draw_sums,
    expanded,
    sign_flip,
    unit_sums,
)

AMOUNTS = st.lists(st.floats(0, 100), min_size=1, max_size=12)


@given(units=st.integers(6, 200), alpha=st.floats(0.01, 0.2))
def test_few_units_are_drawn_for_at_a_smaller_level(units, alpha):
    """So that the percentiles of a normal sample's draws are the ends of Student's interval."""
    z = -special.ndtri(expanded(alpha, units) / 2)
    assert z * np.sqrt((units - 1) / units) == pytest.approx(stats.t.isf(alpha / 2, units - 1))
    assert expanded(alpha, units) < expanded(alpha, units + 1) < alpha


@settings(max_examples=cases(10))
@given(seed=st.integers(0, 1000), n=st.integers(5, 30))
def test_the_ratio_is_what_scipy_gives_of_two_paired_samples(seed, n):
    """Of whole numbers, whose sums are exact: else scipy's draws that equal the sample fall to either side of it by rounding."""
    generator = np.random.default_rng(seed)
    above, below = generator.integers(1, 50, n), generator.integers(1, 50, n)

    def ratio(a, b, axis=-1):
        return a.sum(axis) / b.sum(axis)

    theirs = stats.bootstrap(
        (above, below), ratio, paired=True, vectorized=True, n_resamples=999, batch=1000, method="BCa",
        confidence_level=1 - expanded(0.05, n), rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    ours = bca_ratio(above, below, draws=999)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


@settings(max_examples=cases(25))
@given(values=AMOUNTS, alpha=st.sampled_from([0.05, 0.2]), data=st.data())
def test_an_interval_holds_its_estimate_and_stays_within_the_data(values, alpha, data):
    clusters = data.draw(st.lists(st.sampled_from(["", "a", "b"]), min_size=len(values), max_size=len(values)))
    found = bca_ratio(values, [1.0] * len(values), clusters, alpha, draws=199)
    assert all(map(math.isfinite, (found.low, found.high)))
    assert min(values) - 1e-9 <= found.low <= found.value <= found.high <= max(values) + 1e-9
    assert found.value == pytest.approx(np.mean(values))


@settings(max_examples=cases(10))
@given(values=st.lists(st.integers(0, 9), min_size=3, max_size=8), copies=st.integers(2, 4))
def test_copies_of_a_template_are_no_evidence(values, copies):
    assume(len(set(values)) > 1)
    names = [str(place) for place in range(len(values)) for _ in range(copies)]
    once = bca_ratio(values, [1.0] * len(values), draws=199)
    often = bca_ratio([value for value in values for _ in range(copies)], [1.0] * len(names), names, draws=199)
    assert (often.low, often.high) == pytest.approx((once.low, once.high))


def test_what_has_no_estimate_is_refused():
    with pytest.raises(ValueError, match="no estimate from 1 units"):
        bca_ratio([1.0], [0.0])
    with pytest.raises(ValueError, match="no estimate from 0 units"):
        bca_ratio([], [])


def test_units_are_summed_and_drawn():
    values = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    assert unit_sums(values, ["a", "b", "a"]).tolist() == [[4.0, 40.0], [2.0, 20.0]]
    assert unit_sums(values, ["a", "a", "a"]).tolist() == values.tolist()
    counts = draw_sums(np.eye(5), 2_000)
    assert counts.shape == (2_000, 5)
    assert (counts.sum(1) == 5).all()
    assert counts.mean() == 1
    assert counts.var() == pytest.approx(0.8, abs=0.05)  # of a binomial with 5 draws of 1/5


@pytest.mark.parametrize("most", [0, 10**6])
def test_draws_are_the_same_whether_or_not_they_are_kept(monkeypatch, most):
    monkeypatch.setattr(bootstrap, "_MAX_KEPT", most)
    assert np.array_equal(draw_sums(np.eye(7), 2_000), np.concatenate(list(draw_counts(7, 2_000))))


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


@given(d=st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=2, max_size=6), copies=st.integers(2, 4))
def test_clusters_change_signs_whole(d, copies):
    """Tasks that are copies of each other flip together: the p is that of one task of each kind."""
    names = [str(i) for i in range(len(d)) for _ in range(copies)]
    assert sign_flip([x for x in d for _ in range(copies)], names) == pytest.approx(sign_flip(d))


@given(d=st.lists(st.integers(-5, 5) | st.floats(-1, 1), min_size=1, max_size=40), data=st.data())
def test_neither_order_nor_unit_changes_p_and_turning_swaps_the_tails(d, data):
    found = sign_flip(d)
    assert sign_flip(data.draw(st.permutations(d))) == pytest.approx(found)
    assert sign_flip([-x for x in d]) == pytest.approx((found.less, found.greater))


@pytest.mark.parametrize("seed", range(2))
def test_the_approximation_of_many_units_is_the_law_of_the_grid(seed):
    """Either side of the limit: the same values, once with a unit of 0 too few to count, once approximated."""
    generator = np.random.default_rng(seed)
    d = generator.lognormal(0, 1, MAX_UNITS) * generator.choice([-1.0, 1.0], MAX_UNITS) + 0.02 * seed
    more = np.append(d, 1e-6)
    for exact, near in zip(sign_flip(d), sign_flip(more), strict=True):
        assert near == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize(("n", "repeats", "rate"), [(20, 1, 0.5), (30, 3, 0.7)])
def test_equal_arms_are_told_apart_no_more_often_than_alpha(n, repeats, rate):
    generator = np.random.default_rng(7)
    runs = 300
    a, b = (generator.binomial(repeats, rate, (runs, n)) / repeats for _ in range(2))
    rejected = np.mean([sign_flip(d).two_sided < 0.05 for d in a - b])
    assert rejected <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
