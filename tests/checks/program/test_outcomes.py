"""Each outcome is earned by an agent that behaves so, and by no other."""

import pytest

from tests.checks.program.agents import Habits, agent
from whichloop.checks.program import FAULTS, OUTCOMES, Trouble, check_program
from whichloop.checks.program.agent_faults import BY_NAME
from whichloop.checks.program.check import CheckLimits
from whichloop.checks.program.naming import agent_of
from whichloop.programs.function import FunctionLoop

LIMITS = CheckLimits(requests=25, hang_s=0.2)
MISTAKES = ("cut_json", "cut_length", "list_arguments", "missing_argument", "wrong_type", "unknown_tool")
TROUBLE = ("rate_limit", "server_error_once", "dropped", "cut_stream")


def outcomes(habits, *faults):
    chosen = [BY_NAME[name] for name in faults] if faults else FAULTS
    found = check_program(agent(habits), faults=chosen, limits=LIMITS)
    return {finding.fault: finding.outcome for finding in found.findings}


@pytest.fixture(scope="module")
def whole():
    """Every fault, on an agent that says what was wrong."""
    return check_program(agent(Habits()), limits=LIMITS)


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
    """One after the other is never wrong; at once is, where one call reads what the other changes.

    By loops in this process: their calls begin in the same turn, whatever the machine does beside.
    """
    order = [BY_NAME[name] for name in ("late_first", "write_and_read")]
    for name, outcomes_of_order in {
        "finish": ["handled", "handled"],
        "finish(parallel_tools=true)": ["handled", "silent"],
        "bare": ["not applicable", "not applicable"],
    }.items():
        found = check_program(agent_of(name)[0], faults=order, limits=LIMITS).findings
        assert [finding.outcome for finding in found] == outcomes_of_order, name
    assert outcomes(Habits(only_first=True), "write_and_read") == {"write_and_read": "handled"}


def test_an_agent_that_hides_its_errors_leaves_the_model_in_the_dark():
    assert set(outcomes(Habits(errors="hidden"), *MISTAKES, "tool_raises", "one_of_two_fails").values()) == {"untold"}


def test_an_agent_that_raises_ends_with_the_error():
    found = check_program(
        agent(Habits(errors="raised")), faults=[BY_NAME[name] for name in (*MISTAKES, "tool_raises")], limits=LIMITS
    )
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


@pytest.mark.parametrize(
    ("habits", "outcome"),
    [
        pytest.param(Habits(), "error", marks=pytest.mark.slow),  # part of `whole`
        (Habits(most=None), "unlimited"),
        (Habits(at_limit="answers"), "silent"),
        pytest.param(Habits(at_limit="returns None"), "error", marks=pytest.mark.slow),
    ],
)
def test_a_model_that_never_ends(habits, outcome):
    assert set(outcomes(habits, "never_finishes", "repeats").values()) == {outcome}


def test_an_agent_without_a_limit_is_stopped_at_the_number_of_requests_that_was_asked_for():
    (found,) = check_program(agent(Habits(most=None)), faults=[BY_NAME["never_finishes"]], limits=LIMITS).findings
    assert found.requests == LIMITS.requests
    assert "25 requests" in found.detail


def test_a_finding_names_the_request_and_shows_what_it_says():
    (found,) = check_program(agent(Habits()), faults=[BY_NAME["unknown_tool"]], limits=LIMITS).findings
    assert found.request == 2
    assert found.shown.startswith("tool: Error: ")
    assert "add_v2" in found.shown


def test_an_agent_that_does_not_solve_the_task_is_not_judged():
    async def solve(question, tools):
        return "41"

    with pytest.raises(Trouble, match=r"its answer was '41'.* it asked the model 0 times"):
        check_program(FunctionLoop(solve))


def test_equal_checks_give_equal_reports():
    faults = [BY_NAME[name] for name in ("cut_json", "rate_limit", "one_of_two_fails", "late_first", "prose")]
    one, other = (check_program(agent(Habits()), faults=faults, limits=LIMITS).findings for _ in range(2))
    assert one == other


@pytest.mark.slow
def test_equal_checks_of_every_fault_give_equal_reports(whole):
    assert check_program(agent(Habits()), limits=LIMITS).findings == whole.findings


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_says_what_it_is_in_words(fault):
    assert fault.text[0].islower()
    assert not fault.text.endswith(".")
    assert fault.sound <= OUTCOMES.keys()
