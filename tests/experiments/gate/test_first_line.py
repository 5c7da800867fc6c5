"""What the first line puts first: tasks that were gained or lost before bills, and a bound of nothing as 0."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopbench.experiments.gate import bless, headline, judge
from loopbench.experiments.gate.line_words import effect_in_words
from loopbench.metrics.gate import Bounds
from loopbench.metrics.record import Record
from tests.experiments.gate.conftest import ALL, arm_of, failing
from tests.experiments.gate.test_better_here import of_other_code


def cheaper(record: Record) -> Record:
    return replace(record, input_tokens=record.input_tokens // 2)


def test_what_a_passing_run_gained_stands_before_its_bill(altered):
    was = of_other_code(
        bless(altered(lambda record: replace(record, scores={"accuracy": 0.0}) if record.task in ALL[:8] else record))
    )
    judged = judge(altered(cheaper), was, metrics={"accuracy": 0.02, "tokens": 0.1})
    gained = sum(change.became == "better" for change in judged.tasks)
    assert gained > 24
    assert headline(judged).startswith(f"pass: {gained} task-arm pairs better, none worse; better: ")


def poor(record: Record) -> Record:
    return replace(record, scores={"accuracy": 0.0}) if record.task in ALL[:8] else record


def test_scores_are_said_to_stay_only_where_accuracy_did(altered):
    """Another metric that stayed in every trial of one arm says nothing of scores, and what was gained stands first."""
    was = of_other_code(bless(altered(poor)))
    judged = judge(altered(lambda record: record), was, metrics={"accuracy": 0.5, "false_success_rate": 0.02})
    said = headline(judged)
    assert {line.outcome for line in judged.lines if line.metric == "accuracy"} == {"pass"}
    assert "has the score" not in said
    assert "task-arm pairs better, none worse; " in said.partition(": ")[2]


@pytest.mark.parametrize("arm", ["bare/clean", "finish/clean"])
def test_a_change_both_ways_begins_with_both_counts(altered, arm):
    was = of_other_code(bless(altered(failing(*ALL[:2], arm="bare/clean"))))
    judged = judge(altered(failing(*ALL[4:7], arm=arm)), was)
    if arm == "bare/clean":
        assert headline(judged).startswith(f"{judged.outcome}: 3 task-arm pairs worse, 2 better; ")
    else:
        assert headline(judged).startswith("worse here: 3 tasks lost, none gained in finish/clean")


@given(st.sampled_from([0.0, -0.0]), st.floats(-0.0004, 0.0004), st.booleans())
def test_no_bound_is_minus_nothing(wind_line, zero, small, short):
    line = replace(wind_line, outcome="pass", effect=Bounds(zero, small, zero))
    assert "-0.000" not in effect_in_words(line, short=short)
    assert "-.00" not in effect_in_words(line, short=short)
    written = json.loads(json.dumps(line.to_json()["effect"]))
    assert all(math.copysign(1, number) == 1 or number for number in written.values())


@pytest.fixture(scope="module")
def wind_line(wind):
    return arm_of(judge(wind, bless(wind)), "bare/clean").lines[0]
