"""Estimators against published vectors and against the laws that they must keep."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from loopbench.metrics.permutation import sign_flip
from loopbench.metrics.statistics import (
    Interval,
    accuracy_interval,
    clustered_error,
    event_rate,
    holm,
    log_ratios,
    mean_difference,
    mean_equivalence,
    mean_interval,
    score_difference,
    score_equivalence,
    standard_error,
    unit_count,
    unit_groups,
    verdict,
    wilson,
)

BIT = st.sampled_from([0.0, 1.0])
SCORE = BIT | st.floats(0, 1)
SCORES = st.lists(st.lists(SCORE, min_size=1, max_size=4), min_size=1, max_size=30)
DIFFERENCES = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]) | st.floats(-1, 1), min_size=1, max_size=40)
AMOUNTS = st.lists(st.floats(0, 1e6), min_size=1, max_size=30)
CLUSTER = st.sampled_from(["", "", "a", "b", "c"])
ALPHA = st.sampled_from([0.01, 0.05, 0.2])


def clustered(values: Sequence[float], data: st.DataObject) -> list[str]:
    return data.draw(st.lists(CLUSTER, min_size=len(values), max_size=len(values)))


def finite(interval: Interval) -> bool:
    return all(map(math.isfinite, (interval.value, interval.low, interval.high)))


# Vectors: Wilson 1927, Miller 2024, Holm 1979; made with scipy and statsmodels.


def test_wilson_vectors():
    assert wilson(7, 10) == pytest.approx((0.3968, 0.8922), abs=5e-5)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=5e-5)


def test_clustered_error_vectors():
    x = [1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0]
    clusters = [name for name in "abcd" for _ in range(3)]
    assert standard_error(x) == pytest.approx(0.15076, abs=5e-6)
    assert clustered_error(x, clusters, "miller") == pytest.approx(0.19135, abs=5e-6)
    assert clustered_error(x, clusters, "CR0") == pytest.approx(0.18634, abs=5e-6)
    assert clustered_error(x, clusters, "CR1") == pytest.approx(0.21517, abs=5e-6)


def test_paired_error_vector():
    a, b = [1, 1, 1, 0, 1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 0, 0, 1, 0, 0, 1]
    d = np.subtract(a, b)
    assert d.mean() == pytest.approx(0.3)
    assert standard_error(d) == pytest.approx(0.15275, abs=5e-6)


def test_bonett_price_by_hand():
    """n = 10 with 3 tasks for a and none for b: p12 = 4/12, p21 = 1/12, variance (p12 + p21 - (p12 - p21)^2) / 12."""
    d = [1, 0, 0, 0, 1, 0, 0, 1, 0, 0]
    center, half = 3 / 12, 1.959964 * math.sqrt((5 / 12 - (3 / 12) ** 2) / 12)
    interval = score_difference(d)
    assert interval.n == 10
    assert interval.value == pytest.approx(0.3)
    assert (interval.low, interval.high) == pytest.approx((center - half, center + half), abs=1e-6)


def test_holm_vector():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


# One arm.


@given(n=st.floats(0.01, 1e6), share=st.floats(0, 1), alpha=ALPHA)
def test_wilson_bounds_its_estimate(n, share, alpha):
    successes = min(share * n, n)
    low, high = wilson(successes, n, alpha)
    assert 0 <= low <= successes / n <= high <= 1
    assert low < high
    assert wilson(n - successes, n, alpha) == pytest.approx((1 - high, 1 - low), abs=1e-9)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (2, 1), (-1, 3), (math.nan, 3), (1, math.nan)])
def test_wilson_refuses_what_is_no_count(successes, n):
    with pytest.raises(ValueError, match="successes of"):
        wilson(successes, n)


@given(scores=SCORES, alpha=ALPHA, data=st.data())
def test_accuracy_interval_has_width_and_stays_on_the_scale(scores, alpha, data):
    clusters = data.draw(st.none() | st.just(clustered(scores, data)))
    interval = accuracy_interval(scores, clusters, alpha)
    assert finite(interval)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert interval.low < interval.high
    assert interval.value == pytest.approx(np.mean([np.mean(task) for task in scores]))
    assert interval.n == len(scores)


@given(scores=SCORES, data=st.data())
def test_the_order_of_tasks_and_the_names_of_clusters_change_nothing(scores, data):
    clusters = clustered(scores, data)
    order = data.draw(st.permutations(range(len(scores))))
    renamed = [{"a": "x", "b": "a"}.get(name, name) for name in clusters]
    first = accuracy_interval(scores, clusters)
    second = accuracy_interval([scores[i] for i in order], [renamed[i] for i in order])
    assert second.as_dict() == pytest.approx(first.as_dict(), abs=1e-9)


@given(outcomes=st.lists(BIT, min_size=1, max_size=50))
def test_one_repeat_of_0_and_1_is_wilson_on_tasks(outcomes):
    interval = accuracy_interval([[x] for x in outcomes])
    assert (interval.low, interval.high) == pytest.approx(wilson(sum(outcomes), len(outcomes)))


@given(n=st.integers(1, 40), repeats=st.integers(1, 6), outcome=BIT, data=st.data())
def test_all_success_and_all_failure_are_wilson_on_tasks(n, repeats, outcome, data):
    """Repeats of one task add no task: their agreement proves nothing about the next."""
    interval = accuracy_interval([[outcome] * repeats] * n, clustered([0.0] * n, data))
    assert (interval.low, interval.high) == pytest.approx(wilson(outcome * n, n))


@given(outcomes=st.lists(BIT, min_size=3, max_size=40), repeats=st.integers(2, 5))
def test_identical_repeats_narrow_nothing(outcomes, repeats):
    """n_eff is then n - 1: no narrower than one repeat."""
    assume(0 < sum(outcomes) < len(outcomes))
    once, often = accuracy_interval([[x] for x in outcomes]), accuracy_interval([[x] * repeats for x in outcomes])
    assert often.low <= once.low
    assert often.high >= once.high


def test_effective_size_by_hand():
    """Task means 0, .5, .5, 1: p = .5, SE² = .5/12, n_eff = .25/(.5/12) = 6 of 8 trials."""
    interval = accuracy_interval([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert (interval.low, interval.high) == pytest.approx(wilson(3, 6))


def test_few_templates_shrink_the_effective_size_by_hand():
    """Template means 0, .5, .5, 1 of two tasks each: n_eff = 6 as above, x (z/t)² with 3 degrees of freedom."""
    interval = accuracy_interval([[0], [0], [0], [1], [1], [0], [1], [1]], list("aabbccdd"))
    effective = 6 * (1.959964 / 3.182446) ** 2
    assert (interval.low, interval.high) == pytest.approx(wilson(effective / 2, effective), abs=1e-6)


def test_effective_size_is_at_most_all_trials():
    """Repeats that balance out in every task but one look more certain than all trials together could be."""
    interval = accuracy_interval([[0, 1]] * 30 + [[0, 0]])
    p = 30 / 62
    assert (interval.low, interval.high) == pytest.approx(wilson(62 * p, 62))


@given(per_cluster=st.integers(2, 6), outcomes=st.lists(BIT, min_size=3, max_size=10))
def test_copies_of_a_template_are_no_evidence(per_cluster, outcomes):
    """Tasks that are copies of each other leave an interval at least as wide as one task of each would."""
    assume(0 < sum(outcomes) < len(outcomes))
    copies = [[x] for x in outcomes for _ in range(per_cluster)]
    names = [f"template {i}" for i in range(len(outcomes)) for _ in range(per_cluster)]
    one, many = accuracy_interval([[x] for x in outcomes]), accuracy_interval(copies, names)
    assert many.low <= one.low
    assert many.high >= one.high
    assert many.n == len(copies)


def test_graded_scores_by_hand():
    """Means .2, .4, .9: x̄ = .5, SE² = .13/3, n_eff = .25/SE² x (1.959964/4.302653)²: t has 2 degrees of freedom."""
    interval = accuracy_interval([[0.2], [0.4], [0.9]])
    effective = 0.25 / (0.13 / 3) * (1.959964 / 4.302653) ** 2
    assert (interval.low, interval.high) == pytest.approx(wilson(effective / 2, effective), abs=1e-6)


@given(value=st.floats(0.2, 0.8), n=st.integers(10, 40))
def test_graded_scores_that_hardly_vary_have_the_interval_of_their_mean(value, n):
    """Far from the ends of the scale Wilson on n_eff is Student's t."""
    scores = [[value + 0.001 * (-1) ** place] for place in range(n)]
    found = accuracy_interval(scores)
    half = stats.t.ppf(0.975, n - 1) * standard_error([score for (score,) in scores])
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half), rel=1e-4)


