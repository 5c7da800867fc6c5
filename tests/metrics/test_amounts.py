"""Means of skewed amounts and ratios of sums: their laws, and that bounds hold what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from whichloop.metrics.paired import AmountLaw, mean_interval
from whichloop.metrics.statistics import Interval
from whichloop.metrics.sums import PairedSums
from whichloop.metrics.views import cost_per_solved
from whichloop.text.numbers import interval

AMOUNTS = st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)), min_size=2, max_size=20)


@given(
    units=st.lists(st.floats(-100, 100), min_size=6, max_size=30),
    bound=st.floats(-100, 100),
    alpha=st.sampled_from([0.02, 0.05, 0.2]),
)
def test_a_bound_lies_above_what_the_law_rejects(units, bound, alpha):
    law = AmountLaw(np.array(units))
    p, low = law.p(bound), law.low(alpha)
    assume(abs(p - alpha) > 1e-9 and abs(low - bound) > 1e-9)
    assert (p < alpha) == (low > bound)


@given(st.integers(1, 12), st.integers(2, 5), st.sampled_from([0.05, 0.2]))
def test_a_mean_and_a_cost_per_solved_task_have_an_interval_by_one_rule(clusters, tasks, alpha):
    """The law: both, or neither; and the reason is the number of clusters, not of tasks."""
    names = [str(cluster) for cluster in range(clusters) for _ in range(tasks)]
    costs = [1.0 + number for number in range(len(names))]
    assume(clusters > 1)  # tasks of a single cluster are the units
    mean, solved = mean_interval(costs, names, alpha), cost_per_solved(costs, [1.0] * len(names), names, alpha)
    assert solved is not None
    assert solved.value == pytest.approx(mean.value)
    assert mean.is_known == solved.is_known == (0.5**clusters <= alpha / 2)
    said = f"(n = {len(names)} in {clusters} clusters, no interval)"
    assert interval(mean, 1).endswith(said) == interval(solved, 1).endswith(said) == (not mean.is_known)


@given(pairs=AMOUNTS, ratio=st.sampled_from([0.5, 0.9, 1.0, 1.1, 2.0]), alpha=st.sampled_from([0.05, 0.2]))
def test_bounds_of_a_ratio_say_what_its_tests_say(pairs, ratio, alpha):
    found = PairedSums([a for a, _ in pairs], [b for _, b in pairs])
    low, high = found.bounds(alpha)
    assert low <= found.value <= high
    for p, beyond in ((found.p(ratio, "greater"), low > ratio), (found.p(ratio, "less"), high < ratio)):
        assume(abs(p - alpha) > 1e-6 and min(abs(low - ratio), abs(high - ratio)) > 1e-9)
        assert (p < alpha) == beyond


def test_a_sum_that_one_task_makes_up_is_in_no_sure_ratio():
    found = PairedSums([1.0] * 39 + [4001.0], [0.0] * 39 + [4000.0])
    assert found.p(1.0, "greater") < 1e-9
    assert found.p(1.005, "greater") > 0.3
    low, high = found.bounds()
    assert (low, high) == pytest.approx((1.0, math.inf))


def test_the_interval_of_a_skewed_mean_holds_it():
    """Student's t covers 0.79 to 0.94 here."""
    rng, runs, mean = np.random.default_rng(4), 400, math.exp(1.5**2 / 2)
    found = [mean_interval(rng.lognormal(0, 1.5, 60)) for _ in range(runs)]
    assert sum(one.low <= mean <= one.high for one in found) / runs >= 0.94 - 3 * math.sqrt(0.05 * 0.95 / runs)


@given(units=st.lists(st.floats(0, 1e4), min_size=7, max_size=200), alpha=st.sampled_from([0.02, 0.05, 0.2]))
def test_a_bound_lies_between_student_s_and_a_multiple_of_it(units, alpha):
    """The law: at least as far as t, at most twice as far over up to 16 units, and once for each 8 units over more."""
    values = np.array(units)
    assume(np.std(values) > 1e-9 * np.mean(values))
    half = float(stats.t.ppf(1 - alpha / 2, len(values) - 1) * stats.sem(values))
    found, most = mean_interval(values, alpha=alpha), max(2.0, len(values) / 8)
    for reached in (found.high - found.value, AmountLaw(values).low(alpha / 2) - values.mean()):
        assert half * (1 - 1e-9) <= abs(reached) <= most * half * (1 + 1e-9)


def test_an_interval_over_few_clusters_is_told_by_the_number_of_them():
    """A vector by hand: sizes 1 to 3; Student's t with 7 degrees of freedom, and twice as far above."""
    amounts, clusters = zip(
        *[(amount, name) for name, cluster in zip("abcdefgh", CLUSTERS, strict=True) for amount in cluster], strict=True
    )
    found = mean_interval(amounts, clusters)
    units = found.value + np.array([sum(cluster) - len(cluster) * found.value for cluster in CLUSTERS]) * 8 / len(amounts)
    half = float(stats.t.ppf(0.975, 7) * stats.sem(units))
    assert (round(found.value, 9), found.n, found.units) == (40.0, 16, 8)
    assert found.low == pytest.approx(max(found.value - half, 0.0))
    assert found.high == pytest.approx(found.value + 2 * half)
    assert found.as_dict()["clusters"] == 8
    assert Interval.from_dict(found.as_dict()) == found


CLUSTERS = ((10,), (20, 30), (10, 20, 30), (20,), (10, 30), (20, 20, 20), (20, 20, 60), (300,))


def test_the_interval_over_few_clusters_holds_the_mean_as_often_as_the_page_says():
    """Amounts of tasks, a row a run: half of their variance is the clusters', of which each has 1 to 12 tasks."""
    rng, sizes, clusters = np.random.default_rng(9), np.resize([1, 12, 4, 7, 2, 9], 12), range(12)
    of_cluster = np.repeat(rng.normal(0, math.sqrt(0.5), (300, 12)), sizes, axis=1)
    runs = np.exp(of_cluster + rng.normal(0, math.sqrt(0.5), of_cluster.shape))
    names = [f"k{place}" for place in clusters for _ in range(sizes[place])]
    found, true = [mean_interval(run, names) for run in runs], math.exp(0.5)
    assert sum(one.low <= true <= one.high for one in found) / len(found) >= 0.88 - 3 * math.sqrt(0.05 * 0.95 / len(found))
