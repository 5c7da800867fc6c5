"""The stateless design: what else the document says, and its faults."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import dspy
import pytest

from tests.loops.helpers import Notes, Script
from tests.loops.stateless import helpers
from tests.loops.stateless.helpers import ADD, FAIL, PLAIN, STOP, activity, agent, error, formatted, recover, state, success, think
from tests.rows import row
from whichloop.loops.stateless import ActivityManager, ManualAgentLoop, MultiToolRegistry
from whichloop.loops.stateless.modules import AgentReasoner, ErrorRecoveryModule, ResponseFormatter
from whichloop.loops.stateless.state import ActionDecision, ConversationState
from whichloop.protocol import Reply, Toolbox, Usage


@row("S0-60")
def test_the_execution_methods_can_be_overridden_by_plain_functions_or_coroutines() -> None:
    seen: list[str] = []

    class Plain(ActivityManager):
        def _execute_tools(self, tool_calls: Any, mode: Any = "sequential", parallel_safe: bool = True) -> Any:
            seen.append(mode)
            return super()._execute_tools(tool_calls[:1], mode, parallel_safe)

        def _execute_sequential(self, tool_calls: Any) -> Any:
            return [success("add", "mine")]

        async def _execute_selective(self, tool_calls: Any) -> Any:
            return [success(call.tool_name, "chosen") for call in tool_calls]

    for mode, result in (("sequential", "mine"), ("parallel", "mine"), ("selective", "chosen")):  # one call is left
        _, made = activity(Script(think(ADD, ADD), STOP), kind=Plain, execution_mode=mode)
        assert [one["result"] for one in made.conversation_history[0].results] == [result]
    assert seen == ["sequential", "parallel", "selective"]


@row("B0-17", "B0-24")
def test_the_sketchs_removed_api_is_not_there() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_iterations'"):
        ManualAgentLoop(Toolbox(), max_iterations=1)
    with pytest.raises(TypeError):
        agent().get_next_action("Q", [], [])  # type: ignore[call-arg,arg-type]
    assert not hasattr(agent(), "tool_selector")
    assert not hasattr(agent(), "continuation_decider")


@row("S0-63")
def test_the_parts_are_modules_and_their_predictors_are_found() -> None:
    def names(**options: Any) -> set[str]:
        return {name for name, _ in agent(None, **options).named_predictors()}

    base = {"agent_reasoner.reasoner.predict", "agent_reasoner.history_summarizer", "entry_summarizer.predict"}
    assert names(enable_error_recovery=False) == base
    assert names(response_style="concise", validate_output=True) == base | {
        "error_recovery.recovery_planner.predict",
        "response_formatter.formatter",
        "agent_reasoner.output_validator",
    }
    assert all(isinstance(part, dspy.Module) for part in (agent(), AgentReasoner([]), ErrorRecoveryModule(), ResponseFormatter()))


@row("S0-68", "X-9")
def test_a_run_is_carried_on_from_json() -> None:
    class Stops(ActivityManager):
        def _should_terminate(self, state: ConversationState, action: ActionDecision) -> bool:
            return True

    _, made = activity(Script(think(ADD)), kind=Stops)
    model, again = Script(think(final="carried on")), ConversationState.model_validate_json(made.model_dump_json())
    assert again == made
    result = ActivityManager(agent(model), Toolbox()).continue_activity(again)
    assert "add: 3" in model.requests[0].messages[-1].content
    assert (result["final_response"], result["iterations"], result["tools_used"]) == ("carried on", 2, ["add"])


@pytest.mark.parametrize(
    "value",
    [
        *({"x": [1, None, "é"]}, (1, 2), {1: 2}, {1, 2}, float("nan"), "\ud800", b"\xff", object()),
        pytest.param(10**5000, id="long"),
        json.loads("[" * 300 + "]" * 300),
    ],
)
@row("S0-68", "X-10", "G-5")
def test_any_result_leaves_a_state_that_goes_through_json(value: Any) -> None:
    def give() -> Any:
        return value

    model = Script(think(("give", {})), STOP)
    _, made = activity(model, give)
    assert ConversationState.model_validate_json(made.model_dump_json()) == made
    assert made.conversation_history[0].results[0]["status"] == "success"
    made_decision = agent(Script(think(ADD, confidence=0.1))).get_next_action(state())
    assert ActionDecision.model_validate_json(made_decision.model_dump_json()) == made_decision


@row("B0-1")
def test_the_types_stand_before_their_use_and_dropped_ones_are_gone() -> None:
    import whichloop.loops.stateless as package

    assert not any(hasattr(package, name) for name in ("ContinuationDecision", "ToolSelectionOutput"))
    assert not hasattr(ManualAgentLoop, "_create_final_response_action")


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
    outcome = helpers.run(PLAIN, model, observer=notes)
    made = outcome.details["state"]
    skipped = [{"tool_name": name, "status": "skipped", "reason": "run ended before execution"} for name in ("add", "fail")]
    assert made.conversation_history[-1].results == skipped
    assert (made.total_tool_calls, made.tools_used, outcome.answer) == (0, [], "done")
    assert [kind for kind, _ in notes.notes] == ["not_run", "not_run"]


@row("B0-32", "X-10")
def test_a_hung_call_times_out_by_itself_in_every_mode() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    async def three() -> int:
        return 3

    registry = MultiToolRegistry()
    registry.register(hang, three)
    modes: list[tuple[Any, Any]] = [(registry, "sequential"), (registry, "parallel"), (Toolbox([hang, three]), "selective")]
    for source, mode in modes:
        decider = ManualAgentLoop(source, False, None, model=Script(think(("hang", {}), ("three", {})), STOP))
        made = ActivityManager(decider, source, execution_mode=mode, tool_timeout_s=0.05)
        known = made.new_state("Q")
        made.continue_activity(known)
        late, fine = known.conversation_history[0].results
        assert (late["error"], late["error_type"], fine["result"]) == ("no result within 0.05 s", "TimeoutError", 3)


@row("B0-34")
def test_tokens_are_the_sum_of_the_decisions_calls() -> None:
    def counted(text: str, tokens: int) -> Reply:
        return Reply(text, usage=Usage(tokens, 1))

    model = Script(counted(recover("skip"), 10), counted(STOP, 20), counted(formatted("F"), 30))
    decider = agent(model, response_style="concise")
    assert decider.get_next_action(state(last_tool_results=[error("fail")])).tokens_used == 63
    model = Script(counted(STOP, 20), formatted("F"))
    assert agent(model, response_style="concise").get_next_action(state()).tokens_used is None
