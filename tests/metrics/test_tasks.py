"""What is said about tasks: which are flaky, which nobody solves, where steps are wasted."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.record import Record
from whichloop.metrics.tasks import GroupFindings, task_findings

ARMS = [ArmInfo(name, name, {}, "scripted", "clean", "s") for name in "abc"]


def record(arm: str, task: str, accuracy: float = 1.0, repeat: int = 0, **changes: Any) -> Record:
    values: dict[str, Any] = {"suite": "s", "suite_digest": "d", "seed": 0, "status": "scored", "steps": 2}
    return Record(arm=arm, task=task, repeat=repeat, scores={"accuracy": accuracy}, **(values | changes))


def group(records: list[Record], arms: list[ArmInfo] = ARMS) -> GroupFindings:
    (found,) = task_findings(records, arms)
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


@given(RECORDS, st.randoms())
def test_any_records_in_any_order_have_findings_that_are_what_their_names_say(records, random_: random.Random):
    found = group(records)
    assert found == group(random_.sample(records, len(records)))
    assert json.loads(json.dumps(found.to_json(), allow_nan=False)) == found.to_json()
    for task in found.notable:
        solved = [many for many, _ in task.solved.values()]
        assert ("unsolved" in task.kinds) == (sum(solved) == 0 and len(solved) > 1)
        assert ("solved by one arm" in task.kinds) == (sum(many > 0 for many in solved) == 1 and len(solved) > 1)
        assert ("flaky" in task.kinds) == any(0 < many < of for many, of in task.solved.values())
        assert ("false success" in task.kinds) == ((task.false_success or 0) > 0)
        assert (task.cheapest is None) <= (task.wasted_steps is None)
    assert sorted(task for arm in found.arms for task in arm.alone) == sorted(found.of_kind("solved by one arm"))
    assert {task for arm in found.arms for task in arm.flaky} == set(found.of_kind("flaky"))
    scored = [one for one in records if one.status == "scored"]
    for arm in found.arms:
        known = {one.task for one in scored if one.arm == arm.arm and "repeated_calls" not in one.unknown}
        assert (arm.repeated_calls.n if arm.repeated_calls else 0) == len(known)
        assert arm.wasted_steps is None or arm.wasted_steps.value >= 0
    even = group([replace(one, steps=4) for one in scored])
    assert all(arm.wasted_steps is None or arm.wasted_steps.value == 0 for arm in even.arms)


def test_examples_of_each_kind():
    repeated = [record("a", "t1", 1.0, 0), record("a", "t1", 0.0, 1), record("b", "t1"), record("b", "t1", repeat=1)]
    suspect = [record("a", "t2", 0.0), record("a", "t3", 0.0), record("b", "t3", 0.5)]
    alone = [record("a", "t4"), record("b", "t4", 0.0), record("c", "t4", 0.0), record("a", "t5"), record("b", "t5")]
    found = group([*repeated, *suspect, *alone])
    assert (found.of_kind("flaky"), found.of_kind("unsolved"), found.repeats, found.tasks) == (("t1",), ("t3",), 2, 5)
    assert [(arm.flaky, arm.alone) for arm in found.arms] == [(("t1",), ("t4",)), ((), ()), ((), ())]


def test_wasted_steps_are_counted_from_the_cheapest_trial_of_any_arm():
    trials = [record(arm, task, steps=many) for arm, many in {"a": 2, "b": 5}.items() for task in ("t1", "t2")]
    trials += [record("a", "t3", 0.0, steps=9), record("b", "t3", 0.0, steps=9)]  # solved by nobody: nothing to compare with
    a, b, c = (arm.wasted_steps for arm in group(trials).arms)
    assert a is not None
    assert b is not None
    assert (a.value, b.value, b.n, c) == (0, 3, 2, None)


def test_what_was_not_counted_is_not_known():
    trials = [record("a", "t1", unknown=("repeated_calls", "false_success", "steps")), record("b", "t1", repeated_calls=3)]
    a, b, _ = group(trials).arms
    assert (a.repeated_calls, a.false_success, a.wasted_steps) == (None, None, None)
    assert b.repeated_calls is not None
    assert b.repeated_calls.value == 3


@pytest.mark.parametrize("other", [{"profile": "stubborn"}, {"suite": "s2"}])
def test_groups_do_not_mix(other):
    """Another suite, or another profile: other tasks, other disturbances."""
    found = task_findings([record("a", "t1", steps=1), record("b", "t1", 0.0)], [ARMS[0], replace(ARMS[1], **other)])
    assert [(one.tasks, one.notable) for one in found] == [(1, ()), (1, ())]
