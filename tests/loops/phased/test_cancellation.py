"""The ToolExecutor by itself: its cancellation token."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.loops.helpers import Notes, Script
from tests.loops.phased.helpers import ADD, LAYOUTS, CallbackLog, ended, hang, limited, pure, task
from tests.rows import row
from whichloop.loops.phased import AgentTools, ToolContextManager, ToolExecutor, ToolExecutorOptions
from whichloop.protocol import run_sync

each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def made(layout: str, tools: Any, kept: ToolContextManager | None = None, **options: Any) -> ToolExecutor:
    kind = ToolExecutor if layout == "executor" else AgentTools
    return kind(ToolExecutorOptions(tools, kept or ToolContextManager(), Script(then="s"), **options))


async def cut_off(work: Any) -> None:
    """It ends as cancelled, and nothing is left running."""
    with pytest.raises(asyncio.CancelledError):
        await limited(work)
    assert len(asyncio.all_tasks()) == 1


@each_layout
@row("S1-10", "X-15")
def test_checkpoint_before_all_calls(layout: str) -> None:
    async def main() -> None:
        token, seen = asyncio.Event(), CallbackLog()
        token.set()
        for calls in ([ADD], []):
            await cut_off(made(layout, pure()).execute_tools(task(*calls), "q", seen, token))
        assert seen.heard == []

    run_sync(main())


@each_layout
@row("S1-10", "X-15")
def test_checkpoint_before_each_tool_leaves_what_was_not_announced_pending(layout: str) -> None:
    async def main() -> None:
        token = asyncio.Event()

        async def begin() -> None:
            """Sets the token while it runs."""
            token.set()

        work, seen = task(("begin", {}), ADD), CallbackLog()
        await cut_off(made(layout, [*pure(begin), *pure()]).execute_tools(work, "q", seen, token))
        assert [str(status) for status, _, _ in ended(work)] == ["completed", "pending"]
        assert {update[0] for update in seen.updates} == {0}

    run_sync(main())


@each_layout
@row("S1-10", "B1-6", "X-15")
def test_checkpoint_after_the_tool_keeps_its_result(layout: str) -> None:
    async def main() -> None:
        token = asyncio.Event()

        async def last() -> str:
            """Sets the token and gives a result."""
            token.set()
            return "paid"

        kept, work, seen = ToolContextManager(), task(("last", {})), CallbackLog()
        await cut_off(made(layout, pure(last), kept).execute_tools(work, "q", seen, token))
        assert seen.updates == [(0, "in_progress", None, None), (0, "completed", "paid", None)]
        assert [found.result for found in kept.load(kept.pointers_for("q"))] == ["paid"]
        assert ended(work) == [("completed", "paid", None)]

    run_sync(main())


@pytest.mark.parametrize("by_token", [True, False])
@each_layout
@row("B1-2", "B1-5", "B1-12", "X-15")
def test_siblings_are_cancelled_awaited_and_told_once(by_token: bool, layout: str) -> None:
    hanging = 2 if layout == "executor" else 1

    async def main() -> None:
        token, begun, log = asyncio.Event(), asyncio.Event(), list[str]()

        async def wait() -> None:
            """Never ends by itself."""
            begun.set()
            try:
                await hang()
            finally:
                await asyncio.sleep(0)
                log.append("cleaned up")

        work, seen = task(("wait", {}), ("wait", {})), CallbackLog()
        running = asyncio.create_task(made(layout, pure(wait)).execute_tools(work, "q", seen, token))
        await begun.wait()
        token.set() if by_token else running.cancel()
        await cut_off(running)
        assert log == ["cleaned up"] * hanging
        assert sorted(seen.updates) == [
            (place, *rest) for place in range(hanging) for rest in (("failed", None, "cancelled"), ("in_progress", None, None))
        ]
        assert ended(work) == [("failed", None, "cancelled")] * hanging + [("pending", None, None)] * (2 - hanging)

    run_sync(main())


@pytest.mark.parametrize("in_time", [True, False])
@each_layout
@row("B1-12", "X-15")
def test_a_tool_in_a_thread_is_waited_for_and_then_abandoned(in_time: bool, layout: str) -> None:
    async def main() -> None:
        begun, let_go, token, notes = threading.Event(), threading.Event(), asyncio.Event(), Notes()

        def work_on() -> str:
            """Works in its thread."""
            begun.set()
            let_go.wait(30)
            return "done"

        runs = made(layout, [work_on], cancel_grace_s=20 if in_time else 0.01, observer=notes)
        work = task(("work_on", {}))
        running = asyncio.create_task(runs.execute_tools(work, "q", None, token))
        await asyncio.to_thread(begun.wait, 20)
        token.set()
        if in_time:
            let_go.set()
        await cut_off(running)
        let_go.set()
        assert ended(work) == [("completed", "done", None) if in_time else ("failed", None, "cancelled")]
        assert notes.notes == ([] if in_time else [("abandoned", {"tool": "work_on", "task": "t1"})])

    run_sync(main())
