"""Why trials of a run were lost: real runs of several designs, traces that are damaged or missing, and many of them at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.running import ran
from tests.kept import put
from whichloop.experiments.compare.results import Results
from whichloop.experiments.why.losses import Why, comparable, losses_explained
from whichloop.experiments.why.trial import recorded_doc
from whichloop.metrics.record import Record
from whichloop.metrics.trajectory.trajectory import course
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import TRIALS, read_records, read_trace

LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
PROFILES = ("flaky-format", "flaky-tools", "forgetful", "stubborn")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two repeats of 9 tasks, five designs, two profiles."""
    folder = tmp_path_factory.mktemp("runs")
    return ran(
        folder, is_compared=False, loops=LOOPS, profiles=("flaky-format", "forgetful"), suite="arithmetic", tasks=9, repeats=2
    )


@pytest.fixture(scope="module")
def reasons(found: Results) -> Why:
    """Why its trials were lost."""
    return losses_explained(found)


def faults_of(found: Results, arm: str) -> set[str]:
    return {fault.kind for record in lost(found, arm) for fault in record.faults}


def lost(found: Results, arm: str) -> list[Record]:
    return [record for record in found.records if record.arm == arm and record.status == "scored" and record.accuracy < 1]


def test_pairs_are_those_that_met_the_same_and_their_counts_add_up(found, reasons):
    assert [(pair.a, pair.b) for pair in reasons.pairs] == comparable(found)
    assert all(pair.a.split("/")[1] == pair.b.split("/")[1] for pair in reasons.pairs)
    records = {record.key: record for record in found.records}
    for pair in reasons.pairs:
        assert pair.both + pair.only_a + pair.only_b + pair.neither == 18
        assert sum(pair.causes[pair.a].values()) == pair.only_b
        assert sum(pair.causes[pair.b].values()) == pair.only_a
        assert pair.tasks == len({each.task for each in pair.divergences})
        for each in pair.divergences:
            assert records[each.loser, each.task, each.repeat].accuracy < 1 <= records[each.winner, each.task, each.repeat].accuracy
            step = course(read_trace(found.folder, records[each.loser, each.task, each.repeat]))[each.step - 1]
            assert step.signature


def test_a_pair_a_task_and_an_arm_can_be_chosen(found):
    pair = ("bare/flaky-format", "react_extract/flaky-format")
    chosen = losses_explained(found, pairs=[pair], task="arithmetic-0008")
    assert [(one.a, one.b) for one in chosen.pairs] == [pair]
    assert {each.task for each in chosen.pairs[0].divergences} == {"arithmetic-0008"}
    assert [group.profile for group in chosen.findings] == ["flaky-format"]
    assert len(chosen.findings[0].arms) == 5  # who else met the task is part of what is said of it
    alone = losses_explained(found, pairs=(), arms=["bare/forgetful"])
    assert (alone.pairs, [arm.arm for arm in alone.arms]) == ((), ["bare/forgetful"])
    with pytest.raises(RunError, match="'nope' is no task of its trials"):
        losses_explained(found, task="nope")


def test_the_step_of_a_cause_is_the_first_of_the_replies_that_it_is_about(tmp_path):
    profile = tmp_path / "unreadable.toml"
    profile.write_text('name = "unreadable"\n[rates]\n"wire.malformed" = 0.3\n[clears]\nnever = 1.0\n')
    found = ran(tmp_path / "runs", is_compared=False, loops=("bare",), profiles=(str(profile),), suite="arithmetic", tasks=9)
    (arm,) = losses_explained(found, pairs=()).arms
    records = {record.key: record for record in found.records}
    ended = [one for one in arm.examples if (one.cause, one.stop) == ("parse", "error_valve")]
    assert ended
    for one in ended:
        steps = course(read_trace(found.folder, records[arm.arm, one.task, one.repeat]))
        at = one.step - 1
        assert (len(steps) - at, [step.text for step in steps[at:-1]]) == (4, ["decide"] * 3)


