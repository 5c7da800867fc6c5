"""Effects of factors against marginal means, a textbook's numbers, and the laws that any experiment must keep."""

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

from tests.cases import cases
from whichloop.metrics.bootstrap import sign_flip
from whichloop.metrics.factors.factorial import Effect, FactorEffects, effects
from whichloop.metrics.factors.layout import Cell, Factor, Layout, full_factorial, layout
from whichloop.metrics.paired import PairedFlip
from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY

BIT = st.sampled_from([0.0, 1.0])
CLUSTER = st.sampled_from(["", "", "x", "y"])
Scores = Mapping[Cell, Sequence[Sequence[float]]]
"""Cell → task → one score per repeat."""


def factors(sizes: Sequence[int]) -> list[Factor]:
    return [Factor("abcdefgh"[place], tuple(str(level) for level in range(size))) for place, size in enumerate(sizes)]


def record(task: int, repeat: int = 0, score: float = 1.0, **changes: Any) -> Record:
    return Record("arm", "s", "d", f"t{task}", repeat, 0, **({"status": "scored", "scores": {PRIMARY: score}} | changes))


def records(scores: Scores, clusters: Sequence[str] = ()) -> dict[Cell, list[Record]]:
    return {
        cell: [
            record(task, repeat, score, cluster=clusters[task] if clusters else "")
            for task, repeats in enumerate(tasks)
            for repeat, score in enumerate(repeats)
        ]
        for cell, tasks in scores.items()
    }


@st.composite
def experiments(draw: Any, score: st.SearchStrategy[float] = BIT) -> tuple[list[int], Scores]:
    """Levels of each factor, and scores of all cells."""
    sizes = draw(st.lists(st.integers(2, 3), min_size=1, max_size=3))
    tasks, repeats = draw(st.integers(1, 6)), draw(st.integers(1, 2))
    grid = st.lists(st.lists(score, min_size=repeats, max_size=repeats), min_size=tasks, max_size=tasks)
    return sizes, {cell: draw(grid) for cell in full_factorial(sizes)}


def found(sizes: Sequence[int], scores: Scores, clusters: Sequence[str] = (), **more: Any) -> FactorEffects:
    return effects({"clean": records(scores, clusters)}, layout(factors(sizes), full_factorial(sizes)), metrics=(PRIMARY,), **more)


def by_term(made: FactorEffects, metric: str = PRIMARY) -> dict[str, Effect]:
    return {effect.term: effect for effect in made.effects if effect.metric == metric}


def mean(scores: Scores, **levels: int) -> float:
    """Over tasks, repeats, and all cells in which factors `a`, `b`, … have these levels."""
    wanted = {"abcdefgh".index(name): level for name, level in levels.items()}
    cells = [cell for cell in scores if all(cell[place] == level for place, level in wanted.items())]
    return float(np.mean([np.mean([np.mean(repeats) for repeats in scores[cell]]) for cell in cells]))


# A full design: differences of marginal means.


@settings(max_examples=cases(12))
@given(experiment=experiments(BIT | st.floats(0, 1)))
def test_a_main_effect_is_the_difference_of_marginal_means(experiment):
    sizes, scores = experiment
    terms = by_term(found(sizes, scores))
    for place, size in enumerate(sizes):
        name = "abcdefgh"[place]
        steps = {(0, level) for level in range(1, size)} | {(level - 1, level) for level in range(1, size)}
        assert {term for term, effect in terms.items() if effect.factors == (name,)} == {f"{name}: {a} → {b}" for a, b in steps}
        for start, end in steps:
            effect = terms[f"{name}: {start} → {end}"]
            assert effect.kind == "main"
            assert effect.difference.value == pytest.approx(mean(scores, **{name: end}) - mean(scores, **{name: start}), abs=1e-9)


