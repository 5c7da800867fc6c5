"""Paired differences and families of them: interval and test never contradict each other, and keep what they promise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from tests.cases import cases
from whichloop.metrics.paired import PairedFlip, holm_steps, judge_family, mean_interval
from whichloop.metrics.statistics import standard_error, unit_count

LATTICE = st.integers(1, 10).flatmap(lambda k: st.lists(st.integers(-k, k).map(lambda x: x / k), min_size=1, max_size=40))
DIFFERENCES = LATTICE | st.lists(st.sampled_from([-1.0, 0.0, 1.0]) | st.floats(-1, 1), min_size=1, max_size=40)
ALPHA = st.sampled_from([0.005, 0.01, 0.05, 0.1, 0.2])
REACH = st.sampled_from([1.0, 2.0, None])


def clustered(values: Sequence[float], data: st.DataObject) -> list[str]:
    return data.draw(st.lists(st.sampled_from(["", "", "a", "b", "c"]), min_size=len(values), max_size=len(values)))


@given(d=DIFFERENCES, alpha=ALPHA, reach=REACH, data=st.data())
def test_an_interval_holds_0_unless_the_test_rejects_at_its_level(d, alpha, reach, data):
    pair = PairedFlip(d, clustered(d, data), reach=reach)
    interval = pair.interval(alpha)
    assert interval.low <= interval.value <= interval.high
    assert (pair.p_difference < alpha) == (not interval.low <= 0 <= interval.high)
    if pair.p_difference < alpha:
        assert (interval.low > 0) == (interval.value > 0)


@given(d=DIFFERENCES, alpha=ALPHA, margin=st.floats(0.001, 1.5), reach=REACH, data=st.data())
@settings(max_examples=cases(40))
def test_equivalence_is_both_bounds_within_the_margin(d, alpha, margin, reach, data):
    pair = PairedFlip(d, clustered(d, data), reach=reach)
    low, high = pair.bounds(alpha)
    found = pair.p_equivalence(margin)
    assume(abs(found - alpha) > 1e-9 and min(abs(low + margin), abs(high - margin)) > 1e-9 and margin < pair.reach)
    assert (found < alpha) == (-margin < low and high < margin)
    if 0.5**pair.units < alpha:
        interval = pair.interval(2 * alpha)
        assert (found < alpha) == (-margin < interval.low and interval.high < margin)


@given(d=DIFFERENCES, alpha=ALPHA, bound=st.floats(-0.9, 0.9), reach=REACH, data=st.data())
@settings(max_examples=cases(60))
def test_a_one_sided_bound_passes_where_its_test_rejects(d, alpha, bound, reach, data):
    pair = PairedFlip(d, clustered(d, data), reach=reach)
    low, high = pair.bounds(alpha)
    above, below = pair.p(bound, "greater"), pair.p(bound, "less")
    assume(min(abs(above - alpha), abs(below - alpha)) > 1e-9 and min(abs(low - bound), abs(high - bound)) > 1e-9)
    assert low <= high
    assert (above < alpha) == (low > bound)
    assert (below < alpha) == (high < bound)


@given(d=DIFFERENCES, reach=REACH, bounds=st.tuples(st.floats(-0.9, 0.9), st.floats(-0.9, 0.9)), data=st.data())
@settings(max_examples=cases(60))
def test_p_falls_as_the_bound_moves_away(d, reach, bounds, data):
    pair = PairedFlip(d, clustered(d, data), reach=reach)
    low, high = sorted(bounds)
    assert 0 <= pair.p(low, "greater") <= pair.p(high, "greater") <= 1
    assert 0 <= pair.p(high, "less") <= pair.p(low, "less") <= 1


@given(d=DIFFERENCES, reach=REACH, data=st.data())
def test_turning_the_arms_turns_the_interval(d, reach, data):
    clusters = clustered(d, data)
    there, back = PairedFlip(d, clusters, reach=reach), PairedFlip([-x for x in d], clusters, reach=reach)
    one, other = there.interval(), back.interval()
    assert (other.value, other.low, other.high) == pytest.approx((-one.value, -one.high, -one.low), abs=1e-9)
    assert there.p_difference == pytest.approx(back.p_difference)
    assert there.p_equivalence(0.1) == pytest.approx(back.p_equivalence(0.1))


@given(d=st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=2, max_size=20), copies=st.integers(2, 4))
def test_a_template_filled_in_several_times_counts_once(d, copies):
    values, clusters = np.repeat(d, copies), [f"c{place}" for place in range(len(d)) for _ in range(copies)]
    one, many = PairedFlip(d).interval(), PairedFlip(values, clusters).interval()
    assert (many.value, many.low, many.high) == pytest.approx((one.value, one.low, one.high), abs=1e-9)


@given(d=DIFFERENCES)
def test_a_difference_of_scores_has_width_and_stays_on_the_scale(d):
    interval = PairedFlip(d).interval()
    assert -1 <= interval.low < interval.high <= 1
    assert interval.value == pytest.approx(np.mean(d))


# By hand.


def test_single_0_1_scores_have_bonett_and_prices_interval_moved_by_the_skewness_of_what_is_lost():
    """n = 40 with 16 tasks for a and 4 for b: p12 = 17/42, p21 = 5/42, variance (p12 + p21 - (p12 - p21)²) / 42."""
    center, half = 12 / 42, 1.959964 * math.sqrt((22 / 42 - (12 / 42) ** 2) / 42)
    interval = PairedFlip([1.0] * 16 + [-1.0] * 4 + [0.0] * 20).interval()
    assert (interval.low, interval.high) == pytest.approx((center - half, center + half + 13 / 22 / 42), abs=1e-6)


def test_repeats_make_the_unit_that_is_added_smaller_and_what_is_lost_whole_stays():
    """Of four units that differ by 1/2, and one of 1: the root of (4/16 + 1)/(4/4 + 1)."""
    d = [0.5, 0.5, 0.5, -0.5] + [0.0] * 26
    center, skew = 1 / 32, (2 / 8 + 1) / 3 / 32
    half = 1.959964 * math.sqrt(((1 + 2 * 5 / 8) / 32 - center**2) / 32)
    more_lost = 1 - 1 / 30 - 0.025 ** (1 / 30)
    more_gained = float(stats.beta.ppf(0.975, 2, 29))
    interval = PairedFlip(d).interval()
    expected = (min(center - half, -more_lost), max(center + half + skew, more_gained))
    assert (interval.low, interval.high) == pytest.approx(expected, abs=1e-6)


@given(values=st.lists(st.floats(-10, 10), min_size=12, max_size=30), data=st.data())
def test_amounts_have_at_least_students_interval_of_the_clustered_error(values, data):
    clusters = clustered(values, data)
    assume(5 < unit_count(clusters) < len(values))
    pair = PairedFlip(values, clusters, reach=None)
    half = stats.t.ppf(0.975, unit_count(clusters) - 1) * standard_error(values, clusters)
    low, high = pair.interval().low, pair.interval().high
    ends = [(low, pair.value - half), (high, pair.value + half)]
    assert low <= ends[0][1] + 1e-9 or abs(low) <= 1e-12  # skewness moves one end, and outwards
    assert high >= ends[1][1] - 1e-9 or abs(high) <= 1e-12
    assert any(end == pytest.approx(students, abs=1e-9) or abs(end) <= 1e-12 for end, students in ends)


def test_amounts_that_do_not_vary_are_as_sure_as_a_sign_test():
    assert PairedFlip([0.0] * 4, reach=None).p_equivalence(0.1) == 0.0625
    assert PairedFlip([0.0] * 5, reach=None).p_equivalence(0.1) == 0.03125
    assert PairedFlip([0.2] * 50, reach=None).p_equivalence(0.1) == pytest.approx(1.0)
    assert PairedFlip([1.0] * 8, reach=None).p(0.0, "greater") == pytest.approx(0.5**8)


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=12), st.sampled_from([0.05, 0.2]))
def test_a_difference_of_an_amount_has_an_interval_where_its_mean_has_one(amounts, alpha):
    """The law: one rule for means and differences, that of the sign test."""
    assume(max(amounts) - min(amounts) > 1e-9 * max(amounts))
    found = PairedFlip(amounts, reach=None).interval(alpha)
    assert found.is_known == mean_interval(amounts, alpha=alpha).is_known == (0.5 ** len(amounts) <= alpha / 2)
    assert found.low <= found.value <= found.high


# What is lost whole.


@given(lost=st.integers(0, 40), n=st.integers(1, 400), alpha=ALPHA, reach=st.sampled_from([1.0, 2.0]))
@example(lost=2, n=60, alpha=0.05, reach=2.0)
def test_what_is_lost_one_way_is_bounded_as_clopper_and_pearson_bound_a_share(lost, n, alpha, reach):
    assume(lost <= n)
    pair = PairedFlip([-reach] * lost + [0.0] * (n - lost), reach=reach)
    low, _ = pair.bounds(alpha)
    upper = 1.0 if lost == n else float(stats.beta.ppf(1 - alpha, lost + 1, n - lost))
    assert low <= -reach * upper + 1e-9
    assert pair.p(low + 1e-6, "greater") >= alpha or low + 1e-6 >= 0


@pytest.mark.parametrize(("margin", "alpha"), [(0.02, 0.05), (0.1, 0.005)])
def test_a_loss_of_the_margin_in_single_tasks_is_called_equivalent_no_more_often_than_alpha(margin, alpha):
    """Exactly, for every number of tasks: the chance that so few are lost that all looks well."""
    for n in range(20, 600, 58):
        counts = range(min(n, 60))
        called = [k for k in counts if PairedFlip([-1.0] * k + [0.0] * (n - k)).p_equivalence(margin) < alpha]
        assert sum(stats.binom.pmf(k, n, margin) for k in called) <= alpha


def test_many_gains_outweigh_what_a_few_tasks_might_lose():
    """Twenty of a hundred better: nobody asks for the 149 tasks that would show equality."""
    assert PairedFlip([1.0] * 20 + [0.0] * 80).p(-0.02, "greater") < 0.001
    assert PairedFlip([0.0] * 148).p_equivalence(0.02) > 0.05 > PairedFlip([0.0] * 149).p_equivalence(0.02)


@pytest.mark.parametrize(("n", "repeats", "mean", "spread", "apart"), [(30, 3, 0.9, 2.0, 0.1), (50, 1, 0.7, 0.05, 0.1)])
def test_intervals_cover(n, repeats, mean, spread, apart):
    generator = np.random.default_rng(5)
    runs, held = 200, 0
    for _ in range(runs):
        rates = generator.beta(mean * spread, (1 - mean) * spread, n)
        d = (generator.binomial(repeats, rates) - generator.binomial(repeats, rates * (1 - apart / mean))) / repeats
        interval = PairedFlip(d).interval()
        held += interval.low <= apart <= interval.high
    assert held / runs >= 0.94 - 2 * math.sqrt(0.05 * 0.95 / runs)


P_VALUES = st.lists(st.floats(0, 1), max_size=12)
PAIRS = st.lists(
    st.tuples(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.0, 0.5, 1.0]), min_size=1, max_size=30), st.floats(0.01, 0.5)),
    min_size=1,
    max_size=6,
)


def adjusted(p: list[float]) -> list[float]:
    return [step.p_holm for step in holm_steps(p)]


@given(p=P_VALUES)
def test_holm_is_statsmodels(p):
    assert adjusted(p) == (pytest.approx(multipletests(p, method="holm")[1]) if p else [])


@given(p=P_VALUES, alpha=st.sampled_from([0.01, 0.05, 0.2]))
def test_the_level_of_a_test_is_the_one_at_which_it_was_decided(p, alpha):
    for one, step in zip(p, holm_steps(p, alpha), strict=True):
        if abs(one / step.level - 1) > 1e-9:
            assert (one < step.level) == (step.p_holm < alpha)


@given(pairs=PAIRS, alpha=st.sampled_from([0.05, 0.2]))
def test_no_interval_of_a_family_contradicts_its_verdict(pairs, alpha):
    tests = [(PairedFlip(d), margin) for d, margin in pairs]
    for (pair, _), found in zip(tests, judge_family(tests, alpha), strict=True):
        assert found.p == pair.p_difference <= found.p_holm
        assert (found.p_holm < alpha) == (not found.difference.low <= 0 <= found.difference.high)
        assert alpha / len(pairs) <= found.level <= alpha


def test_a_pair_counts_until_both_of_its_nulls_are_rejected():
    """Two pairs: the first is rejected twice at half the level, and leaves all of it to the second."""
    sure, close = PairedFlip([1.0] * 12 + [0.0] * 400), PairedFlip([1.0] * 6 + [0.0] * 34)
    first, second = judge_family([(sure, 0.1), (close, 0.01)])
    assert first.p_holm == pytest.approx(2 * sure.p_difference)
    assert first.p_equivalence_holm == pytest.approx(2 * sure.p_equivalence(0.1))
    assert (second.p_holm, second.level) == (close.p_difference, 0.05)
