"""Three arms or more at once: published examples, the two tests' laws, and what degenerate data give."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopbench.metrics.omnibus import Omnibus, cochran, friedman, omnibus
from loopbench.metrics.summary import TaskValues

OUTCOMES = st.integers(3, 5).flatmap(
    lambda arms: st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=arms, max_size=arms), min_size=1, max_size=25)
)
MEANS = st.integers(3, 5).flatmap(
    lambda arms: st.lists(st.lists(st.sampled_from([0.0, 0.2, 0.5, 1.0]), min_size=arms, max_size=arms), min_size=1, max_size=25)
)


def values(rows: list[list[list[float]]], clusters: list[str] | None = None) -> dict[str, TaskValues]:
    """From rows[task][arm][repeat]."""
    names = [f"t{task}" for task in range(len(rows))]
    own = dict(zip(names, clusters or [""] * len(names), strict=True))
    return {
        f"arm {arm}": TaskValues({task: row[arm] for task, row in zip(names, rows, strict=True)}, own)
        for arm in range(len(rows[0]))
    }


def test_cochran_by_hand():
    """Columns 6, 2, 4 of 8 rows with sums 3, 2, 2, 2, 1, 1, 1, 0: Q = 2 (3·56 - 144) / (3·12 - 24) = 4."""
    rows = [[1, 1, 1], [1, 0, 1], [1, 0, 1], [1, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]]
    statistic, p = cochran(np.array(rows, dtype=float))
    assert (statistic, p) == pytest.approx((4.0, np.exp(-2.0)))  # χ² with 2 degrees of freedom


def test_friedman_by_hand():
    """Ranks 1, 2, 3 in each of four rows: 12/(4·3·4) (16 + 64 + 144) - 3·4·4 = 8."""
    statistic, p = friedman(np.array([[0.1, 0.2, 0.3]] * 4))
    assert (statistic, p) == pytest.approx((8.0, np.exp(-4.0)))


@given(rows=OUTCOMES)
def test_of_zeros_and_ones_both_are_the_same_test(rows):
    """Friedman's statistic with its correction for ties is Cochran's Q."""
    outcomes = np.array(rows)
    assert friedman(outcomes) == pytest.approx(cochran(outcomes), abs=1e-9)


@given(rows=MEANS, data=st.data())
def test_the_order_of_tasks_and_arms_changes_nothing(rows, data):
    means = np.array(rows)
    tasks = data.draw(st.permutations(range(len(means))))
    arms = data.draw(st.permutations(range(means.shape[1])))
    statistic, p = friedman(means)
    assert friedman(means[tasks][:, arms]) == pytest.approx((statistic, p), abs=1e-9)
    assert statistic >= -1e-9
    assert 0 <= p <= 1


@given(level=st.sampled_from([0.0, 1.0]), n=st.integers(1, 9), arms=st.integers(3, 5))
def test_where_nothing_differs_p_is_1(level, n, arms):
    outcomes = np.full((n, arms), level)
    assert cochran(outcomes) == friedman(outcomes) == (0.0, 1.0)


def test_rounding_errors_are_no_ranks():
    assert friedman(np.array([[0.3, 0.1 + 0.2, 0.3]] * 30)) == (0.0, 1.0)


def test_the_test_follows_the_data():
    once = values([[[1.0], [0.0], [1.0]], [[1.0], [1.0], [0.0]]])
    found = omnibus("s", "clean", once)
    assert found is not None
    assert (found.test, found.df, found.n, found.arms) == ("Cochran's Q", 2, 2, ("arm 0", "arm 1", "arm 2"))
    twice = values([[[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    graded = values([[[0.5], [0.0], [1.0]], [[1.0], [1.0], [0.0]]])
    shared = values([[[1.0], [0.0], [1.0]]] * 4, ["a", "a", "b", "b"])
    for other in (twice, graded, shared):
        tested = omnibus("s", "clean", other)
        assert tested is not None
        assert tested.test == "Friedman"
        assert tested.n == 2


def test_tasks_of_a_template_are_one_unit():
    rows = [[[1.0], [0.0], [0.0]], [[0.0], [1.0], [0.0]], [[1.0], [1.0], [0.0]]]
    found = omnibus("s", "clean", values(rows, ["a", "a", "b"]))
    assert found is not None
    assert (found.statistic, found.p) == pytest.approx(friedman(np.array([[0.5, 0.5, 0.0], [1.0, 1.0, 0.0]])))


def test_only_arms_and_tasks_with_scores_count():
    three = values([[[1.0], [0.0], [1.0]]])
    assert omnibus("s", "clean", dict(itertools.islice(three.items(), 2))) is None
    assert omnibus("s", "clean", three | {"arm 0": TaskValues({}, {})}) is None
    assert omnibus("s", "clean", three | {"arm 0": TaskValues({"other": [1.0]}, {"other": ""})}) is None
    assert omnibus("s", "clean", {}) is None
    found = omnibus("s", "clean", three | {"unscored": TaskValues({}, {})})
    assert found is not None
    assert found.arms == ("arm 0", "arm 1", "arm 2")


def test_plain_json():
    found = Omnibus("s", "clean", ("a", "b", "c"), "Friedman", 1.5, 2, 0.4, 7)
    assert found.to_json() == {
        "suite": "s",
        "profile": "clean",
        "arms": ["a", "b", "c"],
        "test": "Friedman",
        "statistic": 1.5,
        "df": 2,
        "p": 0.4,
        "n": 7,
    }
