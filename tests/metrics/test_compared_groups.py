"""Arms side by side: ranked, pooled over profiles, with templates as units, and those that did the same in every trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.compare.verdict import verdict
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare, did_the_same
from whichloop.metrics.pairs import Pair
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import accuracy_interval
from whichloop.metrics.sums import ranked


@settings(max_examples=cases(12))
@given(shares=st.lists(st.integers(0, 12), min_size=1, max_size=4), order=st.randoms(use_true_random=False))
def test_the_most_accurate_arm_of_each_profile_comes_first_whatever_the_order_was(record, shares, order):
    arms = [(f"l{n}/{profile}", profile, right) for profile in ("p", "q") for n, right in enumerate(shares)]
    records = [
        record(arm=arm, task=f"t{task}", scores={"accuracy": float(task < right)}, input_tokens=10 + right)
        for arm, _, right in arms
        for task in range(12)
    ]
    order.shuffle(arms)
    compared = compare(records, [ArmInfo(arm, arm.partition("/")[0], {}, "scripted", profile, "s") for arm, profile, _ in arms])
    found = ranked(compared)
    assert sorted(arm.info.arm for arm in found.arms) == sorted(arm for arm, _, _ in arms)
    means = {arm.info.arm: arm.summary.accuracy.value for arm in found.arms if arm.summary.accuracy}
    for profile in ("p", "q"):
        own = [means[arm.info.arm] for arm in found.arms if arm.info.profile == profile]
        assert own == sorted(own, reverse=True)
    assert len(found.pairs) == len(compared.pairs)
    for pair in found.pairs:
        if pair.metric == "accuracy":
            assert pair.difference.value >= 0
            assert pair.difference.low <= pair.difference.value <= pair.difference.high
            assert pair.verdict.word != "worse"
    assert ranked(found) == found


Scores = Mapping[tuple[str, str], Sequence[float]]
"""Loop and profile → a score for each task."""
TASKS = 12
SCORES = st.lists(st.sampled_from([0.0, 1.0]), min_size=TASKS, max_size=TASKS)


@pytest.fixture(scope="session")
def compared(record) -> partial[Comparison]:
    def make(record, scores: Scores) -> Comparison:
        infos = [ArmInfo(f"{loop}/{profile}", loop, {}, "scripted", profile, "s") for loop, profile in scores]
        records = [
            record(arm=f"{loop}/{profile}", task=f"t{task}", scores={"accuracy": score})
            for (loop, profile), own in scores.items()
            for task, score in enumerate(own)
        ]
        return compare(records, infos)

    return partial(make, record)


def bare(pair: Pair) -> Pair:
    """A pair by its loops, without what only a run of its own may say."""
    a, b = (name.partition("/")[0] for name in (pair.a, pair.b))
    return replace(pair, a=a, b=b, outlook=None)


@settings(max_examples=cases(12))
@given(st.lists(SCORES, min_size=2, max_size=3), st.integers(2, 4))
def test_a_profile_several_times_over_says_no_more_than_once(compared, scores, times):
    """Profiles are no further tasks: n stays, and so does every p."""
    loops = "abc"[: len(scores)]
    once = compared({(loop, "p0"): each for loop, each in zip(loops, scores, strict=True)})
    more = compared({(loop, f"p{n}"): each for loop, each in zip(loops, scores, strict=True) for n in range(times)})
    assert once.pooled == ()
    assert [bare(pair) for pair in more.pooled] == [bare(pair) for pair in once.pairs if pair.metric == "accuracy"]


@settings(max_examples=cases(12))
@given(st.lists(SCORES, min_size=4, max_size=4), st.permutations([0, 1]))
def test_the_pooled_difference_is_the_mean_over_profiles_in_any_order(compared, scores, order):
    a, b = scores[:2], scores[2:]
    (pair,) = compared({(loop, f"p{n}"): own[n] for n in order for loop, own in (("a", a), ("b", b))}).pooled
    means = [sum(own) / TASKS for own in scores]
    assert pair.difference.value == pytest.approx((means[0] + means[1] - means[2] - means[3]) / 2)
    assert pair.difference.n == pair.units == TASKS


def test_a_loop_that_did_not_meet_every_profile_is_left_out_and_so_is_a_task_that_one_profile_lacks(compared):
    met = {"a": "pqr", "b": "pqr", "c": "pq", "d": "p"}
    scores = {(loop, profile): [1.0] * 3 for loop, profiles in met.items() for profile in profiles} | {("b", "q"): [1.0] * 2}
    (pair,) = compared(scores).pooled
    assert (pair.a, pair.b, pair.difference.n) == ("a", "b", 2)


TEMPLATES = 12
ARMS = [ArmInfo(name, name, {}, "scripted", "clean", "s") for name in "ab"]


def records(template: str, cluster: str = "") -> list[Record]:
    """Tasks of one template have one fate in arm a, and all fail in arm b."""
    return [
        Record(
            arm=arm, suite="s", suite_digest="x", task=f"t{task}", repeat=0, seed=0, status="scored",
            calls={"decide": 1}, scores={"accuracy": float(arm == "a" and task % TEMPLATES < 8)},
            template=template.format(task % TEMPLATES), cluster=cluster.format(task % TEMPLATES),
        )
        for arm in "ab" for task in range(10 * TEMPLATES)
    ]  # fmt: skip


def test_both_intervals_stand_side_by_side_and_tasks_decide() -> None:
    found, plain = compare(records("{}"), ARMS), compare(records(""), ARMS)
    arm, pair = found.arms[0], found.pairs[0]
    names = [str(task % TEMPLATES) for task in range(10 * TEMPLATES)]
    wanted = accuracy_interval([[float(int(name) < 8)] for name in names], names)
    assert arm.summary.over_templates == replace(wanted, n=TEMPLATES, units=None)
    assert pair.over_templates is not None
    assert pair.over_templates.n == TEMPLATES
    assert pair.over_templates.low < pair.difference.low
    assert pair.over_templates.high > pair.difference.high
    assert pair == replace(plain.pairs[0], over_templates=pair.over_templates)
    assert pair.to_json()["over_templates"] == pair.over_templates.as_dict()
    assert arm.to_json()["over_templates"] == arm.summary.over_templates.as_dict()


@pytest.mark.parametrize(("template", "cluster"), [("", ""), ("one", ""), ("{}", "{}"), ("{}", "other {}")])
def test_no_second_interval_where_it_would_say_the_same_or_nothing(template: str, cluster: str) -> None:
    found = compare(records(template, cluster), ARMS)
    assert found.arms[0].summary.over_templates is None
    assert found.pairs[0].over_templates is None


RIGHT = st.lists(st.booleans(), min_size=1, max_size=12)


def trials(record, arm, right, digest="d"):
    return [
        record(arm=arm, task=f"t{n:03}", scores={"accuracy": float(each)}, input_tokens=10 + n % 3, trace_digest=f"{digest}{each}")
        for n, each in enumerate(right)
    ]


@given(RIGHT)
def test_trials_that_went_alike_are_the_same_in_any_order(record, right):
    a, b = trials(record, "a", right), trials(record, "b", right)
    assert did_the_same(a, b)
    assert did_the_same(b, [*reversed(a)])


@pytest.mark.parametrize(
    "changed",
    [
        {"answer": 7},
        {"stop": "budget"},
        {"input_tokens": 1},
        {"trace_digest": "other"},
        {"trace_digest": ""},
        {"calls": {"decide": 9}},
    ],
    ids=str,
)
@given(RIGHT, st.data())
def test_one_trial_that_differs_in_anything_is_enough(record, changed: dict[str, Any], right, data):
    a, b = trials(record, "a", right), trials(record, "b", right)
    at = data.draw(st.integers(0, len(right) - 1))
    other = [*b[:at], replace(b[at], **changed), *b[at + 1 :]]
    assert not did_the_same(a, other)
    assert not did_the_same(a, b[:-1])


@given(RIGHT)
def test_trials_without_traces_are_not_known_to_have_gone_alike(record, right):
    a, b = ([replace(each, trace_digest="") for each in trials(record, arm, right)] for arm in "ab")
    assert not did_the_same(a, b)


def compared_shares(record, shares, copies, n=60):
    """Compares loops that solve given shares of tasks; `copies`: those that did as another one, which they name."""
    infos = [
        ArmInfo(f"{loop}/rough", loop.partition("(")[0], {"loop": 1} if "(" in loop else {}, "scripted", "rough", "s")
        for loop in shares
    ]
    records = []
    for loop, share in shares.items():
        digest = copies.get(loop, loop)
        records += trials(record, f"{loop}/rough", [task * 37 % n < share * n for task in range(n)], digest)
    return compare(records, infos)


WRAPPED = "provider_retry(loop=a)"


@settings(max_examples=cases(12))
@given(st.floats(0, 1), st.floats(0, 1))
def test_a_copy_has_the_place_and_the_outcome_of_what_it_copies(record, one, other):
    made = compared_shares(record, {WRAPPED: one, "a": one, "b": other}, {WRAPPED: "a"})
    found = verdict(made)
    assert made.same == ((f"{WRAPPED}/rough", "a/rough"),)
    assert len(found.rows) == 3
    assert found.row(WRAPPED).cells["rough"].place == found.row("a").cells["rough"].place
    assert found.decision is not None
    assert (WRAPPED in found.decision.loops) == ("a" in found.decision.loops)
