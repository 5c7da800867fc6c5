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
    Histogram,
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


def measured(found: Histogram) -> list[float]:
    """Brier score, calibration error, AUROC and area of the first row."""
    return [float(brier(found)[0]), calibration_error(bins(found)), float(auroc(found)[0]), aurc(found)]


def record(task: int, confidence: float | None, accuracy: float = 1.0, repeat: int = 0, **changes: Any) -> Record:
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
    assert sum(b.trials for b in bins(whole(trials))) == len(trials)
    curve = risk_coverage(whole(trials))
    assert curve[-1] == pytest.approx((1.0, 1 - right.mean()))
    assert [coverage for coverage, _ in curve] == sorted(coverage for coverage, _ in curve)
    assert 0 <= area <= 1 + 1e-12
    told = [confidence[right == outcome] for outcome in (1, 0)]
    if min(map(len, told)):
        assert ranks == pytest.approx(stats.mannwhitneyu(*told).statistic / len(told[0]) / len(told[1]))
        assert float(auroc(whole([(1 - c, bool(r)) for c, r in trials]))[0]) == pytest.approx(1 - ranks)


@settings(max_examples=cases(25))
@given(trials=st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.9]), st.booleans()), min_size=1, max_size=12), data=st.data())
def test_the_area_is_the_mean_over_orders_of_tied_trials(trials, data):
    """Where no trials tie, the mean over k of the risk of the k most confident; where they do, any order is as good."""

    def area(order: list[tuple[float, bool]]) -> float:
        wrong = np.cumsum([not right for _, right in order])
        return float(np.mean(wrong / np.arange(1, len(order) + 1)))

    generator = np.random.default_rng(data.draw(st.integers(0, 9)))
    drawn = [area(sorted(generator.permutation(np.array(trials, dtype=object)).tolist(), key=lambda t: -t[0])) for _ in range(400)]
    assert aurc(whole(trials)) == pytest.approx(np.mean(drawn), abs=5 * np.std(drawn) / np.sqrt(len(drawn)) + 1e-9)


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([(0.9, True), (0.8, False), (0.6, True), (0.3, False)], [0.9 / 4, 0.4, 0.75, (1 / 2 + 1 / 3 + 1 / 2) / 4]),
        ([(1.0, True)] * 3 + [(0.0, False)] * 2, [0.0, 0.0, 1.0, (1 / 4 + 2 / 5) / 5]),
        ([(0.6, True)] * 3 + [(0.6, False)] * 2, [0.24, 0.0, 0.5, 0.4]),
    ],
)
def test_measures_by_hand(trials, expected):
    assert measured(whole(trials)) == pytest.approx(expected)


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


def test_the_last_bin_holds_certainty():
    low, high = bins(whole([(0.0, True), (1.0, True), (0.999, False)]))
    assert (low.low, low.high, low.trials) == (0.0, 0.1, 1)
    assert (high.low, high.high, high.trials, high.accuracy) == (0.9, 1.0, 2, 0.5)


def test_a_long_curve_is_thinned_out():
    curve = calibration("a", [record(task, task / 999) for task in range(900)])
    assert curve is not None
    assert len(curve.risk_coverage) == MAX_POINTS
    assert curve.risk_coverage[-1][0] == 1.0


def test_only_scored_trials_that_report_count():
    odd = [record(1, None), record(3, 1.5), record(4, 0.5, status="errored")]
    found = calibration("a", [record(0, 0.9), *odd, record(2, 0.2, 0.5), record(2, 0.8, 1.0, repeat=1)])
    assert found is not None
    assert (found.arm, found.scored, found.reported, found.brier.n) == ("a", 5, 3, 2)
    assert found.brier.value == pytest.approx((0.01 + 0.04 + 0.04) / 3)  # a score of .5 is not right
    assert calibration("a", odd) is None


@pytest.mark.parametrize(("wrong", "clusters"), [(0, 20), (9, 20), (10, 20), (20, 20), (10, 9)])
def test_ranks_are_judged_by_ten_units_of_either_kind(wrong, clusters):
    records = [record(task, task / 20, float(task >= wrong), cluster=f"c{task % clusters}") for task in range(20)]
    found = calibration("a", records)
    assert found is not None
    enough = wrong == 10 and clusters == 20
    assert (found.auroc is not None) is enough
    if found.auroc is not None:
        assert (found.auroc.value, found.auroc.high) == (1.0, 1.0)


def test_tasks_of_a_template_are_drawn_whole():
    def interval(cluster: str) -> Any:
        given = [(task, 0.9 if task % 3 else 0.3, float(task % 4 > 0)) for task in range(60)]
        found = calibration("a", [record(*each, cluster=cluster.format(each[0] % 3)) for each in given])
        assert found is not None
        return found.brier

    alone, shared = interval(""), interval("c{}")
    assert alone.value == shared.value
    assert (alone.low, alone.high) != (shared.low, shared.high)


@settings(max_examples=cases(7), deadline=None)
@given(trials=TRIALS)
def test_intervals_hold_their_estimates_and_json_can_say_all(trials):
    found = calibration("a", [record(place // 2, told, float(right), place % 2) for place, (told, right) in enumerate(trials)])
    assert found is not None
    for interval in (found.brier, found.auroc):
        assert interval is None or interval.low <= interval.value <= interval.high
    made = found.to_json()
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert [bar["trials"] for bar in made["bins"]] == [bar.trials for bar in found.bins]