@pytest.mark.parametrize("scores", [[], [[]], [[0.5], []], [[1.5]], [[-0.1]]])
def test_accuracy_interval_refuses_what_is_no_score(scores):
    with pytest.raises(ValueError, match=r"at least one task|\[0, 1\]"):
        accuracy_interval(scores)


@given(values=AMOUNTS, data=st.data())
def test_mean_interval_bounds_its_estimate(values, data):
    interval = mean_interval(values, clustered(values, data))
    assert finite(interval)
    assert 0 <= interval.low <= interval.value <= interval.high
    assert interval.value == pytest.approx(np.mean(values))


@given(value=st.floats(0, 1e6), n=st.integers(1, 20))
def test_a_quantity_that_does_not_vary_has_no_width(value, n):
    interval = mean_interval([value] * n)
    assert interval.as_dict() == pytest.approx({"value": value, "low": value, "high": value, "n": n})


def test_mean_interval_by_hand():
    interval = mean_interval([2, 4, 6, 8])
    half = 3.182446 * standard_error([2, 4, 6, 8])
    assert (interval.low, interval.high) == pytest.approx((5 - half, 5 + half), abs=1e-5)


@given(values=st.lists(st.floats(-10, 10), min_size=2, max_size=20))
def test_clusters_of_one_are_no_clusters(values):
    own = [str(place) for place in range(len(values))]
    assert clustered_error(values, own, "CR1") == pytest.approx(standard_error(values), abs=1e-9)
    assert clustered_error(values, [""] * len(values), "miller") == pytest.approx(standard_error(values), abs=1e-9)


