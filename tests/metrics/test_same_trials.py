"""Whether two arms did the same in every trial, and what an answer makes of that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.compare.verdict_old.answer import answer
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import compare, did_the_same

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


def compared(record, shares, copies, n=60):
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
def test_the_verdict_on_the_others_is_that_without_the_copy(record, one, other):
    """What is adopted is what would be adopted of the loops that differ, by the tests of the whole run."""
    shares = {WRAPPED: one, "a": one, "b": other}
    made = answer(compared(record, shares, {WRAPPED: "a"}))
    said = f"{WRAPPED} did the same as a in all 60 trials, as no provider failed under rough; the verdict counts them as one"
    assert said in made.sentences
    assert len(made.rows) == 3
    assert not any(WRAPPED in line for line in made.sentences if line != said)


def test_of_two_loops_that_did_the_same_the_plain_one_is_taken(record):
    (said, *others) = answer(compared(record, {WRAPPED: 0.5, "a": 0.5}, {WRAPPED: "a"}, n=600)).answer_sentences
    same = f"{WRAPPED} did the same as a in all 600 trials, as no provider failed under rough"
    assert said.text == f"{same}, and they are equivalent within the margin of 0.02; take a, the plainer one"
    assert said.adopts == "a"
    assert not others


@pytest.mark.parametrize("tasks", [7, 19, 20])
def test_few_tasks_on_which_loops_did_the_same_decide_nothing_of_others(record, tasks):
    others = answer(compared(record, {WRAPPED: 0.5, "a": 0.5}, {WRAPPED: "a"}, n=tasks)).sentences[1:]
    nothing = "Of other tasks that decides nothing; for a choice that holds for others, run about 50"
    assert others == ((nothing,) if tasks < 20 else ())


@pytest.mark.parametrize(("profile", "has_none"), [("text-2024-median", True), ("text-2024", False), ("my-own", False)])
def test_a_loop_that_reads_fences_did_the_same_where_the_profile_has_none(record, profile, has_none):
    loops = {"bare": {}, "bare(fences=read)": {"fences": "read"}}
    infos = [ArmInfo(f"{loop}/{profile}", "bare", options, "scripted", profile, "s") for loop, options in loops.items()]
    same = [each for info in infos for each in trials(record, info.arm, [True] * 30, "same")]
    why = f", as {profile} has no fenced replies (wire.fenced), which fences=read is for" if has_none else ""
    assert answer(compare(same, infos)).sentences[0].startswith(f"bare(fences=read) did the same as bare in all 30 trials{why};")


def test_without_traces_equal_numbers_are_no_copies(record):
    found = compared(record, {"a": 0.5, "b": 0.5}, {})
    assert found.same == ()
    assert not any("did the same" in line for line in answer(found).sentences)