@pytest.mark.thorough
def test_causes_are_found_in_a_suite_with_states_too(tmp_path):
    found = ran(tmp_path, is_compared=False, loops=LOOPS, profiles=PROFILES, suite="events", tasks=3)
    causes = sum((Counter(arm.causes) for arm in losses_explained(found, pairs=()).arms), Counter[str]())
    assert causes["other"] <= 0.02 * causes.total()
    assert {"parse", "lost observation", "tool argument"} <= set(causes)


def test_a_loss_that_names_faults_is_counted_under_one_of_them(tmp_path):
    found = ran(tmp_path, is_compared=False, loops=LOOPS, profiles=("flaky-tools", "flaky-format"), suite="arithmetic", tasks=8)
    met = {(record.arm, record.task): {fault.kind for fault in record.faults} for record in found.records}
    counted: Counter[str] = Counter()
    for arm in losses_explained(found, pairs=()).arms:
        for example in arm.examples:
            named = {kind for kind in met[arm.arm, example.task] if kind in example.detail}
            assert not named or example.fault in named, example
            counted[example.fault] += bool(named)
    assert counted.total() > 8
    assert {"tool.garbage", "wire.truncated"} <= counted.keys()


def damaged(found: Results, folder: Path, change: Callable[[dict[str, Any]], None]) -> Results:
    """A run whose only trace is that of its first loss, changed."""
    record = next(record for record in found.records if record.status == "scored" and record.accuracy < 1)
    trace = read_trace(found.folder, record).to_json()
    change(trace)
    put(folder, [record], [json.dumps(trace).encode() + b"\n"])
    return replace(found, folder=folder, records=tuple(read_records(folder)))


VALUE: st.SearchStrategy[Any] = st.sampled_from([None, 3, -1, "x", [], {}, [[]], True, 1e400, "\ud800", "\u2028"])


@given(st.randoms(), VALUE)
def test_a_trace_with_anything_in_it_is_told_or_refused(found, tmp_path_factory, random_, value):
    def change(trace: dict[str, Any]) -> None:
        event = random_.choice(trace["events"])
        event[random_.choice(sorted(event))] = value

    hostile = damaged(found, tmp_path_factory.mktemp("hostile"), change)
    (record,) = hostile.records
    try:
        said = repr(losses_explained(hostile).arms)
    except RunError as refused:
        said = str(refused)
        assert said.startswith(f"{hostile.folder / TRIALS}: trial {record.arm}/{record.task}/{record.repeat}: ")
    assert said
    assert "\n" not in said


def test_every_loss_is_counted_once_with_a_cause_and_told_by_itself_as_in_the_list(found, reasons):
    assert reasons.untraced == 0
    assert [arm.arm for arm in reasons.arms] == [arm.info.arm for arm in found.comparison.arms]
    for arm in reasons.arms:
        assert arm.lost == len(lost(found, arm.arm)) == sum(arm.causes.values()) == len(arm.examples)
        assert list(arm.causes.values()) == sorted(arm.causes.values(), reverse=True)
        assert {cause: sum(kinds.values()) for cause, kinds in arm.kinds.items()} == arm.causes
        assert all(fault in faults_of(found, arm.arm) for kinds in arm.kinds.values() for fault in kinds if fault)
    assert sum(arm.lost for arm in reasons.arms) > 10
    records = {record.key: record for record in found.records}
    arm = next(arm for arm in reasons.arms if arm.arm == "react_extract/flaky-format")
    for one in arm.examples:
        told = recorded_doc(found.folder, records[arm.arm, one.task, one.repeat])
        assert all(told.data[name] == getattr(one, name) for name in ("cause", "step", "detail", "fault"))
        assert told.facts["Cause"] == [f"{one.cause}, step {one.step}: {one.detail}"]


def test_counts_stay_whole_without_traces(found, reasons):
    untraced = losses_explained(replace(found, records=tuple(replace(record, trace_at=0) for record in found.records)))
    assert untraced.untraced == sum(arm.lost for arm in untraced.arms) > 0
    assert all(not arm.causes for arm in untraced.arms)
    assert [(pair.only_a, pair.only_b) for pair in untraced.pairs] == [(pair.only_a, pair.only_b) for pair in reasons.pairs]
    assert untraced.findings == reasons.findings