@given(experiment=experiments(BIT | st.floats(0, 1)))
def test_an_interaction_is_the_difference_of_two_differences(experiment):
    sizes, scores = experiment
    interactions = [effect for effect in found(sizes, scores).effects if effect.kind == "interaction"]
    assert len(interactions) == sum((a - 1) * (b - 1) for i, a in enumerate(sizes) for b in sizes[:i])
    for effect in interactions:
        f, g = effect.factors
        a, b = (int(part.rpartition(" → ")[2]) for part in effect.term.split(" × "))
        there = {(i, j): mean(scores, **{f: i, g: j}) for i, j in product((0, a), (0, b))}
        value = there[a, b] - there[0, b] - there[a, 0] + there[0, 0]
        assert effect.difference.value == pytest.approx(value, abs=1e-9)
        told = {(known.change, known.given): known.difference.value for known in effect.conditional}
        assert told == {
            (f"{f}: 0 → {a}", f"{g} = 0"): pytest.approx(there[a, 0] - there[0, 0], abs=1e-9),
            (f"{f}: 0 → {a}", f"{g} = {b}"): pytest.approx(there[a, b] - there[0, b], abs=1e-9),
            (f"{g}: 0 → {b}", f"{f} = 0"): pytest.approx(there[0, b] - there[0, 0], abs=1e-9),
            (f"{g}: 0 → {b}", f"{f} = {a}"): pytest.approx(there[a, b] - there[a, 0], abs=1e-9),
        }


FILTRATION = {  # A, B, C, D: temperature, pressure, concentration, stirring rate
    "": 45, "a": 71, "b": 48, "ab": 65, "c": 68, "ac": 60, "bc": 80, "abc": 65,
    "d": 43, "ad": 100, "bd": 45, "abd": 104, "cd": 75, "acd": 86, "bcd": 70, "abcd": 96,
}  # fmt: skip
"""Filtration rate of a chemical product (Montgomery, Design and Analysis of Experiments, Example 6.2)."""


def filtration(design: Layout) -> dict[str, Effect]:
    runs = {cell: FILTRATION["".join(name for name, level in zip("abcd", cell, strict=True) if level)] for cell in design.cells}
    groups = {"clean": {cell: [record(task, steps=rate) for task in range(3)] for cell, rate in runs.items()}}
    return by_term(effects(groups, design, metrics=("steps",)), "steps")


def test_a_full_design_gives_the_textbooks_effects():
    terms = filtration(layout(factors((2, 2, 2, 2)), full_factorial((2, 2, 2, 2))))
    mains = {"a": 21.625, "b": 3.125, "c": 9.875, "d": 14.625}
    both = {"ab": 0.125, "ac": -18.125, "ad": 16.625, "bc": 2.375, "bd": -0.375, "cd": -1.125}
    for name, value in mains.items():
        assert terms[f"{name}: 0 → 1"].difference.value == pytest.approx(value)
    for names, value in both.items():  # an interaction is half the difference of differences there
        assert terms[f"{names[0]}: 0 → 1 × {names[1]}: 0 → 1"].difference.value == pytest.approx(2 * value)


def test_its_half_gives_the_textbooks_effects_and_aliases():
    """I = ABCD (Example 8.1)."""
    half = [cell for cell in full_factorial((2, 2, 2, 2)) if sum(cell) % 2 == 0]
    design = layout(factors((2, 2, 2, 2)), half)
    terms = filtration(design)
    assert design.aliases == ("a × b = c × d", "a × c = b × d", "a × d = b × c")
    for name, value in {"a": 19.0, "b": 1.5, "c": 14.0, "d": 16.5}.items():
        assert terms[f"{name}: 0 → 1"].difference.value == pytest.approx(value)
    for names, value in {"ab": -1.0, "ac": -18.5, "ad": 19.0}.items():
        effect = terms[f"{names[0]}: 0 → 1 × {names[1]}: 0 → 1"]
        assert effect.difference.value == pytest.approx(2 * value)
        assert effect.conditional == ()
    assert len(terms) == 7


