"""Tools in any form."""

from __future__ import annotations

import threading

import pytest

from tests.loops.phased.executor_helpers import Async, Sync, add, execute, fail, pure, task
from tests.rows import row
from whichloop.loops.phased import (
    ToolExecutor,
    ToolExecutorOptions,
)


@row("S1-32", "B1-14")
def test_foreign_tools_are_called_by_ainvoke_or_else_off_the_event_loop() -> None:
    foreign = [Sync(), Async("treble"), Async("plain", args_schema={"type": "object", "properties": {"x": {"type": "integer"}}})]
    made = ToolExecutor(ToolExecutorOptions([*foreign, add, *pure(fail)]))
    work = task(("double", {"x": 2}), ("treble", {"x": 2}), ("plain", {"x": 1}), ("add", {"a": 1, "b": 1}))
    assert execute(made, work, "q") is True
    assert [call.output for call in work.toolCalls or ()] == ["4", "6", "3", "2"]
    assert foreign[0].thread not in (0, threading.get_ident())
    assert foreign[1].thread == 0
    assert made.toolbox.specs[0].parameters["properties"]["x"]["type"] == "integer"
    assert made.toolbox.specs[2].parameters["properties"]["x"]["type"] == "integer"


@row("S1-32")
def test_what_is_no_tool_is_refused() -> None:
    with pytest.raises(TypeError, match="ainvoke or invoke"):
        ToolExecutor(ToolExecutorOptions([3]))
    with pytest.raises(ValueError, match="two tools"):
        ToolExecutor(ToolExecutorOptions([Sync(), Sync()]))
