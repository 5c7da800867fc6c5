"""Each outcome is earned by an agent that behaves so, and by no other; none by accident, by its pace or by any run's words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.checks.program.agents import Habits, agent
from whichloop.checks.program import Trouble
from whichloop.checks.program.agent_faults import BY_NAME, FAULTS, SUBJECT, WEAK_SIGNS, LoggedRequest, telling_request
from whichloop.checks.program.check import check_program
from whichloop.checks.program.naming import agent_of
from whichloop.programs.function import FunctionLoop
from whichloop.protocol import Message, Reply, Request

LIMITS: dict[str, Any] = {"max_requests": 25, "hang_s": 0.2}
MISTAKES = ("cut_json", "cut_length", "list_arguments", "missing_argument", "wrong_type", "unknown_tool")
TROUBLE = ("rate_limit", "server_error_once", "dropped", "cut_stream")


@pytest.fixture(scope="module")
def whole():
    """Every fault, on an agent that says what was wrong."""
    return check_program(agent(Habits()), **LIMITS)


def test_an_agent_that_says_what_was_wrong_is_told_of_every_mistake(whole):
    found = {finding.fault: finding.outcome for finding in whole.findings}
    assert {name: found[name] for name in (*MISTAKES, "extra_argument", "tool_raises", "one_of_two_fails")} == dict.fromkeys(
        (*MISTAKES, "extra_argument", "tool_raises", "one_of_two_fails"), "told"
    )
    assert {found[name] for name in ("empty", "prose", "refusal")} == {"told"}
    assert {found[name] for name in TROUBLE} == {"handled"}
    assert found["server_error_always"] == found["never_finishes"] == found["repeats"] == "error"
    assert found["tool_hangs"] == found["one_of_two_hangs"] == "unlimited"
    assert found["two_calls"] == found["late_first"] == found["write_and_read"] == "handled"
    assert found["huge_result"] == "error"
    assert set(found) == {fault.name for fault in FAULTS}


def test_what_calls_at_once_do_to_each_other():
    """One after the other is never wrong; at once is, where one call reads what the other changes."""
    order = [BY_NAME[name] for name in ("late_first", "write_and_read")]
    for name, outcomes_of_order in {
        "finish": ["handled", "handled"],
        "finish(parallel_tools=true)": ["handled", "silent"],
        "bare": ["not applicable", "not applicable"],
    }.items():
        found = check_program(agent_of(name)[0], faults=order, **LIMITS).findings
        assert [finding.outcome for finding in found] == outcomes_of_order, name
    assert outcomes(Habits(only_first=True), "write_and_read") == {"write_and_read": "handled"}


def test_an_agent_that_raises_ends_with_the_error():
    found = check_program(agent(Habits(errors="raised")), faults=[BY_NAME[name] for name in (*MISTAKES, "tool_raises")], **LIMITS)
    assert {finding.outcome for finding in found.findings} == {"error"}
    assert "JSONDecodeError" in found.findings[0].detail
    assert "the pump is jammed" in found.findings[-1].detail


def test_an_argument_that_is_dropped_goes_unnoticed():
    assert outcomes(Habits(extra="dropped"), "extra_argument") == {"extra_argument": "unaware"}


@pytest.mark.parametrize(
    ("answerless", "outcome"), [("asked again", "told"), ("asked blindly", "untold"), ("taken", "silent"), ("raised", "error")]
)
def test_a_reply_without_a_call(answerless, outcome):
    assert set(outcomes(Habits(answerless=answerless), "empty", "prose", "refusal").values()) == {outcome}


@pytest.mark.parametrize(("habits", "outcome"), [(Habits(most=None), "unlimited"), (Habits(at_limit="answers"), "silent")])
def test_a_model_that_never_ends(habits, outcome):
    assert set(outcomes(habits, "never_finishes", "repeats").values()) == {outcome}


def test_an_agent_that_does_not_solve_the_task_is_not_judged():
    async def solve(question, tools):
        return "41"

    with pytest.raises(Trouble, match=r"its answer was '41'.* it asked the model 0 times"):
        check_program(FunctionLoop(solve))


SLIPS = ("cut_json", "missing_argument", "extra_argument", "wrong_type", "unknown_tool", "tool_raises")
EXPLAINED = [fault for fault in FAULTS if fault.signs]


def outcomes(habits, *faults):
    found = check_program(agent(habits), faults=[BY_NAME[name] for name in faults], **LIMITS)
    return {finding.fault: finding.outcome for finding in found.findings}


def conversation(*said):
    """Return the requests of a run whose turns are these texts of the user, the first one the question."""
    messages = [Message(role="user", content=text) for text in said]
    return [Request(messages=tuple(messages[: count + 1])) for count in range(len(messages))]


@settings(max_examples=cases(25))
@given(st.sampled_from(EXPLAINED), st.data())
def test_a_reminder_of_each_turn_explains_nothing(fault, data):
    words = data.draw(st.lists(st.sampled_from(sorted(fault.signs | WEAK_SIGNS | SUBJECT)), min_size=1, max_size=5))
    turns = [f"{' '.join(words)}, step {number} of 10" for number in range(6)]
    clean = conversation("Add 1 and 2.", *turns[:3])
    other_lines = conversation("Add 1 and 2.", *(f"Step {number} of 10: {' '.join(words)}" for number in range(6)))
    asked = [LoggedRequest(request, Reply("I call add.")) for request in conversation("Add 1 and 2.", *turns)]
    assert telling_request(fault, asked, 0, clean) is telling_request(fault, asked, 0, other_lines) is None


@settings(max_examples=cases(25))
@given(st.sampled_from(EXPLAINED), st.data())
def test_an_explanation_among_reminders_is_found(fault, data):
    sign = data.draw(st.sampled_from(sorted(fault.signs)))
    turns = ["Go on, please."] * 6
    clean = conversation("Add 1 and 2.", *turns[:3])
    asked = [LoggedRequest(request, Reply("I call add.")) for request in conversation("Add 1 and 2.", f"Error: {sign}.", *turns)]
    assert telling_request(fault, asked, 0, clean) == 1


def test_reminders_do_not_make_an_agent_one_that_explains():
    every_turn = (
        "Go on with valid calls of available tools; when you have all that is required, you must now state the final number."
    )
    found = outcomes(Habits(errors="hidden", reminder=every_turn), *SLIPS)
    assert set(found.values()) == {"untold"}


def test_an_agent_that_drops_the_second_call_of_a_reply_has_not_handled_it():
    found = outcomes(Habits(only_first=True), "two_calls", "duplicate_ids")
    assert found == {"two_calls": "untold", "duplicate_ids": "untold"}
    assert outcomes(Habits(), "two_calls") == {"two_calls": "handled"}