@given(values=st.lists(st.floats(-10, 10), min_size=4, max_size=30), data=st.data())
def test_intervals_use_the_clustered_error(values, data):
    clusters = clustered(values, data)
    assume(1 < unit_count(clusters) < len(values))
    interval = mean_difference(values, clusters)
    half = stats.t.ppf(0.975, unit_count(clusters) - 1) * clustered_error(values, clusters, "CR1")
    assert (interval.high - interval.low) / 2 == pytest.approx(half, abs=1e-9)


def test_one_cluster_alone_has_no_error():
    with pytest.raises(ValueError, match="at least two clusters"):
        clustered_error([1, 2, 3], ["a", "a", "a"])


def test_clusters_must_match_tasks():
    with pytest.raises(ValueError, match="2 clusters for 3 tasks"):
        mean_interval([1, 2, 3], ["a", "b"])


def test_event_rate_of_nothing_is_unknown():
    assert event_rate(0, 0) is None
    rate = event_rate(7, 10)
    assert rate is not None
    assert rate.as_dict() == pytest.approx({"value": 0.7, "low": 0.3968, "high": 0.8922, "n": 10}, abs=5e-5)


# Pairs.


@given(d=DIFFERENCES, alpha=ALPHA, data=st.data())
def test_score_difference_has_width_and_stays_on_the_scale(d, alpha, data):
    interval = score_difference(d, clustered(d, data), alpha)
    assert -1 <= interval.low <= interval.value <= interval.high <= 1
    assert interval.low < interval.high
    assert interval.value == pytest.approx(np.mean(d))


@given(d=DIFFERENCES, data=st.data())
def test_swapping_the_arms_negates_the_difference(d, data):
    clusters, negated = clustered(d, data), [-x for x in d]
    for estimate in (score_difference, mean_difference):
        there, back = estimate(d, clusters), estimate(negated, clusters)
        assert (back.value, back.low, back.high) == pytest.approx((-there.value, -there.high, -there.low), abs=1e-9)
    assert sign_flip(negated, clusters) == sign_flip(d, clusters)
    assert score_equivalence(negated, 0.1, clusters) == pytest.approx(score_equivalence(d, 0.1, clusters))
    assert mean_equivalence(negated, 0.1, clusters) == pytest.approx(mean_equivalence(d, 0.1, clusters))


@given(d=st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=1, max_size=60), data=st.data())
def test_the_order_of_tasks_changes_no_test(d, data):
    shuffled = data.draw(st.permutations(d))
    assert sign_flip(shuffled) == sign_flip(d)
    assert score_difference(shuffled).as_dict() == pytest.approx(score_difference(d).as_dict(), abs=1e-9)


@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=10), data=st.data())
def test_holm_raises_no_p_beyond_bonferroni_and_ignores_order(p, data):
    adjusted = holm(p)
    assert all(x <= y <= min(1.0, len(p) * x) + 1e-12 for x, y in zip(p, adjusted, strict=True))
    order = data.draw(st.permutations(range(len(p))))
    assert holm([p[i] for i in order]) == pytest.approx([adjusted[i] for i in order])


def test_holm_is_statsmodels():
    p = list(np.random.default_rng(3).random(45) ** 3)
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


