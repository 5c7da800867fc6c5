"""Accuracy against cost, at equal budgets and per solved task: by hand, by definition, and for any records."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import compare
from whichloop.metrics.paired import mean_interval
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import accuracy_interval
from whichloop.metrics.views import CostPoint, Views, cost_per_solved, front_shares, on_front, quartiles, views

POINTS = st.integers(1, 6).flatmap(
    lambda arms: st.lists(
        st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([1.0, 2.0, 3.0])), min_size=arms, max_size=arms
    )
)


def arm(name: str, **changes: Any) -> ArmInfo:
    values: dict[str, Any] = {"arm": name, "loop": name, "options": {}, "model": "scripted", "profile": "clean", "suite": "s"}
    return ArmInfo(**(values | changes))


def record(name: str, task: int, accuracy: float = 1.0, tokens: int = 100, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "arm": name,
        "suite": "s",
        "suite_digest": "d",
        "task": f"t{task}",
        "repeat": 0,
        "seed": 0,
        "status": "scored",
        "scores": {"accuracy": accuracy},
        "input_tokens": tokens,
        "calls": {"decide": 1},
    }
    return Record(**(values | changes))


def points(found: Views) -> dict[str, CostPoint]:
    (front,) = found.fronts
    return {point.arm: point for point in front.points}


# The front.


@given(arms=POINTS)
def test_the_front_is_who_is_not_dominated(arms):
    accuracy, cost = (np.array([column]) for column in zip(*arms, strict=True))
    for place, (right, dear) in enumerate(arms):
        dominated = any(a >= right and c <= dear and (a, c) != (right, dear) for a, c in arms)
        assert on_front(accuracy, cost)[0, place] == (not dominated)
    assert on_front(accuracy, cost).any()


def test_rounding_errors_do_not_dominate():
    assert on_front(np.array([[0.3, 0.1 + 0.2]]), np.array([[1e-6, 1e-6 * (1 + 1e-15)]])).all()
    assert on_front(np.array([[0.3, 0.3]]), np.array([[0.0, 0.0]])).all()


@settings(max_examples=cases(12), deadline=None)
@given(arms=st.integers(2, 4), seed=st.integers(0, 99), data=st.data())
def test_shares_are_shares_and_follow_the_arms(arms, seed, data):
    generator = np.random.default_rng(seed)
    accuracy, cost = (generator.random((12, arms)) < 0.6).astype(float), generator.random((12, arms))
    shares = front_shares(accuracy, cost, draws=200)
    assert ((shares >= 0) & (shares <= 1)).all()
    assert shares.sum() >= 1 - 1e-9
    order = data.draw(st.permutations(range(arms)))
    assert front_shares(accuracy[:, order], cost[:, order], draws=200) == pytest.approx(shares[order])
    assert front_shares(accuracy, 3 * cost, draws=200) == pytest.approx(shares)


def test_a_draw_takes_the_same_tasks_in_all_arms():
    """Costs differ from task to task far more than between arms, and by the same step in each: one arm is cheaper in every draw."""
    dear = np.linspace(1, 1000, 30)
    shares = front_shares(np.ones((30, 2)), np.stack((dear, dear + 1), axis=1))
    assert list(shares) == [1.0, 0.0]


def test_shares_by_hand():
    """Two tasks, one solved by each arm, at equal cost. Of draws (1,1), (1,2), (2,1), (2,2) each arm is on the front in three."""
    shares = front_shares(np.array([[1.0, 0.0], [0.0, 1.0]]), np.ones((2, 2)), draws=4_000)
    assert list(shares) == pytest.approx([0.75, 0.75], abs=0.03)
    together = front_shares(np.array([[1.0, 0.0], [0.0, 1.0]] * 10), np.ones((20, 2)), ["a", "b"] * 10, draws=4_000)
    assert list(together) == pytest.approx([0.75, 0.75], abs=0.03)


def test_dear_and_worse_is_off_the_front():
    rows = [("a", 1.0, 100), ("b", 1.0, 200), ("c", 0.0, 50)]
    records = [record(name, task, score, tokens) for name, score, tokens in rows for task in range(20)]
    found = points(views(records, [arm(name) for name, _, _ in rows]))
    assert {name: (point.on_front, point.front_share) for name, point in found.items()} == {
        "a": (True, 1.0),
        "b": (False, 0.0),
        "c": (True, 1.0),
    }
    assert (found["b"].cost.value, found["b"].accuracy.value) == (200, 1.0)
    assert found["b"].accuracy == accuracy_interval([[1.0]] * 20)


def test_a_cache_that_makes_dollars_less_has_a_front_of_its_own():
    def priced(**b):
        costs = {"a": {"cost_usd": 0.02, "nominal_usd": 0.02}, "b": {"nominal_usd": 0.03} | b}
        return views([record(name, task, **costs[name]) for name in "ab" for task in range(4)], [arm("a"), arm("b")])

    cached = priced(cost_usd=0.01, cached_tokens=5)
    assert [front.unit for front in cached.fronts] == ["nominal_usd", "cost_usd"]
    assert [[point.on_front for point in front.points] for front in cached.fronts] == [[True, False], [False, True]]
    assert {budget.unit for budget in cached.budgets} <= {"nominal_usd", "tokens"}
    assert [front.unit for front in priced(cost_usd=0.03).fronts] == ["nominal_usd"]  # no cache
    assert [front.unit for front in priced(cost_usd=0.01).fronts] == ["nominal_usd"]  # a recording's luck


def test_dollars_are_the_unit_where_every_arm_has_them():
    priced = [record(name, task, cost_usd=0.0, nominal_usd=0.01) for name in "ab" for task in range(4)]
    (front,) = views(priced, [arm("a"), arm("b")]).fronts
    assert front.unit == "nominal_usd"
    assert front.points[0].cost.value == pytest.approx(0.01)
    billed = [record(name, task, cost_usd=0.02) for name in "ab" for task in range(4)]
    (front,) = views(billed, [arm("a"), arm("b")]).fronts
    assert front.unit == "cost_usd"
    assert front.points[0].cost.value == pytest.approx(0.02)
    partly = [*priced, record("b", 4), record("a", 4)]
    (front,) = views(partly, [arm("a"), arm("b")]).fronts
    assert (front.unit, [point.cost.n for point in front.points]) == ("nominal_usd", [4, 4])
    assert [point.accuracy.n for point in front.points] == [5, 5]
    unpriced = [record if record.arm == "a" else replace(record, cost_usd=None, nominal_usd=None) for record in partly]
    assert [front.unit for front in views(unpriced, [arm("a"), arm("b")]).fronts] == ["tokens"]
    own_machine = [record if record.arm == "a" else replace(record, nominal_usd=0.0) for record in priced]
    assert [front.unit for front in views(own_machine, [arm("a"), arm("b")]).fronts] == ["nominal_usd"]
    free = [record(name, task, tokens=0, cost_usd=0.0) for name in "ab" for task in range(4)]
    assert views(free, [arm("a"), arm("b")]).fronts == ()
    untold = [record(name, task, unknown=("tokens",)) for name in "ab" for task in range(4)]
    assert views(untold, [arm("a"), arm("b")]).fronts == ()


def test_only_tasks_scored_in_every_arm_are_seen_together():
    records = [record("a", 0, 1.0), record("a", 1, 0.0), record("b", 1, 0.0), record("b", 2, 1.0, status="errored")]
    found = views(records, [arm("a"), arm("b"), arm("c")])
    assert {name: (point.accuracy.value, point.accuracy.n) for name, point in points(found).items()} == {
        "a": (0.0, 1),
        "b": (0.0, 1),
    }
    assert views(records[:1], [arm("a"), arm("b")]).fronts == ()
    assert views([record("a", 0), record("b", 1)], [arm("a"), arm("b")]).fronts == ()


def test_groups_are_suites_and_profiles():
    arms = [arm("a"), arm("b"), arm("c", profile="flaky"), arm("d", profile="flaky"), arm("e", suite="other")]
    records = [record(info.arm, task, suite=info.suite) for info in arms for task in range(3)]
    found = views(records, arms)
    assert [(front.profile, [point.arm for point in front.points]) for front in found.fronts] == [
        ("clean", ["a", "b"]),
        ("flaky", ["c", "d"]),
    ]


# Equal budgets.


@given(costs=st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.0, 9.0]), min_size=1, max_size=30))
def test_budgets_are_quartiles_that_cut(costs):
    found = quartiles(costs)
    assert all(budget in costs and budget < max(costs) for budget in found.values())
    assert len(set(found.values())) == len(found)
    for share, budget in found.items():
        assert np.mean(np.array(costs) <= budget) >= share
        assert np.mean(np.array(costs) < budget) < share


def test_a_trial_scores_only_within_the_budget():
    a = [record("a", task, 1.0, 100 if task < 10 else 400) for task in range(20)]
    b = [record("b", task, 1.0, 200) for task in range(20)]
    found = views([*a, *b], [arm("a"), arm("b")])
    assert [(at.quartile, at.budget, at.unit) for at in found.budgets] == [(0.25, 100, "tokens"), (0.5, 200, "tokens")]
    low, middle = found.budgets
    assert {name: interval.value for name, interval in low.arms.items()} == {"a": 0.5, "b": 0.0}
    assert {name: interval.value for name, interval in middle.arms.items()} == {"a": 0.5, "b": 1.0}
    (pair,) = low.pairs
    assert (pair.a, pair.b, pair.metric, pair.family, pair.difference.value) == ("a", "b", "accuracy_at_budget", "secondary", 0.5)
    assert pair.verdict.word == "better"
    assert middle.pairs[0].verdict.word == "worse"
    assert compare([*a, *b], [arm("a"), arm("b")]).pairs[0].difference.value == 0.0


def test_all_budgets_of_a_unit_are_one_family():
    generator = np.random.default_rng(5)
    names = ["a", "b", "c"]
    records = [
        record(name, task, float(generator.random() < 0.4 + 0.2 * place), int(generator.integers(1, 900)))
        for place, name in enumerate(names)
        for task in range(40)
    ]
    budgets = views(records, [arm(name) for name in names]).budgets
    pairs = [pair for at in budgets for pair in at.pairs]
    assert (len(budgets), len(pairs)) == (3, 9)
    smallest = min(pairs, key=lambda pair: pair.p)
    assert smallest.p_holm == pytest.approx(min(1.0, 9 * smallest.p))
    assert all(pair.p <= pair.p_holm for pair in pairs)


def test_many_arms_are_not_paired_at_budgets():
    def pairs(arms: int) -> int:
        names = [f"a{number}" for number in range(arms)]
        records = [record(name, task, 1.0, 100 + 10 * task) for name in names for task in range(4)]
        found = views(records, [arm(name) for name in names])
        assert all(len(at.arms) == arms for at in found.budgets)
        return len(found.budgets[0].pairs)

    assert (pairs(16), pairs(17)) == (120, 0)


def test_repeats_are_means_of_what_was_within_the_budget():
    a = [record("a", 0, 1.0, tokens, repeat=place) for place, tokens in enumerate([100, 100, 500, 900])]
    b = [record("b", 0, 1.0, 300, repeat=place) for place in range(4)]
    found = {at.budget: at.arms for at in views([*a, *b], [arm("a"), arm("b")]).budgets}
    assert found[300]["a"].value == 0.5
    assert found[300]["b"].value == 1.0


# The price of a solved task.


def test_cost_per_solved_by_hand():
    assert cost_per_solved([], []) is None
    assert cost_per_solved([1.0, 2.0], [0.0, 0.0]) is None
    found = cost_per_solved([10.0] * 8, [1.0, 0.0] * 4)
    assert found is not None
    assert (found.value, found.n) == (20.0, 8)
    assert 10 <= found.low < 20 < found.high
    always = cost_per_solved([10.0, 10.0], [1.0, 1.0])
    assert always is not None
    assert (always.low, always.value, always.high) == (10.0, 10.0, 10.0)


def test_where_a_draw_may_solve_nothing_there_is_no_upper_end():
    found = cost_per_solved([1.0] * 5, [1.0, 0.0, 0.0, 0.0, 0.0])
    assert found is not None
    assert (found.value, found.high) == (5.0, math.inf)
    (solved,) = views([record("a", task, float(task == 0)) for task in range(5)], [arm("a")]).per_solved
    assert solved.to_json()["value"]["high"] is None


@settings(max_examples=cases(15), deadline=None)
@given(
    tasks=st.lists(st.tuples(st.floats(0.01, 100), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=15),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_cost_per_solved_holds_its_estimate_and_scales_with_the_cost(tasks, scale):
    cost, solved = [c for c, _ in tasks], [s for _, s in tasks]
    found = cost_per_solved(cost, solved)
    if found is None:
        assert not any(solved)
        return
    assert found.value == pytest.approx(sum(cost) / sum(solved))
    if not found.is_known:
        assert len(tasks) < 6
        return
    assert 0 <= found.low <= found.value <= found.high
    assert found.low > 0 or min(solved) == 1
    if min(solved) == 1:
        assert found == mean_interval(cost)
    scaled = cost_per_solved([scale * c for c in cost], solved)
    assert scaled is not None
    assert (scaled.low / scale, scaled.value / scale) == pytest.approx((found.low, found.value), rel=0.05)


@given(st.lists(st.sampled_from([0.25, 0.5, 1.0]), min_size=6, max_size=15), st.floats(0.01, 100))
def test_the_price_of_what_costs_as_much_as_it_solves_is_certain(solved, price):
    """Each task's cost stays with its own result: with that of another task, the ratio would vary from draw to draw."""
    found = cost_per_solved([price * share for share in solved], solved)
    assert found is not None
    assert (found.low, found.value, found.high) == pytest.approx((price, price, price))


