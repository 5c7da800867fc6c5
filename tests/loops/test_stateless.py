"""Design 0, the stateless agent and its manager: a test for every row, named after it; then one for each option."""
# ruff: noqa: N802  (row ids keep their capitals)

from __future__ import annotations

import asyncio
import copy
import json
import logging
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, get_args

import dspy
import pytest
from pydantic import ValidationError

from loopbench.dspy_seam import lm_of
from loopbench.loops.stateless import (
    ActionDecision,
    ActionType,
    ActivityManager,
    AgentReasoner,
    AgentReasonerSignature,
    ConversationEntry,
    ConversationManager,
    ConversationState,
    DSPyToolRegistryAdapter,
    ErrorRecoveryModule,
    ErrorRecoverySignature,
    ErrorRecoveryStrategy,
    HistorySummary,
    ManualAgentLoop,
    MultiToolRegistry,
    ReasoningOutput,
    ResponseFormatter,
    Stateless,
    StatelessProgram,
    ToolboxRegistry,
    ToolCall,
    ToolRegistry,
)
from loopbench.protocol import (
    SILENT,
    Act,
    Answer,
    BudgetExceeded,
    Completion,
    ContextOverflow,
    Loop,
    Observer,
    Outcome,
    ProviderError,
    Query,
    Recovery,
    Reply,
    Role,
    StopReason,
    Text,
    Tool,
    Toolbox,
    Usage,
    run_sync,
)
from loopbench.protocol import ToolCall as Call


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail(why: str = "broken") -> str:
    """Always fails."""
    raise ValueError(why)


def search(query: str) -> str:
    """Search the web."""
    return f"found 3 pages on {query}"


def image_search(query: str) -> str:
    """Search for images."""
    return f"an image of {query}"


TOOLS = (add, fail, search, image_search)
BAD = "I think the answer is 3."


# --- replies, as a model writes them ---


def section(**fields: Any) -> str:
    parts = [f"[[ ## {name} ## ]]\n{value if isinstance(value, str) else json.dumps(value)}" for name, value in fields.items()]
    return "\n\n".join([*parts, "[[ ## completed ## ]]\n"])


def think(*calls: tuple[str, dict[str, Any]], final: str | None = None, **changes: Any) -> str:
    """A decision: the calls, else the end with `final`."""
    said: dict[str, Any] = {
        "overall_reasoning": "Overall.",
        "confidence": 0.9,
        "should_use_tools": bool(calls),
        "tool_calls": [{"tool_name": name, "parameters": args, "reasoning": "Because."} for name, args in calls] or None,
        "parallel_safe": True,
        "should_continue": final is None,
        "continuation_reasoning": "Continuation.",
        "final_response": final,
    }
    return section(reasoning="Step by step.", reasoning_output=said | changes)


def recover(strategy: str, details: str = "D.", **more: Any) -> str:
    return section(reasoning="R.", recovery_strategy={"strategy_type": strategy, "details": details} | more)


def formatted(text: str) -> str:
    return section(formatted_response=text)


def summary(text: str, *points: str) -> str:
    return section(summary=text, key_points=list(points))


def compressed(text: str, findings: str = "F.", unresolved: str = "U.") -> str:
    return section(reasoning="R.", summary=text, key_findings=findings, unresolved_questions=unresolved)


ADD = ("add", {"a": 1, "b": 2})
FAIL = ("fail", {"why": "broken"})
EMPTY = think()
STOP = think(final="3")


# --- the parts, made for a test ---


def agent(model: Any = None, *functions: Any, **options: Any) -> ManualAgentLoop:
    return ManualAgentLoop(Toolbox(functions or TOOLS), model=model, **{"response_style": None} | options)


def manager(
    model: Any, *functions: Any, kind: type[ActivityManager] = ActivityManager, agent_options: Any = (), **options: Any
) -> ActivityManager:
    decider = agent(model, *functions, **dict(agent_options))
    return kind(decider, decider.tool_registry, **options)


def activity(
    model: Any, *functions: Any, kind: type[ActivityManager] = ActivityManager, agent_options: Any = (), **options: Any
) -> tuple[dict[str, Any], ConversationState]:
    """One activity to its end: the result, and the state then."""
    made = manager(model, *functions, kind=kind, agent_options=agent_options, **options)
    state = made.new_state("Q", "id")
    return made.continue_activity(state), state


def run(loop: Stateless, model: Any, *functions: Any, observer: Observer = SILENT) -> Outcome:
    return run_sync(loop.run(Query("Q"), Toolbox(functions or TOOLS), model, observer))


PLAIN = Stateless(response_style=None)


def shown(request: Any, name: str) -> str:
    """One input field as a request shows it."""
    rest: str = request.messages[-1].content.partition(f"[[ ## {name} ## ]]\n")[2]
    return rest.partition("\n\n[[ ## ")[0].partition("\n\nRespond with the corresponding output fields")[0]


def system(request: Any) -> str:
    content: str = request.messages[0].content
    return content


def success(name: str, result: Any, **more: Any) -> dict[str, Any]:
    return {"tool_name": name, "status": "success", "result": result, "execution_time": 0.0, "parameters": {}} | more


def error(name: str, text: str = "broken", **more: Any) -> dict[str, Any]:
    return {"tool_name": name, "status": "error", "error": text, "error_type": "ValueError", "parameters": {"why": text}} | more


def entry(iteration: int = 1, summary: str = "add: 3", **more: Any) -> ConversationEntry:
    base: dict[str, Any] = {
        "timestamp": float(iteration),
        "reasoning": f"Because {iteration}.",
        "tool_calls": ["add"],
        "tool_parameters": {"add": {"a": 1, "b": 2}},
        "results": [success("add", 3)],
    }
    return ConversationEntry(iteration=iteration, results_summary=summary, **base | more)


def state(**changes: Any) -> ConversationState:
    return ConversationState(**{"user_query": "Q", "iteration_count": 1} | changes)


def results_of(made: ConversationState, place: int = 0) -> list[dict[str, Any]]:
    """The results of one entry without their times."""
    return [{k: v for k, v in item.items() if k != "execution_time"} for item in made.conversation_history[place].results]


# --- types ---


def fields_of(model: Any) -> dict[str, Any]:
    """Field → default; `...` where it is required."""
    return {
        name: ... if info.is_required() else info.get_default(call_default_factory=True)
        for name, info in model.model_fields.items()
    }


def test_S0_7_a_tool_call_has_name_parameters_and_reasoning() -> None:
    assert fields_of(ToolCall) == {"tool_name": ..., "parameters": ..., "reasoning": ...}
    with pytest.raises(ValidationError):
        ToolCall(tool_name="add", parameters=[1], reasoning="")


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan")])
def test_S0_8_a_reasoning_output_has_the_documents_fields_and_a_confidence_within_0_and_1(confidence: float) -> None:
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


def test_S0_9_the_reasoners_signature_has_six_inputs_and_one_structured_output(kit: Any) -> None:
    inputs = ["user_query", "conversation_history", "last_tool_results", "available_tools", "iteration_count", "max_iterations"]
    assert list(AgentReasonerSignature.input_fields) == inputs
    assert list(AgentReasonerSignature.output_fields) == ["reasoning_output"]
    model = kit.Script(STOP)
    run(PLAIN, model)
    assert [tool["name"] for tool in json.loads(shown(model.requests[0], "available_tools"))] == [f.__name__ for f in TOOLS]
    assert all(f"[[ ## {name} ## ]]" in model.requests[0].messages[-1].content for name in inputs)


def test_S0_10_a_recovery_strategy_has_a_type_of_four_and_the_documents_fields() -> None:
    kinds = ErrorRecoveryStrategy.model_fields["strategy_type"].annotation
    assert get_args(kinds) == ("retry", "alternative_tool", "skip", "fail")
    assert fields_of(ErrorRecoveryStrategy) == {
        "strategy_type": ...,
        "details": ...,
        "alternative_tool": None,
        "retry_with_params": None,
        "can_recover": True,
    }


def test_S0_11_the_planner_gets_error_type_tool_parameters_query_tools_and_attempts(kit: Any) -> None:
    assert list(ErrorRecoverySignature.output_fields) == ["recovery_strategy"]
    model = kit.Script(recover("skip"), STOP)
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


def test_S0_12_action_types_are_three_words() -> None:
    assert {kind.name: kind.value for kind in ActionType} == {
        "TOOL_EXECUTION": "tool_execution",
        "FINAL_RESPONSE": "final_response",
        "ERROR_RECOVERY": "error_recovery",
    }


def test_S0_13_an_action_decision_has_the_documents_fields_and_the_added_ones() -> None:
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
    }
    with pytest.raises(ValidationError):
        ActionDecision(action_type=ActionType.TOOL_EXECUTION, reasoning="", confidence=2)


def test_S0_14_a_conversation_state_has_the_documents_fields_and_the_added_ones() -> None:
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


def test_S0_15_B0_3_a_conversation_entry_has_all_that_the_formatter_reads(kit: Any) -> None:
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
    result, made = activity(kit.Script(think(ADD), think(ADD), STOP))
    assert result["status"] == "completed", "the second decision reads the first one's entry"
    assert [item.iteration for item in made.conversation_history] == [1, 2]


def test_S0_16_results_have_three_shapes(kit: Any) -> None:
    calls = think(("search", {"query": "x"}), ("image_search", {"query": "x"}), FAIL)
    _, made = activity(kit.Script(calls, recover("skip"), STOP), execution_mode="selective")
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


# --- registries ---


def test_S0_17_the_registry_protocol_is_checked_at_run_time() -> None:
    assert isinstance(ToolboxRegistry(Toolbox()), ToolRegistry)
    assert isinstance(DSPyToolRegistryAdapter(MultiToolRegistry()), ToolRegistry)
    assert not isinstance(MultiToolRegistry(), ToolRegistry)
    with pytest.raises(TypeError, match="no tool registry"):
        ManualAgentLoop(object())


def test_S0_18_the_adapter_maps_errors_names_and_descriptions() -> None:
    argument = SimpleNamespace(name="city", type="string", description="Where", required=True)
    definitions = [
        SimpleNamespace(name=SimpleNamespace(value="weather"), description="W.", arguments=[argument]),
        SimpleNamespace(name="plain", description="P.", arguments=None),
    ]

    class Existing:
        def __init__(self) -> None:
            self._functions: dict[str, Callable[..., Any]] = {"weather": add, "plain": search}

        def get_function(self, name: str) -> Callable[..., Any]:
            return self._functions[name]

        def get_tool_definitions(self) -> list[Any]:
            return definitions

    adapter = DSPyToolRegistryAdapter(Existing())
    assert adapter.get_tool("weather") is add
    with pytest.raises(ValueError, match="Tool 'nope' not found in registry"):
        adapter.get_tool("nope")
    assert adapter.get_all_tool_names() == ["weather", "plain"]
    assert adapter.get_all_tool_descriptions() == [
        {
            "name": "weather",
            "description": "W.",
            "parameters": [{"name": "city", "type": "string", "description": "Where", "required": True}],
        },
        {"name": "plain", "description": "P.", "parameters": []},
    ]


def test_S0_65_a_multi_tool_registry_registers_functions_and_defines_them() -> None:
    registry = MultiToolRegistry()
    registry.register(add, fail)
    assert registry.get_function("add") is add
    with pytest.raises(KeyError):
        registry.get_function("nope")
    described = DSPyToolRegistryAdapter(registry).get_all_tool_descriptions()
    assert [item["name"] for item in described] == ["add", "fail"]
    assert described[0]["parameters"][0] == {"name": "a", "type": "integer", "description": "", "required": True}
    assert described[1]["parameters"][0]["required"] is False


class Names:
    """A registry that tells nothing of parameters."""

    def get_tool(self, tool_name: str) -> Callable[..., Any]:
        if tool_name == "lost":
            raise ValueError("Tool 'lost' not found in registry")
        return add

    def get_all_tool_names(self) -> list[str]:
        return ["add"]

    def get_all_tool_descriptions(self) -> list[dict[str, Any]]:
        return [{"name": "add", "description": "Sums."}]


def test_S0_65_a_registry_without_parameters_in_its_descriptions_works(kit: Any) -> None:
    decider = ManualAgentLoop(Names(), response_style=None, model=kit.Script(think(ADD), STOP))
    result = ActivityManager(decider, Names()).run_activity("Q")
    assert (result["final_response"], result["tools_used"]) == ("3", ["add"])


