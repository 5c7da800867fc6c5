"""The stateless design: what else the document says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dspy
import pytest

from tests.loops.helpers import Script
from tests.loops.stateless.helpers import (
    ADD,
    EMPTY,
    FAIL,
    STOP,
    Decides,
    activity,
    agent,
    decision,
    error,
    formatted,
    manager,
    recover,
    shown,
    state,
    success,
    summary,
    system,
    think,
)
from tests.prepared import ran_in_fork
from tests.rows import row
from whichloop.dspy_seam import lm_of
from whichloop.loops.stateless import (
    ActionDecision,
    ActionType,
    ActivityManager,
    AgentReasoner,
    AgentReasonerSignature,
    ConversationManager,
    ConversationState,
    ErrorRecoveryModule,
    ErrorRecoverySignature,
    ManualAgentLoop,
    ReasoningOutput,
    ResponseFormatter,
    ToolCall,
)
from whichloop.protocol import (
    Tool,
    Toolbox,
)


@row("S0-59", "B0-29")
def test_a_run_without_text_gets_one_from_its_last_results() -> None:
    nothing = think(final="", final_response=None)
    result, _ = activity(Script(nothing))
    assert result["final_response"] == "No answer was produced."
    result, _ = activity(Script(think(ADD, FAIL), recover("skip"), nothing))
    assert result["final_response"] == "add: 3\nfail: ERROR - broken"
    model = Script(think(ADD), nothing, formatted("Three."))
    result, _ = activity(model, agent_options={"response_style": "concise"})
    assert result["final_response"] == "Three."
    assert shown(model.requests[2], "raw_response") == "add: 3"
    foreign = decision(ActionType.FINAL_RESPONSE)
    assert ActivityManager(Decides(foreign), Toolbox()).run_activity("Q")["final_response"] == "No answer was produced."


@row("S0-60")
def test_the_execution_methods_can_be_overridden_by_plain_functions_or_coroutines() -> None:
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
        _, made = activity(Script(think(ADD, ADD), STOP), kind=Plain, execution_mode=mode)
        assert [result["result"] for result in made.conversation_history[0].results] == ["mine"]
    assert seen == ["sequential", "one by one", "parallel", "one by one"]

    class Selects(ActivityManager):
        def _execute_selective(self, tool_calls: Any) -> Any:
            return [success(call.tool_name, "chosen") for call in tool_calls]

    _, made = activity(Script(think(ADD), STOP), kind=Selects, execution_mode="selective")
    assert made.conversation_history[0].results[0]["result"] == "chosen"


@row("S0-60")
def test_hooks_may_be_coroutines() -> None:
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
    result, made = activity(Script(calls, recover("skip"), STOP), kind=Async, execution_mode="selective")
    assert [item["status"] for item in made.conversation_history[0].results] == ["success", "success", "error"]
    assert logged == ["decision 1", "refused fail", "decision 2"]
    assert result["mine"]
    assert activity(Script(then=EMPTY), kind=Async)[0]["final_response"] == "final"
    assert activity(Script(EMPTY), kind=Async, max_iterations=1)[0]["final_response"] == "timeout"
    assert activity(Script(think(ADD)), kind=Async)[0]["final_response"] == "terminated"
    foreign = Async(Decides(decision(ActionType.FINAL_RESPONSE)), Toolbox())
    assert foreign.run_activity("Q")["final_response"] == "final"


@row("S0-61", "B0-17")
def test_a_decision_with_tool_and_stop_follows_the_option() -> None:
    both = think(ADD, should_continue=False, final_response="Here is your answer")
    for option, calls in (("run_first", 1), ("stop", 0)):
        result, _ = activity(Script(both), agent_options={"finish_with_tools": option})
        assert (result["final_response"], result["iterations"], result["total_tool_calls"]) == ("Here is your answer", 1, calls)
    result, _ = activity(Script(think(ADD), STOP))
    assert (result["iterations"], result["total_tool_calls"]) == (2, 1)


@row("B0-17")
def test_the_sketchs_removed_api_is_not_there() -> None:
    with pytest.raises(ValueError, match="unknown option 'max_iterations'"):
        ManualAgentLoop(Toolbox(), max_iterations=1)
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
    for part in (agent(), AgentReasoner([]), ErrorRecoveryModule(), ResponseFormatter()):
        assert isinstance(part, dspy.Module)
        assert callable(type(part).forward)
    plain = ManualAgentLoop(Toolbox())
    assert (plain.options.enable_error_recovery, plain.options.response_style) == (True, "concise")
    assert agent(None, response_style=None).response_formatter is None


@row("S0-63")
def test_the_reasoner_by_itself_answers_from_the_configured_model() -> None:
    model = Script(summary("S."), think(ADD), think(ADD))
    with dspy.context(lm=lm_of(model)):
        reasoner = AgentReasoner(["add"])
        made = reasoner(
            user_query="Q", conversation_history="h" * 3001, last_tool_results=None, available_tools="[]", iteration_count=1
        )
        reasoner("Q", "h", "r", "[]", 2, max_iterations=7)
    assert made.reasoning_output.tool_calls[0].tool_name == "add"
    assert [shown(request, "max_iterations") for request in model.requests[1:]] == ["5", "7"]
    assert shown(model.requests[1], "conversation_history").startswith("[Summarized earlier history]: S.")


@row("S0-64", "B0-20")
def test_docstrings_and_field_texts_reach_the_model() -> None:
    model = Script(recover("skip"), STOP)
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


@row("S0-66")
def test_results_pass_the_hook_before_they_are_stored() -> None:
    class Hides(ActivityManager):
        def _process_results(self, state: ConversationState, results: Any) -> Any:
            return [result | {"result": f"about {result['result']}"} for result in results]

    model = Script(think(ADD), STOP)
    _, made = activity(model, kind=Hides)
    assert shown(model.requests[1], "last_tool_results") == "add: about 3"
    assert made.conversation_history[0].results_summary == "add: about 3"
    given = [success("add", 1)]
    assert manager(None)._process_results(state(), given) is given


CARRY_ON = """\
from whichloop.loops.stateless import ActivityManager, ConversationState, ManualAgentLoop
from whichloop.models.fake import FakeModel
from whichloop.protocol import Answer, Toolbox

