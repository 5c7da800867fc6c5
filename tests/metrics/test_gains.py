"""Gains: what must hold for any records, and then who is said to have gained, to be the best, and at what cost."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.metrics.test_comparison import INVERSE, record
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import compare
from whichloop.metrics.gains import Arms, Gain, Gains, dev_gain, gains, with_planned_pairs
from whichloop.metrics.record import Record

DESIGNS = ("a", "b", "c")
ARMS = [Arms(name, f"{name}-", f"{name}+") for name in DESIGNS]


def judged(records: list[Record], arms: list[Arms] = ARMS, **levels: Any) -> Gains:
    infos = [ArmInfo(name, name, {}, "scripted", "clean", "s") for arm in arms for name in (arm.before, arm.after)]
    return gains(compare(records, infos, **levels), records, arms)


def outcomes(**scores: list[float]) -> list[Record]:
    """Keywords: `a0` for a before, `a1` for it after, one score per task."""
    sides = {"0": "-", "1": "+"}
    return [
        record(name[:-1] + sides[name[-1]], task, score, cluster="")
        for name, found in scores.items()
        for task, score in enumerate(found)
    ]


def share(right: int, of: int = 100) -> list[float]:
    return [1.0] * right + [0.0] * (of - right)


def gain_of(found: Gains, design: str) -> Gain:
    return next(gain for gain in found.gains if gain.design == design)


RUN = st.lists(
    st.builds(
        record,
        st.sampled_from([name for arm in ARMS for name in (arm.before, arm.after)]),
        st.integers(0, 6),
        st.sampled_from([0.0, 0.3, 1.0]),
        st.integers(0, 2),
        status=st.sampled_from(["scored", "scored", "scored", "errored"]),
        cluster=st.just(""),
    ),
    max_size=60,
)

# Laws.


@settings(max_examples=cases(12))
@given(RUN)
def test_before_and_after_swapped_turns_everything_around(records):
    there, back = judged(records), judged(records, [Arms(arm.design, arm.after, arm.before) for arm in ARMS])
    for one, other in zip(there.gains, back.gains, strict=True):
        assert (one.before, one.after) == (other.after, other.before)
        assert (one.test is None) == (other.test is None)
        if one.test is not None and other.test is not None:
            assert other.test.difference.value == pytest.approx(-one.test.difference.value, abs=1e-9)
            assert other.test.difference.low == pytest.approx(-one.test.difference.high, abs=1e-9)
            assert (other.test.p, other.test.p_holm) == pytest.approx((one.test.p, one.test.p_holm))
            assert other.test.verdict.word == INVERSE[one.test.verdict.word]
    assert (there.before.designs, there.after.designs) == (back.after.designs, back.before.designs)
    for first, second in zip(there.interactions, back.interactions, strict=True):
        assert second.difference.value == pytest.approx(-first.difference.value, abs=1e-9)
        assert second.verdict.word == INVERSE[first.verdict.word]


@settings(max_examples=cases(12))
@given(records=RUN, data=st.data())
def test_the_order_of_records_and_designs_changes_nothing_but_rounding(records, data):
    there = judged(records)
    back = judged(data.draw(st.permutations(records)), data.draw(st.permutations(ARMS)))
    for design in DESIGNS:
        one, other = gain_of(there, design).test, gain_of(back, design).test
        assert (one and one.verdict) == (other and other.verdict)
        assert (one and one.p_holm) == (other and pytest.approx(other.p_holm))
    for mine, theirs in ((there.before, back.before), (there.after, back.after)):
        places = [{each.design: each.place for each in side.designs} for side in (mine, theirs)]
        assert places[0] == places[1]


def task_means(records: list[Record]) -> dict[tuple[str, str], float]:
    scores: dict[tuple[str, str], list[float]] = {}
    for item in records:
        if item.status == "scored":
            scores.setdefault((item.arm, item.task), []).append(item.accuracy)
    return {trial: sum(own) / len(own) for trial, own in scores.items()}


@settings(max_examples=cases(12))
@given(RUN)
def test_families_are_corrected_for_their_size_places_are_by_accuracy_and_gains_differ_by_their_tasks(records):
    found, means = judged(records), task_means(records)
    tests = [gain.test for gain in found.gains if gain.test is not None]
    for family in (tests, found.before.pairs, found.after.pairs, found.interactions):
        least = [min(1.0, len(family) * min(pair.p for pair in family))] if family else []
        assert sorted(pair.p_holm for pair in family)[:1] == pytest.approx(least)
        assert all(pair.p <= pair.p_holm for pair in family)
    made = {"ranking": found.to_json(), "gains": [gain.to_json() for gain in found.gains]}
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    for ranking in (found.before, found.after):
        for above, below in pairwise(ranking.designs):
            assert above.accuracy.value >= below.accuracy.value - 1e-9
            assert (above.place == below.place) == (above.accuracy.value == pytest.approx(below.accuracy.value, abs=1e-9))
    for pair in found.interactions:
        sides = [f"{name}{side}" for name in (pair.a, pair.b) for side in "+-"]
        tasks = [f"t{task}" for task in range(7) if all((arm, f"t{task}") in means for arm in sides)]
        differences = [sum(sign * means[arm, task] for sign, arm in zip((1, -1, -1, 1), sides, strict=True)) for task in tasks]
        assert pair.difference.n == len(tasks)
        assert pair.difference.value == pytest.approx(sum(differences) / len(tasks), abs=1e-9)
        assert -2 <= pair.difference.low < pair.difference.high <= 2


@given(RUN)
def test_a_gain_has_one_interval_wherever_its_pair_stands(records):
    infos = [ArmInfo(name, name, {}, "scripted", "clean", "s") for side in ("-", "+") for name in (f"{d}{side}" for d in DESIGNS)]
    plain = compare(records, infos)
    found = with_planned_pairs(plain, records, [(arm.before, arm.after) for arm in ARMS])
    tests = {(gain.test.b, gain.test.a): gain.test.turned for gain in gains(plain, records, ARMS).gains if gain.test is not None}
    for pair, was in zip(found.pairs, plain.pairs, strict=True):
        planned = tests.pop((pair.a, pair.b), None) if pair.metric == "accuracy" else None
        assert replace(pair, within=None) == replace(was if planned is None else planned, within=None)
        assert (pair.within, pair.difference.value, pair.p) == (was.within, was.difference.value, was.p)
    assert tests == {}


def test_a_gain_on_the_same_tasks_is_shown_and_designs_are_corrected_for_each_other():
    shown, lost = (gain_of(judged(outcomes(a0=share(x), a1=share(y)), ARMS[:1]), "a").test for x, y in ((40, 70), (70, 40)))
    assert shown is not None
    assert lost is not None
    assert (shown.verdict.word, lost.verdict.word) == ("better", "worse")
    assert shown.difference.value == pytest.approx(0.3)
    six = {"a0": share(0, 20), "a1": share(6, 20)}  # p = 2/2⁶
    alone, among = judged(outcomes(**six), ARMS[:1]), judged(outcomes(**six, b0=share(5, 20), b1=share(5, 20)), ARMS[:2])
    words = [[gain.test and gain.test.verdict.word for gain in found.gains] for found in (alone, among)]
    assert words == [["better"], ["undecided", "undecided"]]
    records = [record(arm, 0, score, repeat) for repeat in range(20) for arm, score in (("a-", 0.0), ("a+", 1.0))]
    once = gain_of(judged(records, ARMS[:1]), "a").test
    assert once is not None
    assert (once.difference.n, once.p, once.verdict.word) == (1, 1.0, "undecided")  # repeats count as one task


def test_a_design_without_trials_has_no_gain_and_an_arm_that_is_not_there_is_refused():
    found = judged(outcomes(a0=share(5, 10), a1=share(6, 10), b0=share(5, 10)), ARMS[:2])
    assert (gain_of(found, "b").after, gain_of(found, "b").test, gain_of(found, "b").to_json()["verdict"]) == (None, None, None)
    assert [ranked.design for ranked in found.after.designs] == ["a"]
    with pytest.raises(ValueError, match="'x'"):
        gains(compare([], []), [], [Arms("a", "x", "y")])


@pytest.mark.parametrize(
    ("shares", "highest", "change"),
    [
        ({}, None, None),
        ({"a0": 60, "a1": 60}, ("a", "a"), "same"),
        ({"a0": 60, "a1": 80, "b0": 30, "b1": 50}, ("a", "a"), "same"),
        ({"a0": 60, "a1": 70, "b0": 60, "b1": 80}, ("b", "b"), "same"),  # it shared the first place
        ({"a0": 51, "a1": 50, "b0": 50, "b1": 51}, ("a", "b"), "by chance"),
        ({"a0": 51, "a1": 52, "b0": 50, "b1": 90}, ("a", "b"), "gains differ"),  # before, the two were not told apart
        ({"b0": 50, "b1": 90, "a0": 51, "a1": 52}, ("a", "b"), "gains differ"),
        ({"a0": 60, "a1": 62, "b0": 40, "b1": 65}, ("a", "b"), "gains differ"),  # and here they are not afterwards
        ({"a0": 60, "a1": 60, "b0": 30, "b1": 90}, ("a", "b"), "crossed"),
    ],
)
def test_which_loop_is_the_best_and_whether_that_changed(shares, highest, change):
    order = [arm for name in dict.fromkeys(name[0] for name in shares) for arm in ARMS if arm.design == name]
    found = judged(outcomes(**{name: share(right) for name, right in shares.items()}), order)
    assert (found.highest, found.change) == (highest, change)
    assert found.to_json()["top_changed"] is (None if change is None else change != "same")
    assert (found.interaction is None) == (change in (None, "same"))
    if found.interaction is not None:
        assert (found.interaction.a, found.interaction.b) == ("b", "a")
        gained = [shares[f"{name}1"] - shares[f"{name}0"] for name in "ba"]
        assert found.interaction.difference.value == pytest.approx((gained[0] - gained[1]) / 100)
        assert (found.interaction.verdict.word == "better") == (change != "by chance")


# The gain that the optimizer saw.

SCORES = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1))


@given(SCORES, SCORES)
def test_dev_gains_are_over_common_tasks_and_turn_around(before, after):
    found, turned = dev_gain(before, after), dev_gain(after, before)
    assert (found is None) == (turned is None) == (not before.keys() & after.keys())
    if found is not None and turned is not None:
        assert found.difference.value == pytest.approx(-turned.difference.value)
        assert 0 <= found.before <= 1
        assert found.difference.n == len(before.keys() & after.keys())


def test_optimism_is_what_dev_showed_beyond_the_locked_tasks():
    seen = dev_gain({"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 0.0})
    found = judged(outcomes(a0=share(40), a1=share(50)), ARMS[:1])
    assert seen is not None
    optimism = seen.optimism(gain_of(found, "a"))
    assert optimism is not None
    assert optimism.value == pytest.approx(0.4)
    assert optimism.low < 0 < optimism.high  # two dev tasks show nothing
    assert seen.optimism(Gain("a", None, None, None)) is None
