"""The stateless design: the activity manager, its history, and how tools are run."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.loops.helpers import Script, add
from tests.loops.stateless import helpers
from tests.loops.stateless.helpers import ADD, FAIL, STOP, Watch, activity, decision, entry, manager, recover, shown, state, think
from tests.rows import row
from whichloop.loops.stateless import ActivityManager, ConversationManager, Stateless
from whichloop.loops.stateless.state import ActionDecision, ActionType, ConversationState, ToolCall
from whichloop.protocol import Role, StopReason, Tool, Toolbox


@pytest.mark.parametrize(("mode", "safe", "most"), [("sequential", True, 1), ("parallel", True, 5), ("parallel", False, 1)])
@row("S0-43", "S0-52", "B0-9", "stateless.execution_mode")
def test_parallel_needs_mode_flag_and_several_calls_and_has_five_workers(mode: Any, safe: bool, most: int) -> None:
    watch = Watch(crowd=most)
    calls = [("work", {"n": n}) for n in range(8)]
    _, made = activity(Script(think(*calls, parallel_safe=safe), STOP), watch.work, execution_mode=mode)
    assert watch.most == most
    assert [result["result"] for result in made.conversation_history[0].results] == list(range(8)), "in call order"


@row("S0-44")
def test_an_activity_has_an_id_a_limit_and_a_start() -> None:
    made = manager(None, max_iterations=4)
    first, second = made.new_state("Q"), made.new_state("Q")
    assert len(first.activity_id or "") == 36
    assert first.activity_id != second.activity_id
    assert made.new_state("Q", "mine").activity_id == "mine"
    assert first.max_iterations == 4
    assert abs((first.start_time or 0) - time.time()) < 60


@row("S0-45", "S0-67")
def test_the_counter_rises_before_each_decision_and_each_is_logged() -> None:
    logged: list[tuple[Any, int, ActionType]] = []

    class Logging(ActivityManager):
        def _log_action(self, activity_id: str | None, iteration: int, action: ActionDecision) -> None:
            logged.append((activity_id, iteration, action.action_type))

    model = Script(think(ADD), helpers.EMPTY, STOP)
    activity(model, kind=Logging)
    kinds = [ActionType.TOOL_EXECUTION, ActionType.TOOL_EXECUTION, ActionType.FINAL_RESPONSE]
    assert logged == [("id", number, kind) for number, kind in enumerate(kinds, 1)]
    assert [shown(request, "iteration_count") for request in model.requests] == ["1", "2", "3"]


@row("S0-46")
def test_a_tool_step_updates_the_state() -> None:
    calls = think(("search", {"query": "x"}), ("image_search", {"query": "x"}), ADD)
    _, made = activity(Script(calls, STOP), execution_mode="selective")
    assert made.total_tool_calls == 2, "what was skipped has not been called"
    assert len(made.conversation_history) == 1
    made_entry = made.conversation_history[0]
    assert (made_entry.reasoning, made_entry.tool_calls) == ("Overall.", ["search", "image_search", "add"])
    assert made.last_tool_results == made_entry.results
    assert made.last_confidence == 0.9


@row("B0-27")
def test_each_of_three_calls_of_one_tool_stands_in_the_history() -> None:
    calls = [("add", {"a": number, "b": 1}) for number in range(3)]
    _, made = activity(Script(think(*calls), STOP))
    (kept,) = made.conversation_history
    assert kept.tool_calls == ["add"] * 3
    assert kept.tool_parameters == dict(zip(("add", "add#2", "add#3"), (arguments for _, arguments in calls), strict=True))
    assert [result["result"] for result in kept.results] == [1, 2, 3]


@row("S0-49", "S0-67")
def test_should_terminate_is_asked_after_every_iteration_that_is_not_the_last() -> None:
    asked: list[int] = []

    class Ends(ActivityManager):
        def _should_terminate(self, state: ConversationState, action: ActionDecision) -> bool:
            asked.append(state.iteration_count)
            return state.iteration_count == 2

    model = Script(think(ADD), think(ADD), STOP)
    result, _ = activity(model, kind=Ends)
    assert (result["status"], result["iterations"], asked) == ("terminated", 2, [1, 2])
    assert model.roles == [Role.DECIDE] * 2, "the text is free"
    assert result["final_response"]
    asked.clear()
    activity(Script(STOP), kind=Ends)
    assert asked == []
    assert manager(None)._should_terminate(state(), decision(ActionType.TOOL_EXECUTION)) is False
    loop = Stateless(response_style=None, manager=Ends)
    outcome = helpers.run(loop, Script(think(ADD), think(ADD)))
    assert outcome.stop is StopReason.TERMINATED
    assert StopReason.TERMINATED in loop.stops - helpers.PLAIN.stops


@row("S0-16", "S0-53", "B0-5", "X-10")
def test_selective_runs_by_priority_and_skips_instead_of_running() -> None:
    ran: list[str] = []

    def tool(name: str, text: str) -> Tool:
        def function(**given: Any) -> str:
            ran.append(name)
            return text

        return Tool(name, "", {"type": "object"}, function)

    names = ["other", "web_search", "analyze", "calculate", "search", "late_search"]
    tools = [tool(name, "found it") for name in names]
    _, made = activity(Script(think(*[(name, {}) for name in names]), STOP), *tools, execution_mode="selective")
    assert ran == ["search", "calculate", "analyze", "other"]
    results = made.conversation_history[0].results
    assert [result["tool_name"] for result in results] == names, "one result per call, in call order"
    assert [result["status"] == "skipped" for result in results] == [name.endswith("_search") for name in names]
    assert made.total_tool_calls == 4
    assert made.tools_used == ["other", "analyze", "calculate", "search"]

    ran.clear()
    both = [tool("search", "found it"), tool("web_search", "x")]
    _, made = activity(Script(think(("search", {}), ("web_search", {}), ("search", {})), STOP), *both, execution_mode="selective")
    assert ran == ["search", "search"]
    assert [r["status"] for r in made.conversation_history[0].results] == ["success", "skipped", "success"]


@pytest.mark.parametrize(
    ("text", "satisfied"),
    [
        ("found 3", True),
        ("Results FOUND: 10 found", True),
        ("not found", False),
        ("0 pages found", False),
        ("nothing", False),
        ("No matches of any kind could be found", False),
    ],
)
@row("B0-25")
def test_a_search_is_satisfied_only_by_something_found(text: str, satisfied: bool) -> None:
    assert manager(None)._search_satisfied(helpers.success("search", text)) is satisfied


class CustomActivityManager(ActivityManager):
    """The rules of the document's example: too little confidence, too many errors, a critical tool that fails."""

    def _should_terminate(self, state: ConversationState, action: ActionDecision) -> bool:
        failed = {result["tool_name"] for result in state.last_tool_results or () if result["status"] == "error"}
        return action.confidence < 0.3 or len(state.errors_encountered) > 3 or "payment_process" in failed


