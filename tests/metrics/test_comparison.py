"""Comparisons: which arms are paired, what is said of them, and the object that scripts read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare
from whichloop.metrics.pairs import Pair
from whichloop.metrics.record import FaultRecord, Record

INVERSE = {"better": "worse", "worse": "better", "equivalent": "equivalent", "undecided": "undecided"}


def arm(name: str, **changes: Any) -> ArmInfo:
    values: dict[str, Any] = {"arm": name, "loop": name, "options": {}, "model": "scripted", "profile": "clean", "suite": "s"}
    return ArmInfo(**(values | changes))


def record(name: str, task: int, accuracy: float = 1.0, repeat: int = 0, **changes: Any) -> Record:
    """A scored trial, whose steps, calls, tokens and seconds differ from task to task."""
    values: dict[str, Any] = {
        "suite": "s",
        "suite_digest": "d",
        "repeat": repeat,
        "seed": 0,
        "status": "scored",
        "stop": "finished",
    }
    values |= {"steps": 2 + task % 3, "calls": {"decide": 2 + task % 3}, "input_tokens": 100 + task, "seconds": 0.5 + task / 100}
    return Record(arm=name, task=f"t{task}", **({"scores": {"accuracy": accuracy}} | values | changes))


def pair(comparison: Comparison, metric: str = "accuracy", names: tuple[str, str] = ("a", "b")) -> Pair:
    return next(item for item in comparison.pairs if (item.a, item.b, item.metric) == (*names, metric))


def outcomes(name: str, scores: list[float], **changes: Any) -> list[Record]:
    return [record(name, task, score, **changes) for task, score in enumerate(scores)]


# Laws.

RUN = st.lists(
    st.builds(
        record,
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, 8),
        st.sampled_from([0.0, 0.3, 1.0]),
        repeat=st.integers(0, 2),
        status=st.sampled_from(["scored", "scored", "errored", "excluded"]),
        steps=st.integers(0, 9),
        cost_usd=st.none() | st.floats(0, 1),
        seconds=st.floats(0, 10),
        cluster=st.just(""),
        faults=st.sampled_from([(), (FaultRecord("tool.slow", "decide:c1", landed=True),), (FaultRecord("tool.slow", "answer"),)]),
    ),
    max_size=30,
)


@given(RUN)
def test_swapping_two_arms_turns_everything_around_and_json_can_say_all(records):
    there = compare(records, [arm("a", options={"limit": float("inf")}), arm("b"), arm("c")])
    made = there.to_json(run="r", digest="0", wall_s=1.5)
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    back = compare(records, [arm("c"), arm("b"), arm("a")])
    assert len(there.pairs) == len(back.pairs)
    for one in there.pairs:
        other = pair(back, one.metric, (one.b, one.a))
        assert other.difference.value == pytest.approx(-one.difference.value, abs=1e-9)
        assert other.difference.low == pytest.approx(-one.difference.high, abs=1e-9)
        assert other.p == pytest.approx(one.p)
        assert other.p_holm == pytest.approx(one.p_holm)
        assert other.margin == pytest.approx(one.margin)
        assert (other.verdict.word, other.verdict.within_margin) == (INVERSE[one.verdict.word], one.verdict.within_margin)


@given(records=RUN, data=st.data())
def test_the_order_of_records_changes_nothing_but_rounding(records, data):
    arms = [arm("a"), arm("b")]
    mine = [item for item in records if item.arm != "c"]
    first, second = compare(mine, arms), compare(data.draw(st.permutations(mine)), arms)
    assert [item.verdict for item in first.pairs] == [item.verdict for item in second.pairs]
    assert (first.caveats, first.invalid) == (second.caveats, second.invalid)


@given(RUN)
def test_an_arm_is_never_better_or_worse_than_its_copy(records):
    mine = [item for item in records if item.arm == "a"]
    copies = [Record.from_json(item.to_json() | {"arm": "b"}) for item in mine]
    for item in compare([*mine, *copies], [arm("a"), arm("b")]).pairs:
        assert (item.difference.value, item.p) == (0.0, 1.0)
        assert item.verdict.word in ("equivalent", "undecided")


# Verdicts.


def test_more_accuracy_is_better_and_more_steps_are_worse():
    comparison = compare(
        [*outcomes("a", [1.0] * 40, steps=5), *outcomes("b", [0.0] * 20 + [1.0] * 20, steps=3)], [arm("a"), arm("b")]
    )
    accuracy, steps = pair(comparison), pair(comparison, "steps")
    assert (accuracy.verdict.word, accuracy.family, accuracy.difference.value) == ("better", "primary", 0.5)
    assert (steps.verdict.word, steps.family, steps.difference.value) == ("worse", "secondary", 2.0)
    assert steps.margin == pytest.approx(0.02 * 4)
    assert not steps.verdict.within_margin


def test_alpha_sets_intervals_and_verdicts():
    records = [*outcomes("a", [1.0] * 10), *outcomes("b", [0.0] * 6 + [1.0] * 4)]
    strict, lax = (compare(records, [arm("a"), arm("b")], alpha=alpha) for alpha in (0.01, 0.05))
    assert (pair(strict).verdict.word, pair(lax).verdict.word) == ("undecided", "better")
    assert pair(strict).difference.low < pair(lax).difference.low
    for wide, narrow in zip(strict.arms, lax.arms, strict=True):
        assert wide.summary.accuracy is not None
        assert narrow.summary.accuracy is not None
        assert wide.summary.accuracy.low < narrow.summary.accuracy.low


def test_each_metric_is_a_family_of_its_own_over_all_profiles():
    arms = [arm(f"{loop}/{profile}", loop=loop, profile=profile) for profile in ("p", "q") for loop in "abc"]
    solved = {"a": 40, "b": 30, "c": 37}
    records = [item for info in arms for item in outcomes(info.arm, [float(n < solved[info.loop]) for n in range(40)])]
    compared = compare(records, arms)
    for family in (compared.pairs_on("accuracy"), compared.pairs_on("steps")):
        assert len(family) == 6
        assert min(item.p_holm for item in family) == pytest.approx(min(1.0, 6 * min(item.p for item in family)))


def test_only_tasks_scored_in_both_arms_are_paired_and_repeats_are_reduced_before():
    a = [record("a", 0, 1.0), record("a", 1, 1.0), record("a", 2, 0.0), record("a", 3, 0.0, status="errored")]
    b = [record("b", 1, 0.0), record("b", 2, 0.0), record("b", 3, 1.0), record("b", 4, 1.0)]
    difference = pair(compare([*a, *b], [arm("a"), arm("b")])).difference
    assert (difference.value, difference.n) == (0.5, 2)
    tried = [record("a", 0, score, repeat=place) for place, score in enumerate([1.0, 1.0, 0.0, 0.0])]
    difference = pair(compare([*tried, record("a", 1), *outcomes("b", [0.0, 0.0])], [arm("a"), arm("b")])).difference
    assert (difference.value, difference.n) == (0.75, 2)  # and not 3 of 5 trials


def test_arms_are_paired_within_suite_and_profile_only():
    arms = [arm("a"), arm("b"), arm("c", profile="flaky"), arm("d", profile="flaky"), arm("e", suite="other"), arm("f", model="m2")]
    records = [item for info in arms for item in outcomes(info.arm, [1.0, 0.0], suite=info.suite, suite_digest=info.suite)]
    found = {(item.a, item.b) for item in compare(records, arms).pairs}
    assert found == {("a", "b"), ("a", "f"), ("b", "f"), ("c", "d")}


def test_tasks_of_one_template_are_one_piece_of_evidence():
    scores = {"a": [1.0] * 40, "b": [0.0] * 40}
    alone = compare([item for name, values in scores.items() for item in outcomes(name, values)], [arm("a"), arm("b")])
    shared = compare(
        [record(name, task, score, cluster=f"c{task % 4}") for name, values in scores.items() for task, score in enumerate(values)],
        [arm("a"), arm("b")],
    )
    assert (pair(alone).verdict.word, pair(alone).units) == ("better", 40)
    assert (pair(shared).verdict.word, pair(shared).units, pair(shared).p) == ("undecided", 4, 0.125)


# What more tasks may decide.


def test_only_undecided_pairs_on_accuracy_say_what_may_decide_them():
    scores = {"a": [1.0] * 40, "b": [1.0] * 36 + [0.0] * 4, "c": [0.0] * 40}
    found = compare([item for name, values in scores.items() for item in outcomes(name, values, cost_usd=0.01)], [*map(arm, "abc")])
    plans = {(item.a, item.b): item.outlook for item in found.pairs if item.metric == "accuracy"}
    assert plans["a", "c"] is None
    assert plans["b", "c"] is None
    open_pair = plans["a", "b"]
    assert open_pair is not None
    for size in (open_pair.fewer, open_pair.more):
        assert size.tasks > 40
        assert size.trials == 2 * size.tasks
        assert size.cost_usd == pytest.approx(0.01 * size.trials)
    assert all(item.outlook is None for item in found.pairs if item.metric != "accuracy")
    made = {(item["a"], item["b"], item["metric"]): item["outlook"] for item in found.to_json()["pairs"]}
    assert made["a", "b", "accuracy"] == open_pair.to_json()
    assert made["a", "c", "accuracy"] is made["a", "b", "steps"] is None


def test_what_does_not_belong_together_is_refused():
    with pytest.raises(ValueError, match="same name"):
        compare([], [arm("a"), arm("a")])
    with pytest.raises(ValueError, match="'x', which is not among"):
        compare([record("x", 0)], [arm("a")])
    with pytest.raises(ValueError, match="two different versions"):
        compare([record("a", 0), record("b", 0, suite_digest="other")], [arm("a"), arm("b")])
