"""Warnings of a comparison whose arms lack tasks."""

from __future__ import annotations

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.arm_warnings import excluded_warnings, overlap_warnings
from whichloop.metrics.record import Record

GONE = "not in x.csv"


def record(arm: str, task: int, status: Literal["scored", "excluded"] = "scored") -> Record:
    return Record(arm, "s", "d", f"t{task}", 0, 0, status, reason="" if status == "scored" else GONE, scores={"accuracy": 1.0})


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_a_pair_is_told_of_if_it_shares_less_than_nine_tenths_of_the_larger_arm(shared: int, only_a: int, only_b: int) -> None:
    scored = {"a": shared + only_a, "b": shared + only_b}
    apart, partial = overlap_warnings(scored, {("a", "b"): shared})
    is_apart, is_partial = shared == 0, 10 * shared < 9 * max(scored.values())
    assert apart == (["a and b: no task was scored in both."] if is_apart else [])
    assert bool(partial) is (is_partial and not is_apart)
    if partial:
        tasks = f"{shared} task{'s' * (shared != 1)}"
        both = f"the {tasks} that both were scored on, of {scored['a']} and {scored['b']}"
        assert partial == [f"a and b are compared on {both}: their accuracies are not over the same tasks."]


def test_of_several_pairs_the_one_that_shares_least_is_named() -> None:
    scored = {"a": 30, "b": 9, "c": 5}
    apart, (said,) = overlap_warnings(scored, {("a", "b"): 9, ("a", "c"): 5, ("b", "c"): 5})
    assert not apart
    assert said == (
        "3 pairs are compared on fewer tasks than their accuracies are over: "
        "a and c on the 5 tasks that both were scored on, of 30 and 5."
    )


def test_several_pairs_without_a_common_task_are_one_sentence() -> None:
    assert overlap_warnings({"a": 30, "b": 9, "c": 5}, {("a", "b"): 0, ("a", "c"): 0, ("b", "c"): 5}) == (
        ["2 pairs, such as a and b: no task was scored in both."],
        ["b and c are compared on the 5 tasks that both were scored on, of 9 and 5: their accuracies are not over the same tasks."],
    )


def test_an_arm_that_leaves_tasks_out_is_named_unless_all_leave_out_the_same() -> None:
    whole = [record("a", task) for task in range(10)]
    some = [record("b", task, "scored" if task < 6 else "excluded") for task in range(10)]
    assert excluded_warnings([*whole, *some]) == ([], [f"b: 4 of 10 tasks are left out, all of them because of: {GONE}."])
    both = [record(arm, task, "scored" if task < 6 else "excluded") for task in range(10) for arm in ("a", "b")]
    assert excluded_warnings(both) == ([], [f"4 of 10 tasks are left out, all of them because of: {GONE}."])
