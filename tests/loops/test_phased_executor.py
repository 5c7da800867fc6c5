"""Design 1's parts by themselves: the ToolExecutor, where results are kept, and the agent's own way with tools."""
# ruff: noqa: N802  (row ids keep their capitals)

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import loopbench.loops.phased as package
from loopbench.loops.phased import (
    Agent,
    AIMessage,
    Phase,
    Phased,
    PhaseTask,
    RequestedCall,
    Scratchpad,
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
from loopbench.protocol import (
    Act,
    Answer,
    BudgetExceeded,
    Completion,
    NativeCall,
    Outcome,
    PlanTask,
    ProviderError,
    Reply,
    Role,
    Tasks,
    Text,
    Tool,
    Toolbox,
    WireError,
    render_value,
    run_sync,
)
from loopbench.protocol import ToolCall as Call

OUTSIDE = "outside"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail(text: str = "no") -> None:
    """Always fails."""
    raise ValueError(text)


class Heard(ToolExecutorCallbacks):
    """Keeps every update."""

    def __init__(self) -> None:
        self.updates: list[tuple[int, str, str | None, str | None]] = []

    def on_tool_call_update(
        self, task_id: str, tool_index: int, status: TaskStatus, output: str | None = None, error: str | None = None
    ) -> None:
        self.updates.append((tool_index, str(status), output, error))


def pure(*functions: Callable[..., Any]) -> list[Tool]:
    return [Tool.from_function(function, blocking=False) for function in functions]


def executor(*functions: Callable[..., Any], **options: Any) -> ToolExecutor:
    return ToolExecutor(ToolExecutorOptions(pure(*(functions or (add, fail))), **options))


def task(*calls: tuple[str, dict[str, Any]], name: str = "t1") -> PhaseTask:
    return PhaseTask(name, "Do it.", toolCalls=[ToolCallStatus(tool, args) for tool, args in calls])


def execute(made: Any, *args: Any, **kwargs: Any) -> bool:
    return bool(run_sync(made.execute_tools(*args, **kwargs)))


# --- names and types ---


def test_S1_1_S1_29_phases_are_the_six_with_lower_case_values() -> None:
    assert [phase.value for phase in Phase] == ["understand", "plan", "execute", "reflect", "answer", "complete"]
    assert [phase.name for phase in Phase] == ["UNDERSTAND", "PLAN", "EXECUTE", "REFLECT", "ANSWER", "COMPLETE"]


def test_S1_2_S1_29_task_statuses_say_their_values() -> None:
    assert [str(status) for status in TaskStatus] == ["pending", "in_progress", "completed", "failed"]


def test_S1_3_task_types() -> None:
    assert [kind.name for kind in TaskType] == ["USE_TOOLS", "REASON"]


def test_S1_4_B1_1_fields_are_the_seeds_and_task_and_call_status_can_change() -> None:
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


def test_S1_5_B1_15_every_name_of_the_document_is_importable() -> None:
    names = "Phase Task TaskStatus TaskType ToolCall ToolCallStatus Understanding ToolExecutor ToolExecutorOptions"
    added = "ToolExecutorCallbacks ToolContextManager Agent Scratchpad AgentEvent get_tools"
    for name in f"{names} {added}".split():
        assert hasattr(package, name)
    assert callable(Agent.summarize_tool_result)
    assert [tool.name for tool in get_tools(model="gpt-4o")] == ["add", "multiply"]
    assert set(Phase) - {Phase.COMPLETE} <= set(package.PROMPTS)
    assert all(isinstance(text, str) and text for text in package.PROMPTS.values())


# --- the executor ---


def test_S1_6_S1_7_S1_15_the_usage_example_of_the_document_runs() -> None:
    seen = Heard()
    made = ToolExecutor(options=ToolExecutorOptions(tools=get_tools(model="gpt-4o"), context_manager=ToolContextManager()))
    work = PhaseTask("task-1", "Add.", toolCalls=[ToolCallStatus("add", {"a": 1, "b": 2})])
    assert execute(made, work, query_id="query-1", callbacks=seen) is True
    assert seen.updates == [(0, "in_progress", None, None), (0, "completed", "3.0", None)]


def test_S1_8_S1_41_the_model_picks_tools_per_task(kit: Any) -> None:
    for kind in (ToolExecutor, package.AgentTools):
        model = kit.Script(Act("", (Call("add", {"a": 1, "b": 2}),)))
        made = kind(ToolExecutorOptions(pure(add, fail), model=model))
        picked = run_sync(made.select_tools(PhaseTask("t1", "Add one and two."), Understanding("sum", ("one",))))
        assert picked == [ToolCallStatus("add", {"a": 1, "b": 2})]
        request = model.requests[0]
        assert (request.role, request.scope, [tool.name for tool in request.tools]) == (Role.SELECT, "t1", ["add", "fail"])
        assert "Add one and two." in request.messages[1].content
        assert "sum" in request.messages[1].content


def test_S1_8_selecting_needs_a_model_and_a_readable_reply(kit: Any) -> None:
    with pytest.raises(ValueError, match="needs a model"):
        run_sync(executor().select_tools(PhaseTask("1", "d"), None))
    broken = kit.Script(lambda request: Reply("", (native("add", "{"),)))
    with pytest.raises(WireError, match="add"):
        run_sync(executor(model=broken).select_tools(PhaseTask("1", "d"), None))


def native(name: str, arguments: str) -> Any:
    return NativeCall("1", name, arguments)


def test_S1_9_B1_13_tools_are_described_in_the_system_prompt_and_calls_extracted(kit: Any) -> None:
    model = kit.Script(Act("", ()))
    made = executor(model=model)
    text = made._format_tool_descriptions()
    assert text.splitlines() == [made.format_tool(tool) for tool in made.toolbox]
    assert "add: Add two numbers." in text
    run_sync(made.select_tools(PhaseTask("1", "d"), None))
    assert text in model.requests[0].messages[0].content
    assert made._extract_tool_calls(Reply("", (native("add", '{"a": 1}'),))) == [ToolCall("add", {"a": 1})]


def test_S1_11_results_are_kept_by_the_context_manager() -> None:
    kept = ToolContextManager()
    work = task(("add", {"a": 1, "b": 2}), ("fail", {}))
    execute(executor(context_manager=kept), work, "q")
    (found,) = kept.load(kept.pointers_for("q"))
    assert (found.tool, found.args, found.result, found.task_id, found.query_id) == ("add", {"a": 1, "b": 2}, "3", "t1", "q")
    assert work.toolCalls is not None
    assert [call.pointer for call in work.toolCalls] == [found.pointer, None]


def test_S1_12_B1_4_updates_are_live_and_one_per_transition() -> None:
    seen = Heard()
    live: list[int] = []

    async def look() -> str:
        """Looks."""
        live.append(len(seen.updates))
        await asyncio.sleep(0)
        return "x"

    execute(executor(look), task(("look", {})), "q", seen)
    assert live == [1]
    assert seen.updates == [(0, "in_progress", None, None), (0, "completed", "x", None)]


def test_S1_13_S1_30_a_failing_call_stops_no_other_and_makes_it_false() -> None:
    work = task(("fail", {"text": "broken"}), ("add", {"a": 1, "b": 2}), ("nope", {}), ("add", {"a": 1}))
    assert execute(executor(), work, "q") is False
    assert work.toolCalls is not None
    assert [str(call.status) for call in work.toolCalls] == ["failed", "completed", "failed", "failed"]
    assert work.toolCalls[0].error == "ValueError: broken"
    assert work.toolCalls[1].output == "3"
    assert "UnknownTool" in (work.toolCalls[2].error or "")
    assert "InvalidArguments" in (work.toolCalls[3].error or "")


def test_S1_12_S1_35_a_task_that_is_run_again_tells_nothing_of_the_first_time() -> None:
    work, seen = task(("add", {"a": 1})), Heard()
    assert execute(executor(), work, "q") is False
    (call,) = work.toolCalls or []
    call.args = {"a": 1, "b": 2}
    assert execute(executor(), work, "q", seen) is True
    assert seen.updates == [(0, "in_progress", None, None), (0, "completed", "3", None)]


def test_S1_14_calls_of_a_task_run_at_the_same_time() -> None:
    async def main() -> bool:
        barrier = asyncio.Barrier(3)

        async def meet() -> str:
            """Waits for the others."""
            await barrier.wait()
            return "met"

        return await executor(meet).execute_tools(task(*[("meet", {})] * 3), "q")

    assert run_sync(asyncio_limit(main()))


async def asyncio_limit(work: Coroutine[Any, Any, Any]) -> Any:
    """A dead lock is a failure, not a hang."""
    async with asyncio.timeout(20):
        return await work


@pytest.mark.parametrize("calls", [None, []])
def test_S1_30_no_calls_are_true_without_a_callback(calls: list[ToolCallStatus] | None) -> None:
    for made in (executor(), Agent(pure(add))):
        seen = Heard()
        assert execute(made, PhaseTask("t", "d", toolCalls=calls), "q", seen) is True
        assert seen.updates == []


def test_S1_35_places_and_results_stay_in_call_order_whoever_ends_first() -> None:
    async def main() -> tuple[PhaseTask, Heard]:
        gates = [asyncio.Event() for _ in range(3)]
        gates[2].set()

        async def wait(index: int) -> int:
            """Waits for its turn, the last first."""
            await gates[index].wait()
            if index:
                gates[index - 1].set()
            return index

        work, seen = task(*[("wait", {"index": index}) for index in range(3)]), Heard()
        await executor(wait).execute_tools(work, "q", seen)
        return work, seen

    work, seen = run_sync(asyncio_limit(main()))
    assert [update[0] for update in seen.updates if update[1] == "completed"] == [2, 1, 0]
    assert [call.output for call in work.toolCalls or ()] == ["0", "1", "2"]
    assert all(isinstance(update[2], str) for update in seen.updates if update[1] == "completed")


def test_S1_36_callbacks_may_override_any_one_method(kit: Any) -> None:
    class OnlyPhases(package.AgentCallbacks):
        def __init__(self) -> None:
            self.seen: list[Phase] = []

        def on_phase_start(self, phase: Phase) -> None:
            self.seen.append(phase)

    told = OnlyPhases()
    assert execute(executor(), task(("add", {"a": 1, "b": 1})), "q", told)
    assert told.seen == []
    assert execute(executor(), task(("add", {"a": 1, "b": 1})), "q", ToolExecutorCallbacks())


def test_B1_3_X_16_no_callbacks_and_raising_ones_fail_nothing(caplog: pytest.LogCaptureFixture) -> None:
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


def test_S1_33_two_users_of_one_executor_share_nothing() -> None:
    kept = ToolContextManager()

    async def slow_add(a: int, b: int) -> int:
        """Adds after a while."""
        await asyncio.sleep(0)
        return a + b

    made = executor(slow_add, context_manager=kept)
    heard = [Heard(), Heard()]

    async def main() -> None:
        await asyncio.gather(*(made.execute_tools(task(("slow_add", {"a": i, "b": 0})), f"q{i}", heard[i]) for i in range(2)))

    run_sync(main())
    for i in range(2):
        assert [update[2] for update in heard[i].updates] == [None, str(i)]
        assert [found.result for found in kept.load(kept.pointers_for(f"q{i}"))] == [str(i)]


# --- cancellation ---


def test_S1_10_X_15_checkpoint_before_all_calls() -> None:
    async def main() -> list[Any]:
        token = asyncio.Event()
        token.set()
        seen = Heard()
        made: list[Any] = [executor(), Agent(pure(add))]
        for runs in made:
            for calls in ([("add", {"a": 1, "b": 2})], []):
                with pytest.raises(asyncio.CancelledError):
                    await runs.execute_tools(task(*calls), "q", seen, token)
        return seen.updates

    assert run_sync(main()) == []


@pytest.mark.parametrize("layout", ["executor", "agent"])
def test_S1_10_X_15_checkpoint_before_each_tool_leaves_what_was_not_announced_pending(layout: str, kit: Any) -> None:
    async def main() -> tuple[PhaseTask, Heard]:
        token = asyncio.Event()

        class Setting(Heard):
            def on_tool_call_update(self, *args: Any, **kwargs: Any) -> None:
                super().on_tool_call_update(*args, **kwargs)
                token.set()

        work, seen = task(("add", {"a": 1, "b": 2}), ("add", {"a": 2, "b": 2})), Setting()
        made: Any = executor() if layout == "executor" else Agent(pure(add), kit.Script(then="s"))
        with pytest.raises(asyncio.CancelledError):
            await made.execute_tools(work, "q", seen, token)
        return work, seen

    work, seen = run_sync(main())
    assert [str(call.status) for call in work.toolCalls or ()] == ["completed", "pending"]
    assert {update[0] for update in seen.updates} == {0}


def test_S1_10_B1_6_X_15_checkpoint_after_the_tool_keeps_its_result() -> None:
    async def main() -> tuple[PhaseTask, Heard, ToolContextManager]:
        token = asyncio.Event()

        async def last() -> str:
            """Sets the token and gives a result."""
            token.set()
            return "paid"

        kept, work, seen = ToolContextManager(), task(("last", {})), Heard()
        with pytest.raises(asyncio.CancelledError):
            await executor(last, context_manager=kept).execute_tools(work, "q", seen, token)
        return work, seen, kept

    work, seen, kept = run_sync(main())
    assert seen.updates == [(0, "in_progress", None, None), (0, "completed", "paid", None)]
    assert [found.result for found in kept.load(kept.pointers_for("q"))] == ["paid"]
    assert (work.toolCalls or [])[0].status is TaskStatus.COMPLETED


@pytest.mark.parametrize("how", ["token", OUTSIDE])
@pytest.mark.parametrize("layout", ["executor", "agent"])
def test_B1_2_B1_5_B1_12_X_15_siblings_are_cancelled_awaited_and_told_once(how: str, layout: str) -> None:
    async def main() -> tuple[PhaseTask, Heard, list[str], int]:
        token, begun, log = asyncio.Event(), asyncio.Event(), list[str]()

        async def hang() -> None:
            """Never ends by itself."""
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                log.append("cleaned up")

        work, seen = task(("hang", {}), ("hang", {})), Heard()
        made: Any = executor(hang) if layout == "executor" else Agent(pure(hang))
        running = asyncio.create_task(made.execute_tools(work, "q", seen, token))
        await begun.wait()
        token.set() if how == "token" else running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        told = len(seen.updates)
        await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) == 1
        return work, seen, log, told

    work, seen, log, told = run_sync(asyncio_limit(main()))
    hanging = 2 if layout == "executor" else 1
    assert log == ["cleaned up"] * hanging
    assert len(seen.updates) == told == 2 * hanging
    assert [update for update in seen.updates if update[1] == "failed"] == [
        (index, "failed", None, "cancelled") for index in range(hanging)
    ]
    assert [str(call.status) for call in work.toolCalls or ()] == ["failed"] * hanging + ["pending"] * (2 - hanging)