def test_the_other_half_enters_negatively():
    half = [cell for cell in full_factorial((2, 2, 2, 2)) if sum(cell) % 2 == 1]
    assert layout(factors((2, 2, 2, 2)), half).aliases == ("a × b = -c × d", "a × c = -b × d", "a × d = -b × c")


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([(0, 0), (1, 1)], "the effect of b"),
        ([(0, 0), (0, 1)], "the effect of a"),
        ([(0, 0, 0), (1, 1, 0), (1, 0, 1), (0, 1, 1)], "a × b from effects of single factors"),
        ([(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)], "a × b from effects of single factors"),
    ],
)
def test_cells_that_cannot_tell_effects_apart_are_refused(cells, said):
    sizes = [max(3, 1 + max(column)) if max(column) > 1 else 2 for column in zip(*cells, strict=True)]
    with pytest.raises(ValueError, match=said):
        layout(factors(sizes), cells)


# Laws.


@given(experiment=experiments(), clusters=st.lists(CLUSTER, min_size=6, max_size=6))
def test_intervals_are_finite_hold_their_estimate_and_are_never_of_zero_width(experiment, clusters):
    sizes, scores = experiment
    made = found(sizes, scores, clusters)
    reaches = {"main": 1.0, "interaction": 2.0}
    for effect in made.effects:
        for interval in (effect.difference, *(known.difference for known in effect.conditional)):
            assert interval.low <= interval.value <= interval.high
            assert interval.high - interval.low > 0
        assert max(abs(effect.difference.low), abs(effect.difference.high)) <= reaches[effect.kind] + 1e-12
        assert effect.p <= effect.p_holm <= 1
        assert effect.odds_ratio is None or 0 <= effect.odds_ratio.low <= effect.odds_ratio.value <= effect.odds_ratio.high
        assert effect.odds_ratio is None or math.isfinite(effect.odds_ratio.high)
    json.dumps([effect.to_json() for effect in made.effects], allow_nan=False)


@settings(max_examples=cases(12))
@given(experiment=experiments(), data=st.data())
def test_the_order_of_tasks_and_records_changes_nothing(experiment, data):
    sizes, scores = experiment
    design = layout(factors(sizes), full_factorial(sizes))
    groups = records(scores)
    shuffled = {cell: data.draw(st.permutations(kept)) for cell, kept in groups.items()}
    first, second = (effects({"clean": made}, design, metrics=(PRIMARY,)).effects for made in (groups, shuffled))
    for one, other in zip(first, second, strict=True):
        assert (one.term, one.p, one.verdict) == (other.term, other.p, other.verdict)
        assert one.difference.as_dict() == pytest.approx(other.difference.as_dict(), abs=1e-9)
        assert (one.odds_ratio is None) == (other.odds_ratio is None)


@settings(max_examples=cases(12))
@given(experiment=experiments(), data=st.data())
def test_other_names_for_the_levels_turn_effects_and_no_more(experiment, data):
    """Levels in another order: what was 0 → 1 is found again under its new name, turned where the base changed places."""
    sizes, scores = experiment
    turned = data.draw(st.integers(0, len(sizes) - 1))
    last = sizes[turned] - 1  # the base and the last level change places
    swap = {0: last, last: 0}
    moved = {
        tuple(swap.get(level, level) if place == turned else level for place, level in enumerate(cell)): tasks
        for cell, tasks in scores.items()
    }
    before, after = by_term(found(sizes, scores)), by_term(found(sizes, moved))
    name = "abcdefgh"[turned]
    one, other = before[f"{name}: 0 → {last}"], after[f"{name}: 0 → {last}"]
    assert (other.difference.value, other.difference.low, other.difference.high) == pytest.approx(
        (-one.difference.value, -one.difference.high, -one.difference.low), abs=1e-9
    )
    assert other.p == one.p
    for term, effect in before.items():
        if effect.kind == "main" and effect.factors != (name,):
            assert after[term].difference.as_dict() == pytest.approx(effect.difference.as_dict(), abs=1e-9)


