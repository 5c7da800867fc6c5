"""Every toolbox around another, in any package, passes on what that one offers, lists and says of a call.

A class is found by its base, so that one that is added later has to keep these laws as well; where its constructor takes a type
that no other does, `stand_ins` gives one.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import typing
from collections.abc import Collection, Iterable, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.helpers import Script
from tests.models.bench import Ear
from tests.syntax import nodes_of, parsed
from whichloop.checks.loop.scene import Gate, RunLog, open_gate
from whichloop.checks.program.bench import AgentLog
from whichloop.loops.checkpoint import Checkpoint
from whichloop.loops.guarded import GuardQuestions
from whichloop.loops.resumable import Replay
from whichloop.loops.shared.boundary import RelayingObserver, WatchedModel
from whichloop.loops.shared.call_ids import CallIds
from whichloop.models.metering import Listener
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import SILENT, Observer, StopRun, Tool, Toolbox, ToolCall, run_sync
from whichloop.protocol.outcome import Budget
from whichloop.protocol.tool_calls import ToolListing, ToolSpec
from whichloop.protocol.tools import ToolboxAround

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
        Listener: Ear(),
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


@each_class
def test_a_cancelled_call_comes_back_once_its_tool_has_closed(cls: type[Toolbox]) -> None:
    async def run() -> list[str]:
        began, steps = asyncio.Event(), list[str]()

        async def wait() -> None:
            try:
                began.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                steps.append("closed")

        running = asyncio.create_task(made(cls, Toolbox([wait])).call(ToolCall("wait", {})))
        await began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return steps

    assert asyncio.run(run()) == ["closed"]


# --- a toolbox that offers other tools than the one within ---
