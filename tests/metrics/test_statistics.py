"""Estimators against published vectors and against the laws that they must keep."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from whichloop.metrics.paired import mean_interval
from whichloop.metrics.statistics import (
    Interval,
    accuracy_interval,
    clopper_pearson,
    equal_units,
    event_rate,
    fisher_greater,
    independent_difference,
    standard_error,
    unit_count,
    verdict,
    wilson,
)

BIT = st.sampled_from([0.0, 1.0])
SCORE = BIT | st.floats(0, 1)
SCORES = st.lists(st.lists(SCORE, min_size=1, max_size=4), min_size=1, max_size=30)
CLUSTER = st.sampled_from(["", "", "a", "b", "c"])
ALPHA = st.sampled_from([0.01, 0.05, 0.2])


def clustered(values: Sequence[float], data: st.DataObject) -> list[str]:
    return data.draw(st.lists(CLUSTER, min_size=len(values), max_size=len(values)))


def finite(interval: Interval) -> bool:
    return all(map(math.isfinite, (interval.value, interval.low, interval.high)))


# Vectors: Wilson 1927, Miller 2024, Holm 1979; made with scipy and statsmodels.


@given(st.integers(0, 60), st.integers(0, 60), st.data())
def test_fisher_adds_up_the_chances_of_tables_as_far_apart(n, m, data):
    a, b = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    ways = sum(math.comb(n, k) * math.comb(m, a + b - k) for k in range(a, min(n, a + b) + 1))
    assert fisher_greater((a, n), (b, m)) == pytest.approx(ways / math.comb(n + m, a + b))
    with pytest.raises(ValueError, match=" of "):
        fisher_greater((n + 1, n), (b, m))


def test_a_difference_of_two_samples_is_that_of_newcombe():
    """Newcombe 1998, method 10, which combines two of Wilson's intervals as MOVER does: 56/70 - 48/80."""
    a, b = (Interval(hits / n, *wilson(hits, n), n) for hits, n in ((56, 70), (48, 80)))
    found = independent_difference(a, b)
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)
    assert found.n == 150


ENDS = st.tuples(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1)).map(
    lambda drawn: Interval(drawn[0], drawn[0] - drawn[1], drawn[0] + drawn[2], 5)
)


@given(ENDS, ENDS)
def test_a_difference_of_two_samples_turns_around_and_is_no_surer_than_either(a, b):
    found, turned = independent_difference(a, b), independent_difference(b, a).turned
    assert (found.value, found.low, found.high) == pytest.approx((turned.value, turned.low, turned.high))
    assert found.low <= found.value <= found.high
    for one in (a, b.turned):
        assert found.value - found.low >= one.value - one.low - 1e-9
        assert found.high - found.value >= one.high - one.value - 1e-9


def test_clopper_pearson_vectors():
    """7/10, and the rule of three (Hanley & Lippman-Hand 1983)."""
    assert clopper_pearson(7, 10) == pytest.approx((0.3475, 0.9333), abs=5e-5)
    assert clopper_pearson(0, 300, 0.1) == pytest.approx((0.0, 3 / 300), rel=0.01)


def test_clustered_error_vectors():
    x = [1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0]
    clusters = [name for name in "abcd" for _ in range(3)]
    assert standard_error(x) == pytest.approx(0.15076, abs=5e-6)
    assert standard_error(x, clusters) == pytest.approx(0.21517, abs=5e-6)


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
def test_one_repeat_of_0_and_1_is_clopper_and_pearson_on_tasks(outcomes):
    interval = accuracy_interval([[x] for x in outcomes])
    assert (interval.low, interval.high) == pytest.approx(clopper_pearson(sum(outcomes), len(outcomes)))


@given(n=st.integers(1, 40), repeats=st.integers(1, 6), outcome=BIT, data=st.data())
def test_all_success_and_all_failure_are_clopper_and_pearson_on_units(n, repeats, outcome, data):
    """Neither repeats of one task nor tasks of one template add a unit: their agreement proves nothing about the next."""
    clusters = clustered([0.0] * n, data)
    count = unit_count(clusters)
    units = count**2 / (count / equal_units(clusters, n) * (count + 1) - 1)  # of equal size: their number
    assert units <= count + 1e-9
    interval = accuracy_interval([[outcome] * repeats] * n, clusters)
    assert (interval.low, interval.high) == pytest.approx(clopper_pearson(outcome * units, units))