@row("S0-55", "B0-8")
def test_the_documents_termination_rules_run_as_written() -> None:
    def payment_process() -> None:
        raise ValueError("declined")

    pay = think(("payment_process", {}))
    for replies, status, errors in (
        ([think(ADD, confidence=0.2)], "terminated", []),
        ([think(*[FAIL] * 4)], "terminated", ["Tool fail: broken"] * 4),
        ([pay], "terminated", ["Tool payment_process: declined"]),
        ([think(ADD), STOP], "completed", []),
    ):
        result, made = activity(Script(*replies), payment_process, *helpers.TOOLS, kind=CustomActivityManager)
        assert (result["status"], made.errors_encountered) == (status, errors)


def compressed(text: str, findings: str = "F.", unresolved: str = "U.") -> str:
    return helpers.section(reasoning="R.", summary=text, key_findings=findings, unresolved_questions=unresolved)


@row("S0-56", "B0-21")
def test_eleven_entries_become_seven() -> None:
    model = Script(compressed("S.", "F.", "U."))
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


@row("B0-21")
def test_the_managers_history_is_the_states() -> None:
    model = Script(think(ADD), think(ADD), compressed("S."), think(ADD), STOP)
    _, made = activity(model, max_history_length=1)
    assert model.roles.count(Role.SUMMARIZE) >= 1
    assert made.conversation_history[0].iteration == -1
    assert "[Previous Summary]: SUMMARY: S." in shown(model.requests[3], "conversation_history")