@pytest.mark.parametrize(
    ("advantage", "p", "p_equivalence", "word", "within"),
    [
        (0.1, 0.01, 0.9, "better", False),
        (-0.1, 0.01, 0.9, "worse", False),
        (-0.001, 0.01, 0.01, "worse", True),
        (0.001, 0.5, 0.01, "equivalent", True),
        (0.1, 0.5, 0.5, "undecided", False),
        (0.1, 0.05, 0.05, "undecided", False),
    ],
)
def test_verdicts(advantage, p, p_equivalence, word, within):
    judged = verdict(advantage, p, p_equivalence, 0.05)
    assert (judged.word, judged.within_margin) == (word, within)


# Ratios.


@given(a=st.lists(st.floats(0, 1e6), min_size=1, max_size=20), data=st.data())
def test_log_ratios_are_finite_and_turn_with_the_arms(a, data):
    b = data.draw(st.lists(st.floats(0, 1e6), min_size=len(a), max_size=len(a)))
    there, back = log_ratios(a, b), log_ratios(b, a)
    assert np.isfinite(there).all()
    assert list(there) == pytest.approx([-x for x in back])
    assert all(math.copysign(1, x) == math.copysign(1, p - q) for x, p, q in zip(there, a, b, strict=True) if x)


def test_log_ratios_by_hand():
    assert list(log_ratios([2, 6, 5], [1, 3, 5])) == pytest.approx([math.log(2), math.log(2), 0])
    assert list(log_ratios([0, 4], [2, 0])) == pytest.approx([math.log(1 / 2), math.log(4)])
    assert list(log_ratios([0, 0], [0, 0])) == [0, 0]


@pytest.mark.parametrize(("a", "b"), [([], []), ([1], [1, 2]), ([-1], [1]), ([1], [-1])])
def test_log_ratios_refuses_what_has_none(a, b):
    with pytest.raises(ValueError, match=r"at least one task|equal length"):
        log_ratios(a, b)


# Units of inference.


def test_units_of_tasks():
    assert unit_groups(["", ""], 2) is None
    assert unit_groups(["a", "a"], 2) is None
    assert unit_groups(None, 3) is None
    groups = unit_groups(["a", "", "a"], 3)
    assert groups is not None
    assert list(groups) == [0, 1, 0]
    with pytest.raises(ValueError, match="2 clusters for 3 tasks"):
        unit_groups(["", ""], 3)


def test_units():
    assert unit_count(["", "", ""]) == 3
    assert unit_count(["a", "a", "b", "", ""]) == 4
    assert unit_count(["a", "a", "a"]) == 3


# Simulations: the promise itself.


def coverage(n: int, repeats: int, spread: float, mean: float, cluster_size: int = 1) -> float:
    """Share of 2,000 samples whose 95 % interval holds the true mean; tasks' (templates') rates are Beta-distributed."""
    generator = np.random.default_rng(20_240)
    hits = 0
    for _ in range(2_000):
        rates = np.repeat(generator.beta(mean * spread, (1 - mean) * spread, n // cluster_size), cluster_size)
        scores = (generator.random((n, repeats)) < rates[:, None]).astype(float).tolist()
        clusters = [str(place // cluster_size) for place in range(n)] if cluster_size > 1 else None
        interval = accuracy_interval(scores, clusters)
        hits += interval.low <= mean <= interval.high
    return hits / 2_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "repeats", "spread", "mean", "cluster_size"),
    [
        (50, 1, 2.0, 0.7, 1),
        (100, 1, 2.0, 0.9, 1),
        (20, 5, 2.0, 0.7, 1),
        (50, 3, 1.0, 0.5, 1),
        (200, 3, 2.0, 0.9, 1),
        (50, 1, 8.0, 0.7, 10),
        (200, 2, 8.0, 0.7, 10),
        (400, 1, 8.0, 0.8, 10),
    ],
)
def test_accuracy_interval_covers(n, repeats, spread, mean, cluster_size):
    assert 0.93 <= coverage(n, repeats, spread, mean, cluster_size) <= 0.985


@pytest.mark.slow
@pytest.mark.parametrize(("n", "disagreement"), [(20, 0.05), (50, 0.1), (200, 0.02), (200, 0.3)])
def test_score_difference_covers(n, disagreement):
    generator = np.random.default_rng(11)
    truth, hits = disagreement / 3, 0
    for _ in range(2_000):
        d = generator.choice([-1.0, 0.0, 1.0], n, p=[disagreement / 3, 1 - disagreement, 2 * disagreement / 3])
        interval = score_difference(d)
        hits += interval.low <= truth <= interval.high
    assert hits / 2_000 >= 0.94