state = ConversationState.model_validate_json(DUMPED)
model = FakeModel(Answer("t", "carried on", 0.9))
agent = ManualAgentLoop(Toolbox(), response_style=None, model=model)
result = ActivityManager(agent, Toolbox()).continue_activity(state)
assert "add: 3" in model.requests[0].messages[-1].content
print(result["final_response"], result["iterations"], result["tools_used"], result["activity_id"], len(state.conversation_history))
"""


@row("S0-68", "X-9")
def test_a_run_is_carried_on_from_json_in_another_process(tmp_path: Path) -> None:
    class Stops(ActivityManager):
        def _should_terminate(self, state: ConversationState, action: ActionDecision) -> bool:
            return True

    _, made = activity(Script(think(ADD)), kind=Stops)
    text = made.model_dump_json()
    assert ConversationState.model_validate_json(text) == made
    done = ran_in_fork(CARRY_ON.replace("DUMPED", repr(text)), tmp_path)
    assert done.stdout == "carried on 2 ['add'] id 1\n", done.stderr


@row("S0-68")
def test_a_run_that_goes_through_json_after_each_decision_ends_as_one_that_does_not() -> None:
    class Once(ActivityManager):
        def _should_terminate(self, state: ConversationState, action: ActionDecision) -> bool:
            return True

    said = (think(ADD), EMPTY, think(FAIL), recover("retry"), recover("retry"), think(ADD, ADD), EMPTY)
    whole = manager(Script(*said, then=EMPTY), max_iterations=7).new_state("Q", "id")
    manager(Script(*said, then=EMPTY)).continue_activity(whole)
    model = Script(*said, then=EMPTY)
    state = manager(model, max_iterations=7).new_state("Q", "id")
    for _ in range(7):
        state = ConversationState.model_validate_json(state.model_dump_json())
        result = manager(model, kind=Once).continue_activity(state)
        if result["status"] != "terminated" or state.empty_decisions == 3:
            break
    assert (state.iteration_count, state.max_iterations) == (7, 7)
    assert _timeless(state) == _timeless(whole)


def _timeless(state: ConversationState) -> Any:
    """What a state says, but for times."""
    said = state.model_dump(exclude={"start_time"})
    for entry in said["conversation_history"]:
        entry.pop("timestamp")
        for result in entry["results"]:
            result.pop("execution_time", None)
    for result in said["last_tool_results"] or ():
        result.pop("execution_time", None)
    return said


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
@row("S0-68", "X-10", "G-5")
def test_any_result_leaves_a_state_that_goes_through_json(value: Any) -> None:
    def give() -> Any:
        """Gives it."""
        return value

    model = Script(think(("give", {})), STOP)
    _, made = activity(model, give)
    assert ConversationState.model_validate_json(made.model_dump_json()) == made
    assert made.conversation_history[0].results[0]["status"] == "success"
    made_decision = agent(Script(think(ADD, confidence=0.1))).get_next_action(state())
    assert ActionDecision.model_validate_json(made_decision.model_dump_json()) == made_decision


@row("S0-68")
def test_a_number_that_python_does_not_write_is_kept_as_text() -> None:
    def give() -> int:
        """Gives it."""
        return 10**5000

    _, made = activity(Script(think(("give", {})), STOP), give)
    assert type(made.conversation_history[0].results[0]["result"]) is str
    assert ConversationState.model_validate_json(made.model_dump_json()) == made


@row("S0-68")
def test_a_deep_result_is_kept_as_text_and_a_long_one_whole() -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    box = Toolbox([Tool("deep", "", {"type": "object"}, lambda: deep), Tool("big", "", {}, lambda: ["x" * 50])], max_chars=20)
    decider = ManualAgentLoop(box, response_style=None, model=Script(think(("deep", {}), ("big", {})), STOP))
    made = ActivityManager(decider, box).new_state("Q")
    ActivityManager(decider, box).continue_activity(made)
    first, second = made.conversation_history[0].results
    assert (type(first["result"]), second["result"], second["max_chars"]) == (str, ["x" * 50], 20)
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


@row("S0-69", "S0-67")
def test_the_helpers_exist_and_call_no_model() -> None:
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