@given(sizes=st.lists(st.integers(2, 3), min_size=1, max_size=3), score=BIT, tasks=st.integers(1, 5))
def test_where_nothing_varies_nothing_is_found(sizes, score, tasks):
    made = found(sizes, {cell: [[score]] * tasks for cell in full_factorial(sizes)})
    for effect in made.effects:
        assert effect.difference.value == 0
        assert effect.p == effect.p_holm == 1
        assert effect.verdict.word in ("undecided", "equivalent")
        assert effect.odds_ratio is None
    said = "one task shows no spread" if tasks == 1 else f"every trial was {'solved' if score else 'failed'}"
    assert len(made.notes) == 1
    assert said in made.notes[0] or tasks == 1


@settings(max_examples=cases(12))
@given(experiment=experiments())
def test_trials_written_twice_change_no_estimate(experiment):
    sizes, scores = experiment
    doubled = {cell: [[*repeats, *repeats] for repeats in tasks] for cell, tasks in scores.items()}
    for one, other in zip(found(sizes, scores).effects, found(sizes, doubled).effects, strict=True):
        assert one.difference.as_dict() == pytest.approx(other.difference.as_dict(), abs=1e-9)
        assert one.p == other.p


@given(scores=st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=30))
@settings(deadline=None)
def test_one_factor_of_two_values_has_the_interval_of_the_two_arms(scores):
    before, after = zip(*scores, strict=True)
    made = found((2,), {(0,): [[score] for score in before], (1,): [[score] for score in after]})
    pair = PairedFlip(np.subtract(after, before))
    (effect,) = made.effects
    assert effect.difference.as_dict() == pytest.approx(pair.interval().as_dict())
    assert effect.p == pytest.approx(pair.p_difference)
    assert effect.level == 0.05


# What counts.


def test_a_task_without_a_score_in_some_cell_counts_nowhere():
    groups = records({(0,): [[0.0], [0.0], [1.0]], (1,): [[1.0], [1.0], [1.0]]})
    groups[1,][2] = record(2, status="errored")
    made = effects({"clean": groups}, layout(factors((2,)), [(0,), (1,)]), metrics=(PRIMARY,))
    assert made.effects[0].difference.n == 2
    assert made.effects[0].difference.value == 1.0
    assert "clean: 1 of 3 tasks was not scored in every cell and counts in no effect." in made.notes


def test_without_a_common_task_there_is_no_effect():
    groups: dict[Cell, list[Record]] = {(0,): [record(0)], (1,): [record(1)]}
    made = effects({"clean": groups}, layout(factors((2,)), [(0,), (1,)]), metrics=(PRIMARY,))
    assert made.effects == ()
    assert made.notes == ("clean: 2 of 2 tasks were not scored in every cell and count in no effect.",)


def test_all_effects_on_a_metric_under_all_profiles_are_one_family():
    scores: Scores = {(0,): [[0.0]] * 8, (1,): [[1.0]] * 6 + [[0.0]] * 2}
    design = layout(factors((2,)), [(0,), (1,)])
    both = effects({"one": records(scores), "two": records(scores)}, design, metrics=(PRIMARY, "steps"))
    first, second = (effect for effect in both.effects if effect.metric == PRIMARY)
    assert (first.profile, second.profile) == ("one", "two")
    assert first.p == sign_flip([1.0] * 6).two_sided
    assert first.p_holm == second.p_holm == pytest.approx(2 * first.p)


def test_a_price_that_is_not_known_has_no_effect():
    design = layout(factors((2,)), [(0,), (1,)])
    groups: dict[Cell, list[Record]] = {(0,): [record(0, cost_usd=None)], (1,): [record(0, cost_usd=1.0)]}
    assert not effects({"clean": groups}, design, metrics=("cost_usd",)).effects


