"""Time limits of tools, and several calls at once: order, width, cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.helpers import named, python, raises
from whichloop.protocol import Toolbox, ToolCall, run_sync
from whichloop.protocol.cancellation import stop_tasks


@pytest.fixture
def forever() -> Iterator[threading.Event]:
    """An event that is never set while the test runs."""
    event = threading.Event()
    yield event
    event.set()


async def never() -> None:
    await asyncio.Event().wait()


def test_a_hanging_tool_is_given_up_at_the_limit(forever: threading.Event) -> None:
    for function in (forever.wait, never, lambda: never()):
        box = Toolbox([named("tool", function)], time_limit_s=0.02)
        seen = run_sync(box.call(ToolCall("tool", {})))
        assert (seen.status, seen.error_type, seen.data) == ("error", "TimeoutError", "no result within 0.02 s")
        assert seen.seconds >= 0.02


@pytest.mark.parametrize("limit", [None, 30.0])
def test_a_timeout_of_the_tools_own_is_told_apart_from_the_limit(limit: float | None) -> None:
    async def impatient() -> None:
        async with asyncio.timeout(0.001):
            await never()

    box = Toolbox([named("own", raises(TimeoutError("server said 504"))), named("inner", impatient)], time_limit_s=limit)
    own, inner = run_sync(box.call_all([ToolCall("own", {}), ToolCall("inner", {})]))
    assert (own.error_type, own.data) == ("TimeoutError", "server said 504")
    assert (inner.error_type, inner.data) == ("TimeoutError", "")


def test_a_hung_tool_holds_up_neither_other_tools_nor_the_end_of_the_process() -> None:
    done = python(
        """
        import threading
        from whichloop.protocol import Tool, Toolbox, ToolCall, run_sync

        hang = Tool("hang", "", {}, threading.Event().wait, time_limit_s=0.05)
        ok = Tool("ok", "", {}, lambda: "fine")
        box = Toolbox([hang, ok])
        calls = [ToolCall("hang", {})] * 12 + [ToolCall("ok", {})]
        print([seen.data for seen in run_sync(box.call_all(calls, parallel=True, max_in_flight=13))][-2:])
        """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("['no result within 0.05 s', 'fine']\n", "", 0)


@given(st.lists(st.integers(0, 4), max_size=8), st.integers(1, 5), st.booleans())
def test_results_come_in_call_order_however_long_each_takes(turns: list[int], width: int, parallel: bool) -> None:
    async def work(index: int, turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return index

    box = Toolbox([named("work", work), named("quick", lambda index, turns: index, blocking=False)])
    calls = [
        ToolCall(("work", "quick")[count % 2], {"index": index, "turns": count}, f"id{index}") for index, count in enumerate(turns)
    ]
    seen = run_sync(box.call_all(calls, parallel=parallel, max_in_flight=width))
    assert [item.value for item in seen] == list(range(len(turns)))
    assert [item.call_id for item in seen] == [f"id{index}" for index in range(len(turns))]


@given(st.integers(0, 7), st.integers(1, 9), st.booleans())
def test_no_more_calls_are_in_flight_than_allowed_and_no_fewer(count: int, width: int, parallel: bool) -> None:
    running: list[int] = []
    peaks: list[int] = [0]

    async def work() -> None:
        running.append(1)
        peaks.append(len(running))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.pop()

    run_sync(Toolbox([named("work", work)]).call_all([ToolCall("work", {})] * count, parallel=parallel, max_in_flight=width))
    assert max(peaks) == min(count, width if parallel else 1)


def test_parallel_calls_of_sync_tools_run_side_by_side() -> None:
    together = threading.Barrier(3)
    box = Toolbox([named("meet", lambda: together.wait(20) >= 0)])
    assert [seen.value for seen in run_sync(box.call_all([ToolCall("meet", {})] * 3, parallel=True))] == [True] * 3


@pytest.mark.parametrize("parallel", [True, False])
def test_one_failing_call_stops_none_of_the_others(parallel: bool) -> None:
    box = Toolbox([named("bad", raises(SystemExit(1))), named("good", lambda: "fine")])
    calls = [ToolCall(name, {}) for name in ("bad", "good", "unknown", "good")]
    assert [seen.ok for seen in run_sync(box.call_all(calls, parallel=parallel))] == [False, True, False, True]


class Siblings:
    """Async calls that note how they end."""

    def __init__(self) -> None:
        self.begun = 0
        self.cleaned = 0
        self.finished = 0

    async def work(self) -> None:
        self.begun += 1
        try:
            await asyncio.sleep(20)
            self.finished += 1
        finally:
            await asyncio.sleep(0.01)
            self.cleaned += 1


def test_cancelling_the_calls_cancels_each_and_waits_for_it() -> None:
    siblings = Siblings()
    box = Toolbox([named("work", siblings.work)])

    async def run() -> None:
        task = asyncio.create_task(box.call_all([ToolCall("work", {})] * 4, parallel=True, max_in_flight=3))
        while siblings.begun < 3:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (siblings.begun, siblings.cleaned, siblings.finished) == (3, 3, 0)

    run_sync(run())


def test_cancelling_gives_up_a_sync_tool_at_once(forever: threading.Event) -> None:
    box = Toolbox([named("hang", forever.wait)], time_limit_s=None)

    async def run() -> None:
        task = asyncio.create_task(box.call_all([ToolCall("hang", {})] * 2, parallel=True))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_sync(run())


async def some_turns(count: int) -> None:
    """Let the event loop go on so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def working(cleaned: list[str], name: str, steps: int) -> None:
    """Work until it is cancelled, then clean up in several steps."""
    try:
        await asyncio.Event().wait()
    finally:
        await some_turns(steps)
        cleaned.append(name)


@given(steps=st.lists(st.integers(0, 5), max_size=4), cancelled_before=st.integers(0, 4), started=st.integers(0, 2))
def test_stopped_tasks_end_after_their_whole_clean_up_also_those_that_somebody_has_cancelled(steps, cancelled_before, started):
    async def scene() -> list[str]:
        cleaned: list[str] = []
        tasks = [asyncio.create_task(working(cleaned, str(place), count)) for place, count in enumerate(steps)]
        await some_turns(1)
        for task in tasks[:cancelled_before]:
            task.cancel()
        await some_turns(started)
        await stop_tasks(tasks)
        assert all(task.cancelled() for task in tasks)
        return cleaned

    assert sorted(asyncio.run(scene())) == [str(place) for place in range(len(steps))]
