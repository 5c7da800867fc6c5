"""Repeats of tasks: against brute force over all choices, and the laws of each number."""

from __future__ import annotations

import json
import math
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.record import Record
from whichloop.metrics.reliability import Reliability, consistency, reliability, variance_split
from whichloop.metrics.statistics import accuracy_interval

BIT = st.sampled_from([0.0, 1.0])
OUTCOMES = st.lists(st.lists(BIT, min_size=2, max_size=6), min_size=1, max_size=12)


def tried(outcomes: list[list[float]], clusters: int = 0) -> Reliability:
    found = reliability("a", records(outcomes, clusters))
    assert found is not None
    return found


def records(outcomes: list[list[float]], clusters: int = 0) -> list[Record]:
    return [
        Record("a", "s", "d", f"t{task}", n, 0, "scored", scores={"accuracy": score}, **named(task, clusters))
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


@given(n=st.integers(2, 8), p=st.floats(0, 1))
def test_consistency_is_unbiased(n, p):
    """Its mean over the binomial distribution of c is (2p - 1)²."""
    c = np.arange(n + 1.0)
    chances = np.array([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])
    assert chances @ consistency(np.full(n + 1, float(n)), c) == pytest.approx((2 * p - 1) ** 2, abs=1e-9)


def test_tasks_with_one_try_left_are_left_out_and_the_fewest_tries_are_k():
    found = tried([[1, 1, 0], [1, 0], [1]])
    assert (found.tasks, found.repeats) == (2, 2)
    assert found.pass_hat[1].value == pytest.approx((1 / 3 + 0) / 2)
    assert reliability("a", records([[1], [0]])) is None
    assert reliability("a", []) is None
    assert tried([[0.5, 1.0], [1.0, 1.0]]).pass_at[0].value == 0.75  # part of a score is not solved
    assert tried([[1, 0]]).variance is None


def test_tasks_of_a_template_are_one_piece_of_evidence():
    outcomes = [[1.0, 0.0], [1.0, 1.0]] * 20
    alone, shared = tried(outcomes), tried(outcomes, clusters=4)
    assert shared.consistency.low < alone.consistency.low
    assert shared.pass_hat[1].low < alone.pass_hat[1].low


@given(scores=st.lists(st.lists(BIT, min_size=3, max_size=3), min_size=2, max_size=20))
def test_the_parts_of_the_variance_are_the_formulae(scores):
    """Var(p̂_t) = between + mean σ̂²_t/K, with σ̂²_t = K/(K-1)·p̂(1-p̂)."""
    split = variance_split([*scores, [1.0]])
    assert split is not None
    means = np.mean(scores, axis=1)
    within = np.mean(3 / 2 * means * (1 - means))
    assert split.within == pytest.approx(within)
    assert split.between == pytest.approx(max(np.var(means, ddof=1) - within / 3, 0.0), abs=1e-12)
