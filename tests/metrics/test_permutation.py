"""Permutation tests: published vectors, every sign, and the level that they promise."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loopbench.metrics.permutation import DRAWS, mcnemar_exact, sign_flip


def test_mcnemar_vectors():
    assert mcnemar_exact(1, 7) == pytest.approx(0.0703, abs=5e-5)
    assert mcnemar_exact(3, 12) == pytest.approx(0.0352, abs=5e-5)
    assert mcnemar_exact(0, 0) == 1.0


@given(d=st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_sign_flip_enumerates_every_sign(d):
    sums = [abs(sum(sign * x for sign, x in zip(signs, d, strict=True))) for signs in product([-1, 1], repeat=len(d))]
    assert sign_flip(d) == pytest.approx(np.mean([total >= abs(sum(d)) for total in sums]))


@given(only_a=st.integers(0, 10), only_b=st.integers(0, 10), ties=st.integers(0, 50))
def test_sign_flip_is_mcnemar_for_single_0_1_outcomes(only_a, only_b, ties):
    assume(only_a + only_b + ties)
    assert sign_flip([1] * only_a + [-1] * only_b + [0] * ties) == pytest.approx(mcnemar_exact(only_a, only_b))


@given(only_a=st.integers(0, 40), only_b=st.integers(0, 40))
@settings(deadline=None)
def test_random_signs_agree_with_the_exact_test(only_a, only_b):
    """Sizes that differ by next to nothing are drawn for, and give what equal ones do."""
    assume(only_a + only_b > 20)
    p = mcnemar_exact(only_a, only_b)
    signs = np.array([1.0] * only_a + [-1.0] * only_b)
    drawn = sign_flip(signs * np.linspace(1, 1 + 1e-11, len(signs)))
    assert drawn == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / DRAWS) + 2 / DRAWS)
    assert drawn >= 1 / (DRAWS + 1)


@given(n=st.integers(1, 40))
def test_no_difference_anywhere_is_p_1(n):
    assert sign_flip([0.0] * n) == 1.0


def test_sign_flip_takes_its_seed_and_number_of_draws():
    d = list(np.linspace(-1, 1.3, 40))
    assert sign_flip(d, seed=1) == sign_flip(d, seed=1)
    assert sign_flip(d, seed=1) != sign_flip(d, seed=2)
    assert sign_flip([1.0] * 49 + [2.0], draws=99) == 0.01


@given(d=st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=2, max_size=6), copies=st.integers(2, 4))
def test_sign_flip_flips_clusters_whole(d, copies):
    """Tasks that are copies of each other flip together: the p is that of one task of each kind."""
    assume(len(d) > 1)
    names = [str(i) for i in range(len(d)) for _ in range(copies)]
    assert sign_flip([x for x in d for _ in range(copies)], names) == pytest.approx(sign_flip(d))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "disagreement"), [(30, 0.2), (60, 0.5), (300, 0.2)])
def test_sign_flip_keeps_its_level(n, disagreement):
    generator = np.random.default_rng(7)
    p = [
        sign_flip(generator.choice([-1.0, 0.0, 1.0], n, p=[disagreement / 2, 1 - disagreement, disagreement / 2]), draws=999)
        for _ in range(2_000)
    ]
    assert np.mean(np.array(p) < 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2_000)
