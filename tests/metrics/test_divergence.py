"""Why a trial was lost: a table of courses that were made up, one for each way to lose, and laws that hold for all of them."""

from __future__ import annotations

import copy
import random
import re
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.lost_trials import ADD, LOST, MUL, Talk, begun, down, landed, ran_otherwise, read, record, repeated, solved
from whichloop.metrics.record import FaultRecord, Record
from whichloop.metrics.trajectory.causes import Cause, Loss
from whichloop.metrics.trajectory.divergence import divergence, explain
from whichloop.metrics.trajectory.traced_trial import TracedTrial
from whichloop.metrics.trajectory.trajectory import course
from whichloop.models.profiles import FAULT_KINDS, WEAKNESS_KINDS
from whichloop.protocol import StopReason

CAUSES = set(get_args(Cause))


def explain_trial(*of: Any) -> Loss:
    return explain(TracedTrial(*of))


@pytest.mark.parametrize("name", LOST)
def test_each_way_to_lose_is_named(name):
    trace, of, cause, detail = LOST[name]
    loss = explain_trial(read(trace), of)
    assert (loss.cause, loss.detail) == (cause, detail)
    assert 1 <= loss.step <= len(course(read(trace)))


def fails_twice(told: str) -> Talk:
    said = "the tool add is out of order today"
    return repeated(2, begun(), lambda talk: talk.call("add", **ADD).ran(said, ok=False, told=False).tell(told))


def carried(fault: str, answer: Any, *, recovered: bool) -> tuple[dict[str, Any], Record]:
    of_result = fault if fault.startswith("inject.") else ""
    talk = begun().call("add", **ADD).ran("14", fault=of_result).answer(answer, fault="" if of_result else fault)
    return talk.ends(answer), record(landed(fault, "decide:c1" if of_result else "decide:answer", recovered=recovered))


CUT = begun().call("add", **ADD).ran("the sum of these two is 14", told=False).tell("the sum").answer(15).ends(15)
SILENT = repeated(2, begun(), lambda talk: talk.ask(move={"move": "text", "text": "Well"})).ends(None, "error_valve")
TWO_TOOLS = repeated(2, begun().call("mul", a=5, b=4).ran("down", ok=False), down).ends(None, "error_valve")


@pytest.mark.parametrize(
    ("trace", "of", "cause", "step"),
    [
        (ran_otherwise(Talk().call("mul", **MUL), "mul", a=4, b=4).ends(None, "crashed"), record(), "crash", 2),
        (ran_otherwise(Talk().call("mul", a="3", b=4), "mul", **MUL).answer(15).ends(15), record(), "other", 2),
        (ran_otherwise(Talk().call("mul", a=3), "mul", **MUL).answer(15).ends(15), record(), "other", 2),
        (Talk().call("mul", **MUL).ran("down", ok=False).ran("12").answer(12).ends(12), record(), "other", 3),
        (begun().call("add", **ADD).ends(None, "max_steps"), record(landed("calls.late", "tool:c1")), "termination", 3),
        (CUT, record(), "lost observation", 2),
        (*carried("inject.answer", "injected", recovered=False), "obeyed instruction", 2),
        (*carried("inject.answer", "15", recovered=True), "other", 3),
        (fails_twice("What is next?").ends(None, "error_valve"), record(), "error not shown", 2),
        (fails_twice("the tool add is out").ends(None, "error_valve"), record(), "fault not recovered", 2),
        (repeated(3, down(begun()), Talk.unreadable).ends("gave up", "error_valve"), record(), "parse", 3),
        (*carried("wire.truncated", 1, recovered=True), "other", 3),
        (SILENT, record(), "termination", 2),
        (TWO_TOOLS, record(), "fault not recovered", 3),  # that of the tool that failed more often
    ],
)
def test_what_comes_close_to_another_cause_is_told_from_it_and_has_its_step(trace, of, cause, step):
    loss = explain_trial(read(trace), of)
    assert (loss.cause, loss.step) == (cause, step)


def test_every_cause_has_its_examples():
    assert {cause for _, _, cause, _ in LOST.values()} == CAUSES


@pytest.mark.parametrize("stop", [*StopReason])
def test_every_stop_has_a_cause(stop):
    assert explain_trial(read(begun().ends(None, stop.value)), record()).cause in CAUSES


@pytest.mark.parametrize("name", LOST)
def test_it_parts_where_the_other_course_has_something_else(name):
    trial, winner = TracedTrial(read(LOST[name][0]), LOST[name][1]), course(read(solved()))
    assert divergence("b", trial.course, trial) is None
    found = divergence("b", winner, trial)
    assert found is not None
    assert (found.winner, found.loser, found.task, found.repeat, found.stop) == ("b", "a", "t1", 0, trial.head.stop)
    assert found.parts_at - 1 in trial.against(winner).unmatched


@given(st.sampled_from(sorted(LOST)), st.sampled_from(sorted(LOST)))
def test_a_cause_has_one_step_whichever_course_the_trial_is_held_against(name, other):
    trial = TracedTrial(read(LOST[name][0]), LOST[name][1])
    alone, held = explain(trial), explain(trial.against(course(read(LOST[other][0]))))
    if held.cause == alone.cause and held.detail.startswith(alone.detail):  # what another course tells stands behind it
        assert held.step == alone.step


