"""The stateless design as a loop and as a module of DSPy, with a test for every option."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

import dspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.drawn import DECISION, decisions
from tests.loops.helpers import Notes, Script, add
from tests.loops.stateless import helpers
from tests.loops.stateless.helpers import ADD, BAD, EMPTY, FAIL, PLAIN, STOP, agent, error, recover, run, shown, state, think
from tests.rows import row
from whichloop.dspy_seam import lm_of
from whichloop.dspy_seam.program import LoopProgram
from whichloop.loops.stateless import ActionType, ActivityManager, ConversationState, ManualAgentLoop, Stateless
from whichloop.protocol import ContextOverflow, ProviderError, Query, StopReason, Toolbox
from whichloop.protocol import ToolCall as Call
from whichloop.protocol.moves import Act, Recovery, Role, Text


class Case(NamedTuple):
    """A run without a formatter unless its options say so, and what comes of it."""

    options: dict[str, Any]
    replies: list[Any]
    stop: str
    status: str
    text: Any
    roles: str
    """The first letters of what the model is asked for: Decide, Recover, Format, Summarize."""


SILENT_END = think(final="", final_response=None)
NO_RECOVERY = {"enable_error_recovery": False}
CONCISE = {"response_style": "concise"}
FOLDS = {"max_history_length": 1}
BOTH = think(ADD, should_continue=False, final_response="early")
DOWN, LONG = ProviderError("down"), ContextOverflow("long")
LIMIT = "I reached the limit of 3 iterations"
CASES = {
    "a stop": Case({}, [STOP], "finished", "completed", "3", "d"),
    "a call and a stop": Case({}, [think(ADD), STOP], "finished", "completed", "3", "dd"),
    "nothing recovers": Case({}, [think(FAIL), recover("fail")], "recovery_failed", "completed", ..., "dr"),
    "no recovery": Case(NO_RECOVERY, [think(FAIL), STOP], "finished", "completed", "3", "dd"),
    "recovery for two rounds": Case({}, [think(FAIL), *[recover("retry")] * 2, STOP], "finished", "completed", "3", "drrd"),
    "recovery until a success": Case(
        {},
        [think(FAIL), *[recover("retry")] * 2, think(FAIL), think(FAIL), think(ADD), think(FAIL), recover("fail")],
        *("recovery_failed", "completed", ..., "drrddddr"),
    ),
    "recovery for no round": Case({"max_recovery_rounds": 0}, [think(FAIL), STOP], "finished", "completed", "3", "dd"),
    "recovery for three rounds": Case(
        {"max_recovery_rounds": 3}, [think(FAIL), *[recover("retry")] * 3, STOP], "finished", "completed", "3", "drrrd"
    ),
    "three empty decisions": Case({}, [EMPTY, think(should_use_tools=True), EMPTY], "error_valve", "terminated", ..., "ddd"),
    "a call between empty ones": Case({}, [EMPTY, EMPTY, think(ADD), EMPTY, EMPTY, STOP], "finished", "completed", "3", "dddddd"),
    "one empty decision": Case({"max_empty_decisions": 1}, [EMPTY], "error_valve", "terminated", ..., "d"),
    "empty for ever": Case(
        {"max_empty_decisions": None, "max_iterations": 4}, [EMPTY] * 4, "max_steps", "max_iterations", ..., "dddd"
    ),
    "results of before empty ones": Case(
        {}, [think(ADD, FAIL), recover("skip"), *[EMPTY] * 3], "error_valve", "terminated", "add: 3\nfail: ERROR - broken", "drddd"
    ),
    "the limit": Case({"max_iterations": 3}, [think(ADD)] * 3, "max_steps", "max_iterations", LIMIT, "ddd"),
    "an unreadable decision": Case({}, [BAD], "parse_failed", "error_recovery", ..., "d"),
    "no provider": Case({}, [DOWN], "provider_error", "error_recovery", ..., "d"),
    "an overflow": Case({}, [LONG], "context_overflow", "error_recovery", ..., "d"),
    "an unreadable formatter": Case(CONCISE, [STOP, BAD], "parse_failed", "error_recovery", ..., "df"),
    "no provider for the formatter": Case(CONCISE, [STOP, DOWN], "provider_error", "error_recovery", ..., "df"),
    "no provider for the fold": Case(FOLDS, [*[think(ADD)] * 2, DOWN], "provider_error", "error_recovery", ..., "dds"),
    "an overflow in the fold": Case(FOLDS, [*[think(ADD)] * 2, LONG], "context_overflow", "error_recovery", ..., "dds"),
    "no fold once it is over": Case(
        {**FOLDS, "finish_with_tools": "run_first"}, [think(ADD), BOTH], "finished", "completed", "early", "dd"
    ),
    "no text at all": Case({}, [SILENT_END], "finished", "completed", "No answer was produced.", "d"),
    "results for a text": Case(
        {}, [think(ADD, FAIL), recover("skip"), SILENT_END], "finished", "completed", "add: 3\nfail: ERROR - broken", "drd"
    ),
    "a formatted text of results": Case(
        CONCISE, [think(ADD), SILENT_END, helpers.formatted("Three.")], "finished", "completed", "Three.", "ddf"
    ),
    "an unknown name": Case({}, [think(("nope", {})), recover("skip"), STOP], "finished", "completed", "3", "drd"),
    "an unknown name, constrained": Case(
        {"constrain_names": True}, [think(("nope", {}))], "parse_failed", "error_recovery", ..., "d"
    ),
    "a stop beside a call": Case({}, [BOTH], "finished", "completed", "early", "d"),
    "the call first": Case({"finish_with_tools": "run_first"}, [BOTH], "finished", "completed", "early", "d"),
    "the call first, without a text": Case(
        {"finish_with_tools": "run_first"}, [think(ADD, should_continue=False)], "finished", "completed", "add: 3", "d"
    ),
    "asked again": Case({"finish_with_tools": "ask_again"}, [BOTH, think(final="late")], "finished", "completed", "late", "dd"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@row("G-2", "G-3", "X-12", "X-13", "X-21", "S0-47", "S0-50", "S0-59", "B0-12", "B0-16", "B0-21", "B0-23", "B0-29", "B0-36")
@row("stateless.max_iterations", "stateless.enable_error_recovery", "stateless.told_max_iterations")
@row("stateless.max_empty_decisions", "stateless.max_recovery_rounds", "stateless.finish_with_tools", "S0-61", "B0-17")
def test_a_run_goes_as_its_replies_say(case: Case) -> None:
    loop, model = Stateless(**{"response_style": None} | case.options), Script(*case.replies)
    outcome = run(loop, model)
    assert (outcome.stop, outcome.details["status"]) == (case.stop, case.status)
    assert (outcome.confidence is None) or case.status == "completed"
    assert outcome.stop in loop.stops
    assert "".join(role.value[0] for role in model.roles) == case.roles
    assert len(model.requests) == len(case.replies), "no further call"
    text = outcome.details["final_response"]
    assert case.text is ... or (LIMIT[12:] in text if case.text == LIMIT else text == case.text)
    assert outcome.stop not in ("provider_error", "context_overflow") or outcome.answer is None
    told = {shown(request, "max_iterations") for request in model.requests if request.role is Role.DECIDE}
    assert told == {str(loop.max_iterations)}
    again = Script(*case.replies)
    run(replace(loop, told_max_iterations=50), again)
    assert {shown(request, "max_iterations") for request in again.requests if request.role is Role.DECIDE} == {"50"}


@row("G-3")
def test_a_bug_leaves_run_as_it_was() -> None:
    bug = RuntimeError("bug")
    with pytest.raises(RuntimeError) as caught:
        run(PLAIN, Script(bug))
    assert caught.value is bug
    foreign = helpers.decision(ActionType.ERROR_RECOVERY, should_continue=False, final_response="odd")
    assert ActivityManager(helpers.Decides(foreign), Toolbox()).run_activity("Q")["status"] == "error_recovery"


@row("stateless.response_style")
def test_option_response_style_puts_the_answer_or_leaves_it() -> None:
    replies = {"concise": [helpers.formatted("F")], "detailed": [helpers.detailed("F", "p")], None: []}
    ended = {style: run(Stateless(response_style=style), Script(STOP, *more)) for style, more in replies.items()}  # type: ignore[arg-type]
    texts = {style: outcome.details["final_response"] for style, outcome in ended.items()}
    assert texts == {"concise": "F", "detailed": "F\n\nKey Points:\n• p\n\nConfidence: 90%", None: "3"}
    assert {style: outcome.answer for style, outcome in ended.items()} == {"concise": "F", "detailed": "F", None: "3"}


@row("stateless.constrain_names")
def test_option_constrain_names_refuses_an_unknown_tool() -> None:
    model = Script(think(("nope", {})))
    assert run(Stateless(constrain_names=True), model).stop is StopReason.PARSE_FAILED
    assert '"enum": ["add", "fail", "search", "image_search"]' in helpers.system(model.requests[0])
    assert "Name of the tool to execute" in helpers.system(model.requests[0])
    assert run(Stateless(constrain_names=True, response_style=None), Script(think(ADD), STOP)).answer == "3"
    assert Stateless(constrain_names=True, response_style=None).run_sync(Query("Q"), Toolbox(), Script(STOP)).answer == "3"


@row("stateless.max_history_length")
def test_option_max_history_length_folds_the_older_half_or_nothing() -> None:
    folds = {}
    for most in (2, None):
        model = Script(then=lambda request: Text("S.") if request.role is Role.SUMMARIZE else think_move())
        run(Stateless(max_iterations=6, max_history_length=most), model)
        folds[most] = model.roles.count(Role.SUMMARIZE)
    assert folds == {2: 4, None: 0}


def think_move() -> Act:
    return Act("t", (Call("add", {"a": 1, "b": 2}),))


@row("stateless.history_as")
def test_option_history_as_messages_makes_a_conversation_of_earlier_iterations() -> None:
    def long(n: int) -> str:
        return "y" * n

    model = Script(think(("long", {"n": 900})), think(ADD), think(FAIL), STOP)
    outcome = run(
        Stateless(response_style=None, history_as="messages", enable_error_recovery=False), model, long, add, helpers.fail
    )
    assert outcome.answer == "3"
    assert [message.role for message in model.requests[0].messages] == ["system", "user"]
    last = model.requests[-1].messages
    assert [message.role for message in last] == ["system", *["user", "assistant"] * 3, "user"]
    assert last[1].content == "Q"
    assert last[3].content == f"long: {'y' * 900}", "results stay whole"
    assert json.loads(last[2].content.partition("\n")[2]) == [{"tool_name": "long", "parameters": {"n": 900}}]
    assert shown(model.requests[-1], "last_tool_results") == "fail: ERROR - broken"
    assert "Iteration 1" not in last[-1].content
    through = Script(think(ADD), STOP)
    with dspy.context(lm=lm_of(through)):
        assert LoopProgram(Stateless(response_style=None, history_as="messages"), [add])(query="Q").answer == "3"
    assert len(through.requests[1].messages) == 4


def test_a_program_answers_from_the_configured_model() -> None:
    program = LoopProgram(PLAIN, [add])
    assert [name for name, _ in program.named_predictors()] == [*PLAIN.predictors]
    with dspy.context(lm=lm_of(Script(think(ADD), STOP))):
        made = program(query="Q")
    assert (made.answer, made.stop, made.confidence, made.state.total_tool_calls) == ("3", "finished", 0.9, 1)


@row("S0-21")
def test_absent_results_are_a_literal_text() -> None:
    absences: tuple[list[Any] | None, ...] = (None, [])
    for absent in absences:
        model = Script(STOP)
        agent(model).get_next_action(state(last_tool_results=absent))
        assert shown(model.requests[0], "last_tool_results") == "No previous tool results"


@row("S0-22", "B0-18", "stateless.validate_output")
def test_the_validators_verdict_goes_to_the_trace_and_changes_nothing() -> None:
    verdict = helpers.section(is_valid=False, validation_issues=["odd"])
    for reply, noted in ((verdict, [("validation", {"is_valid": False, "issues": ["odd"]})]), (BAD, [])):
        notes = Notes()
        model = Script(STOP, reply)
        outcome = run(Stateless(response_style=None, validate_output=True), model, observer=notes)
        assert model.roles == [Role.DECIDE, Role.VALIDATE]
        assert (outcome.answer, outcome.stop, notes.notes) == ("3", StopReason.FINISHED, noted)
    model = Script(STOP)
    assert run(PLAIN, model).answer == "3"
    assert "output_validator" not in str([name for name, _ in agent().named_predictors()])


RESULTS = [
    helpers.success("add", [1]),
    error("add"),
    error("add", seen=True),
    {"tool_name": "add", "status": "skipped", "reason": "r"},
]


@given(
    changes=st.fixed_dictionaries(
        {
            "iteration_count": st.integers(1, 5),
            "recovery_rounds": st.integers(0, 3),
            "last_tool_results": st.none() | st.lists(st.sampled_from(RESULTS), max_size=4),
        }
    ),
    said=DECISION,
    strategy=st.sampled_from(["retry", "alternative_tool", "skip", "fail"]),
)
@settings(deadline=None, max_examples=cases(25))
@row("X-9", "S0-24", "B0-2")
def test_a_decision_depends_on_its_state_alone_and_leaves_it_as_it_was(
    changes: dict[str, Any], said: dict[str, Any], strategy: Any
) -> None:
    def answer(request: Any) -> Any:
        known = {Role.RECOVER: Recovery(strategy, None, "d"), Role.FORMAT: Text("f")}
        return known.get(request.role) or decisions(said)

    state = ConversationState(user_query="Q", **changes)
    before = state.model_copy(deep=True)
    agent = ManualAgentLoop(Toolbox(), model=Script(then=answer))
    first, second = (agent.get_next_action(state) for _ in range(2))
    assert state == before
    assert first.model_dump(exclude={"processing_time"}) == second.model_dump(exclude={"processing_time"})
    assert type(first).model_validate_json(first.model_dump_json()).model_dump() == first.model_dump()