def test_B0_11_agent_and_manager_share_one_registry_raw_or_wrapped(kit: Any) -> None:
    registry = MultiToolRegistry()
    registry.register(add)
    for first in (registry, DSPyToolRegistryAdapter(registry)):
        decider = ManualAgentLoop(tool_registry=first, enable_error_recovery=True, model=kit.Script(think(ADD), STOP, Text("3")))
        made = ActivityManager(agent_loop=decider, tool_registry=registry, max_iterations=5, execution_mode="sequential")
        result = made.run_activity("How much is it?")
        assert (result["final_response"], result["iterations"], result["tools_used"]) == ("3", 2, ["add"])


# --- the reasoner ---


def test_S0_19_one_chain_of_thought_call_gives_tools_and_continuation(kit: Any) -> None:
    model = kit.Script(think(ADD))
    decision = agent(model).get_next_action(state())
    assert model.roles == [Role.DECIDE]
    assert list(model.requests[0].codec.signature.output_fields) == ["reasoning", "reasoning_output"]
    assert (decision.action_type, decision.should_continue) == (ActionType.TOOL_EXECUTION, True)


def long_history(chars: int) -> list[ConversationEntry]:
    """One entry that is rendered as exactly so many characters."""
    bare = entry(1, "")
    empty = len("\n".join(["Iteration 1:", f"  Reasoning: {bare.reasoning}", "  Tools used: add", "  Results: "]))
    return [entry(1, "x" * (chars - empty))]


def test_S0_20_B0_19_X_14_a_history_of_3001_characters_is_summarized_and_one_of_3000_is_not(kit: Any) -> None:
    model = kit.Script(STOP)
    agent(model).get_next_action(state(conversation_history=long_history(3000)))
    assert model.roles == [Role.DECIDE]
    assert len(shown(model.requests[0], "conversation_history")) == 3000

    model = kit.Script(summary("S.", "one", "two"), STOP)
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


def test_B0_19_X_14_a_stored_summary_is_sent_with_what_it_does_not_cover_and_not_made_again(kit: Any) -> None:
    stored = HistorySummary(summary="S.", key_points=["k"], last_iteration=2)
    entries = [entry(1, "one"), entry(2, "two"), entry(3, "three")]
    model = kit.Script(STOP)
    decision = agent(model).get_next_action(state(conversation_history=entries, history_summary=stored))
    history = shown(model.requests[0], "conversation_history")
    assert history.startswith("[Summarized earlier history]: S.\nKey points: k")
    assert "three" in history
    assert "two" not in history
    assert decision.history_summary is None

    model = kit.Script(summary("S2."), STOP)
    entries[2] = entry(3, "y" * 3001)
    decision = agent(model).get_next_action(state(conversation_history=entries, history_summary=stored))
    assert model.roles == [Role.SUMMARIZE, Role.DECIDE]
    assert shown(model.requests[0], "long_history").startswith("[Summarized earlier history]: S.")
    assert "two" not in shown(model.requests[0], "long_history")
    assert decision.history_summary == HistorySummary(summary="S2.", key_points=[], last_iteration=3)


def test_B0_19_a_folded_entry_counts_as_covered_only_up_to_the_entry_after_it(kit: Any) -> None:
    folded = entry(-1, "FOLDED", reasoning="SUMMARY: FOLDED")
    for last, known in ((5, False), (3, True)):
        stored = HistorySummary(summary="S.", key_points=[], last_iteration=last)
        model = kit.Script(STOP)
        agent(model).get_next_action(state(conversation_history=[folded, entry(6, "six")], history_summary=stored))
        history = shown(model.requests[0], "conversation_history")
        assert ("FOLDED" in history, "six" in history) == (known, True)


def test_B0_19_the_manager_keeps_the_summary_for_later_decisions(kit: Any) -> None:
    def long(text: str) -> str:
        """A long text."""
        return text * 190

    model = kit.Script(think(*[("long", {"text": "z"})] * 17), summary("S."), think(ADD), STOP)
    _, made = activity(model, long, add)
    assert model.roles == [Role.DECIDE, Role.SUMMARIZE, Role.DECIDE, Role.DECIDE]
    assert made.history_summary is not None
    assert "S." in shown(model.requests[-1], "conversation_history")


