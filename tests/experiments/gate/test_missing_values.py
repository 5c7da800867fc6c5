"""A share that some trials do not have: what a trial counts for that has no value on one side."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.gate.conftest import ALL, arm_of, failing, task
from tests.experiments.gate.test_better_here import of_other_code
from whichloop.experiments.compare.results import Results
from whichloop.experiments.gate import Baseline, GateResult, bless, judge
from whichloop.metrics.record import Record

ARM = "bare/clean"
DOUBLED = {"calls_doubled": 0.02}
OPEN_OR_LOST = ("undecided", "worse here", "regression")
Trials = Collection[tuple[str, int]]
TRIALS = st.sets(st.tuples(st.sampled_from(ALL), st.sampled_from([0, 1])), max_size=8)


def counting(trials: Trials, **call_counts: int) -> Callable[[Record], Record]:
    """These trials of an arm have other counts of calls; none where no call was asked for."""

    def change(record: Record) -> Record:
        is_changed = record.arm == ARM and (record.task, record.repeat) in trials
        return replace(record, call_counts=call_counts) if is_changed else record

    return change


def changed(found: Results, *changes: Callable[[Record], Record]) -> Results:
    for change in changes:
        found = replace(found, records=tuple(map(change, found.records)))
    return found


def blessed(found: Results, *changes: Callable[[Record], Record]) -> Baseline:
    """The changed run as a baseline, of loops whose code was another."""
    return of_other_code(bless(changed(found, *changes)))


def graveness(judged: GateResult) -> tuple[int, int]:
    """How grave the outcome of the whole is, and that of the share: what passes is not grave at all."""
    of_share = next((line.outcome for line in arm_of(judged, ARM).lines if line.metric == "calls_doubled"), "pass")
    whole, share = (OPEN_OR_LOST.index(found) + 1 if found in OPEN_OR_LOST else 0 for found in (judged.outcome, of_share))
    return whole, share


@settings(max_examples=cases(8))
@given(TRIALS, TRIALS, TRIALS, st.booleans())
def test_the_best_value_where_the_baseline_has_none_makes_no_outcome_worse(untraced, lacking, doubled_then, doubled_now, gains):
    """Whatever the other trials are: the share of a trial that had no call and now has none that ran twice is no loss."""
    gained = [failing(task(1), arm=ARM)] if gains else []
    baseline = blessed(untraced, *gained, counting(doubled_then, asked=2, doubled=1), counting(lacking))
    run = changed(untraced, counting(doubled_now, asked=2, doubled=1))
    without, with_best = (changed(run, counting(lacking, **counts)) for counts in ({}, {"asked": 2}))
    had_none, has_best = (graveness(judge(found, baseline, metrics=DOUBLED)) for found in (without, with_best))
    assert has_best[0] <= had_none[0]
    assert has_best[1] <= had_none[1]


def test_a_loop_that_got_better_where_no_call_had_run_is_better_here(wind):
    """Calls ran in one trial of a task, and in the other none; now they run in both, and the task is solved."""
    baseline = blessed(wind, failing(task(1), arm=ARM), counting([(task(1), 1)]))
    judged = judge(changed(wind, counting([(task(1), 1)], asked=1)), baseline, metrics=DOUBLED)
    assert judged.outcome == "better here"
    line = next(line for line in arm_of(judged, ARM).lines if line.metric == "calls_doubled")
    assert (line.outcome, line.effect.value) == ("unchanged", 0.0)


def test_a_worse_value_where_the_baseline_has_none_is_no_gain(wind):
    baseline = blessed(wind, failing(task(1), arm=ARM), counting([(task(1), 1)]))
    judged = judge(changed(wind, counting([(task(1), 1)], asked=1, doubled=1)), baseline, metrics=DOUBLED)
    assert judged.outcome == "undecided"


@pytest.mark.parametrize(
    ("stop", "accuracy", "outcome"),
    [("crashed", 0.0, "regression"), ("max_steps", 0.0, "worse here"), ("max_steps", 1.0, "undecided")],
)
def test_a_value_that_is_gone_since_the_loop_broke_is_seen_by_accuracy_and_stops(wind, stop, accuracy, outcome):
    places = [(task(2), 0), (task(2), 1)]

    def breaking(record: Record) -> Record:
        if record.arm != ARM or record.task != task(2):
            return record
        return replace(record, stop=stop, scores={"accuracy": accuracy}, reason="RuntimeError: x", call_counts={})

    judged = judge(changed(wind, breaking), blessed(wind, counting(places, asked=2, doubled=1)), metrics=DOUBLED)
    assert judged.outcome == outcome


def test_a_share_that_no_trial_has_on_both_sides_is_said_not_to_be_judged(wind):
    """Each task has the share on both sides, and each time in another trial."""
    first, second = ([(name, repeat) for name in ALL] for repeat in (0, 1))
    judged = judge(changed(wind, counting(second)), blessed(wind, counting(first)), metrics=DOUBLED)
    assert "Not judged: calls_doubled of bare/clean, which no trial has both in the baseline and in the run." in judged.notes
    of_tasks = judge(changed(wind, counting(ALL_TRIALS)), blessed(wind).model_copy(update={"seed": 5}), metrics=DOUBLED)
    assert "Not judged: calls_doubled of bare/clean, which no task has both in the baseline and in the run." in of_tasks.notes


ALL_TRIALS = [(name, repeat) for name in ALL for repeat in (0, 1)]
