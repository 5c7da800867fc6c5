"""What a solved task costs one arm against another: laws of the paired ratio, its coverage, and where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import compare
from whichloop.metrics.reliability import NO_SOLVED_COSTS, log_ratio

TASKS = st.lists(
    st.tuples(st.floats(0.5, 50), st.floats(0.5, 50), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])),
    min_size=6,
    max_size=30,
).filter(lambda rows: any(row[2] for row in rows) and any(row[3] for row in rows))


@given(TASKS, st.floats(1e-4, 1e4))
def test_the_ratio_turns_with_its_arms_and_knows_no_unit(rows, scale):
    values = np.array(rows)
    found = log_ratio(values, None, 0.05)
    assert found is not None
    assert 0 < found.low <= found.value <= found.high
    cost, solved = values[:, :2].sum(0), values[:, 2:].sum(0)
    assert found.value == pytest.approx(cost[0] / solved[0] / (cost[1] / solved[1]))
    turned = log_ratio(values[:, [1, 0, 3, 2]], None, 0.05)
    scaled = log_ratio(values * np.array([scale, scale, 1, 1]), None, 0.05)
    assert turned is not None
    assert (1 / turned.high, 1 / turned.value, 1 / turned.low) == pytest.approx((found.low, found.value, found.high))
    assert scaled is not None
    assert (scaled.low, scaled.value, scaled.high) == pytest.approx((found.low, found.value, found.high))


@given(TASKS)
def test_an_arm_against_itself_has_a_ratio_of_one(rows):
    values = np.array(rows)[:, [0, 0, 2, 2]]
    found = log_ratio(values, None, 0.05)
    assert found is not None
    assert (found.low, found.value, found.high) == pytest.approx((1, 1, 1))


@given(TASKS)
def test_tasks_of_one_cluster_count_once(rows):
    alone = log_ratio(np.array(rows), None, 0.05)
    twice = log_ratio(np.array([*rows, *rows]), [str(place) for place in range(len(rows))] * 2, 0.05)
    assert alone is not None
    assert twice is not None
    assert (twice.low, twice.high) == pytest.approx((alone.low, alone.high))


@pytest.mark.parametrize(("share_a", "share_b"), [(0.9, 0.8), (0.6, 0.3)])
def test_the_interval_covers_the_ratio_about_as_often_as_it_says(share_a, share_b):
    draws, tasks, truth = np.random.default_rng(7), 60, share_b / share_a / 1.3
    covered = 0
    for _ in range(400):
        hard = draws.normal(size=tasks)
        cost = [factor * np.exp((hard + draws.normal(size=tasks)) / 2) for factor in (1.0, 1.3)]
        solved = [draws.random(tasks) < share for share in (share_a, share_b)]
        found = log_ratio(np.stack([*cost, *solved], axis=1).astype(float), None, 0.05)
        assert found is not None
        covered += found.low <= truth <= found.high
    assert 0.91 <= covered / 400 <= 0.99


def test_there_is_none_of_few_tasks_or_where_nothing_was_solved():
    row = [1.0, 2.0, 1.0, 1.0]
    assert log_ratio(np.array([row] * 5), None, 0.05) is None
    assert log_ratio(np.array([[1.0, 2.0, 0.0, 1.0]] * 9), None, 0.05) is None
    assert NO_SOLVED_COSTS.ratio(["a"], ["b"], "tokens") is None


def test_profiles_count_alike_and_the_level_is_that_of_all_pairs(record):
    infos = [ArmInfo(f"{loop}/{profile}", loop, {}, "scripted", profile, "s") for loop in "ab" for profile in ("calm", "rough")]
    tokens = {"a/calm": 10, "a/rough": 30, "b/calm": 20, "b/rough": 20}
    records = [
        record(arm=arm, task=f"t{task}", input_tokens=number, output_tokens=0)
        for arm, number in tokens.items()
        for task in range(8)
    ]
    costs = compare(records, infos).solved_costs
    calm, both = costs.ratio(["a/calm"], ["b/calm"], "tokens"), costs.ratio(["a/calm", "a/rough"], ["b/calm", "b/rough"], "tokens")
    assert calm is not None
    assert both is not None
    assert (calm.value, both.value) == pytest.approx((0.5, 1.0))
    assert both.n == 8
    assert costs.level == pytest.approx(0.05 / 2)
    assert costs.ratio(["a/calm"], ["b/calm"], "cost_usd") is None
