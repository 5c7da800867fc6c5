"""Whether two arms did the same in every trial, and what a verdict makes of that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.compare.verdict import verdict
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
def test_a_copy_has_the_place_and_the_outcome_of_what_it_copies(record, one, other):
    made = compared(record, {WRAPPED: one, "a": one, "b": other}, {WRAPPED: "a"})
    found = verdict(made)
    assert made.same == ((f"{WRAPPED}/rough", "a/rough"),)
    assert len(found.rows) == 3
    assert found.row(WRAPPED).cells["rough"].place == found.row("a").cells["rough"].place
    assert found.decision is not None
    assert (WRAPPED in found.decision.loops) == ("a" in found.decision.loops)


def test_without_traces_equal_numbers_are_no_copies(record):
    assert compared(record, {"a": 0.5, "b": 0.5}, {}).same == ()
