"""Measures of confidence: against scipy and by definition over every trial, and the laws that they keep."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.cases import cases
from whichloop.metrics.calibration import (
    BINS,
    MAX_POINTS,
    aurc,
    auroc,
    bins,
    brier,
    calibration,
    calibration_error,
    histogram,
    risk_coverage,
)
from whichloop.metrics.record import Record

CONFIDENCE = st.integers(0, 20).map(lambda twentieth: twentieth / 20)
TRIALS = st.lists(st.tuples(CONFIDENCE, st.booleans()), min_size=1, max_size=40)


def whole(trials: list[tuple[float, bool]]) -> Any:
    confidence, right = zip(*trials, strict=True)
    return histogram(confidence, right, [0] * len(trials))


def record(task: int, confidence: float | None, accuracy: float = 1.0, repeat: int = 0, **changes: Any) -> Record:
    values: dict[str, Any] = {"status": "scored", "scores": {"accuracy": accuracy}, "confidence": confidence}
    return Record("a", "s", "d", f"t{task}", repeat, 0, **(values | changes))


# Against scipy, and by definition.


@given(trials=TRIALS)
def test_auroc_is_the_mann_whitney_statistic(trials):
    right = [confidence for confidence, is_right in trials if is_right]
    wrong = [confidence for confidence, is_right in trials if not is_right]
    assume(right and wrong)
    u = stats.mannwhitneyu(right, wrong).statistic
    assert auroc(whole(trials))[0] == pytest.approx(u / (len(right) * len(wrong)))


@given(trials=TRIALS)
def test_brier_and_calibration_error_by_definition(trials):
    confidence, right = np.array(trials, dtype=float).T
    assert brier(whole(trials))[0] == pytest.approx(np.mean((confidence - right) ** 2))
    places = np.minimum((confidence * 20).round().astype(int) // 2, BINS - 1)
    gaps = [abs(np.mean(right[places == k]) - np.mean(confidence[places == k])) * np.mean(places == k) for k in set(places)]
    assert calibration_error(whole(trials))[0] == pytest.approx(sum(gaps))


@settings(max_examples=cases(25))
@given(trials=st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.9]), st.booleans()), min_size=1, max_size=12), data=st.data())
def test_the_area_is_the_mean_over_orders_of_tied_trials(trials, data):
    """Where no trials tie, the mean over k of the risk of the k most confident; where they do, any order is as good."""

    def area(order: list[tuple[float, bool]]) -> float:
        wrong = np.cumsum([not right for _, right in order])
        return float(np.mean(wrong / np.arange(1, len(order) + 1)))

    generator = np.random.default_rng(data.draw(st.integers(0, 9)))
    drawn = [area(sorted(generator.permutation(np.array(trials, dtype=object)).tolist(), key=lambda t: -t[0])) for _ in range(400)]
    assert aurc(whole(trials))[0] == pytest.approx(np.mean(drawn), abs=5 * np.std(drawn) / np.sqrt(len(drawn)) + 1e-9)


def test_measures_by_hand():
    """Confidences .9 right, .8 wrong, .6 right, .3 wrong: risks 0, 1/2, 1/3, 1/2."""
    trials = [(0.9, True), (0.8, False), (0.6, True), (0.3, False)]
    found = whole(trials)
    assert brier(found)[0] == pytest.approx((0.01 + 0.64 + 0.16 + 0.09) / 4)
    assert calibration_error(found)[0] == pytest.approx((0.1 + 0.8 + 0.4 + 0.3) / 4)
    assert auroc(found)[0] == pytest.approx(3 / 4)
    assert aurc(found)[0] == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert risk_coverage(found.right[0], found.wrong[0]) == [(0.25, 0.0), (0.5, 0.5), (0.75, pytest.approx(1 / 3)), (1.0, 0.5)]


# Laws.


@given(trials=TRIALS)
def test_every_measure_stays_on_its_scale(trials):
    found = whole(trials)
    for measure in (brier, calibration_error, aurc):
        assert -1e-12 <= measure(found)[0] <= 1 + 1e-12
    assert np.isnan(auroc(found)[0]) or 0 <= auroc(found)[0] <= 1
    assert sum(b.trials for b in bins(found)) == len(trials)
    curve = risk_coverage(found.right[0], found.wrong[0])
    assert curve[-1] == pytest.approx((1.0, np.mean([not right for _, right in trials])))
    assert [coverage for coverage, _ in curve] == sorted(coverage for coverage, _ in curve)


@given(trials=TRIALS, data=st.data())
def test_the_order_of_trials_changes_nothing(trials, data):
    shuffled = data.draw(st.permutations(trials))
    for measure in (brier, calibration_error, auroc, aurc):
        assert measure(whole(shuffled))[0] == pytest.approx(measure(whole(trials))[0], nan_ok=True)


@given(trials=TRIALS)
def test_confidence_turned_around_turns_the_auroc_around(trials):
    assume(len({right for _, right in trials}) == 2)
    turned = [(1 - confidence, right) for confidence, right in trials]
    assert auroc(whole(turned))[0] == pytest.approx(1 - auroc(whole(trials))[0])


@given(trials=TRIALS, counts=st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_a_drawn_unit_counts_as_often_as_it_is_drawn(trials, counts):
    """What the bootstrap computes from counts is what the trials themselves give, each so many times."""
    confidence, right = zip(*trials, strict=True)
    units = [place % 3 for place in range(len(trials))]
    chosen = [trial for place, trial in enumerate(trials) for _ in range(counts[units[place]])]
    assume(chosen and len(trials) >= 3)
    drawn = histogram(confidence, right, units).drawn(np.array([counts], dtype=float))
    for measure in (brier, calibration_error, auroc, aurc):
        assert measure(drawn)[0] == pytest.approx(measure(whole(chosen))[0], nan_ok=True)


def test_perfect_confidence_and_none():
    sure = whole([(1.0, True)] * 3 + [(0.0, False)] * 2)
    assert (brier(sure)[0], calibration_error(sure)[0], auroc(sure)[0]) == (0.0, 0.0, 1.0)
    same = whole([(0.6, True)] * 3 + [(0.6, False)] * 2)
    assert (auroc(same)[0], aurc(same)[0]) == (0.5, pytest.approx(0.4))
    assert calibration_error(same)[0] == pytest.approx(0.0)


def test_the_last_bin_holds_certainty():
    low, high = bins(whole([(0.0, True), (1.0, True), (0.999, False)]))
    assert (low.low, low.high, low.trials) == (0.0, 0.1, 1)
    assert (high.low, high.high, high.trials, high.accuracy) == (0.9, 1.0, 2, 0.5)


def test_a_long_curve_is_thinned_out():
    curve = calibration("a", [record(task, task / 999) for task in range(900)])
    assert curve is not None
    assert len(curve.risk_coverage) == MAX_POINTS
    assert curve.risk_coverage[-1][0] == 1.0


# One arm.


def test_only_scored_trials_that_report_count():
    records = [
        record(0, 0.9),
        record(1, None),
        record(2, 0.2, 0.5),
        record(3, 1.5),
        record(4, 0.5, status="errored"),
        record(2, 0.8, 1.0, repeat=1),
    ]
    found = calibration("a", records)
    assert found is not None
    assert (found.arm, found.scored, found.reported, found.brier.n) == ("a", 5, 3, 2)
    assert found.brier.value == pytest.approx((0.01 + 0.04 + 0.04) / 3)  # a score of .5 is not right
    assert calibration("a", [record(1, None)]) is None


@pytest.mark.parametrize(("wrong", "clusters"), [(0, 20), (9, 20), (10, 20), (20, 20), (10, 9)])
def test_ranks_are_judged_by_ten_units_of_either_kind(wrong, clusters):
    records = [record(task, task / 20, float(task >= wrong), cluster=f"c{task % clusters}") for task in range(20)]
    found = calibration("a", records)
    assert found is not None
    enough = wrong == 10 and clusters == 20
    assert (found.auroc is not None) is enough
    if found.auroc is not None:
        assert (found.auroc.value, found.auroc.high) == (1.0, 1.0)


def test_plain_json():
    found = calibration("a", [record(task, 0.9) for task in range(5)])
    assert found is not None
    made = found.to_json()
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert (made["auroc"], made["aurc"]) == (None, 0.0)
    assert made["bins"] == [{"low": 0.9, "high": 1.0, "trials": 5, "confidence": pytest.approx(0.9), "accuracy": 1.0}]


def test_tasks_of_a_template_are_drawn_whole():
    def interval(cluster: str) -> Any:
        records = [
            record(task, 0.9 if task % 3 else 0.3, float(task % 4 > 0), cluster=cluster.format(task % 3)) for task in range(60)
        ]
        found = calibration("a", records)
        assert found is not None
        return found.brier

    alone, shared = interval(""), interval("c{}")
    assert alone.value == shared.value
    assert (alone.low, alone.high) != (shared.low, shared.high)


@settings(max_examples=cases(7), deadline=None)
@given(trials=TRIALS)
def test_intervals_hold_their_estimates(trials):
    found = calibration(
        "a", [record(place // 2, confidence, float(right), place % 2) for place, (confidence, right) in enumerate(trials)]
    )
    assert found is not None
    for interval in (found.brier, found.auroc):
        assert interval is None or interval.low <= interval.value <= interval.high