@pytest.mark.parametrize("in_time", [True, False])
@pytest.mark.parametrize("layout", ["executor", "agent"])
def test_B1_12_X_15_a_tool_in_a_thread_is_waited_for_and_then_abandoned(in_time: bool, layout: str, kit: Any) -> None:
    async def main() -> tuple[PhaseTask, Any]:
        begun, let_go, token, notes = threading.Event(), threading.Event(), asyncio.Event(), kit.Notes()

        def work_on() -> str:
            """Works in its thread."""
            begun.set()
            let_go.wait(30)
            return "done"

        options = ToolExecutorOptions([work_on], cancel_grace_s=20 if in_time else 0.01, observer=notes, model=kit.Script(then="s"))
        made = ToolExecutor(options) if layout == "executor" else package.AgentTools(options)
        work = task(("work_on", {}))
        running = asyncio.create_task(made.execute_tools(work, "q", None, token))
        await asyncio.to_thread(begun.wait, 20)
        token.set()
        if in_time:
            let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        let_go.set()
        return work, notes

    work, notes = run_sync(asyncio_limit(main()))
    (call,) = work.toolCalls or []
    assert (str(call.status), call.output, call.error) == (
        ("completed", "done", None) if in_time else ("failed", None, "cancelled")
    )
    assert notes.notes == ([] if in_time else [("abandoned", {"tool": "work_on", "task": "t1"})])