def test_X_14_an_unreadable_summary_leaves_the_last_3000_characters_and_a_log(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    model = kit.Script(BAD, STOP)
    with caplog.at_level(logging.WARNING):
        decision = agent(model).get_next_action(state(conversation_history=long_history(4000)))
    assert shown(model.requests[1], "conversation_history") == "x" * 3000
    assert "cannot be read" in caplog.text
    assert (decision.history_summary, decision.action_type) == (None, ActionType.FINAL_RESPONSE)
    decision = agent(kit.Script(ProviderError("down"))).get_next_action(state(conversation_history=long_history(4000)))
    assert decision.error_kind == "provider_error"


def test_B0_19_X_14_what_was_summarized_before_stays_when_the_next_summary_is_unreadable(kit: Any) -> None:
    model = kit.Script(BAD, STOP)
    known = HistorySummary(summary="Old.", key_points=["k"], last_iteration=1)
    agent(model).get_next_action(state(conversation_history=[entry(1), entry(2, "x" * 3000)], history_summary=known))
    told = shown(model.requests[1], "conversation_history")
    assert told.startswith("[Summarized earlier history]: Old.\nKey points: k\n\n[Recent history]: xxx")
    assert told.endswith("x" * 3000)


def test_S0_21_absent_results_are_a_literal_text(kit: Any) -> None:
    absences: tuple[list[Any] | None, ...] = (None, [])
    for absent in absences:
        model = kit.Script(STOP)
        agent(model).get_next_action(state(last_tool_results=absent))
        assert shown(model.requests[0], "last_tool_results") == "No previous tool results"


def test_S0_22_B0_18_the_validators_verdict_goes_to_the_trace_and_changes_nothing(kit: Any) -> None:
    verdict = section(is_valid=False, validation_issues=["odd"])
    for reply, noted in ((verdict, [("validation", {"is_valid": False, "issues": ["odd"]})]), (BAD, [])):
        notes = kit.Notes()
        model = kit.Script(STOP, reply)
        outcome = run(Stateless(response_style=None, validate_output=True), model, observer=notes)
        assert model.roles == [Role.DECIDE, Role.VALIDATE]
        assert (outcome.answer, outcome.stop, notes.notes) == ("3", StopReason.FINISHED, noted)
    model = kit.Script(STOP)
    assert run(PLAIN, model).answer == "3"
    assert "output_validator" not in str([name for name, _ in agent().named_predictors()])


# --- get_next_action ---


def test_S0_23_errors_go_to_recovery_first_if_open_enabled_and_rounds_are_left(kit: Any) -> None:
    failed = [error("fail")]
    cases: list[tuple[dict[str, Any], dict[str, Any], Role]] = [
        ({"last_tool_results": failed}, {}, Role.RECOVER),
        ({"last_tool_results": failed}, {"enable_error_recovery": False}, Role.DECIDE),
        ({"last_tool_results": [error("fail", seen=True)]}, {}, Role.DECIDE),
        ({"last_tool_results": failed, "recovery_rounds": 2}, {}, Role.DECIDE),
        ({"last_tool_results": [success("add", 3)]}, {}, Role.DECIDE),
    ]
    for changes, options, role in cases:
        model = kit.Script(lambda request: Recovery("retry") if request.role is Role.RECOVER else Answer("t", "3", 0.9))
        agent(model, **options).get_next_action(state(**changes))
        assert model.roles == [role], changes


def test_S0_24_B0_2_X_9_a_decision_is_a_pure_function_of_its_state(kit: Any) -> None:
    decider = agent(None, response_style="concise")
    before = state(conversation_history=[entry()], last_tool_results=[success("add", {"x": [1]}), error("fail")])
    kept = before.model_copy(deep=True)
    made = []
    for _ in range(2):
        model = kit.Script(recover("skip"), think(final="3", confidence=0.25), formatted("three"))
        decision = decider.over(decider.tool_registry, model).get_next_action(before)
        made.append(decision.model_dump(exclude={"processing_time"}))
    assert made[0] == made[1]
    assert before == kept
    assert before.last_confidence is None
    assert made[0]["confidence"] == 0.25
    _, after = activity(kit.Script(think(final="3", confidence=0.25)))
    assert after.last_confidence == 0.25


def test_S0_24_the_formatter_gets_this_decisions_confidence(kit: Any) -> None:
    decider = agent(
        kit.Script(think(final="3", confidence=0.25), formatted("F")), response_style="concise", include_confidence=True
    )
    assert decider.get_next_action(state(last_confidence=0.75)).final_response == "F\n\nConfidence: 25%"


def test_S0_25_a_stop_is_a_final_response_even_beside_tools(kit: Any) -> None:
    model = kit.Script(think(ADD, should_continue=False, final_response="raw"), formatted("neat"))
    decision = agent(model, response_style="concise").get_next_action(state())
    assert decision.action_type is ActionType.FINAL_RESPONSE
    assert (decision.reasoning, decision.final_response, decision.should_continue) == ("Continuation.", "neat", False)
    assert model.roles == [Role.DECIDE, Role.FORMAT]
    assert shown(model.requests[1], "raw_response") == "raw"


def test_S0_26_tools_are_suggested_with_parallel_safe_and_next_action(kit: Any) -> None:
    model = kit.Script(think(ADD, FAIL, parallel_safe=False, suggested_next_action="Then stop."))
    decision = agent(model).get_next_action(state())
    assert decision.action_type is ActionType.TOOL_EXECUTION
    assert [call.tool_name for call in decision.tool_suggestions or ()] == ["add", "fail"]
    assert (decision.parallel_safe, decision.suggested_next_action, decision.reasoning) == (False, "Then stop.", "Overall.")
    assert decision.confidence == 0.9


@pytest.mark.parametrize("said", [EMPTY, think(should_use_tools=True), think(ADD, should_use_tools=False)])
def test_S0_27_B0_10_going_on_without_tools_is_an_empty_execution(said: str, kit: Any) -> None:
    decision = agent(kit.Script(said)).get_next_action(state())
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
def test_S0_28_any_exception_is_an_error_recovery_that_names_its_kind(answer: Any, kind: str, kit: Any) -> None:
    decision = agent(kit.Script(answer)).get_next_action(state())
    assert (decision.action_type, decision.confidence, decision.should_continue) == (ActionType.ERROR_RECOVERY, 0.0, False)
    assert decision.reasoning.startswith("Error in agent processing: ")
    assert decision.error_kind == kind
    assert decision.final_response
    assert str(answer) not in decision.final_response
    assert "cause" not in decision.model_dump()


@pytest.mark.parametrize("raised", [BudgetExceeded("spent"), asyncio.CancelledError(), KeyboardInterrupt()])
def test_S0_28_G_3_cancellation_and_budget_pass_through(raised: BaseException, kit: Any) -> None:
    before = state(last_tool_results=[error("fail")])
    for given in (state(), before):
        with pytest.raises(type(raised)):
            asyncio.run(agent(kit.Script(raised)).aget_next_action(given))


def test_S0_29_forward_is_get_next_action(kit: Any) -> None:
    decider = agent(kit.Script(think(ADD), think(ADD), think(ADD)))
    direct = decider.get_next_action(state())
    called = decider(state())
    awaited = run_sync(decider.acall(state()))
    same = [made.model_dump(exclude={"processing_time"}) for made in (direct, called, awaited)]
    assert same[0] == same[1] == same[2]


def test_S0_30_every_decision_has_its_processing_time(kit: Any) -> None:
    class Slow(type(kit.Script())):  # type: ignore[misc]
        async def complete(self, request: Any) -> Reply:
            await asyncio.sleep(0.01)
            reply: Reply = await super().complete(request)
            return reply

    for answers in ([STOP], [think(ADD)], [EMPTY], [BAD]):
        assert agent(Slow(*answers)).get_next_action(state()).processing_time >= 0.01
    model = Slow(recover("retry"))
    assert agent(model).get_next_action(state(last_tool_results=[error("fail")])).processing_time >= 0.01


# --- recovery ---


def test_S0_31_B0_6_X_11_each_failed_tool_has_a_call_and_a_strategy_of_its_own(kit: Any) -> None:
    failed = [error("one", "first"), success("add", 3), error("two", "second")]
    model = kit.Script(recover("retry", "again", retry_with_params={"n": 1}), recover("retry", "anew"))
    decision = agent(model).get_next_action(state(last_tool_results=failed))
    assert model.roles == [Role.RECOVER] * 2
    assert [shown(request, "failed_tool") for request in model.requests] == ["one", "two"]
    assert [call.model_dump() for call in decision.tool_suggestions or ()] == [
        {"tool_name": "one", "parameters": {"n": 1}, "reasoning": "Retry: again"},
        {"tool_name": "two", "parameters": {"why": "second"}, "reasoning": "Retry: anew"},
    ]
    unrecoverable = recover("retry", can_recover=False)
    decision = agent(kit.Script(unrecoverable)).get_next_action(state(last_tool_results=[error("one")]))
    assert decision.action_type is ActionType.FINAL_RESPONSE


@pytest.mark.parametrize("given", [{"a": 1, "b": 2}, None])
def test_S0_32_an_alternative_is_called_with_its_own_parameters(given: Any, kit: Any) -> None:
    model = kit.Script(recover("alternative_tool", "Use add.", alternative_tool="add", retry_with_params=given))
    decision = agent(model).get_next_action(state(last_tool_results=[error("fail")]))
    assert [call.model_dump() for call in decision.tool_suggestions or ()] == [
        {"tool_name": "add", "parameters": given or {}, "reasoning": "Use add."}
    ]
    assert decision.reasoning == "Attempting recovery with alternative tools"
    assert (decision.confidence, decision.parallel_safe, decision.should_continue) == (0.7, False, True)
    assert decision.is_recovery


def test_S0_33_a_retry_takes_new_or_the_original_parameters(kit: Any) -> None:
    for given, expected in (({"why": "x"}, {"why": "x"}), (None, {"why": "broken"})):
        model = kit.Script(recover("retry", "Once more.", retry_with_params=given))
        decision = agent(model).get_next_action(state(last_tool_results=[error("fail")]))
        [call] = decision.tool_suggestions or []
        assert (call.tool_name, call.parameters, call.reasoning) == ("fail", expected, "Retry: Once more.")
        assert decision.reasoning == "Retrying failed tools with adjusted parameters"
        assert (decision.confidence, decision.parallel_safe, decision.should_continue) == (0.6, False, True)


def test_S0_33_S0_24_a_retry_shares_nothing_with_its_state(kit: Any) -> None:
    known = state(last_tool_results=[error("fail", parameters={"why": ["deep"]})])
    made = agent(kit.Script(recover("retry"))).get_next_action(known)
    assert made.tool_suggestions is not None
    made.tool_suggestions[0].parameters["why"].append("changed")
    assert known.last_tool_results is not None
    assert known.last_tool_results[0]["parameters"] == {"why": ["deep"]}


def test_S0_34_all_errors_unrecoverable_end_the_run_with_a_formatted_text(kit: Any) -> None:
    model = kit.Script(recover("fail"), formatted("Sorry."))
    decision = agent(model, response_style="concise").get_next_action(state(last_tool_results=[error("fail")]))
    assert decision.action_type is ActionType.FINAL_RESPONSE
    assert (decision.should_continue, decision.confidence, decision.final_response) == (False, 0.5, "Sorry.")
    assert decision.reasoning == "Unable to recover from errors: fail: broken"
    assert "broken" in shown(model.requests[1], "raw_response")
    outcome = run(PLAIN, kit.Script(think(FAIL), recover("fail")))
    assert (outcome.stop, outcome.details["status"]) == (StopReason.RECOVERY_FAILED, "completed")


def test_S0_35_without_failed_tools_recovery_is_normal_reasoning(kit: Any) -> None:
    class Always(ManualAgentLoop):
        def _may_recover(self, state: ConversationState) -> bool:
            return True

    model = kit.Script(STOP)
    decider = Always(Toolbox(TOOLS), response_style=None, model=model)
    assert decider.get_next_action(state(last_tool_results=[success("add", 3)])).final_response == "3"
    assert model.roles == [Role.DECIDE]


def test_S0_36_B0_30_strategies_are_told_to_the_planner_and_limit_it(kit: Any) -> None:
    assert ErrorRecoveryModule().strategies == ["retry", "alternative_tool", "graceful_degradation"]
    model = kit.Script(recover("skip"), STOP)
    agent(model).get_next_action(state(last_tool_results=[error("fail")], errors_encountered=["Tool fail: a", "Tool fail: b"]))
    assert "Allowed strategies: retry, alternative_tool, skip, fail." in system(model.requests[0])
    assert shown(model.requests[0], "previous_attempts") == "1. Tool fail: a\n2. Tool fail: b"
    module = ErrorRecoveryModule(["retry"])
    assert module.allowed == ("retry", "fail")
    model = kit.Script(recover("skip"))
    decider = agent(model, recovery_strategies=["retry"])
    assert decider.get_next_action(state(last_tool_results=[error("fail")])).action_type is ActionType.FINAL_RESPONSE


def test_B0_7_X_11_every_strategy_does_what_it_says_beside_the_others(kit: Any) -> None:
    failed = [error("one"), error("two"), error("three"), error("four"), error("five")]
    model = kit.Script(
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
    model = kit.Script(recover("fail"), recover("skip"), STOP)
    decision = agent(model).get_next_action(state(last_tool_results=failed[:2]))
    assert (decision.action_type, decision.is_recovery) == (ActionType.FINAL_RESPONSE, False)
    assert model.roles == [Role.RECOVER, Role.RECOVER, Role.DECIDE]
    assert "one: ERROR - broken" in shown(model.requests[2], "last_tool_results")


def test_X_11_an_alternative_that_does_not_exist_is_an_error_result(kit: Any) -> None:
    model = kit.Script(think(FAIL), recover("alternative_tool", alternative_tool="nope"), recover("skip"), STOP)
    _, made = activity(model)
    (result,) = made.conversation_history[1].results
    assert (result["error"], result["error_type"]) == ("Tool 'nope' not found in registry", "ValueError")


def test_B0_22_X_11_a_recovery_keeps_the_steps_successes_and_skipped_errors(kit: Any) -> None:
    model = kit.Script(
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


def test_B0_33_X_11_the_planner_sees_descriptions_and_its_own_failure_makes_the_error_unrecoverable(kit: Any) -> None:
    model = kit.Script(BAD)
    odd = error("fail", parameters={"when": time.gmtime, "set": {1}})
    decision = agent(model).get_next_action(state(last_tool_results=[odd]))
    tools = {tool["name"]: tool for tool in json.loads(shown(model.requests[0], "available_tools"))}
    assert tools["add"]["description"] == "Add two numbers."
    assert [name for name, tool in tools.items() if tool.get("failed")] == ["fail"]
    assert decision.action_type is ActionType.FINAL_RESPONSE
    decision = agent(kit.Script(ProviderError("down"))).get_next_action(state(last_tool_results=[error("fail")]))
    assert (decision.action_type, decision.error_kind) == (ActionType.ERROR_RECOVERY, "provider_error")
    names = kit.Script(recover("skip"))
    with dspy.context(lm=lm_of(names)):
        assert ErrorRecoveryModule()(error("fail"), state(), ["add", "fail"]).strategy_type == "skip"
    assert json.loads(shown(names.requests[0], "available_tools"))[1] == {"name": "fail", "failed": True}


def test_B0_36_X_11_recovery_is_bounded_until_a_success(kit: Any) -> None:
    model = kit.Script(think(FAIL), recover("retry"), recover("retry"), think(FAIL), think(FAIL), think(ADD), think(FAIL))
    model.then = recover("fail")
    _, made = activity(model)
    roles = [Role.DECIDE, Role.RECOVER, Role.RECOVER, *[Role.DECIDE] * 4, Role.RECOVER]
    assert model.roles == roles
    assert made.recovery_rounds == 0


# --- the formatter ---


def detailed(text: str, points: str) -> str:
    return section(reasoning="R.", formatted_response=text, summary_points=points)


def test_S0_37_B0_15_detailed_adds_points_and_the_confidence_zero_included(kit: Any) -> None:
    for confidence, line in ((0.0, "\n\nConfidence: 0%"), (0.876, "\n\nConfidence: 88%"), (None, "")):
        model = kit.Script(detailed("Text.", "- one\ntwo\n• three"))
        with dspy.context(lm=lm_of(model)):
            text = ResponseFormatter("detailed", include_confidence=True)(
                "raw", "Q", state(conversation_history=[entry()]), confidence
            )
        assert text == f"Text.\n\nKey Points:\n• one\n• two\n• three{line}"
        assert "Tools used: add" in shown(model.requests[0], "tool_history")
        assert json.loads(shown(model.requests[0], "key_results")) == [{"tool_name": "add", "result": 3}]


def test_S0_38_other_styles_are_one_call_without_points(kit: Any) -> None:
    for style in ("concise", "friendly"):
        model = kit.Script(formatted("Text."))
        with dspy.context(lm=lm_of(model)):
            assert ResponseFormatter(style)("raw", "Q", state(), 0.5) == "Text."
        assert f"Style: {style}." in system(model.requests[0])
        assert "tool_history" not in system(model.requests[0])


def test_S0_39_the_confidence_stands_under_detailed_answers_unless_said_otherwise(kit: Any) -> None:
    for style, include, there in (
        ("concise", None, False),
        ("concise", True, True),
        ("detailed", None, True),
        ("detailed", False, False),
    ):
        decider = agent(None, response_style=style, include_confidence=include)
        reply = formatted("T") if style == "concise" else detailed("T", "p")
        text = decider.over(decider.tool_registry, kit.Script(think(final="x"), reply)).get_next_action(state()).final_response
        assert ("Confidence: 90%" in (text or "")) is there, (style, include)
    assert Stateless().response_style == ManualAgentLoop(Toolbox()).response_style == "concise"


# --- formatting ---


def test_S0_40_B0_31_one_renderer_shows_entries_summaries_and_errors(kit: Any) -> None:
    entries = [
        entry(-1, "S", reasoning="SUMMARY: S", tool_calls=["<summarized>"], errors=["Tool old: e"]),
        entry(1, "add: 3"),
        entry(2, "fail: ERROR - broken", tool_calls=["fail", "add"], errors=["Tool fail: broken"]),
    ]
    text = (
        "[Previous Summary]: SUMMARY: S\n  Errors: Tool old: e\n"
        "Iteration 1:\n  Reasoning: Because 1.\n  Tools used: add\n  Results: add: 3\n"
        "Iteration 2:\n  Reasoning: Because 2.\n  Tools used: fail, add\n  Results: fail: ERROR - broken\n"
        "  Errors: Tool fail: broken"
    )
    model = kit.Script(STOP, STOP)
    agent(model).get_next_action(state(conversation_history=entries))
    agent(model).get_next_action(state())
    assert shown(model.requests[0], "conversation_history") == text
    assert shown(model.requests[1], "conversation_history") == "No previous interactions."
    assert ConversationManager(history=entries).get_formatted_history() == text


def test_S0_41_B0_4_results_are_shown_whole_by_status(kit: Any) -> None:
    long = "r" * 5000
    results = [success("a", long), success("b", {"x": "é"}), success("c", None), error("d", "e", seen=True)]
    results.append({"tool_name": "f", "status": "skipped", "reason": "why"})
    model = kit.Script(STOP)
    agent(model).get_next_action(state(last_tool_results=results))
    assert shown(model.requests[0], "last_tool_results").splitlines() == [
        f"a: {long}",
        'b: {"x": "é"}',
        "c: None",
        "d: ERROR - e",
        "f: SKIPPED - why",
    ]


def test_S0_42_tools_are_indented_json_and_follow_the_registry(kit: Any) -> None:
    model = kit.Script(STOP, STOP)
    registry = MultiToolRegistry()
    registry.register(add)
    decider = ManualAgentLoop(registry, response_style=None, model=model)
    decider.get_next_action(state())
    registry.register(search)
    decider.get_next_action(state())
    texts = [shown(request, "available_tools") for request in model.requests]
    assert [[tool["name"] for tool in json.loads(text)] for text in texts] == [["add"], ["add", "search"]]
    assert texts[0].startswith('[\n  {\n    "name": "add",')


# --- the manager ---


class Watch:
    """How many calls run at once, and in which order they begin."""

    def __init__(self, seconds: float = 0.02) -> None:
        self.seconds = seconds
        self.now = self.most = 0
        self.began: list[int] = []
        self.lock = threading.Lock()

    def work(self, n: int) -> int:
        """Takes a while, the longer the smaller n is."""
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.began.append(n)
        time.sleep(self.seconds * (1 + (n == 0)))
        with self.lock:
            self.now -= 1
        return n


@pytest.mark.parametrize(("mode", "safe", "most"), [("sequential", True, 1), ("parallel", True, 5), ("parallel", False, 1)])
def test_S0_43_S0_52_B0_9_parallel_needs_mode_flag_and_several_calls_and_has_five_workers(
    mode: Any, safe: bool, most: int, kit: Any
) -> None:
    watch = Watch()
    calls = [("work", {"n": n}) for n in range(8)]
    _, made = activity(kit.Script(think(*calls, parallel_safe=safe), STOP), watch.work, execution_mode=mode)
    assert watch.most == most
    assert [result["result"] for result in made.conversation_history[0].results] == list(range(8)), "in call order"


def test_S0_44_an_activity_has_an_id_a_limit_and_a_start() -> None:
    made = manager(None, max_iterations=4)
    first, second = made.new_state("Q"), made.new_state("Q")
    assert len(first.activity_id or "") == 36
    assert first.activity_id != second.activity_id
    assert made.new_state("Q", "mine").activity_id == "mine"
    assert first.max_iterations == 4
    assert abs((first.start_time or 0) - time.time()) < 60


def test_S0_45_S0_67_the_counter_rises_before_each_decision_and_each_is_logged(kit: Any) -> None:
    logged: list[tuple[Any, int, ActionType]] = []

    class Logging(ActivityManager):
        def _log_action(self, activity_id: str | None, iteration: int, action: ActionDecision) -> None:
            logged.append((activity_id, iteration, action.action_type))

    model = kit.Script(think(ADD), EMPTY, STOP)
    activity(model, kind=Logging)
    kinds = [ActionType.TOOL_EXECUTION, ActionType.TOOL_EXECUTION, ActionType.FINAL_RESPONSE]
    assert logged == [("id", number, kind) for number, kind in enumerate(kinds, 1)]
    assert [shown(request, "iteration_count") for request in model.requests] == ["1", "2", "3"]


class Counting(ManualAgentLoop):
    """An agent of the user's own."""

    asked = 0

    def get_next_action(self, state: ConversationState) -> ActionDecision:
        self.asked += 1
        return super().get_next_action(state)


class CountingAsync(ManualAgentLoop):
    asked = 0

    async def aget_next_action(self, state: ConversationState) -> ActionDecision:
        self.asked += 1
        return await super().aget_next_action(state)


@pytest.mark.parametrize("kind", [Counting, CountingAsync])
def test_S0_45_a_subclass_decides_by_the_method_that_it_overrides(kind: Any, kit: Any) -> None:
    decider = kind(Toolbox(TOOLS), model=kit.Script(think(ADD), STOP), response_style=None)
    result = ActivityManager(decider, Toolbox(TOOLS)).run_activity("Q")
    assert (result["final_response"], decider.asked) == ("3", 2)


def test_S0_45_a_method_put_onto_an_agent_is_asked(kit: Any) -> None:
    decider = agent(None)
    mine = Decides(decision(ActionType.FINAL_RESPONSE, final_response="mine"))
    decider.get_next_action = mine.get_next_action  # type: ignore[method-assign]
    assert ActivityManager(decider, Toolbox()).run_activity("Q")["final_response"] == "mine"


def test_S0_46_a_tool_step_updates_the_state(kit: Any) -> None:
    calls = think(("search", {"query": "x"}), ("image_search", {"query": "x"}), ADD)
    _, made = activity(kit.Script(calls, STOP), execution_mode="selective")
    assert made.total_tool_calls == 2, "what was skipped has not been called"
    assert len(made.conversation_history) == 1
    made_entry = made.conversation_history[0]
    assert (made_entry.reasoning, made_entry.tool_calls) == ("Overall.", ["search", "image_search", "add"])
    assert made.last_tool_results == made_entry.results
    assert made.last_confidence == 0.9


def test_S0_47_S0_51_a_final_response_is_completed_with_the_documents_keys(kit: Any) -> None:
    result, _ = activity(kit.Script(think(ADD, FAIL), recover("skip"), think(ADD), STOP))
    assert result == {
        "final_response": "3",
        "iterations": 3,
        "tools_used": ["add", "fail"],
        "total_tool_calls": 3,
        "activity_id": "id",
        "status": "completed",
    }


class Decides:
    """An agent of someone else's: the listed decisions, and no async face."""

    def __init__(self, *decisions: ActionDecision) -> None:
        self.decisions = list(decisions)

    def get_next_action(self, state: ConversationState) -> ActionDecision:
        return self.decisions.pop(0)


def decision(kind: ActionType, **more: Any) -> ActionDecision:
    return ActionDecision(action_type=kind, reasoning="r", **{"confidence": 0.9} | more)


def test_S0_48_error_recovery_ends_the_run_or_lets_it_go_on(kit: Any) -> None:
    go_on = decision(ActionType.ERROR_RECOVERY, should_continue=True)
    final = decision(ActionType.FINAL_RESPONSE, final_response="done")
    result = ActivityManager(Decides(go_on, final), Toolbox()).run_activity("Q")
    assert (result["final_response"], result["status"], result["iterations"]) == ("done", "completed", 2)
    stop = decision(ActionType.ERROR_RECOVERY, should_continue=False, final_response="sorry")
    result = ActivityManager(Decides(stop, final), Toolbox()).run_activity("Q")
    assert (result["final_response"], result["status"], result["iterations"]) == ("sorry", "error_recovery", 1)


def test_S0_48_what_kept_the_agent_from_deciding_is_logged_and_a_bug_with_its_traceback(
    kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    activity(kit.Script(ProviderError("down")))
    assert "activity id: provider_error: down" in caplog.text
    assert "Traceback" not in caplog.text
    assert activity(kit.Script(RuntimeError("bug")))[0]["status"] == "error_recovery"
    assert "Traceback" in caplog.text


def test_S0_49_S0_67_should_terminate_is_asked_after_every_iteration_that_is_not_the_last(kit: Any) -> None:
    asked: list[int] = []

    class Ends(ActivityManager):
        def _should_terminate(self, state: ConversationState, action: ActionDecision) -> bool:
            asked.append(state.iteration_count)
            return state.iteration_count == 2

    model = kit.Script(think(ADD), think(ADD), STOP)
    result, _ = activity(model, kind=Ends)
    assert (result["status"], result["iterations"], asked) == ("terminated", 2, [1, 2])
    assert model.roles == [Role.DECIDE] * 2, "the text is free"
    assert result["final_response"]
    asked.clear()
    activity(kit.Script(STOP), kind=Ends)
    assert asked == []
    assert manager(None)._should_terminate(state(), decision(ActionType.TOOL_EXECUTION)) is False
    loop = Stateless(response_style=None, manager=Ends)
    outcome = run(loop, kit.Script(think(ADD), think(ADD)))
    assert outcome.stop is StopReason.TERMINATED
    assert StopReason.TERMINATED in loop.stops - PLAIN.stops


def test_S0_50_at_the_limit_the_text_is_canned_and_free(kit: Any) -> None:
    model = kit.Script(then=think(ADD))
    result, _ = activity(model, max_iterations=3)
    assert (result["status"], result["iterations"], len(model.requests)) == ("max_iterations", 3, 3)
    assert "limit of 3 iterations" in result["final_response"]
    assert run(Stateless(max_iterations=3), kit.Script(then=think(ADD))).stop is StopReason.MAX_STEPS


def test_S0_52_what_escapes_a_single_tool_is_an_execution_error(kit: Any) -> None:
    class Escapes(ActivityManager):
        async def _execute_single_tool(self, tool_call: ToolCall) -> dict[str, Any]:
            if tool_call.parameters["a"] == 7:
                raise RuntimeError("escaped")
            return await super()._execute_single_tool(tool_call)

    for mode in ("sequential", "parallel", "selective"):
        model = kit.Script(think(("add", {"a": 7, "b": 1}), ADD), recover("skip"), STOP)
        _, made = activity(model, kind=Escapes, execution_mode=mode)
        first, second = made.conversation_history[0].results
        assert (first["error"], first["error_type"], first["parameters"]) == ("escaped", "ExecutionError", {"a": 7, "b": 1})
        assert second["status"] == "success"


def test_S0_53_B0_5_X_10_selective_runs_by_priority_and_skips_instead_of_running(kit: Any) -> None:
    ran: list[str] = []

    def tool(name: str, text: str) -> Tool:
        def function(**given: Any) -> str:
            ran.append(name)
            return text

        return Tool(name, "", {"type": "object"}, function)

    names = ["other", "web_search", "analyze", "calculate", "search", "late_search"]
    tools = [tool(name, "found it") for name in names]
    _, made = activity(kit.Script(think(*[(name, {}) for name in names]), STOP), *tools, execution_mode="selective")
    assert ran == ["search", "calculate", "analyze", "other"]
    results = made.conversation_history[0].results
    assert [result["tool_name"] for result in results] == names, "one result per call, in call order"
    assert [result["status"] == "skipped" for result in results] == [name.endswith("_search") for name in names]
    assert made.total_tool_calls == 4
    assert made.tools_used == ["other", "analyze", "calculate", "search"]

    ran.clear()
    both = [tool("search", "found it"), tool("web_search", "x")]
    _, made = activity(
        kit.Script(think(("search", {}), ("web_search", {}), ("search", {})), STOP), *both, execution_mode="selective"
    )
    assert ran == ["search", "search"]
    assert [r["status"] for r in made.conversation_history[0].results] == ["success", "skipped", "success"]


@pytest.mark.parametrize(
    ("text", "satisfied"),
    [
        ("found 3", True),
        ("Results FOUND: 10 found", True),
        ("not found", False),
        ("No results found", False),
        ("0 pages found", False),
        ("nothing", False),
        ("No matches of any kind could be found", False),
    ],
)
def test_B0_25_a_search_is_satisfied_only_by_something_found(text: str, satisfied: bool, kit: Any) -> None:
    assert manager(None)._search_satisfied(success("search", text)) is satisfied

    def search(query: str) -> str:
        """Search."""
        return text

    calls = think(("search", {"query": "x"}), ("image_search", {"query": "x"}))
    _, made = activity(kit.Script(calls, STOP), search, image_search, execution_mode="selective")
    assert (made.conversation_history[0].results[1]["status"] == "skipped") is satisfied


def test_S0_54_errors_become_results_and_time_is_recorded(kit: Any) -> None:
    watch = Watch(0.02)
    model = kit.Script(think(("work", {"n": 1}), FAIL, ("work", {"bad": 1}), ("nope", {})), *[recover("skip")] * 3, STOP)
    _, made = activity(model, watch.work, fail)
    work, failed, wrong, unknown = made.conversation_history[0].results
    assert work["execution_time"] >= 0.02
    assert (failed["error"], failed["error_type"]) == ("broken", "ValueError")
    assert wrong["error_type"] == "TypeError", "arguments go to the function as they are"
    assert (unknown["error"], unknown["error_type"]) == ("Tool 'nope' not found in registry", "ValueError")


class CustomActivityManager(ActivityManager):
    """The document's own example."""

    def _should_terminate(self, state: ConversationState, action: ActionDecision) -> bool:
        """Custom termination logic."""
        # Terminate if confidence is too low
        if action.confidence < 0.3:
            return True

        # Terminate if too many errors
        if len(state.errors_encountered) > 3:
            return True

        # Terminate if specific tools fail
        critical_tools = ["payment_process", "order_submit"]
        if state.last_tool_results:
            for result in state.last_tool_results:
                if result.get("tool_name") in critical_tools and result.get("status") == "error":
                    return True

        return False


def test_S0_55_B0_8_the_documents_termination_rules_run_as_written(kit: Any) -> None:
    def payment_process() -> None:
        """Pay."""
        raise ValueError("declined")

    low, _ = activity(kit.Script(think(ADD, confidence=0.2)), kind=CustomActivityManager)
    assert (low["status"], low["iterations"]) == ("terminated", 1)
    many, made = activity(kit.Script(think(*[FAIL] * 4)), kind=CustomActivityManager)
    assert (many["status"], made.errors_encountered) == ("terminated", ["Tool fail: broken"] * 4)
    critical, _ = activity(kit.Script(think(("payment_process", {}))), payment_process, kind=CustomActivityManager)
    assert critical["status"] == "terminated"
    fine, _ = activity(kit.Script(think(ADD), STOP), kind=CustomActivityManager)
    assert fine["status"] == "completed"


def test_S0_55_B0_26_invalid_calls_are_error_results_in_call_order_in_every_mode(kit: Any) -> None:
    refused: list[str] = []

    class Validates(ActivityManager):
        def _validate_tool_call(self, tool_call: ToolCall) -> bool:
            return tool_call.parameters.get("a") != 13

        def _log_validation_failure(self, tool_call: ToolCall) -> None:
            refused.append(tool_call.tool_name)

    for mode in ("sequential", "parallel", "selective"):
        calls = think(ADD, ("add", {"a": 13, "b": 1}), ADD)
        _, made = activity(kit.Script(calls, recover("skip"), STOP), kind=Validates, execution_mode=mode)
        results = made.conversation_history[0].results
        assert [result["status"] for result in results] == ["success", "error", "success"]
        assert (results[1]["error_type"], results[1]["parameters"]) == ("ValidationError", {"a": 13, "b": 1})
        assert "add: ERROR - " in made.conversation_history[0].results_summary
    assert refused == ["add"] * 3
    assert manager(None)._validate_tool_call(ToolCall(tool_name="x", parameters={}, reasoning="")) is True


# --- history ---


def test_S0_56_B0_21_eleven_entries_become_seven(kit: Any) -> None:
    model = kit.Script(compressed("S.", "F.", "U."))
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


def test_S0_56_an_unreadable_summary_keeps_all_entries(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    made = ConversationManager(max_history_length=1, model=kit.Script(BAD))
    made.add_entry(entry(1))
    made.add_entry(entry(2))
    assert [item.iteration for item in made.history] == [1, 2]
    assert "cannot be read" in caplog.text


def test_S0_57_formatted_history_may_be_the_last_entries_only() -> None:
    made = ConversationManager(history=[entry(1), entry(2), entry(3)])
    assert made.get_formatted_history(last_n=1).startswith("Iteration 3:")
    assert made.get_formatted_history().count("Iteration ") == 3
    summarized = entry(-1, "S", reasoning="SUMMARY: S", errors=["e"])
    assert ConversationManager(history=[summarized]).get_formatted_history() == "[Previous Summary]: SUMMARY: S\n  Errors: e"


def test_B0_21_the_managers_history_is_the_states(kit: Any) -> None:
    model = kit.Script(think(ADD), think(ADD), compressed("S."), think(ADD), STOP)
    _, made = activity(model, max_history_length=1)
    assert model.roles.count(Role.SUMMARIZE) >= 1
    assert made.conversation_history[0].iteration == -1
    assert "[Previous Summary]: SUMMARY: S." in shown(model.requests[3], "conversation_history")


def test_B0_21_G_3_a_provider_that_fails_while_compressing_ends_the_run(kit: Any) -> None:
    for raised, stop in (
        (ProviderError("down"), StopReason.PROVIDER_ERROR),
        (ContextOverflow("long"), StopReason.CONTEXT_OVERFLOW),
    ):
        loop = Stateless(response_style=None, max_history_length=1)
        model = kit.Script(think(ADD), think(ADD), raised)
        outcome = run(loop, model)
        assert (outcome.stop, outcome.answer, len(model.requests)) == (stop, None, 3)


def test_B0_21_B0_14_a_run_that_has_ended_pays_for_no_summary(kit: Any) -> None:
    last = think(ADD, should_continue=False, final_response="3")
    loop = Stateless(response_style=None, max_history_length=1, finish_with_tools="run_first")
    model = kit.Script(think(ADD), last, ProviderError("down"))
    outcome = run(loop, model)
    assert (outcome.stop, outcome.answer, model.roles) == (StopReason.FINISHED, "3", [Role.DECIDE] * 2)
    assert len(outcome.details["state"].conversation_history) == 2


def test_B0_21_an_agent_that_brings_no_summarizer_keeps_its_history_whole() -> None:
    steps = [decision(ActionType.TOOL_EXECUTION, tool_suggestions=[ToolCall(tool_name="add", parameters={}, reasoning="")])] * 11
    made = ActivityManager(Decides(*steps, decision(ActionType.FINAL_RESPONSE, final_response="3")), Toolbox(TOOLS), 20)
    known = made.new_state("Q")
    assert made.continue_activity(known)["status"] == "completed"
    assert [item.iteration for item in known.conversation_history] == list(range(1, 12))


# --- the rest of what the document says ---


def test_S0_59_B0_29_a_run_without_text_gets_one_from_its_last_results(kit: Any) -> None:
    nothing = think(final="", final_response=None)
    result, _ = activity(kit.Script(nothing))
    assert result["final_response"] == "No answer was produced."
    result, _ = activity(kit.Script(think(ADD, FAIL), recover("skip"), nothing))
    assert result["final_response"] == "add: 3\nfail: ERROR - broken"
    model = kit.Script(think(ADD), nothing, formatted("Three."))
    result, _ = activity(model, agent_options={"response_style": "concise"})
    assert result["final_response"] == "Three."
    assert shown(model.requests[2], "raw_response") == "add: 3"
    foreign = decision(ActionType.FINAL_RESPONSE)
    assert ActivityManager(Decides(foreign), Toolbox()).run_activity("Q")["final_response"] == "No answer was produced."


def test_S0_60_the_execution_methods_can_be_overridden_by_plain_functions_or_coroutines(kit: Any) -> None:
    seen: list[str] = []

    class Plain(ActivityManager):
        def _execute_tools(self, tool_calls: Any, mode: Any = "sequential", parallel_safe: bool = True) -> Any:
            seen.append(mode)
            return super()._execute_tools(tool_calls[:1], mode, parallel_safe)

        def _execute_sequential(self, tool_calls: Any) -> Any:
            seen.append("one by one")
            return [success("add", "mine")]

        async def _execute_parallel(self, tool_calls: Any) -> Any:
            seen.append("never: one call is left")
            return await super()._execute_parallel(tool_calls)

    for mode in ("sequential", "parallel"):
        _, made = activity(kit.Script(think(ADD, ADD), STOP), kind=Plain, execution_mode=mode)
        assert [result["result"] for result in made.conversation_history[0].results] == ["mine"]
    assert seen == ["sequential", "one by one", "parallel", "one by one"]

    class Selects(ActivityManager):
        def _execute_selective(self, tool_calls: Any) -> Any:
            return [success(call.tool_name, "chosen") for call in tool_calls]

    _, made = activity(kit.Script(think(ADD), STOP), kind=Selects, execution_mode="selective")
    assert made.conversation_history[0].results[0]["result"] == "chosen"


def test_S0_60_hooks_may_be_coroutines(kit: Any) -> None:
    logged: list[str] = []

    class Async(ActivityManager):
        async def _log_action(self, activity_id: str | None, iteration: int, action: ActionDecision) -> None:
            logged.append(f"decision {iteration}")

        async def _log_validation_failure(self, tool_call: ToolCall) -> None:
            logged.append(f"refused {tool_call.tool_name}")

        async def _validate_tool_call(self, tool_call: ToolCall) -> bool:
            return tool_call.tool_name != "fail"

        async def _search_satisfied(self, result: Any) -> bool:
            return False

        async def _generate_final_response(self, state: ConversationState) -> str:
            return "final"

        async def _generate_timeout_response(self, state: ConversationState) -> str:
            return "timeout"

        async def _generate_termination_response(self, state: ConversationState) -> str:
            return "terminated"

        async def _should_terminate(self, state: ConversationState, action: ActionDecision) -> bool:
            return state.total_tool_calls == 1

        async def _create_activity_result(self, *given: Any, **more: Any) -> Any:
            return super()._create_activity_result(*given, **more) | {"mine": True}

    calls = think(("search", {"query": "x"}), ("image_search", {"query": "x"}), FAIL)
    result, made = activity(kit.Script(calls, recover("skip"), STOP), kind=Async, execution_mode="selective")
    assert [item["status"] for item in made.conversation_history[0].results] == ["success", "success", "error"]
    assert logged == ["decision 1", "refused fail", "decision 2"]
    assert result["mine"]
    assert activity(kit.Script(then=EMPTY), kind=Async)[0]["final_response"] == "final"
    assert activity(kit.Script(EMPTY), kind=Async, max_iterations=1)[0]["final_response"] == "timeout"
    assert activity(kit.Script(think(ADD)), kind=Async)[0]["final_response"] == "terminated"
    foreign = Async(Decides(decision(ActionType.FINAL_RESPONSE)), Toolbox())
    assert foreign.run_activity("Q")["final_response"] == "final"


def test_S0_61_B0_17_a_decision_with_tool_and_stop_follows_the_option(kit: Any) -> None:
    both = think(ADD, should_continue=False, final_response="Here is your answer")
    for option, calls in (("run_first", 1), ("stop", 0)):
        result, _ = activity(kit.Script(both), agent_options={"finish_with_tools": option})
        assert (result["final_response"], result["iterations"], result["total_tool_calls"]) == ("Here is your answer", 1, calls)
    result, _ = activity(kit.Script(think(ADD), STOP))
    assert (result["iterations"], result["total_tool_calls"]) == (2, 1)


def test_B0_17_the_sketchs_removed_api_is_not_there() -> None:
    with pytest.raises(TypeError):
        ManualAgentLoop(Toolbox(), max_iterations=1)
    assert not hasattr(agent(), "tool_selector")
    assert not hasattr(agent(), "continuation_decider")


def test_S0_63_the_parts_are_modules_and_their_predictors_are_found() -> None:
    def names(**options: Any) -> set[str]:
        return {name for name, _ in agent(None, **options).named_predictors()}

    base = {"agent_reasoner.reasoner.predict", "agent_reasoner.history_summarizer", "entry_summarizer.predict"}
    assert names(enable_error_recovery=False) == base
    assert names(response_style="concise", validate_output=True) == base | {
        "error_recovery.recovery_planner.predict",
        "response_formatter.formatter",
        "agent_reasoner.output_validator",
    }
    for part in (agent(), AgentReasoner([]), ErrorRecoveryModule(), ResponseFormatter()):
        assert isinstance(part, dspy.Module)
        assert callable(type(part).forward)
    plain = ManualAgentLoop(Toolbox())
    assert (plain.enable_error_recovery, plain.response_style) == (True, "concise")
    assert agent(None, response_style=None).response_formatter is None


def test_S0_63_the_reasoner_by_itself_answers_from_the_configured_model(kit: Any) -> None:
    model = kit.Script(summary("S."), think(ADD), think(ADD))
    with dspy.context(lm=lm_of(model)):
        reasoner = AgentReasoner(["add"])
        made = reasoner(
            user_query="Q", conversation_history="h" * 3001, last_tool_results=None, available_tools="[]", iteration_count=1
        )
        reasoner("Q", "h", "r", "[]", 2, max_iterations=7)
    assert made.reasoning_output.tool_calls[0].tool_name == "add"
    assert [shown(request, "max_iterations") for request in model.requests[1:]] == ["5", "7"]
    assert shown(model.requests[1], "conversation_history").startswith("[Summarized earlier history]: S.")


def test_S0_64_B0_20_docstrings_and_field_texts_reach_the_model(kit: Any) -> None:
    model = kit.Script(recover("skip"), STOP)
    agent(model).get_next_action(state(last_tool_results=[error("fail")]))
    for signature, request in ((ErrorRecoverySignature, model.requests[0]), (AgentReasonerSignature, model.requests[1])):
        text = system(request)
        assert signature.instructions in text
        for info in signature.fields.values():
            assert info.json_schema_extra["desc"] in text
    decide = system(model.requests[1])
    for part in (ReasoningOutput, ToolCall):
        for info in part.model_fields.values():
            assert f'"description": "{info.description}"' in decide
    assert '"desc":' not in decide


def test_S0_66_results_pass_the_hook_before_they_are_stored(kit: Any) -> None:
    class Hides(ActivityManager):
        def _process_results(self, state: ConversationState, results: Any) -> Any:
            return [result | {"result": f"about {result['result']}"} for result in results]

    model = kit.Script(think(ADD), STOP)
    _, made = activity(model, kind=Hides)
    assert shown(model.requests[1], "last_tool_results") == "add: about 3"
    assert made.conversation_history[0].results_summary == "add: about 3"
    given = [success("add", 1)]
    assert manager(None)._process_results(state(), given) is given


CARRY_ON = """\
from loopbench.loops.stateless import ActivityManager, ConversationState, ManualAgentLoop
from loopbench.protocol import Answer, Capabilities, Toolbox

class Model:
    name, capabilities = "m", Capabilities()
    async def complete(self, request):
        assert "add: 3" in request.messages[-1].content
        return request.codec.render(Answer("t", "carried on", 0.9))

state = ConversationState.model_validate_json(DUMPED)
agent = ManualAgentLoop(Toolbox(), response_style=None, model=Model())
result = ActivityManager(agent, Toolbox()).continue_activity(state)
print(result["final_response"], result["iterations"], result["tools_used"], result["activity_id"], len(state.conversation_history))
"""


def test_S0_68_X_9_a_run_is_carried_on_from_json_in_another_process(kit: Any) -> None:
    class Stops(ActivityManager):
        def _should_terminate(self, state: ConversationState, action: ActionDecision) -> bool:
            return True

    _, made = activity(kit.Script(think(ADD)), kind=Stops)
    text = made.model_dump_json()
    assert ConversationState.model_validate_json(text) == made
    done = kit.python(CARRY_ON.replace("DUMPED", repr(text)))
    assert done.stdout == "carried on 2 ['add'] id 1\n", done.stderr


@pytest.mark.parametrize(
    "value",
    [
        {"x": [1, None, "é"]},
        (1, 2),
        {1: 2},
        {1, 2},
        float("nan"),
        float("inf"),
        "\ud800",
        b"\xff",
        object(),
        10**400,
        [10**5000],
        {"big": 10**5000},
        ["\ud800"],
    ],
)
def test_S0_68_X_10_G_5_any_result_leaves_a_state_that_goes_through_json(value: Any, kit: Any) -> None:
    def give() -> Any:
        """Gives it."""
        return value

    model = kit.Script(think(("give", {})), STOP)
    _, made = activity(model, give)
    assert ConversationState.model_validate_json(made.model_dump_json()) == made
    assert made.conversation_history[0].results[0]["status"] == "success"
    made_decision = agent(kit.Script(think(ADD, confidence=0.1))).get_next_action(state())
    assert ActionDecision.model_validate_json(made_decision.model_dump_json()) == made_decision


def test_S0_68_a_number_that_python_does_not_write_is_kept_as_text(kit: Any) -> None:
    def give() -> int:
        """Gives it."""
        return 10**5000

    _, made = activity(kit.Script(think(("give", {})), STOP), give)
    assert type(made.conversation_history[0].results[0]["result"]) is str
    assert ConversationState.model_validate_json(made.model_dump_json()) == made


def test_S0_68_a_deep_or_cut_result_is_kept_as_text(kit: Any) -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    box = Toolbox([Tool("deep", "", {"type": "object"}, lambda: deep), Tool("big", "", {}, lambda: ["x" * 50])], max_chars=20)
    decider = ManualAgentLoop(box, response_style=None, model=kit.Script(think(("deep", {}), ("big", {})), STOP))
    made = ActivityManager(decider, box).new_state("Q")
    ActivityManager(decider, box).continue_activity(made)
    assert [type(result["result"]) for result in made.conversation_history[0].results] == [str, str]
    assert "truncated" in made.conversation_history[0].results[1]["result"]
    assert ConversationState.model_validate_json(made.model_dump_json()) == made


HELPERS = {
    ManualAgentLoop: "_generate_safe_error_response _summarize_errors _generate_error_aware_response _generate_final_response",
    ErrorRecoveryModule: "_format_previous_attempts",
    ResponseFormatter: "_extract_key_results _format_tool_history",
    ConversationManager: "_format_entries_for_summary",
    ActivityManager: (
        "_log_action _should_terminate _generate_termination_response _generate_timeout_response _create_activity_result "
        "_execute_single_tool _validate_tool_call _log_validation_failure _generate_final_response"
    ),
}


def test_S0_69_S0_67_the_helpers_exist_and_call_no_model() -> None:
    for owner, names in HELPERS.items():
        assert [name for name in names.split() if not callable(getattr(owner, name, None))] == []
    decider, made = agent(None), manager(None)
    failed = [error("fail")]
    known = state(last_tool_results=[success("add", 3), *failed])
    assert decider._summarize_errors(failed) == "fail: broken"
    assert "add: 3" in decider._generate_error_aware_response(known, "fail: broken")
    assert decider._generate_safe_error_response(known, ValueError("secret"))
    assert made._generate_termination_response(known)
    assert made._generate_timeout_response(known)
    assert made._create_activity_result("i", known, "t", status="s")["status"] == "s"
    assert ErrorRecoveryModule()._format_previous_attempts([]) == "None"


# --- faults of the document ---


def test_B0_1_the_types_stand_before_their_use_and_dropped_ones_are_gone() -> None:
    import loopbench.loops.stateless as package

    assert all(hasattr(package, name) for name in package.__all__)
    assert not any(hasattr(package, name) for name in ("ContinuationDecision", "ToolSelectionOutput"))
    assert not hasattr(ManualAgentLoop, "_create_final_response_action")


def test_B0_12_X_13_the_budget_told_is_the_budget_enforced(kit: Any) -> None:
    for limit in (1, 4):
        model = kit.Script(then=think(ADD))
        assert run(Stateless(max_iterations=limit), model).steps == limit
        assert {shown(request, "max_iterations") for request in model.requests} == {str(limit)}
        assert len(model.requests) == limit
    model = kit.Script(STOP, STOP)
    decider = agent(model)
    decider.get_next_action(state(max_iterations=None))
    decider.get_next_action(state(max_iterations=6))
    assert [shown(request, "max_iterations") for request in model.requests] == ["10", "6"]
    made = manager(kit.Script(then=think(ADD)), max_iterations=9)
    assert made.continue_activity(state(iteration_count=0, max_iterations=2))["iterations"] == 2


def test_B0_12_X_13_a_state_without_limit_takes_the_managers(kit: Any) -> None:
    model = kit.Script(then=think(ADD))
    result = manager(model, max_iterations=3).continue_activity(ConversationState(user_query="Q"))
    assert (result["iterations"], {shown(request, "max_iterations") for request in model.requests}) == (3, {"3"})


def test_B0_13_the_core_is_async_and_its_sync_faces_work_inside_a_running_loop(kit: Any) -> None:
    async def inside() -> tuple[Any, ...]:
        decider = agent(kit.Script(STOP, STOP, STOP, STOP))
        made = ActivityManager(decider, decider.tool_registry)
        ended = await made.arun_activity("Q")
        return (
            decider.get_next_action(state()).final_response,
            (await decider.aget_next_action(state())).final_response,
            made.run_activity("Q")["final_response"],
            ended["final_response"],
        )

    assert asyncio.run(inside()) == ("3",) * 4


def test_B0_14_dropped_calls_are_recorded_and_not_counted(kit: Any) -> None:
    notes = kit.Notes()
    model = kit.Script(think(ADD, FAIL, should_continue=False, final_response="done"))
    outcome = run(PLAIN, model, observer=notes)
    made = outcome.details["state"]
    skipped = [{"tool_name": name, "status": "skipped", "reason": "run ended before execution"} for name in ("add", "fail")]
    assert made.conversation_history[-1].results == skipped
    assert (made.total_tool_calls, made.tools_used, outcome.answer) == (0, [], "done")
    assert [kind for kind, _ in notes.notes] == ["not_run", "not_run"]
    foreign = decision(
        ActionType.TOOL_EXECUTION,
        tool_suggestions=[ToolCall(tool_name="add", parameters={"a": 1, "b": 2}, reasoning="")],
        should_continue=False,
        final_response="after",
    )
    result = ActivityManager(Decides(foreign), Toolbox(TOOLS)).run_activity("Q")
    assert (result["final_response"], result["total_tool_calls"]) == ("after", 1)


def test_B0_16_an_unknown_name_is_an_error_result(kit: Any) -> None:
    model = kit.Script(think(("nope", {})), recover("skip"), STOP)
    _, made = activity(model)
    assert made.errors_encountered == ["Tool nope: Tool 'nope' not found in registry"]


def test_B0_23_X_12_empty_decisions_keep_results_and_end_at_the_third(kit: Any) -> None:
    model = kit.Script(think(ADD, FAIL), recover("skip"), EMPTY, think(should_use_tools=True), EMPTY)
    result, made = activity(model)
    assert (result["status"], result["iterations"]) == ("terminated", 4)
    assert result["final_response"] == "add: 3\nfail: ERROR - broken"
    assert model.roles == [Role.DECIDE, Role.RECOVER, *[Role.DECIDE] * 3], "no second recovery of a seen error"
    assert "add: 3" in shown(model.requests[-1], "last_tool_results")
    assert [item.tool_calls for item in made.conversation_history] == [["add", "fail"], [], [], []]
    assert run(PLAIN, kit.Script(then=EMPTY)).stop is StopReason.ERROR_VALVE
    model = kit.Script(EMPTY, EMPTY, think(ADD), EMPTY, EMPTY, STOP)
    assert activity(model)[0]["status"] == "completed", "a call between them starts the count anew"


def test_B0_24_the_agent_takes_a_state_only() -> None:
    with pytest.raises(TypeError):
        agent().get_next_action("Q", [], [])  # type: ignore[call-arg,arg-type]


def test_B0_27_a_second_call_of_a_tool_has_a_key_of_its_own(kit: Any) -> None:
    calls = [("add", {"a": n, "b": 0}) for n in range(3)]
    _, made = activity(kit.Script(think(*calls), STOP))
    assert made.conversation_history[0].tool_parameters == {
        "add": {"a": 0, "b": 0},
        "add#2": {"a": 1, "b": 0},
        "add#3": {"a": 2, "b": 0},
    }


def test_B0_28_results_summary_is_one_line_per_result_cut_at_200(kit: Any) -> None:
    def long(n: int) -> str:
        """Long."""
        return "y" * n

    _, made = activity(kit.Script(think(("long", {"n": 194}), ("long", {"n": 195}), FAIL), recover("skip"), STOP), long, fail)
    whole, cut, failed = made.conversation_history[0].results_summary.split("; ")
    assert whole == "long: " + "y" * 194
    assert cut == "long: " + "y" * 194 + "…"
    assert failed == "fail: ERROR - broken"
    assert made.conversation_history[0].results[1]["result"] == "y" * 195


def test_B0_32_X_10_a_hung_call_times_out_by_itself_in_every_mode(kit: Any) -> None:
    release = threading.Event()

    def hang() -> None:
        """Hangs."""
        release.wait(20)

    registry = MultiToolRegistry()
    registry.register(hang, add)
    try:
        for source in (registry, Toolbox([hang, add])):
            for mode in ("sequential", "parallel", "selective"):
                decider = ManualAgentLoop(source, False, None, model=kit.Script(think(("hang", {}), ADD), STOP))
                made = ActivityManager(decider, source, execution_mode=mode, tool_timeout_s=0.05)
                began = time.monotonic()
                known = made.new_state("Q")
                made.continue_activity(known)
                assert time.monotonic() - began < 5
                late, fine = known.conversation_history[0].results
                assert (late["error"], late["error_type"]) == ("no result within 0.05 s", "TimeoutError")
                assert fine["result"] == 3
    finally:
        release.set()


HANGS = """\
import time
from loopbench.loops.stateless import Stateless
from loopbench.protocol import Act, Answer, Capabilities, Query, Toolbox, ToolCall

class Model:
    name, capabilities, asked = "m", Capabilities(), 0
    async def complete(self, request):
        self.asked += 1
        return request.codec.render(Act("t", (ToolCall("hang", {}),)) if self.asked == 1 else Answer("t", "done", 0.9))

def hang() -> None:
    "Hangs."
    time.sleep(100)

loop = Stateless(response_style=None, enable_error_recovery=False, tool_timeout_s=0.05)
print(loop.run_sync(Query("Q"), Toolbox([hang]), Model()).answer)
"""


def test_B0_32_a_hung_thread_does_not_keep_the_process(kit: Any) -> None:
    began = time.monotonic()
    done = kit.python(HANGS)
    assert (done.stdout, done.stderr) == ("done\n", "")
    assert time.monotonic() - began < 60


def test_B0_34_tokens_are_the_sum_of_the_decisions_calls(kit: Any) -> None:
    def counted(text: str, tokens: int) -> Reply:
        return Reply(text, usage=Usage(tokens, 1))

    model = kit.Script(counted(recover("skip"), 10), counted(STOP, 20), counted(formatted("F"), 30))
    decider = agent(model, response_style="concise")
    assert decider.get_next_action(state(last_tool_results=[error("fail")])).tokens_used == 63
    model = kit.Script(counted(STOP, 20), formatted("F"))
    assert agent(model, response_style="concise").get_next_action(state()).tokens_used is None


def test_B0_34_what_an_unreadable_reply_took_is_unknown(kit: Any) -> None:
    replies = [Reply(STOP, usage=Usage(20, 1)), Reply(BAD, usage=Usage(10, 1))]
    decision = agent(kit.Script(*replies), validate_output=True).get_next_action(state())
    assert (decision.action_type, decision.tokens_used) == (ActionType.FINAL_RESPONSE, None)
    assert agent(kit.Script(replies[1])).get_next_action(state()).tokens_used is None


def test_B0_35_a_repeated_id_runs_again(kit: Any) -> None:
    model = kit.Script(STOP, think(final="4"))
    made = manager(model)
    assert [made.run_activity("Q", "same")["final_response"] for _ in range(2)] == ["3", "4"]
    assert made.activity_cache == {}


@pytest.mark.parametrize("raised", [SystemExit(3), ValueError("v"), KeyError("k")])
def test_G_5_X_10_whatever_a_tool_raises_is_an_error_result(raised: BaseException, kit: Any) -> None:
    def raising() -> None:
        """Raises."""
        raise raised

    registry = MultiToolRegistry()
    registry.register(raising)
    for source in (registry, Toolbox([raising])):
        decider = ManualAgentLoop(source, False, None, model=kit.Script(think(("raising", {})), STOP))
        made = ActivityManager(decider, source).new_state("Q")
        ActivityManager(decider, source).continue_activity(made)
        assert made.conversation_history[0].results[0]["error_type"] == type(raised).__name__


# --- the loop ---

ENDINGS: list[tuple[dict[str, Any], list[Any], StopReason, str]] = [
    ({}, [STOP], StopReason.FINISHED, "completed"),
    ({}, [think(FAIL), recover("fail")], StopReason.RECOVERY_FAILED, "completed"),
    ({}, [EMPTY] * 3, StopReason.ERROR_VALVE, "terminated"),
    ({"max_iterations": 1}, [think(ADD)], StopReason.MAX_STEPS, "max_iterations"),
    ({}, [BAD], StopReason.PARSE_FAILED, "error_recovery"),
    ({}, [ProviderError("down")], StopReason.PROVIDER_ERROR, "error_recovery"),
    ({}, [ContextOverflow("long")], StopReason.CONTEXT_OVERFLOW, "error_recovery"),
    ({"response_style": "concise"}, [STOP, BAD], StopReason.PARSE_FAILED, "error_recovery"),
    ({"response_style": "concise"}, [STOP, ProviderError("down")], StopReason.PROVIDER_ERROR, "error_recovery"),
]


@pytest.mark.parametrize(("options", "replies", "stop", "status"), ENDINGS)
def test_G_2_G_3_X_21_every_ending_has_its_stop_reason(
    options: dict[str, Any], replies: list[Any], stop: StopReason, status: str, kit: Any
) -> None:
    loop = Stateless(**{"response_style": None} | options)
    model = kit.Script(*replies)
    outcome = run(loop, model)
    assert (outcome.stop, outcome.details["status"]) == (stop, status)
    assert stop in loop.stops
    assert len(model.requests) == len(replies), "no further call"
    if stop in (StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW):
        assert outcome.answer is None


def test_G_3_a_bug_leaves_run_as_it_was(kit: Any) -> None:
    bug = RuntimeError("bug")
    with pytest.raises(RuntimeError) as caught:
        run(PLAIN, kit.Script(bug))
    assert caught.value is bug
    foreign = decision(ActionType.ERROR_RECOVERY, should_continue=False, final_response="odd")
    assert ActivityManager(Decides(foreign), Toolbox()).run_activity("Q")["status"] == "error_recovery"


class Spent(Toolbox):
    """A toolbox whose budget is used up."""

    async def call(self, call: Call, *, validate: bool = True) -> Any:
        raise BudgetExceeded("no more calls")


@pytest.mark.parametrize("mode", ["sequential", "parallel", "selective"])
def test_G_3_a_budget_that_ends_at_a_tool_leaves_the_loop(mode: Any, kit: Any) -> None:
    loop = Stateless(response_style=None, execution_mode=mode, tool_timeout_s=5)
    with pytest.raises(BudgetExceeded):
        run_sync(loop.run(Query("Q"), Spent(TOOLS, time_limit_s=None), kit.Script(then=think(ADD, ADD))))


class Ends(Toolbox):
    """A toolbox whose first call ends the run while its siblings wait."""

    stopped = 0

    async def call(self, call: Call, *, validate: bool = True) -> Any:
        if call.arguments["a"] == 0:
            await asyncio.sleep(0)
            raise BudgetExceeded("no more calls")
        try:
            await asyncio.sleep(60)
        finally:
            self.stopped += 1


def test_G_3_siblings_of_a_call_that_ends_the_run_are_stopped(kit: Any) -> None:
    async def main() -> int:
        calls = think(*[("add", {"a": n, "b": 0}) for n in range(3)])
        with pytest.raises(BudgetExceeded):
            await Stateless(execution_mode="parallel").run(Query("Q"), box, kit.Script(calls))
        return box.stopped

    box = Ends(TOOLS)
    assert asyncio.run(main()) == 2


class Heard(Toolbox):
    """A toolbox that keeps what its calls gave."""

    given: list[str | None]

    async def call(self, call: Call, *, validate: bool = True) -> Any:
        seen = await super().call(call, validate=validate)
        self.given.append(seen.error_type)
        return seen


@pytest.mark.parametrize(("own", "box_limit_s"), [(None, 0.05), (0.05, 60.0)])
def test_a_toolbox_with_a_limit_as_short_hears_of_the_time_out_itself(own: float | None, box_limit_s: float, kit: Any) -> None:
    async def hang() -> None:
        """Hangs."""
        await asyncio.sleep(60)

    box = Heard([Tool.from_function(hang, time_limit_s=own)], time_limit_s=box_limit_s)
    box.given = []
    loop = Stateless(response_style=None, enable_error_recovery=False, tool_timeout_s=0.05)
    run_sync(loop.run(Query("Q"), box, kit.Script(think(("hang", {})), STOP)))
    assert box.given == ["TimeoutError"]


def test_a_run_without_decision_or_with_an_unreadable_recovery_is_noted(kit: Any) -> None:
    notes = kit.Notes()
    run(PLAIN, kit.Script(think(FAIL), BAD), observer=notes)
    run(PLAIN, kit.Script(ProviderError("down")), observer=notes)
    assert [kind for kind, _ in notes.notes] == ["unreadable", "no_decision"]
    assert notes.notes[1][1] == {"cause": "provider_error", "error": "down"}


def test_G_8_a_limit_of_tool_steps_leaves_one_decision_to_end(kit: Any) -> None:
    loop = PLAIN.with_step_limit(3)
    assert isinstance(loop, Loop)
    assert loop.max_iterations == 4
    assert run(loop, kit.Script(*[think(ADD)] * 3, STOP)).stop is StopReason.FINISHED
    assert run(loop, kit.Script(*[think(ADD)] * 4)).stop is StopReason.MAX_STEPS


def test_X_6_a_reply_that_cannot_be_read_ends_the_run(kit: Any) -> None:
    for bad in ("", "{}", "null", think().replace("confidence", "certainty"), section(reasoning="r", reasoning_output=[1])):
        assert run(PLAIN, kit.Script(bad)).stop is StopReason.PARSE_FAILED
    both = think(ADD, final="3")
    assert run(PLAIN, kit.Script(both)).answer == "3"


def test_a_query_with_a_schema_gets_a_value_and_without_one_text(kit: Any) -> None:
    tools = Toolbox()
    for schema, said, value in (
        ({"type": "number"}, "4.5", 4.5),
        ({"type": "object"}, '{"a": [1]}', {"a": [1]}),
        ({"type": "string"}, "4", "4"),
        ({"type": "number"}, "about 4", "about 4"),
        ({"type": "number"}, "NaN", "NaN"),
        (None, "4", "4"),
    ):
        model = kit.Script(think(final=said))
        outcome = PLAIN.run_sync(Query("Q", "Passage.", schema), tools, model)
        assert outcome.answer == value
        asked = shown(model.requests[0], "user_query") + model.requests[0].messages[-1].content
        assert "Q\n\nContext:\nPassage." in asked
        assert ("must be JSON" in asked) is (schema is not None)


def test_every_request_shows_the_question(kit: Any) -> None:
    def long(n: int) -> str:
        """Long."""
        return "y" * n

    loop = Stateless(validate_output=True, max_history_length=1)

    def answer(request: Any) -> Any:
        return {
            Role.DECIDE: Act("t", (Call("long", {"n": 3000}), *[Call("long", {"n": 300})] * 20, Call("fail", {})))
            if "No previous interactions." in request.messages[-1].content
            else Act("t", (Call("add", {"a": 1, "b": 2}),))
            if "add: 3" not in request.messages[-1].content
            else Answer("t", "3", 0.9),
            Role.RECOVER: Recovery("skip"),
            Role.SUMMARIZE: Text("S."),
            Role.VALIDATE: Completion(True),
            Role.FORMAT: Text("3"),
        }[request.role]

    model = kit.Script(then=answer)
    outcome = run_sync(loop.run(Query("What is it?"), Toolbox([long, *TOOLS]), model))
    assert outcome.stop is StopReason.FINISHED
    assert set(model.roles) == {Role.DECIDE, Role.RECOVER, Role.SUMMARIZE, Role.VALIDATE, Role.FORMAT}
    assert all("What is it?" in request.messages[-1].content for request in model.requests)


def test_one_configuration_runs_many_queries_at_once(kit: Any) -> None:
    loop = Stateless(response_style=None)

    async def one(number: int) -> Outcome:
        model = kit.Script(
            think(("add", {"a": number, "b": 0})), lambda request: Answer("t", shown(request, "last_tool_results"), 0.9)
        )
        return await loop.run(Query(f"Q{number}"), Toolbox([add]), model)

    async def many() -> list[Outcome]:
        return list(await asyncio.gather(*(one(number) for number in range(20))))

    assert [outcome.answer for outcome in asyncio.run(many())] == [f"add: {number}" for number in range(20)]


# --- the program ---


def test_a_program_answers_from_the_configured_model_and_lends_its_predictors(kit: Any) -> None:
    config = Stateless(response_style=None)
    program = StatelessProgram([add], config)
    assert {name for name, _ in program.named_predictors()} >= {"agent.agent_reasoner.reasoner.predict"}
    model = kit.Script(think(ADD), STOP)
    with dspy.context(lm=lm_of(model)):
        made = program(query="Q")
    assert (made.answer, made.stop, made.confidence) == ("3", "finished", 0.9)
    predictor = program.agent.agent_reasoner.reasoner.predict
    predictor.signature = predictor.signature.with_instructions("Do it well.")
    model = kit.Script(STOP)
    run(Stateless(response_style=None, program=program), model)
    assert "Do it well." in system(model.requests[0])
    copied = copy.deepcopy(program)
    assert copied.agent.agent_reasoner.reasoner.predict is not predictor
    with pytest.raises(ValueError, match="response_style"):
        Stateless(program=program)


def test_a_program_is_saved_loaded_and_bootstrapped(kit: Any, tmp_path: Any) -> None:
    class Model(type(kit.Script())):  # type: ignore[misc]
        async def complete(self, request: Any) -> Reply:
            known = "add: 3" in request.messages[-1].content
            reply: Reply = request.codec.render(Answer("t", "3", 0.9) if known else Act("t", (Call("add", {"a": 1, "b": 2}),)))
            return reply

    program = StatelessProgram([add], PLAIN)
    with dspy.context(lm=lm_of(Model()), trace=[]):
        teleprompter = dspy.BootstrapFewShot(metric=lambda example, made, trace=None: made.answer == "3", max_labeled_demos=0)
        made = teleprompter.compile(program, trainset=[dspy.Example(query="What is 1 + 2?").with_inputs("query")])
    demos = made.agent.agent_reasoner.reasoner.predict.demos
    assert len(demos) == 1
    made.save(tmp_path / "program.json")
    loaded = StatelessProgram([add], PLAIN)
    loaded.load(tmp_path / "program.json")
    texts = []
    for source in (made, loaded):
        model = kit.Script(STOP)
        run(Stateless(response_style=None, program=source), model)
        texts.append([message.content for message in model.requests[0].messages])
    assert len(texts[0]) == 4, "system, the demonstration's two messages, the question"
    assert texts[0] == texts[1]


def test_both_ways_to_a_model_send_equal_messages(kit: Any) -> None:
    direct, through = (kit.Script(think(ADD, FAIL), recover("skip"), STOP, formatted("F")) for _ in range(2))
    config = Stateless()
    run(config, direct)
    with dspy.context(lm=lm_of(through)):
        StatelessProgram(TOOLS, config)(query="Q")
    assert [request.messages for request in direct.requests] == [request.messages for request in through.requests]
    assert direct.roles == through.roles


NOT_PLAIN = think(("fail", {"why": "X"})).replace('"X"', "NaN")
NOT_PLAIN_RETRY = recover("retry", retry_with_params={"why": "X"}).replace('"X"', "NaN")


@pytest.mark.parametrize(
    ("replies", "stop"),
    [
        ([NOT_PLAIN], StopReason.PARSE_FAILED),
        ([think(*[ADD] * 101)], StopReason.PARSE_FAILED),
        ([think(FAIL), NOT_PLAIN_RETRY], StopReason.RECOVERY_FAILED),
    ],
)
def test_S0_68_both_ways_to_a_model_refuse_the_same_replies(replies: list[str], stop: StopReason, kit: Any) -> None:
    assert run(PLAIN, kit.Script(*replies)).stop is stop
    with dspy.context(lm=lm_of(kit.Script(*replies))):
        made = StatelessProgram(TOOLS, PLAIN)(query="Q")
    assert made.stop == stop
    assert ConversationState.model_validate_json(made.state.model_dump_json()) == made.state


# --- options ---


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (ActivityManager, {"execution_mode": "paralel"}, "execution_mode must be one of sequential, parallel, selective"),
        (ActivityManager, {"max_iterations": 0}, "max_iterations must be at least 1"),
        (ActivityManager, {"max_history_length": 0}, "max_history_length must be at least 1"),
        (ActivityManager, {"max_empty_decisions": 0}, "max_empty_decisions must be at least 1"),
        (ActivityManager, {"tool_timeout_s": 0}, "tool_timeout_s must be more than 0 s"),
        (ManualAgentLoop, {"finish_with_tools": "run-first"}, "finish_with_tools must be one of stop, run_first, ask_again"),
        (ManualAgentLoop, {"history_as": "message"}, "history_as must be one of prose, messages"),
        (ManualAgentLoop, {"told_max_iterations": 0}, "told_max_iterations must be at least 1"),
        (ManualAgentLoop, {"max_recovery_rounds": -1}, "max_recovery_rounds must be at least 0"),
        (ConversationManager, {"max_history_length": 0}, "max_history_length must be at least 1"),
    ],
)
def test_an_option_out_of_range_is_refused_when_the_part_is_built(kind: Any, options: dict[str, Any], message: str) -> None:
    before = {ActivityManager: (Decides(), Toolbox()), ManualAgentLoop: (Toolbox(),), ConversationManager: ()}[kind]
    with pytest.raises(ValueError, match=message):
        kind(*before, **options)


def test_option_max_iterations_bounds_the_decisions(kit: Any) -> None:
    model = kit.Script(then=think(ADD))
    assert run(Stateless(max_iterations=2), model).stop is StopReason.MAX_STEPS
    assert len(model.requests) == 2
    assert Stateless().max_iterations == 10
    with pytest.raises(ValueError, match="max_iterations must be at least 1"):
        Stateless(max_iterations=0)


def test_option_execution_mode_runs_calls_one_by_one_or_at_once(kit: Any) -> None:
    most = {}
    for mode in ("sequential", "parallel", "selective"):
        watch = Watch(seconds=0.2)
        run(Stateless(response_style=None, execution_mode=mode), kit.Script(think(*[("work", {"n": 1})] * 3), STOP), watch.work)
        most[mode] = watch.most
    assert most == {"sequential": 1, "parallel": 3, "selective": 1}
    with pytest.raises(ValueError, match="execution_mode must be one of sequential, parallel, selective"):
        Stateless(execution_mode="fast")  # type: ignore[arg-type]


def test_option_enable_error_recovery_off_shows_errors_to_the_next_decision(kit: Any) -> None:
    model = kit.Script(think(FAIL), STOP)
    loop = Stateless(response_style=None, enable_error_recovery=False)
    run(loop, model)
    assert model.roles == [Role.DECIDE, Role.DECIDE]
    assert shown(model.requests[1], "last_tool_results") == "fail: ERROR - broken"
    assert PLAIN.stops - loop.stops == {StopReason.RECOVERY_FAILED}


def test_option_response_style_puts_the_answer_or_leaves_it(kit: Any) -> None:
    replies = {"concise": [formatted("F")], "detailed": [detailed("F", "p")], None: []}
    ended = {style: run(Stateless(response_style=style), kit.Script(STOP, *more)) for style, more in replies.items()}  # type: ignore[arg-type]
    texts = {style: outcome.details["final_response"] for style, outcome in ended.items()}
    assert texts == {"concise": "F", "detailed": "F\n\nKey Points:\n• p\n\nConfidence: 90%", None: "3"}
    assert {style: outcome.answer for style, outcome in ended.items()} == {"concise": "F", "detailed": "F", None: "3"}


def test_option_include_confidence_adds_or_drops_the_line(kit: Any) -> None:
    outcome = run(Stateless(include_confidence=True), kit.Script(STOP, formatted("F")))
    assert (outcome.answer, outcome.details["final_response"]) == ("F", "F\n\nConfidence: 90%")
    loop = Stateless(response_style="detailed", include_confidence=False)
    assert "Confidence" not in run(loop, kit.Script(STOP, detailed("F", "p"))).details["final_response"]


def test_what_stands_under_an_answer_does_not_spoil_a_value(kit: Any) -> None:
    query = Query("Q", schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    model = kit.Script(think(final='{"n": 3}', confidence=0.5), formatted('{"n": 3}'))
    outcome = run_sync(Stateless(include_confidence=True).run(query, Toolbox(), model))
    assert (outcome.answer, outcome.confidence) == ({"n": 3}, 0.5)


def test_a_run_without_an_answer_of_its_own_has_no_confidence(kit: Any) -> None:
    outcome = run(Stateless(max_iterations=1), kit.Script(think(ADD, confidence=0.9)))
    assert (outcome.stop, outcome.confidence) == (StopReason.MAX_STEPS, None)


def test_option_finish_with_tools_stops_runs_first_or_asks_again(kit: Any) -> None:
    both = think(ADD, should_continue=False, final_response="early")
    made = {}
    for option in ("stop", "run_first", "ask_again"):
        model = kit.Script(both, think(final="late"))
        outcome = run(Stateless(response_style=None, finish_with_tools=option), model)
        made[option] = (outcome.answer, outcome.details["total_tool_calls"], outcome.steps)
        move = model.requests[0].codec.parse(Reply(both))
        assert isinstance(move, Act if option == "ask_again" else Answer)
    assert made == {"stop": ("early", 0, 1), "run_first": ("early", 1, 1), "ask_again": ("late", 1, 2)}
    silent = think(ADD, should_continue=False)
    assert run(Stateless(response_style=None, finish_with_tools="run_first"), kit.Script(silent)).answer == "add: 3"
    loop = Stateless(finish_with_tools="run_first")
    assert run(loop, kit.Script(both, formatted("neat"))).answer == "neat"


def test_option_constrain_names_refuses_an_unknown_tool(kit: Any) -> None:
    model = kit.Script(think(("nope", {})))
    assert run(Stateless(constrain_names=True), model).stop is StopReason.PARSE_FAILED
    assert '"enum": ["add", "fail", "search", "image_search"]' in system(model.requests[0])
    assert "Name of the tool to execute" in system(model.requests[0])
    assert run(Stateless(constrain_names=True, response_style=None), kit.Script(think(ADD), STOP)).answer == "3"
    assert Stateless(constrain_names=True, response_style=None).run_sync(Query("Q"), Toolbox(), kit.Script(STOP)).answer == "3"


def test_option_validate_output_adds_a_call_per_decision(kit: Any) -> None:
    model = kit.Script(think(ADD), Completion(True), STOP, Completion(False))
    assert run(Stateless(response_style=None, validate_output=True), model).answer == "3"
    assert model.roles == [Role.DECIDE, Role.VALIDATE] * 2


def test_option_told_max_iterations_tells_another_limit(kit: Any) -> None:
    model = kit.Script(then=think(ADD))
    run(Stateless(max_iterations=2, told_max_iterations=50), model)
    assert [shown(request, "max_iterations") for request in model.requests] == ["50", "50"]


def test_option_max_empty_decisions_ends_the_run_sooner_or_never(kit: Any) -> None:
    for most, steps, stop in ((1, 1, StopReason.ERROR_VALVE), (None, 10, StopReason.MAX_STEPS)):
        loop = Stateless(max_empty_decisions=most)
        outcome = run(loop, kit.Script(then=EMPTY))
        assert (outcome.steps, outcome.stop) == (steps, stop)
        assert (StopReason.ERROR_VALVE in loop.stops) is (most is not None)
    assert StopReason.ERROR_VALVE not in Stateless(max_iterations=2).stops


def test_option_max_recovery_rounds_bounds_recovery(kit: Any) -> None:
    for rounds in (0, 1, 3):
        model = kit.Script(
            then=lambda request: Recovery("retry") if request.role is Role.RECOVER else Act("t", (Call("fail", {}),))
        )
        run(Stateless(max_recovery_rounds=rounds), model)
        assert model.roles.count(Role.RECOVER) == rounds
    assert StopReason.RECOVERY_FAILED not in Stateless(max_recovery_rounds=0).stops
    assert StopReason.RECOVERY_FAILED not in Stateless(max_iterations=1).stops, "the only decision is not one about errors"


def test_option_tool_timeout_s_is_the_shorter_limit(kit: Any) -> None:
    release = threading.Event()

    def hang() -> None:
        """Hangs."""
        release.wait(20)

    try:
        for ours, theirs, shorter in ((0.05, 10.0, "0.05"), (10.0, 0.05, "0.05"), (None, 0.05, "0.05"), (0.05, None, "0.05")):
            loop = Stateless(response_style=None, enable_error_recovery=False, tool_timeout_s=ours)
            box = Toolbox([hang], time_limit_s=theirs)
            outcome = run_sync(loop.run(Query("Q"), box, kit.Script(think(("hang", {})), STOP)))
            assert f"no result within {shorter} s" in outcome.details["state"].errors_encountered[0]
    finally:
        release.set()
    with pytest.raises(ValueError, match="tool_timeout_s must be more than 0"):
        Stateless(tool_timeout_s=0)


def test_option_max_history_length_folds_the_older_half_or_nothing(kit: Any) -> None:
    folds = {}
    for most in (2, None):
        model = kit.Script(then=lambda request: Text("S.") if request.role is Role.SUMMARIZE else think_move())
        run(Stateless(max_iterations=6, max_history_length=most), model)
        folds[most] = model.roles.count(Role.SUMMARIZE)
    assert folds == {2: 4, None: 0}


def think_move() -> Act:
    return Act("t", (Call("add", {"a": 1, "b": 2}),))


def test_option_history_as_messages_makes_a_conversation_of_earlier_iterations(kit: Any) -> None:
    def long(n: int) -> str:
        """Long."""
        return "y" * n

    model = kit.Script(think(("long", {"n": 900})), think(ADD), think(FAIL), STOP)
    outcome = run(Stateless(response_style=None, history_as="messages", enable_error_recovery=False), model, long, add, fail)
    assert outcome.answer == "3"
    assert [message.role for message in model.requests[0].messages] == ["system", "user"]
    last = model.requests[-1].messages
    assert [message.role for message in last] == ["system", *["user", "assistant"] * 3, "user"]
    assert last[1].content == "Q"
    assert last[3].content == f"long: {'y' * 900}", "results stay whole"
    assert json.loads(last[2].content.partition("\n")[2]) == [{"tool_name": "long", "parameters": {"n": 900}}]
    assert shown(model.requests[-1], "last_tool_results") == "fail: ERROR - broken"
    assert "Iteration 1" not in last[-1].content
    with pytest.raises(ValueError, match="history_as"):
        StatelessProgram([], Stateless(history_as="messages"))
    with dspy.context(lm=lm_of(kit.Script(STOP))):
        made = agent(None, history_as="messages").get_next_action(state(conversation_history=[entry()]))
    assert made.error_kind == "internal"
