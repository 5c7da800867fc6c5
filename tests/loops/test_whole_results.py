"""A limit on results is one on what a model reads: hooks, callbacks, states and stores have all of a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.looking import VALUES, box, look, looks_once
from tests.rows import row
from whichloop.loops import repeat_guard
from whichloop.loops.finish import Finish, Step
from whichloop.loops.phased import AgentCallbacks, AgentTools, Phased, Scratchpad, TaskStatus, ToolContextManager
from whichloop.loops.phased.executor import ToolExecutorOptions
from whichloop.loops.react_extract import ReactExtract
from whichloop.loops.stateless import ActivityManager, ConversationState, Stateless
from whichloop.protocol import ToolCall, render_value, run_sync
from whichloop.protocol.names import parse_spec
from whichloop.protocol.values import cap
from whichloop.runs.registry import make_loop

SPECS = [
    "bare",
    "bare(decision_format=native)",
    "finish",
    "phased",
    "phased(tool_layout=agent)",
    "react_extract",
    "stateless",
    "stateless(response_style=detailed)",
    "stateless(history_as=messages)",
    "repeat_guard(loop=stateless)",
]


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=cases(12))
@given(VALUES, st.integers(0, 40))
def test_a_model_reads_a_long_result_as_if_the_tool_had_cut_it(spec: str, value: Any, most: int) -> None:
    loop = make_loop(parse_spec(spec))
    whole = render_value(value)
    shown = value if len(whole) <= most else cap(whole, most)
    assert look(loop, value, most)[1] == look(loop, shown, 10**6)[1]


@given(VALUES, st.integers(0, 40))
@row("S0-66")
def test_the_results_hook_and_the_state_have_all_of_a_result(value: Any, most: int) -> None:
    heard: list[Any] = []

    class Listens(ActivityManager):
        def _process_results(self, state: ConversationState, results: Any) -> Any:
            heard.extend(result["result"] for result in results)
            return results

    outcome, _ = look(Stateless(response_style=None, manager=Listens), value, most)
    state = ConversationState.model_validate_json(outcome.details["state"].model_dump_json())
    assert heard == [value]
    assert state.conversation_history[0].results[0]["result"] == value


@given(VALUES, st.integers(0, 40))
@row("S0-66")
def test_what_the_results_hook_has_shortened_is_shown_as_it_is(value: Any, most: int) -> None:
    class Shortens(ActivityManager):
        def _process_results(self, state: ConversationState, results: Any) -> Any:
            return [result | {"result": {"n": 1}} for result in results]

    loop = Stateless(response_style=None, manager=Shortens)
    assert look(loop, value, max(most, 8))[1] == look(loop, {"n": 1}, 8)[1]


class Updates(AgentCallbacks):
    """Keeps the outputs of calls."""

    def __init__(self) -> None:
        self.outputs: list[str] = []

    def on_tool_call_update(
        self, task_id: str, tool_index: int, status: TaskStatus, output: str | None = None, error: str | None = None
    ) -> None:
        self.outputs += [output] if output is not None else []


@pytest.mark.parametrize("layout", ["executor", "agent"])
@given(VALUES, st.integers(0, 40))
@row("S1-11", "S1-31")
def test_the_context_manager_and_the_callbacks_have_all_of_a_result(layout: Any, value: Any, most: int) -> None:
    kept, updates = _KeptPointers(), Updates()
    outcome, _ = look(Phased(tool_layout=layout, context_manager=kept, callbacks=updates), value, most)
    assert [found.result for found in kept.load(kept.pointers)] == [render_value(value)]
    assert updates.outputs == [render_value(value)]
    assert outcome.details["tasks"][0]["toolCalls"][0]["output"] == render_value(value)


class _KeptPointers(ToolContextManager):
    """Knows the pointers of all that it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.pointers: list[str] = []

    def save(self, tool_name: str, args: Mapping[str, Any], result: Any, task_id: str, query_id: str) -> str:
        self.pointers.append(super().save(tool_name, args, result, task_id, query_id))
        return self.pointers[-1]


@row("S1-40")
def test_the_summary_gets_all_of_a_result_and_the_model_reads_its_beginning() -> None:
    heard: list[Any] = []

    class Listens(AgentTools):
        async def summarize_tool_result(self, query: str, tool_name: str, tool_args: Mapping[str, Any], result: Any) -> str:
            heard.append(result)
            return await super().summarize_tool_result(query, tool_name, tool_args, result)

    model, scratchpad = looks_once(), Scratchpad()
    agent = Listens(ToolExecutorOptions(box("x" * 500, 20), model=model))
    run_sync(agent.execute_tool_call("look", {}, "Q", scratchpad))
    assert heard == ["x" * 500]
    assert scratchpad.entries[0].output == "x" * 500
    assert "x" * 20 in model.requests[0].messages[-1].content
    assert "x" * 21 not in model.requests[0].messages[-1].content
    scratchpad.add_tool_result("look", {}, "x" * 500, "", max_chars=20)
    assert scratchpad.text.splitlines()[-1] == "look({}): " + cap("x" * 500, 20)


@row("S3-40")
def test_on_step_and_the_trajectory_have_the_tools_own_object() -> None:
    own = ["x" * 500]
    steps: list[Any] = []

    def on_step(step: Step) -> None:
        steps.extend(result.output for result in step.tool_results)

    look(Finish(max_steps=4, on_step=on_step), own, 20)
    outcome, _ = look(ReactExtract(), own, 20)
    assert steps[0] is own
    assert outcome.details["trajectory"]["observation_0"] is own


def test_a_warning_stands_before_all_of_a_result() -> None:
    async def twice() -> Any:
        guarded = repeat_guard.RepeatCountingToolbox(box(["x" * 500], 20), 2, None)
        await guarded.call(ToolCall("look", {}))
        return await guarded.call(ToolCall("look", {}))

    seen = run_sync(twice())
    assert seen.value.endswith('\n["' + "x" * 500 + '"]')
    assert seen.data.endswith("\n" + cap('["' + "x" * 500 + '"]', 20))
