"""Accuracy against cost, at equal budgets and per solved task: by hand, by definition, and for any records."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.metrics.test_comparison import arm
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.paired import mean_interval
from whichloop.metrics.record import Record
from whichloop.metrics.views import CostPoint, Views, at_budgets, cost_per_solved, front_shares, on_front, quartiles
from whichloop.metrics.views import views as views_of

ARMS = [arm(name) for name in "abc"]
POINTS = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([1.0, 2.0, 3.0])), min_size=1, max_size=6)


def record(name: str, task: int, accuracy: float = 1.0, tokens: int = 100, **changes: Any) -> Record:
    values: dict[str, Any] = {"suite": "s", "suite_digest": "d", "repeat": 0, "seed": 0, "status": "scored"}
    values |= {"scores": {"accuracy": accuracy}, "input_tokens": tokens, "calls": {"decide": 1}}
    return Record(arm=name, task=f"t{task}", **(values | changes))


def views(records: Sequence[Record], arms: Sequence[ArmInfo]) -> Views:
    return views_of(records, arms, at_budgets(records, arms))


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


@settings(max_examples=cases(12))
@given(arms=st.integers(2, 4), seed=st.integers(0, 99), data=st.data())
def test_shares_are_shares_and_follow_the_arms(arms, seed, data):
    generator = np.random.default_rng(seed)
    accuracy, cost = (generator.random((12, arms)) < 0.6).astype(float), generator.random((12, arms))
    shares = front_shares(accuracy, cost, draws=200)
    assert ((shares >= 0) & (shares <= 1)).all()
    assert shares.sum() >= 1 - 1e-9
    order = data.draw(st.permutations(range(arms)))
    assert front_shares(accuracy[:, order], 3 * cost[:, order], draws=200) == pytest.approx(shares[order])


def priced(**costs: dict[str, Any]) -> list[Record]:
    return [record(name, task, **own) for name, own in costs.items() for task in range(4)]


BILLED, UNCACHED = {"cost_usd": 0.02}, {"cost_usd": 0.0, "nominal_usd": 0.01}


@pytest.mark.parametrize(
    ("records", "units", "n"),
    [
        (priced(a=UNCACHED, b=UNCACHED), ["nominal_usd"], 4),
        ([*priced(a=UNCACHED, b=UNCACHED), record("a", 4), record("b", 4)], ["nominal_usd"], 4),  # known of some tasks
        (priced(a=UNCACHED, b={}), ["tokens"], 4),
        (priced(a=UNCACHED, b={"cost_usd": 0.0, "nominal_usd": 0.0}), ["nominal_usd"], 4),  # a machine of one's own
        (priced(a={"tokens": 0, "cost_usd": 0.0}, b={"tokens": 0, "cost_usd": 0.0}), [], 0),
        (priced(a={"unknown": ("tokens",)}, b={"unknown": ("tokens",)}), [], 0),
        (priced(a={"cost_usd": -0.1}, b=BILLED), ["tokens"], 4),
        (priced(a={"cost_usd": 0.02, "nominal_usd": 0.02}, b={"cost_usd": 0.01, "nominal_usd": 0.03, "cached_tokens": 5}),
         ["nominal_usd", "cost_usd"], 4),
        (priced(a={"cost_usd": 0.02, "nominal_usd": 0.02}, b={"cost_usd": 0.01, "nominal_usd": 0.03}), ["nominal_usd"], 4),
    ],
)  # fmt: skip
def test_dollars_are_the_unit_where_every_arm_has_them_and_a_cache_has_a_front_of_its_own(records, units, n):
    """The last one has a recording's luck."""
    found = views(records, ARMS[:2])
    assert [front.unit for front in found.fronts] == units
    assert {point.cost.n for front in found.fronts for point in front.points} <= {n}
    assert {budget.unit for budget in found.budgets} <= {*units[:1], "tokens"}
    if len(units) == 2:
        assert [[point.on_front for point in front.points] for front in found.fronts] == [[True, False], [False, True]]


def test_only_tasks_scored_in_every_arm_are_seen_together():
    records = [record("a", 0, 1.0), record("a", 1, 0.0), record("b", 1, 0.0), record("b", 2, 1.0, status="errored")]
    found = {name: (point.accuracy.value, point.accuracy.n) for name, point in points(views(records, ARMS)).items()}
    assert found == {"a": (0.0, 1), "b": (0.0, 1)}
    assert views(records[:1], ARMS).fronts == ()
    assert views([record("a", 0), record("b", 1)], ARMS).fronts == ()


@pytest.mark.parametrize("dead", [{"calls": {}}, {"stop": "crashed", "calls": {}}])
def test_an_arm_that_never_asked_its_model_or_always_crashed_is_on_no_front(dead):
    agents = [record(name, task, tokens=100 + task) for name in "ab" for task in range(9)]
    found = views([*agents, *(record("c", task, tokens=1, **dead) for task in range(9))], ARMS)
    assert set(points(found)) == {"a", "b"}
    assert [set(budget.arms) for budget in found.budgets] == [{"a", "b"}] * 3


# Equal budgets.


@given(costs=st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.0, 9.0]), min_size=1, max_size=30))
def test_budgets_are_quartiles_that_cut(costs):
    found = quartiles(costs)
    assert all(budget in costs and budget < max(costs) for budget in found.values())
    assert len(set(found.values())) == len(found)
    for share, budget in found.items():
        assert np.mean(np.array(costs) < budget) < share <= np.mean(np.array(costs) <= budget)


