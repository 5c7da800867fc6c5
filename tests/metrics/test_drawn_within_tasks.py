"""The exact test of Cochran, Mantel and Haenszel against SciPy's hypergeometric law, its size, and its laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact, hypergeom

from whichloop.metrics.within_tasks import Stratum, drawn_sum


@st.composite
def strata(draw):
    trials, others = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    solved, by_others = draw(st.integers(0, trials)), draw(st.integers(0, others))
    return Stratum(solved, trials, solved + by_others, trials + others)


def turned(stratum):
    return Stratum(stratum.all_solved - stratum.solved, stratum.all_trials - stratum.trials, stratum.all_solved, stratum.all_trials)


@given(strata())
def test_the_law_of_one_stratum_is_hypergeometric(stratum):
    law = hypergeom(stratum.all_trials, stratum.all_solved, stratum.trials)
    chances = [law.pmf(stratum.least + place) for place in range(len(stratum.law))]
    assert stratum.law == pytest.approx(chances)
    tails, excess = drawn_sum([stratum])
    expected = math.fsum(solved * chance for solved, chance in enumerate(chances, stratum.least))
    assert excess == pytest.approx(stratum.solved - expected, abs=1e-9)
    rest = turned(stratum)
    table = [[stratum.solved, stratum.trials - stratum.solved], [rest.solved, rest.trials - rest.solved]]
    assert tails.greater == pytest.approx(fisher_exact(table, alternative="greater").pvalue)
    assert tails.less == pytest.approx(fisher_exact(table, alternative="less").pvalue)


@given(st.lists(strata(), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_the_strata_does_not_matter_and_turned_round_the_tails_change_places(found, random):
    shuffled = random.sample(found, len(found))
    (one, excess), (other, _), (opposite, other_excess) = map(drawn_sum, (found, shuffled, [turned(stratum) for stratum in found]))
    assert tuple(other) == pytest.approx(tuple(one))
    assert tuple(opposite) == pytest.approx((one.less, one.greater))
    assert other_excess == pytest.approx(-excess, abs=1e-9)


@given(st.lists(strata(), min_size=1, max_size=6), st.floats(0.001, 0.5))
def test_under_the_null_p_is_at_most_alpha_with_a_chance_of_alpha_whatever_the_margins(found, alpha):
    law = np.ones(1)
    for stratum in found:
        law = np.convolve(law, stratum.law)
    tails = [(law[place:].sum(), law[: place + 1].sum()) for place in range(len(law))]
    rejected = [chance for chance, pair in zip(law, tails, strict=True) if 2 * min(pair) <= alpha]
    assert math.fsum(rejected) <= alpha + 1e-9
