"""Suites that changed since a baseline was blessed: what is told of their tasks, and what is judged all the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.gate.conftest import failing, task
from tests.experiments.gate.test_baseline import read
from whichloop.experiments.gate import Baseline, Incomparable, headline, judge, read_baseline
from whichloop.experiments.gate.data.baseline import to_text
from whichloop.experiments.gate.data.findings import TaskSets
from whichloop.experiments.gate.ended_run import RerunSettings, config_again

DIGESTS = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("123"))
OTHER = "0" * 12


@given(was=DIGESTS, now=DIGESTS)
def test_each_task_is_the_same_or_changed_or_on_one_side_alone(was, now):
    sets, turned = TaskSets.of(was, now), TaskSets.of(now, was)
    assert sorted((*sets.same, *sets.changed, *sets.removed)) == sorted(was)
    assert sorted((*sets.same, *sets.changed, *sets.added)) == sorted(now)
    assert {name: was[name] for name in sets.same} == {name: now[name] for name in sets.same}
    assert (sets.same, sets.changed, sets.added) == (turned.same, turned.changed, turned.removed)
    assert bool(sets.named()) == (was != now)
    assert sets.left_out().startswith(f"on the {len(sets.same)} task")


def test_many_tasks_are_counted_and_the_first_are_named():
    sets = TaskSets.of({str(n): "1" for n in range(9)}, {"0": "1", "1": "2", "new": "1"})
    assert sets.named() == "1 task changed (1), 1 task added (new), 7 tasks removed (2, 3, 4 and 4 others)"
    assert sets.left_out() == "on the 1 task that is the same in both (1 changed, 1 added, 7 removed)"


def of_other_tasks(baseline: Baseline, *names: str, **more: Any) -> Baseline:
    """The baseline of a suite in which these tasks were something else."""
    digests = {**baseline.task_digests, **dict.fromkeys(names, OTHER)}
    suite = baseline.suite.model_copy(update={"digest": "f" * 64})
    return baseline.model_copy(update={"suite": suite, "task_digests": digests, **more})


def refused(found: Any, baseline: Baseline, why: str, *, common: bool = False) -> None:
    with pytest.raises(Incomparable) as said:
        judge(found, baseline, common=common)
    assert why in str(said.value)
    assert "\n" not in str(said.value)


def test_the_same_tasks_in_another_order_are_paired_by_their_ids(wind, baseline):
    """A suite's digest holds the order of its tasks, and tasks that do not run."""
    judged = judge(wind, of_other_tasks(baseline))
    assert judged.outcome == "identical"
    assert judged.notes == (
        "The order of the suite's tasks has changed, or tasks that do not run have; each task that ran is the one of the baseline.",
    )
    other_version = baseline.model_copy(update={"suite": baseline.suite.model_copy(update={"version": "0"})})
    refused(
        wind, other_version, "since the baseline (version 2, not 0): its version alone, and not the tasks that run; --common-tasks"
    )


def test_a_changed_suite_is_refused_with_its_tasks_and_what_can_be_done(wind, baseline):
    told = (
        f"suite arithmetic has changed since the baseline: 1 task changed ({task(1)}); --common-tasks, in Python common_tasks=True"
    )
    cure = "judges by the 11 that are the same in both; where that is meant, bless a new run"
    refused(wind, of_other_tasks(baseline, task(1)), f"{told}, {cure}")
    other_tools = of_other_tasks(baseline, shared_digest=OTHER)
    refused(
        wind,
        other_tools,
        "since the baseline: the tools or the data that all its tasks share; where that is meant, bless a new run",
    )
    older = of_other_tasks(baseline, shared_digest="").model_copy(update={"task_digests": {}})
    refused(wind, older, "another digest of suite arithmetic than in the baseline")


def test_common_tasks_are_judged_and_no_result_of_another_task_counts(wind, altered, baseline):
    was = of_other_tasks(baseline, task(1))
    judged = judge(altered(failing(task(1))), was, common=True)
    assert headline(judged) == (
        "identical: behaviour unchanged in all 88 trials; judged on the 11 tasks that are the same in both (1 changed)"
    )
    assert {arm.trials for arm in judged.arms} == {22}
    assert judged.to_json()["common_tasks"] == {"same": 11, "changed": [task(1)], "added": [], "removed": []}
    assert judged.tasks == ()
    lost = judge(altered(failing(*map(task, range(2, 10)))), was, common=True)
    assert (lost.outcome, {line.tasks for line in lost.lines}) == ("regression", {11})
    assert judge(wind, baseline, common=True).outcome == "identical"
    assert judge(wind, baseline).to_json()["common_tasks"] is None


def test_where_no_task_is_the_same_common_tasks_are_refused(wind, baseline):
    everything = of_other_tasks(baseline, *baseline.task_digests)
    refused(wind, everything, "--common-tasks: no task is the same as in the baseline: 12 tasks changed (", common=True)
    refused(wind, of_other_tasks(baseline, shared_digest=OTHER), "--common-tasks: the tools or the data that all", common=True)
    older = baseline.model_copy(update={"task_digests": {}})
    refused(wind, older, "--common-tasks: the baseline has no digests of its tasks", common=True)


def test_a_baseline_of_an_older_whichloop_is_read(baseline, tmp_path):
    older = baseline.model_copy(update={"task_digests": {}, "shared_digest": ""})
    assert "digests" not in to_text(older)
    assert read(tmp_path / "b.json", to_text(older)) == older
    (tmp_path / "new.json").write_text(to_text(baseline))
    assert read_baseline(tmp_path / "new.json").task_digests == baseline.task_digests
    assert f'\n  "{task(1)}": "{baseline.task_digests[task(1)]}",\n' in to_text(baseline)


def test_a_new_run_that_is_judged_by_common_tasks_has_the_step_limit_of_the_baseline(baseline, tmp_path):
    assert config_again(baseline, tmp_path, RerunSettings(common=True)).max_tool_steps == baseline.suite.max_tool_steps
    assert config_again(baseline, tmp_path, RerunSettings()).max_tool_steps is None
