"""The ToolExecutor by itself: names, types, the choice and the running of tools."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import whichloop.loops.phased as package
from tests.loops.helpers import Script
from tests.loops.phased.executor_helpers import UpdateLog, add, asyncio_limit, execute, executor, fail, pure, task
from tests.rows import row
from whichloop.loops.phased import (
    Agent,
    Phase,
    PhaseTask,
    TaskStatus,
    TaskType,
    ToolCall,
    ToolCallStatus,
    ToolContextManager,
    ToolExecutor,
    ToolExecutorCallbacks,
    ToolExecutorOptions,
    Understanding,
    get_tools,
)
from whichloop.protocol import (
    Act,
    BudgetExceeded,
    NativeCall,
    Reply,
    Role,
    WireError,
    run_sync,
)
from whichloop.protocol import ToolCall as Call


@row("S1-1", "S1-29")
def test_phases_are_the_six_with_lower_case_values() -> None:
    assert [phase.value for phase in Phase] == ["understand", "plan", "execute", "reflect", "answer", "complete"]
    assert [phase.name for phase in Phase] == ["UNDERSTAND", "PLAN", "EXECUTE", "REFLECT", "ANSWER", "COMPLETE"]


@row("S1-2", "S1-29")
def test_task_statuses_say_their_values() -> None:
    assert [str(status) for status in TaskStatus] == ["pending", "in_progress", "completed", "failed"]


@row("S1-3")
def test_task_types() -> None:
    assert [kind.name for kind in TaskType] == ["USE_TOOLS", "REASON"]


@row("S1-4", "B1-1")
def test_fields_are_the_seeds_and_task_and_call_status_can_change() -> None:
    made = PhaseTask("1", "d")
    assert (made.status, made.taskType, made.toolCalls, made.dependsOn) == (TaskStatus.PENDING, TaskType.USE_TOOLS, None, [])
    made.status = TaskStatus.FAILED
    call = ToolCallStatus("add", {})
    assert (call.tool, call.args, call.status, call.output, call.error) == ("add", {}, TaskStatus.PENDING, None, None)
    call.error = "x"
    frozen: list[Any] = [ToolCall("add", {}), Understanding("i", ("e",))]
    for value, name in zip(frozen, ("tool", "intent"), strict=True):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, "y")


@row("S1-5", "B1-15")
def test_every_name_of_the_document_is_importable() -> None:
    names = "Phase Task TaskStatus TaskType ToolCall ToolCallStatus Understanding ToolExecutor ToolExecutorOptions"
    added = "ToolExecutorCallbacks ToolContextManager Agent Scratchpad AgentEvent get_tools"
    for name in f"{names} {added}".split():
        assert hasattr(package, name)
    assert callable(Agent.summarize_tool_result)
    assert [tool.name for tool in get_tools(model="gpt-4o")] == ["add", "multiply"]
    assert set(Phase) - {Phase.COMPLETE} <= set(package.PROMPTS)
    assert all(isinstance(text, str) and text for text in package.PROMPTS.values())


@row("S1-6", "S1-7", "S1-15")
def test_the_usage_example_of_the_document_runs() -> None:
    seen = UpdateLog()
    made = ToolExecutor(options=ToolExecutorOptions(tools=get_tools(model="gpt-4o"), context_manager=ToolContextManager()))
    work = PhaseTask("task-1", "Add.", toolCalls=[ToolCallStatus("add", {"a": 1, "b": 2})])
    assert run_sync(made.execute_tools(work, query_id="query-1", callbacks=seen)) is True
    assert seen.updates == [(0, "in_progress", None, None), (0, "completed", "3.0", None)]


@pytest.mark.parametrize("kind", [ToolExecutor, package.AgentTools])
@given(goods=st.lists(st.booleans(), max_size=4))
@row("S1-7")
def test_execute_tools_is_true_exactly_if_every_call_is_completed(kind: Any, goods: list[bool]) -> None:
    work = task(*[("add", {"a": 1, "b": 2}) if good else ("fail", {}) for good in goods])
    made = kind(ToolExecutorOptions(pure(add, fail), model=Script(then="s")))
    assert run_sync(made.execute_tools(work, "q", None)) is all(goods)


@row("S1-8", "S1-41")
def test_the_model_picks_tools_per_task() -> None:
    for kind in (ToolExecutor, package.AgentTools):
        model = Script(Act("", (Call("add", {"a": 1, "b": 2}),)))
        made = kind(ToolExecutorOptions(pure(add, fail), model=model))
        picked = run_sync(made.select_tools(PhaseTask("t1", "Add one and two."), Understanding("sum", ("one",))))
        assert picked == [ToolCallStatus("add", {"a": 1, "b": 2})]
        request = model.requests[0]
        assert (request.role, request.scope, [tool.name for tool in request.tools]) == (Role.SELECT, "t1", ["add", "fail"])
        assert "Add one and two." in request.messages[1].content
        assert "sum" in request.messages[1].content


@row("S1-8")
def test_selecting_needs_a_model_and_a_readable_reply() -> None:
    with pytest.raises(ValueError, match="needs a model"):
        run_sync(executor().select_tools(PhaseTask("1", "d"), None))
    broken = Script(lambda request: Reply("", (native("add", "{"),)))
    with pytest.raises(WireError, match="add"):
        run_sync(executor(model=broken).select_tools(PhaseTask("1", "d"), None))


def native(name: str, arguments: str) -> Any:
    return NativeCall("1", name, arguments)


@row("S1-9", "B1-13")
def test_tools_are_described_in_the_system_prompt_and_calls_extracted() -> None:
    model = Script(Act("", ()))
    made = executor(model=model)
    text = made._format_tool_descriptions()
    assert text.splitlines() == [made.format_tool(tool) for tool in made.toolbox]
    assert "add: Add two numbers." in text
    run_sync(made.select_tools(PhaseTask("1", "d"), None))
    assert text in model.requests[0].messages[0].content
    assert made._extract_tool_calls(Reply("", (native("add", '{"a": 1}'),))) == [ToolCall("add", {"a": 1})]


@row("S1-11")
def test_results_are_kept_by_the_context_manager() -> None:
    kept = ToolContextManager()
    work = task(("add", {"a": 1, "b": 2}), ("fail", {}))
    execute(executor(context_manager=kept), work, "q")
    (found,) = kept.load(kept.pointers_for("q"))
    assert (found.tool, found.args, found.result, found.task_id, found.query_id) == ("add", {"a": 1, "b": 2}, "3", "t1", "q")
    assert work.toolCalls is not None
    assert [call.pointer for call in work.toolCalls] == [found.pointer, None]


@pytest.mark.parametrize("kind", [ToolExecutor, package.AgentTools])
@row("S1-11")
def test_every_result_of_every_execution_is_kept(kind: Any) -> None:
    kept = ToolContextManager()
    made = kind(ToolExecutorOptions(pure(add), kept, Script(then="s")))
    work = task(*[("add", {"a": n, "b": 0}) for n in range(3)])
    for number in (1, 2):
        run_sync(made.execute_tools(work, "q", None))
        pointers = [call.pointer or "" for call in work.toolCalls or ()]
        assert [found.args["a"] for found in kept.load(pointers)] == [0, 1, 2]
        assert len(kept.pointers_for("q")) == 3 * number
        assert pointers == kept.pointers_for("q")[-3:]


@row("S1-12", "B1-4")
def test_updates_are_live_and_one_per_transition() -> None:
    seen = UpdateLog()
    live: list[int] = []

    async def look() -> str:
        """Looks."""
        live.append(len(seen.updates))
        await asyncio.sleep(0)
        return "x"

    execute(executor(look), task(("look", {})), "q", seen)
    assert live == [1]
    assert seen.updates == [(0, "in_progress", None, None), (0, "completed", "x", None)]


@row("S1-13", "S1-30")
def test_a_failing_call_stops_no_other_and_makes_it_false() -> None:
    work = task(("fail", {"text": "broken"}), ("add", {"a": 1, "b": 2}), ("nope", {}), ("add", {"a": 1}))
    assert execute(executor(), work, "q") is False
    assert work.toolCalls is not None
    assert [str(call.status) for call in work.toolCalls] == ["failed", "completed", "failed", "failed"]
    assert work.toolCalls[0].error == "ValueError: broken"
    assert work.toolCalls[1].output == "3"
    assert "UnknownTool" in (work.toolCalls[2].error or "")
    assert "InvalidArguments" in (work.toolCalls[3].error or "")


@row("S1-12", "S1-35")
def test_a_task_that_is_run_again_tells_nothing_of_the_first_time() -> None:
    work, seen = task(("add", {"a": 1})), UpdateLog()
    assert execute(executor(), work, "q") is False
    (call,) = work.toolCalls or []
    call.args = {"a": 1, "b": 2}
    assert execute(executor(), work, "q", seen) is True
    assert seen.updates == [(0, "in_progress", None, None), (0, "completed", "3", None)]


@row("S1-14")
def test_calls_of_a_task_run_at_the_same_time() -> None:
    async def main() -> bool:
        barrier = asyncio.Barrier(3)

        async def meet() -> str:
            """Waits for the others."""
            await barrier.wait()
            return "met"

        return await executor(meet).execute_tools(task(*[("meet", {})] * 3), "q")

    assert run_sync(asyncio_limit(main()))


@pytest.mark.parametrize("calls", [None, []])
@row("S1-30")
def test_no_calls_are_true_without_a_callback(calls: list[ToolCallStatus] | None) -> None:
    for made in (executor(), Agent(pure(add))):
        seen = UpdateLog()
        assert execute(made, PhaseTask("t", "d", toolCalls=calls), "q", seen) is True
        assert seen.updates == []


@row("S1-35")
def test_places_and_results_stay_in_call_order_whoever_ends_first() -> None:
    async def main() -> tuple[PhaseTask, UpdateLog]:
        gates = [asyncio.Event() for _ in range(3)]
        gates[2].set()

        async def wait(index: int) -> int:
            """Waits for its turn, the last first."""
            await gates[index].wait()
            if index:
                gates[index - 1].set()
            return index

        work, seen = task(*[("wait", {"index": index}) for index in range(3)]), UpdateLog()
        await executor(wait).execute_tools(work, "q", seen)
        return work, seen

    work, seen = run_sync(asyncio_limit(main()))
    assert [update[0] for update in seen.updates if update[1] == "completed"] == [2, 1, 0]
    assert [call.output for call in work.toolCalls or ()] == ["0", "1", "2"]
    assert all(isinstance(update[2], str) for update in seen.updates if update[1] == "completed")


@row("S1-36")
def test_callbacks_may_override_any_one_method() -> None:
    class OnlyPhases(package.AgentCallbacks):
        def __init__(self) -> None:
            self.seen: list[Phase] = []

        def on_phase_start(self, phase: Phase) -> None:
            self.seen.append(phase)

    told = OnlyPhases()
    assert execute(executor(), task(("add", {"a": 1, "b": 1})), "q", told)
    assert told.seen == []
    assert execute(executor(), task(("add", {"a": 1, "b": 1})), "q", ToolExecutorCallbacks())


@row("B1-3", "X-16")
def test_no_callbacks_and_raising_ones_fail_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Raising(ToolExecutorCallbacks):
        def on_tool_call_update(self, *args: Any, **kwargs: Any) -> None:
            raise RuntimeError("my own bug")

    for callbacks in (None, Raising()):
        with caplog.at_level(logging.WARNING):
            work = task(("add", {"a": 1, "b": 2}))
            assert execute(executor(), work, "q", callbacks) is True
            assert (work.toolCalls or [])[0].output == "3"
    assert "my own bug" in caplog.text


def test_callbacks_let_a_budget_through() -> None:
    class Spending(ToolExecutorCallbacks):
        def on_tool_call_update(self, *args: Any, **kwargs: Any) -> None:
            raise BudgetExceeded("spent")

    with pytest.raises(BudgetExceeded):
        execute(executor(), task(("add", {"a": 1, "b": 2})), "q", Spending())


@row("S1-33")
def test_two_users_of_one_executor_share_nothing() -> None:
    kept = ToolContextManager()

    async def slow_add(a: int, b: int) -> int:
        """Adds after a while."""
        await asyncio.sleep(0)
        return a + b

    made = executor(slow_add, context_manager=kept)
    heard = [UpdateLog(), UpdateLog()]

    async def main() -> None:
        await asyncio.gather(*(made.execute_tools(task(("slow_add", {"a": i, "b": 0})), f"q{i}", heard[i]) for i in range(2)))

    run_sync(main())
    for i in range(2):
        assert [update[2] for update in heard[i].updates] == [None, str(i)]
        assert [found.result for found in kept.load(kept.pointers_for(f"q{i}"))] == [str(i)]
