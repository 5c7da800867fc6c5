"""Power: published vectors, the laws of planning, what pilots are taken for, and what more tasks are likely to decide."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from whichloop.metrics.outlook import CHANCES, MAX_TIMES, gate_outlook, pair_outlook
from whichloop.metrics.paired import PairedFlip
from whichloop.metrics.pairs import paired_test, pairs_of_family
from whichloop.metrics.power import (
    UNSEEN,
    Levels,
    Spread,
    difference_power,
    equivalence_power,
    fewest_units,
    pass_power,
    regression_power,
    same_loop,
    spread,
)
from whichloop.metrics.statistics import standard_error
from whichloop.metrics.summary import TaskValues

LEVEL = st.floats(0.001, 0.2)
POWER = st.floats(0.55, 0.99)
VARIANCE = st.floats(0.0, 1.0)
DIFFERENCE = st.floats(-0.9, 0.9)
MARGIN = st.floats(0.005, 0.3)
UNITS = st.integers(2, 5_000)
BOOL = st.booleans()


def values(scores: Sequence[Sequence[float]], clusters: Sequence[str] | None = None) -> TaskValues:
    names = clusters or [""] * len(scores)
    return TaskValues({f"t{i}": task for i, task in enumerate(scores)}, {f"t{i}": name for i, name in enumerate(names)})


# Power of our own decisions.


@given(units=st.integers(2, 12), difference=DIFFERENCE, alpha=LEVEL)
def test_units_whose_signs_may_all_agree_by_chance_show_no_difference(units, difference, alpha):
    assert PairedFlip([1.0] * units).p_difference < alpha or difference_power(units, difference, 0.01, alpha) == 0


@given(units=UNITS, difference=DIFFERENCE, variance=VARIANCE, margin=MARGIN, alpha=LEVEL, scores=BOOL)
def test_swapping_the_arms_changes_no_power_of_a_verdict(units, difference, variance, margin, alpha, scores):
    assert difference_power(units, -difference, variance, alpha) == difference_power(units, difference, variance, alpha)
    there = equivalence_power(units, difference, variance, margin, alpha, scores=scores)
    assert equivalence_power(units, -difference, variance, margin, alpha, scores=scores) == pytest.approx(there, abs=1e-9)


@given(units=UNITS, more=UNITS, size=st.floats(0.02, 0.9), variance=VARIANCE, alpha=LEVEL, step=st.sampled_from([0.0, 0.2, 1.0]))
def test_a_difference_shows_the_better_the_more_units_there_are_and_the_larger_it_is(units, more, size, variance, alpha, step):
    """Up to half: a power under it may fall, where hardly anything can be shown at all."""
    power = difference_power(units, size, variance, alpha, step=step)
    assume(power >= 0.5)
    assert difference_power(units + more, size, variance, alpha, step=step) >= power - 1e-9
    assert difference_power(units, min(size * 1.5, 1.0), variance, alpha, step=step) >= power - 1e-9
    assert difference_power(units, size, variance, min(alpha * 2, 0.4), step=step) >= power - 1e-9


@given(units=UNITS, more=UNITS, difference=st.floats(-0.3, 0.3), variance=VARIANCE, alpha=LEVEL, margin=MARGIN, scores=BOOL)
def test_passing_and_being_equivalent_grow_with_units_margin_and_level(units, more, difference, variance, alpha, margin, scores):
    for decide in (equivalence_power, pass_power):
        power = decide(units, difference, variance, margin, alpha, scores=scores)
        assert decide(units, difference, variance, margin * 1.5, alpha, scores=scores) >= power - 1e-9
        assert decide(units, difference, variance, margin, min(alpha * 2, 0.4), scores=scores) >= power - 1e-9
        if power >= 0.5:
            assert decide(units + more, difference, variance, margin, alpha, scores=scores) >= power - 1e-9


@given(units=UNITS, more=UNITS, drop=st.floats(0.01, 0.8), variance=VARIANCE, alpha=LEVEL, share=st.floats(0.05, 0.9), scores=BOOL)
def test_a_drop_beyond_the_margin_is_called_a_regression_the_surer_the_more_units(
    units, more, drop, variance, alpha, share, scores
):
    margin = share * drop
    power = regression_power(units, -drop, variance, margin, Levels(alpha, alpha), scores=scores)
    assert power <= 1 - pass_power(units, -drop, variance, margin, alpha, scores=scores) + 1e-9
    assume(power >= 0.5)
    assert regression_power(units + more, -drop, variance, margin, Levels(alpha, alpha), scores=scores) >= power - 1e-3


@given(units=UNITS, variance=st.floats(0.001, 1), alpha=LEVEL, margin=MARGIN)
def test_a_drop_of_the_margin_passes_no_more_often_than_alpha(units, variance, alpha, margin):
    """The pseudo-units make scores' intervals wider, and pull their middle to 0."""
    assert pass_power(units, -margin, variance, margin, alpha, scores=False) <= alpha + 0.01
    assert pass_power(units + 2_000, -margin, variance, margin, alpha) <= alpha + 0.05


