"""Feedback: sentences in a fixed order from a trial's record and trace, whatever they hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whichloop.datasets.task import Suite, Task
from whichloop.experiments.optimize.feedback import ALL_WELL, MAX_CHARS, MAX_SENTENCE_CHARS, MAX_SENTENCES, feedback
from whichloop.loops.bare import Bare
from whichloop.metrics.record import Record
from whichloop.metrics.trace import Trace, TraceError
from whichloop.models.profiles import Profile, load_profile
from whichloop.protocol import Plan, PlannedCall, Query, Ref

Event = dict[str, Any]

RATE = PlannedCall("c1", "rate", {"currency": "SEK"}, "Find the rate.")
PAY = PlannedCall("c2", "pay", {"amount": Ref("c1", ("value",)), "to": "Ann"}, "Pay it.")
TASK = Task("t1", Query("Pay Ann."), 42, "numeric", Plan((RATE, PAY), Ref("c2")))
RATED, PAID = (
    ("rate", {"currency": "SEK"}, '[r:0a1b2c.3d4e] {"value": 7} [0a1b2c.3d4e:r]'),
    ("pay", {"amount": 7, "to": "Ann"}, "42"),
)


def record(accuracy: float = 0.0, **changes: Any) -> Record:
    values = {"status": "scored", "stop": "finished", "answer": "41", "scores": {"accuracy": accuracy}}
    return Record("a", "s", "d", "t1", 0, 0, **{**values, **changes})


def tool(name: str, arguments: Any, data: str, status: str = "success", **more: Any) -> Event:
    return {"event": "tool", "tool": name, "arguments": arguments, "status": status, "data": data, **more}


def read(trace: Any) -> Trace | None:
    """Read a trace as JSON; None for what is not one."""
    try:
        return Trace.from_json(trace)
    except TraceError:
        return None


WRONG = record()


def lines(*events: Event, task: Task = TASK, record: Record = WRONG, **trace: Any) -> list[str]:
    return feedback(record, read({"events": list(events), **trace}), task).splitlines()


# --- the contract ---


def test_feedback_on_a_trial_without_mistakes_says_that_all_went_as_planned() -> None:
    assert feedback(record(1.0), read({"events": [tool(*RATED), tool(*PAID)]}), TASK) == ALL_WELL == "Everything went as planned."
    assert feedback(record(1.0), None, TASK) == ALL_WELL


def test_a_wrong_answer_is_put_beside_the_expected_one() -> None:
    assert feedback(record(), None, TASK) == 'The answer was "41", expected 42.'


@pytest.mark.parametrize("is_text", [True, False])
def test_an_object_is_told_by_what_differs(is_text: bool) -> None:
    lines = {"lines": ["pieces"] * 100}
    task = replace(TASK, expected={**lines, "sum": 7, "buyer": "Ann"})
    given = {"buyer": "Ann", **lines, "sum": 8, "note": "x"}
    told = record(answer=json.dumps(given) if is_text else given)
    assert feedback(told, None, task) == 'The answer was {"sum": 8, "note": "x"}, expected {"sum": 7}.'


def test_objects_that_only_the_scorer_tells_apart_are_told_whole() -> None:
    text = feedback(record(answer={"paid": 1}), None, replace(TASK, expected={"paid": True}))
    assert text == 'The answer was {"paid": 1}, expected {"paid": true}.'


@pytest.mark.parametrize("stop", ["max_steps", "error_valve", "parse_failed", "timeout", "crashed"])
def test_an_answer_that_is_none_is_told_by_its_stop(stop: str) -> None:
    told = record(stop=stop, answer="Maximum steps reached without final answer")
    assert feedback(told, None, TASK) == f"No answer: {stop}."


def test_all_sentences_in_their_order() -> None:
    events = [
        {"event": "ask", "role": "decide", "messages": [], "reply": "?", "wire_error": "No JSON\n at all."},
        tool("rate", {"currency": "sek"}, "unknown currency", "error", error_type="KeyError"),
        tool("rate", {"currency": "EUR"}, "11"),
    ]
    assert lines(*events) == [
        'The answer was "41", expected 42.',
        'Argument currency of rate was "sek"; the plan has "SEK".',
        'The plan\'s call pay({"amount": "<result of rate>", "to": "Ann"}) was never made.',
        "Tool rate failed: unknown currency.",
        "The reply could not be read: No JSON at all.",
    ]


# --- calls beside the plan's ---


def test_results_in_the_trace_stand_for_references() -> None:
    wrong = ("pay", {"amount": 8, "to": "Ann"}, "42")
    assert lines(tool(*RATED), tool(*wrong))[1:] == ["Argument amount of pay was 8; the plan has 7."]
    assert lines(tool(*RATED))[1:] == ['The plan\'s call pay({"amount": 7, "to": "Ann"}) was never made.']


def test_what_follows_from_a_wrong_call_is_not_blamed() -> None:
    events = [tool("rate", {"currency": "EUR"}, '{"value": 8}'), tool("pay", {"amount": 8, "to": "Ann"}, "41")]
    assert lines(*events)[1:] == ['Argument currency of rate was "EUR"; the plan has "SEK".']


def test_a_disturbed_result_is_no_truth() -> None:
    events = [tool("rate", {"currency": "SEK"}, '{"value": 99}', fault="garbage"), tool(*PAID)]
    assert lines(*events)[1:] == []
    assert lines(*events, tool(*RATED))[1:] == []


@pytest.mark.parametrize(
    "first", [tool("rate", {"currency": "SEK"}, "{}", fault="garbage"), tool("rate", {"currency": "SEK"}, "no", "error")]
)
def test_a_call_that_got_through_in_the_end_counts(first: Event) -> None:
    told = lines(first, tool(*RATED), tool("pay", {"amount": 8, "to": "Ann"}, "41"))
    assert told[1] == "Argument amount of pay was 8; the plan has 7."


def test_a_call_made_again_is_not_taken_for_another() -> None:
    second = PlannedCall("c2", "rate", {"currency": "NOK"}, "Find the other rate.")
    task = replace(TASK, plan=Plan((RATE, second), 42))
    assert lines(tool(*RATED), tool(*RATED), task=task)[1:] == ['The plan\'s call rate({"currency": "NOK"}) was never made.']


def test_an_argument_that_is_left_out_or_too_many_counts_as_null() -> None:
    events = [tool("rate", {"day": 3}, "1")]
    assert lines(*events)[1:3] == [
        'Argument currency of rate was null; the plan has "SEK".',
        "Argument day of rate was 3; the plan has null.",
    ]


def test_an_alternative_is_as_good() -> None:
    other = PlannedCall("c1", "look_up", {"what": "SEK"}, "Look it up.")
    task = replace(TASK, plan=Plan((replace(RATE, alternatives=(other,)), PAY), Ref("c2")))
    assert lines(tool("look_up", {"what": "SEK"}, '{"value": 7}'), tool(*PAID), task=task)[1:] == []


def test_a_failure_that_the_plan_expects_is_none() -> None:
    task = replace(TASK, plan=Plan((replace(RATE, fails=True),), 42))
    failed = tool("rate", {"currency": "SEK"}, "closed", "error")
    assert lines(failed, task=task, record=record(1.0)) == [ALL_WELL]
    assert lines(failed, record=record(1.0)) == ["Tool rate failed: closed."]


def test_another_way_to_a_right_answer_is_right() -> None:
    assert lines(tool("rate", {"currency": "EUR"}, "11"), record=record(1.0)) == [ALL_WELL]


def test_without_plan_or_trace_nothing_is_said_of_calls() -> None:
    assert lines(tool("rate", {}, "11"), task=replace(TASK, plan=None)) == ['The answer was "41", expected 42.']
    assert feedback(record(), read({}), TASK) == 'The answer was "41", expected 42.'


# --- other outcomes ---


def test_an_end_state_is_told_by_what_differs() -> None:
    task = replace(TASK, end_state={"paid": ["Ann"], "open": 0})
    told = record(scores={"accuracy": 0.0, "answer": 1.0, "state": 0.0})
    state = {"expected": task.end_state, "found": {"paid": [], "open": 0, "late": 1}}
    assert lines(tool(*RATED), tool(*PAID), task=task, record=told, end_state=state) == [
        'The end state was {"paid": [], "late": 1}, expected {"paid": ["Ann"]}.'
    ]


def test_what_was_not_scored_says_why() -> None:
    told = record(status="errored", reason="provider: key sk-abcdefghijklmnop1234 refused.")
    assert feedback(told, None, TASK) == "The trial could not be scored: provider: key [redacted] refused."


def test_a_low_score_that_nothing_explains_is_told() -> None:
    told = record(0.5, scores={"accuracy": 0.5, "answer": 1.0, "state": 0.5})
    assert feedback(told, read({"events": [tool(*RATED), tool(*PAID)]}), TASK) == "The score was 0.5 of 1."


# --- whatever they hold ---

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["rate", "pay", "[r:0a1b2c.3d4e]", "[0a1b2c.3d4e:r]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.just("value"), inner, max_size=3),
    max_leaves=6,
)
EVENT = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {"event": st.sampled_from(["tool", "ask", "note"])},
        optional={
            "tool": st.sampled_from(["rate", "pay"]) | JSON,
            "arguments": st.dictionaries(st.sampled_from(["currency", "amount", "to"]), JSON) | JSON,
            "status": st.sampled_from(["success", "error"]) | JSON,
            "data": st.just('{"value": 7}') | JSON,
            "wire_error": JSON,
            "fault": JSON,
        },
    ),
)
TRACE = st.fixed_dictionaries({}, optional={"events": st.lists(EVENT, max_size=6) | JSON, "end_state": JSON})


@given(
    trace=st.none() | TRACE,
    answer=JSON,
    expected=JSON,
    accuracy=st.sampled_from([0.0, 0.5, 1.0]),
    stop=st.none() | st.sampled_from(["finished", "max_steps"]),
    end_state=JSON,
    is_planned=st.booleans(),
)
@example(
    trace={"events": [{"event": "tool", "tool": "a\nb", "arguments": {"c\nd": "\u2028"}, "status": 0, "data": "\x85"}]},
    answer="x\u2028y",
    expected=float("nan"),
    accuracy=0.0,
    stop="finished",
    end_state=None,
    is_planned=True,
)
def test_any_trace_gives_bounded_sentences_without_receipts(
    trace: Any, answer: Any, expected: Any, accuracy: float, stop: str | None, end_state: Any, is_planned: bool
) -> None:
    task = replace(TASK, expected=expected, end_state=end_state, plan=TASK.plan if is_planned else None)
    told = record(accuracy, answer=answer, stop=stop, scores={"accuracy": accuracy, "state": accuracy})
    text = feedback(told, read(trace), task)
    assert text == feedback(told, read(trace), task)
    found = text.splitlines()
    assert 1 <= len(found) <= MAX_SENTENCES + 1
    assert len({*found}) == len(found)
    assert all(line.endswith((".", "…", ".)")) for line in found)
    assert all(len(line) <= MAX_SENTENCE_CHARS + 1 for line in found)
    assert "0a1b2c.3d4e" not in text
    assert (ALL_WELL in found) <= (found == [ALL_WELL] and accuracy == 1)


def test_what_is_long_or_much_is_cut_after_secrets_are_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "open-sesame-99")
    long = "x" * (MAX_CHARS - 12) + " open-sesame-99 " + "y" * 50
    (sentence,) = lines(record=record(answer=long), task=replace(TASK, plan=None))
    assert "sesame" not in sentence
    assert sentence.endswith("…, expected 42.")
    many = lines(*(tool("rate", {}, f"error {number}", "error") for number in range(40)), task=replace(TASK, plan=None))
    assert len(many) == MAX_SENTENCES + 1
    assert many[-1] == f"({41 - MAX_SENTENCES} more.)"


def nested(levels: int) -> Any:
    made: Any = 1
    for _ in range(levels):
        made = [made]
    return made


def test_what_is_nested_deep_is_still_told() -> None:
    deep = nested(50_000)
    assert lines(tool("rate", {"currency": deep}, "1"), record=record(answer=deep))[0].endswith("expected 42.")


# --- real trials ---


@pytest.mark.parametrize("profile", ["clean", "flaky-tools", "flaky-format"])
def test_trials_of_real_suites(profile: str, arithmetic_suite: Suite, one_trial: Callable[..., Any]) -> None:
    right = wrong = 0
    for task in arithmetic_suite.tasks[:12]:
        suite = replace(arithmetic_suite, tasks=(task,))
        done = one_trial(Bare(), suite, profile=profile)
        text = feedback(done.record, read(json.loads(done.trace)), task)
        assert "[r:" not in text
        if done.record.accuracy == 1:
            right += 1
            assert "never made" not in text
            assert "The answer was" not in text
        else:
            wrong += 1
            assert text != ALL_WELL
        if profile == "clean":
            assert (done.record.accuracy, text) == (1.0, ALL_WELL)
    assert right


def test_a_weakness_is_named_with_what_the_plan_has(arithmetic_suite: Suite, one_trial: Callable[..., Any]) -> None:
    profile = load_profile("teachable")
    assert isinstance(profile, Profile)
    texts = []
    for task in arithmetic_suite.tasks[:20]:
        done = one_trial(Bare(), replace(arithmetic_suite, tasks=(task,)), profile="teachable")
        texts.append(feedback(done.record, read(json.loads(done.trace)), task))
    assert any("Argument " in text and "; the plan has " in text for text in texts)
