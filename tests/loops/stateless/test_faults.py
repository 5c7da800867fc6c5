"""The stateless design: the document's faults, and what we do instead."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.loops.helpers import Notes, Script
from tests.loops.stateless.helpers import (
    ADD,
    BAD,
    EMPTY,
    FAIL,
    PLAIN,
    STOP,
    TOOLS,
    Decides,
    activity,
    agent,
    decision,
    error,
    fail,
    formatted,
    manager,
    recover,
    run,
    shown,
    state,
    think,
)
from tests.prepared import ran_in_fork
from tests.rows import row
from whichloop.loops.stateless import (
    ActionType,
    ActivityManager,
    ConversationState,
    ManualAgentLoop,
    MultiToolRegistry,
    Stateless,
    ToolCall,
)
from whichloop.protocol import (
    Reply,
    Role,
    StopReason,
    Toolbox,
    Usage,
)


@row("B0-1")
def test_the_types_stand_before_their_use_and_dropped_ones_are_gone() -> None:
    import whichloop.loops.stateless as package

    assert all(hasattr(package, name) for name in package.__all__)
    assert not any(hasattr(package, name) for name in ("ContinuationDecision", "ToolSelectionOutput"))
    assert not hasattr(ManualAgentLoop, "_create_final_response_action")


@row("B0-12", "X-13")
def test_the_budget_told_is_the_budget_enforced() -> None:
    for limit in (1, 4):
        model = Script(then=think(ADD))
        assert run(Stateless(max_iterations=limit), model).steps == limit
        assert {shown(request, "max_iterations") for request in model.requests} == {str(limit)}
        assert len(model.requests) == limit
    model = Script(STOP, STOP)
    decider = agent(model)
    decider.get_next_action(state(max_iterations=None))
    decider.get_next_action(state(max_iterations=6))
    assert [shown(request, "max_iterations") for request in model.requests] == ["10", "6"]
    made = manager(Script(then=think(ADD)), max_iterations=9)
    assert made.continue_activity(state(iteration_count=0, max_iterations=2))["iterations"] == 2


@row("B0-12", "X-13")
def test_a_state_without_limit_takes_the_managers() -> None:
    model = Script(then=think(ADD))
    result = manager(model, max_iterations=3).continue_activity(ConversationState(user_query="Q"))
    assert (result["iterations"], {shown(request, "max_iterations") for request in model.requests}) == (3, {"3"})


@row("B0-13")
def test_the_core_is_async_and_its_sync_faces_work_inside_a_running_loop() -> None:
    async def inside() -> tuple[Any, ...]:
        decider = agent(Script(STOP, STOP, STOP, STOP))
        made = ActivityManager(decider, decider.tool_registry)
        ended = await made.arun_activity("Q")
        return (
            decider.get_next_action(state()).final_response,
            (await decider.aget_next_action(state())).final_response,
            made.run_activity("Q")["final_response"],
            ended["final_response"],
        )

    assert asyncio.run(inside()) == ("3",) * 4


@row("B0-14")
def test_dropped_calls_are_recorded_and_not_counted() -> None:
    notes = Notes()
    model = Script(think(ADD, FAIL, should_continue=False, final_response="done"))
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


@row("B0-16")
def test_an_unknown_name_is_an_error_result() -> None:
    model = Script(think(("nope", {})), recover("skip"), STOP)
    _, made = activity(model)
    assert made.errors_encountered == ["Tool nope: Tool 'nope' not found in registry"]
    outcome = run(Stateless(response_style=None, constrain_names=True), Script(then=think(("nope", {}))))
    assert (outcome.stop, outcome.details["state"].errors_encountered) == (StopReason.PARSE_FAILED, [])


@row("B0-23", "X-12")
def test_empty_decisions_keep_results_and_end_at_the_third() -> None:
    model = Script(think(ADD, FAIL), recover("skip"), EMPTY, think(should_use_tools=True), EMPTY)
    result, made = activity(model)
    assert (result["status"], result["iterations"]) == ("terminated", 4)
    assert result["final_response"] == "add: 3\nfail: ERROR - broken"
    assert model.roles == [Role.DECIDE, Role.RECOVER, *[Role.DECIDE] * 3], "no second recovery of a seen error"
    assert "add: 3" in shown(model.requests[-1], "last_tool_results")
    assert [item.tool_calls for item in made.conversation_history] == [["add", "fail"], [], [], []]
    assert run(PLAIN, Script(then=EMPTY)).stop is StopReason.ERROR_VALVE
    model = Script(EMPTY, EMPTY, think(ADD), EMPTY, EMPTY, STOP)
    assert activity(model)[0]["status"] == "completed", "a call between them starts the count anew"


@row("B0-24")
def test_the_agent_takes_a_state_only() -> None:
    with pytest.raises(TypeError):
        agent().get_next_action("Q", [], [])  # type: ignore[call-arg,arg-type]


@row("B0-27")
def test_a_second_call_of_a_tool_has_a_key_of_its_own() -> None:
    calls = [("add", {"a": n, "b": 0}) for n in range(3)]
    _, made = activity(Script(think(*calls), STOP))
    assert made.conversation_history[0].tool_parameters == {
        "add": {"a": 0, "b": 0},
        "add#2": {"a": 1, "b": 0},
        "add#3": {"a": 2, "b": 0},
    }


@row("B0-28")
def test_results_summary_is_one_line_per_result_cut_at_200() -> None:
    def long(n: int) -> str:
        """Long."""
        return "y" * n

    _, made = activity(Script(think(("long", {"n": 194}), ("long", {"n": 195}), FAIL), recover("skip"), STOP), long, fail)
    whole, cut, failed = made.conversation_history[0].results_summary.split("; ")
    assert whole == "long: " + "y" * 194
    assert cut == "long: " + "y" * 194 + "…"
    assert failed == "fail: ERROR - broken"
    assert made.conversation_history[0].results[1]["result"] == "y" * 195


@row("B0-32", "X-10")
def test_a_hung_call_times_out_by_itself_in_every_mode() -> None:
    release = threading.Event()

    def hang() -> None:
        """Hangs."""
        release.wait(20)

    async def add(a: int, b: int) -> int:
        """Add two numbers, on no thread, whose start alone may take longer than the limit where the machine is busy."""
        return a + b

    registry = MultiToolRegistry()
    registry.register(hang, add)
    try:
        for source in (registry, Toolbox([hang, add])):
            for mode in ("sequential", "parallel", "selective"):
                decider = ManualAgentLoop(source, False, None, model=Script(think(("hang", {}), ADD), STOP))
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
from whichloop.loops.stateless import Stateless
from whichloop.models.fake import FakeModel
from whichloop.protocol import Act, Answer, Query, Toolbox, ToolCall

def hang() -> None:
    "Hangs."
    time.sleep(100)

model = FakeModel(Act("t", (ToolCall("hang", {}),)), Answer("t", "done", 0.9))
loop = Stateless(response_style=None, enable_error_recovery=False, tool_timeout_s=0.05)
print(loop.run_sync(Query("Q"), Toolbox([hang]), model).answer)
"""