def test_S1_30_G_5_phased_an_interrupting_tool_leaves_and_stops_its_siblings() -> None:
    async def main() -> Heard:
        async def interrupt() -> None:
            """Cancels."""
            raise asyncio.CancelledError

        async def hang() -> None:
            """Never ends by itself."""
            await asyncio.Event().wait()

        seen = Heard()
        with pytest.raises(asyncio.CancelledError):
            await executor(interrupt, hang).execute_tools(task(("hang", {}), ("interrupt", {})), "q", seen)
        assert len(asyncio.all_tasks()) == 1
        return seen

    assert {update[3] for update in run_sync(asyncio_limit(main())).updates if update[1] == "failed"} == {"cancelled"}


def test_a_budget_used_up_inside_a_toolbox_leaves_and_ends_the_call() -> None:
    class Spent(Toolbox):
        async def call(self, call: Any, *, validate: bool = True) -> Any:
            raise BudgetExceeded("spent")

    for made in (ToolExecutor(ToolExecutorOptions(Spent(pure(add)))), Agent(Spent(pure(add)))):
        seen = Heard()
        with pytest.raises(BudgetExceeded):
            execute(made, task(("add", {})), "q", seen)
        assert [update[1] for update in seen.updates] == ["in_progress", "failed"]


# --- where results are kept ---