def test_each_arm_has_a_price_in_each_unit_that_is_known():
    records = [record("a", task, cost_usd=0.01) for task in range(3)] + [record("b", task, 0.0) for task in range(3)]
    found = {(item.arm, item.unit): item.value for item in views(records, [arm("a"), arm("b")]).per_solved}
    assert found.keys() == {("a", "cost_usd"), ("a", "tokens"), ("b", "tokens")}
    assert found["b", "tokens"] is None


# All together.

RUN = st.lists(
    st.builds(
        record,
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, 6),
        st.sampled_from([0.0, 0.3, 1.0]),
        st.integers(0, 5),
        repeat=st.integers(0, 2),
        status=st.sampled_from(["scored", "scored", "errored", "excluded"]),
        cost_usd=st.none() | st.floats(0, 1),
        confidence=st.none() | st.floats(0, 1),
        cluster=st.sampled_from(["", "x"]),
    ),
    max_size=30,
    unique_by=lambda made: made.key,
)


@settings(max_examples=cases(30), deadline=None)
@given(records=RUN)
def test_any_records_have_views_that_json_can_say(records):
    found = views(records, [arm("a"), arm("b"), arm("c")])
    made = found.to_json()
    assert made.keys() == {"fronts", "budgets", "per_solved", "confidence", "reliability"}
    assert json.loads(json.dumps(made, allow_nan=False)) == made


