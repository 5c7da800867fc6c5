"""On which thread a synchronous tool runs: the caller's, where one waits, unless threads are switched on."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.loops.helpers import Script, answer, call
from tests.loops.looking import looks_once
from whichloop.loops.bare import Bare, History
from whichloop.loops.bare_standalone import ToolRegistry, run_agent
from whichloop.loops.finish import Finish, module
from whichloop.loops.phased import Phased
from whichloop.loops.react_extract import ReactExtract
from whichloop.loops.repeat_guard import RepeatGuard
from whichloop.loops.stateless import ActivityManager, ConversationState, ManualAgentLoop, MultiToolRegistry, Stateless
from whichloop.protocol import BudgetExceeded, Loop, Query, Tool, Toolbox, ToolCall
from whichloop.protocol.threads import in_thread, run_here
from whichloop.protocol.tools import bounded_toolbox

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


def read_by(model: Script) -> str:
    return "\n".join(message.content for request in model.requests for message in request.messages)


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
        assert "price 4" in read_by(model)
        for loop in (Bare(), Finish(max_steps=4), ReactExtract(), Stateless(response_style=None), Phased(tool_threads=False)):
            model = looks_once()
            loop.run_sync(Query("Q"), Toolbox([look]), model)
            assert "price 4" in read_by(model)
    finally:
        base.close()


def looks_and_answers(history: History, step: int) -> str:
    return answer("done") if step else call("look")


def test_a_tool_over_an_open_connection_works() -> None:
    check_sqlite()


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


def test_a_module_calls_its_tools_on_the_callers_thread_unless_told_otherwise() -> None:
    for attributes, here in (({}, True), ({"tool_threads": True}, False), ({"parallel_tools": True}, False)):
        place = Place()
        made = type("Looks", (module,), {"model": looks_once(), "max_steps": 4, "tools": [place.look]} | attributes)
        made()()
        assert place.is_callers is here


def test_a_tool_may_run_a_loop_or_an_event_loop_of_its_own() -> None:
    inner = Place()

    async def later() -> str:
        await asyncio.sleep(0)
        return "later"

    class Inner(module):
        model, max_steps, tools = looks_once(), 4, [inner.look]

    def look() -> str:
        """Look."""
        assert asyncio.run(later()) == "later"
        return f"{Inner()()} {run_here(later())}"

    model = looks_once()
    Bare().run_sync(Query("Q"), Toolbox([look]), model)
    assert "seen later" in read_by(model)
    assert inner.is_callers


def test_an_agent_without_an_async_face_decides_on_the_callers_thread() -> None:
    place = Place()

    class Decides(ManualAgentLoop):
        def get_next_action(self, state: ConversationState) -> Any:
            place.look()
            raise BudgetExceeded("enough")

    manager = ActivityManager(Decides(Toolbox()), Toolbox())
    with pytest.raises(BudgetExceeded):
        manager.run_activity("Q")
    assert place.is_callers


def test_what_a_tool_raises_on_the_callers_thread_is_seen_as_ever() -> None:
    def stops() -> None:
        raise SystemExit(3)

    def interrupts() -> None:
        raise KeyboardInterrupt

    box = Toolbox([Tool("stops", "", {}, stops), Tool("interrupts", "", {}, interrupts)])
    assert run_here(box.call(ToolCall("stops", {}))).error_type == "SystemExit"
    with pytest.raises(KeyboardInterrupt):
        run_here(box.call(ToolCall("interrupts", {})))


def test_calls_that_run_at_the_same_time_have_threads_of_their_own() -> None:
    together = threading.Barrier(2)
    box = Toolbox([Tool("meet", "", {}, lambda: together.wait(20) >= 0)])
    seen = run_here(box.call_all([ToolCall("meet", {})] * 2, parallel=True))
    assert [one.data for one in seen] == ["true", "true"]


def test_a_comparison_always_uses_threads() -> None:
    place = Place()
    box = bounded_toolbox([Tool.from_function(place.look)], None)
    run_here(box.call(ToolCall("look", {})))
    assert not place.is_callers


def test_a_thread_of_its_own_has_no_waiting_caller() -> None:
    place = Place()

    async def outer() -> None:
        await in_thread(lambda: asyncio.run(Toolbox([place.look]).call(ToolCall("look", {}))))

    run_here(outer())
    assert not place.is_callers
