"""Trials that end otherwise than in the baseline: what is told of them, and when the stop alone decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.gate.conftest import arm_of, failing, task
from whichloop.experiments.gate import bless, github_annotations, headline, judge, text, to_junit, to_markdown
from whichloop.experiments.gate.changes.other_changes import is_graver
from whichloop.experiments.gate.data.outcome import StopChange
from whichloop.experiments.gate.output.line_words import break_title, breaks, groups
from whichloop.experiments.gate.output.text import paragraphs
from whichloop.metrics.record import Record
from whichloop.protocol import StopReason


def stopping(stop: str, reason: str = "", arm: str = "bare/clean") -> Callable[[Record], Record]:
    """The first task's trials of an arm end otherwise."""

    def change(record: Record) -> Record:
        return replace(record, stop=stop, reason=reason) if record.task == task(1) and record.arm == arm else record

    return change


def test_another_stop_with_the_same_score_is_told_and_unchanged_where_it_is_no_graver(altered, baseline):
    judged = judge(altered(stopping("forced")), baseline)
    assert [change.became for change in judged.tasks] == ["other"]
    assert arm_of(judged, "bare/clean").lines[0].outcome == judged.outcome == "unchanged"
    assert [(change.trial, change.course, change.graver) for change in judged.stops] == [
        (f"bare/clean/{task(1)}/{repeat}", "finished → forced", False) for repeat in range(2)
    ]
    assert not arm_of(judged, "bare/clean").stop_alone
    assert "every trial scored as in the baseline, and 2 trials ended in another way" in headline(judged)
    assert f"- bare/clean: 2 trials with the same score, finished → forced: {task(1)}/0, {task(1)}/1" in text(judged).split("\n")


def test_a_graver_stop_alone_leaves_it_undecided_and_says_so(altered, baseline):
    judged = judge(altered(stopping("parse_failed")), baseline)
    assert arm_of(judged, "bare/clean").lines[0].outcome == judged.outcome == "undecided"
    assert arm_of(judged, "bare/clean").stop_alone
    said = "bare/clean: no score changed. It is undecided, and not unchanged, since 2 trials end more gravely than in the baseline"
    assert f"{said} (finished → parse_failed 2)." in text(judged).split("\n")
    assert not any(arm.stop_alone for arm in judge(altered(failing(task(1))), baseline).arms)


@pytest.mark.parametrize("margin", [0.02, 0.5])
def test_a_new_crash_is_a_regression_whatever_the_margin_is(altered, baseline, margin):
    judged = judge(altered(stopping("crashed", "KeyError: 'x'")), baseline, metrics={"accuracy": margin})
    arm = arm_of(judged, "bare/clean")
    assert judged.outcome == arm.lines[0].outcome == "regression"
    assert arm.crash_alone
    assert arm.lines[0].outlook is None, "no number of tasks has to decide it"
    assert not arm.stop_alone
    assert headline(judged) == f"regression: 2 trials crash now (KeyError: 'x'), such as bare/clean/{task(1)}/0"
    why = "bare/clean: a crash that the baseline does not have is a regression, whatever the margins say."
    assert why in paragraphs(judged)
    assert why in text(judged).split("\n")
    assert "<failure" in to_junit(judged)
    assert judged.bless == ""
    assert text(judged).endswith("\nFix the loop; a run with a new crash is not offered as a baseline."), "blessing is no cure"
    first, crash = github_annotations(judged)[:2]
    assert "2 trials crash now (KeyError: 'x')" in first
    assert crash.startswith("::error title=bare/clean%3A 2 of 24 trials crash now (KeyError%3A 'x')::")
    for said in (text(judged), to_markdown(judged), to_junit(judged)):
        assert f"bare/clean/{task(1)}/0" in said
        assert "whichloop show" in said


def test_a_crash_is_new_by_its_task_where_trials_have_no_counterparts(altered, ran):
    was = bless(ran(repeats=1))
    judged = judge(altered(stopping("crashed", "KeyError: 'x'"), seed=9), was)
    assert not judged.paired
    assert [(change.trial, change.was, change.same_score) for change in judged.stops] == [
        (f"bare/clean/{task(1)}/{repeat}", "finished", False) for repeat in range(2)
    ]
    assert not any(arm.crash_alone for arm in judged.arms), "another seed may crash where the baseline's was spared"
    assert judge(altered(stopping("forced"), seed=9), was).stops == ()


def test_a_crash_in_the_place_of_a_trial_that_infrastructure_spoiled_is_new_and_stands_in_the_first_line(ran):
    """The baseline knows no stop of it, and up to 2 % of an arm may be spoiled."""
    found = ran(loops=("bare",), profiles=("clean",), suite="arithmetic(size=60)")
    first = found.records[0]
    was = bless(replace(found, records=(replace(first, status="errored", reason="provider: down"), *found.records[1:])))
    crashed = replace(first, stop="crashed", reason="KeyError: 'x'", scores={"accuracy": 0.0})
    judged = judge(replace(found, records=(crashed, *found.records[1:])), was)
    assert judged.outcome == "regression"
    assert judged.arms[0].crash_alone
    assert headline(judged) == f"regression: 1 trial crashes now (KeyError: 'x'), such as bare/clean/{first.task}/0"
    assert [change.course for change in judged.stops] == ["errored → crashed"]


MESSAGES = st.text(st.characters(categories=("L", "N")), max_size=6)


@given(st.lists(st.tuples(st.sampled_from(["KeyError", "ValueError"]), MESSAGES, st.sampled_from([7, 8])), min_size=1, max_size=12))
def test_crashes_of_one_exception_at_one_line_are_one_kind_whatever_they_say(own_file, crashes):
    """A message that quotes the data of its trial makes no other exception of it."""
    changes = [
        StopChange("a", f"t{n}", 0, "finished", "crashed", False, True, f"{kind}: {said} at {own_file}:{line}", "")
        for n, (kind, said, line) in enumerate(crashes)
    ]
    kinds = groups(changes)
    assert len(kinds) == len({(kind, line) for kind, _, line in crashes})
    assert sum(map(len, kinds)) == len(crashes)
    for group in kinds:
        others = len({change.reason for change in group}) - 1
        assert f"{others} other message" in break_title(group) if others else "other message" not in break_title(group)
    ((_, in_short),) = breaks(changes, len(crashes) + 1)
    largest, others = max(map(len, kinds)), len(kinds) - 1
    rest = len(crashes) - largest
    assert in_short.startswith(
        f"{len(crashes)} trial{'s crash' if len(crashes) > 1 else ' crashes'} now ({f'{largest} by ' if others else ''}"
    )
    assert (f", {rest} by {others} other exception" in in_short) == (others > 0)


@pytest.fixture(scope="module")
def own_file() -> str:
    """A file that is there, as a crash names it."""
    return Path(__file__).relative_to(Path.cwd()).as_posix()


STOPS = st.sampled_from([None, "of another tool", *StopReason])


@given(STOPS, STOPS, STOPS)
def test_how_grave_a_stop_is_has_an_order(one, other, third):
    assert not (is_graver(one, other) and is_graver(other, one))
    assert not (is_graver(one, other) and is_graver(other, third)) or is_graver(one, third)
    assert is_graver(one, "crashed") == (one not in (None, "crashed"))
