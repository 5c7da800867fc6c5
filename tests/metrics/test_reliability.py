"""What repeats and reported confidence say: against brute force, scipy and definitions, and the laws of each number."""

from __future__ import annotations

import json
from itertools import combinations, pairwise, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from whichloop.metrics.calibration import (
    BINS,
    Histogram,
    aurc,
    auroc,
    brier,
    calibration,
    calibration_error,
    histogram,
)
from whichloop.metrics.record import Record
from whichloop.metrics.reliability import Reliability, reliability, variance_split
from whichloop.metrics.statistics import accuracy_interval

BIT = st.sampled_from([0.0, 1.0])
OUTCOMES = st.lists(st.lists(BIT, min_size=2, max_size=6), min_size=1, max_size=12)


def tried(outcomes: list[list[float]], clusters: int = 0) -> Reliability:
    found = reliability("a", records(outcomes, clusters))
    assert found is not None
    return found


def records(outcomes: list[list[float]], clusters: int = 0) -> list[Record]:
    return [
        Record("a", "s", "d", f"t{task:02}", n, 0, "scored", scores={"accuracy": score}, **named(task, clusters))
        for task, scores in enumerate(outcomes)
        for n, score in enumerate(scores)
    ]


def named(task: int, clusters: int) -> dict[str, Any]:
    return {"cluster": f"c{task % clusters}"} if clusters else {}


@given(outcomes=OUTCOMES)
def test_every_number_is_the_mean_over_all_choices_of_k_tries(outcomes):
    found = tried(outcomes)
    assert (found.tasks, found.repeats) == (len(outcomes), min(map(len, outcomes)))
    at, hat = ([interval.value for interval in kind] for kind in (found.pass_at, found.pass_hat))
    for k in range(1, found.repeats + 1):
        chosen = [list(combinations(scores, k)) for scores in outcomes]
        assert at[k - 1] == pytest.approx(np.mean([np.mean([any(c) for c in task]) for task in chosen]))
        assert hat[k - 1] == pytest.approx(np.mean([np.mean([all(c) for c in task]) for task in chosen]))
    assert all(one <= more + 1e-12 for one, more in pairwise(at))
    assert all(one >= more - 1e-12 for one, more in pairwise(hat))
    assert found.pass_at[0] == found.pass_hat[0] == accuracy_interval(outcomes)
    for interval in (*found.pass_at, *found.pass_hat):
        assert 0 <= interval.low <= interval.value <= interval.high <= 1
        assert interval.low < interval.high
    steady = found.consistency
    assert -1 <= steady.low < steady.high <= 1 + 1e-12
    alike = [np.mean([1.0 if a == b else -1.0 for a, b in combinations(scores, 2)]) for scores in outcomes]
    assert steady.low <= steady.value <= steady.high
    assert steady.value == pytest.approx(np.mean(alike))
    made = found.to_json()
    assert json.loads(json.dumps(made, allow_nan=False)) == made


def test_tasks_with_one_try_left_are_left_out_and_the_fewest_tries_are_k():
    found = tried([[1, 1, 0], [1, 0], [1]])
    assert (found.tasks, found.repeats) == (2, 2)
    assert found.pass_hat[1].value == pytest.approx((1 / 3 + 0) / 2)
    assert reliability("a", records([[1], [0]])) is None
    assert reliability("a", []) is None
    assert tried([[0.5, 1.0], [1.0, 1.0]]).pass_at[0].value == 0.75  # part of a score is not solved
    assert tried([[1, 0]]).variance is None


@given(scores=st.lists(st.lists(BIT, min_size=3, max_size=3), min_size=2, max_size=20))
def test_the_parts_of_the_variance_are_the_formulae(scores):
    """Var(p̂_t) = between + mean σ̂²_t/K, with σ̂²_t = K/(K-1)·p̂(1-p̂)."""
    split = variance_split([*scores, [1.0]])
    assert split is not None
    means = np.mean(scores, axis=1)
    within = np.mean(3 / 2 * means * (1 - means))
    assert split.within == pytest.approx(within)
    assert split.between == pytest.approx(max(np.var(means, ddof=1) - within / 3, 0.0), abs=1e-12)


CONFIDENCE = st.integers(0, 20).map(lambda twentieth: twentieth / 20)
TRIALS = st.lists(st.tuples(CONFIDENCE, st.booleans()), min_size=1, max_size=40)


