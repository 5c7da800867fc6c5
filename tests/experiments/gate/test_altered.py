"""Calls that a loop alters, or makes of its own: told where trials kept their score, and a regression where faults did not land."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import pytest

from tests.experiments.gate.conftest import ALL, arm_of, failing
from whichloop.checks.loop.scaffold import new_loop
from whichloop.experiments.compare.results import Results
from whichloop.experiments.gate import Baseline, GateResult, bless, github_annotations, headline, judge, text, to_junit, to_markdown
from whichloop.experiments.gate.data.outcome import PASSES
from whichloop.experiments.gate.judge import HAD_IT_EASIER
from whichloop.experiments.gate.output.next_steps import next_steps
from whichloop.experiments.gate.output.sentences import further_lines
from whichloop.metrics.record import Record

CALL = "await tools.call(move.calls[0])"
"""How a first loop makes the call that the model wrote."""
ONE_MORE = "{name: value + 1 for name, value in move.calls[0].arguments.items() if isinstance(value, (int, float))}"
ONCE = "await tools.call(ToolCall('no_such_tool', {}) if step == 0 else move.calls[0])"
TWICE = f"[{CALL}, {CALL}][1]"
THE_FIRST = "await tools.call(first := move.calls[0] if step == 0 else first)"
"""The first call of a trial in the place of all: a call that the blessed trial has, too, but once."""
ALWAYS = f"await tools.call(ToolCall(move.calls[0].name, {{**move.calls[0].arguments, **{ONE_MORE}}}))"


@pytest.fixture(scope="module")
def changed(fresh, tmp_path_factory) -> Iterator[Callable[[str], tuple[Results, Baseline]]]:
    """Makes a run of a first loop that calls in another way, once for each way, and the baseline of the loop as it was."""
    folder = tmp_path_factory.mktemp("altering")
    made = new_loop("alters", folder)
    source = made.loop.read_text()
    assert source.count(CALL) == 1
    sys.path.insert(0, str(folder))
    asked = {"loops": (made.target,), "profiles": ("flaky-tools",)}
    blessed = bless(fresh(**asked))

    @cache
    def make(call: str) -> tuple[Results, Baseline]:
        made.loop.write_text(source.replace(CALL, call))
        sys.modules.pop("alters", None)
        return fresh(**asked), blessed

    yield make
    sys.path.remove(str(folder))


def test_trials_that_got_over_an_altered_call_are_told_and_warned_of(changed):
    judged = judge(*changed(ONCE))
    (found,) = judged.altered
    kept = [change for change in judged.tasks if change.became == "worse"]
    assert found.trials > len(kept), "some of them kept their score"
    said, command = further_lines(judged)[:2]
    assert said.startswith(
        f"The loop altered a call in {found.trials} of {found.of} trials, and the blessed one did not, such as {found.trial}"
    )
    assert "the loop called no_such_tool(), where the model wrote " in said
    assert command == found.command
    assert command.startswith("whichloop show ")
    titled = f"{found.arm.replace(':', '%3A')}%3A the loop altered a call in {found.trials} of {found.of} trials%2C and"
    assert any(
        line.startswith(f"::warning title={titled}") and found.trial.split("/")[2] in line for line in github_annotations(judged)
    )
    for page in (to_junit(judged), to_markdown(judged).replace("\\", ""), text(judged)):
        assert f"altered a call in {found.trials} of {found.of}" in page
        assert command in page
    assert judged.to_json()["altered"] == [found.to_json()]


def test_a_call_that_is_altered_to_one_which_the_blessed_trial_made_once_is_told(changed):
    (found,) = judge(*changed(THE_FIRST)).altered
    assert (found.cause, found.trials > 0.5 * found.of) == ("altered call", True)


def test_calls_that_are_altered_to_one_that_was_made_before_are_none_made_twice(changed):
    found, blessed = changed(THE_FIRST)
    assert sum(record.repeated_calls for record in found.records) > 0
    assert {record.call_counts.get("doubled", 0) for record in found.records} == {0}
    lines = [line for arm in judge(found, blessed, metrics={"calls_doubled": 0.02}).arms for line in arm.lines]
    assert [line.run for line in lines if line.metric == "calls_doubled"] == [0.0]


def test_calls_that_are_made_twice_are_told_and_no_better_run(changed):
    """Where no metric judges them; a retry of what failed is the loop's own affair."""
    judged = judge(*changed(TWICE))
    assert judged.outcome in PASSES
    (found,) = judged.altered
    assert (found.cause, found.trials > 0.9 * found.of) == ("added call", True)
    said, command = further_lines(judged)[:2]
    assert said.startswith(
        f"The loop made a call of its own in {found.trials} of {found.of} trials, and the blessed one did not, such"
    )
    assert " again by itself, though it had given a result." in said
    assert command == found.command
    outcome, added, *_ = github_annotations(judged)
    assert outcome.startswith(f"::warning title=whichloop gate%3A {judged.outcome}::")
    assert f" the loop made a call of its own in {found.trials} of " in added
    assert f"made a call of its own in {found.trials}" in to_junit(judged)
    assert judged.to_json()["altered"] == [found.to_json()]
    steps = "".join(line for step in next_steps(judged) for line in step.lines)
    assert ("only if it is meant that the loop made a call of its own" in steps) == bool(judged.bless)
    assert "to hold later changes to this run" not in steps


