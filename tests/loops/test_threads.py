"""Where a tool runs and how long: threads and limits stand where a user would look for them, and are none unless set."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.loops.helpers import Script, answer, call, texts
from tests.loops.looking import looks_once, watched_limits
from tests.rows import row
from whichloop.loops import Finish, ReactExtract, RepeatGuard, ToolRegistry, module, run_agent
from whichloop.loops.bare import Bare, History
from whichloop.loops.phased import Agent, Phased, PhaseTask, ToolCallStatus, ToolExecutor, ToolExecutorOptions
from whichloop.loops.stateless import ActivityManager, ManualAgentLoop, MultiToolRegistry, Stateless
from whichloop.protocol import Loop, Query, Tool, Toolbox, ToolCall, run_sync
from whichloop.protocol.threads import run_here
from whichloop.protocol.tools import DEFAULT_MAX_CHARS, DEFAULT_TIME_LIMIT_S, bounded_toolbox

LOOPS: dict[str, Callable[..., Loop]] = {
    "bare": Bare,
    "finish": lambda **settings: Finish(max_steps=4, **settings),
    "react_extract": ReactExtract,
    "stateless": lambda **settings: Stateless(response_style=None, **settings),
    "guarded": lambda **settings: RepeatGuard(Bare(**settings)),
}
AT_ONCE: dict[str, Callable[..., Loop]] = {
    "phased": Phased,
    "finish": lambda **settings: Finish(max_steps=4, parallel_tools=True, **settings),
    "stateless": lambda **settings: Stateless(response_style=None, execution_mode="parallel", **settings),
}


class Place:
    """A tool that tells the thread that it runs on."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def look(self) -> str:
        """Look."""
        self.threads.append(threading.get_ident())
        return "seen"

    @property
    def is_callers(self) -> bool:
        (thread,) = self.threads
        return thread == threading.get_ident()


def ran_here(loop: Any, **box: Any) -> bool:
    """Whether the tool of one run on this thread's synchronous face ran on this thread."""
    place = Place()
    loop.run_sync(Query("Q"), Toolbox([place.look], **box), looks_once())
    return place.is_callers


def awaited_here(loop: Loop, **box: Any) -> bool:
    place = Place()
    asyncio.run(loop.run(Query("Q"), Toolbox([place.look], **box), looks_once()))
    return place.is_callers


@pytest.mark.parametrize("name", LOOPS)
@row("bare.tool_threads", "finish.tool_threads", "react_extract.tool_threads", "stateless.tool_threads")
def test_a_synchronous_run_calls_tools_on_its_own_thread_unless_threads_are_switched_on(name: str) -> None:
    make = LOOPS[name]
    assert ran_here(make())
    assert not ran_here(make(tool_threads=True))
    assert not ran_here(make(), threads=True)
    assert ran_here(make(tool_threads=True), threads=False), "the toolbox's own setting wins"
    assert not ran_here(make(tool_timeout_s=20)), "no limit can stop the caller's own thread"
    assert not awaited_here(make()), "an event loop is not to be blocked"
    assert awaited_here(make(tool_threads=False))
    with pytest.raises(ValueError, match="tool_threads must not be False with a tool_timeout_s"):
        make(tool_threads=False, tool_timeout_s=20)


@pytest.mark.parametrize("name", AT_ONCE)
@row("phased.tool_threads")
def test_a_design_that_runs_calls_together_uses_threads_unless_they_are_switched_off(name: str) -> None:
    make = AT_ONCE[name]
    assert not ran_here(make())
    assert ran_here(make(tool_threads=False))


def opened() -> tuple[sqlite3.Connection, Callable[[], str]]:
    base = sqlite3.connect(":memory:")
    base.execute("create table tea (price)")
    base.execute("insert into tea values (4)")

    def look() -> str:
        """Look."""
        return f"price {base.execute('select price from tea').fetchone()[0]}"

    return base, look


def check_sqlite() -> None:
    """A tool over an open connection works in every synchronous face."""
    base, look = opened()
    registry, many = ToolRegistry(), MultiToolRegistry()
    registry.register()(look)
    many.register(look)
    try:
        result = run_agent("Q", llm_func=looks_and_answers, registry=registry)
        assert "price 4" in result["history"][2]["content"]
        model = looks_once()
        ActivityManager(ManualAgentLoop(many, response_style=None, model=model), many).run_activity("Q")
        assert "price 4" in texts(model)
        for loop in (Bare(), Finish(max_steps=4), ReactExtract(), Stateless(response_style=None), Phased(tool_threads=False)):
            model = looks_once()
            loop.run_sync(Query("Q"), Toolbox([look]), model)
            assert "price 4" in texts(model)
    finally:
        base.close()


def looks_and_answers(history: History, step: int) -> str:
    return answer("done") if step else call("look")


def test_it_works_where_an_event_loop_runs_already_as_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))

    async def cell() -> str:
        mine = asyncio.current_task()
        check_sqlite()
        assert asyncio.current_task() is mine
        await asyncio.sleep(0)
        return "still running"

    assert asyncio.run(cell()) == "still running"


def test_a_coroutine_of_a_service_is_told_to_await_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))

    async def handler() -> None:
        with pytest.raises(RuntimeError, match=r"^run_sync inside a coroutine .*: write `await loop\.run\(…\)`$"):
            Bare().run_sync(Query("How much?"), Toolbox(), Script())

    asyncio.run(handler())


def test_calls_that_run_at_the_same_time_have_threads_of_their_own() -> None:
    together = threading.Barrier(2)
    box = Toolbox([Tool("meet", "", {}, lambda: together.wait(20) >= 0)])
    seen = run_here(box.call_all([ToolCall("meet", {})] * 2, parallel=True))
    assert [one.data for one in seen] == ["true", "true"]


LONG = "x" * 30_000
CUT = "x" * 7 + "... (truncated, 30000 characters in all)"


async def look() -> str:
    """Look."""
    return LONG


def test_every_face_of_a_design_has_the_limits_of_its_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    limits, model, agents = watched_limits(monkeypatch), looks_once(), looks_once()
    registry = ToolRegistry()
    registry.register(time_limit_s=70, max_chars=7)(look)
    made = type("Looks", (module,), {"model": model, "max_steps": 4, "tools": [look], "tool_timeout_s": 71, "tool_max_chars": 7})
    made()()
    assert CUT in run_agent("Q", llm_func=looks_and_answers, registry=registry)["history"][2]["content"]
    assert CUT in texts(model)
    executor = ToolExecutor(ToolExecutorOptions([look], tool_timeout_s=72, tool_max_chars=7))
    for face in (executor, Agent([look], agents, Phased(tool_timeout_s=73, tool_max_chars=7))):
        task = PhaseTask("t1", "Look.", toolCalls=[ToolCallStatus("look", {})])
        assert run_sync(face.execute_tools(task, "q"))
        assert [(done.output, done.max_chars) for done in task.toolCalls or ()] == [(LONG, 7)]
    assert {70, 71, 72, 73} <= set(limits)


def test_a_comparison_uses_threads_and_sets_limits_of_its_own() -> None:
    place = Place()
    box = bounded_toolbox([Tool.from_function(place.look)])
    run_here(box.call(ToolCall("look", {})))
    assert not place.is_callers
    assert (box.time_limit_s, box.max_chars) == (DEFAULT_TIME_LIMIT_S, DEFAULT_MAX_CHARS) == (30.0, 20_000)
