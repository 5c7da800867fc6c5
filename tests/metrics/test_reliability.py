"""Repeats of tasks: against brute force over all choices, and the laws of each number."""

from __future__ import annotations

import json
import math
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.record import Record
from whichloop.metrics.reliability import (
    chances_up_to,
    consistency,
    consistency_interval,
    pass_at_k,
    pass_hat_k,
    reliability,
    variance_split,
)
from whichloop.metrics.statistics import accuracy_interval

BIT = st.sampled_from([0.0, 1.0])
OUTCOMES = st.integers(2, 5).flatmap(lambda k: st.lists(st.lists(BIT, min_size=k, max_size=k), min_size=1, max_size=12))


def records(outcomes: list[list[float]], **changes: Any) -> list[Record]:
    return [
        Record("a", "s", "d", f"t{task}", repeat, 0, "scored", scores={"accuracy": score}, **changes)
        for task, scores in enumerate(outcomes)
        for repeat, score in enumerate(scores)
    ]


@given(outcomes=OUTCOMES)
def test_pass_k_is_the_mean_over_all_choices_of_k_tries(outcomes):
    found = reliability("a", records(outcomes))
    assert found is not None
    assert (found.tasks, found.repeats) == (len(outcomes), len(outcomes[0]))
    for k in range(1, found.repeats + 1):
        chosen = [list(combinations(scores, k)) for scores in outcomes]
        assert found.pass_at[k - 1].value == pytest.approx(np.mean([np.mean([any(c) for c in task]) for task in chosen]))
        assert found.pass_hat[k - 1].value == pytest.approx(np.mean([np.mean([all(c) for c in task]) for task in chosen]))


@given(outcomes=OUTCOMES)
def test_more_tries_solve_more_and_fewer_tasks_every_time(outcomes):
    found = reliability("a", records(outcomes))
    assert found is not None
    at, hat = ([interval.value for interval in kind] for kind in (found.pass_at, found.pass_hat))
    assert all(one <= more + 1e-12 for one, more in pairwise(at))
    assert all(one >= more - 1e-12 for one, more in pairwise(hat))
    assert at[0] == hat[0] == pytest.approx(np.mean(outcomes))
    assert found.pass_at[0] == accuracy_interval(outcomes)
    for interval in (*found.pass_at, *found.pass_hat):
        assert 0 <= interval.low <= interval.value <= interval.high <= 1
        assert interval.low < interval.high


@given(n=st.integers(2, 8), p=st.floats(0, 1))
def test_consistency_is_unbiased(n, p):
    """Its mean over the binomial distribution of c is (2p - 1)²."""
    mean = sum(math.comb(n, c) * p**c * (1 - p) ** (n - c) * consistency(n, c) for c in range(n + 1))
    assert mean == pytest.approx((2 * p - 1) ** 2, abs=1e-9)


def test_consistency_by_hand():
    assert [consistency(2, c) for c in range(3)] == [1.0, -1.0, 1.0]
    assert consistency(5, 3) == pytest.approx(1 - 4 * 5 / 4 * 0.6 * 0.4)
    with pytest.raises(ValueError, match="two trials"):
        consistency(1, 1)


@given(counts=st.lists(st.integers(2, 5).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=20))
def test_the_consistency_of_an_arm_has_width_and_a_scale(counts):
    found = consistency_interval(counts)
    assert -1 <= found.low <= found.value <= found.high <= 1 + 1e-12
    assert found.low < found.high
    assert found.value == pytest.approx(np.mean([consistency(n, c) for n, c in counts]))


def test_tasks_with_one_try_left_are_left_out_and_the_fewest_tries_are_k():
    found = reliability("a", records([[1, 1, 0], [1, 0], [1]]))
    assert found is not None
    assert (found.tasks, found.repeats) == (2, 2)
    assert found.pass_hat[1].value == pytest.approx((1 / 3 + 0) / 2)
    assert reliability("a", records([[1], [0]])) is None
    assert reliability("a", []) is None