@given(only_a=st.integers(0, 40), only_b=st.integers(0, 40), ties=st.integers(20, 400), margin=MARGIN, alpha=LEVEL)
def test_where_the_middle_falls_on_its_bound_the_power_is_about_a_half(only_a, only_b, ties, margin, alpha):
    """The formula's interval is the real one: of data whose variance is the planned one, the decision is the likelier one."""
    d = np.array([1.0] * only_a + [-1.0] * only_b + [0.0] * ties)
    planned = (len(d), float(d.mean()), float(d.var()), margin, alpha)
    pair = PairedFlip(d)
    low, high = pair.bounds(alpha)
    if abs(low + margin) > 1e-6:
        assert (pass_power(*planned) > 0.5) == (low > -margin)
    assert (equivalence_power(*planned) > 0.5) <= (pair.p_equivalence(margin) < alpha)
    if high < 0 and low <= -margin and pair.p(0.0, "less") < alpha / 2:
        assert regression_power(*planned[:4], Levels(alpha, alpha)) > 0.3


@given(power=POWER, variance=st.floats(0.001, 1), margin=st.floats(0.02, 0.3), alpha=LEVEL, scores=BOOL)
def test_the_fewest_units_are_enough_and_one_less_is_not(power, variance, margin, alpha, scores):
    def power_of(units: int) -> float:
        return pass_power(units, 0.0, variance, margin, alpha, scores=scores)

    units = fewest_units(power_of, power)
    assert units is not None
    assert power_of(units) >= power
    assert units == 2 or power_of(units - 1) < power


# From runs.

SCORES = st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=3, max_size=3), min_size=2, max_size=30)


@given(data=st.data(), scores=SCORES)
def test_a_spread_puts_the_variance_together_again(data, scores):
    """At the repeats that there were, between and within make up the variance of the differences, unless chance alone is more."""
    other = [data.draw(st.permutations(task)) if data.draw(BOOL) else [0.0, 1.0, 1.0] for task in scores]
    found = spread(values(scores), values(other))
    assert found is not None
    d = np.subtract(np.mean(scores, axis=1), np.mean(other, axis=1))
    total = len(d) * standard_error(d) ** 2
    assert found.difference == pytest.approx(float(d.mean()))
    chance = (np.var(scores, axis=1, ddof=1).mean() + np.var(other, axis=1, ddof=1).mean()) / 3
    may_come = min(3 / len(d), 1.0) if found.unusual <= UNSEEN else 0.0
    assert found.variance(3) == pytest.approx(max(total, chance, may_come))
    assert found.variance(1) >= found.variance(3) >= found.variance(100)
    back = spread(values(other), values(scores))
    assert back is not None
    assert [back.difference, back.between] == pytest.approx([-found.difference, found.between])


