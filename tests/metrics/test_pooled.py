"""Loops over all profiles together: laws over made-up scores, then what becomes of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare, mean_over_profiles
from whichloop.metrics.pairs import Pair, paired_test, pairs_of_family
from whichloop.metrics.summary import TaskValues

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
@given(st.lists(SCORES, min_size=2, max_size=4))
def test_pooled_over_one_profile_is_that_profile(compared, scores):
    loops = "abcd"[: len(scores)]
    own = [bare(pair) for pair in compared({(loop, "p"): each for loop, each in zip(loops, scores, strict=True)}).pairs]
    values = {
        loop: mean_over_profiles([TaskValues({f"t{n}": [x] for n, x in enumerate(each)}, {f"t{n}": f"t{n}" for n in range(TASKS)})])
        for loop, each in zip(loops, scores, strict=True)
    }
    tests = {(pair.a, pair.b): paired_test("accuracy", values[pair.a], values[pair.b], 0.02) for pair in own}
    assert pairs_of_family("accuracy", tests, 0.05) == [pair for pair in own if pair.metric == "accuracy"]


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
