"""Where a trial parts from its blessed counterpart: an early end that no fault explains, and answers that are others."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.checks.loop.scaffold import new_loop
from whichloop.experiments.compare.results import Results
from whichloop.experiments.gate import Baseline, bless, github_annotations, headline, judge, to_junit
from whichloop.experiments.gate.changes.other_changes import ANSWER_TYPE, ANSWERS, COURSE, differences, other_answers
from whichloop.experiments.gate.changes.traced_trials import TracedTrials, _ended_early
from whichloop.experiments.gate.data.findings import OtherAnswers, is_of_type_alone
from whichloop.experiments.gate.data.sides import TrialPair
from whichloop.experiments.gate.output.next_steps import next_steps
from whichloop.experiments.gate.output.sentences import further_lines
from whichloop.metrics.record import Record
from whichloop.metrics.trajectory.divergence import ended_unread, explain, read_trial
from whichloop.protocol.digest import canonical_json
from whichloop.runs.store.traces import Traces, read_trace

UNREAD = 'messages.append(Message("user", f"Error: {error}"))\n                continue'
"""What a first loop does about a reply that it cannot read."""
ANSWER = st.integers(-9, 9) | st.integers(-9, 9).map(str)
BLESSED = ("a1", "b2", "c3", "d4")


@pytest.mark.parametrize(
    ("stop", "own", "step"),
    [
        ("max_steps", ("a1", "b2", "e5"), 3),
        ("unfinished", ("a1", "e5"), 2),
        ("max_steps", ("a1", "x9", "e5"), None),
        ("max_steps", ("a1", "b2", "c3", "e5"), None),
        ("error_valve", ("a1", "b2", "e5"), None),
        ("finished", ("a1", "b2", "e5"), None),
    ],
)
def test_a_loop_that_ends_where_the_blessed_one_went_on_is_told_by_that_and_not_by_what_both_met(wind, stop, own, step):
    found = _ended_early(replace(wind.records[0], stop=stop), BLESSED, own)
    assert (None if found is None else found.step) == step
    if found is not None:
        steps = f"{len(BLESSED) - len(own)} step{'s' * (len(BLESSED) - len(own) > 1)}"
        assert (found.cause, steps in found.detail) == ("termination", True)


def test_a_loop_that_gives_up_at_a_reply_it_cannot_read_is_told_as_show_tells_it(fresh, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    made = new_loop("gives_up", tmp_path)
    text = made.loop.read_text()
    assert text.count(UNREAD) == 1
    asked = {"loops": (made.target,), "profiles": ("flaky-format",)}
    blessed = bless(fresh(**asked))
    made.loop.write_text(text.replace(UNREAD, "return Outcome(None, StopReason.MAX_STEPS, step + 1)"))
    sys.modules.pop("gives_up", None)
    found = fresh(**asked)
    limits = found.manifest.step_limits
    trials = {one.key: read_trial(read_trace(found.folder, one), one, limit=limits[one.arm]) for one in found.records}
    lost = [change for change in judge(found, blessed).tasks if change.became == "worse"]
    assert len(lost) >= 3
    for change in lost:
        alone = trials[change.trial]
        assert ended_unread(alone)
        assert (change.cause, change.step) == ("parse", explain(alone).step)
        assert change.detail.startswith(explain(alone).detail)
        assert f"then the loop ended (max_steps) {alone.steps_left} step" in change.detail


def test_answers_that_are_others_are_told_beside_moves(wind: Results, baseline: Baseline):
    record = wind.records[0]
    line = baseline.arms[record.arm].tasks[record.task]
    assert line.course is not None
    steps = line.course[record.repeat].split()

    def differ(course: list[str]) -> tuple[str, ...]:
        courses = tuple(" ".join(course) if n == record.repeat else old for n, old in enumerate(line.course or ()))
        return differences(TracedTrials(wind.folder, {}), [TrialPair(line.model_copy(update={"course": courses}), record)])

    assert differ([*steps[:-1], "000000"]) == (ANSWERS,)
    assert differ(["000000", *steps[1:]]) == (COURSE,)
    assert differ(["000000", *steps[1:-1], "000000"]) == (COURSE, ANSWERS)


@pytest.mark.parametrize(("score", "said"), [(1.0, True), (0.0, False)])
def test_another_form_of_an_answer_is_told_with_an_example_where_it_scores(
    wind: Results, baseline: Baseline, score: float, said: bool
):
    record = replace(next(record for record in wind.records if record.accuracy), answer=["two", 2], scores={"accuracy": score})
    line = baseline.arms[record.arm].tasks[record.task]
    assert line.answer is not None
    was, where = line.answer[record.repeat], f"{record.arm}/{record.task}/{record.repeat}"
    one = "1 trial with a score above 0 has the same score with another answer"
    one += f', such as {where}: {was} → ["two",2], a text in the baseline and a list now.'
    found = other_answers(wind.folder, [TrialPair(line, record)])
    assert ("" if found is None else found.sentence) == one * said
    assert other_answers(wind.folder, [TrialPair(line.model_copy(update={"answer": None}), record)]) is None, "an older baseline"


def test_an_answer_of_another_type_is_told_as_that_and_fails_where_it_is_asked_for(altered, baseline):
    """42 and "42" score the same, and whoever reads the answer may not take them for the same."""

    def typed(record: Record) -> Record:
        is_number = record.arm == "bare/clean" and str(record.answer).isdecimal()
        return replace(record, answer=json.loads(str(record.answer))) if is_number else record

    judged = judge(altered(typed), baseline)
    assert judged.outcome == "unchanged"
    assert judged.differs_in == (ANSWER_TYPE,)
    assert judged.other_answers is not None
    assert judged.other_answers.sentence in judged.notes
    assert judged.with_answers_held("pass") == judged
    held = judged.with_answers_held("fail")
    assert held.fails_for_answers
    count = sum(str(record.answer).isdecimal() for record in altered().records if record.arm == "bare/clean")
    said = f"other answers: {count} trials with a score above 0 have the same score with an answer of another type"
    assert headline(held) == f"{said}, which --on-other-answers fail forbids"
    example, show, *_ = further_lines(held)
    assert re.fullmatch(r'Such as (\S+): "(\d+)" → \2, a text in the baseline and a number now\.', example)
    assert show == judged.other_answers.command
    assert show.startswith(f"whichloop show {judged.run} bare/clean/")
    assert (headline(judged).partition(":")[0], held.to_json()["word"]) == ("unchanged", "other answers")
    step = next_steps(held)[0]
    assert step.say == "Fix the loop, or bless the run if the other answers are meant:"
    assert step.commands == (f"whichloop bless {judged.run} -o FILE",)
    assert next_steps(judged)[0].commands == (f"whichloop bless {judged.run} -o FILE # only if the other answers are meant",)
    undecided = replace(held, outcome="undecided")
    assert next_steps(undecided)[0] == step, "whatever the outcome is"
    assert github_annotations(held)[0].startswith("::error ")
    assert judged.other_answers.sentence in {
        case.attrib["message"] for case in ElementTree.fromstring(to_junit(held)).iter("failure")
    }
    assert not judge(altered(), baseline).with_answers_held("fail").fails_for_answers


@given(st.lists(st.tuples(ANSWER, ANSWER), min_size=1))
def test_what_is_said_of_other_answers_tells_those_that_are_others_in_their_type_alone(pairs):
    """An answer and what it reads as: a text of a number is of another type alone, a text of another number is another answer."""
    texts = [(canonical_json(was), canonical_json(now if number % 2 else str(was))) for number, (was, now) in enumerate(pairs)]
    alone = sum(is_of_type_alone(was, now) for was, now in texts)
    for was, now in texts:
        assert is_of_type_alone(was, now) == is_of_type_alone(now, was)
        assert is_of_type_alone(was, now) == (str(json.loads(was)) == str(json.loads(now)) and was != now)
    said = OtherAnswers(len(texts), alone, "a/t/0", *texts[0], "").sentence
    assert ("of another type" in said) == (alone == len(texts))
    assert (" in its type alone" in said) == (0 < alone < len(texts))
    assert (" in the baseline and " in said) == (texts[0][0][0] == '"') ^ (texts[0][1][0] == '"')


def test_a_trace_is_read_once_for_all_that_is_told_of_its_trial(wind, baseline, monkeypatch):
    """What it was lost to, what it differs in and what the loop altered there; of more trials than it holds some are read again."""
    record, read = wind.records[0], Mock(side_effect=Traces.read)
    line = baseline.arms[record.arm].tasks[record.task]
    monkeypatch.setattr(Traces, "read", lambda traces, asked: read(traces, asked))
    traced = TracedTrials(wind.folder, {record.arm: 7})
    first = traced.read(record, line, record.repeat)
    assert first.limit == 7
    assert [step.signature for step in first.course] == list(first.other)
    assert traced.read(record, line, record.repeat) is first
    assert read.call_count == 1
    assert traced.read(record, line, 1 - record.repeat) is not first
    monkeypatch.setattr("whichloop.experiments.gate.changes.traced_trials.HELD_BYTES", 1)
    other = wind.records[1]
    traced.read(other, baseline.arms[other.arm].tasks[other.task], other.repeat)
    assert traced.read(record, line, record.repeat) is not first
    with pytest.raises(ValueError, match="has no trace"):
        traced.read(replace(record, repeat=9, trace_at=None), line, 0)
