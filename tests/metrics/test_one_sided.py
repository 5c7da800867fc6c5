"""One-sided tests and bounds, and the equivalence that two of them show."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from loopbench.metrics.statistics import (
    mean_bounds,
    mean_equivalence,
    mean_exceeds,
    score_bounds,
    score_difference,
    score_equivalence,
    score_exceeds,
    wilson,
)

DIFFERENCES = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]) | st.floats(-1, 1), min_size=1, max_size=40)


CLUSTER = st.sampled_from(["", "", "a", "b", "c"])


ALPHA = st.sampled_from([0.01, 0.05, 0.2])


def clustered(values: Sequence[float], data: st.DataObject) -> list[str]:
    return data.draw(st.lists(CLUSTER, min_size=len(values), max_size=len(values)))


@given(d=DIFFERENCES, margin=st.floats(0, 1))
def test_equivalence_p_is_a_probability_that_falls_with_the_margin(d, margin):
    for p in (score_equivalence, mean_equivalence):
        assert 0 <= p(d, margin) <= 1
        assert p(d, margin + 0.1) <= p(d, margin) + 1e-12


@given(d=DIFFERENCES, margin=st.floats(0.01, 0.9))
def test_equivalence_is_both_bounds_within_the_margin(d, margin):
    """Schuirmann 1987."""
    low, high = score_bounds(d)
    p = score_equivalence(d, margin)
    assume(abs(p - 0.05) > 1e-6 and min(abs(low + margin), abs(high - margin)) > 1e-9)
    assert (p < 0.05) == (-margin < low and high < margin)


def test_equivalence_of_differences_that_do_not_vary_needs_five_tasks():
    assert mean_equivalence([0.0] * 4, 0.1) == 0.0625
    assert mean_equivalence([0.0] * 5, 0.1) == 0.03125
    assert mean_equivalence([0.2] * 50, 0.1) == 1.0
    assert mean_equivalence([0.0] * 5, 0.0) == 0.03125
    assert mean_equivalence([1e-9], 0.1) == 0.5
    assert mean_equivalence([1e-9, 2e-9, 3e-9], 0.1) == 0.125


def test_mean_equivalence_by_hand():
    """d = 0..9 x 0.1, x̄ = .45, SE = .0957427: t = (1 - .45)/SE = 5.74456 with 9 degrees of freedom."""
    d = [x / 10 for x in range(10)]
    assert mean_equivalence(d, 1.0) == 0.5**10
    assert mean_equivalence(d, 0.6) == pytest.approx(float(stats.t.sf(0.15 / 0.0957427, 9)), abs=1e-6)


@given(d=DIFFERENCES, bound=st.floats(-0.9, 0.9), alpha=ALPHA, data=st.data())
def test_a_one_sided_bound_passes_where_its_test_rejects(d, bound, alpha, data):
    clusters = clustered(d, data)
    for bounds, exceeds in ((score_bounds, score_exceeds), (mean_bounds, mean_exceeds)):
        low, high = bounds(d, clusters, alpha)
        above, below = exceeds(d, bound, clusters), exceeds([-x for x in d], -bound, clusters)
        assume(all(abs(p - alpha) > 1e-9 for p in (above, below)) and abs(low - bound) > 1e-9 and abs(high - bound) > 1e-9)
        assert low <= high
        if low > -1:
            assert (above < alpha) == (low > bound)
        if high < 1:
            assert (below < alpha) == (high < bound)


@given(d=DIFFERENCES, data=st.data())
def test_a_mean_is_not_both_above_and_below(d, data):
    clusters, bound = clustered(d, data), data.draw(st.floats(-1, 1))
    for exceeds in (score_exceeds, mean_exceeds):
        above, below = exceeds(d, bound, clusters), exceeds([-x for x in d], -bound, clusters)
        assert max(above, below) >= 0.5
        assert min(above, below) >= 0


@given(d=DIFFERENCES, alpha=ALPHA, data=st.data())
def test_one_sided_bounds_are_no_narrower_than_the_two_sided_interval_at_twice_the_level(d, alpha, data):
    clusters = clustered(d, data)
    two, (low, high) = score_difference(d, clusters, 2 * alpha), score_bounds(d, clusters, alpha)
    assert -1 <= low <= two.low
    assert two.high <= high <= 1


@given(lost=st.integers(0, 40), n=st.integers(1, 400), alpha=ALPHA)
def test_what_is_lost_one_way_is_bounded_as_a_share_is(lost, n, alpha):
    """Wilson's upper end of lost/n at twice the level, or what the pseudo-units leave if that is more."""
    assume(lost <= n)
    low, _ = score_bounds([-1.0] * lost + [0.0] * (n - lost), alpha=alpha)
    assert low <= -wilson(lost, n, 2 * alpha)[1] + 1e-9


@pytest.mark.parametrize("margin", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("alpha", [0.05, 0.005])
def test_a_loss_of_the_margin_in_single_tasks_is_rarely_called_equivalent(margin, alpha):
    """Exactly, for every number of tasks: the chance that so few are lost that all looks well."""
    for n in range(20, 600, 7):
        counts = range(min(n, 60))
        called = [k for k in counts if score_equivalence([-1.0] * k + [0.0] * (n - k), margin) < alpha]
        assert sum(stats.binom.pmf(k, n, margin) for k in called) <= (0.075 if alpha == 0.05 else alpha)


def test_many_gains_outweigh_what_a_few_tasks_might_lose():
    """Twenty of a hundred better: nobody asks for the 133 tasks that would show equality."""
    assert score_exceeds([1.0] * 20 + [0.0] * 80, -0.02) < 0.001
    assert score_exceeds([0.0] * 132, -0.02) > 0.05 > score_exceeds([0.0] * 134, -0.02)


@given(n=st.integers(1, 8), value=st.floats(-5, 5))
def test_units_that_agree_are_as_sure_as_a_sign_test(n, value):
    """Never surer than 2⁻ⁿ."""
    assert mean_exceeds([value] * n, value - 1) == 0.5**n
    assert mean_exceeds([value] * n, value) == mean_exceeds([value] * n, value + 1) == 1.0
    assert mean_bounds([value] * n, alpha=0.5**n) == pytest.approx((value, value), abs=1e-9)
    assert mean_bounds([value] * n, alpha=0.49**n) == (-math.inf, math.inf)


def test_mean_bounds_by_hand():
    """d = 1..5: x̄ = 3, SE = .70711, t(.95, 4) = 2.131847."""
    low, high = mean_bounds([1, 2, 3, 4, 5])
    assert (low, high) == pytest.approx((3 - 2.131847 * 0.7071068, 3 + 2.131847 * 0.7071068), abs=1e-6)
    assert mean_exceeds([1, 2, 3, 4, 5], 2.0) == pytest.approx(float(stats.t.sf(1 / 0.7071068, 4)), abs=1e-6)


def test_score_bounds_by_hand():
    """As the two-sided vector above, with z(.95) = 1.644854; Wilson's upper end of 3/10 at 90 % lies at .5606, lower."""
    center, half = 3 / 12, 1.644854 * math.sqrt((5 / 12 - (3 / 12) ** 2) / 12)
    assert score_bounds([1, 0, 0, 0, 1, 0, 0, 1, 0, 0]) == pytest.approx((center - half, wilson(3, 10, 0.1)[1]), abs=1e-6)
