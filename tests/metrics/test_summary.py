"""An arm's summary and what is said about tasks: what enters them, what does not, and what was lost to which kinds of fault."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.record import FaultRecord, Record
from whichloop.metrics.scorers import false_success
from whichloop.metrics.statistics import clopper_pearson
from whichloop.metrics.summary import METRICS, summarize
from whichloop.metrics.tasks import GroupFindings, task_findings
from whichloop.protocol import StopReason


def record(task: str = "t1", accuracy: float = 1.0, **changes: Any) -> Record:
    values: dict[str, Any] = {"arm": "a", "suite": "s", "suite_digest": "d", "task": task, "repeat": 0, "seed": 0}
    values |= {"status": "scored", "stop": "finished", "scores": {"accuracy": accuracy}, "steps": 2, "seconds": 0.5}
    values |= {"calls": {"decide": 2, "answer": 1}, "input_tokens": 100, "output_tokens": 10}
    return Record(**(values | changes))


KIND = st.sampled_from(["wire.fenced", "wire.malformed", "tool.raises"])
FAULT = st.builds(FaultRecord, KIND, st.just("decide:c1"), st.booleans(), st.booleans(), st.booleans())
FAULTS = st.lists(FAULT, max_size=3).map(tuple)
RECORD = st.builds(
    record,
    task=st.sampled_from(["t1", "t2", "t3", "t4"]),
    accuracy=st.sampled_from([0.0, 0.5, 1.0]),
    repeat=st.integers(0, 3),
    status=st.sampled_from(["scored", "scored", "scored", "errored", "excluded"]),
    reason=st.sampled_from(["network", "disk", "no plan"]),
    stop=st.sampled_from([*StopReason]),
    steps=st.integers(0, 20),
    cost_usd=st.none() | st.floats(0, 1),
    seconds=st.floats(0, 100),
    errors=st.dictionaries(st.sampled_from(["wire", "tool.KeyError"]), st.integers(1, 5)),
    faults=FAULTS,
    false_success=st.booleans(),
)
RECORDS = st.lists(RECORD, max_size=15)


@given(RECORDS)
def test_every_trial_is_counted_once(records):
    summary = summarize(records)
    assert summary.scored + summary.errored + summary.excluded == summary.trials == len(records)
    assert sum(summary.stops.values()) == summary.scored
    assert sum(summary.errored_reasons.values()) == summary.errored
    assert sum(summary.exclusions.values()) == summary.excluded
    assert (summary.false_success or 0) <= summary.scored
    assert summary.errors == sum((Counter(one.errors) for one in records if one.status == "scored"), Counter())


@given(records=RECORDS, data=st.data())
def test_neither_what_is_not_scored_nor_the_order_of_records_changes_a_number(records, data):
    scored = [item for item in records if item.status == "scored"]
    full, only = summarize(data.draw(st.permutations(records))), summarize(scored)
    assert {name: full.means[name] for name in METRICS} == {name: only.means[name] for name in METRICS}
    assert (full.stops, full.errors, full.faults) == (only.stops, only.errors, only.faults)
    assert (full.tasks, full.false_success, full.recovery) == (only.tasks, only.false_success, only.recovery)


@given(RECORDS)
def test_intervals_are_finite_where_there_are_any_and_hold_their_value(records):
    summary = summarize(records)
    for interval in [*summary.means.values(), summary.recovery, summary.false_success_rate]:
        if interval is not None:
            assert math.isfinite(interval.value)
            assert len(interval.ends) == (2 if interval.is_known else 0)
            assert interval.low <= interval.value <= interval.high
    assert summary.scored == 0 or (summary.accuracy is not None and summary.accuracy.low < summary.accuracy.high)


@given(RECORDS)
def test_faults_landed_are_absorbed_recovered_or_neither(records):
    summary = summarize(records)
    met = [fault for one in records if one.status == "scored" for fault in one.faults]
    landed = [fault for fault in met if fault.landed]
    lasting = [fault for fault in landed if not fault.absorbed]
    recovered = sum(fault.recovered for fault in lasting)
    counts = summary.faults
    assert (counts.scheduled, counts.landed, counts.absorbed) == (len(met), len(landed), len(landed) - len(lasting))
    assert counts.recovered == recovered
    assert (summary.recovery is None) == (not lasting)
    if summary.recovery:
        assert summary.recovery.value == pytest.approx(recovered / len(lasting))
        assert summary.recovery.n == len(lasting)


def test_a_summary_has_the_mean_of_each_measure_over_the_tasks_where_it_is_known():
    summary = summarize([record("t1", 1.0), record("t2", 1.0, steps=4, seconds=1.5, cost_usd=0.25)])
    assert summary.accuracy is not None
    assert (summary.accuracy.low, summary.accuracy.high) == pytest.approx(clopper_pearson(2, 2))
    for name, value in {"steps": 3, "lm_calls": 3, "tokens": 110, "seconds": 1.0, "cost_usd": 0.25}.items():
        mean = summary.means[name]
        assert (mean and mean.value) == value
    assert summary.means["cost_usd"] is not None
    assert summary.means["cost_usd"].n == 1


def test_a_price_nobody_knows_is_none_and_not_zero():
    assert summarize([record()]).means["cost_usd"] is None
    assert summarize([record(cost_usd=math.nan)]).means["cost_usd"] is None
    assert summarize([record(input_tokens=10**400)]).means["tokens"] is None


@given(st.integers(0, 100))
def test_a_run_in_which_few_of_the_scheduled_faults_landed_is_short(landed: int) -> None:
    faults = tuple(FaultRecord("wire.empty", f"decide:c{i}", landed=i < landed) for i in range(100))
    found = summarize([record(faults=faults)]).faults
    assert (found.scheduled, found.landed, found.short) == (100, landed, landed < 95)


# False success.

HURT = FaultRecord("tool.lies", "decide:c1", landed=True)


def claim(**changes: Any) -> bool:
    values: dict[str, Any] = {"accuracy": 0.0, "answered": True, "faults": (HURT,), "planned_call_unknown": False}
    return false_success(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"accuracy": 0.99}, True),
        ({"faults": (), "planned_call_unknown": True}, True),
        ({"accuracy": 1.0}, False),
        ({"answered": False}, False),
        ({"faults": ()}, False),
        ({"faults": (FaultRecord("wire.empty", "answer"),)}, False),
        ({"faults": (FaultRecord("wire.empty", "answer", landed=True, absorbed=True),)}, False),
        ({"faults": (FaultRecord("wire.empty", "answer", landed=True, recovered=True),)}, False),
        ({"faults": (FaultRecord("wire.empty", "answer", landed=True, recovered=True), HURT)}, True),
    ],
)
def test_false_success(changes, expected):
    assert claim(**changes) is expected


def test_implicit_failures_are_counted_with_those_believed_and_those_that_ended_wrong() -> None:
    believed = FaultRecord("tool.empty", "decide:c1", landed=True, implicit=True, believed=True)
    noticed = FaultRecord("tool.stale", "decide:c2", landed=True, recovered=True, implicit=True)
    missed = FaultRecord("tool.stale", "decide:c3", implicit=True)
    explicit = FaultRecord("tool.raises", "decide:c1", landed=True)
    wrong = record(scores={"accuracy": 0.0}, faults=(believed, noticed, missed))
    right = record(task="u", scores={"accuracy": 1.0}, faults=(noticed, explicit))
    found = summarize([wrong, right])
    assert (found.faults.implicit, found.faults.believed, found.faults.implicit_wrong) == (3, 1, 2)
    assert found.implicit_wrong is not None
    assert found.implicit_wrong.value == pytest.approx(2 / 3)
    assert summarize([record(scores={"accuracy": 0.0}, faults=(explicit,))]).implicit_wrong is None


ARMS = [ArmInfo(name, name, {}, "scripted", "clean", "s") for name in "abc"]


def tried(arm: str, task: str, accuracy: float = 1.0, repeat: int = 0, **changes: Any) -> Record:
    values: dict[str, Any] = {"suite": "s", "suite_digest": "d", "seed": 0, "status": "scored", "steps": 2}
    return Record(arm=arm, task=task, repeat=repeat, scores={"accuracy": accuracy}, **(values | changes))


def group(records: list[Record], arms: list[ArmInfo] = ARMS) -> GroupFindings:
    (found,) = task_findings(records, arms)
    return found


TASK_RECORDS = st.lists(
    st.builds(
        tried,
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


@given(TASK_RECORDS, st.randoms())
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
    kinds = {task.task: task.kinds for task in found.notable}
    assert sorted(task for arm in found.arms for task in arm.alone) == [
        task for task in kinds if "solved by one arm" in kinds[task]
    ]
    assert {task for arm in found.arms for task in arm.flaky} == {task for task in kinds if "flaky" in kinds[task]}
    scored = [one for one in records if one.status == "scored"]
    for arm in found.arms:
        known = {one.task for one in scored if one.arm == arm.arm and "repeated_calls" not in one.unknown}
        assert (arm.repeated_calls.n if arm.repeated_calls else 0) == len(known)
        assert arm.wasted_steps is None or arm.wasted_steps.value >= 0
    even = group([replace(one, steps=4) for one in scored])
    assert all(arm.wasted_steps is None or arm.wasted_steps.value == 0 for arm in even.arms)


def test_wasted_steps_are_counted_from_the_cheapest_trial_of_any_arm():
    trials = [tried(arm, task, steps=many) for arm, many in {"a": 2, "b": 5}.items() for task in ("t1", "t2")]
    trials += [
        tried("a", "t3", 0.0, steps=9),
        tried("b", "t3", 0.0, steps=9),
    ]  # solved by nobody: nothing to compare with
    a, b, c = (arm.wasted_steps for arm in group(trials).arms)
    assert a is not None
    assert b is not None
    assert (a.value, b.value, b.n, c) == (0, 3, 2, None)


@pytest.mark.parametrize("other", [{"profile": "stubborn"}, {"suite": "s2"}])
def test_groups_do_not_mix(other):
    """Another suite, or another profile: other tasks, other disturbances."""
    found = task_findings([tried("a", "t1", steps=1), tried("b", "t1", 0.0)], [ARMS[0], replace(ARMS[1], **other)])
    assert [(one.tasks, one.notable) for one in found] == [(1, ()), (1, ())]
