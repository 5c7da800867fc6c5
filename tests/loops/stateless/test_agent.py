"""The stateless design: what the agent decides, and what it does about failed tools."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

import dspy
import pytest

from tests.loops.helpers import Script
from tests.loops.stateless.helpers import (
    ADD,
    BAD,
    EMPTY,
    FAIL,
    PLAIN,
    STOP,
    TOOLS,
    activity,
    agent,
    entry,
    error,
    formatted,
    recover,
    run,
    shown,
    state,
    success,
    summary,
    system,
    think,
)
from tests.rows import row
from whichloop.dspy_seam import lm_of
from whichloop.loops.stateless import ErrorRecoveryModule, ManualAgentLoop
from whichloop.loops.stateless.state import ActionDecision, ActionType, ConversationEntry, ConversationState, HistorySummary
from whichloop.protocol import Answer, ContextOverflow, ProviderError, Recovery, Reply, Role, StopReason, Toolbox, run_sync


def long_history(chars: int) -> list[ConversationEntry]:
    """One entry that is rendered as exactly so many characters."""
    bare = entry(1, "")
    empty = len("\n".join(["Iteration 1:", f"  Reasoning: {bare.reasoning}", "  Tools used: add", "  Results: "]))
    return [entry(1, "x" * (chars - empty))]


@row("S0-20", "B0-19", "X-14")
def test_a_history_of_3001_characters_is_summarized_and_one_of_3000_is_not() -> None:
    model = Script(STOP)
    agent(model).get_next_action(state(conversation_history=long_history(3000)))
    assert model.roles == [Role.DECIDE]
    assert len(shown(model.requests[0], "conversation_history")) == 3000

    model = Script(summary("S.", "one", "two"), STOP)
    before = state(conversation_history=long_history(3001))
    decision = agent(model).get_next_action(before)
    assert model.roles == [Role.SUMMARIZE, Role.DECIDE]
    assert len(shown(model.requests[0], "long_history")) == 3001
    recent = "x" * 1500
    assert (
        shown(model.requests[1], "conversation_history")
        == f"[Summarized earlier history]: S.\nKey points: one, two\n\n[Recent history]: {recent}"
    )
    assert decision.history_summary == HistorySummary(summary="S.", key_points=["one", "two"], last_iteration=1)


@row("B0-19", "X-14")
def test_a_stored_summary_is_sent_with_what_it_does_not_cover_and_not_made_again() -> None:
    stored = HistorySummary(summary="S.", key_points=["k"], last_iteration=2)
    entries = [entry(1, "one"), entry(2, "two"), entry(3, "three")]
    model = Script(STOP)
    decision = agent(model).get_next_action(state(conversation_history=entries, history_summary=stored))
    history = shown(model.requests[0], "conversation_history")
    assert history.startswith("[Summarized earlier history]: S.\nKey points: k")
    assert "three" in history
    assert "two" not in history
    assert decision.history_summary is None

    model = Script(summary("S2."), STOP)
    entries[2] = entry(3, "y" * 3001)
    decision = agent(model).get_next_action(state(conversation_history=entries, history_summary=stored))
    assert model.roles == [Role.SUMMARIZE, Role.DECIDE]
    assert shown(model.requests[0], "long_history").startswith("[Summarized earlier history]: S.")
    assert "two" not in shown(model.requests[0], "long_history")
    assert decision.history_summary == HistorySummary(summary="S2.", key_points=[], last_iteration=3)


@row("B0-19")
def test_a_folded_entry_counts_as_covered_only_up_to_the_entry_after_it() -> None:
    folded = entry(-1, "FOLDED", reasoning="SUMMARY: FOLDED")
    for last, known in ((5, False), (3, True)):
        stored = HistorySummary(summary="S.", key_points=[], last_iteration=last)
        model = Script(STOP)
        agent(model).get_next_action(state(conversation_history=[folded, entry(6, "six")], history_summary=stored))
        history = shown(model.requests[0], "conversation_history")
        assert ("FOLDED" in history, "six" in history) == (known, True)


@row("X-14")
def test_an_unreadable_summary_leaves_the_last_3000_characters_and_a_log(caplog: pytest.LogCaptureFixture) -> None:
    model = Script(BAD, STOP)
    with caplog.at_level(logging.INFO):
        decision = agent(model).get_next_action(state(conversation_history=long_history(4000)))
    assert shown(model.requests[1], "conversation_history") == "x" * 3000
    assert "cannot be read" in caplog.text
    assert (decision.history_summary, decision.action_type) == (None, ActionType.FINAL_RESPONSE)
    decision = agent(Script(ProviderError("down"))).get_next_action(state(conversation_history=long_history(4000)))
    assert decision.error_kind == "provider_error"


@row("S0-23")
def test_errors_go_to_recovery_first_if_open_enabled_and_rounds_are_left() -> None:
    failed = [error("fail")]
    cases: list[tuple[dict[str, Any], dict[str, Any], Role]] = [
        ({"last_tool_results": failed}, {}, Role.RECOVER),
        ({"last_tool_results": failed}, {"enable_error_recovery": False}, Role.DECIDE),
        ({"last_tool_results": [error("fail", seen=True)]}, {}, Role.DECIDE),
        ({"last_tool_results": failed, "recovery_rounds": 2}, {}, Role.DECIDE),
        ({"last_tool_results": [success("add", 3)]}, {}, Role.DECIDE),
    ]
    for changes, options, role in cases:
        model = Script(lambda request: Recovery("retry") if request.role is Role.RECOVER else Answer("t", "3", 0.9))
        agent(model, **options).get_next_action(state(**changes))
        assert model.roles == [role], changes


@row("S0-24", "B0-2", "X-9")
def test_a_decision_is_a_pure_function_of_its_state() -> None:
    decider = agent(None, response_style="concise")
    before = state(conversation_history=[entry()], last_tool_results=[success("add", {"x": [1]}), error("fail")])
    kept = before.model_copy(deep=True)
    made = []
    for _ in range(2):
        model = Script(recover("skip"), think(final="3", confidence=0.25), formatted("three"))
        decision = decider.for_run(decider.tool_registry, model).get_next_action(before)
        made.append(decision.model_dump(exclude={"processing_time"}))
    assert made[0] == made[1]
    assert before == kept
    assert before.last_confidence is None
    assert made[0]["confidence"] == 0.25
    _, after = activity(Script(think(final="3", confidence=0.25)))
    assert after.last_confidence == 0.25


@row("S0-25")
def test_a_stop_is_a_final_response_even_beside_tools() -> None:
    model = Script(think(ADD, should_continue=False, final_response="raw"), formatted("neat"))
    decision = agent(model, response_style="concise").get_next_action(state())
    assert decision.action_type is ActionType.FINAL_RESPONSE
    assert (decision.reasoning, decision.final_response, decision.should_continue) == ("Continuation.", "neat", False)
    assert model.roles == [Role.DECIDE, Role.FORMAT]
    assert shown(model.requests[1], "raw_response") == "raw"


@row("S0-26", "S0-19")
def test_tools_are_suggested_with_parallel_safe_and_next_action() -> None:
    model = Script(think(ADD, FAIL, parallel_safe=False, suggested_next_action="Then stop."))
    decision = agent(model).get_next_action(state())
    assert (model.roles, decision.action_type, decision.should_continue) == ([Role.DECIDE], ActionType.TOOL_EXECUTION, True)
    assert [call.tool_name for call in decision.tool_suggestions or ()] == ["add", "fail"]
    assert (decision.parallel_safe, decision.suggested_next_action, decision.reasoning) == (False, "Then stop.", "Overall.")
    assert decision.confidence == 0.9


@pytest.mark.parametrize("said", [EMPTY, think(should_use_tools=True), think(ADD, should_use_tools=False)])
@row("S0-27", "B0-10")
def test_going_on_without_tools_is_an_empty_execution(said: str) -> None:
    decision = agent(Script(said)).get_next_action(state())
    assert (decision.action_type, decision.tool_suggestions, decision.confidence) == (ActionType.TOOL_EXECUTION, [], 0.5)
    assert decision.reasoning == "Need more information but no specific tools identified"
    assert decision.should_continue


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (BAD, "parse_failed"),
        (ProviderError("down"), "provider_error"),
        (ContextOverflow("long"), "context_overflow"),
        (RuntimeError("bug"), "internal"),
    ],
)
@row("S0-28")
def test_any_exception_is_an_error_recovery_that_names_its_kind(answer: Any, kind: str) -> None:
    decision = agent(Script(answer)).get_next_action(state())
    assert (decision.action_type, decision.confidence, decision.should_continue) == (ActionType.ERROR_RECOVERY, 0.0, False)
    assert decision.reasoning.startswith("Error in agent processing: ")
    assert decision.error_kind == kind
    assert decision.final_response
    assert str(answer) not in decision.final_response
    assert decision.error == str(answer) or kind == "parse_failed"
    assert ActionDecision.model_validate_json(decision.model_dump_json()) == decision


@row("S0-29")
def test_forward_is_get_next_action() -> None:
    decider = agent(Script(think(ADD), think(ADD), think(ADD)))
    direct = decider.get_next_action(state())
    called = decider(state())
    awaited = run_sync(decider.acall(state()))
    same = [made.model_dump(exclude={"processing_time"}) for made in (direct, called, awaited)]
    assert same[0] == same[1] == same[2]


@row("S0-30")
def test_every_decision_has_its_processing_time() -> None:
    class Slow(Script):
        async def complete(self, request: Any) -> Reply:
            await asyncio.sleep(0.01)
            reply: Reply = await super().complete(request)
            return reply

    for said in (STOP, think(ADD), BAD):
        assert agent(Slow(said)).get_next_action(state()).processing_time >= 0.01


@row("S0-31", "B0-6", "X-11")
def test_each_failed_tool_has_a_call_and_a_strategy_of_its_own() -> None:
    failed = [error("one", "first"), success("add", 3), error("two", "second")]
    model = Script(recover("retry", "again", retry_with_params={"n": 1}), recover("retry", "anew"))
    decision = agent(model).get_next_action(state(last_tool_results=failed))
    assert model.roles == [Role.RECOVER] * 2
    assert [shown(request, "failed_tool") for request in model.requests] == ["one", "two"]
    assert [call.model_dump() for call in decision.tool_suggestions or ()] == [
        {"tool_name": "one", "parameters": {"n": 1}, "reasoning": "Retry: again"},
        {"tool_name": "two", "parameters": {"why": "second"}, "reasoning": "Retry: anew"},
    ]
    unrecoverable = recover("retry", can_recover=False)
    decision = agent(Script(unrecoverable)).get_next_action(state(last_tool_results=[error("one")]))
    assert decision.action_type is ActionType.FINAL_RESPONSE


@pytest.mark.parametrize("given", [{"a": 1, "b": 2}, None])
@row("S0-32")
def test_an_alternative_is_called_with_its_own_parameters(given: Any) -> None:
    model = Script(recover("alternative_tool", "Use add.", alternative_tool="add", retry_with_params=given))
    decision = agent(model).get_next_action(state(last_tool_results=[error("fail")]))
    assert [call.model_dump() for call in decision.tool_suggestions or ()] == [
        {"tool_name": "add", "parameters": given or {}, "reasoning": "Use add."}
    ]
    assert decision.reasoning == "Attempting recovery with alternative tools"
    assert (decision.confidence, decision.parallel_safe, decision.should_continue) == (0.7, False, True)
    assert decision.is_recovery


@row("S0-33")
def test_a_retry_takes_new_or_the_original_parameters() -> None:
    for changed, expected in (({"why": "x"}, {"why": "x"}), (None, {"why": "broken"})):
        model = Script(recover("retry", "Once more.", retry_with_params=changed))
        decision = agent(model).get_next_action(state(last_tool_results=[error("fail")]))
        [call] = decision.tool_suggestions or []
        assert (call.tool_name, call.parameters, call.reasoning) == ("fail", expected, "Retry: Once more.")
        assert decision.reasoning == "Retrying failed tools with adjusted parameters"
        assert (decision.confidence, decision.parallel_safe, decision.should_continue) == (0.6, False, True)


@row("S0-34")
def test_all_errors_unrecoverable_end_the_run_with_a_formatted_text() -> None:
    model = Script(recover("fail"), formatted("Sorry."))
    decision = agent(model, response_style="concise").get_next_action(state(last_tool_results=[error("fail")]))
    assert decision.action_type is ActionType.FINAL_RESPONSE
    assert (decision.should_continue, decision.confidence, decision.final_response) == (False, 0.5, "Sorry.")
    assert decision.reasoning == "Unable to recover from errors: fail: broken"
    assert "broken" in shown(model.requests[1], "raw_response")
    outcome = run(PLAIN, Script(think(FAIL), recover("fail")))
    assert (outcome.stop, outcome.details["status"]) == (StopReason.RECOVERY_FAILED, "completed")


@row("S0-35")
def test_without_failed_tools_recovery_is_normal_reasoning() -> None:
    class Always(ManualAgentLoop):
        def _may_recover(self, state: ConversationState) -> bool:
            return True

    model = Script(STOP)
    decider = Always(Toolbox(TOOLS), response_style=None, model=model)
    assert decider.get_next_action(state(last_tool_results=[success("add", 3)])).final_response == "3"
    assert model.roles == [Role.DECIDE]


@row("S0-36", "B0-30")
def test_strategies_are_told_to_the_planner_and_limit_it() -> None:
    assert ErrorRecoveryModule().strategies == ["retry", "alternative_tool", "graceful_degradation"]
    model = Script(recover("skip"), STOP)
    agent(model).get_next_action(state(last_tool_results=[error("fail")], errors_encountered=["Tool fail: a", "Tool fail: b"]))
    assert "Allowed strategies: retry, alternative_tool, skip, fail." in system(model.requests[0])
    assert shown(model.requests[0], "previous_attempts") == "1. Tool fail: a\n2. Tool fail: b"
    model = Script(recover("skip"))
    decider = agent(model)
    decider.error_recovery = ErrorRecoveryModule(["retry"])
    assert decider.get_next_action(state(last_tool_results=[error("fail")])).action_type is ActionType.FINAL_RESPONSE


@row("B0-7", "X-11")
def test_every_strategy_does_what_it_says_beside_the_others() -> None:
    failed = [error("one"), error("two"), error("three"), error("four"), error("five")]
    model = Script(
        recover("retry"),
        recover("alternative_tool", alternative_tool="add"),
        recover("skip"),
        recover("fail"),
        recover("alternative_tool"),
    )
    decision = agent(model).get_next_action(state(last_tool_results=failed))
    assert [call.tool_name for call in decision.tool_suggestions or ()] == ["one", "add"]
    assert decision.confidence == 0.6
    assert decision.reasoning == ("Attempting recovery with alternative tools; Retrying failed tools with adjusted parameters")
    assert decision.kept_results == [2, 3, 4]
    model = Script(recover("fail"), recover("skip"), STOP)
    decision = agent(model).get_next_action(state(last_tool_results=failed[:2]))
    assert (decision.action_type, decision.is_recovery) == (ActionType.FINAL_RESPONSE, False)
    assert model.roles == [Role.RECOVER, Role.RECOVER, Role.DECIDE]
    assert "one: ERROR - broken" in shown(model.requests[2], "last_tool_results")


@row("B0-22", "X-11")
def test_a_recovery_keeps_the_steps_successes_and_skipped_errors() -> None:
    model = Script(
        think(ADD, FAIL, ("fail", {"why": "other"})),
        recover("alternative_tool", alternative_tool="search", retry_with_params={"query": "x"}),
        recover("skip"),
        STOP,
    )
    _, made = activity(model)
    assert [(r["tool_name"], r["status"], r.get("seen")) for r in made.last_tool_results or ()] == [
        ("add", "success", None),
        ("fail", "error", True),
        ("search", "success", None),
    ]
    results = shown(model.requests[-1], "last_tool_results")
    assert results == "add: 3\nfail: ERROR - other\nsearch: found 3 pages on x"


@row("B0-33", "X-11")
def test_the_planner_sees_descriptions_and_its_failure_makes_the_error_unrecoverable() -> None:
    model = Script(BAD)
    odd = error("fail", parameters={"when": time.gmtime, "set": {1}})
    decision = agent(model).get_next_action(state(last_tool_results=[odd]))
    tools = {tool["name"]: tool for tool in json.loads(shown(model.requests[0], "available_tools"))}
    assert tools["add"]["description"] == "Add two numbers."
    assert [name for name, tool in tools.items() if tool.get("failed")] == ["fail"]
    assert decision.action_type is ActionType.FINAL_RESPONSE
    decision = agent(Script(ProviderError("down"))).get_next_action(state(last_tool_results=[error("fail")]))
    assert (decision.action_type, decision.error_kind) == (ActionType.ERROR_RECOVERY, "provider_error")
    names = Script(recover("skip"))
    with dspy.context(lm=lm_of(names)):
        assert ErrorRecoveryModule()(error("fail"), state(), ["add", "fail"]).strategy_type == "skip"
    assert json.loads(shown(names.requests[0], "available_tools"))[1] == {"name": "fail", "failed": True}


@row("B0-36", "X-11")
def test_recovery_is_bounded_until_a_success() -> None:
    model = Script(think(FAIL), recover("retry"), recover("retry"), think(FAIL), think(FAIL), think(ADD), think(FAIL))
    model.then = recover("fail")
    _, made = activity(model)
    roles = [Role.DECIDE, Role.RECOVER, Role.RECOVER, *[Role.DECIDE] * 4, Role.RECOVER]
    assert model.roles == roles
    assert made.recovery_rounds == 0
