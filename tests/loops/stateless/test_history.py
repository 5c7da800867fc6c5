"""The stateless design: a history that is kept short."""

from __future__ import annotations

import logging

import pytest

from tests.loops.helpers import Script
from tests.loops.stateless.helpers import ADD, BAD, STOP, TOOLS, Decides, activity, decision, entry, run, section, shown, think
from tests.rows import row
from whichloop.loops.stateless import (
    ActionType,
    ActivityManager,
    ConversationManager,
    Stateless,
    ToolCall,
)
from whichloop.protocol import (
    ContextOverflow,
    ProviderError,
    Role,
    StopReason,
    Toolbox,
)


def compressed(text: str, findings: str = "F.", unresolved: str = "U.") -> str:
    return section(reasoning="R.", summary=text, key_findings=findings, unresolved_questions=unresolved)


@row("S0-56", "B0-21")
def test_eleven_entries_become_seven() -> None:
    model = Script(compressed("S.", "F.", "U."))
    made = ConversationManager(max_history_length=10, model=model, user_query="Q")
    for number in range(1, 12):
        made.add_entry(entry(number, errors=[f"e{number}"] if number < 3 else []))
    assert model.roles == [Role.SUMMARIZE]
    assert [item.iteration for item in made.history] == [-1, *range(6, 12)]
    assert made.history[0].model_dump() == {
        "iteration": -1,
        "timestamp": 1.0,
        "reasoning": "SUMMARY: S.",
        "tool_calls": ["<summarized>"],
        "tool_parameters": {},
        "results": [{"summary": "F.", "unresolved_questions": "U."}],
        "results_summary": "S.",
        "errors": ["e1", "e2"],
    }
    told = shown(model.requests[0], "conversation_entries")
    assert "Iteration 5:" in told
    assert "Iteration 6:" not in told


@row("S0-56")
def test_an_unreadable_summary_keeps_all_entries(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "whichloop.loops")
    made = ConversationManager(max_history_length=1, model=Script(BAD))
    made.add_entry(entry(1))
    made.add_entry(entry(2))
    assert [item.iteration for item in made.history] == [1, 2]
    assert "cannot be read" in caplog.text


@row("S0-57")
def test_formatted_history_may_be_the_last_entries_only() -> None:
    made = ConversationManager(history=[entry(1), entry(2), entry(3)])
    assert made.get_formatted_history(last_n=1).startswith("Iteration 3:")
    assert made.get_formatted_history().count("Iteration ") == 3
    summarized = entry(-1, "S", reasoning="SUMMARY: S", errors=["e"])
    assert ConversationManager(history=[summarized]).get_formatted_history() == "[Previous Summary]: SUMMARY: S\n  Errors: e"


@row("B0-21")
def test_the_managers_history_is_the_states() -> None:
    model = Script(think(ADD), think(ADD), compressed("S."), think(ADD), STOP)
    _, made = activity(model, max_history_length=1)
    assert model.roles.count(Role.SUMMARIZE) >= 1
    assert made.conversation_history[0].iteration == -1
    assert "[Previous Summary]: SUMMARY: S." in shown(model.requests[3], "conversation_history")


@row("B0-21", "G-3")
def test_a_provider_that_fails_while_compressing_ends_the_run() -> None:
    for raised, stop in (
        (ProviderError("down"), StopReason.PROVIDER_ERROR),
        (ContextOverflow("long"), StopReason.CONTEXT_OVERFLOW),
    ):
        loop = Stateless(response_style=None, max_history_length=1)
        model = Script(think(ADD), think(ADD), raised)
        outcome = run(loop, model)
        assert (outcome.stop, outcome.answer, len(model.requests)) == (stop, None, 3)


@row("B0-21", "B0-14")
def test_a_run_that_has_ended_pays_for_no_summary() -> None:
    last = think(ADD, should_continue=False, final_response="3")
    loop = Stateless(response_style=None, max_history_length=1, finish_with_tools="run_first")
    model = Script(think(ADD), last, ProviderError("down"))
    outcome = run(loop, model)
    assert (outcome.stop, outcome.answer, model.roles) == (StopReason.FINISHED, "3", [Role.DECIDE] * 2)
    assert len(outcome.details["state"].conversation_history) == 2


@row("B0-21")
def test_an_agent_that_brings_no_summarizer_keeps_its_history_whole() -> None:
    steps = [decision(ActionType.TOOL_EXECUTION, tool_suggestions=[ToolCall(tool_name="add", parameters={}, reasoning="")])] * 11
    made = ActivityManager(Decides(*steps, decision(ActionType.FINAL_RESPONSE, final_response="3")), Toolbox(TOOLS), 20)
    known = made.new_state("Q")
    assert made.continue_activity(known)["status"] == "completed"
    assert [item.iteration for item in known.conversation_history] == list(range(1, 12))