def test_part_of_a_score_is_not_solved():
    found = reliability("a", records([[0.5, 1.0], [1.0, 1.0]]))
    assert found is not None
    assert found.pass_at[0].value == 0.75


def test_tasks_of_a_template_are_one_piece_of_evidence():
    outcomes = [[1.0, 0.0], [1.0, 1.0]] * 20
    alone = reliability("a", records(outcomes))
    named = [Record.from_json(r.to_json() | {"cluster": f"c{int(r.task[1:]) % 4}"}) for r in records(outcomes)]
    shared = reliability("a", named)
    assert alone is not None
    assert shared is not None
    assert shared.consistency.low < alone.consistency.low
    assert shared.pass_hat[1].low < alone.pass_hat[1].low


def test_plain_json():
    found = reliability("a", records([[1, 0], [1, 1]]))
    assert found is not None
    made = found.to_json()
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert made.keys() == {"arm", "tasks", "repeats", "pass_at", "pass_hat", "consistency", "variance"}
    assert made["variance"] == {"between": 0.0, "within": 0.25}
    one = reliability("a", records([[1, 0]]))
    assert one is not None
    assert one.to_json()["variance"] is None


def test_pass_vectors():
    assert pass_at_k(5, 2, 3) == pytest.approx(0.9)
    assert pass_hat_k(5, 3, 2) == pytest.approx(0.30)


@given(n=st.integers(1, 8), data=st.data())
def test_pass_k_is_the_mean_over_all_choices_of_k(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = [[*[1] * c, *[0] * (n - c)][i] for i in range(n)]
    subsets = [chosen for chosen in product([0, 1], repeat=n) if sum(chosen) == k]
    hits = [[x for x, taken in zip(draws, chosen, strict=True) if taken] for chosen in subsets]
    assert pass_at_k(n, c, k) == pytest.approx(np.mean([any(hit) for hit in hits]))
    assert pass_hat_k(n, c, k) == pytest.approx(np.mean([all(hit) for hit in hits]))


@given(st.lists(st.integers(2, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=5))
def test_chances_of_all_k_are_the_formulae_of_each(counts):
    fewest = min(n for n, _ in counts)
    found = list(chances_up_to(fewest, counts))
    assert len(found) == fewest
    for k, (at_least_one, all_of_them) in enumerate(found, start=1):
        assert at_least_one == pytest.approx([pass_at_k(n, c, k) for n, c in counts], abs=1e-12)
        assert all_of_them == pytest.approx([pass_hat_k(n, c, k) for n, c in counts], abs=1e-12)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0), (3, 1, 4), (0, 0, 1)])
def test_pass_k_refuses_impossible_counts(n, c, k):
    for estimate in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match="trials with"):
            estimate(n, c, k)


@given(scores=st.lists(st.lists(BIT, min_size=3, max_size=3), min_size=2, max_size=20))
def test_the_parts_of_the_variance_are_the_formulae(scores):
    """Var(p̂_t) = between + mean σ̂²_t/K, with σ̂²_t = K/(K-1)·p̂(1-p̂)."""
    split = variance_split(scores)
    assert split is not None
    means = np.mean(scores, axis=1)
    within = np.mean(3 / 2 * means * (1 - means))
    assert split.within == pytest.approx(within)
    assert split.between == pytest.approx(max(np.var(means, ddof=1) - within / 3, 0.0), abs=1e-12)


def test_variance_splits_by_hand():
    """Means 0, 1, .5: Var = .25; σ̂² = 0, 0, .5, so that within is 1/6 and a twelfth of it is chance."""
    split = variance_split([[0, 0], [1, 1], [0, 1]])
    assert split is not None
    assert (split.within, split.between) == pytest.approx((1 / 6, 0.25 - 1 / 12))
    assert variance_split([[0, 1], [1]]) is None
    assert variance_split([]) is None