# --- what the other course tells ---


def against(lost: dict[str, Any], of: Record | None = None, other: dict[str, Any] | None = None) -> tuple[str, str, int]:
    found = divergence("b", course(read(other or solved())), TracedTrial(read(lost), of or record()))
    assert found is not None
    return found.cause, found.detail, found.step


def test_other_arguments():
    lost = begun().call("add", a=21, b=2).ran("23").answer(23).ends(23)
    said = "called add(a=21, b=2), where the other course called add(a=12, b=2)"
    assert against(lost) == ("tool argument", said, 2)


@pytest.mark.parametrize(("result", "is_cause"), [("the price is 12", False), ("ok", True)])
def test_other_arguments_that_gave_the_same_are_no_cause(result, is_cause):
    """A bare `ok` says nothing of what was done; a result that tells something was the same for the model."""
    lost, won = (begun().call("price", item=item).ran(result) for item in (15, "15"))
    found = against(lost.answer(11).ends(11), other=won.answer(12).ends(12))
    assert (found[0] == "tool argument") is is_cause


def test_an_answer_with_work_left():
    assert against(begun().answer(12).ends(12)) == ("termination", "answered at reply 2 and never called add(a=12, b=2)", 2)


def test_an_error_that_belongs_to_the_task_is_no_obstacle():
    """Both search in vain; only one books the wrong seat."""
    searched = begun().call("find", text="x").ran("nothing found", ok=False)
    won = copy.deepcopy(searched).call("book", seat=1).ran("ok").answer("ok").ends("ok")
    lost = searched.call("book", seat=2).ran("ok").answer("ok").ends("ok")
    assert against(lost, other=won)[:2] == ("tool argument", "called book(seat=2), where the other course called book(seat=1)")


@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 12))
def test_a_limit_is_said_to_be_reached_only_where_as_many_steps_were_made(limit, steps, calls):
    """A loop counts its replies or its calls; where nobody knows its limit, its own word is taken."""
    lost = read(begun().unreadable().ends(None, "max_steps"))
    made = replace(record(), steps=steps, tool_calls=calls)
    said = explain(TracedTrial(lost, made, limit=limit)).detail
    left = limit - max(steps, calls)
    assert ("then the limit was reached" in said) == (left <= 0)
    assert (f"then the loop ended (max_steps) {left} step{'s' * (left > 1)} before its limit" in said) == (left > 0)
    assert "then the limit was reached" in explain(TracedTrial(lost, made)).detail
    finished = read(begun().answer(12).ends(12))
    assert TracedTrial(finished, made, limit=limit).steps_left == 0


def test_what_was_stuck_last_counts_not_what_was_overcome():
    talk = repeated(3, begun(), Talk.unreadable)
    lost = repeated(2, talk.call("sub", a=1, b=1).ran("0"), down).ends(None, "max_steps")
    assert explain_trial(read(lost), record()).cause == "fault not recovered"


def test_a_scripted_model_without_an_answer_is_no_parse_failure():
    """It forgot, reached the limit, and had nothing that fits the form it was asked for at the end."""
    talk = begun().call("mul", fault="decision.forget", **MUL).ran("[r:0123ab.4567] 12 [0123ab.4567:r]").unreadable(role="answer")
    loss = explain_trial(read(talk.ends(None, "parse_failed")), record(landed("decision.forget", "decide:c1", recovered=True)))
    assert loss.cause == "lost observation"


# --- hostile traces ---


@given(st.sampled_from(sorted(LOST)), st.randoms(), st.sampled_from([None, 3, "x", [], {}, [{}], float("nan"), True]))
def test_a_damaged_trace_has_a_cause_or_is_refused_in_one_line(name, random_: random.Random, value):
    trace = copy.deepcopy(LOST[name][0])
    places = [(event, key) for event in trace["events"] for key in event] + [(trace, key) for key in trace]
    item, key = random_.choice(places)
    item[key] = value
    try:
        said = explain_trial(read(trace), LOST[name][1]).detail
    except ValueError as refused:
        said = str(refused)
    assert said
    assert "\n" not in said


KINDS = [*FAULT_KINDS, *WEAKNESS_KINDS, "of a later version"]
FAULT = st.builds(
    FaultRecord, st.sampled_from(KINDS), st.text(max_size=8) | st.just("decide:c1"), st.booleans(), st.booleans(), st.booleans()
)


@given(st.sampled_from(sorted(LOST)), st.sampled_from(sorted(LOST)), st.lists(FAULT, max_size=3).map(tuple), st.randoms())
def test_marks_and_faults_of_any_kind_do_no_harm(name, other, faults, random_: random.Random):
    trace = copy.deepcopy(LOST[name][0])
    for event in trace["events"]:
        if random_.random() < 0.7:
            event["fault"] = random_.choice(KINDS)
    trial = TracedTrial(read(trace), record(*faults, reason="two\nlines"))
    for held in (trial, trial.against(course(read(LOST[other][0]))), trial.against(course(read(solved())))):
        loss = explain(held)
        assert loss.cause in CAUSES
        assert 1 <= loss.step <= len(trial.course)
        assert not re.search(r"[\n\r]", loss.detail)
