"""Wall time is no metric of a scripted run; a note tells of trials that take far longer than the blessed ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.gate.case import case_of
from whichloop.experiments.gate.changes.other_changes import MIN_S, TIMES_SLOWEST, is_slow, time_sentences
from whichloop.experiments.gate.commands import Rules
from whichloop.experiments.gate.judge import judge

SLOW = "The median trial takes far longer than the slowest blessed one"
SIMULATED = "With the scripted model, seconds are the simulated time"


def test_trials_that_take_far_longer_are_told_and_make_no_gate_fail(altered, baseline):
    slowest = baseline.slowest_s
    long_s = MIN_S + 2 * TIMES_SLOWEST * slowest
    waits = altered(lambda record: replace(record, wall_s=long_s) if record.arm == "bare/clean" else record)
    judged = judge(waits, baseline)
    (said,) = [note for note in judged.notes if note.startswith(SLOW)]
    assert f"({slowest:.2f} s): bare/clean (" in said
    assert "finish" not in said
    assert judged.outcome == "identical"


def test_nothing_is_said_of_a_run_as_quick_as_the_blessed_one_nor_without_its_times(wind, altered, baseline):
    assert not any(note.startswith((SLOW, SIMULATED)) for note in judge(wind, baseline).notes)
    waits = altered(lambda record: replace(record, wall_s=100.0))
    assert not any(note.startswith(SLOW) for note in judge(waits, baseline.model_copy(update={"slowest_s": None})).notes)


@pytest.mark.parametrize("hanging_arm", ["bare/clean", "finish/clean"])
def test_nothing_is_said_of_slow_trials_where_one_of_any_arm_hangs_for_which_they_may_have_waited(altered, baseline, hanging_arm):
    places = iter(range(1_000))

    def slow(record):
        hangs = record.arm == hanging_arm and next(places) == 0
        return replace(record, wall_s=100.0, stop="timeout" if hangs else record.stop)

    judged = judge(altered(slow), baseline)
    assert not any(note.startswith(SLOW) for note in judged.notes)


def test_whoever_judges_seconds_reads_what_they_are(wind, baseline):
    (said,) = [note for note in judge(wind, baseline, metrics={"seconds": 0.1}).notes if note.startswith(SIMULATED)]
    assert said.endswith("passes all the same.")


def test_of_real_models_nothing_is_said(wind, baseline):
    sides = case_of(wind, baseline, Rules({}, 0.05, False), None).sides
    scripted = wind.manifest
    real = scripted.model_copy(update={"arms": tuple(arm.model_copy(update={"model": "openai/m"}) for arm in scripted.arms)})
    assert len([*time_sentences(sides, baseline, scripted, ["seconds"])]) == 1
    assert [*time_sentences(sides, baseline, real, ["seconds"])] == []


@given(st.floats(0, 1e6), st.floats(0, 1e5))
def test_slow_is_what_takes_both_long_and_many_times_the_slowest(seconds, slowest):
    assert is_slow(seconds, slowest) == (seconds > MIN_S and seconds > TIMES_SLOWEST * slowest)
