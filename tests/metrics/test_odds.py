"""Odds ratios against statsmodels, and separation against what a fit without end shows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from scipy.special import expit
from statsmodels.genmod.families import Binomial
from statsmodels.genmod.generalized_estimating_equations import GEE

from whichloop.metrics.factors.factorial import NoOdds, is_separated, odds_ratios

TWO = np.array([[1.0, -1.0], [1.0, 1.0]])
"""Two cells: the second's log odds minus the first's are twice the second parameter."""
CHANGE = np.array([0.0, 2.0])
SQUARE = np.array([[1.0, a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)])
"""Two factors without their interaction."""


@given(
    seed=st.integers(0, 10_000), repeats=st.integers(1, 4), per_cluster=st.sampled_from([1, 2]), alpha=st.sampled_from([0.01, 0.2])
)
def test_statsmodels_says_the_same(seed, repeats, per_cluster, alpha):
    """Generalized estimating equations with working independence, a row for each trial."""
    generator = np.random.default_rng(seed)
    chance = expit(generator.normal(0, 1, (20, 1)) + SQUARE @ np.array([0.2, 0.5, -0.4]))
    solved = np.asarray(generator.binomial(repeats, chance), dtype=float)
    clusters = [f"c{task // per_cluster}" for task in range(20)]
    (found, _) = odds_ratios(solved, np.full_like(solved, repeats), SQUARE, list(np.eye(3)[1:]), clusters, alpha)
    task, cell, trial = (part.ravel() for part in np.indices((20, 4, repeats)))
    unit = task // per_cluster
    fitted = GEE((trial < solved[task, cell]).astype(float), SQUARE[cell], unit, family=Binomial()).fit()
    half = float(stats.t.ppf(1 - alpha / 2, unit.max())) * fitted.bse[1] * math.sqrt((unit.max() + 1) / unit.max())
    assert found is not None
    assert found.n == 20
    expected = np.exp(fitted.params[1] + np.array([0, -half, half]))
    assert (found.value, found.low, found.high) == pytest.approx(tuple(expected), rel=1e-5)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_separation_is_where_a_fit_has_no_end(counts):
    """With ever less of a penalty the parameters grow and grow, or stay."""
    solved, trials = np.array(counts, float), np.full(4, 3.0)

    def loss(params: np.ndarray) -> float:
        logits = SQUARE @ params
        return float(np.sum(trials * np.logaddexp(0, logits) - solved * logits) + 1e-9 * params @ params)

    fitted = optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-10, "maxiter": 10_000})
    assert is_separated(solved, trials, SQUARE) == bool(np.abs(fitted.x).max() > 6)


def test_separation_in_a_line():
    """Always failed below, always solved above: complete; one cell mixed in the middle: quasi-complete; mixed at an end: none."""
    line = np.array([[1.0, x] for x in (-1.0, 0.0, 1.0)])
    three = np.full(3, 3.0)
    assert is_separated(np.array([0.0, 0.0, 3.0]), three, line)
    assert is_separated(np.array([0.0, 2.0, 3.0]), three, line)
    assert not is_separated(np.array([1.0, 2.0, 3.0]), three, line)
    assert is_separated(three, three, line)
    assert not is_separated(np.ones(3), three, line)


@pytest.mark.parametrize(
    ("solved", "said"),
    [
        (np.array([[1.0, 0.0]]), "one task"),
        (np.array([[1.0, 1.0], [1.0, 1.0]]), "separated"),
        (np.array([[0.0, 1.0], [1.0, 1.0]]), "separated"),
    ],
)
def test_where_there_is_no_odds_ratio_that_is_said(solved, said):
    with pytest.raises(NoOdds, match=said):
        odds_ratios(solved, np.ones_like(solved), TWO, [CHANGE])


def test_where_no_task_differs_there_is_no_interval():
    solved = np.array([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    assert odds_ratios(solved, np.ones_like(solved), TWO, [CHANGE]) == [None]
