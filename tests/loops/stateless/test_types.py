"""The stateless design: the types that agent and manager exchange."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from tests.loops.helpers import Script
from tests.loops.stateless.helpers import ADD, FAIL, PLAIN, STOP, TOOLS, activity, agent, error, recover, run, shown, state, think
from tests.rows import row
from whichloop.loops.stateless import (
    ActionDecision,
    ActionType,
    AgentReasonerSignature,
    ConversationEntry,
    ConversationState,
    ErrorRecoverySignature,
    ErrorRecoveryStrategy,
    ReasoningOutput,
    ToolCall,
)


def fields_of(model: Any) -> dict[str, Any]:
    """Field → default; `...` where it is required."""
    return {
        name: ... if info.is_required() else info.get_default(call_default_factory=True)
        for name, info in model.model_fields.items()
    }


@row("S0-7")
def test_a_tool_call_has_name_parameters_and_reasoning() -> None:
    assert fields_of(ToolCall) == {"tool_name": ..., "parameters": ..., "reasoning": ...}
    with pytest.raises(ValidationError):
        ToolCall(tool_name="add", parameters=[1], reasoning="")


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan")])
@row("S0-8")
def test_a_reasoning_output_has_the_documents_fields_and_a_confidence_within_0_and_1(confidence: float) -> None:
    assert fields_of(ReasoningOutput) == {
        "overall_reasoning": ...,
        "confidence": ...,
        "should_use_tools": ...,
        "tool_calls": None,
        "parallel_safe": True,
        "should_continue": ...,
        "continuation_reasoning": ...,
        "final_response": None,
        "suggested_next_action": None,
    }
    said = {"overall_reasoning": "", "should_use_tools": False, "should_continue": True, "continuation_reasoning": ""}
    assert ReasoningOutput(confidence=1, **said).confidence == 1
    with pytest.raises(ValidationError):
        ReasoningOutput(confidence=confidence, **said)


@row("S0-9")
def test_the_reasoners_signature_has_six_inputs_and_one_structured_output() -> None:
    inputs = ["user_query", "conversation_history", "last_tool_results", "available_tools", "iteration_count", "max_iterations"]
    assert list(AgentReasonerSignature.input_fields) == inputs
    assert list(AgentReasonerSignature.output_fields) == ["reasoning_output"]
    model = Script(STOP)
    run(PLAIN, model)
    assert [tool["name"] for tool in json.loads(shown(model.requests[0], "available_tools"))] == [f.__name__ for f in TOOLS]
    assert all(f"[[ ## {name} ## ]]" in model.requests[0].messages[-1].content for name in inputs)


@row("S0-10")
def test_a_recovery_strategy_has_a_type_of_four_and_the_documents_fields() -> None:
    kinds = ErrorRecoveryStrategy.model_fields["strategy_type"].annotation
    assert get_args(kinds) == ("retry", "alternative_tool", "skip", "fail")
    assert fields_of(ErrorRecoveryStrategy) == {
        "strategy_type": ...,
        "details": ...,
        "alternative_tool": None,
        "retry_with_params": None,
        "can_recover": True,
    }


@row("S0-11")
def test_the_planner_gets_error_type_tool_parameters_query_tools_and_attempts() -> None:
    assert list(ErrorRecoverySignature.output_fields) == ["recovery_strategy"]
    model = Script(recover("skip"), STOP)
    agent(model).get_next_action(state(last_tool_results=[error("fail", "no luck")], errors_encountered=["Tool fail: no luck"]))
    asked = model.requests[0]
    assert list(ErrorRecoverySignature.input_fields) == [
        "error_message",
        "error_type",
        "failed_tool",
        "tool_parameters",
        "user_query",
        "available_tools",
        "previous_attempts",
    ]
    assert shown(asked, "error_message") == "no luck"
    assert shown(asked, "error_type") == "ValueError"
    assert shown(asked, "failed_tool") == "fail"
    assert json.loads(shown(asked, "tool_parameters")) == {"why": "no luck"}
    assert shown(asked, "user_query") == "Q"
    assert "no luck" in shown(asked, "previous_attempts")


@row("S0-12")
def test_action_types_are_three_words() -> None:
    assert {kind.name: kind.value for kind in ActionType} == {
        "TOOL_EXECUTION": "tool_execution",
        "FINAL_RESPONSE": "final_response",
        "ERROR_RECOVERY": "error_recovery",
    }


@row("S0-13")
def test_an_action_decision_has_the_documents_fields_and_the_added_ones() -> None:
    assert fields_of(ActionDecision) == {
        "action_type": ...,
        "reasoning": ...,
        "confidence": ...,
        "tool_suggestions": None,
        "parallel_safe": True,
        "final_response": None,
        "should_continue": True,
        "suggested_next_action": None,
        "processing_time": 0,
        "tokens_used": None,
        "error_kind": None,
        "is_recovery": False,
        "kept_results": None,
        "history_summary": None,
        "answer": None,
        "error": None,
    }
    with pytest.raises(ValidationError):
        ActionDecision(action_type=ActionType.TOOL_EXECUTION, reasoning="", confidence=2)


@row("S0-14")
def test_a_conversation_state_has_the_documents_fields_and_the_added_ones() -> None:
    assert fields_of(ConversationState) == {
        "user_query": ...,
        "iteration_count": 0,
        "conversation_history": [],
        "last_tool_results": None,
        "total_tool_calls": 0,
        "errors_encountered": [],
        "activity_id": None,
        "max_iterations": None,
        "start_time": None,
        "last_confidence": None,
        "recovery_rounds": 0,
        "empty_decisions": 0,
        "history_summary": None,
        "tools_used": [],
    }
    assert ConversationState(user_query="a").errors_encountered is not ConversationState(user_query="b").errors_encountered


@row("S0-15", "B0-3")
def test_a_conversation_entry_has_all_that_the_formatter_reads() -> None:
    assert fields_of(ConversationEntry) == {
        "iteration": ...,
        "timestamp": ...,
        "reasoning": ...,
        "tool_calls": ...,
        "tool_parameters": ...,
        "results": ...,
        "results_summary": ...,
        "errors": [],
    }
    result, made = activity(Script(think(ADD), think(ADD), STOP))
    assert result["status"] == "completed", "the second decision reads the first one's entry"
    assert [item.iteration for item in made.conversation_history] == [1, 2]


@row("S0-16")
def test_results_have_three_shapes() -> None:
    calls = think(("search", {"query": "x"}), ("image_search", {"query": "x"}), FAIL)
    _, made = activity(Script(calls, recover("skip"), STOP), execution_mode="selective")
    found, skipped, failed = made.conversation_history[0].results
    assert found.pop("execution_time") >= 0
    assert found == {
        "tool_name": "search",
        "status": "success",
        "result": "found 3 pages on x",
        "parameters": {"query": "x"},
    }
    assert skipped == {"tool_name": "image_search", "status": "skipped", "reason": "Primary search already found results"}
    assert failed == {
        "tool_name": "fail",
        "status": "error",
        "error": "broken",
        "error_type": "ValueError",
        "parameters": {"why": "broken"},
    }
