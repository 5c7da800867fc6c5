"""How a prediction is held against the results: rank agreement, misplaced pairs, and the verdict's first word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from tests.cases import cases
from whichloop.experiments.fit_profile.check import MeasureGap
from whichloop.experiments.validate.outcome import LoopValidity, PairOrder, Validity, units_needed
from whichloop.experiments.validate.validity import rank_agreement
from whichloop.metrics.paired import PairedFlip, judge_family
from whichloop.metrics.statistics import Interval

SCORES = st.integers(3, 5).flatmap(
    lambda loops: st.integers(3, 8).flatmap(
        lambda tasks: st.tuples(*[
            st.lists(st.lists(st.sampled_from((0.0, 0.5, 1.0)), min_size=tasks, max_size=tasks), min_size=loops, max_size=loops)
        ] * 2)
    )
)  # fmt: skip


@settings(max_examples=cases(7))
@given(sides=SCORES)
def test_tau_is_that_of_scipy_within_its_interval(sides: tuple[list[list[float]], list[list[float]]]) -> None:
    real, predicted = map(np.array, sides)
    clusters = [str(n) for n in range(real.shape[1])]
    found = rank_agreement(real, predicted, clusters)
    expected = kendalltau(real.sum(1), predicted.sum(1)).statistic
    if np.isnan(expected):
        assert found is None
    else:
        assert found is not None
        assert found.value == pytest.approx(expected)
        assert -1 <= found.low <= found.value <= found.high <= 1


def test_a_side_that_equals_itself_has_tau_1_and_its_opposite_minus_1() -> None:
    real = np.array([[1.0, 1, 0, 1], [1, 0, 0, 1], [0, 0, 0, 1]])
    clusters = list("abcd")
    assert rank_agreement(real, real, clusters).value == 1  # type: ignore[union-attr]
    assert rank_agreement(real, 1 - real, clusters).value == -1  # type: ignore[union-attr]
    assert rank_agreement(real, np.ones_like(real), clusters) is None


WIDE = Interval(0.2, 0.1, 0.3, 40)
LOOPS = tuple(LoopValidity(f"{name}/m", WIDE, WIDE) for name in ("a", "b", "c"))
FOUND = Validity(
    digest="d" * 64,
    fitted_tasks=40,
    held_out_tasks=40,
    units=40,
    loops=LOOPS,
    gaps=(MeasureGap("a", "accuracy", 0.9, 0.6, WIDE, False),),
    tau=Interval(1.0, 0.4, 1.0, 40),
    pairs=(PairOrder("a/m", "b/m", WIDE, 0.1),),
    pairs_in_all=3,
    unknown_errors={},
)
OFF = (MeasureGap("a", "accuracy", 0.9, 0.6, WIDE, True),)


@pytest.mark.parametrize(
    ("change", "begins"),
    [
        ({}, "Good: no accuracy is beyond its interval."),
        ({"gaps": OFF}, "Order right, level wrong: the accuracy of a is off."),
        ({"tau": Interval(0.3, -0.2, 0.9, 40)}, "Weak: nothing speaks against the order of the loops, and little for it."),
        ({"tau": None, "gaps": OFF}, "Weak: "),
        (
            {"pairs": ()},
            "Weak: nothing speaks against the order of the loops, and little for it. The run tells 0 of 3 pairs of loops apart",
        ),
        ({"pairs": (PairOrder("a/m", "b/m", WIDE, -0.1),)}, "Poor: the tunnel misplaces loops."),
        ({"pairs": (PairOrder("a/m", "b/m", WIDE, 0.0),), "tau": None, "gaps": OFF}, "Poor: "),
    ],
)
def test_the_verdict_begins_with_the_worst(change, begins: str) -> None:
    found = replace(FOUND, **change)
    assert found.verdict.startswith(begins)
    assert f"The run tells {len(found.pairs)} of 3 pairs of loops apart" in found.verdict


@pytest.mark.parametrize(
    ("units", "said"),
    [
        (7, "The run tells 0 of 3 pairs of loops apart, and no accuracy is beyond its interval."),
        (
            6,
            "6 independent tasks cannot tell any of 3 pairs of loops apart, whatever they scored: that takes 7 or more, "
            "and no accuracy is beyond its interval.",
        ),
        (
            5,
            "5 independent tasks cannot tell any of 3 pairs of loops apart, whatever they scored: that takes 7 or more, "
            "and so few tasks cannot show an accuracy to be off.",
        ),
    ],
)
def test_the_verdict_says_where_tasks_are_too_few_to_tell_anything_apart(units: int, said: str) -> None:
    weak = "Weak: nothing speaks against the order of the loops, and little for it."
    assert replace(FOUND, pairs=(), units=units).verdict == f"{weak} {said}"


@given(tests=st.integers(1, 20), alpha=st.sampled_from((0.01, 0.05, 0.2)))
def test_the_fewest_units_are_those_with_which_one_pair_can_be_told_apart(tests: int, alpha: float) -> None:
    units = units_needed(tests, alpha)

    def smallest(count: int) -> float:
        alike = PairedFlip([0.5, -0.5] * 10, None)
        return judge_family([(PairedFlip([1.0] * count), 0.0), *[(alike, 0.0)] * (tests - 1)], alpha)[0].p_holm

    assert smallest(units) < alpha
    assert units == 1 or smallest(units - 1) >= alpha


def test_the_page_names_the_fewest_tasks_of_three_and_of_five_loops() -> None:
    page = (Path(__file__).parents[3] / "docs" / "validity.md").read_text("utf-8")
    assert f"three loops take {units_needed(3)} independent held-out tasks or more, five take {units_needed(10)}" in page
