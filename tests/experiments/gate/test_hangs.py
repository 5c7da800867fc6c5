"""Loops that hang where the blessed ones did not: the run is ended, and the gate says regression by what there is of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.gate.conftest import ALL, arm_of, task
from whichloop.experiments.gate import (
    Baseline,
    bless,
    github_annotations,
    headline,
    judge,
    prepare_again,
    text,
    to_junit,
    to_markdown,
)
from whichloop.experiments.gate.case import case_of
from whichloop.experiments.gate.commands import Rules
from whichloop.experiments.gate.data.troubles import HANG_TRIALS, hung
from whichloop.experiments.gate.ended_run import RerunSettings, interrupted_run
from whichloop.experiments.gate.output.sentences import further_lines
from whichloop.experiments.gate.running import run_unless_it_hangs, with_stall_limit
from whichloop.metrics.record import Record
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Progress, Unwatched
from whichloop.runs.manifest import read_manifest
from whichloop.runs.store.files import RunError

ARM = "bare/clean"
WHY = "no end, and no request or call for 60 s"


def hanging(record: Record) -> Record:
    return replace(record, stop="timeout", reason=WHY, scores={"accuracy": 0.0}) if record.arm == ARM else record


def quick(found: Baseline) -> Baseline:
    """Whatever this machine took."""
    return found.model_copy(update={"slowest_s": 0.2})


def begun(record: Record) -> Record | None:
    """A run that ends after three tasks."""
    return hanging(record) if record.repeat == 0 and record.task in (task(1), task(2), task(3)) else None


def test_of_an_interrupted_run_it_is_known_which_trials_hang_for_sure(altered, baseline, tmp_path, monkeypatch):
    """One that was interrupted does; one of a quiet end may have been slow, and where blessed trials hung it is no news."""
    sure = "it let nothing else run for 11.0 s, and was interrupted at my_loop.py:156"
    monkeypatch.chdir(tmp_path)
    Path("my_loop.py").write_text("pass\n")
    found = altered(lambda record: replace(record, reason=sure) if (record := begun(record)) and record.arm == ARM else record)
    ran = f"interrupted after {len(found.records)} of {found.scheduled} trials"
    known = interrupted_run(found, baseline)
    assert known.sentence == f"{ran}; 3 trials hang, where none of the baseline did, such as {ARM}/{task(1)}/0 ({sure})"
    assert known.place == ("my_loop.py", 156)
    assert interrupted_run(found, None).sentence == f"{ran}; 3 trials hang, such as {ARM}/{task(1)}/0 ({sure})"
    assert (
        interrupted_run(found, bless(altered(lambda record: hanging(record) if record.task == task(9) else record))).sentence == ran
    )
    assert interrupted_run(altered(begun), baseline).sentence == ran
    assert known.sentence_with("whichloop gate") == known.sentence


@pytest.mark.parametrize(("is_blessed", "ends"), [(True, "judged"), (False, "blessed")])
def test_of_a_whole_run_it_is_known_that_it_is_one(wind, baseline, is_blessed, ends):
    """As of one that was interrupted while its doubtful trials ran once more."""
    known = interrupted_run(wind, baseline if is_blessed else None)
    assert known.sentence == f"interrupted after 96 of 96 trials, before the run was {ends}"
    assert known.sentence_with("whichloop gate runs/a") == f"{known.sentence}; go on with: whichloop gate runs/a"


def test_a_run_that_was_ended_since_a_loop_hangs_is_a_regression_and_says_what_was_left_out(altered, baseline):
    judged = judge(altered(begun), baseline, path=Path("b.json"))
    said = f"{ARM} hangs in each of its 3 trials ({WHY})"
    ran = "the run ended after 12 of its 96 trials, and the other 84 did not run"
    assert headline(judged) == f"regression: {said}"
    assert further_lines(judged) == [f"No trial of the baseline ended at its time limit; {ran}."]
    assert (judged.lines, judged.reasons, judged.bless) == ((), (), "")
    assert {change.arm for change in judged.tasks} == {ARM}, "the others have a part of their trials"
    left = "finish/clean, bare/flaky-tools, finish/flaky-tools"
    assert f"Not judged, since the run ended before all of their trials did: {left}." in text(judged)
    (failure,) = ElementTree.fromstring(to_junit(judged)).findall(".//failure")
    assert failure.attrib["message"].startswith(said)
    assert github_annotations(judged)[0].startswith(f"::error title=whichloop gate%3A regression::{said}")
    assert said in to_markdown(judged).replace("\\", "")


def test_a_whole_run_of_a_loop_that_hangs_is_a_regression_with_its_lines_however_few_there_are(altered, baseline):
    judged = judge(altered(hanging), baseline, metrics={"accuracy": 0.9, "tokens": 0.1})
    assert headline(judged).startswith(f"regression: {ARM} hangs in each of its 24 trials ({WHY})")
    assert arm_of(judged, ARM).lines[0].outcome == "regression"
    assert {line.outcome for arm in judged.arms if arm.arm != ARM for line in arm.lines} == {"identical"}


def test_where_the_baseline_hung_too_or_a_trial_ended_nothing_is_said_of_hanging(altered, baseline):
    def once(record: Record) -> Record:
        return hanging(record) if record.task == task(1) else record

    was = bless(altered(once))
    assert judge(altered(begun), was).outcome == "invalid"
    answered = judge(altered(once), baseline)
    assert not any(arm.hangs for arm in answered.arms)


def test_a_loop_that_hangs_is_not_blessed(altered):
    cure = "mend the loop, or run without that arm, and bless the new run"
    with pytest.raises(RunError, match=rf"bare/clean hangs in each of its 3 trials .*; nothing was blessed: {cure}$"):
        bless(altered(begun))


def test_a_run_that_lacks_trials_is_refused_for_them_and_no_loop_is_to_be_mended_though_an_arm_crashed(altered):
    def crashed(record: Record) -> Record | None:
        if record.task == task(9):
            return None
        crash = replace(record, stop="crashed", reason="KeyError: 'x'", scores={"accuracy": 0.0})
        return crash if record.arm == ARM else record

    found = altered(crashed)
    assert [arm.info.arm for arm in found.comparison.dead_arms] == [ARM]
    with pytest.raises(RunError, match=r": 8 of 96 trials are missing; nothing was blessed$"):
        bless(found)


def test_a_trial_whose_killed_process_left_no_trace_has_its_cause(altered, baseline):
    judged = judge(altered(lambda record: None if (found := begun(record)) is None else replace(found, trace_at=None)), baseline)
    (first, *_) = judged.tasks
    assert (first.cause, first.step, first.detail) == ("time limit", None, f"it reached the trial's time limit ({WHY})")


@pytest.mark.parametrize(
    ("slowest", "config", "limit_s"),
    [
        (0.2, {}, 10.0),
        (1.01, {}, 21.0),
        (3.1, {}, 60.0),
        (None, {}, 60.0),
        (0.2, {"trial_timeout_s": 45.0}, 45.0),
        (0.2, {"real_time": True}, 60.0),
    ],
)
def test_a_trial_may_stall_for_twenty_times_the_slowest_blessed_one_unless_a_limit_was_chosen(
    baseline, experiment, slowest, config, limit_s
):
    asked = replace(experiment, config=CompareConfig(**config))
    was = baseline.model_copy(update={"slowest_s": slowest})
    assert with_stall_limit(asked, was).config.trial_timeout_s == limit_s


def test_a_new_run_of_the_gate_has_that_limit_and_its_manifest_the_configured_one(wind, experiment, baseline, tmp_path):
    assert baseline.slowest_s == max(round(record.wall_s, 3) for record in wind.records)
    assert experiment.config.trial_timeout_s == 10.0
    assert read_manifest(experiment.folder).config["trial_timeout_s"] == 60.0
    typed = prepare_again(quick(baseline), tmp_path / "b.json", RerunSettings(runs=tmp_path, trial_timeout_s=60.0))
    assert typed.config.trial_timeout_s == 60.0


class Told(Unwatched):
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.notes: list[str] = []

    def finished(self, record: Record) -> None:
        self.records.append(record)

    def noted(self, text: str) -> None:
        self.notes.append(text)


def play(records: Sequence[Record], experiment: Any, baseline: Any = None) -> Told:
    """Let a run give these records one after the other."""
    told = Told()

    def run(_: Any, progress: Progress) -> str:
        for record in records:
            progress.finished(record)
        return ""

    assert run_unless_it_hangs(experiment, told, baseline, run) == ""
    return told


@pytest.fixture(scope="module")
def experiment(wind, tmp_path_factory):
    folder = tmp_path_factory.mktemp("again")
    return prepare_again(quick(bless(wind)), folder / "b.json", RerunSettings(runs=folder))


def test_a_trial_that_goes_on_for_longer_than_its_limit_is_told_once(wind, baseline, experiment):
    """Its limit is on the time without a request or a call, so it is not ended, and nobody would know why the run takes so long."""
    slow = [replace(record, wall_s=20.0) for record in wind.records]
    told = play(slow, experiment, quick(baseline))
    assert len(told.records) == len(slow)
    (note,) = told.notes
    assert note.startswith(f"{slow[0].name} took 20 s, and the slowest blessed trial ")
    assert play(wind.records, experiment, quick(baseline)).notes == []


def test_no_trial_is_called_slow_that_ran_beside_one_that_hangs(wind, baseline, experiment):
    """It waited for that one, whichever of them ended first."""
    slow = [replace(record, wall_s=20.0) for record in wind.records if record.arm == ARM]
    at_once = experiment.config.in_flight
    assert len(slow) > at_once > 1
    for place in range(at_once + 1):
        records = [*slow[:place], hanging(slow[place]), *slow[place + 1 :]]
        assert not any(" took 20 s, " in note for note in play(records, experiment, quick(baseline)).notes), place


def test_a_slow_trial_is_told_while_the_run_goes_on_and_at_its_end_where_few_are_left(wind, baseline, experiment):
    slow = [replace(record, wall_s=20.0) for record in wind.records]
    for records in (slow, slow[:1]):
        assert sum(" took 20 s, " in note for note in play(records, experiment, quick(baseline)).notes) == 1


def test_the_run_ends_at_the_third_trial_of_a_loop_that_has_only_hung(wind, baseline, experiment):
    told = play(list(map(hanging, wind.records)), experiment, quick(baseline))
    assert [record.arm for record in told.records].count(ARM) == HANG_TRIALS == 3
    assert told.records[-1].arm == ARM
    begin, end = told.notes
    assert begin.startswith("bare/clean: a trial ended at its time limit, 10 s (20 times what the slowest blessed trial took")
    assert "if 3 trials are interrupted, or the first 3 of an arm end there, the run ends" in begin
    assert [end] == [
        "bare/clean hangs: its first 3 trials ended at their time limit, so the run ends, and the other trials are left out"
    ]
    assert len(play(list(map(hanging, wind.records)), experiment).records) == len(told.records), "nothing is to be blessed either"


def test_the_run_goes_on_where_a_trial_ended_by_itself_or_the_baseline_hung(wind, altered, baseline, experiment):
    records = [record if record.task == task(1) else hanging(record) for record in sorted(wind.records, key=lambda r: r.task)]
    assert len(play(records, experiment, baseline).records) == len(records)
    was = bless(altered(lambda record: hanging(record) if record.task == task(1) else record))
    assert len(play(list(map(hanging, wind.records)), experiment, was).records) == len(wind.records)
    errored = [replace(record, status="errored") for record in map(hanging, wind.records)]
    assert len(play(errored, experiment, baseline).records) == len(errored), "a provider's failure is no loop that hangs"


def test_the_run_ends_where_nothing_but_hangs_has_ended_whatever_the_arms(wind, baseline, experiment, altered):
    """Arms take turns, so that the third trial of one would end long after the third of all."""
    first = {record.arm: record for record in wind.records if record.task == task(1) and record.repeat == 0}
    stuck = [replace(record, stop="timeout", reason=WHY, scores={"accuracy": 0.0}) for record in first.values()]
    told = play(stuck, experiment, quick(baseline))
    assert len(told.records) == HANG_TRIALS < len(stuck)
    assert told.notes[-1].startswith("the first 3 trials of all ended at their time limit, so the run ends")
    ended = {record.key: record for record in told.records}
    judged = judge(altered(lambda record: ended.get(record.key)), baseline)
    assert judged.outcome == "regression"
    assert [arm.arm for arm in judged.arms if arm.hangs] == [record.arm for record in told.records]
    assert len(play([wind.records[-1], *stuck], experiment, quick(baseline)).records) == 1 + len(stuck), "one ended by itself"
    assert len(play(stuck, experiment).records) == len(stuck), "to bless is to know why: it takes a whole arm"


# --- hangs that come and go ---

INTERRUPTED = "it let nothing else run for 11.0 s, and was interrupted at my_loop.py:14"


def interrupted_at(names: Collection[str], reason: str = INTERRUPTED) -> Callable[[Record], Record]:
    """The first trials of these tasks hang, in both arms of clean air."""

    def change(record: Record) -> Record:
        stuck = record.task in names and record.repeat == 0 and record.arm.endswith("/clean")
        return replace(record, stop="timeout", reason=reason, scores={"accuracy": 0.0}) if stuck else record

    return change


@given(st.sets(st.sampled_from(ALL)), st.booleans())
def test_the_run_ends_at_the_third_trial_that_was_interrupted_wherever_it_stands(wind, baseline, experiment, names, slow):
    """A trial that only ended in its time limit may have been slow, as on a busy machine: it ends no run by coming and going."""
    change = interrupted_at(names, WHY if slow else INTERRUPTED)
    records = [*(one for one in wind.records if one.task not in names), *map(change, wind.records)]
    told = play(records, experiment, quick(baseline))
    stuck = sum(hung(record) for record in told.records)
    if slow or 2 * len(names) < HANG_TRIALS:
        assert len(told.records) == len(records)
    else:
        assert (stuck, told.records[-1].stop) == (HANG_TRIALS, "timeout")
        assert told.notes[-1].startswith("3 trials hung and were interrupted, the last of them ")


def test_such_a_run_is_a_regression_with_the_line_and_what_did_not_run(altered, baseline):
    change = interrupted_at(ALL[:2])
    judged = judge(altered(lambda record: change(record) if record.task in ALL[:4] else None), baseline, path=Path("b.json"))
    assert headline(judged) == f"regression: bare/clean hangs in 2 of its 8 trials ({INTERRUPTED})"
    assert further_lines(judged)[0] == f"finish/clean hangs in 2 of its 8 trials ({INTERRUPTED})."
    assert "the run ended after 32 of its 96 trials, and the other 64 did not run" in further_lines(judged)[1]
    assert (judged.bless, judged.reasons) == ("", ())
    assert "a run that ended since a loop hangs cannot be blessed" in text(judged)
    two = interrupted_at(ALL[:1])
    few = judge(altered(lambda record: two(record) if record.task in ALL[:4] else None), baseline)
    assert few.outcome == "invalid", "two say nothing of a run that somebody ended"
    assert judge(altered(change), baseline).reasons == ()


def test_where_the_baseline_hung_too_they_end_no_run(wind, altered, baseline, experiment):
    was = bless(altered(interrupted_at(ALL[:1])))
    records = [*(one for one in wind.records if one.task not in ALL[:6]), *map(interrupted_at(ALL[:6]), wind.records)]
    assert len(play(records, experiment, was).records) == len(records)


def test_one_trial_that_hangs_again_makes_all_of_its_arm_count(altered, baseline):
    """One of them is run once more, since each takes its whole limit; another arm's may still be slow."""
    stuck = altered(lambda record: replace(record, stop="timeout", reason="no end", scores={"accuracy": 0.0}))
    first, *_ = [record for record in stuck.records if hung(record)]
    case = case_of(stuck, baseline, Rules({}, 0.05, False), None, [first])
    sure = [record for record in stuck.records if case.hangs(record)]
    assert len(sure) > 1
    assert sure == [record for record in stuck.records if hung(record) and record.arm == first.arm]
    assert not any(case_of(stuck, baseline, Rules({}, 0.05, False), None).hangs(record) for record in stuck.records)
