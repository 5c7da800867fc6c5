"""No agent is taken for a better or a worse one by accident: by words that any run has, by its pace, or by what it does itself."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.checks.program.agents import Habits, agent
from whichloop.checks.program.agent_faults import BY_NAME, FAULTS, SUBJECT, WEAK_SIGNS, LoggedRequest, telling_request
from whichloop.checks.program.check import CheckLimits, check_program
from whichloop.programs.program import Program
from whichloop.protocol import Message, Reply, Request

LIMITS = CheckLimits(requests=25, hang_s=0.2)
MISTAKES = ("cut_json", "missing_argument", "extra_argument", "wrong_type", "unknown_tool", "tool_raises")
EXPLAINED = [fault for fault in FAULTS if fault.signs]


def outcomes(habits, *faults, limits=LIMITS):
    found = check_program(agent(habits), faults=[BY_NAME[name] for name in faults], limits=limits)
    return {finding.fault: finding.outcome for finding in found.findings}


def conversation(*said):
    """Return the requests of a run whose turns are these texts of the user, the first one the question."""
    messages = [Message(role="user", content=text) for text in said]
    return [Request(messages=tuple(messages[: count + 1])) for count in range(len(messages))]


# --- what any run has explains nothing ---


@settings(max_examples=cases(25))
@given(st.sampled_from(EXPLAINED), st.data())
def test_a_reminder_of_each_turn_explains_nothing(fault, data):
    words = data.draw(st.lists(st.sampled_from(sorted(fault.signs | WEAK_SIGNS | SUBJECT)), min_size=1, max_size=5))
    turns = [f"{' '.join(words)}, step {number} of 10" for number in range(6)]
    clean = conversation("Add 1 and 2.", *turns[:3])
    asked = [LoggedRequest(request, Reply("I call add.")) for request in conversation("Add 1 and 2.", *turns)]
    assert telling_request(fault, asked, 0, clean) is None


@settings(max_examples=cases(25))
@given(st.sampled_from(EXPLAINED), st.data())
def test_an_explanation_among_reminders_is_found(fault, data):
    sign = data.draw(st.sampled_from(sorted(fault.signs)))
    turns = ["Go on, please."] * 6
    clean = conversation("Add 1 and 2.", *turns[:3])
    asked = [LoggedRequest(request, Reply("I call add.")) for request in conversation("Add 1 and 2.", f"Error: {sign}.", *turns)]
    assert telling_request(fault, asked, 0, clean) == 1


def test_what_the_model_said_explains_nothing_where_the_agent_writes_it_down_for_itself():
    said = "I will call a tool."
    clean = conversation("Add 1 and 2.", "Assistant: I call add.")

    def told_at(text):
        return telling_request(
            BY_NAME["prose"], [LoggedRequest(one, Reply(said)) for one in conversation("Add 1 and 2.", text)], 0, clean
        )

    assert told_at(f"Assistant: {said}") is None
    assert told_at(f"You wrote: {said} There is no call.") == 1


def test_reminders_do_not_make_an_agent_one_that_explains():
    every_turn = (
        "Go on with valid calls of available tools; when you have all that is required, you must now state the final number."
    )
    found = outcomes(Habits(errors="hidden", reminder=every_turn), *MISTAKES)
    assert set(found.values()) == {"untold"}


def test_a_count_of_steps_is_no_answer_to_an_empty_reply():
    habits = Habits(answerless="asked blindly", reminder="Step {number} of 10.")
    assert set(outcomes(habits, "empty", "prose", "refusal").values()) == {"untold"}


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param("No result is available at this time; try again with a valid call.", marks=pytest.mark.slow),
        '{"type": "error", "message": "That\'s odd: no such luck, nothing found."}',
    ],
)
def test_a_message_about_any_failure_explains_none(failure):
    assert set(outcomes(Habits(errors="hidden", failure=failure), *MISTAKES).values()) == {"untold"}


# --- what the agent does itself ---


def test_an_agent_that_drops_the_second_call_of_a_reply_has_not_handled_it():
    found = outcomes(Habits(only_first=True), "two_calls", "duplicate_ids")
    assert found == {"two_calls": "untold", "duplicate_ids": "untold"}
    assert outcomes(Habits(), "two_calls") == {"two_calls": "handled"}


def test_an_agent_that_calls_a_failed_tool_again_by_itself_leaves_nothing_to_mend():
    found = outcomes(Habits(tries=2, tool_s=0.5), "tool_raises", "one_of_two_fails", "tool_hangs", limits=replace(LIMITS, hang_s=5))
    assert set(found.values()) == {"handled"}


# --- its pace ---


def test_an_agent_that_has_left_a_hanging_tool_may_take_its_time():
    habits = Habits(tool_s=0.1, pause_s=0.3)
    assert outcomes(habits, "tool_hangs", limits=replace(LIMITS, hang_s=0.5)) == {"tool_hangs": "untold"}
    assert outcomes(replace(habits, tool_s=None), "tool_hangs", limits=replace(LIMITS, hang_s=0.5)) == {"tool_hangs": "unlimited"}


def test_a_program_that_waits_for_its_place_does_not_count_as_one_without_a_limit(tmp_path):
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import json, os, time, urllib.request\n"
        "time.sleep(0.6)\n"
        "asked = {'model': 'any', 'messages': [{'role': 'user', 'content': os.environ['WHICHLOOP_QUESTION']}]}\n"
        "body = json.dumps(asked).encode()\n"
        "address = os.environ['OPENAI_BASE_URL'] + '/chat/completions'\n"
        "request = urllib.request.Request(address, body, {'Content-Type': 'application/json'})\n"
        "json.load(urllib.request.urlopen(request))\n"
        "print(3126)\n"
    )
    program = Program(f"python {slow}", processes=1)
    faults = [BY_NAME[name] for name in ("cut_json", "missing_argument", "wrong_type", "unknown_tool", "empty", "prose")]
    found = check_program(program, faults=faults, limits=CheckLimits(run_s=3))
    assert "unlimited" not in {finding.outcome for finding in found.findings}
