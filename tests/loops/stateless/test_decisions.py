"""The stateless design: the reasoner, and `get_next_action`."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loops.helpers import Notes, Script
from tests.loops.stateless.helpers import (
    ADD,
    BAD,
    EMPTY,
    FAIL,
    PLAIN,
    STOP,
    activity,
    add,
    agent,
    entry,
    error,
    formatted,
    recover,
    run,
    section,
    shown,
    state,
    success,
    summary,
    think,
)
from tests.rows import row
from whichloop.loops.stateless import (
    ActionDecision,
    ActionType,
    ConversationEntry,
    Stateless,
)
from whichloop.loops.stateless.state import HistorySummary
from whichloop.protocol import (
    Answer,
    BudgetExceeded,
    ContextOverflow,
    ProviderError,
    Recovery,
    Reply,
    Role,
    StopReason,
    run_sync,
)


@row("S0-19")
def test_one_chain_of_thought_call_gives_tools_and_continuation() -> None:
    model = Script(think(ADD))
    decision = agent(model).get_next_action(state())
    assert model.roles == [Role.DECIDE]
    codec: Any = model.requests[0].codec
    assert list(codec.signature.output_fields) == ["reasoning", "reasoning_output"]
    assert (decision.action_type, decision.should_continue) == (ActionType.TOOL_EXECUTION, True)


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


@row("B0-19")
def test_the_manager_keeps_the_summary_for_later_decisions() -> None:
    def long(text: str) -> str:
        """A long text."""
        return text * 190

    model = Script(think(*[("long", {"text": "z"})] * 17), summary("S."), think(ADD), STOP)
    _, made = activity(model, long, add)
    assert model.roles == [Role.DECIDE, Role.SUMMARIZE, Role.DECIDE, Role.DECIDE]
    assert made.history_summary is not None
    assert "S." in shown(model.requests[-1], "conversation_history")


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


@row("B0-19", "X-14")
def test_what_was_summarized_before_stays_when_the_next_summary_is_unreadable() -> None:
    model = Script(BAD, STOP)
    known = HistorySummary(summary="Old.", key_points=["k"], last_iteration=1)
    agent(model).get_next_action(state(conversation_history=[entry(1), entry(2, "x" * 3000)], history_summary=known))
    told = shown(model.requests[1], "conversation_history")
    assert told.startswith("[Summarized earlier history]: Old.\nKey points: k\n\n[Recent history]: xxx")
    assert told.endswith("x" * 3000)


@row("S0-21")
def test_absent_results_are_a_literal_text() -> None:
    absences: tuple[list[Any] | None, ...] = (None, [])
    for absent in absences:
        model = Script(STOP)
        agent(model).get_next_action(state(last_tool_results=absent))
        assert shown(model.requests[0], "last_tool_results") == "No previous tool results"


@row("S0-22", "B0-18")
def test_the_validators_verdict_goes_to_the_trace_and_changes_nothing() -> None:
    verdict = section(is_valid=False, validation_issues=["odd"])
    for reply, noted in ((verdict, [("validation", {"is_valid": False, "issues": ["odd"]})]), (BAD, [])):
        notes = Notes()
        model = Script(STOP, reply)
        outcome = run(Stateless(response_style=None, validate_output=True), model, observer=notes)
        assert model.roles == [Role.DECIDE, Role.VALIDATE]
        assert (outcome.answer, outcome.stop, notes.notes) == ("3", StopReason.FINISHED, noted)
    model = Script(STOP)
    assert run(PLAIN, model).answer == "3"
    assert "output_validator" not in str([name for name, _ in agent().named_predictors()])


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


@row("S0-24")
def test_the_formatter_gets_this_decisions_confidence() -> None:
    decider = agent(Script(think(final="3", confidence=0.25), formatted("F")), response_style="concise", include_confidence=True)
    assert decider.get_next_action(state(last_confidence=0.75)).final_response == "F\n\nConfidence: 25%"


@row("S0-25")
def test_a_stop_is_a_final_response_even_beside_tools() -> None:
    model = Script(think(ADD, should_continue=False, final_response="raw"), formatted("neat"))
    decision = agent(model, response_style="concise").get_next_action(state())
    assert decision.action_type is ActionType.FINAL_RESPONSE
    assert (decision.reasoning, decision.final_response, decision.should_continue) == ("Continuation.", "neat", False)
    assert model.roles == [Role.DECIDE, Role.FORMAT]
    assert shown(model.requests[1], "raw_response") == "raw"


@row("S0-26")
def test_tools_are_suggested_with_parallel_safe_and_next_action() -> None:
    model = Script(think(ADD, FAIL, parallel_safe=False, suggested_next_action="Then stop."))
    decision = agent(model).get_next_action(state())
    assert decision.action_type is ActionType.TOOL_EXECUTION
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


@given(text=st.text(min_size=1), style=st.text(min_size=1))
@row("S0-68")
def test_a_decision_is_the_same_after_a_round_trip_through_json(text: str, style: str) -> None:
    decision = ActionDecision(
        action_type=ActionType.FINAL_RESPONSE, reasoning=text, confidence=0.5, final_response=f"{text}\n\n{style}", answer=text
    )
    again = ActionDecision.model_validate_json(decision.model_dump_json())
    assert (again, again.answer) == (decision, text)
    assert again != ActionDecision.model_validate(decision.model_dump() | {"answer": f"{text}!"})


@pytest.mark.parametrize("raised", [BudgetExceeded("spent"), asyncio.CancelledError(), KeyboardInterrupt()])
@row("S0-28", "G-3")
def test_cancellation_and_budget_pass_through(raised: BaseException) -> None:
    before = state(last_tool_results=[error("fail")])
    for held in (state(), before):
        with pytest.raises(type(raised)):
            asyncio.run(agent(Script(raised)).aget_next_action(held))


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

    for answers in ([STOP], [think(ADD)], [EMPTY], [BAD]):
        assert agent(Slow(*answers)).get_next_action(state()).processing_time >= 0.01
    model = Slow(recover("retry"))
    assert agent(model).get_next_action(state(last_tool_results=[error("fail")])).processing_time >= 0.01
