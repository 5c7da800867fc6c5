"""Which loop to adopt: the laws of the rule over tables of pairs, what it reads from a comparison, and arms that are dead."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.compare.caveats import caveats
from whichloop.experiments.compare.verdict import EQUAL, MAX_TASKS, MEAN, SAVING, Decision, Gap, decide, verdict
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.caveats import DEAD
from whichloop.metrics.comparison import Comparison, compare
from whichloop.metrics.pairs import MARGIN

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


def test_of_equals_the_cheaper_is_adopted_and_a_cheaper_loop_that_is_beaten_is_named(compared):
    shares = {"dear": (0.9, 0.9), "cheap": (0.9, 0.9), "bad": (0.2, 0.2)}
    found = verdict(compared(shares, {"dear": 300, "cheap": 100, "bad": 10}, n=400))
    assert found.decision == Decision("Adopt", ("cheap",))
    assert found.cheaper == ("bad",)
    assert found.savings["cheap", "dear"] == pytest.approx(1 - 101 / 301, rel=1e-3)


def test_no_loop_is_adopted_by_a_price_that_is_shown_under_one_profile_alone(compared):
    found = verdict(compared({"a": (0.9, 0.9), "b": (0.9, 0.9)}, {"a/calm": 300}, n=400))
    assert (found.decision, found.savings) == (Decision("Tie", ("b", "a")), {})


def test_an_outcome_that_takes_the_mean_over_the_profiles_says_so(compared):
    near, far = compared({"a": (0.8, 0.8), "b": (0.76, 0.76)}), compared({"a": (0.9, 0.9), "b": (0.4, 0.4)})
    found = verdict(replace(near, pooled=far.pooled))
    assert (found.decision, found.is_by_mean) == (Decision("Adopt", ("a",)), True)
    assert not any(cell.place == "worse" for row in found.rows for cell in row.cells.values())
    assert not verdict(compared({"good": (0.9, 0.9), "bad": (0.4, 0.4)})).is_by_mean


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


TRIALS = 6


@given(
    crashes=st.dictionaries(st.sampled_from("abcdefg"), st.sampled_from([0, 1, TRIALS - 1, TRIALS]), min_size=1),
    calls=st.integers(0, 2),
)
def test_every_dead_arm_is_a_warning_and_none_has_a_place_in_the_verdict(with_crashes, crashes, calls):
    made = with_crashes(crashes, calls)
    broken = [f"{loop}/clean" for loop, count in crashes.items() if count == TRIALS]
    unasked = [f"{loop}/clean" for loop, count in crashes.items() if count < TRIALS and not calls]
    assert [arm.info.arm for arm in made.dead_arms] == [*broken, *unasked]
    warned = {each.arms[0] for each in caveats(made) if each.code in DEAD}
    assert warned == {*broken, *unasked}
    found = verdict(made)
    alive = [loop for loop in crashes if f"{loop}/clean" not in warned]
    assert (found.decision is not None) == (len(alive) > 1 and not made.invalid)
    assert found.decision is None or set(found.decision.loops) <= set(alive)
    assert all(cell.place == "" for row in found.rows if row.loop not in alive for cell in row.cells.values())


def test_a_loop_that_wins_everywhere_is_adopted_and_where_each_profile_has_its_own_best_it_depends(compared):
    found = verdict(compared({"good": (0.9, 0.9), "bad": (0.4, 0.4)}))
    assert (found.decision, found.columns) == (Decision("Adopt", ("good",)), ("calm", "rough"))
    assert [row.loop for row in found.rows] == ["good", "bad"]
    assert {name: cell.place for name, cell in found.row("bad").cells.items()} == {"calm": "worse", "rough": "worse"}
    assert found.best == {"calm": ("good",), "rough": ("good",), MEAN: ("good",)}
    apart = verdict(compared({"a": (0.9, 0.3), "b": (0.3, 0.9)}))
    assert (apart.decision, apart.best["calm"], apart.best["rough"]) == (Decision("Depends"), ("a",), ("b",))


def test_an_invalid_run_and_a_single_loop_have_no_verdict(compared):
    invalid = verdict(replace(compared({"good": (0.9, 0.9), "bad": (0.1, 0.1)}), invalid=True))
    assert verdict(compared({"good": (0.9, 0.9)})).decision is invalid.decision is None
    assert all(cell.place == "" for row in invalid.rows for cell in row.cells.values())


@pytest.fixture(scope="session")
def with_crashes(record) -> Callable[..., Comparison]:
    """Compares loops that crashed in so many of their trials, and were right in the others, with so many requests each."""

    def make(crashes: Mapping[str, int], calls: int = 2) -> Comparison:
        infos = [ArmInfo(f"{loop}/clean", loop, {}, "scripted", "clean", "s") for loop in crashes]
        records = []
        for info, task in product(infos, range(TRIALS)):
            crash = {"stop": "crashed", "reason": f"KeyError: '{info.loop}'"} if task < crashes[info.loop] else {}
            score = {"accuracy": float(not crash)}
            records.append(record(arm=info.arm, task=f"t{task}", scores=score, calls={"decide": calls}, **crash))
        return compare(records, infos)

    return make