def test_fewer_steps_are_better():
    design = layout(factors((2,)), [(0,), (1,)])
    groups: dict[Cell, list[Record]] = {
        (level,): [record(task, steps=9 - 3 * level + task % 2) for task in range(12)] for level in (0, 1)
    }
    (effect,) = effects({"clean": groups}, design, metrics=("steps",)).effects
    assert effect.difference.value == -3
    assert effect.verdict.word == "better"
    assert effect.odds_ratio is None


# Odds ratios, where there are any.


def spread(counts: Mapping[Cell, int], tasks: int) -> Scores:
    """So many of the tasks solved in each cell."""
    return {cell: [[1.0]] * count + [[0.0]] * (tasks - count) for cell, count in counts.items()}


def test_odds_ratios_of_a_two_by_two_table_by_hand():
    """25 of 40 against 10 of 40: (25 · 30) / (15 · 10)."""
    (effect,) = found([2], spread({(0,): 10, (1,): 25}, 40)).effects
    assert effect.odds_ratio is not None
    assert effect.odds_ratio.value == pytest.approx(5.0, rel=1e-6)


def test_an_interaction_is_a_ratio_of_odds_ratios():
    terms = by_term(found([2, 2], spread({(0, 0): 10, (1, 0): 20, (0, 1): 20, (1, 1): 35}, 40)))
    ratios = {term: effect.odds_ratio.value for term, effect in terms.items() if effect.odds_ratio is not None}
    assert ratios["a: 0 → 1 × b: 0 → 1"] == pytest.approx((7 / 1) / (1 / (1 / 3)), rel=1e-6)
    assert ratios["a: 0 → 1"] == pytest.approx(math.sqrt(3 * 7), rel=1e-6)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({(0, 0): 10, (1, 0): 40, (0, 1): 20, (1, 1): 40}, "every trial with a = 1 was solved"),
        ({(0, 0): 0, (1, 0): 40, (0, 1): 0, (1, 1): 20}, "every trial with a = 0 was failed"),
        ({(0, 0): 40, (1, 0): 40, (0, 1): 40, (1, 1): 40}, "every trial was solved"),
        ({(0, 0): 0, (1, 0): 40, (0, 1): 40, (1, 1): 0}, ""),
    ],
)
def test_separated_outcomes_are_said_and_have_no_odds_ratio(counts, said):
    made = found([2, 2], spread(counts, 40))
    if said:
        assert {effect.odds_ratio for effect in made.effects} == {None}
        assert made.notes == (f"clean: no odds ratios: {said}.",)
    else:  # finite without interactions
        assert "those of a model without interactions" in made.notes[0]


def test_what_is_infinite_with_interactions_only_is_given_without():
    made = found([2, 2], spread({(0, 0): 10, (1, 0): 40, (0, 1): 20, (1, 1): 30}, 40))
    assert [effect.odds_ratio is None for effect in made.effects] == [False, False, True]
    assert made.notes == (
        "clean: odds ratios are those of a model without interactions, since with them some are infinite: "
        "in 1 of 4 cells all trials ended alike.",
    )


def test_graded_scores_have_no_odds_ratio():
    made = found([2], {(0,): [[0.5], [0.2]], (1,): [[0.75], [1.0]]})
    assert made.effects[0].odds_ratio is None
    assert made.notes == ("clean: no odds ratios: scores are graded.",)


# Coverage; docs/ablate.md holds the whole table.


@settings(max_examples=cases(10))
@given(shift=st.floats(-0.9, 0.9), tasks=st.integers(30, 60), seed=st.integers(0, 1000))
def test_a_large_effect_is_seen(shift, tasks, seed):
    generator = np.random.default_rng(seed)
    base = generator.random((tasks, 2)) < 0.5 - shift / 2
    other = generator.random((tasks, 2)) < 0.5 + shift / 2
    scores: Scores = {(0,): base.astype(float).tolist(), (1,): other.astype(float).tolist()}
    (effect,) = found([2], scores).effects
    if abs(effect.difference.value) > 0.5:
        assert effect.verdict.word == ("better" if effect.difference.value > 0 else "worse")
