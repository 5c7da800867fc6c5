"""The gate's decision: its laws, and each reason by an example."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.metrics.gate import MORE, WORST_FIRST, GateLine, Held, LineReason, Outcome, check_margin, judge_lines, worst
from whichloop.metrics.summary import GAINS, METRICS, PRIMARY, SHARES, TaskValues


def values(scores: Sequence[Sequence[float]], clusters: Mapping[int, str] | None = None) -> TaskValues:
    names = {f"t{place}": repeats for place, repeats in enumerate(scores)}
    return TaskValues(names, {name: (clusters or {}).get(place, "") for place, name in enumerate(names)})


def held(baseline: Sequence[Any], run: Sequence[Any], metric: str = PRIMARY, margin: float = 0.02, **more: Any) -> Held:
    """One value per task, or a list of them."""
    was, now = (values([item if isinstance(item, list) else [item] for item in found]) for found in (baseline, run))
    return Held(more.pop("arm", "a"), metric, was, now, margin, **more)


def line(baseline: Sequence[Any], run: Sequence[Any], *arguments: Any, **more: Any) -> GateLine:
    return judge_lines([held(baseline, run, *arguments, **more)])[0]


def of(made: GateLine) -> tuple[Outcome, LineReason]:
    return made.result, made.reason


SCORE = st.sampled_from([0.0, 0.25, 0.5, 1.0])
AMOUNT = st.sampled_from([0.0, 0.001, 1.0, 2.0, 3.0, 1e6])
LEVEL = st.sampled_from([0.01, 0.05, 0.2])
MARGINS = st.sampled_from([0.0, 0.02, 0.1, 0.5])


@st.composite
def sides(draw: st.DrawFn) -> Held:
    """Both sides of some tasks, of which some share clusters."""
    metric = draw(st.sampled_from(list(METRICS)))
    size = draw(st.integers(1, 12))
    clusters = dict(enumerate(draw(st.lists(st.sampled_from(["", "x", "y"]), min_size=size, max_size=size))))
    one = SCORE if metric in SHARES else AMOUNT
    trials = st.lists(st.lists(one, min_size=1, max_size=3), min_size=size, max_size=size)
    return Held("a", metric, values(draw(trials), clusters), values(draw(trials), clusters), draw(MARGINS))


def turned(found: Held) -> Held:
    return replace(found, baseline=found.run, run=TaskValues(found.baseline.values, found.run.clusters))


# --- laws ---


@given(sides(), LEVEL)
def test_a_line_keeps_its_rules(found, alpha):
    """Bounds enclose the estimate, JSON holds no number that JSON cannot say, and the first rule that holds is the reason."""
    (made,) = judge_lines([found], alpha)
    assert made.effect.low <= made.effect.value <= made.effect.high
    assert json.loads(json.dumps(made.to_json(), allow_nan=False)) == made.to_json()
    no_change = 0 if found.metric in SHARES else 1
    is_gain, margin = found.metric in GAINS, found.margin
    passes = made.effect.low > -margin if is_gain else made.effect.high < no_change + margin
    if made.result == "regression":
        assert not passes
        assert made.effect.high < 0 if is_gain else made.effect.low > no_change
    if abs(made.p_beyond - alpha) > 1e-6:  # else a rounding error decides
        assert (made.result == "pass") == passes
    assert made.tasks_to_decide is None or (made.result == "undecided" and made.tasks_to_decide > made.tasks)


@settings(max_examples=cases(15))
@given(sides(), LEVEL)
def test_swapping_the_sides_turns_the_effect_around_and_never_are_both_worse(found, alpha):
    (there,), (back,) = judge_lines([found], alpha), judge_lines([turned(found)], alpha)
    turn = (lambda x: -x) if found.metric in SHARES else (lambda x: 1 / x if x else math.inf)
    for one, other in zip((back.effect.value, back.effect.low, back.effect.high), ["value", "high", "low"], strict=True):
        assert one == pytest.approx(turn(getattr(there.effect, other)), rel=1e-6, abs=1e-9)
    assert "regression" not in (there.result, back.result) or there.result != back.result


@settings(max_examples=cases(12))
@given(sides(), LEVEL)
def test_a_wider_margin_turns_no_pass_into_anything_else_and_nothing_into_a_regression(found, alpha):
    results = [judge_lines([replace(found, margin=margin)], alpha)[0].result for margin in (0.0, 0.02, 0.1, 0.5, 0.9)]
    firm = [result for result in results if result != "pass"]
    assert results == firm + ["pass"] * (len(results) - len(firm))
    assert len(set(firm)) <= 1


@settings(max_examples=cases(12))
@given(sides(), st.integers(1, 5))
def test_more_lines_make_no_line_easier_to_call_a_regression_and_no_pass_harder(found, others):
    same = replace(found, arm="b", run=TaskValues(found.baseline.values, found.run.clusters))
    alone, among = judge_lines([found])[0], judge_lines([found, *[same] * others])[0]
    assert among.p_holm >= alone.p_holm
    assert (among.result == "pass") == (alone.result == "pass")


KNOWN = st.fixed_dictionaries({name: st.booleans() for name in ("unchanged", "gained", "lost")})


@given(sides(), LEVEL, KNOWN)
def test_what_is_known_of_the_trials_decides_what_no_test_did_and_lets_no_loss_beyond_its_margin_pass(found, alpha, known):
    (plain,), (made,) = judge_lines([found], alpha), judge_lines([replace(found, **known)], alpha)
    assert made == plain or plain.reason in ("worse", "undecided")
    if made.result == "pass" and made.reason != "unchanged" and not (made.reason == "tasks_gained" and found.metric == PRIMARY):
        assert made.is_within
    if made.reason == "tasks_lost":
        assert known["lost"]
        assert found.metric == PRIMARY
    assert of(judge_lines([replace(found, identical=True)], alpha)[0]) == ("pass", "identical")


@given(st.lists(st.sampled_from(get_args(Outcome))))
def test_the_gravest_line_is_the_outcome_of_the_whole(outcomes):
    assert worst(outcomes) == min(outcomes or ["undecided"], key=WORST_FIRST.index)


# --- examples ---


def test_each_reason():
    solved = [1.0] * 40
    assert of(line([1.0] * 200, [1.0] * 200)) == ("pass", "within_margin")
    assert of(line([1.0] * 400, [1.0] * 390 + [0.0] * 10, margin=0.05)) == ("pass", "within_margin")
    assert of(line(solved, [1.0] * 30 + [0.0] * 10)) == ("regression", "worse")
    assert of(line(solved, [1.0] * 38 + [0.0] * 2)) == ("undecided", "undecided")
    assert of(line(solved, [1.0] * 38 + [0.0] * 2, lost=True)) == ("regression", "tasks_lost")
    assert of(line(solved, [1.0] * 30 + [0.0] * 10, lost=True)) == ("regression", "worse")
    assert of(line([0.0] + [1.0] * 11, [1.0] * 12, gained=True)) == ("pass", "tasks_gained")
    assert of(line(solved[:12], solved[:12], unchanged=True)) == ("pass", "unchanged")


@pytest.mark.parametrize(("last", "result"), [(110.0, "pass"), (600.0, "undecided")])
def test_another_metric_of_an_arm_that_gained_passes_within_its_margin_alone(last, result):
    assert line([100.0] * 12, [100.0] * 11 + [last], "tokens", 0.1, gained=True).result == result


def test_a_regression_needs_the_sign_flip_test_too():
    """Seven of seven differing tasks in one direction are 1 in 128, three of three are 1 in 8."""
    made = line([10.0] * 100, [20.0] * 3 + [10.0] * 97, "steps", 0.0)
    assert (made.effect.low, made.result) == (1, "undecided")
    assert made.p_worse >= 1 / 8
    assert line([10.0] * 100, [20.0] * 7 + [10.0] * 93, "steps", 0.0).result == "regression"


def test_all_lines_share_one_error_rate_and_the_worst_of_them_counts():
    """Five of five lost tasks are 1 in 32: enough alone, and not beside a second arm."""
    lost, same = held([1.0] * 100, [0.0] * 5 + [1.0] * 95), held([1.0] * 100, [1.0] * 100, arm="b")
    assert judge_lines([lost])[0].p_worse == pytest.approx(1 / 32)
    assert judge_lines([lost])[0].result == "regression"
    first, second = judge_lines([lost, same])
    assert first.p_holm == pytest.approx(1 / 16)
    assert first.result == "undecided"
    far = replace(lost, run=values([[0.0]] * 20 + [[1.0]] * 80))
    assert [made.result for made in judge_lines([same, far])] == [second.result, "regression"]


def test_what_shows_a_pass_is_adjusted_for_no_other_line():
    lost = held([1.0] * 100, [0.0] * 5 + [1.0] * 95, margin=0.105)
    for lines in ([lost], [lost, replace(lost, arm="b")]):
        made = judge_lines(lines)[0]
        assert (round(made.p_beyond, 3), *of(made)) == (0.042, "pass", "within_margin")


def test_ratios_are_of_sums_of_the_run_to_the_baseline_and_their_margin_is_a_share():
    """One task in a hundred that takes thirty times as much is paid, too."""
    assert line([100.0] * 100, [3000.0] + [100.0] * 99, "tokens", 0.1).effect.value == pytest.approx(1.29)
    assert line([4.0] * 20, [5.0, 5.1] * 10, "steps", 0.10).effect.value == pytest.approx(1.2625, abs=0.001)
    for now, margin, result in ([5.0, 5.1], 0.1, "regression"), ([5.0, 5.1], 0.3, "pass"), ([3.0, 3.1], 0.0, "pass"):
        assert line([4.0] * 20, now * 10, "steps", margin).result == result


def test_amounts_of_zero_are_no_crash():
    same = line([0.0] * 20, [0.0] * 20, "steps", MORE)
    assert (same.result, same.effect.value) == ("pass", 1.0)
    more = line([0.0] * 20, [0.0] * 10 + [2.0] * 10, "steps", MORE)
    assert (more.result, more.effect.value) == ("regression", 20.0)  # a sum of 0 counts as half the smallest amount of a task


def test_repeats_count_as_one_task_and_templates_as_one_unit_and_unknown_values_not_at_all():
    repeated = line([[1.0, 1.0, 0.0]] * 30, [[1.0, 0.0, 0.0]] * 30)
    assert repeated.tasks == 30
    assert repeated.effect.value == pytest.approx(-1 / 3)
    clusters = {place: f"c{place % 5}" for place in range(30)}
    (made,) = judge_lines([Held("a", PRIMARY, values([[1.0]] * 30), values([[0.0]] * 30, clusters), 0.02)])
    assert (made.tasks, made.units) == (30, 5)
    assert line([1.0] * 10, [1.0] * 12).tasks == 10
    with pytest.raises(ValueError, match="a: no task whose steps is known on both sides"):
        line([1.0], [], "steps")


@pytest.mark.parametrize(
    ("metric", "margin"), [("speed", 0.1), (PRIMARY, 1.0), (PRIMARY, -0.1), ("steps", -0.1), ("steps", math.inf), ("tokens", 200.0)]
)
def test_a_margin_or_a_level_that_is_none_is_refused_and_named(metric, margin):
    with pytest.raises(ValueError, match=rf"metric '?{metric}"):
        check_margin(metric, margin)
    with pytest.raises(ValueError, match=rf"metric '?{metric}"):
        line([1.0], [1.0], metric, margin)
    for alpha in (0.0, 0.5, -1.0, math.nan):
        with pytest.raises(ValueError, match="alpha: a level above 0 and below"):
            judge_lines([held([1.0], [1.0])], alpha)


# --- what an undecided line asks for ---


@given(st.integers(12, 300), st.integers(0, 12), st.integers(0, 6), st.sampled_from([0.02, 0.05, 0.1]))
def test_advice_that_was_taken_is_not_given_again_and_again(tasks, lost, gained, margin):
    """The same effect decides at the size that was told, or at the next one, where a larger run repeats the trials."""
    shares = min(lost, tasks // 3) / tasks, min(gained, tasks // 3) / tasks
    asked = [tasks]
    while True:
        losses, gains = (round(share * asked[-1]) for share in shares)
        others = [1.0] * (asked[-1] - losses - gains)
        was, now = [*[1.0] * losses, *[0.0] * gains, *others], [*[0.0] * losses, *[1.0] * gains, *others]
        made = line(was, now, PRIMARY, margin, grows=True)
        if made.tasks_to_decide is None or made.tasks_to_decide >= 90 * tasks:
            return
        assert made.tasks_to_decide >= 1.25 * asked[-1]
        asked.append(made.tasks_to_decide)
        assert len(asked) <= 3, "an approximation missed by a little, once"
