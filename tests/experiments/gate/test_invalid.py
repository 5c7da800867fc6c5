"""Runs and baselines that are no measure: nothing is judged, and no task is called worse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.experiments.gate.conftest import task
from whichloop.experiments.gate import github_annotations, judge, text, to_junit, to_markdown
from whichloop.experiments.gate.output.text import paragraphs
from whichloop.metrics.record import Record


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda r: None if r.task == task(1) else r, "8 of 96 trials are missing"),
        (
            lambda r: replace(r, status="errored") if (r.arm, r.task) == ("bare/clean", task(1)) else r,
            "8.3% of its trials are errored",
        ),
        (lambda r: replace(r, status="excluded") if r.arm == "bare/clean" else r, "bare/clean: no trial was scored"),
        (lambda r: replace(r, faults=tuple(replace(f, landed=False) for f in r.faults)), "scheduled faults landed"),
    ],
)
def test_a_run_that_is_no_measure_is_invalid(altered, baseline, change, why):
    judged = judge(altered(change), baseline)
    assert judged.outcome == "invalid"
    assert any(why in reason for reason in judged.reasons)
    assert judged.lines == ()


def test_of_a_run_that_is_not_judged_no_output_calls_a_task_or_a_trial_worse(altered, baseline):
    """Two tasks score less, two trials have a graver stop, and a trial of another arm is missing."""

    def change(record: Record) -> Record | None:
        if record.arm != "bare/clean":
            return None if record.task == task(1) else record
        if record.task in (task(2), task(3)):
            return replace(record, scores={"accuracy": 0.0})
        return replace(record, stop="crashed") if record.task in (task(4), task(5)) else record

    judged = judge(altered(change), baseline)
    assert (judged.outcome, judged.tasks, judged.stops, judged.same_result) == ("invalid", (), (), 0)
    outputs = (text(judged), to_markdown(judged), to_junit(judged), *github_annotations(judged), *paragraphs(judged))
    assert not any(" worse" in output or "crash" in output for output in outputs)
    assert judge(altered(lambda record: change(record) or record), baseline).tasks != ()


def test_a_baseline_that_is_no_measure_makes_it_invalid(wind, baseline):
    arm = baseline.arms["bare/clean"]
    spoiled = arm.model_copy(
        update={"tasks": {**arm.tasks, task(1): arm.tasks[task(1)].model_copy(update={"outcome": (None, None)})}}
    )
    judged = judge(wind, baseline.model_copy(update={"arms": {**baseline.arms, "bare/clean": spoiled}}))
    assert judged.reasons == ("bare/clean: 8.3% of its trials are errored in the baseline",)