def test_calls_that_are_made_twice_are_a_regression_of_their_metric(changed):
    found, blessed = changed(TWICE)
    judged = judge(found, blessed, metrics={"calls_doubled": 0.02})
    assert judged.outcome == "regression"
    assert " in calls_doubled +" in headline(judged)
    assert judge(found, bless(found), metrics={"calls_doubled": 0.02}).outcome == "identical"


@pytest.mark.parametrize("call", [ONCE, TWICE])
def test_what_the_blessed_loop_altered_too_is_not_told(changed, call):
    found, _ = changed(call)
    assert judge(found, bless(found)).altered == ()
    dearer = replace(found, records=tuple(replace(record, input_tokens=record.input_tokens + 1) for record in found.records))
    judged = judge(dearer, bless(found))
    assert (judged.altered, judged.same_result) == ((), len(found.records))


def test_a_loss_by_altered_calls_is_a_regression_though_the_faults_did_not_land(changed):
    judged = judge(*changed(ALWAYS))
    assert (judged.outcome, judged.reasons, judged.bless) == ("regression", (), "")
    assert headline(judged).startswith(f"regression: {judged.causes['altered call']} tasks worse (altered call ")
    (arm,) = judged.arms
    assert arm.short_of_faults.endswith(f"scheduled faults landed: {HAD_IT_EASIER}")
    assert further_lines(judged)[0] == f"{arm.short_of_faults}."
    assert "so few of the scheduled faults land cannot be blessed" in text(judged)
    first = github_annotations(judged)[0]
    assert first.startswith("::error title=whichloop gate%3A regression::")
    assert arm.short_of_faults in first
    (failure, *_) = ElementTree.fromstring(to_junit(judged)).findall(".//failure")
    assert " worse (altered call " in failure.attrib["message"]
    assert judged.to_json()["arms"][0]["short_of_faults"] == arm.short_of_faults


# --- too few faults ---

SHORT = "bare/flaky-tools"


def unfaulted(record: Record) -> Record:
    """No fault lands in one arm."""
    faults = tuple(replace(fault, landed=False) for fault in record.faults)
    return replace(record, faults=faults, faults_unmet=0) if record.arm == SHORT else record


def judged_short(altered, baseline: Baseline, change: Callable[[Record], Record]) -> GateResult:
    return judge(altered(lambda record: change(unfaulted(record))), baseline)


def test_where_nothing_got_worse_too_few_faults_make_a_run_invalid(altered, baseline):
    judged = judged_short(altered, baseline, lambda record: record)
    assert judged.outcome == "invalid"
    assert headline(judged).startswith(f"invalid: {SHORT}: only 0 of ")


def test_a_loss_without_a_cause_cannot_be_told_from_the_shortfall(altered, baseline):
    """The records say that tasks are lost, and no trace says to what."""
    assert judged_short(altered, baseline, failing(*ALL[:10], arm=SHORT)).outcome == "invalid"


def test_another_arm_is_judged_and_the_one_with_the_shortfall_is_not(altered, baseline):
    judged = judged_short(altered, baseline, failing(*ALL[:10]))
    assert judged.outcome == "regression"
    assert arm_of(judged, SHORT).lines == ()
    assert arm_of(judged, SHORT).short_of_faults.endswith("scheduled faults landed, so it is not judged")
    assert any(line.startswith(f"{SHORT}: only 0 of ") for line in further_lines(judged))


def test_other_faults_than_the_blessed_ones_excuse_nothing_and_show_nothing(altered, baseline):
    """Under another seed the schedule is another."""
    other = baseline.model_copy(update={"seed": 5})
    assert judged_short(altered, other, failing(*ALL[:10])).outcome == "invalid"