@settings(max_examples=cases(12), deadline=None)
@given(records=RUN, data=st.data())
def test_the_order_of_records_changes_nothing_but_rounding(records, data):
    infos = [arm("a"), arm("b"), arm("c")]
    first, second = views(records, infos), views(data.draw(st.permutations(records)), infos)
    assert [(at.unit, at.budget) for at in first.budgets] == [(at.unit, at.budget) for at in second.budgets]
    for one, other in zip(first.fronts, second.fronts, strict=True):
        assert [(p.arm, p.on_front) for p in one.points] == [(p.arm, p.on_front) for p in other.points]


def test_equal_input_gives_equal_views_and_the_seed_counts():
    generator = np.random.default_rng(3)
    records = [
        record(name, task, float(generator.random() < 0.5), int(generator.integers(50, 150))) for name in "ab" for task in range(30)
    ]
    infos = [arm("a"), arm("b")]
    assert views(records, infos) == views(records, infos)
    assert views(records, infos) != views(records, infos, seed=1)


@pytest.mark.parametrize("dead", [{"calls": {}}, {"stop": "crashed", "calls": {}}])
def test_an_arm_that_never_asked_its_model_or_always_crashed_is_on_no_front(dead):
    agents = [record(name, task) for name in "ab" for task in range(9)]
    found = views([*agents, *(record("c", task, tokens=1, **dead) for task in range(9))], [arm("a"), arm("b"), arm("c")])
    assert set(points(found)) == {"a", "b"}
    assert all(set(budget.arms) == {"a", "b"} for budget in found.budgets)
