"""Tasks that are stopped: all end, and none is interrupted while it cleans up."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.protocol import StopRun, Toolbox, ToolCall
from whichloop.protocol.cancellation import ended_before, stop_tasks


async def turns(count: int) -> None:
    """Let the event loop go on so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def working(cleaned: list[str], name: str, steps: int) -> None:
    """Work until it is cancelled, then clean up in several steps."""
    try:
        await asyncio.Event().wait()
    finally:
        await turns(steps)
        cleaned.append(name)


@given(steps=st.lists(st.integers(0, 5), max_size=4), cancelled_before=st.integers(0, 4), started=st.integers(0, 2))
def test_stopped_tasks_end_after_their_whole_clean_up_also_those_that_somebody_has_cancelled(
    steps: list[int], cancelled_before: int, started: int
) -> None:
    async def scene() -> list[str]:
        cleaned: list[str] = []
        tasks = [asyncio.create_task(working(cleaned, str(place), count)) for place, count in enumerate(steps)]
        await turns(1)
        for task in tasks[:cancelled_before]:
            task.cancel()
        await turns(started)
        await stop_tasks(tasks)
        assert all(task.cancelled() for task in tasks)
        return cleaned

    assert sorted(asyncio.run(scene())) == [str(place) for place in range(len(steps))]


def test_what_stopped_tasks_raise_is_not_raised() -> None:
    async def failing() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError

    async def scene() -> None:
        task = asyncio.create_task(failing())
        await turns(1)
        await stop_tasks([task])
        assert isinstance(task.exception(), LookupError)

    asyncio.run(scene())


def test_work_within_a_loop_cleans_up_where_all_tasks_are_cancelled_at_once_as_at_the_end_of_a_program() -> None:
    async def scene() -> list[str]:
        cleaned: list[str] = []
        outer = asyncio.create_task(ended_before(asyncio.Event(), working(cleaned, "inner", 4)))
        await turns(3)
        here = asyncio.current_task()
        for task in asyncio.all_tasks():
            if task is not here:
                task.cancel()
        await asyncio.gather(outer, return_exceptions=True)
        return cleaned

    assert asyncio.run(scene()) == ["inner"]


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["running", "being cancelled"])
def test_a_call_beside_one_that_fails_cleans_up_also_if_it_is_being_cancelled(is_cancelled: bool) -> None:
    """The failing call ends `call_all`, which stops its sibling: not a second time, if that is cleaning up already."""
    cleaned: list[str] = []
    siblings: list[asyncio.Task[None]] = []

    async def slow() -> None:
        """Wait."""
        task = asyncio.current_task()
        assert task is not None
        siblings.append(task)
        await working(cleaned, "slow", 4)

    async def failing() -> None:
        """End the run."""
        await turns(3)
        if is_cancelled:
            siblings[0].cancel()
            await turns(2)
        raise StopRun

    box = Toolbox([slow, failing])
    with pytest.raises(StopRun):
        asyncio.run(box.call_all([ToolCall("slow", {}), ToolCall("failing", {})], parallel=True))
    assert cleaned == ["slow"]