KEPT = st.lists(
    st.tuples(
        st.text(max_size=5),
        st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2),
        st.one_of(st.text(max_size=20), st.integers(), st.none(), st.lists(st.integers(), max_size=2)),
        st.sampled_from(["q1", "q2", "../q3"]),
    ),
    max_size=5,
)


@given(KEPT)
def test_S1_31_memory_and_directory_keep_the_same(tmp_path_factory: pytest.TempPathFactory, saved: list[Any]) -> None:
    directory = tmp_path_factory.mktemp("contexts")
    memory, disk = ToolContextManager(), ToolContextManager(directory)
    pointers = [[kept.save(tool, args, result, "t", query) for tool, args, result, query in saved] for kept in (memory, disk)]
    again = ToolContextManager(directory=str(directory))
    assert pointers[0] == pointers[1]
    assert len(set(pointers[0])) == len(saved)
    for kept in (memory, disk, again):
        found = kept.load(pointers[0])
        assert [item.result for item in found] == [render_value(result) for _, _, result, _ in saved]
        assert found == memory.load(pointers[0])
        for query in ("q1", "q2", "../q3"):
            mine = [pointer for pointer, item in zip(pointers[0], saved, strict=True) if item[3] == query]
            assert kept.pointers_for(query) == mine


def test_S1_31_many_who_share_a_directory_take_no_pointer_from_each_other(tmp_path: Path) -> None:
    barrier = threading.Barrier(4)

    def save(who: int) -> None:
        kept = ToolContextManager(tmp_path)
        barrier.wait(20)
        for number in range(25):
            kept.save("t", {}, f"{who}.{number}", "t", "q")

    users = [threading.Thread(target=save, args=(who,)) for who in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    kept = ToolContextManager(tmp_path)
    results = [found.result for found in kept.load(kept.pointers_for("q"))]
    for who in range(4):
        assert [text for text in results if text.startswith(f"{who}.")] == [f"{who}.{number}" for number in range(25)]


def test_S1_31_memory_writes_nothing_and_unknown_pointers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = ToolContextManager()
    kept.save("add", {"a": {1, 2}}, object, "t", "q")
    assert list(tmp_path.iterdir()) == []
    for manager in (kept, ToolContextManager(tmp_path)):
        for pointer in ("", "../etc", "0" * 16 + "/000009"):
            with pytest.raises(KeyError) as refused:
                manager.load([pointer])
            assert refused.value.args == (pointer,)


def test_S1_31_a_directory_that_cannot_be_written_loses_no_result(tmp_path: Path, kit: Any) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    notes, work = kit.Notes(), task(("add", {"a": 1, "b": 2}))
    assert execute(executor(context_manager=ToolContextManager(blocked / "x"), observer=notes), work, "q")
    assert (work.toolCalls or [])[0].output == "3"
    assert [kind for kind, _ in notes.notes] == ["not_kept"]


# --- tools of any form ---


class Args(BaseModel):
    x: int


@dataclasses.dataclass
class Sync:
    """As langchain makes a tool, without ainvoke."""

    name: str = "double"
    description: str = "Doubles x."
    args_schema: Any = Args
    thread: int = 0

    def invoke(self, args: dict[str, Any]) -> Any:
        self.thread = threading.get_ident()
        return 2 * args["x"]


class Async(Sync):
    async def ainvoke(self, args: dict[str, Any]) -> Any:
        return 3 * args["x"]


def test_S1_32_B1_14_foreign_tools_are_called_by_ainvoke_or_else_off_the_event_loop() -> None:
    foreign = [Sync(), Async("treble"), Async("plain", args_schema={"type": "object", "properties": {"x": {"type": "integer"}}})]
    made = ToolExecutor(ToolExecutorOptions([*foreign, add, *pure(fail)]))
    work = task(("double", {"x": 2}), ("treble", {"x": 2}), ("plain", {"x": 1}), ("add", {"a": 1, "b": 1}))
    assert execute(made, work, "q") is True
    assert [call.output for call in work.toolCalls or ()] == ["4", "6", "3", "2"]
    assert foreign[0].thread not in (0, threading.get_ident())
    assert foreign[1].thread == 0
    assert made.toolbox.specs[0].parameters["properties"]["x"]["type"] == "integer"
    assert made.toolbox.specs[2].parameters["properties"]["x"]["type"] == "integer"


def test_S1_32_what_is_no_tool_is_refused() -> None:
    with pytest.raises(TypeError, match="ainvoke or invoke"):
        ToolExecutor(ToolExecutorOptions([3]))
    with pytest.raises(ValueError, match="two tools"):
        ToolExecutor(ToolExecutorOptions([Sync(), Sync()]))


# --- the agent's own way ---


def events(agent: Agent, scratchpad: Scratchpad, *calls: Any) -> list[Any]:
    class Response:
        tool_calls = calls

    async def main() -> list[Any]:
        return [event async for event in agent.execute_tool_calls(Response(), "Q", scratchpad)]

    return list(run_sync(main()))


def test_S1_37_B1_7_events_name_tool_and_id_and_errors_reach_the_scratchpad(kit: Any) -> None:
    scratchpad = Scratchpad()
    agent = Agent(pure(add, fail), kit.Script(then="three"))
    calls = (
        {"name": "fail", "args": {"text": "broken"}, "id": "a"},
        RequestedCall("b", "nope", {}),
        {"name": "add", "args": {"a": 1, "b": 2}},
    )
    assert events(agent, scratchpad, *calls) == [
        {"type": "tool_start", "tool": "fail", "id": "a"},
        {"type": "tool_error", "error": "ValueError: broken", "tool": "fail", "id": "a"},
        {"type": "tool_start", "tool": "nope", "id": "b"},
        {"type": "tool_error", "error": "Tool 'nope' not found", "tool": "nope", "id": "b"},
        {"type": "tool_start", "tool": "add", "id": "call_2"},
        {"type": "tool_end", "tool": "add", "id": "call_2"},
    ]
    assert [entry.error for entry in scratchpad.entries] == ["ValueError: broken", "Tool 'nope' not found", None]
    assert "ValueError: broken" in scratchpad.text
    assert "three" in scratchpad.text


def test_S1_37_a_provider_error_is_no_tool_error(kit: Any) -> None:
    agent, scratchpad = Agent(pure(add), kit.Script(ProviderError("down"))), Scratchpad()
    with pytest.raises(ProviderError):
        events(agent, scratchpad, RequestedCall("1", "add", {"a": 1, "b": 2}))
    assert [entry.result for entry in scratchpad.entries] == ["3"]


def test_S1_39_an_agent_keeps_its_tools_and_a_map_by_name() -> None:
    given_tools = [Sync(), add]
    agent = Agent(given_tools)
    assert agent.tools == given_tools
    assert agent.tool_map == {"double": given_tools[0], "add": add}
    box = Toolbox(pure(add))
    assert Agent(box).tool_map == {"add": box.get("add")}


def test_S1_40_one_call_is_run_summarized_and_noted(kit: Any) -> None:
    model, scratchpad = kit.Script(Text("It is three.")), Scratchpad()
    agent = Agent([Async("treble")], model)
    run_sync(agent.execute_tool_call("treble", {"x": 1}, "What is it?", scratchpad))
    (entry,) = scratchpad.entries
    assert (entry.tool, entry.args, entry.result, entry.summary) == ("treble", {"x": 1}, "3", "It is three.")
    assert model.roles == [Role.SUMMARIZE]
    assert "What is it?" in model.requests[0].messages[1].content
    with pytest.raises(ValueError, match=r"^Tool 'nope' not found$"):
        run_sync(agent.execute_tool_call("nope", {}, "Q", scratchpad))
    with pytest.raises(ValueError, match="needs a model"):
        run_sync(Agent(pure(add)).execute_tool_call("add", {"a": 1, "b": 2}, "Q", scratchpad))


def test_S1_41_the_context_manager_is_an_object_of_its_own(kit: Any) -> None:
    kept = ToolContextManager()
    agent = Agent(pure(add), kit.Script(then="s"), Phased(context_manager=kept))
    assert agent.context_manager is kept
    work = task(("add", {"a": 1, "b": 2}))
    assert execute(agent, work, "q") is True
    assert [found.result for found in kept.load(kept.pointers_for("q"))] == ["3"]
    assert [(call.output, call.summary) for call in work.toolCalls or ()] == [("3", "s")]


def test_S1_40_a_summary_is_asked_for_in_view_of_those_before_it(kit: Any) -> None:
    model = kit.Script("It is three.", "It is seven.")
    execute(Agent(pure(add), model), task(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})), "q")
    first, second = (request.messages[1].content for request in model.requests)
    assert "It is three." not in first
    assert "It is three." in second