@row("S0-51", "S0-48", "B0-35")
def test_a_result_has_the_documents_keys_and_an_id_runs_again() -> None:
    result, _ = activity(Script(think(ADD, FAIL), recover("skip"), think(ADD), STOP))
    counts = {"iterations": 3, "tools_used": ["add", "fail"], "total_tool_calls": 3}
    assert result == {"final_response": "3", "activity_id": "id", "status": "completed"} | counts
    made = manager(Script(STOP, think(final="4")))
    assert [made.run_activity("Q", "same")["final_response"] for _ in range(2)] == ["3", "4"]
    assert made.activity_cache == {}
    go_on = decision(ActionType.ERROR_RECOVERY, should_continue=True)
    stop = decision(ActionType.ERROR_RECOVERY, should_continue=False, final_response="sorry")
    final = decision(ActionType.FINAL_RESPONSE, final_response="done")
    for said, text, status in (((go_on, final), "done", "completed"), ((stop, final), "sorry", "error_recovery")):
        result = ActivityManager(helpers.Decides(*said), Toolbox()).run_activity("Q")
        assert (result["final_response"], result["status"]) == (text, status)


@row("B0-12", "X-13")
def test_the_budget_told_and_enforced_is_the_states_or_else_the_managers() -> None:
    model = Script(STOP, STOP)
    for limit in (None, 6):
        helpers.agent(model).get_next_action(state(max_iterations=limit))
    assert [shown(request, "max_iterations") for request in model.requests] == ["10", "6"]
    for own, limit in ((2, 2), (None, 9)):
        made = manager(Script(then=think(ADD)), max_iterations=9)
        assert made.continue_activity(state(iteration_count=0, max_iterations=own))["iterations"] == limit


class Careful(ActivityManager):
    """Refuses some calls, and lets an error of others escape."""

    def _validate_tool_call(self, tool_call: ToolCall) -> bool:
        return tool_call.parameters.get("a") != 13

    async def _execute_single_tool(self, tool_call: ToolCall) -> dict[str, Any]:
        if tool_call.parameters.get("a") == 7:
            raise RuntimeError("escaped")
        return await super()._execute_single_tool(tool_call)

    def _process_results(self, state: ConversationState, results: Any) -> Any:
        return [result | ({"result": f"about {result['result']}"} if "result" in result else {}) for result in results]


@pytest.mark.parametrize("mode", ["sequential", "parallel", "selective"])
@row("S0-16", "S0-52", "S0-54", "S0-55", "S0-66", "B0-16", "B0-26", "B0-27")
def test_errors_are_results_in_call_order_in_every_mode_and_pass_the_hook(mode: Any) -> None:
    watch = Watch()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("work", {"n": 1}),
        ("add", {"a": 13, "b": 1}),
        ("add", {"a": 7, "b": 1}),
        FAIL,
        ("work", {"bad": 1}),
        ("nope", {}),
    ]
    model = Script(think(*calls), *[recover("skip")] * 5, STOP)
    _, made = activity(model, watch.work, add, helpers.fail, kind=Careful, execution_mode=mode)
    entry = made.conversation_history[0]
    work, *failed = entry.results
    assert work["execution_time"] >= 0.02
    assert (work["result"], shown(model.requests[-1], "last_tool_results").splitlines()[0]) == ("about 1", "work: about 1")
    kinds = ["ValidationError", "ExecutionError", "ValueError", "TypeError", "ValueError"]  # arguments go to a function as they are
    assert [result["error_type"] for result in failed] == kinds
    assert [failed[place]["error"] for place in (1, 2, 4)] == ["escaped", "broken", "Tool 'nope' not found in registry"]
    assert failed[0]["parameters"] == entry.tool_parameters["add"] == {"a": 13, "b": 1}
    assert (entry.tool_parameters["add#2"], entry.tool_parameters["work#2"]) == ({"a": 7, "b": 1}, {"bad": 1})
    assert made.errors_encountered[-1] == "Tool nope: Tool 'nope' not found in registry"


@row("S0-56", "B0-21")
def test_an_unreadable_summary_keeps_all_entries() -> None:
    made = ConversationManager(max_history_length=1, model=Script(helpers.BAD))
    for number in (1, 2):
        made.add_entry(entry(number))
    assert [item.iteration for item in made.history] == [1, 2]
