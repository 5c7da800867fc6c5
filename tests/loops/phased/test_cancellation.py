"""The ToolExecutor by itself: its cancellation token."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import whichloop.loops.phased as package
from tests.loops.helpers import Notes, Script
from tests.loops.phased.executor_helpers import UpdateLog, add, asyncio_limit, execute, executor, pure, task
from tests.rows import row
from whichloop.loops.phased import (
    Agent,
    PhaseTask,
    TaskStatus,
    ToolContextManager,
    ToolExecutor,
    ToolExecutorOptions,
)
from whichloop.protocol import (
    BudgetExceeded,
    Toolbox,
    run_sync,
)

OUTSIDE = "outside"


@row("S1-10", "X-15")
def test_checkpoint_before_all_calls() -> None:
    async def main() -> list[Any]:
        token = asyncio.Event()
        token.set()
        seen = UpdateLog()
        made: list[Any] = [executor(), Agent(pure(add))]
        for runs in made:
            for calls in ([("add", {"a": 1, "b": 2})], []):
                with pytest.raises(asyncio.CancelledError):
                    await runs.execute_tools(task(*calls), "q", seen, token)
        return seen.updates

    assert run_sync(main()) == []


@pytest.mark.parametrize("layout", ["executor", "agent"])
@row("S1-10", "X-15")
def test_checkpoint_before_each_tool_leaves_what_was_not_announced_pending(layout: str) -> None:
    async def main() -> tuple[PhaseTask, UpdateLog]:
        token = asyncio.Event()

        class Setting(UpdateLog):
            def on_tool_call_update(self, *args: Any, **kwargs: Any) -> None:
                super().on_tool_call_update(*args, **kwargs)
                token.set()

        work, seen = task(("add", {"a": 1, "b": 2}), ("add", {"a": 2, "b": 2})), Setting()
        made: Any = executor() if layout == "executor" else Agent(pure(add), Script(then="s"))
        with pytest.raises(asyncio.CancelledError):
            await made.execute_tools(work, "q", seen, token)
        return work, seen

    work, seen = run_sync(main())
    assert [str(call.status) for call in work.toolCalls or ()] == ["completed", "pending"]
    assert {update[0] for update in seen.updates} == {0}


@pytest.mark.parametrize("layout", ["executor", "agent"])
@row("S1-10", "B1-6", "X-15")
def test_checkpoint_after_the_tool_keeps_its_result(layout: str) -> None:
    async def main() -> tuple[PhaseTask, UpdateLog, ToolContextManager]:
        token = asyncio.Event()

        async def last() -> str:
            """Sets the token and gives a result."""
            token.set()
            return "paid"

        kept, work, seen = ToolContextManager(), task(("last", {})), UpdateLog()
        options = ToolExecutorOptions(pure(last), kept, Script(then="s"))
        made: Any = ToolExecutor(options) if layout == "executor" else package.AgentTools(options)
        with pytest.raises(asyncio.CancelledError):
            await made.execute_tools(work, "q", seen, token)
        return work, seen, kept

    work, seen, kept = run_sync(main())
    assert seen.updates == [(0, "in_progress", None, None), (0, "completed", "paid", None)]
    assert [found.result for found in kept.load(kept.pointers_for("q"))] == ["paid"]
    assert (work.toolCalls or [])[0].status is TaskStatus.COMPLETED


@pytest.mark.parametrize("how", ["token", OUTSIDE])
@pytest.mark.parametrize("layout", ["executor", "agent"])
@row("B1-2", "B1-5", "B1-12", "X-15")
def test_siblings_are_cancelled_awaited_and_told_once(how: str, layout: str) -> None:
    async def main() -> tuple[PhaseTask, UpdateLog, list[str], int]:
        token, begun, log = asyncio.Event(), asyncio.Event(), list[str]()

        async def hang() -> None:
            """Never ends by itself."""
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                log.append("cleaned up")

        work, seen = task(("hang", {}), ("hang", {})), UpdateLog()
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
@row("B1-12", "X-15")
def test_a_tool_in_a_thread_is_waited_for_and_then_abandoned(in_time: bool, layout: str) -> None:
    async def main() -> tuple[PhaseTask, Any]:
        begun, let_go, token, notes = threading.Event(), threading.Event(), asyncio.Event(), Notes()

        def work_on() -> str:
            """Works in its thread."""
            begun.set()
            let_go.wait(30)
            return "done"

        options = ToolExecutorOptions([work_on], cancel_grace_s=20 if in_time else 0.01, observer=notes, model=Script(then="s"))
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


@row("S1-30", "G-5")
def test_phased_an_interrupting_tool_leaves_and_stops_its_siblings() -> None:
    async def main() -> UpdateLog:
        async def interrupt() -> None:
            """Cancels the task that calls it."""
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

        async def hang() -> None:
            """Never ends by itself."""
            await asyncio.Event().wait()

        seen = UpdateLog()
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
        seen = UpdateLog()
        with pytest.raises(BudgetExceeded):
            execute(made, task(("add", {})), "q", seen)
        assert [update[1] for update in seen.updates] == ["in_progress", "failed"]
