"""The stateless design: what is done about failed tools."""

from __future__ import annotations

import json
import time
from typing import Any

import dspy
import pytest

from tests.loops.helpers import Script
from tests.loops.stateless.helpers import (
    ADD,
    BAD,
    FAIL,
    PLAIN,
    STOP,
    TOOLS,
    activity,
    agent,
    error,
    formatted,
    recover,
    run,
    shown,
    state,
    success,
    system,
    think,
)
from tests.rows import row
from whichloop.dspy_seam import lm_of
from whichloop.loops.stateless import (
    ActionType,
    ConversationState,
    ErrorRecoveryModule,
    ManualAgentLoop,
)
from whichloop.protocol import (
    ProviderError,
    Role,
    StopReason,
    Toolbox,
)


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
    for given, expected in (({"why": "x"}, {"why": "x"}), (None, {"why": "broken"})):
        model = Script(recover("retry", "Once more.", retry_with_params=given))
        decision = agent(model).get_next_action(state(last_tool_results=[error("fail")]))
        [call] = decision.tool_suggestions or []
        assert (call.tool_name, call.parameters, call.reasoning) == ("fail", expected, "Retry: Once more.")
        assert decision.reasoning == "Retrying failed tools with adjusted parameters"
        assert (decision.confidence, decision.parallel_safe, decision.should_continue) == (0.6, False, True)


@row("S0-33", "S0-24")
def test_a_retry_shares_nothing_with_its_state() -> None:
    known = state(last_tool_results=[error("fail", parameters={"why": ["deep"]})])
    made = agent(Script(recover("retry"))).get_next_action(known)
    assert made.tool_suggestions is not None
    made.tool_suggestions[0].parameters["why"].append("changed")
    assert known.last_tool_results is not None
    assert known.last_tool_results[0]["parameters"] == {"why": ["deep"]}


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


@row("X-11")
def test_an_alternative_that_does_not_exist_is_an_error_result() -> None:
    model = Script(think(FAIL), recover("alternative_tool", alternative_tool="nope"), recover("skip"), STOP)
    _, made = activity(model)
    (result,) = made.conversation_history[1].results
    assert (result["error"], result["error_type"]) == ("Tool 'nope' not found in registry", "ValueError")


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