@given(share=st.floats(0, 1), n=st.integers(1, 500), repeats=st.integers(1, 10))
def test_effective_size_is_at_most_all_trials(share, n, repeats):
    """Repeats that balance out in every task look more certain than all trials together could be."""
    solved = round(share * repeats)
    interval = accuracy_interval([[1] * solved + [0] * (repeats - solved)] * n)
    low, high = clopper_pearson(solved * n, repeats * n)
    assert interval.low <= low + 1e-9
    assert interval.high >= high - 1e-9


@given(per_cluster=st.integers(2, 6), outcomes=st.lists(BIT, min_size=3, max_size=10))
def test_copies_of_a_template_are_no_evidence(per_cluster, outcomes):
    """Tasks that are copies of each other leave an interval at least as wide as one task of each would."""
    assume(0 < sum(outcomes) < len(outcomes))
    copies = [[x] for x in outcomes for _ in range(per_cluster)]
    names = [f"template {i}" for i in range(len(outcomes)) for _ in range(per_cluster)]
    one, many = accuracy_interval([[x] for x in outcomes]), accuracy_interval(copies, names)
    assert many.low <= one.low + 1e-9
    assert many.high >= one.high - 1e-9
    assert many.n == len(copies)


@given(value=st.floats(0.2, 0.8), n=st.integers(10, 400))
def test_graded_scores_that_do_not_vary_are_as_sure_as_the_rule_of_three(value, n):
    """What no task showed, a share of 3/n of all tasks may do: their mean may lie as much to either side."""
    found = accuracy_interval([[value]] * n)
    assert 0 < found.high - found.low <= 2 * 3.7 / n


@pytest.mark.parametrize("scores", [[], [[]], [[0.5], []], [[1.5]], [[-0.1]]])
def test_accuracy_interval_refuses_what_is_no_score(scores):
    with pytest.raises(ValueError, match=r"at least one task|\[0, 1\]"):
        accuracy_interval(scores)


@given(value=st.floats(0, 1e6), n=st.integers(1, 20))
def test_a_quantity_that_does_not_vary_has_no_width(value, n):
    interval = mean_interval([value] * n)
    assert interval.as_dict() == pytest.approx({"value": value, "low": value, "high": value, "n": n})


def test_event_rate_of_nothing_is_unknown():
    assert event_rate(0, 0) is None
    rate = event_rate(7, 10)
    assert rate is not None
    assert rate.as_dict() == pytest.approx({"value": 0.7, "low": 0.3475, "high": 0.9333, "n": 10}, abs=5e-5)


# Verdicts.


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


# Units of inference.


# Simulations: the promise itself.


def coverage(n: int, repeats: int, spread: float, mean: float, cluster_size: int = 1) -> float:
    """Share of 400 samples whose 95 % interval holds the true mean; tasks' (templates') rates are Beta-distributed."""
    generator = np.random.default_rng(20_240)
    hits = 0
    for _ in range(400):
        rates = np.repeat(generator.beta(mean * spread, (1 - mean) * spread, n // cluster_size), cluster_size)
        scores = (generator.random((n, repeats)) < rates[:, None]).astype(float).tolist()
        clusters = [str(place // cluster_size) for place in range(n)] if cluster_size > 1 else None
        interval = accuracy_interval(scores, clusters)
        hits += interval.low <= mean <= interval.high
    return hits / 400


@pytest.mark.parametrize(
    ("n", "repeats", "spread", "mean", "cluster_size"), [(10, 1, 2.0, 0.005, 1), (50, 3, 1.0, 0.5, 1), (15, 3, 2.0, 0.8, 3)]
)
def test_accuracy_interval_covers(n, repeats, spread, mean, cluster_size):
    assert coverage(n, repeats, spread, mean, cluster_size) >= 0.94 - 0.02


def test_accuracy_interval_of_graded_scores_covers():
    n, mean, spread = 10, 0.9, 0.5
    generator = np.random.default_rng(4)
    found = [accuracy_interval(row[:, None].tolist()) for row in generator.beta(mean * spread, (1 - mean) * spread, (400, n))]
    assert np.mean([one.low <= mean <= one.high for one in found]) >= 0.94 - 0.02
