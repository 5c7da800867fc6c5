"""The stateless design: what the agent decides, and what it does about failed tools."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import dspy
import pytest

from tests.loops.helpers import Script
from tests.loops.stateless import helpers
from tests.loops.stateless.helpers import ADD, BAD, FAIL, STOP, agent, entry, error, recover, shown, state, success, summary, think
from tests.rows import row
from whichloop.dspy_seam import lm_of
from whichloop.loops.stateless import ErrorRecoveryModule, ManualAgentLoop
from whichloop.loops.stateless.state import ActionDecision, ActionType, ConversationEntry, ConversationState, HistorySummary
from whichloop.protocol import ContextOverflow, ProviderError, Reply, Role, Toolbox, run_sync

CALLS, FINAL, RECOVERY = ActionType.TOOL_EXECUTION, ActionType.FINAL_RESPONSE, ActionType.ERROR_RECOVERY
CONCISE = {"response_style": "concise"}
FAILED = [error("fail")]
FIVE = [error(name) for name in ("one", "two", "three", "four", "five")]
NOTHING_TO_DO = {
    **{"action_type": CALLS, "calls": [], "confidence": 0.5, "should_continue": True},
    "reasoning": "Need more information but no specific tools identified",
}
ALTERNATIVE = {
    **{"reasoning": "Attempting recovery with alternative tools", "confidence": 0.7, "parallel_safe": False},
    **{"should_continue": True, "is_recovery": True},
}
RETRY = {
    **{"reasoning": "Retrying failed tools with adjusted parameters", "confidence": 0.6, "parallel_safe": False},
    **{"should_continue": True, "is_recovery": True},
}


class Case(NamedTuple):
    """The results that an agent looks at and what its model says; the decision of it, and what the model was asked for."""

    results: list[Any] | None
    replies: list[Any]
    decision: dict[str, Any]
    roles: str
    """The first letters: Decide, Recover, Format."""
    options: Mapping[str, Any] = MappingProxyType({})
    changes: Mapping[str, Any] = MappingProxyType({})


def broken(kind: str) -> dict[str, Any]:
    return {"action_type": RECOVERY, "confidence": 0.0, "should_continue": False, "error_kind": kind}


CASES = {
    "a stop, also beside tools": Case(
        None,
        [think(ADD, should_continue=False, final_response="raw"), helpers.formatted("neat")],
        {"action_type": FINAL, "reasoning": "Continuation.", "final_response": "neat", "should_continue": False},
        "df",
        CONCISE,
    ),
    "tools": Case(
        None,
        [think(ADD, FAIL, parallel_safe=False, suggested_next_action="Then stop.")],
        {
            **{"action_type": CALLS, "calls": [(*ADD, "Because."), (*FAIL, "Because.")], "confidence": 0.9},
            **{"parallel_safe": False, "suggested_next_action": "Then stop.", "reasoning": "Overall.", "should_continue": True},
        },
        "d",
    ),
    "no tools": Case(None, [helpers.EMPTY], NOTHING_TO_DO, "d"),
    "none beside the wish for some": Case(None, [think(should_use_tools=True)], NOTHING_TO_DO, "d"),
    "some without the wish": Case(None, [think(ADD, should_use_tools=False)], NOTHING_TO_DO, "d"),
    "an unreadable reply": Case(None, [BAD], broken("parse_failed"), "d"),
    "no provider": Case(None, [ProviderError("down")], broken("provider_error"), "d"),
    "an overflow": Case(None, [ContextOverflow("long")], broken("context_overflow"), "d"),
    "a bug": Case(None, [RuntimeError("bug")], broken("internal"), "d"),
    "recovery is off": Case(FAILED, [STOP], {"final_response": "3"}, "d", {"enable_error_recovery": False}),
    "an error of before": Case([error("fail", seen=True)], [STOP], {"final_response": "3"}, "d"),
    "no round is left": Case(FAILED, [STOP], {"final_response": "3"}, "d", {}, {"recovery_rounds": 2}),
    "no error": Case([success("add", 3)], [STOP], {"final_response": "3"}, "d"),
    "an alternative": Case(
        FAILED,
        [recover("alternative_tool", "Use add.", alternative_tool="add", retry_with_params=ADD[1])],
        {"calls": [(*ADD, "Use add.")], **ALTERNATIVE},
        "r",
    ),
    "an alternative without parameters": Case(
        FAILED,
        [recover("alternative_tool", "Use add.", alternative_tool="add")],
        {"calls": [("add", {}, "Use add.")], **ALTERNATIVE},
        "r",
    ),
    "retries, each with its own or new parameters": Case(
        [error("one", "first"), success("add", 3), error("two", "second")],
        [recover("retry", "again", retry_with_params={"n": 1}), recover("retry", "anew")],
        {"calls": [("one", {"n": 1}, "Retry: again"), ("two", {"why": "second"}, "Retry: anew")], **RETRY},
        "rr",
    ),
    "nothing recoverable": Case(
        FAILED,
        [recover("fail"), helpers.formatted("Sorry.")],
        {
            **{"action_type": FINAL, "should_continue": False, "confidence": 0.5, "final_response": "Sorry."},
            "reasoning": "Unable to recover from errors: fail: broken",
        },
        "rf",
        CONCISE,
    ),
    "a strategy that cannot recover": Case(FAILED, [recover("retry", can_recover=False)], {"action_type": FINAL}, "r"),
    "every strategy": Case(
        FIVE,
        [
            recover("retry"),
            recover("alternative_tool", alternative_tool="add"),
            *(recover("skip"), recover("fail"), recover("alternative_tool")),
        ],
        {
            "calls": [("one", {"why": "broken"}, "Retry: D."), ("add", {}, "D.")],
            "reasoning": "Attempting recovery with alternative tools; Retrying failed tools with adjusted parameters",
            **{"confidence": 0.6, "kept_results": [2, 3, 4]},
        },
        "rrrrr",
    ),
    "one is skipped": Case(
        FIVE[:2],
        [recover("fail"), recover("skip"), STOP],
        {"action_type": FINAL, "is_recovery": False, "final_response": "3"},
        "rrd",
    ),
    "an unreadable strategy": Case(FAILED, [BAD], {"action_type": FINAL}, "r"),
    "no provider for a strategy": Case(FAILED, [ProviderError("down")], broken("provider_error"), "r"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@row("S0-19", "S0-23", "S0-25", "S0-26", "S0-27", "S0-28", "S0-31", "S0-32", "S0-33", "S0-34")
@row("B0-6", "B0-7", "B0-10", "B0-33", "X-11")
def test_a_decision_is_as_the_replies_say(case: Case) -> None:
    model = Script(*case.replies)
    decision = agent(model, **case.options).get_next_action(state(last_tool_results=case.results, **case.changes))
    found = decision.model_dump() | {
        "calls": [(call.tool_name, call.parameters, call.reasoning) for call in decision.tool_suggestions or ()]
    }
    assert {name: found[name] for name in case.decision} == case.decision
    assert "".join(role.value[0] for role in model.roles) == case.roles
    assert ActionDecision.model_validate_json(decision.model_dump_json()) == decision
    if decision.action_type is RECOVERY:
        assert decision.reasoning.startswith("Error in agent processing: ")
        assert decision.final_response
        assert str(case.replies[0]) not in decision.final_response


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
    decision = agent(model).get_next_action(state(conversation_history=long_history(3001)))
    assert model.roles == [Role.SUMMARIZE, Role.DECIDE]
    assert len(shown(model.requests[0], "long_history")) == 3001
    told = f"[Summarized earlier history]: S.\nKey points: one, two\n\n[Recent history]: {'x' * 1500}"
    assert shown(model.requests[1], "conversation_history") == told
    assert decision.history_summary == HistorySummary(summary="S.", key_points=["one", "two"], last_iteration=1)


@row("B0-19", "X-14")
def test_a_stored_summary_is_sent_with_what_it_does_not_cover_and_not_made_again() -> None:
    stored = HistorySummary(summary="S.", key_points=["k"], last_iteration=2)
    entries = [entry(1, "one"), entry(2, "two"), entry(3, "three")]
    model = Script(STOP)
    decision = agent(model).get_next_action(state(conversation_history=entries, history_summary=stored))
    history = shown(model.requests[0], "conversation_history")
    assert history.startswith("[Summarized earlier history]: S.\nKey points: k")
    assert ("three" in history, "two" in history, decision.history_summary) == (True, False, None)

    model = Script(summary("S2."), STOP)
    entries[2] = entry(3, "y" * 3001)
    decision = agent(model).get_next_action(state(conversation_history=entries, history_summary=stored))
    told = shown(model.requests[0], "long_history")
    assert (told.startswith("[Summarized earlier history]: S."), "two" in told) == (True, False)
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
def test_an_unreadable_summary_leaves_the_last_3000_characters() -> None:
    model = Script(BAD, STOP)
    decision = agent(model).get_next_action(state(conversation_history=long_history(4000)))
    assert shown(model.requests[1], "conversation_history") == "x" * 3000
    assert (decision.history_summary, decision.action_type) == (None, FINAL)
    decision = agent(Script(ProviderError("down"))).get_next_action(state(conversation_history=long_history(4000)))
    assert decision.error_kind == "provider_error"


@row("S0-29", "S0-30")
def test_forward_is_get_next_action_and_each_decision_has_its_processing_time() -> None:
    class Slow(Script):
        async def complete(self, request: Any) -> Reply:
            await asyncio.sleep(0.01)
            return await super().complete(request)

    decider = agent(Slow(then=think(ADD)))
    decisions = [decider.get_next_action(state()), decider(state()), run_sync(decider.acall(state()))]
    assert all(one.processing_time >= 0.01 for one in decisions)
    first, *others = (one.model_dump(exclude={"processing_time"}) for one in decisions)
    assert others == [first] * 2


@row("S0-35")
def test_without_failed_tools_recovery_is_normal_reasoning() -> None:
    class Always(ManualAgentLoop):
        def _may_recover(self, state: ConversationState) -> bool:
            return True

    model = Script(STOP)
    decider = Always(Toolbox(helpers.TOOLS), response_style=None, model=model)
    assert decider.get_next_action(state(last_tool_results=[success("add", 3)])).final_response == "3"
    assert model.roles == [Role.DECIDE]


@row("S0-36", "B0-30")
def test_strategies_are_told_to_the_planner_and_limit_it() -> None:
    assert ErrorRecoveryModule().strategies == ["retry", "alternative_tool", "graceful_degradation"]
    model = Script(recover("skip"), STOP)
    agent(model).get_next_action(state(last_tool_results=FAILED, errors_encountered=["Tool fail: a", "Tool fail: b"]))
    assert "Allowed strategies: retry, alternative_tool, skip, fail." in helpers.system(model.requests[0])
    assert shown(model.requests[0], "previous_attempts") == "1. Tool fail: a\n2. Tool fail: b"
    decider = agent(Script(recover("skip")))
    decider.error_recovery = ErrorRecoveryModule(["retry"])
    assert decider.get_next_action(state(last_tool_results=FAILED)).action_type is FINAL


@row("B0-22", "X-11")
def test_a_recovery_keeps_the_steps_successes_and_skipped_errors() -> None:
    model = Script(
        think(ADD, FAIL, ("fail", {"why": "other"})),
        recover("alternative_tool", alternative_tool="search", retry_with_params={"query": "x"}),
        recover("skip"),
        STOP,
    )
    _, after = helpers.activity(model)
    assert [(one["tool_name"], one["status"], one.get("seen")) for one in after.last_tool_results or ()] == [
        ("add", "success", None),
        ("fail", "error", True),
        ("search", "success", None),
    ]
    assert shown(model.requests[-1], "last_tool_results") == "add: 3\nfail: ERROR - other\nsearch: found 3 pages on x"


@row("B0-33", "S0-11")
def test_the_planner_sees_the_failure_and_the_tools_with_the_failed_one_marked() -> None:
    model = Script(recover("skip"), STOP)
    odd = error("fail", "no luck", parameters={"when": time.gmtime, "set": {1}})
    agent(model).get_next_action(state(last_tool_results=[odd], errors_encountered=["Tool fail: no luck"]))
    asked = {"error_message": "no luck", "error_type": "ValueError", "failed_tool": "fail", "user_query": "Q"}
    assert {name: shown(model.requests[0], name) for name in asked} == asked
    assert "no luck" in shown(model.requests[0], "previous_attempts")
    assert shown(model.requests[0], "tool_parameters")
    tools = {tool["name"]: tool for tool in json.loads(shown(model.requests[0], "available_tools"))}
    assert tools["add"]["description"] == "Add two numbers."
    assert [name for name, tool in tools.items() if tool.get("failed")] == ["fail"]
    names = Script(recover("skip"))
    with dspy.context(lm=lm_of(names)):
        assert ErrorRecoveryModule()(error("fail"), state(), ["add", "fail"]).strategy_type == "skip"
    assert json.loads(shown(names.requests[0], "available_tools"))[1] == {"name": "fail", "failed": True}
