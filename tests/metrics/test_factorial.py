"""Effects of factors against marginal means, a textbook's numbers and statsmodels, and the laws that any experiment must keep."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from scipy.special import expit
from statsmodels.genmod.families import Binomial
from statsmodels.genmod.generalized_estimating_equations import GEE

from tests.cases import cases
from whichloop.metrics.bootstrap import sign_flip
from whichloop.metrics.factors.factorial import Effect, effects, is_separated, odds_ratios
from whichloop.metrics.factors.layout import Cell, Factor, layout
from whichloop.metrics.paired import PairedFlip
from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY

BIT = st.sampled_from([0.0, 1.0])
CLUSTER = st.sampled_from(["", "", "x", "y"])
Scores = Mapping[Cell, Sequence[Sequence[float]]]
"""Cell → task → one score per repeat."""


def every(sizes: Sequence[int]) -> list[Cell]:
    return list(product(*map(range, sizes)))


def factors(sizes: Sequence[int]) -> list[Factor]:
    return [Factor("abcdefghijk"[place], tuple(str(level) for level in range(size))) for place, size in enumerate(sizes)]


TWO = layout(factors([2]), every([2]))


def record(task: int, repeat: int = 0, score: float = 1.0, **changes: Any) -> Record:
    return Record("arm", "s", "d", f"t{task}", repeat, 0, **({"status": "scored", "scores": {PRIMARY: score}} | changes))


def records(scores: Scores, clusters: Sequence[str] = ("",) * 99) -> dict[Cell, list[Record]]:
    return {
        cell: [
            record(task, repeat, score, cluster=clusters[task])
            for task, own in enumerate(tasks)
            for repeat, score in enumerate(own)
        ]
        for cell, tasks in scores.items()
    }


@st.composite
def experiments(draw: Any, score: st.SearchStrategy[float] = BIT) -> tuple[list[int], Scores]:
    """Levels of each factor, and scores of all cells."""
    sizes = draw(st.lists(st.integers(2, 3), min_size=1, max_size=3))
    tasks, repeats = draw(st.integers(1, 6)), draw(st.integers(1, 2))
    grid = st.lists(st.lists(score, min_size=repeats, max_size=repeats), min_size=tasks, max_size=tasks)
    return sizes, {cell: draw(grid) for cell in every(sizes)}


def found(sizes: Sequence[int], scores: Scores, clusters: Sequence[str] = ("",) * 99) -> tuple[list[Effect], list[str]]:
    return effects({"clean": records(scores, clusters)}, layout(factors(sizes), every(sizes)), metrics=(PRIMARY,))


def mean(scores: Scores, levels: Mapping[str, int]) -> float:
    """Over tasks, repeats, and all cells in which factors `a`, `b`, … have these levels."""
    cells = [cell for cell in scores if all(cell["abcdefgh".index(name)] == level for name, level in levels.items())]
    return float(np.mean([np.mean([np.mean(repeats) for repeats in scores[cell]]) for cell in cells]))


@settings(max_examples=cases(20))
@given(experiment=experiments(BIT | st.floats(0, 1)))
def test_effects_are_differences_of_marginal_means(experiment):
    sizes, scores = experiment
    names, made = "abcdefgh"[: len(sizes)], found(*experiment)[0]
    steps = {
        f"{name}: {a} → {b}": ({name: a}, {name: b})
        for name, size in zip(names, sizes, strict=True)
        for b in range(1, size)
        for a in (0, b - 1)
    }
    mains = {effect.term: effect.difference.value for effect in made if effect.kind == "main"}
    assert mains == {term: pytest.approx(mean(scores, b) - mean(scores, a), abs=1e-9) for term, (a, b) in steps.items()}
    interactions = [effect for effect in made if effect.kind == "interaction"]
    assert len(interactions) == sum((a - 1) * (b - 1) for i, a in enumerate(sizes) for b in sizes[:i])
    for effect in interactions:
        f, g = effect.factors
        a, b = (int(part.rpartition(" → ")[2]) for part in effect.term.split(" × "))
        at = {(i, j): mean(scores, {f: i, g: j}) for i, j in product((0, a), (0, b))}
        assert effect.difference.value == pytest.approx(at[a, b] - at[0, b] - at[a, 0] + at[0, 0], abs=1e-9)
        assert {(each.change, each.given): each.difference.value for each in effect.conditional} == {
            (f"{f}: 0 → {a}", f"{g} = 0"): pytest.approx(at[a, 0] - at[0, 0], abs=1e-9),
            (f"{f}: 0 → {a}", f"{g} = {b}"): pytest.approx(at[a, b] - at[0, b], abs=1e-9),
            (f"{g}: 0 → {b}", f"{f} = 0"): pytest.approx(at[0, b] - at[0, 0], abs=1e-9),
            (f"{g}: 0 → {b}", f"{f} = {a}"): pytest.approx(at[a, b] - at[a, 0], abs=1e-9),
        }


FILTRATION = {  # A, B, C, D: temperature, pressure, concentration, stirring rate
    "": 45, "a": 71, "b": 48, "ab": 65, "c": 68, "ac": 60, "bc": 80, "abc": 65,
    "d": 43, "ad": 100, "bd": 45, "abd": 104, "cd": 75, "acd": 86, "bcd": 70, "abcd": 96,
}  # fmt: skip
"""Filtration rate of a chemical product (Montgomery, Design and Analysis of Experiments, Examples 6.2 and, of its half, 8.1)."""
HALF = {"a": 19.0, "b": 1.5, "c": 14.0, "d": 16.5, "ab": -1.0, "ac": -18.5, "ad": 19.0}


def test_the_textbook_s_effects_of_a_half():
    cells = [cell for cell in every([2] * 4) if sum(cell) % 2 == 0]
    design = layout(factors([2] * 4), cells)
    runs = {cell: FILTRATION["".join(name for name, level in zip("abcd", cell, strict=True) if level)] for cell in cells}
    groups = {"clean": {cell: [record(task, steps=rate) for task in range(3)] for cell, rate in runs.items()}}
    made = effects(groups, design, metrics=("steps",))[0]
    # An interaction is half the difference of differences there.
    assert {"".join(each.factors): each.difference.value / len(each.factors) for each in made} == pytest.approx(HALF)
    assert not any(each.conditional for each in made)


@pytest.mark.parametrize(("rest", "sign"), [(0, ""), (1, "-")])
def test_either_half_tells_pairs_of_interactions_as_sums(rest, sign):
    half = [cell for cell in every([2] * 4) if sum(cell) % 2 == rest]
    assert layout(factors([2] * 4), half).aliases == (f"a × b = {sign}c × d", f"a × c = {sign}b × d", f"a × d = {sign}b × c")


@pytest.mark.parametrize(
    ("sizes", "cells", "lost"),
    [
        ([2, 2], [(0, 0), (1, 1)], "b"),
        ([2, 2], [(0, 0), (0, 1)], "a"),
        ([2, 2, 2], [(0, 0, 0), (1, 1, 0), (1, 0, 1), (0, 1, 1)], "a × b"),
        ([3, 2], [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)], "a × b"),
    ],
)
def test_cells_that_cannot_tell_effects_apart_are_refused(sizes, cells, lost):
    with pytest.raises(ValueError, match=f"^these cells cannot tell {lost} from other effects$"):
        layout(factors(sizes), cells)


# Laws.


@given(experiment=experiments(), clusters=st.lists(CLUSTER, min_size=6, max_size=6))
def test_intervals_are_finite_hold_their_estimate_and_are_never_of_zero_width(experiment, clusters):
    made, _ = found(experiment[0], experiment[1], clusters)
    for effect in made:
        for interval in (effect.difference, *(known.difference for known in effect.conditional)):
            assert interval.low <= interval.value <= interval.high
            assert interval.high - interval.low > 0
        assert max(abs(effect.difference.low), abs(effect.difference.high)) <= len(effect.factors) + 1e-12
        assert effect.p <= effect.p_holm <= 1
        assert (
            effect.odds_ratio is None or 0 <= effect.odds_ratio.low <= effect.odds_ratio.value <= effect.odds_ratio.high < math.inf
        )
    json.dumps([effect.to_json() for effect in made], allow_nan=False)


@given(sizes=st.lists(st.integers(2, 3), min_size=1, max_size=3), score=BIT, tasks=st.integers(1, 5))
def test_where_nothing_varies_nothing_is_found(sizes, score, tasks):
    made, notes = found(sizes, {cell: [[score]] * tasks for cell in every(sizes)})
    for effect in made:
        assert (effect.difference.value, effect.p, effect.p_holm, effect.odds_ratio) == (0, 1, 1, None)
        assert effect.verdict.word in ("undecided", "equivalent")
    assert notes == [f"clean: no odds ratios: {'one task shows no spread' if tasks == 1 else 'outcomes are separated'}."]


@given(scores=st.lists(st.tuples(*[st.sampled_from([0.0, 0.5, 1.0])] * 2), min_size=1, max_size=30))
def test_one_factor_of_two_values_has_the_interval_of_the_two_arms(scores):
    before, after = zip(*scores, strict=True)
    ((effect,), _) = found((2,), {(0,): [[score] for score in before], (1,): [[score] for score in after]})
    pair = PairedFlip(np.subtract(after, before))
    assert effect.difference.as_dict() == pytest.approx(pair.interval().as_dict())
    assert effect.p == pytest.approx(pair.p_difference)
    assert effect.level == 0.05
    assert effect.verdict.word in ("undecided", "equivalent", "better" if effect.difference.value > 0 else "worse")


# What counts.


@pytest.mark.parametrize(("cells", "left_out"), [(([0.0, 0.0, 1.0], [1.0, 1.0, None]), 1), (([0.0, None], [None, 1.0]), 2)])
def test_a_task_without_a_score_in_some_cell_counts_nowhere(cells, left_out):
    groups: dict[Cell, list[Record]] = {
        (level,): [
            record(task, score=score) if score is not None else record(task, status="errored") for task, score in enumerate(own)
        ]
        for level, own in enumerate(cells)
    }
    made, notes = effects({"clean": groups}, TWO, metrics=(PRIMARY,))
    known = len(cells[0]) - left_out
    assert [(each.difference.value, each.difference.n) for each in made] == ([(1.0, known)] if known else [])
    assert notes[0] == f"clean: {left_out} of {len(cells[0])} tasks count in no effect: not scored in every cell."


def test_all_effects_on_a_metric_under_all_profiles_are_one_family():
    own = records({(0,): [[0.0]] * 8, (1,): [[1.0]] * 6 + [[0.0]] * 2})
    first, second = effects({"one": own, "two": own}, TWO, metrics=(PRIMARY,))[0]
    assert (first.profile, second.profile) == ("one", "two")
    assert first.p == sign_flip([1.0] * 6).two_sided
    assert first.p_holm == second.p_holm == pytest.approx(2 * first.p)


def test_a_price_that_is_not_known_has_no_effect_and_fewer_steps_are_better():
    groups: dict[Cell, list[Record]] = {
        (level,): [record(task, steps=9 - 3 * level + task % 2, cost_usd=1.0 if level else None) for task in range(12)]
        for level in (0, 1)
    }
    ((effect,), _) = effects({"clean": groups}, TWO, metrics=("steps", "cost_usd"))
    assert (effect.metric, effect.difference.value, effect.verdict.word, effect.odds_ratio) == ("steps", -3, "better", None)
    assert effect.margin == pytest.approx(0.02 * 8)


# Odds ratios, where there are any.


def solved(counts: Mapping[Cell, int], tasks: int = 40) -> Scores:
    """So many of the tasks solved in each cell."""
    return {cell: [[1.0]] * count + [[0.0]] * (tasks - count) for cell, count in counts.items()}


@pytest.mark.parametrize(
    ("scores", "kept", "said"),
    [
        (solved({(0, 0): 10, (1, 0): 40, (0, 1): 20, (1, 1): 40}), 0, "no odds ratios: outcomes are separated."),
        (
            solved({(0, 0): 10, (1, 0): 40, (0, 1): 20, (1, 1): 30}),
            2,
            "odds ratios are those of a model without interactions: outcomes are separated.",
        ),
        ({cell: [[0.5], [sum(cell) / 2]] for cell in every([2, 2])}, 0, "no odds ratios: scores are graded."),
    ],
)
def test_where_ratios_are_infinite_or_none_that_is_said(scores, kept, said):
    made, notes = found([2, 2], scores)
    assert [effect.odds_ratio is not None for effect in made] == [True] * kept + [False] * (3 - kept)
    assert notes == [f"clean: {said}"]


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
