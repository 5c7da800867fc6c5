"""Every toolbox around another, in any package, passes on what that one offers, lists and says of a call.

A class is found by its base, so that one that is added later has to keep these laws as well; where its constructor takes a type
that no other does, `stand_ins` gives one.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import sqlite3
import sys
import threading
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from inspect import Parameter, signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.helpers import Script, answer, call, texts
from tests.loops.looking import looks_once, watched_limits
from tests.rows import row
from tests.syntax import nodes_of, parsed
from whichloop.checks.loop.scene import Gate, RunLog, open_gate
from whichloop.checks.program.bench import AgentLog
from whichloop.loops import Finish, ReactExtract, RepeatGuard, ToolRegistry, module, run_agent
from whichloop.loops.bare import Bare, History
from whichloop.loops.checkpoint import Checkpoint
from whichloop.loops.guarded import GuardQuestions
from whichloop.loops.phased import Agent, Phased, PhaseTask, ToolCallStatus, ToolExecutor, ToolExecutorOptions
from whichloop.loops.resumable import Replay
from whichloop.loops.shared.boundary import RelayingObserver, WatchedModel
from whichloop.loops.shared.call_ids import CallIds
from whichloop.loops.stateless import ActivityManager, ManualAgentLoop, MultiToolRegistry, Stateless
from whichloop.models.metering import HearCall
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import SILENT, Loop, Observer, Query, StopRun, Tool, Toolbox, ToolCall, run_sync
from whichloop.protocol.outcome import Budget
from whichloop.protocol.threads import run_here
from whichloop.protocol.tool_calls import ToolListing, ToolSpec
from whichloop.protocol.tools import DEFAULT_MAX_CHARS, DEFAULT_TIME_LIMIT_S, ToolboxAround, bounded_toolbox

IN_ONE_FORK = "the syntax trees of the source"
SOURCE = Path(__file__).resolve().parents[2] / "src"
NAMES = ("find", "buy", "sell", "count")
LAW = settings(max_examples=cases(5), deadline=None)


class Confirming(GuardQuestions):
    """Confirms every call."""

    async def confirms(self, call: ToolCall) -> bool:
        return True


def stand_ins(within: Toolbox) -> dict[Any, Any]:
    """Return an argument for each type that a constructor takes; none of them keeps a call from being made, or warns of it."""
    ids, checkpoint = CallIds("run"), Checkpoint()
    watching, script = RelayingObserver(Observer(), ids), Script("")
    return {
        Toolbox: within,
        Iterable[Tool]: within,
        Sequence[Tool]: tuple(within),
        tuple[Tool, ...]: tuple(within),
        Collection[str]: within.names,
        str: "label",
        int: 100,
        int | None: 100,
        Observer: SILENT,
        RelayingObserver: watching,
        WatchedModel: WatchedModel(script, within, watching),
        CallIds: ids,
        Replay: Replay(checkpoint, Budget(), SILENT, ids),
        GuardQuestions: Confirming(None, script, SILENT),  # type: ignore[arg-type]  # a query that nobody is asked about
        HearCall | None: None,
        RunLog: RunLog(),
        AgentLog: AgentLog(100),
        Gate: open_gate,
        Tunnel: Tunnel(),
    }


def toolbox_classes() -> list[type[Toolbox]]:
    """Return the subclasses of `Toolbox` in the sources, found by the names of their bases."""
    bases = {
        (path, node.name): {getattr(base, "id", getattr(base, "attr", "")) for base in node.bases}
        for path in sorted(SOURCE.rglob("*.py"))
        if "Tool" in path.read_text(encoding="utf-8")
        for node in nodes_of(parsed(path))
        if isinstance(node, ast.ClassDef)
    }
    names, found = {"Toolbox"}, dict[tuple[Path, str], None]()
    while new := [key for key, named in bases.items() if named & names and key not in found]:
        found |= dict.fromkeys(new)
        names |= {name for _, name in new}
    modules = [(".".join(path.relative_to(SOURCE).with_suffix("").parts), name) for path, name in found]
    return [getattr(importlib.import_module(module), name) for module, name in modules]


CLASSES = toolbox_classes()
AROUND = [cls for cls in CLASSES if issubclass(cls, ToolboxAround)]
each_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
each_around = pytest.mark.parametrize("cls", AROUND, ids=lambda cls: cls.__name__)


def made(cls: type[Toolbox], within: Toolbox) -> Toolbox:
    """Make a toolbox around another one, or of its tools."""
    types, given, by_type = typing.get_type_hints(cls.__init__), dict[str, Any](), stand_ins(within)
    for name, parameter in list(signature(cls.__init__).parameters.items())[1:]:
        if name in ("time_limit_s", "max_chars", "threads", "check_arguments"):
            given[name] = getattr(within, name)
        elif parameter.default is Parameter.empty:
            assert types[name] in by_type, f"{cls.__name__}: stand_ins gives no {types[name]} for its {name}"
            given[name] = by_type[types[name]]
    return cls(**given)


class Listing(Toolbox):
    """A toolbox that lists what it is told to, as a server whose list a fault has changed."""

    listing = ToolListing(())

    def listed(self) -> ToolListing:
        return self.listing


class Refused(Exception):
    """What the tool raises."""


def tool_named(name: str, **settings: Any) -> Tool:
    def act(item: int) -> str:
        if item < 0:
            raise Refused(f"no {item}")
        return f"{name} {item}"

    return Tool.from_function(act, name=name, description=f"To {name}.", **settings)


LIMITS = st.none() | st.integers(50, 60)
TOOLS = st.lists(
    st.builds(tool_named, st.sampled_from(NAMES), read_only=st.booleans(), blocking=st.booleans(), max_chars=LIMITS),
    unique_by=lambda tool: tool.name,
)  # fmt: skip
BOXES = st.builds(
    Listing, TOOLS, time_limit_s=LIMITS, max_chars=LIMITS, threads=st.none() | st.booleans(), check_arguments=st.booleans()
)
SPECS = st.lists(st.sampled_from(NAMES), unique=True).map(lambda names: tuple(ToolSpec(name, "Drifted.", {}) for name in names))


def test_the_toolboxes_are_found() -> None:
    names = {cls.__name__ for cls in CLASSES}
    assert names >= {"CurrentTools", "LimitedToolbox", "LoggingToolbox", "MeteredToolbox", "RepeatCountingToolbox"}


@each_class
def test_whatever_holds_another_toolbox_derives_from_the_one_that_passes_all_on(cls: type[Toolbox]) -> None:
    holds = Toolbox in typing.get_type_hints(cls.__init__).values()
    assert issubclass(cls, ToolboxAround) is holds


@each_class
@LAW
@given(within=BOXES)
def test_tools_pass_whole_with_their_schemas_and_hints(cls: type[Toolbox], within: Toolbox) -> None:
    box = made(cls, within)
    assert [id(tool) for tool in box] == [id(tool) for tool in within]
    assert box.specs == within.specs
    assert box.names == within.names


@each_around
@LAW
@given(within=BOXES, specs=SPECS, changes=st.integers(0, 9))
def test_settings_and_the_list_pass(cls: type[Toolbox], within: Listing, specs: tuple[ToolSpec, ...], changes: int) -> None:
    box = made(cls, within)
    for name in ("time_limit_s", "max_chars", "threads", "check_arguments"):
        assert getattr(box, name) == getattr(within, name)
    within.listing = ToolListing(specs, changes)
    assert box.listed() == within.listing


@each_class
@LAW
@given(within=BOXES, name=st.sampled_from(NAMES), item=st.integers(-2, 2) | st.just("x"), validate=st.booleans())
def test_results_and_errors_pass(cls: type[Toolbox], within: Toolbox, name: str, item: object, validate: bool) -> None:
    call = ToolCall(name, {"item": item}, "call-1")
    through = run_sync(made(cls, within).call(call, validate=validate))
    alone = run_sync((within if issubclass(cls, ToolboxAround) else Toolbox(within)).call(call, validate=validate))
    assert through.data.count(alone.data) == 1
    fields = ("tool_name", "status", "error_type", "call_id", "transient", "ran")
    assert [getattr(through, field) for field in fields] == [getattr(alone, field) for field in fields]
    assert type(through.raised) is type(alone.raised)


@each_class
def test_what_ends_a_run_passes(cls: type[Toolbox]) -> None:
    async def stop() -> None:
        raise StopRun

    with pytest.raises(StopRun):
        run_sync(made(cls, Toolbox([stop])).call(ToolCall("stop", {})))


# --- where a tool runs and how long ---

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
