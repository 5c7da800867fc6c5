"""The gate's decision: its laws, and each outcome by an example."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.metrics.gate import (
    MORE,
    GateLine,
    Held,
    agreeing_tasks,
    check_level,
    check_margin,
    decide,
    judge_lines,
    overall,
)
from whichloop.metrics.summary import GAINS, METRICS, PRIMARY, SHARES, TaskValues

ORDER = ("identical", "pass", "unchanged", "better here", "worse here", "regression", "undecided")


def values(scores: Sequence[Sequence[float]], clusters: Mapping[int, str] | None = None) -> TaskValues:
    names = {f"t{place}": repeats for place, repeats in enumerate(scores)}
    return TaskValues(names, {name: (clusters or {}).get(place, "") for place, name in enumerate(names)})


def held(baseline: Sequence[Any], run: Sequence[Any], metric: str = PRIMARY, margin: float = 0.02, **more: Any) -> Held:
    """One value per task, or a list of them."""

    def listed(found: Sequence[Any]) -> TaskValues:
        return values([item if isinstance(item, list) else [item] for item in found])

    return Held(more.pop("arm", "a"), metric, listed(baseline), listed(run), margin, **more)


def line(baseline: Sequence[Any], run: Sequence[Any], *arguments: Any, alpha: float = 0.05, **more: Any) -> GateLine:
    return judge_lines([held(baseline, run, *arguments, **more)], alpha)[0]


SCORE = st.sampled_from([0.0, 0.25, 0.5, 1.0])
AMOUNT = st.sampled_from([0.0, 0.001, 1.0, 2.0, 3.0, 1e6])


@st.composite
def sides(draw: st.DrawFn) -> tuple[str, TaskValues, TaskValues]:
    metric = draw(st.sampled_from(list(METRICS)))
    one = SCORE if metric in SHARES else AMOUNT
    size = draw(st.integers(1, 12))
    clusters = dict(enumerate(draw(st.lists(st.sampled_from(["", "x", "y"]), min_size=size, max_size=size))))
    trials = st.lists(st.lists(one, min_size=1, max_size=3), min_size=size, max_size=size)
    return metric, values(draw(trials), clusters), values(draw(trials), clusters)


LEVEL = st.sampled_from([0.01, 0.05, 0.2])
MARGINS = st.sampled_from([0.0, 0.02, 0.1, 0.5])

# Laws.


@given(sides(), MARGINS, LEVEL)
def test_bounds_enclose_the_estimate_and_json_has_no_number_that_json_cannot_say(found, margin, alpha):
    metric, baseline, run = found
    (made,) = judge_lines([Held("a", metric, baseline, run, margin)], alpha)
    assert made.effect.low <= made.effect.value <= made.effect.high
    assert json.loads(json.dumps(made.to_json(), allow_nan=False)) == made.to_json()


@settings(max_examples=cases(15))
@given(sides(), MARGINS, LEVEL)
def test_swapping_the_sides_turns_the_effect_around(found, margin, alpha):
    metric, baseline, run = found
    (there,) = judge_lines([Held("a", metric, baseline, run, margin)], alpha)
    (back,) = judge_lines([Held("a", metric, run, TaskValues(baseline.values, run.clusters), margin)], alpha)
    turn = (lambda x: -x) if metric in SHARES else (lambda x: 1 / x if x else math.inf)
    for one, other in zip((back.effect.value, back.effect.low, back.effect.high), ["value", "high", "low"], strict=True):
        assert one == pytest.approx(turn(getattr(there.effect, other)), rel=1e-6, abs=1e-9)


@settings(max_examples=cases(12))
@given(sides(), MARGINS, LEVEL)
def test_a_run_and_its_swap_are_never_both_worse(found, margin, alpha):
    metric, baseline, run = found
    there = judge_lines([Held("a", metric, baseline, run, margin)], alpha)[0]
    back = judge_lines([Held("a", metric, run, TaskValues(baseline.values, run.clusters), margin)], alpha)[0]
    assert not (there.worse and back.worse)


@settings(max_examples=cases(12))
@given(sides(), LEVEL)
def test_the_order_of_outcomes_is_monotone_in_the_margin(found, alpha):
    """A wider margin never turns a pass into anything else, nor anything into a regression."""
    metric, baseline, run = found
    outcomes = [judge_lines([Held("a", metric, baseline, run, margin)], alpha)[0].outcome for margin in (0.0, 0.02, 0.1, 0.5, 0.9)]
    firm = [outcome for outcome in outcomes if outcome != "pass"]
    assert outcomes == firm + ["pass"] * (len(outcomes) - len(firm))
    assert len(set(firm)) <= 1


@given(sides(), MARGINS, LEVEL)
def test_identical_comes_first(found, margin, alpha):
    metric, baseline, run = found
    (made,) = judge_lines([Held("a", metric, baseline, run, margin, identical=True)], alpha)
    assert made.outcome == "pass"


@given(sides(), MARGINS, LEVEL)
def test_outcomes_follow_their_rules_in_their_order(found, margin, alpha):
    metric, baseline, run = found
    (made,) = judge_lines([Held("a", metric, baseline, run, margin)], alpha)
    no_change = 0 if metric in SHARES else 1
    passes = made.effect.low > -margin if metric in GAINS else made.effect.high < no_change + margin
    falls = made.effect.high < 0 if metric in GAINS else made.effect.low > no_change
    if made.outcome == "regression":
        assert falls
        assert not passes
    if abs(made.p_beyond - alpha) > 1e-6:  # else a rounding error decides
        assert (made.outcome == "pass") == passes
    assert (made.outlook is not None) <= (made.outcome == "undecided")


@settings(max_examples=cases(12))
@given(sides(), MARGINS, st.integers(1, 5))
def test_more_lines_make_no_line_easier_to_call_a_regression_and_no_pass_harder(found, margin, others):
    metric, baseline, run = found
    same = Held("b", metric, baseline, TaskValues(baseline.values, run.clusters), margin)
    alone = judge_lines([Held("a", metric, baseline, run, margin)])[0]
    among = judge_lines([Held("a", metric, baseline, run, margin), *[same] * others])[0]
    assert among.p_holm >= alone.p_holm
    assert (among.outcome == "pass") == (alone.outcome == "pass")


@given(st.lists(st.sampled_from(ORDER), min_size=1))
def test_the_gravest_line_is_the_outcome_of_the_whole(outcomes):
    made = line([1.0] * 3, [1.0] * 3)
    lines = [dataclasses.replace(made, outcome=outcome) for outcome in outcomes]
    gravity = ["identical", "pass", "unchanged", "better here", "undecided", "worse here", "regression"]
    assert overall(lines) == max(outcomes, key=gravity.index)


# Examples.


def test_each_outcome():
    assert line([1.0] * 200, [1.0] * 200).outcome == "pass"
    assert line([1.0] * 40, [1.0] * 30 + [0.0] * 10).outcome == "regression"
    assert line([1.0] * 40, [1.0] * 38 + [0.0] * 2).outcome == "undecided"
    few = line([1.0] * 20, [1.0] * 20)
    assert few.outcome == "undecided"  # 20 tasks say little of 2 points
    assert few.outlook is not None
    assert 20 < few.outlook.fewer.tasks <= few.outlook.more.tasks


def test_worse_within_the_margin_passes_and_says_so():
    made = line([1.0] * 400, [1.0] * 390 + [0.0] * 10, PRIMARY, 0.05)
    assert (made.outcome, made.worse) == ("pass", True)
    assert made.effect.high < 0


def test_a_regression_needs_the_sign_flip_test_too():
    """Seven of seven differing tasks in one direction are 1 in 128, three of three are 1 in 8, and the bound says the same."""
    made = line([10.0] * 100, [20.0] * 3 + [10.0] * 97, "steps", 0.0)
    assert made.effect.low == 1
    assert made.p_worse >= 1 / 8
    assert made.outcome == "undecided"
    assert line([10.0] * 100, [20.0] * 7 + [10.0] * 93, "steps", 0.0).outcome == "regression"


def test_what_a_few_trials_cost_is_paid_too():
    """One task in forty takes thirty times as much: three quarters more in all, and nothing to a typical task."""
    made = line([10.0, 11.0] * 120, ([10.0, 11.0] * 20)[:39] * 6 + [300.0] * 6, "tokens", 0.1)
    assert made.effect.value == pytest.approx(1.69, abs=0.01)
    assert made.typical == pytest.approx(1.08, abs=0.01)
    assert made.outcome == "regression"
    assert line([10.0] * 40, [10.0] * 40, "tokens", 0.1).typical == 1.0
    assert line([1.0] * 40, [1.0] * 40).typical is None


def test_ratios_are_of_the_run_to_the_baseline_and_their_margin_is_a_share():
    made = line([4.0] * 20, [5.0, 5.1] * 10, "steps", 0.10)
    assert made.effect.value == pytest.approx(1.2625, abs=0.001)
    assert made.outcome == "regression"
    assert line([4.0] * 20, [5.0, 5.1] * 10, "steps", 0.30).outcome == "pass"
    assert line([4.0] * 20, [3.0, 3.1] * 10, "steps", 0.0).outcome == "pass"


@pytest.mark.parametrize("metric", [name for name in METRICS if name not in SHARES])
def test_amounts_of_zero_are_no_crash(metric):
    assert line([0.0] * 20, [0.0] * 20, metric, MORE).outcome == "pass"
    assert line([0.0] * 20, [0.0] * 20, metric, MORE).effect.value == 1.0
    more = line([0.0] * 20, [0.0] * 10 + [2.0] * 10, metric, MORE)
    assert more.effect.value == 20.0  # a sum of 0 counts as half the smallest amount of a task
    assert more.typical == pytest.approx(math.sqrt(2))  # and so does a task's 0
    assert more.outcome == "regression"


def test_repeats_count_as_one_task_and_templates_as_one_unit():
    repeated = line([[1.0, 1.0, 0.0]] * 30, [[1.0, 0.0, 0.0]] * 30)
    assert repeated.tasks == 30
    assert repeated.effect.value == pytest.approx(-1 / 3)
    clustered = Held(
        "a", PRIMARY, values([[1.0]] * 30), values([[0.0]] * 30, {place: f"c{place % 5}" for place in range(30)}), 0.02
    )
    (made,) = judge_lines([clustered])
    assert (made.tasks, made.units) == (30, 5)


@settings(max_examples=cases(12))
@given(st.lists(st.lists(AMOUNT, min_size=2, max_size=4), min_size=1, max_size=9), st.data())
def test_more_repeats_of_one_side_do_not_weigh_on_the_ratio_of_typical_trials(run, data):
    """The logarithm of a mean of two is more than the mean of their logarithms: an unchanged loop would seem to cost more."""
    baseline = [[data.draw(AMOUNT)] for _ in run]
    made, first = line(baseline, run, "tokens", MORE), line(baseline, [values[:1] for values in run], "tokens", MORE)
    assert made.typical == first.typical


def test_only_tasks_known_on_both_sides_count():
    old, new = values([[1.0]] * 10), values([[1.0]] * 12)
    assert judge_lines([Held("a", PRIMARY, old, new, 0.02)])[0].tasks == 10
    with pytest.raises(ValueError, match="a: no task whose steps is known on both sides"):
        judge_lines([Held("a", "steps", old, TaskValues({}, {}), 0.02)])


def test_what_an_undecided_line_needs_is_of_the_run_alone():
    made = line([[1.0, 1.0]] * 30, [[1.0, 1.0]] * 29 + [[0.0, 1.0]], cost_usd=0.5)
    assert made.outcome == "undecided"
    assert made.outlook is not None
    assert made.outlook.repeats == 2
    for size in (made.outlook.fewer, made.outlook.more):
        assert size.trials == 2 * size.tasks
        assert size.cost_usd == size.trials * 0.5


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, -1.0, math.nan])
def test_a_level_that_is_none_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha: a level above 0 and below"):
        check_level(alpha)


@pytest.mark.parametrize(
    ("metric", "margin"), [("speed", 0.1), (PRIMARY, 1.0), (PRIMARY, -0.1), ("steps", -0.1), ("steps", math.inf)]
)
def test_a_margin_that_is_none_is_refused_and_named(metric, margin):
    with pytest.raises(ValueError, match=rf"metric '?{metric}"):
        check_margin(metric, margin)
    with pytest.raises(ValueError, match=rf"metric '?{metric}"):
        line([1.0], [1.0], metric, margin)


# What passes, and what it says.


@given(st.floats(0.01, 0.5), st.sampled_from([0.01, 0.05, 0.2]))
def test_so_many_tasks_pass_where_all_agree_and_one_fewer_do_not(margin, alpha):
    enough = agreeing_tasks(margin, alpha)
    assert line([1.0] * enough, [1.0] * enough, margin=margin, alpha=alpha).outcome == "pass"
    if enough > 1:
        assert line([1.0] * (enough - 1), [1.0] * (enough - 1), margin=margin, alpha=alpha).outcome == "undecided"


def test_the_tasks_that_two_points_take():
    assert agreeing_tasks(0.02) == math.ceil(math.log(0.05) / math.log(0.98)) == 149


@pytest.mark.parametrize(("margin", "alpha"), [(0.0, 0.05), (1.0, 0.05), (math.nan, 0.05), (0.02, 0.5)])
def test_no_number_of_tasks_is_enough_for_a_margin_out_of_range(margin, alpha):
    with pytest.raises(ValueError, match="is needed"):
        agreeing_tasks(margin, alpha)


def test_an_unchanged_line_stands_between_what_is_shown_and_what_is_open():
    """A pass claims more, of tasks that were not run, and so it comes first."""
    few, many = [1.0, 0.0] * 12, [1.0] * 149
    assert line(few, few).outcome == "undecided"
    assert line(few, few, unchanged=True).outcome == "unchanged"
    assert line(many, many, unchanged=True).outcome == "pass"
    assert line(few, few, unchanged=True, identical=True).outcome == "pass"
    lines = judge_lines([held(few, few, unchanged=True), held(many, many, arm="b")])
    assert overall(lines) == "unchanged"
    assert overall([*lines, line(few, few)]) == "undecided"


def test_a_score_that_some_tasks_gained_and_none_lost_is_better_here():
    """It says nothing of other tasks, and excuses no bill beyond its margin."""
    was, now = [0.0] + [1.0] * 11, [1.0] * 12
    assert line(was, now).outcome == "undecided"
    gained = line(was, now, gained=True)
    assert gained.outcome == "better here"
    assert gained.effect.low < 0 < gained.effect.value
    dearer, dear = [100.0] * 11 + [190.0], [100.0] * 11 + [600.0]
    amounts = [line([100.0] * 12, paid, "tokens", 0.1, gained=True) for paid in (dearer, dear)]
    assert [made.outcome for made in amounts] == ["within here", "undecided"]
    assert overall([gained, amounts[0]]) == overall(amounts[:1]) == "better here"
    assert overall([gained, amounts[1]]) == "undecided"
    assert line([1.0] * 40, [1.0] * 30 + [0.0] * 10, gained=True).outcome == "regression"
    assert line([0.0] * 200, [1.0] * 200, gained=True).outcome == "pass"


@settings(max_examples=cases(15))
@given(sides(), MARGINS, LEVEL)
def test_what_is_gained_lifts_undecided_lines_alone_and_none_beyond_its_margin(found, margin, alpha):
    metric, baseline, run = found
    plain, gained = (judge_lines([Held("a", metric, baseline, run, margin, gained=it)], alpha)[0] for it in (False, True))
    if plain.outcome != "undecided":
        assert gained == plain
    elif metric != PRIMARY:
        assert (gained.outcome == "within here") == plain.is_within


@settings(max_examples=cases(15))
@given(sides(), MARGINS, LEVEL)
def test_what_is_shown_to_be_better_is_not_shown_to_be_worse_and_passes(found, margin, alpha):
    metric, baseline, run = found
    (made,) = judge_lines([Held("a", metric, baseline, run, margin)], alpha)
    assert not (made.better and made.worse)
    assert not made.better or made.outcome == "pass"


def test_better_is_shown_over_all_lines_together():
    rising = held([0.0] * 6 + [1.0] * 6, [1.0] * 12)
    assert judge_lines([rising])[0].better
    assert not any(made.better for made in judge_lines([rising] * 40))
    assert judge_lines([held([3.0] * 12, [1.0] * 12, "tokens")])[0].better


# What an undecided gate asks for.


def grown(tasks: int, lost: float, gained: float, margin: float) -> GateLine:
    """A gate of so many tasks, of which these shares are lost and gained; a larger run repeats its trials."""
    losses, gains = round(lost * tasks), round(gained * tasks)
    baseline = [*([1.0] * losses), *([0.0] * gains), *([1.0] * (tasks - losses - gains))]
    run = [*([0.0] * losses), *([1.0] * (tasks - losses))]
    return line(baseline, run, PRIMARY, margin, grows=True)


@given(st.integers(12, 300), st.integers(0, 12), st.integers(0, 6), st.sampled_from([0.02, 0.05, 0.1]))
def test_advice_that_was_taken_is_not_followed_by_one_task_more(tasks, lost, gained, margin):
    """The same effect decides at the size that was told as likely, or else the next is larger by a quarter, and soon the last."""
    shares = (min(lost, tasks // 3) / tasks, min(gained, tasks // 3) / tasks)
    asked = [tasks]
    while (made := grown(asked[-1], *shares, margin)).outcome == "undecided" and made.outlook is not None:
        assert made.outlook.fewer.tasks >= 1.25 * asked[-1]
        assert 0.5 <= made.outlook.fewer.chance <= made.outlook.more.chance + 0.05
        if made.outlook.more.chance < 0.8:
            return  # no size that is told is likely to decide, and none is said to be
        asked.append(made.outlook.more.tasks)
        assert len(asked) <= 3, "an approximation missed by a little, once"


def test_a_gate_just_short_of_a_decision_asks_for_more_than_one_task_where_trials_repeat():
    """A fresh run of one more task may decide; with the same trials again, it is the added ones that have to."""
    short = next(made for lost in range(1, 40) if (made := grown(300, lost / 300, 0.02, 0.02)).outcome != "pass")
    assert short.outcome == "undecided"
    assert short.outlook is not None
    assert short.outlook.fewer.tasks >= 375


@pytest.mark.parametrize(("runs", "apart"), [(100, 0.14), pytest.param(200, 0.1, marks=pytest.mark.slow)])
def test_a_run_that_grows_is_decided_as_often_as_its_outlook_says(runs, apart):
    """True changes as a wide law draws them, runs of 120 tasks; the same trials with others added, to the size that was told."""
    rng = np.random.default_rng(3)
    said, decided = [], []
    for shift in rng.uniform(-0.2, 0.15, runs):
        chances = rng.beta(8, 1, 3_000)
        before, after = (rng.random(3_000) < np.clip(chance, 0, 1) for chance in (chances, chances + shift))
        after = np.where(rng.random(3_000) < 0.7, before, after)  # most tasks go as they went

        def judged(tasks: int, before: Any = before, after: Any = after) -> Held:
            return held([*before[:tasks].astype(float)], [*after[:tasks].astype(float)], margin=0.03, grows=True)

        (made,) = judge_lines([judged(120)])
        if made.outlook is not None and made.outlook.more.tasks <= 3_000:
            said.append(made.outlook.more.chance)
            decided.append(decide([judged(made.outlook.more.tasks)])[0].outcome != "undecided")
    assert len(said) > 0.3 * runs
    assert np.mean(decided) == pytest.approx(np.mean(said), abs=apart)


def test_a_score_that_some_tasks_lost_and_none_gained_is_worse_here():
    """A test that shows it, and a bound within the margin, say more, and stand before it."""
    was, now = [1.0] * 12, [0.0] + [1.0] * 11
    assert line(was, now).outcome == "undecided"
    lost = line(was, now, lost=True)
    assert (lost.outcome, lost.lost, lost.outlook is None) == ("worse here", True, line(was, now).outlook is None)
    assert line([1.0] * 40, [0.0] * 10 + [1.0] * 30, lost=True).outcome == "regression"
    within = line([1.0] * 400, [0.0] + [1.0] * 399, margin=0.05, lost=True)
    assert (within.outcome, within.lost, within.to_json()["lost"]) == ("pass", True, True)
    bill = line([100.0] * 12, [100.0] * 11 + [600.0], "tokens", 0.1, lost=True)
    assert (bill.outcome, bill.lost) == ("undecided", False)
    assert overall([lost, bill]) == "worse here"