def test_one_trial_per_task_tells_nothing_of_what_repeats_would_bring():
    found = spread(values([[1.0]] * 10 + [[0.0]] * 10), values([[1.0]] * 15 + [[0.0]] * 5))
    assert found is not None
    assert not found.within_known
    assert found.variance(1) == found.variance(10)


def test_tasks_of_a_template_are_one_unit():
    """Copies change nothing but the count: the same units, as many times the tasks."""
    a, b = [[1.0], [1.0], [0.0], [1.0], [1.0], [0.0]], [[1.0], [0.0], [0.0], [1.0], [0.0], [1.0]]
    one, copies = spread(values(a), values(b)), spread(values(a * 3, list("abcdef") * 3), values(b * 3, list("abcdef") * 3))
    assert one is not None
    assert copies is not None
    assert (copies.tasks, copies.units) == (18, 6)
    assert copies.between == pytest.approx(one.between)
    assert copies.icc == pytest.approx(1.0)
    assert copies.design_effect == pytest.approx(3.0)


@given(scores=st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=3), min_size=4, max_size=20), data=st.data())
def test_the_unit_variance_is_that_of_the_clustered_error(scores, data):
    names = data.draw(st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=len(scores), max_size=len(scores)))
    found = spread(values(scores, names), values([[0.0]] * len(scores), names))
    assert found is not None
    assume(1 < found.units < len(scores))
    d = [float(np.mean(task)) for task in scores]
    assert found.between == pytest.approx(found.units * standard_error(d, names) ** 2)


@given(scores=SCORES, data=st.data())
def test_either_arm_may_be_the_one_that_names_the_clusters(scores, data):
    """A baseline names none, and stands first where less is better."""
    names = data.draw(st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=len(scores), max_size=len(scores)))
    named, other = values(scores, names), values([task[::-1] for task in scores[::-1]], names)
    nameless = TaskValues(other.values, {})
    assert spread(named, nameless) == spread(named, other)
    assert spread(nameless, named) == spread(other, named)


@given(
    scores=st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=2), min_size=12, max_size=30),
    other=st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=2), min_size=30, max_size=30),
    clusters=st.integers(4, 6),
)
@example(scores=[[1.0, 1.0]] * 12, other=[[0.0, 0.0]] * 30, clusters=4)  # the usual difference is not 0
def test_only_where_a_few_units_were_unusual_more_is_planned_with_than_was_seen(scores, other, clusters):
    names = [f"c{place % clusters}" for place in range(len(scores))]
    found = spread(values(scores, names), values(other[: len(scores)], names))
    assert found is not None
    d = np.mean(scores, axis=1) - np.mean(other[: len(scores)], axis=1)
    unusual = {name for name, difference in zip(names, d, strict=True) if difference != np.median(d)}
    assert found.unusual == len(unusual)
    assert found.floor == (3 / clusters if len(unusual) <= UNSEEN else 0.0)


@pytest.mark.parametrize("scores", [[], [[1.0]]])
def test_fewer_than_two_units_say_nothing(scores):
    assert spread(values(scores), values(scores)) is None
    assert same_loop(values(scores)) is None


def test_one_loop_by_hand():
    """p = 1/2 in each of ten tasks, as two repeats show it: within 1/2, of both runs."""
    found = same_loop(values([[0.0, 1.0]] * 10))
    assert found is not None
    assert (found.within_a, found.between, found.within_known) == (0.5, 0.0, True)
    once = same_loop(values([[1.0]] * 8 + [[0.0]] * 2))
    assert once is not None
    assert once.within_a == pytest.approx(0.16)
    assert not once.within_known


FOUND = st.builds(
    lambda difference, between, within, repeats, scores: Spread(
        tasks=60,
        units=60,
        repeats=repeats,
        difference=difference,
        between=between,
        within_a=within,
        within_b=within,
        within_known=True,
        floor=0.03,
        scores=scores,
        df=20.0,
    ),
    st.floats(-0.3, 0.3),
    st.floats(0, 0.4),
    st.floats(0, 0.25),
    st.integers(1, 3),
    st.booleans(),
)
OUTLOOK_MARGIN = st.sampled_from([0.02, 0.1])


