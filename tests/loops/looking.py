"""A model that looks once, reads the result and answers, for tests of what a loop does with a result."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from whichloop.models.fake import FakeModel
from whichloop.protocol import Loop, Message, Outcome, Query, Tool, Toolbox, ToolCall, run_sync

LINE = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
VALUES = LINE | st.lists(LINE | st.integers(), max_size=4) | st.dictionaries(LINE, LINE | st.booleans(), max_size=3)


def looks_once() -> FakeModel:
    """A model that looks, reads the result and answers."""
    return FakeModel.script([ToolCall("look", {})], "seen")


def box(value: Any, max_chars: int) -> Toolbox:
    return Toolbox([Tool("look", "", {"type": "object"}, lambda: value, blocking=False)], max_chars=max_chars)


def look(loop: Loop, value: Any, max_chars: int) -> tuple[Outcome, list[tuple[Message, ...]]]:
    """The outcome of one look, and the messages of all requests."""
    model = looks_once()
    outcome = run_sync(loop.run(Query("What is there?"), box(value, max_chars), model))
    return outcome, [request.messages for request in model.requests]


def reads_by_default(loop: Loop) -> str:
    """What the model reads, all requests in one text, of 30,000 characters where nobody has set a limit."""
    tool = Tool("look", "", {"type": "object"}, lambda: "x" * 30_000, blocking=False)
    model = looks_once()
    run_sync(loop.run(Query("What is there?"), Toolbox([tool]), model))
    return "\n".join(message.content for request in model.requests for message in request.messages)


def check_tool_max_chars(make: Callable[..., Loop]) -> None:
    """Nothing is cut by default; the loop's limit cuts what the toolbox or the tool does not cut itself."""
    assert "x" * 30_000 in reads_by_default(make())
    for loops, boxes, tools, read in ((7, None, None, 7), (7, 9, None, 7), (9, 7, None, 7), (7, 7, 9, 9), (None, 7, None, 7)):
        tool = Tool("look", "", {"type": "object"}, lambda: "x" * 50, blocking=False, max_chars=tools)
        model = looks_once()
        run_sync(make(tool_max_chars=loops).run(Query("What is there?"), Toolbox([tool], max_chars=boxes), model))
        text = "\n".join(message.content for request in model.requests for message in request.messages)
        assert max(map(len, re.findall("x+", text.replace("context", "").replace("text", "")))) == read
    with pytest.raises(ValueError, match="tool_max_chars must be at least 1, or None, not 0"):
        make(tool_max_chars=0)


def check_tool_timeout_s(make: Callable[..., Loop], monkeypatch: pytest.MonkeyPatch) -> None:
    """No call has a limit by default; the loop's holds where neither the toolbox's is shorter nor the tool has its own."""
    limits = watched_limits(monkeypatch)
    for loops, boxes, tools, held in (
        (None, None, None, None),
        (70, None, None, 70),
        (70, 90, None, 70),
        (90, 70, None, 70),
        (None, 70, None, 70),
        (70, 70, 90, 90),
    ):
        limits.clear()
        tool = Tool("look", "", {"type": "object"}, _seen, time_limit_s=tools)
        run_sync(make(tool_timeout_s=loops).run(Query("What is there?"), Toolbox([tool], time_limit_s=boxes), looks_once()))
        assert {limit for limit in limits if limit is not None} == ({held} if held else set())
    with pytest.raises(ValueError, match="tool_timeout_s must be more than 0 s, or None, not 0"):
        make(tool_timeout_s=0)


def watched_limits(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """Keep the limits, in seconds, of all that is given one from now on."""
    limits: list[float | None] = []
    timeout = asyncio.timeout

    def watched(limit: float | None) -> asyncio.Timeout:
        limits.append(limit)
        return timeout(limit)

    monkeypatch.setattr(asyncio, "timeout", watched)
    return limits


async def _seen() -> str:
    return "seen"
