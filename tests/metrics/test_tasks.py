"""What is said about tasks: which are flaky, which nobody solves, where steps are wasted."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.record import Record
from whichloop.metrics.tasks import GroupFindings, task_findings

ARMS = [ArmInfo(name, name, {}, "scripted", "clean", "s") for name in "abc"]


def record(arm: str, task: str, accuracy: float = 1.0, repeat: int = 0, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "arm": arm,
        "suite": "s",
        "suite_digest": "d",
        "task": task,
        "repeat": repeat,
        "seed": 0,
        "status": "scored",
        "scores": {"accuracy": accuracy},
        "steps": 2,
    }
    return Record(**(values | changes))


def group(records: list[Record], arms: list[ArmInfo] = ARMS) -> GroupFindings:
    (found,) = task_findings(records, arms).groups
    return found


RECORDS = st.lists(
    st.builds(
        record,
        st.sampled_from("abc"),
        st.sampled_from(["t1", "t2", "t3"]),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.integers(0, 2),
        steps=st.integers(0, 9),
        status=st.sampled_from(["scored", "scored", "scored", "errored"]),
        repeated_calls=st.integers(0, 4),
        false_success=st.booleans(),
        unknown=st.sampled_from([(), ("steps",), ("repeated_calls", "false_success")]),
    ),
    max_size=20,
    unique_by=lambda one: one.key,
)


# --- laws ---


@given(RECORDS, st.randoms())
def test_the_order_of_records_changes_nothing(records, random_: random.Random):
    shuffled = random_.sample(records, len(records))
    assert task_findings(records, ARMS) == task_findings(shuffled, ARMS)


@given(RECORDS)
def test_kinds_are_what_their_names_say(records):
    found = group(records)
    for task in found.notable:
        solved = [many for many, _ in task.solved.values()]
        assert ("unsolved" in task.kinds) == (sum(solved) == 0 and len(solved) > 1)
        assert ("solved by one arm" in task.kinds) == (sum(many > 0 for many in solved) == 1 and len(solved) > 1)
        assert ("flaky" in task.kinds) == any(0 < many < of for many, of in task.solved.values())
        assert ("false success" in task.kinds) == ((task.false_success or 0) > 0)
        assert (task.cheapest is None) <= (task.wasted_steps is None)
    alone = [task for arm in found.arms for task in arm.alone]
    assert sorted(alone) == sorted(found.of_kind("solved by one arm"))
    assert {task for arm in found.arms for task in arm.flaky} == set(found.of_kind("flaky"))


@given(RECORDS)
def test_steps_are_wasted_beyond_the_cheapest_only(records):
    found = group(records)
    for arm in found.arms:
        if arm.wasted_steps is not None:
            assert arm.wasted_steps.value >= 0
    solved = [one for one in records if one.status == "scored" and one.accuracy >= 1 and "steps" not in one.unknown]
    even = [record(one.arm, one.task, repeat=one.repeat, steps=4) for one in solved]
    assert all(arm.wasted_steps is None or arm.wasted_steps.value == 0 for arm in group(even).arms)


@given(RECORDS)
def test_it_can_be_written_down(records):
    assert json.loads(json.dumps(task_findings(records, ARMS).to_json(), allow_nan=False))


# --- examples ---


def test_a_task_is_flaky_where_repeats_differ():
    found = group([record("a", "t1", 1.0, 0), record("a", "t1", 0.0, 1), record("b", "t1"), record("b", "t1", repeat=1)])
    assert found.of_kind("flaky") == ("t1",)
    assert [arm.flaky for arm in found.arms] == [("t1",), (), ()]
    assert found.repeats == 2


def test_a_task_that_no_arm_solves_is_suspect_only_where_two_have_tried():
    lost = [record("a", "t1", 0.0), record("a", "t2", 0.0), record("b", "t2", 0.5)]
    assert group(lost).of_kind("unsolved") == ("t2",)


def test_a_task_that_one_arm_solves():
    found = group([record("a", "t1"), record("b", "t1", 0.0), record("c", "t1", 0.0), record("a", "t2"), record("b", "t2")])
    assert [arm.alone for arm in found.arms] == [("t1",), (), ()]


def test_wasted_steps_are_counted_from_the_cheapest_trial_of_any_arm():
    steps = {"a": 2, "b": 5}
    trials = [record(arm, task, steps=many) for arm, many in steps.items() for task in ("t1", "t2")]
    trials += [record("a", "t3", 0.0, steps=9), record("b", "t3", 0.0, steps=9)]  # solved by nobody: nothing to compare with
    a, b, c = group(trials).arms
    assert (a.wasted_steps.value, b.wasted_steps.value) == (0, 3)  # type: ignore[union-attr]
    assert b.wasted_steps.n == 2  # type: ignore[union-attr]
    assert c.wasted_steps is None


def test_what_was_not_counted_is_not_known():
    trials = [record("a", "t1", unknown=("repeated_calls", "false_success", "steps")), record("b", "t1", repeated_calls=3)]
    a, b, _ = group(trials).arms
    assert (a.repeated_calls, a.false_success, a.wasted_steps) == (None, None, None)
    assert b.repeated_calls is not None
    assert b.repeated_calls.value == 3


@pytest.mark.parametrize("other", [{"profile": "stubborn"}, {"suite": "s2"}])
def test_groups_do_not_mix(other):
    """Another suite, or another profile: other tasks, other disturbances."""
    arms = [
        ARMS[0],
        ArmInfo(**({"arm": "b", "loop": "b", "options": {}, "model": "scripted", "profile": "clean", "suite": "s"} | other)),
    ]
    found = task_findings([record("a", "t1", steps=1), record("b", "t1", 0.0)], arms)
    assert [(one.tasks, one.notable) for one in found.groups] == [(1, ()), (1, ())]


def test_without_trials_nothing_is_said():
    found = group([])
    assert (found.tasks, found.repeats, found.notable) == (0, 0, ())
    assert all(arm.false_success is None for arm in found.arms)