def test_S1_40_B1_6_a_result_whose_summary_is_cut_off_is_kept(kit: Any) -> None:
    async def main() -> PhaseTask:
        begun = asyncio.Event()

        class Slow(kit.Script):  # type: ignore[misc]
            async def complete(self, request: Any) -> Reply:
                begun.set()
                await asyncio.Event().wait()
                return Reply()

        work = task(("add", {"a": 1, "b": 2}))
        running = asyncio.create_task(Agent(pure(add), Slow()).execute_tools(work, "q"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return work

    (call,) = run_sync(asyncio_limit(main())).toolCalls
    assert (str(call.status), call.output, call.error) == ("completed", "3", None)


def test_a_subclass_may_summarize_in_its_own_way_and_a_bug_in_it_is_the_calls_error(kit: Any) -> None:
    class Own(Agent):
        async def summarize_tool_result(self, query: str, tool_name: str, tool_args: Any, result: Any) -> str:
            if result == "0":
                raise LookupError("no words")
            return f"{tool_name} gave {result}"

    scratchpad = Scratchpad()
    agent = Own(pure(add))
    message = AIMessage((RequestedCall("1", "add", {"a": 1, "b": 2}),))
    assert [event["type"] for event in events(agent, scratchpad, *message.tool_calls)] == ["tool_start", "tool_end"]
    assert scratchpad.entries[0].summary == "add gave 3"
    work, seen = task(("add", {"a": 0, "b": 0})), Heard()
    assert execute(agent, work, "q", seen) is False
    assert [update[1] for update in seen.updates] == ["in_progress", "failed"]
    assert (work.toolCalls or [])[0].error == "no words"


def test_B1_15_the_agent_runs_the_phases_with_its_own_methods(kit: Any) -> None:
    class Loud(Agent):
        async def summarize_tool_result(self, query: str, tool_name: str, tool_args: Any, result: Any) -> str:
            return f"LOUD {result}"

    model = kit.Script(
        package.Understanding("sum"),
        Tasks((PlanTask("1", "Add."),)),
        Act("", (Call("add", {"a": 1, "b": 2}),)),
        Completion(True),
        Text("3"),
        Answer("", "three"),
    )
    agent = Loud(pure(add), model)
    outcome = run_sync(agent.run("What is 1 + 2?"))
    assert isinstance(outcome, Outcome)
    assert (outcome.answer, outcome.steps) == ("three", 1)
    assert "LOUD 3" in model.requests[3].messages[1].content
    with pytest.raises(ValueError, match="needs a model"):
        run_sync(Agent(pure(add)).run("Q"))


def test_arguments_that_json_cannot_say_are_kept_as_text() -> None:
    kept = ToolContextManager()
    loop: list[Any] = []
    loop.append(loop)
    pointer = kept.save("t", {"x": loop}, 1, "t", "q")
    assert json.dumps(kept.load([pointer])[0].args)