@given(found=FOUND, margin=OUTLOOK_MARGIN)
def test_a_range_of_sizes_beyond_what_there_was_each_with_its_chance(found, margin):
    made = pair_outlook(found, margin=margin, cost_usd=0.5)
    if made is None:
        return
    assert found.tasks < made.fewer.tasks <= made.more.tasks <= MAX_TIMES * found.tasks
    assert CHANCES[0] <= made.fewer.chance <= 1
    assert made.fewer.chance <= made.more.chance + 0.05
    for size in (made.fewer, made.more):
        assert size.trials == 2 * size.tasks * found.repeats
        assert size.cost_usd == pytest.approx(0.5 * size.trials)
    assert json.loads(json.dumps(made.to_json())) == made.to_json()


@given(found=FOUND, margin=OUTLOOK_MARGIN)
def test_both_orders_of_a_pair_have_one_outlook(found, margin):
    made, turned = pair_outlook(found, margin=margin), pair_outlook(replace(found, difference=-found.difference), margin=margin)
    assert (made is None) == (turned is None)
    if made is not None and turned is not None:
        assert (made.fewer.tasks, made.more.tasks) == (turned.fewer.tasks, turned.more.tasks)


@given(found=FOUND, margin=OUTLOOK_MARGIN)
def test_a_lower_level_takes_no_fewer_tasks(found, margin):
    easy, hard = pair_outlook(found, margin=margin, alpha=0.1), pair_outlook(found, margin=margin, alpha=0.01)
    assert hard is None or (easy is not None and easy.fewer.tasks <= hard.fewer.tasks)


def test_an_observed_difference_promises_nothing():
    """As large as a test at 0.05 nearly shows: a little more decides it in half of the runs, and far more in four of five."""
    made = pair_outlook(Spread(100, 100, 1, 0.1, 0.3, 0.0, 0.0, False, 0.03, True, df=99.0), margin=0.02)
    assert made is not None
    assert made.fewer.tasks < 200
    assert made.more.tasks > 3 * made.fewer.tasks


def test_a_gate_counts_the_trials_of_the_run_alone():
    found = Spread(100, 100, 2, -0.01, 0.02, 0.05, 0.05, True, 0.03, True, df=99.0)
    made = gate_outlook(found, margin=0.02, levels=Levels(0.05, 0.05))
    assert made is not None
    assert made.fewer.trials == 2 * made.fewer.tasks


def test_fresh_runs_are_decided_as_often_as_the_outlook_says():
    """True differences as a wide law draws them, pilots of 120 tasks: for the undecided ones a fresh run of that size."""
    rng = np.random.default_rng(18)
    said, decided = [], []
    for _ in range(70):
        shift = rng.uniform(-0.15, 0.15)

        def runs(tasks: int, shift: float = shift) -> tuple[TaskValues, TaskValues]:
            chances = rng.beta(2, 1, tasks)
            names = [str(place) for place in range(tasks)]
            a, b = ((rng.random(tasks) < np.clip(p, 0, 1)).astype(float) for p in (chances + shift, chances))
            listed = ({name: [float(x)] for name, x in zip(names, one, strict=True)} for one in (a, b))
            first, second = (TaskValues(found, dict.fromkeys(names, "")) for found in listed)
            return first, second

        def word(a: TaskValues, b: TaskValues) -> str:
            return pairs_of_family("accuracy", [(("a", "b"), paired_test("accuracy", a, b, 0.05))], 0.05)[0].verdict.word

        pilot = runs(120)
        found = spread(*pilot)
        made = None if found is None or word(*pilot) != "undecided" else pair_outlook(found, margin=0.05)
        if made is not None:
            said.append(made.fewer.chance)
            decided.append(word(*runs(made.fewer.tasks)) != "undecided")
    assert len(said) > 27
    assert np.mean(decided) == pytest.approx(np.mean(said), abs=0.17)
