"""The guard against repetition: warnings, the hard stop, and that nothing else changes."""

from __future__ import annotations

import asyncio
import gc
import math
from collections.abc import Iterator
from typing import Any

import pytest

from tests.loops.helpers import Moves, Notes, Script
from whichloop.loops.bare import Bare
from whichloop.loops.finish import Finish
from whichloop.loops.react_extract import ReactExtract
from whichloop.loops.repeat_guard import RepeatCountingToolbox, RepeatGuard
from whichloop.protocol import Act, Answer, Query, Request, StopReason, Tool, Toolbox, ToolCall, run_sync

SUM = Act("Add.", (ToolCall("add", {"a": 1, "b": 2}),))
OTHER = Act("Add.", (ToolCall("add", {"a": 3, "b": 4}),))
END = Answer("Done.", "3")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def tools() -> Toolbox:
    return Toolbox([Tool.from_function(add, blocking=False)])


def observations(request: Request) -> Iterator[str]:
    return (message.content for message in request.messages if '"data"' in message.content and message.role == "user")


def test_the_third_equal_call_is_pointed_out_and_other_calls_are_not() -> None:
    model = Moves(SUM, OTHER, SUM, SUM, SUM, END)
    outcome = run_sync(RepeatGuard(Bare()).run(Query("Q"), tools(), model))
    assert (outcome.answer, outcome.stop) == ("3", StopReason.FINISHED)
    warned = [("3 times" in text, "4 times" in text) for text in observations(model.requests[-1])]
    assert warned == [(False, False), (False, False), (False, False), (True, False), (False, True)]


def test_a_value_that_is_no_text_is_warned_about_too() -> None:
    model = Moves(SUM, SUM, END)
    outcome = run_sync(RepeatGuard(ReactExtract(), warn_at=2).run(Query("Q"), tools(), model))
    assert outcome.details["trajectory"]["observation_0"] == 3
    assert outcome.details["trajectory"]["observation_1"].startswith("Note: this call has now been made 2 times")
    assert outcome.details["trajectory"]["observation_1"].endswith("\n3")


def test_arguments_are_equal_in_whatever_order() -> None:
    async def main() -> list[bool]:
        guarded = RepeatCountingToolbox(tools(), 2, None)
        given: list[Any] = [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 1}, {"a": math.nan}, {"a": math.nan}]
        return ["Note:" in (await guarded.call(ToolCall("add", arguments))).data for arguments in given]

    assert run_sync(main()) == [False, True, False, False, True]


def test_an_error_keeps_its_beginning() -> None:
    async def main() -> str:
        guarded = RepeatCountingToolbox(tools(), 2, None)
        return [(await guarded.call(ToolCall("nope", {}))).data for _ in range(2)][1]

    text = run_sync(main())
    assert text.startswith("Tool 'nope' not found")
    assert text.endswith("do something else.")


def test_a_loop_that_fails_while_it_is_cancelled_leaves_no_unheard_exception(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Bare):
        async def run(self, *args: Any, **kwargs: Any) -> Any:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ValueError("while cleaning up") from None

    async def main() -> None:
        running = asyncio.create_task(RepeatGuard(Odd()).run(Query("Q"), tools(), Script()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    gc.freeze()  # what other tests have left: it takes long to look through
    run_sync(main())
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_the_hard_stop_ends_the_run_before_the_fifth_call() -> None:
    made: list[int] = []

    def count(a: int, b: int) -> int:
        """Count."""
        made.append(a)
        return a

    box = Toolbox([Tool.from_function(count, name="add", blocking=False)])
    model, notes = Moves(then=SUM), Notes()
    outcome = run_sync(RepeatGuard(Bare(), stop_at=5).run(Query("Q"), box, model, notes))
    assert (outcome.answer, outcome.stop, outcome.steps) == (None, StopReason.TERMINATED, 4)
    assert outcome.details["reason"] == "add was called 5 times with the same arguments"
    assert (len(made), len(model.requests)) == (4, 5)
    assert notes.notes[-1] == ("repeated", {"tool_name": "add", "times": 5})


def test_the_hard_stop_ends_calls_beside_it_at_once() -> None:
    ended: list[str] = []

    async def wait() -> str:
        """Wait."""
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("wait")
        return "waited"

    box = Toolbox([Tool.from_function(add, blocking=False), wait])
    model = Moves(Act("Both.", (*SUM.calls, ToolCall("wait", {}), *SUM.calls)))
    loop = RepeatGuard(Finish(max_steps=3, parallel_tools=True), warn_at=2, stop_at=2)

    async def run() -> Any:
        async with asyncio.timeout(10):
            return await loop.run(Query("Q"), box, model)

    outcome = run_sync(run())
    assert (outcome.answer, outcome.stop, len(model.requests), ended) == (None, StopReason.TERMINATED, 1, ["wait"])