def whole(trials: list[tuple[float, bool]]) -> Any:
    confidence, right = zip(*trials, strict=True)
    return histogram(confidence, right, [0] * len(trials))


def measured(found: Histogram) -> list[float]:
    """Brier score, calibration error, AUROC and area of the first row."""
    return [float(brier(found)[0]), calibration_error(found), float(auroc(found)[0]), aurc(found)]


def reported(task: int, confidence: float | None, accuracy: float = 1.0, repeat: int = 0, **changes: Any) -> Record:
    values: dict[str, Any] = {"status": "scored", "scores": {"accuracy": accuracy}, "confidence": confidence}
    return Record("a", "s", "d", f"t{task}", repeat, 0, **(values | changes))


@given(trials=TRIALS)
def test_every_measure_is_that_of_its_definition(trials):
    score, error, ranks, area = measured(whole(trials))
    confidence, right = np.array(trials, dtype=float).T
    assert score == pytest.approx(np.mean((confidence - right) ** 2))
    places = np.minimum((confidence * 20).round().astype(int) // 2, BINS - 1)
    gaps = [abs(np.mean(right[places == k]) - np.mean(confidence[places == k])) * np.mean(places == k) for k in set(places)]
    assert error == pytest.approx(sum(gaps))
    assert 0 <= area <= 1 + 1e-12
    told = [confidence[right == outcome] for outcome in (1, 0)]
    if min(map(len, told)):
        assert ranks == pytest.approx(stats.mannwhitneyu(*told).statistic / len(told[0]) / len(told[1]))
        assert float(auroc(whole([(1 - c, bool(r)) for c, r in trials]))[0]) == pytest.approx(1 - ranks)


@given(trials=st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.9]), st.booleans()), min_size=1, max_size=5))
def test_the_area_is_the_mean_over_orders_of_tied_trials(trials):
    """Where no trials tie, the mean over k of the risk of the k most confident; where they do, any order is as good."""
    orders = [sorted(order, key=lambda trial: -trial[0]) for order in permutations(trials)]
    areas = [np.mean(np.cumsum([not right for _, right in order]) / np.arange(1, len(order) + 1)) for order in orders]
    assert aurc(whole(trials)) == pytest.approx(np.mean(areas))


@given(trials=TRIALS, counts=st.lists(st.integers(0, 3), min_size=3, max_size=3), data=st.data())
def test_a_drawn_unit_counts_as_often_as_it_is_drawn(trials, counts, data):
    """What the bootstrap computes from counts is what the trials themselves give, each so many times and in any order."""
    confidence, right = zip(*trials, strict=True)
    units = [place % 3 for place in range(len(trials))]
    chosen = [trial for place, trial in enumerate(trials) for _ in range(counts[units[place]])]
    assume(chosen and len(trials) >= 3)
    found, times = histogram(confidence, right, units), np.array([counts], dtype=float)
    drawn = Histogram(found.levels, times @ found.right, times @ found.wrong)
    assert measured(drawn) == pytest.approx(measured(whole(data.draw(st.permutations(chosen)))), nan_ok=True)


def test_only_scored_trials_that_report_count():
    odd = [reported(1, None), reported(3, 1.5), reported(4, 0.5, status="errored")]
    found = calibration("a", [reported(0, 0.9), *odd, reported(2, 0.2, 0.5), reported(2, 0.8, 1.0, repeat=1)])
    assert found is not None
    assert (found.arm, found.scored, found.reported, found.brier.n) == ("a", 5, 3, 2)
    assert found.brier.value == pytest.approx((0.01 + 0.04 + 0.04) / 3)  # a score of .5 is not right
    assert calibration("a", odd) is None


@pytest.mark.parametrize(("wrong", "clusters"), [(0, 20), (9, 20), (10, 20), (20, 20), (10, 9)])
def test_ranks_are_judged_by_ten_units_of_either_kind(wrong, clusters):
    records = [reported(task, task / 20, float(task >= wrong), cluster=f"c{task % clusters}") for task in range(20)]
    found = calibration("a", records)
    assert found is not None
    enough = wrong == 10 and clusters == 20
    assert (found.auroc is not None) is enough
    if found.auroc is not None:
        assert (found.auroc.value, found.auroc.high) == (1.0, 1.0)