def test_a_trial_scores_only_within_the_budget_and_repeats_are_means():
    a = [record("a", task, 1.0, 100 if task < 10 else 400) for task in range(20)]
    b = [record("b", task, 1.0, 200) for task in range(20)]
    low, middle = views([*a, *b], ARMS[:2]).budgets
    assert [(at.quartile, at.budget, at.unit) for at in (low, middle)] == [(0.25, 100, "tokens"), (0.5, 200, "tokens")]
    right = [{name: interval.value for name, interval in at.arms.items()} for at in (low, middle)]
    assert right == [{"a": 0.5, "b": 0.0}, {"a": 0.5, "b": 1.0}]
    (pair,) = low.pairs
    assert (pair.a, pair.b, pair.metric, pair.family, pair.difference.value) == ("a", "b", "accuracy_at_budget", "secondary", 0.5)
    assert [at.pairs[0].verdict.word for at in (low, middle)] == ["better", "worse"]
    tried = [record("a", 0, 1.0, tokens, repeat=place) for place, tokens in enumerate([100, 100, 500, 900])]
    tried += [record("b", 0, 1.0, 300, repeat=place) for place in range(4)]
    (at,) = (at for at in views(tried, ARMS[:2]).budgets if at.budget == 300)
    assert (at.arms["a"].value, at.arms["b"].value) == (0.5, 1.0)


def test_all_budgets_of_a_unit_are_one_family():
    generator = np.random.default_rng(5)
    records = [
        record(name, task, float(generator.random() < 0.4 + 0.2 * place), int(generator.integers(1, 900)))
        for place, name in enumerate("abc")
        for task in range(40)
    ]
    budgets = views(records, ARMS).budgets
    pairs = [pair for at in budgets for pair in at.pairs]
    assert [len(at.pairs) for at in budgets] == [3, 3, 3]
    smallest = min(pairs, key=lambda pair: pair.p)
    assert smallest.p_holm == pytest.approx(min(1.0, 9 * smallest.p))
    assert views(records, ARMS) == views(records, ARMS)


# The price of a solved task.


def test_cost_per_solved_by_hand():
    assert cost_per_solved([], []) is None
    assert cost_per_solved([1.0, 2.0], [0.0, 0.0]) is None
    found, always = cost_per_solved([10.0] * 8, [1.0, 0.0] * 4), cost_per_solved([10.0, 10.0], [1.0, 1.0])
    assert found is not None
    assert always is not None
    assert (found.value, found.n) == (20.0, 8)
    assert 10 <= found.low < 20 < found.high
    assert (always.low, always.value, always.high) == (10.0, 10.0, 10.0)
    (rare,) = views([record("a", task, float(task == 0)) for task in range(10)], ARMS[:1]).per_solved
    assert rare.value is not None
    assert (rare.value.value, rare.value.high, rare.to_json()["value"]["high"]) == (1000.0, math.inf, None)
    assert rare.value.low == pytest.approx(200, rel=0.1)
    records = [record("a", task, cost_usd=0.01) for task in range(3)] + [record("b", task, 0.0) for task in range(3)]
    prices = {(item.arm, item.unit): item.value for item in views(records, ARMS[:2]).per_solved}
    assert prices.keys() == {("a", "cost_usd"), ("a", "tokens"), ("b", "tokens")}
    assert prices["b", "tokens"] is None


@settings(max_examples=cases(15))
@given(
    tasks=st.lists(st.tuples(st.floats(0.01, 100), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=15),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_cost_per_solved_holds_its_estimate_and_scales_with_the_cost(tasks, scale):
    cost, solved = [c for c, _ in tasks], [s for _, s in tasks]
    found, scaled = cost_per_solved(cost, solved), cost_per_solved([scale * c for c in cost], solved)
    if found is None or scaled is None:
        assert not any(solved)
        return
    assert found.value == pytest.approx(sum(cost) / sum(solved))
    if not found.is_known:
        assert len(tasks) < 6
        return
    assert 0 <= found.low <= found.value <= found.high
    assert found.low > 0 or min(solved) == 1
    assert min(solved) < 1 or found == mean_interval(cost)
    assert (scaled.low / scale, scaled.value / scale) == pytest.approx((found.low, found.value), rel=0.05)


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


@settings(max_examples=cases(30))
@given(records=RUN, data=st.data())
def test_any_records_in_any_order_have_the_same_views_which_json_can_say(records, data):
    first, second = views(records, ARMS), views(data.draw(st.permutations(records)), ARMS)
    made = first.to_json()
    assert list(made) == ["fronts", "budgets", "per_solved", "confidence", "reliability"]
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert [(at.unit, at.budget) for at in first.budgets] == [(at.unit, at.budget) for at in second.budgets]
    for one, other in zip(first.fronts, second.fronts, strict=True):
        assert [(p.arm, p.on_front) for p in one.points] == [(p.arm, p.on_front) for p in other.points]
        assert [p.cost.value for p in one.points] == pytest.approx([p.cost.value for p in other.points])
    unpriced = views([replace(each, cost_usd=None) for each in records], ARMS)
    assert {front.unit for front in unpriced.fronts} <= {"tokens"}
