"""The stateless design: types, texts and registries."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, get_args

import dspy
import pytest
from pydantic import ValidationError

from tests.loops.helpers import Script, add
from tests.loops.stateless import helpers
from tests.loops.stateless.helpers import STOP, agent, detailed, entry, error, fail, shown, state, success, system, think
from tests.rows import row
from whichloop.dspy_seam import lm_of
from whichloop.loops.stateless import (
    ActivityManager,
    AgentReasonerSignature,
    ErrorRecoverySignature,
    ManualAgentLoop,
    Stateless,
    ToolRegistry,
)
from whichloop.loops.stateless.execution import DSPyToolRegistryAdapter, MultiToolRegistry, ToolboxRegistry
from whichloop.loops.stateless.modules import ConversationManager, ErrorRecoveryModule, ResponseFormatter
from whichloop.loops.stateless.state import (
    ActionDecision,
    ActionType,
    ConversationEntry,
    ConversationState,
    ErrorRecoveryStrategy,
    ReasoningOutput,
    ToolCall,
)
from whichloop.protocol import Text, Toolbox

FIELDS: dict[Any, str] = {
    ToolCall: "tool_name parameters reasoning",
    ReasoningOutput: (
        "overall_reasoning confidence should_use_tools tool_calls=None parallel_safe=True should_continue continuation_reasoning "
        "final_response=None suggested_next_action=None"
    ),
    ErrorRecoveryStrategy: "strategy_type details alternative_tool=None retry_with_params=None can_recover=True",
    ActionDecision: (
        "action_type reasoning confidence tool_suggestions=None parallel_safe=True final_response=None should_continue=True "
        "suggested_next_action=None processing_time=0 tokens_used=None error_kind=None is_recovery=False kept_results=None "
        "history_summary=None answer=None error=None"
    ),
    ConversationState: (
        "user_query iteration_count=0 conversation_history=[] last_tool_results=None total_tool_calls=0 errors_encountered=[] "
        "activity_id=None max_iterations=None start_time=None last_confidence=None recovery_rounds=0 empty_decisions=0 "
        "history_summary=None tools_used=[]"
    ),
    ConversationEntry: "iteration timestamp reasoning tool_calls tool_parameters results results_summary errors=[]",
}
"""Type → its fields, with their defaults."""


@pytest.mark.parametrize("model", FIELDS)
@row("S0-7", "S0-8", "S0-10", "S0-13", "S0-14", "S0-15", "B0-3")
def test_the_types_have_the_documents_fields_and_the_added_ones(model: Any) -> None:
    fields = model.model_fields.items()
    found = [name if one.is_required() else f"{name}={one.get_default(call_default_factory=True)}" for name, one in fields]
    assert sorted(found) == sorted(FIELDS[model].split())


@row("S0-8", "S0-10", "S0-12", "S0-13")
def test_their_values_are_those_of_the_document() -> None:
    said = {"overall_reasoning": "", "should_use_tools": False, "should_continue": True, "continuation_reasoning": ""}
    assert ReasoningOutput(confidence=1, **said).confidence == 1
    for confidence in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValidationError):
            ReasoningOutput(confidence=confidence, **said)
        with pytest.raises(ValidationError):
            ActionDecision(action_type=ActionType.TOOL_EXECUTION, reasoning="", confidence=confidence)
    assert get_args(ErrorRecoveryStrategy.model_fields["strategy_type"].annotation) == ("retry", "alternative_tool", "skip", "fail")
    assert {kind.name: kind.value for kind in ActionType} == {kind.upper(): kind for kind in KINDS}


KINDS = ("tool_execution", "final_response", "error_recovery")


@row("S0-9")
def test_the_reasoners_signature_has_six_inputs_and_one_structured_output() -> None:
    inputs = ["user_query", "conversation_history", "last_tool_results", "available_tools", "iteration_count", "max_iterations"]
    assert list(AgentReasonerSignature.input_fields) == inputs
    assert list(AgentReasonerSignature.output_fields) == ["reasoning_output"]
    model = Script(STOP)
    helpers.run(helpers.PLAIN, model)
    assert [tool["name"] for tool in json.loads(shown(model.requests[0], "available_tools"))] == [f.__name__ for f in helpers.TOOLS]
    assert all(f"[[ ## {name} ## ]]" in model.requests[0].messages[-1].content for name in inputs)


@row("S0-37", "B0-15")
def test_detailed_adds_points_and_the_confidence_zero_included() -> None:
    for confidence, line in ((0.0, "\n\nConfidence: 0%"), (0.876, "\n\nConfidence: 88%"), (None, "")):
        model = Script(detailed("Text.", "- one\ntwo\n• three"))
        with dspy.context(lm=lm_of(model)):
            text = ResponseFormatter("detailed", include_confidence=True)(
                "raw", "Q", state(conversation_history=[entry()]), confidence
            )
        assert text == f"Text.\n\nKey Points:\n• one\n• two\n• three{line}"
        assert "Tools used: add" in shown(model.requests[0], "tool_history")
        assert json.loads(shown(model.requests[0], "key_results")) == [{"tool_name": "add", "result": 3}]


@row("S0-38")
def test_other_styles_are_one_call_without_points() -> None:
    for style in ("concise", "friendly"):
        model = Script(helpers.formatted("Text."))
        with dspy.context(lm=lm_of(model)):
            assert ResponseFormatter(style)("raw", "Q", state(), 0.5) == "Text."
        assert f"Style: {style}." in system(model.requests[0])
        assert "tool_history" not in system(model.requests[0])


@row("S0-39", "stateless.include_confidence")
def test_the_confidence_stands_under_detailed_answers_unless_said_otherwise() -> None:
    for style, include, there in (
        ("concise", None, False),
        ("concise", True, True),
        ("detailed", None, True),
        ("detailed", False, False),
    ):
        decider = agent(None, response_style=style, include_confidence=include)
        reply = helpers.formatted("T") if style == "concise" else detailed("T", "p")
        text = decider.for_run(decider.tool_registry, Script(think(final="x"), reply)).get_next_action(state()).final_response
        assert ("Confidence: 90%" in (text or "")) is there, (style, include)
    assert Stateless().response_style == ManualAgentLoop(Toolbox()).options.response_style == "concise"


@row("S0-40", "B0-31", "S0-57")
def test_one_renderer_shows_entries_summaries_and_errors() -> None:
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
    model = Script(STOP, STOP)
    agent(model).get_next_action(state(conversation_history=entries))
    agent(model).get_next_action(state())
    assert shown(model.requests[0], "conversation_history") == text
    assert shown(model.requests[1], "conversation_history") == "No previous interactions."
    assert ConversationManager(history=entries).get_formatted_history() == text
    assert ConversationManager(history=entries).get_formatted_history(last_n=1).startswith("Iteration 2:")


@row("S0-41", "B0-4")
def test_results_are_shown_whole_by_status() -> None:
    long = "r" * 5000
    results = [success("a", long), success("b", {"x": "é"}), success("c", None), error("d", "e", seen=True)]
    results.append({"tool_name": "f", "status": "skipped", "reason": "why"})
    model = Script(STOP)
    agent(model).get_next_action(state(last_tool_results=results))
    assert shown(model.requests[0], "last_tool_results").splitlines() == [
        f"a: {long}",
        'b: {"x": "é"}',
        "c: None",
        "d: ERROR - e",
        "f: SKIPPED - why",
    ]


@row("S0-42")
def test_tools_are_indented_json_and_follow_the_registry() -> None:
    model = Script(STOP, STOP)
    registry = MultiToolRegistry()
    registry.register(add)
    decider = ManualAgentLoop(registry, response_style=None, model=model)
    decider.get_next_action(state())
    registry.register(helpers.search)
    decider.get_next_action(state())
    texts = [shown(request, "available_tools") for request in model.requests]
    assert [[tool["name"] for tool in json.loads(text)] for text in texts] == [["add"], ["add", "search"]]
    assert texts[0].startswith('[\n  {\n    "name": "add",')


@row("S0-17")
def test_the_registry_protocol_is_checked_at_run_time() -> None:
    assert isinstance(ToolboxRegistry(Toolbox()), ToolRegistry)
    assert isinstance(DSPyToolRegistryAdapter(MultiToolRegistry()), ToolRegistry)
    assert not isinstance(MultiToolRegistry(), ToolRegistry)
    with pytest.raises(TypeError, match="no tool registry"):
        ManualAgentLoop(object())


@row("S0-18")
def test_the_adapter_maps_errors_names_and_descriptions() -> None:
    argument = {"name": "city", "type": "string", "description": "Where", "required": True}
    weather = SimpleNamespace(name=SimpleNamespace(value="weather"), description="W.", arguments=[SimpleNamespace(**argument)])
    plain, functions = SimpleNamespace(name="plain", description="P.", arguments=None), {"weather": add, "plain": helpers.search}
    existing = SimpleNamespace(
        _functions=functions, get_function=functions.__getitem__, get_tool_definitions=lambda: [weather, plain]
    )
    adapter = DSPyToolRegistryAdapter(existing)
    assert adapter.get_tool("weather") is add
    with pytest.raises(ValueError, match="Tool 'nope' not found in registry"):
        adapter.get_tool("nope")
    assert adapter.get_all_tool_names() == ["weather", "plain"]
    assert adapter.get_all_tool_descriptions() == [
        {"name": "weather", "description": "W.", "parameters": [argument]},
        {"name": "plain", "description": "P.", "parameters": []},
    ]


@row("S0-65")
def test_a_multi_tool_registry_registers_functions_and_defines_them() -> None:
    registry = MultiToolRegistry()
    registry.register(add, fail)
    assert registry.get_function("add") is add
    with pytest.raises(KeyError):
        registry.get_function("nope")
    described = DSPyToolRegistryAdapter(registry).get_all_tool_descriptions()
    assert [item["name"] for item in described] == ["add", "fail"]
    assert described[0]["parameters"][0] == {"name": "a", "type": "integer", "description": "", "required": True}
    assert described[1]["parameters"][0]["required"] is False


@row("B0-11")
def test_agent_and_manager_share_one_registry_raw_or_wrapped() -> None:
    registry = MultiToolRegistry()
    registry.register(add)
    for first in (registry, DSPyToolRegistryAdapter(registry)):
        decider = ManualAgentLoop(
            tool_registry=first, enable_error_recovery=True, model=Script(think(helpers.ADD), STOP, Text("3"))
        )
        made = ActivityManager(agent_loop=decider, tool_registry=registry, max_iterations=5, execution_mode="sequential")
        result = made.run_activity("How much is it?")
        assert (result["final_response"], result["iterations"], result["tools_used"]) == ("3", 2, ["add"])


@row("S0-64", "B0-20")
def test_docstrings_and_field_texts_reach_the_model() -> None:
    model = Script(helpers.recover("skip"), STOP)
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


@row("S0-69", "S0-67")
def test_the_helpers_call_no_model() -> None:
    decider, made = agent(None), helpers.manager(None)
    failed = [error("fail")]
    known = state(last_tool_results=[success("add", 3), *failed])
    assert decider._summarize_errors(failed) == "fail: broken"
    assert "add: 3" in decider._generate_error_aware_response(known, "fail: broken")
    assert decider._generate_safe_error_response(known, ValueError("secret"))
    assert made._generate_termination_response(known)
    assert made._generate_timeout_response(known)
    assert made._create_activity_result("i", known, "t", status="s")["status"] == "s"
    assert ErrorRecoveryModule()._format_previous_attempts([]) == "None"


@row("B0-28")
def test_results_summary_is_one_line_per_result_cut_at_200() -> None:
    def long(n: int) -> str:
        return "y" * n

    _, made = helpers.activity(
        Script(think(("long", {"n": 194}), ("long", {"n": 195}), helpers.FAIL), helpers.recover("skip"), STOP), long, fail
    )
    whole, cut, failed = made.conversation_history[0].results_summary.split("; ")
    assert whole == "long: " + "y" * 194
    assert cut == "long: " + "y" * 194 + "…"
    assert failed == "fail: ERROR - broken"
    assert made.conversation_history[0].results[1]["result"] == "y" * 195
