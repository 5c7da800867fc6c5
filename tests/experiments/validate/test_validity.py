"""A run in two halves, and how a prediction is held against the results: rank agreement, misplaced pairs, and the verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from tests.cases import cases
from whichloop.experiments.validate.doc import validity_doc
from whichloop.experiments.validate.prediction import halves
from whichloop.experiments.validate.validity import MEASURES, rank_agreement, units_needed, verdict_of
from whichloop.metrics.paired import PairedFlip, judge_family

UNITS = st.dictionaries(st.text(max_size=6), st.sampled_from("abcdefgh"), min_size=2).filter(
    lambda units: len({*units.values()}) > 1
)


@given(units=UNITS, seed=st.integers(0, 9))
def test_halves_are_a_partition_that_keeps_units_together(units: dict[str, str], seed: int) -> None:
    fitted, held_out = halves(units, seed)
    assert sorted((*fitted, *held_out)) == sorted(units)
    assert not {units[task] for task in fitted} & {units[task] for task in held_out}
    assert 0 <= len({units[task] for task in held_out}) - len({units[task] for task in fitted}) <= 1


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


WIDE = {"value": 0.2, "low": 0.1, "high": 0.3, "n": 40}
RIGHT = {"better": "a/m", "worse": "b/m", "real": WIDE, "predicted": 0.1, "misplaced": False}
WRONG = RIGHT | {"predicted": -0.1, "misplaced": True}

FOUND: dict[str, Any] = {
    "prediction": "d" * 64,
    "fitted_tasks": 40,
    "held_out_tasks": 40,
    "held_out_units": 40,
    "units_needed": 7,
    "loops": [{"arm": f"{name}/m", "real": WIDE, "predicted": WIDE} for name in "abc"],
    "differences": [{"loop": name, "measure": what, "difference": WIDE, "off": False} for name in "abc" for what in MEASURES],
    "tau": {"value": 1.0, "low": 0.4, "high": 1.0, "n": 40},
    "pairs": [RIGHT],
    "pairs_in_all": 3,
    "unknown_errors": {},
}

OFF = [FOUND["differences"][0] | {"off": True}, *FOUND["differences"][1:]]


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "Good"),
        ({"differences": OFF}, "Order right, level wrong"),
        ({"tau": {"value": 0.3, "low": -0.2, "high": 0.9, "n": 40}}, "Weak"),
        ({"tau": None, "differences": OFF}, "Weak"),
        ({"pairs": []}, "Weak"),
        ({"pairs": [RIGHT, WRONG]}, "Poor"),
        ({"pairs": [WRONG], "tau": None, "differences": OFF}, "Poor"),
    ],
)
def test_the_verdict_is_the_worst_there_is_to_say(change, verdict: str) -> None:
    found = FOUND | change
    assert verdict_of(found) == verdict
    doc = validity_doc(found | {"verdict": verdict})
    assert doc.facts["Verdict"][0].startswith(f"{verdict}: ")
    assert ("misplaced: a/m is better than b/m in the run" in doc.facts.get("Warning", ())) is (verdict == "Poor")
    assert doc.facts["Off"] == [f"{int(found['differences'] is OFF)} of 9 differences"]


@pytest.mark.parametrize(("units", "is_few"), [(7, False), (6, True)])
def test_too_few_tasks_to_tell_anything_apart_are_a_warning(units: int, is_few: bool) -> None:
    warnings = validity_doc(FOUND | {"verdict": "Weak", "held_out_units": units}).facts.get("Warning", [])
    assert any(text.startswith(f"few tasks: {units} independent tasks, and 7 or more") for text in warnings) is is_few


@given(tests=st.integers(1, 20), alpha=st.sampled_from((0.01, 0.05, 0.2)))
def test_the_fewest_units_are_those_with_which_one_pair_can_be_told_apart(tests: int, alpha: float) -> None:
    units = units_needed(tests, alpha)

    def smallest(count: int) -> float:
        alike = PairedFlip([0.5, -0.5] * 10, None)
        return judge_family([(PairedFlip([1.0] * count), 0.0), *[(alike, 0.0)] * (tests - 1)], alpha)[0].p_holm

    assert smallest(units) < alpha
    assert units == 1 or smallest(units - 1) >= alpha


@given(units=UNITS, seed=st.integers(0, 9), order=st.randoms())
def test_halves_hang_on_names_and_seed_alone(units: dict[str, str], seed: int, order) -> None:
    shuffled = list(units.items())
    order.shuffle(shuffled)
    assert halves(dict(shuffled), seed) == halves(units, seed)
    twenty = {f"t{n}": f"t{n}" for n in range(20)}
    assert len({halves(twenty, seed) for seed in range(5)}) == 5
    with pytest.raises(ValueError, match="two independent tasks or more"):
        halves({"a": "x", "b": "x"}, 0)