@row("B0-32")
def test_a_hung_thread_does_not_keep_the_process(tmp_path: Path) -> None:
    began = time.monotonic()
    done = ran_in_fork(HANGS, tmp_path)
    assert (done.stdout, done.stderr) == ("done\n", "")
    assert time.monotonic() - began < 60


@row("B0-34")
def test_tokens_are_the_sum_of_the_decisions_calls() -> None:
    def counted(text: str, tokens: int) -> Reply:
        return Reply(text, usage=Usage(tokens, 1))

    model = Script(counted(recover("skip"), 10), counted(STOP, 20), counted(formatted("F"), 30))
    decider = agent(model, response_style="concise")
    assert decider.get_next_action(state(last_tool_results=[error("fail")])).tokens_used == 63
    model = Script(counted(STOP, 20), formatted("F"))
    assert agent(model, response_style="concise").get_next_action(state()).tokens_used is None


@row("B0-34")
def test_what_an_unreadable_reply_took_counts_too() -> None:
    replies = [Reply(STOP, usage=Usage(20, 1)), Reply(BAD, usage=Usage(10, 1))]
    decision = agent(Script(*replies), validate_output=True).get_next_action(state())
    assert (decision.action_type, decision.tokens_used) == (ActionType.FINAL_RESPONSE, 32)
    assert agent(Script(BAD)).get_next_action(state()).tokens_used is None


@row("B0-35")
def test_a_repeated_id_runs_again() -> None:
    model = Script(STOP, think(final="4"))
    made = manager(model)
    assert [made.run_activity("Q", "same")["final_response"] for _ in range(2)] == ["3", "4"]
    assert made.activity_cache == {}


@pytest.mark.parametrize("raised", [SystemExit(3), ValueError("v"), KeyError("k")])
@row("G-5", "X-10")
def test_whatever_a_tool_raises_is_an_error_result(raised: BaseException) -> None:
    def raising() -> None:
        """Raises."""
        raise raised

    registry = MultiToolRegistry()
    registry.register(raising)
    for source in (registry, Toolbox([raising])):
        decider = ManualAgentLoop(source, False, None, model=Script(think(("raising", {})), STOP))
        made = ActivityManager(decider, source).new_state("Q")
        ActivityManager(decider, source).continue_activity(made)
        assert made.conversation_history[0].results[0]["error_type"] == type(raised).__name__
