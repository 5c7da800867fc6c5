"""The stateless design: the formatter, and the texts of history, results and tools."""

from __future__ import annotations

import json

import dspy

from tests.loops.helpers import Script
from tests.loops.stateless.helpers import (
    STOP,
    add,
    agent,
    detailed,
    entry,
    error,
    formatted,
    search,
    shown,
    state,
    success,
    system,
    think,
)
from tests.rows import row
from whichloop.dspy_seam import lm_of
from whichloop.loops.stateless import (
    ConversationManager,
    ManualAgentLoop,
    MultiToolRegistry,
    ResponseFormatter,
    Stateless,
)
from whichloop.protocol import (
    Toolbox,
)


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
        model = Script(formatted("Text."))
        with dspy.context(lm=lm_of(model)):
            assert ResponseFormatter(style)("raw", "Q", state(), 0.5) == "Text."
        assert f"Style: {style}." in system(model.requests[0])
        assert "tool_history" not in system(model.requests[0])


@row("S0-39")
def test_the_confidence_stands_under_detailed_answers_unless_said_otherwise() -> None:
    for style, include, there in (
        ("concise", None, False),
        ("concise", True, True),
        ("detailed", None, True),
        ("detailed", False, False),
    ):
        decider = agent(None, response_style=style, include_confidence=include)
        reply = formatted("T") if style == "concise" else detailed("T", "p")
        text = decider.for_run(decider.tool_registry, Script(think(final="x"), reply)).get_next_action(state()).final_response
        assert ("Confidence: 90%" in (text or "")) is there, (style, include)
    assert Stateless().response_style == ManualAgentLoop(Toolbox()).options.response_style == "concise"


@row("S0-40", "B0-31")
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
    registry.register(search)
    decider.get_next_action(state())
    texts = [shown(request, "available_tools") for request in model.requests]
    assert [[tool["name"] for tool in json.loads(text)] for text in texts] == [["add"], ["add", "search"]]
    assert texts[0].startswith('[\n  {\n    "name": "add",')
