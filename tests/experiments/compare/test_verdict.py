"""Which loop to adopt: the laws of the rule over tables of pairs, then what it reads from a comparison."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.compare.verdict import EQUAL, MAX_TASKS, MEAN, SAVING, Decision, Gap, decide, verdict
from whichloop.metrics.pairs import MARGIN
from whichloop.metrics.statistics import Interval

LOOPS = tuple("abcde")


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[Gap], dict[tuple[str, str], float], dict[str, float]]:
    """Pairs of two to five loops in one to three columns, with what the loops cost."""
    loops = list(LOOPS[: draw(st.integers(2, 5))])
    gaps = []
    for column in [f"column {n}" for n in range(draw(st.integers(1, 3)))]:
        for a, b in combinations(loops, 2):
            value = draw(st.sampled_from((-0.3, -0.1, -0.02, -0.01, 0.0, 0.01, 0.02, 0.1, 0.3)))
            half = draw(st.sampled_from((0.005, 0.03, 0.2, math.inf)))
            is_shown = abs(value) > half
            tasks = None if is_shown else draw(st.sampled_from((None, 100, 5_000, MAX_TASKS + 1)))
            gaps.append(Gap(a, b, column, value, value - half, value + half, is_shown, tasks))
    costs = {loop: draw(st.sampled_from((100.0, 97.0, 50.0))) for loop in loops}
    savings = {(a, b): 1 - costs[a] / costs[b] for a in loops for b in loops if costs[a] < costs[b] and draw(st.booleans())}
    return loops, gaps, savings, costs


@settings(max_examples=cases(200))
@given(tables())
def test_each_table_has_exactly_one_outcome_by_the_first_rule_that_holds(table):
    loops, gaps, savings, costs = table
    found = decide(loops, gaps, savings, costs)
    beaten = {g.b if g.value > 0 else g.a for g in gaps if g.is_shown and abs(g.value) > MARGIN}
    unbeaten = [loop for loop in loops if loop not in beaten]
    are_equal = all(g.low >= -EQUAL and g.high <= EQUAL for g in gaps if {g.a, g.b} <= set(unbeaten))
    cheapest = [a for a in unbeaten if all(savings.get((a, b), 0) >= SAVING for b in unbeaten if b != a)]
    if not unbeaten:
        assert (found.outcome, found.loops) == ("Depends", ())
    elif len(unbeaten) == 1:
        assert (found.outcome, found.loops) == ("Adopt", tuple(unbeaten))
    elif not are_equal:
        assert (found.outcome, found.loops) == ("Undecided", tuple(unbeaten))
    elif cheapest:
        assert (found.outcome, found.loops) == ("Adopt", tuple(cheapest))
    else:
        assert found.outcome == "Tie"
        assert sorted(found.loops) == sorted(unbeaten)
        assert [costs[loop] for loop in found.loops] == sorted(costs[loop] for loop in unbeaten)
    assert found.tasks is None or (found.outcome == "Undecided" and found.tasks <= MAX_TASKS)


@settings(max_examples=cases(100))
@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_loops_and_columns_and_the_turn_of_a_pair_do_not_matter(table, draw):
    loops, gaps, savings, costs = table
    turned = [Gap(g.b, g.a, g.column, -g.value, -g.high, -g.low, g.is_shown, g.tasks) if draw.random() < 0.5 else g for g in gaps]
    shuffled = list(loops)
    draw.shuffle(turned)
    draw.shuffle(shuffled)
    one, other = decide(loops, gaps, savings, costs), decide(shuffled, turned, savings, costs)
    assert (one.outcome, sorted(one.loops), one.tasks) == (other.outcome, sorted(other.loops), other.tasks)


@settings(max_examples=cases(100))
@given(tables())
def test_a_loop_that_all_others_beat_changes_nothing(table):
    loops, gaps, savings, costs = table
    lost = [Gap(loop, "worst", gap.column, 0.5, 0.4, 0.6, is_shown=True) for gap in gaps[:1] for loop in loops]
    cheap = {("worst", loop): 0.9 for loop in loops}
    assert decide([*loops, "worst"], [*gaps, *lost], savings | cheap, costs | {"worst": 1.0}) == decide(loops, gaps, savings, costs)


def test_no_loop_is_adopted_by_price_beside_an_accuracy_that_is_not_decided():
    gap = Gap("dear", "cheap", "calm", 0.01, -0.06, 0.08, tasks=900)
    savings = {("cheap", "dear"): 0.5}
    assert decide(["dear", "cheap"], [gap], savings).outcome == "Undecided"
    assert decide(["dear", "cheap"], [gap], savings).tasks == 900
    equal = replace(gap, low=-0.04, high=0.05)
    assert decide(["dear", "cheap"], [equal], savings).loops == ("cheap",)
    assert decide(["dear", "cheap"], [equal], {("cheap", "dear"): 0.049}).outcome == "Tie"


def test_the_number_of_tasks_is_the_least_that_decides_every_open_pair():
    gaps = [
        Gap("a", "b", "one", 0.01, -0.1, 0.1, tasks=400),
        Gap("a", "b", "two", 0.01, -0.1, 0.1, tasks=300),
        Gap("a", "c", "one", 0.01, -0.1, 0.1, tasks=700),
        Gap("b", "c", "one", 0.0, -0.01, 0.01),
    ]
    assert decide(["a", "b", "c"], gaps).tasks == 700
    assert decide(["a", "b", "c"], [*gaps[:2], replace(gaps[2], tasks=None), gaps[3]]).tasks is None


# --- from a comparison ---


def test_a_loop_that_wins_everywhere_is_adopted_and_the_cells_say_where(compared):
    found = verdict(compared({"good": (0.9, 0.9), "bad": (0.4, 0.4)}))
    assert found.decision == Decision("Adopt", ("good",))
    assert found.columns == ("calm", "rough")
    assert [row.loop for row in found.rows] == ["good", "bad"]
    assert {name: cell.place for name, cell in found.row("bad").cells.items()} == {"calm": "worse", "rough": "worse"}
    assert found.best == {"calm": ("good",), "rough": ("good",), MEAN: ("good",)}


def test_where_each_profile_has_its_own_best_it_depends(compared):
    found = verdict(compared({"a": (0.9, 0.3), "b": (0.3, 0.9)}))
    assert found.decision == Decision("Depends")
    assert (found.best["calm"], found.best["rough"]) == (("a",), ("b",))


def test_of_equals_the_cheaper_is_adopted_and_a_cheaper_loop_that_is_beaten_is_named(compared):
    shares = {"dear": (0.9, 0.9), "cheap": (0.9, 0.9), "bad": (0.2, 0.2)}
    found = verdict(compared(shares, {"dear": 300, "cheap": 100, "bad": 10}, n=400))
    assert found.decision == Decision("Adopt", ("cheap",))
    assert found.cheaper == ("bad",)
    assert found.savings["cheap", "dear"] == pytest.approx(1 - 101 / 301, rel=1e-3)


def test_a_saving_is_that_of_the_columns_that_both_loops_have(compared):
    both = compared({"dear": (0.9, 0.9), "cheap": (0.9,)}, {"dear": 200, "cheap": 100})
    assert verdict(both).savings["cheap", "dear"] == pytest.approx(1 - 101 / 201, rel=1e-3)
    dearer = [replace(arm, summary=replace(arm.summary, means={**arm.summary.means, "tokens": Interval(9e9, 9e9, 9e9, 100)}))
              if arm.info.arm == "dear/rough" else arm for arm in both.arms]  # fmt: skip
    assert verdict(replace(both, arms=tuple(dearer))).savings == verdict(both).savings


def test_two_arms_have_each_its_own_interval(compared):
    comparison = compared({"good": (0.9,), "bad": (0.4,)}, profiles=("calm",))
    found = verdict(comparison)
    good, bad = (each for loop in ("good", "bad") if (each := found.row(loop).cells["calm"].accuracy) is not None)
    assert good.low > bad.high
    assert (round(good.value, 6), round(bad.value, 6)) == (0.9, 0.4)
    assert [arm["accuracy"] for arm in comparison.to_json()["arms"]] == [good.as_dict(), bad.as_dict()]
    assert [row["cells"]["calm"]["accuracy"] for row in found.to_json()["rows"]] == [good.as_dict(), bad.as_dict()]


def test_an_outcome_that_takes_the_mean_over_the_profiles_says_so(compared):
    """No profile by itself shows the difference, and both together do."""
    near, far = compared({"a": (0.8, 0.8), "b": (0.76, 0.76)}), compared({"a": (0.9, 0.9), "b": (0.4, 0.4)})
    found = verdict(replace(near, pooled=far.pooled))
    assert (found.decision, found.is_by_mean) == (Decision("Adopt", ("a",)), True)
    assert not any(cell.place == "worse" for row in found.rows for cell in row.cells.values())
    assert not verdict(compared({"good": (0.9, 0.9), "bad": (0.4, 0.4)})).is_by_mean


def test_an_invalid_run_and_a_single_loop_have_no_verdict(compared):
    alone = verdict(compared({"good": (0.9, 0.9)}))
    invalid = verdict(replace(compared({"good": (0.9, 0.9), "bad": (0.1, 0.1)}), invalid=True))
    assert alone.decision is None
    assert invalid.decision is None
    assert all(cell.place == "" for row in invalid.rows for cell in row.cells.values())


@settings(max_examples=cases(12))
@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.floats(0, 1), min_size=2, max_size=2), min_size=1, max_size=5))
def test_the_matrix_has_every_arm_once_and_the_best_stand_first(compared, shares):
    comparison = compared(shares, n=20)
    found = verdict(comparison)
    shown = [cell.arm.info.arm for row in found.rows for cell in row.cells.values()]
    assert sorted(shown) == sorted(arm.info.arm for arm in comparison.arms)
    assert [row.accuracy for row in found.rows] == sorted((row.accuracy for row in found.rows), reverse=True)
    for name in found.columns:
        cells = [row.cells[name] for row in found.rows]
        means = [cell.accuracy.value for cell in cells if cell.accuracy is not None]
        for cell, mean in zip(cells, means, strict=True):
            assert (cell.place == "best") == (len(cells) > 1 and mean == max(means))
