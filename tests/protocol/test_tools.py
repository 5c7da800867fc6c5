"""Calling tools: time limits, order, cancellation, and an observation of whatever comes out."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import copy
import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import json
import os
import subprocess
import sys
import textwrap
import threading
import types
import weakref
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from loopbench.protocol import BudgetExceeded, Observation, Tool, Toolbox, ToolCall, render_value, run_sync
from loopbench.protocol.values import cap, error_text

who = contextvars.ContextVar("who", default="nobody")


def python(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own; fails where it does not end."""
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False)


def named(name: str, function: Callable[..., Any], **options: Any) -> Tool:
    return Tool(name, "", {"type": "object"}, function, **options)


def call(function: Callable[..., Any], **options: Any) -> Observation:
    """What comes of calling a function without arguments as a tool."""
    return run_sync(Toolbox([named("tool", function, **options)]).call(ToolCall("tool", {})))


# --- the box ---


def test_a_box_keeps_its_tools_in_the_order_given() -> None:
    box = Toolbox([named("b", len), named("a", len), named("c", len)])
    assert box.names == ("b", "a", "c")
    assert [tool.name for tool in box] == ["b", "a", "c"]
    assert [spec.name for spec in box.specs] == ["b", "a", "c"]
    assert len(box) == 3
    assert "a" in box
    assert "z" not in box
    assert box.get("z") is None


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools are named 'a'"):
        Toolbox([named("b", len), named("a", len), named("a", max)])


@given(st.text(), st.lists(st.text(), unique=True, max_size=4))
def test_an_unknown_tool_is_an_error_that_lists_the_known_ones(name: str, known: list[str]) -> None:
    box = Toolbox([named(other, len) for other in known if other != name])
    seen = run_sync(box.call(ToolCall(name, {}, "id")))
    assert (seen.status, seen.error_type, seen.tool_name, seen.call_id) == ("error", "UnknownTool", name, "id")
    assert all(other in seen.data for other in box.names)
    assert box.names or seen.data.endswith("Available tools: none")


def test_a_name_of_lone_surrogates_makes_a_legible_message() -> None:
    assert run_sync(Toolbox([]).call(ToolCall("\udc80", {}))).data.startswith("Tool '?' not found")


def test_an_observation_states_status_data_and_tool() -> None:
    good = call(lambda: [1])
    assert good.as_dict() == {"status": "success", "data": "[1]", "tool_name": "tool"}
    assert (good.ok, good.value, good.error_type) == (True, [1], None)
    bad = call(functools.partial(int, "x"))
    message = "invalid literal for int() with base 10: 'x'"
    assert bad.as_dict() == {"status": "error", "data": f"ValueError: {message}", "tool_name": "tool"}
    assert (bad.ok, bad.data, bad.error_type, bad.value) == (False, message, "ValueError", None)


# --- what a tool raises ---


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Fatal(Exception):
    def __str__(self) -> str:
        sys.exit(3)


class Nothing(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


class Base(BaseException):
    """Neither an Exception nor one of Python's own."""


ERRORS: list[tuple[BaseException, str]] = [
    (ValueError("wrong"), "wrong"),
    (KeyError("k"), "'k'"),
    (Exception(), ""),
    (SystemExit(3), "3"),
    (GeneratorExit("g"), "g"),
    (StopIteration("s"), "s"),
    (StopAsyncIteration("s"), "s"),
    (RuntimeError("coroutine raised StopIteration"), "coroutine raised StopIteration"),
    (TimeoutError("mine"), "mine"),
    (RecursionError("deep"), "deep"),
    (MemoryError("full"), "full"),
    (ExceptionGroup("two", [ValueError("a")]), "two (1 sub-exception)"),
    (Base("b"), "b"),
    (Mute(), "(no message: RuntimeError in __str__)"),
    (Fatal(), "(no message: SystemExit in __str__)"),
    (Nothing(), "(no message: TypeError in __str__)"),
    (ValueError("\ud800"), "?"),
    (ValueError(f"{object()!r}"), "<object object>"),
]


def raises(error: BaseException) -> Callable[[], NoReturn]:
    def sync() -> NoReturn:
        raise error

    return sync


def raises_when_awaited(error: BaseException) -> Callable[[], Any]:
    async def later() -> NoReturn:
        await asyncio.sleep(0)
        raise error

    return later


def raises_behind_a_plain_function(error: BaseException) -> Callable[[], Any]:
    return lambda: raises_when_awaited(error)()


WAYS: dict[str, Callable[[BaseException], Tool]] = {
    "in a thread": lambda error: named("tool", raises(error)),
    "in place": lambda error: named("tool", raises(error), blocking=False),
    "async": lambda error: named("tool", raises_when_awaited(error)),
    "async behind a plain function": lambda error: named("tool", raises_behind_a_plain_function(error)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("error", "message"), ERRORS, ids=[type(error).__name__ for error, _ in ERRORS])
def test_whatever_a_tool_raises_is_an_observation_with_the_type_kept_apart(way: str, error: BaseException, message: str) -> None:
    seen = run_sync(Toolbox([WAYS[way](error)]).call(ToolCall("tool", {})))
    assert (seen.status, seen.error_type, seen.data, seen.value) == ("error", type(error).__name__, message, None)


INTERRUPTED = """
import asyncio
from loopbench.protocol import Tool, Toolbox, ToolCall

def sync():
    raise KeyboardInterrupt

async def later():
    await asyncio.sleep(0)
    raise KeyboardInterrupt

tools = [
    Tool.from_function(sync, name="tool"),
    Tool.from_function(sync, name="tool", blocking=False),
    Tool.from_function(later, name="tool"),
    Tool.from_function(lambda: later(), name="tool"),
]
for tool in tools:
    for parallel in (False, True):
        try:
            asyncio.run(Toolbox([tool]).call_all([ToolCall("tool", {})] * 2, parallel=parallel))
        except KeyboardInterrupt:
            print("left")
"""


def test_keyboard_interrupt_leaves() -> None:
    """In a process of its own: an interrupt that is lost on the way would end the whole test session."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["left"] * 8, done.stderr


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("parallel", [False, True])
def test_cancellation_leaves(way: str, parallel: bool) -> None:
    box = Toolbox([WAYS[way](asyncio.CancelledError())])
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(box.call_all([ToolCall("tool", {})] * 2, parallel=parallel))


def test_a_copied_program_keeps_acting_on_the_same_world() -> None:
    """Teleprompters copy programs deeply; a tool's owner must not be copied with them."""
    done: list[int] = []
    program = {"tools": Toolbox([Tool.from_function(done.append, name="do", blocking=False)])}
    run_sync(copy.deepcopy(program)["tools"].call(ToolCall("do", {"object": 1})))
    run_sync(program["tools"].call(ToolCall("do", {"object": 2})))
    assert done == [1, 2]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("parallel", [False, True])
def test_a_used_up_budget_leaves_so_that_an_agent_may_be_a_tool(way: str, parallel: bool) -> None:
    box = Toolbox([WAYS[way](BudgetExceeded("10 model calls used up"))])
    with pytest.raises(BudgetExceeded, match="10 model calls"):
        asyncio.run(box.call_all([ToolCall("tool", {})] * 2, parallel=parallel))


def test_an_error_of_the_tools_own_making_stays_a_runtime_error() -> None:
    def own() -> NoReturn:
        raise RuntimeError("no more rows") from StopIteration()

    seen = call(own)
    assert (seen.error_type, seen.data) == ("RuntimeError", "no more rows")


# --- sync, async, threads ---


def test_a_blocking_tool_runs_off_the_event_loops_thread_and_a_pure_one_on_it() -> None:
    here = threading.get_ident()
    assert call(threading.get_ident).value != here
    assert call(threading.get_ident, blocking=False).value == here


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


class Doubler:
    async def __call__(self, number: int) -> int:
        return await double(number)


ASYNC: list[Callable[..., Any]] = [
    double,
    Doubler(),
    Doubler().__call__,
    functools.partial(double),
    functools.partial(Doubler()),
    lambda number: double(number),
    functools.partial(functools.partial(double), 4),
]


@pytest.mark.parametrize("function", ASYNC)
@pytest.mark.parametrize("blocking", [True, False])
def test_async_tools_of_every_make_are_awaited(function: Callable[..., Any], blocking: bool) -> None:
    tool = Tool.from_function(function, name="double", blocking=blocking)
    arguments = {} if "number" not in tool.parameters["properties"] else {"number": 4}
    assert run_sync(Toolbox([tool]).call(ToolCall("double", arguments))).value == 8


@pytest.mark.parametrize("blocking", [True, False])
def test_context_variables_of_the_caller_are_seen_by_the_tool(blocking: bool) -> None:
    token = who.set("caller")
    try:
        assert call(who.get, blocking=blocking).value == "caller"
    finally:
        who.reset(token)


# --- time limits ---


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


def test_a_tools_own_limit_wins_over_the_boxs(forever: threading.Event) -> None:
    box = Toolbox([named("tool", forever.wait, time_limit_s=0.01)], time_limit_s=None)
    assert run_sync(box.call(ToolCall("tool", {}))).data == "no result within 0.01 s"


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
        from loopbench.protocol import Tool, Toolbox, ToolCall, run_sync

        hang = Tool("hang", "", {}, threading.Event().wait, time_limit_s=0.05)
        ok = Tool("ok", "", {}, lambda: "fine")
        box = Toolbox([hang, ok])
        calls = [ToolCall("hang", {})] * 12 + [ToolCall("ok", {})]
        print([seen.data for seen in run_sync(box.call_all(calls, parallel=True, max_in_flight=13))][-2:])
        """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("['no result within 0.05 s', 'fine']\n", "", 0)


def test_a_result_that_comes_after_the_limit_disturbs_nobody() -> None:
    gate = threading.Event()
    box = Toolbox([named("late", gate.wait, time_limit_s=0.01), named("open", gate.set), named("tool", lambda: "fine")])

    async def run() -> list[str]:
        calls = [ToolCall(name, {}) for name in ("late", "open", "tool", "tool")]
        return [seen.data for seen in await box.call_all(calls)]

    assert run_sync(run()) == ["no result within 0.01 s", "None", "fine", "fine"]


@pytest.mark.parametrize("loop_is_open", [True, False])
def test_a_coroutine_that_comes_after_the_limit_is_closed(loop_is_open: bool) -> None:
    gate = threading.Event()
    made: list[Coroutine[Any, Any, None]] = []

    def late() -> Coroutine[Any, Any, None]:
        gate.wait()
        made.append(never())
        return made[0]

    async def closed() -> None:
        gate.set()
        while not made or inspect.getcoroutinestate(made[0]) != inspect.CORO_CLOSED:
            await asyncio.sleep(0.001)

    async def run() -> None:
        seen = await Toolbox([named("late", late, time_limit_s=0.01)]).call(ToolCall("late", {}))
        assert seen.error_type == "TimeoutError"
        if loop_is_open:
            await asyncio.wait_for(closed(), 30)

    run_sync(run())
    run_sync(asyncio.wait_for(closed(), 30))


# --- several calls ---


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


@pytest.mark.parametrize("width", [0, -1])
@pytest.mark.parametrize("parallel", [True, False])
def test_a_width_at_which_no_call_could_start_is_refused(width: int, parallel: bool) -> None:
    with pytest.raises(ValueError, match="no call could ever start"):
        run_sync(Toolbox([]).call_all([ToolCall("x", {})], parallel=parallel, max_in_flight=width))


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

    async def cancel_itself(self) -> None:
        while self.begun < 2:
            await asyncio.sleep(0)
        raise asyncio.CancelledError


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


def test_a_call_that_cancels_itself_takes_its_siblings_along() -> None:
    siblings = Siblings()
    box = Toolbox([named("work", siblings.work), named("stop", siblings.cancel_itself)])

    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            await box.call_all([ToolCall(name, {}) for name in ("work", "stop", "work")], parallel=True)
        assert (siblings.begun, siblings.cleaned, siblings.finished) == (2, 2, 0)

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


class FullDisk(Toolbox):
    """A box of someone's own, whose bookkeeping fails."""

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        await super().call(call, validate=validate)
        raise OSError("disk full")


@pytest.mark.parametrize("parallel", [True, False])
def test_an_error_of_the_box_itself_comes_out_bare(parallel: bool) -> None:
    with pytest.raises(OSError, match="disk full"):
        run_sync(FullDisk([named("a", len)]).call_all([ToolCall("a", {})] * 3, parallel=parallel))


# --- any value as text ---


class Color(str, enum.Enum):  # noqa: UP042 - a StrEnum would be shown as its value anyway
    RED = "red"


class Level(enum.Enum):
    LOW = 1


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any
    y: Any = None


@dataclasses.dataclass(slots=True)
class HalfBuilt:
    x: int = dataclasses.field(init=False)


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    x: Any = None


class BrokenStr:
    def __str__(self) -> str:
        raise RuntimeError("no words")


class ExitingStr:
    def __str__(self) -> str:
        sys.exit(1)


class BrokenModel:
    def model_dump(self, mode: str) -> Any:
        raise LookupError(mode)

    def __str__(self) -> str:
        return "in words"


class BrokenMapping(dict[str, Any]):
    def items(self) -> Any:
        raise OSError("gone")


class Evil:
    @property
    def __class__(self) -> Any:
        raise ValueError("no class")

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise ValueError("no class")


class Text(str):
    def __str__(self) -> str:
        return "something else"

    def isascii(self) -> bool:
        raise ValueError


def circular_list() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


def circular_dict() -> dict[str, Any]:
    value: dict[str, Any] = {"tags": {"a"}}
    value["self"] = {"again": [value]}
    return value


def circular_point() -> Point:
    inside: list[Any] = []
    point = Point(inside)
    inside.append(point)
    return point


def nested_list(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def nested_set(depth: int) -> frozenset[Any]:
    value: frozenset[Any] = frozenset({1})
    for _ in range(depth):
        value = frozenset({value})
    return value


characters = st.characters() | st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF, categories=["Cs"])
any_text = st.text(characters, max_size=6) | st.sampled_from(["<A object at 0x7f00>", " at 0x1f", "{", "\x00"])
json_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    json_scalars | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)
hashable = st.recursive(
    json_scalars
    | st.floats()
    | any_text
    | st.binary(max_size=3)
    | st.sampled_from([Level.LOW, Color.RED, decimal.Decimal("0.1"), object]),
    lambda inner: st.frozensets(inner, max_size=3) | st.tuples(inner, inner) | st.builds(Point, inner),
    max_leaves=6,
)
ODD = (
    object(),
    BrokenStr(),
    ExitingStr(),
    BrokenModel(),
    HalfBuilt(),
    len,
    Model,
    ValueError("v"),
    10**5000,
    circular_list(),
)
odd_things = st.integers(0, len(ODD) - 1).map(ODD.__getitem__)  # sampled_from would ask for their repr
any_value = st.recursive(
    hashable | odd_things | st.builds(Model, x=hashable),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(hashable, inner, max_size=3)
        | st.tuples(inner)
        | st.sets(hashable, max_size=3)
        | st.builds(Point, inner)
        | st.builds(Model, x=inner)
        | st.builds(types.MappingProxyType, st.dictionaries(any_text, inner, max_size=2))
        | st.builds(collections.deque, st.lists(inner, max_size=2))
        | st.builds(BrokenMapping, st.dictionaries(st.text(max_size=2), inner, max_size=2))
    ),
    max_leaves=8,
)


@given(any_value)
def test_any_value_becomes_text_that_can_be_sent(value: Any) -> None:
    text = render_value(value)
    assert type(text) is str
    assert text.encode()
    assert "object at 0x" not in text
    assert render_value(value) == text


@given(any_value)
def test_a_tool_may_return_any_value(value: Any) -> None:
    seen = call(lambda: value, blocking=False)
    assert seen.ok
    assert seen.value is value
    assert seen.data == render_value(value)


@given(json_values)
def test_json_is_shown_as_json(value: Any) -> None:
    text = render_value(value)
    if isinstance(value, str) or value is None:
        assert text == str(value)
    else:
        assert json.loads(text) == value


@given(st.text(max_size=30))
def test_text_is_shown_as_it_is(text: str) -> None:
    assert render_value(text) == text
    assert render_value({text: [text]}) == json.dumps({text: [text]}, ensure_ascii=False)


@given(st.lists(hashable, max_size=6, unique=True))
def test_sets_are_shown_alike_in_whatever_order_they_were_filled(items: list[Any]) -> None:
    left: set[Any] = set()
    right: set[Any] = set()
    for one, other in zip(items, reversed(items), strict=True):
        left.add(one)
        right.add(other)
    assert render_value(left) == render_value(right)
    assert render_value([left]) == render_value([right])
    assert render_value({(1, 2): left}) == render_value({(1, 2): right})
    assert render_value(Point(left)) == render_value(Point(right))


EXAMPLES: list[tuple[Any, str]] = [
    (None, "None"),
    (True, "true"),
    ("", ""),
    ("a\nb", "a\nb"),
    (Color.RED, "red"),
    (Text("chars"), "chars"),
    ([Color.RED, Level.LOW, None], '["red", "Level.LOW", null]'),
    (float("nan"), "NaN"),
    (decimal.Decimal("1.50"), "1.50"),
    (datetime.date(2024, 2, 29), "2024-02-29"),
    ([datetime.date(2024, 2, 29), decimal.Decimal("1.50")], '["2024-02-29", "1.50"]'),
    (b"\xff", "b'\\xff'"),
    (Point(1, {"b", "a"}), '{"x": 1, "y": ["a", "b"]}'),
    (Point, str(Point)),
    (Model(x=[Point(1)]), '{"x": [{"x": 1, "y": null}]}'),
    (Model(x={"k": ({3, 1, 2}, Level.LOW)}), '{"x": {"k": [[1, 2, 3], 1]}}'),
    (Model, str(Model)),
    ([Model], f'["{Model}"]'),
    ((1, (2,)), "[1, [2]]"),
    (collections.OrderedDict(a=1), '{"a": 1}'),
    (types.MappingProxyType({"a": 1}), '{"a": 1}'),
    ({1: 2, None: 3}, '{"1": 2, "null": 3}'),
    (range(3), "range(0, 3)"),
    ({3, 1, 2}, "[1, 2, 3]"),
    ({1, "1", None, "None"}, '["1", "None", 1, null]'),
    (frozenset({frozenset({2, 1}), frozenset()}), "[[1, 2], []]"),
    # what JSON cannot say is shown as Python says it
    ({(1, 2): {"b", "a"}, "k": ("x",)}, "{(1, 2): {'a', 'b'}, 'k': ('x',)}"),
    ({frozenset({"b", "a"}): None}, "{{'a', 'b'}: None}"),
    (collections.defaultdict(set, {(1,): {2}}), "{(1,): {2}}"),
    (circular_list(), "[1, [...]]"),
    (circular_dict(), "{'tags': {'a'}, 'self': {'again': [{...}]}}"),
    (circular_point(), "{'x': [...], 'y': None}"),
    (nested_list(5_000), "<list>"),
    (nested_set(40), "[" * 41 + "1" + "]" * 41),
    (10**5000, "<int>"),
    # what cannot be shown at all is named by its type
    (BrokenStr(), "<BrokenStr>"),
    (ExitingStr(), "<ExitingStr>"),
    ([BrokenStr(), 1], '["<BrokenStr>", 1]'),
    (BrokenModel(), "in words"),
    (HalfBuilt(), "<HalfBuilt>"),
    (BrokenMapping(a=1), "<BrokenMapping>"),
    (Evil(), "<Evil>"),
    # neither addresses nor lone surrogates
    (object(), "<object object>"),
    ([len, object()], '["<built-in function len>", "<object object>"]'),
    ({(1,): object()}, "{(1,): <object object>}"),
    (circular_list, "<function circular_list>"),
    (f"got {object()}", "got <object object>"),
    (weakref.ref(Point), f"<weakref; to '{type(Point).__name__}' (Point)>"),
    ("a\ud800b", "a?b"),
    ({"\udfff": ["\ud800"]}, '{"?": ["?"]}'),
    # an address that is the tool's own finding stays
    ("segfault at 0xdeadbeef in main", "segfault at 0xdeadbeef in main"),
    ("jump at 0x10 -> 0x20", "jump at 0x10 -> 0x20"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), EXAMPLES, ids=[f"{index}" for index in range(len(EXAMPLES))])
def test_each_kind_of_value_has_its_form(value: Any, text: str) -> None:
    assert render_value(value) == text


def test_a_part_whose_repr_fails_is_named_by_its_type() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no words")

    class Exiting:
        def __repr__(self) -> str:
            sys.exit(1)

    text = render_value({(1,): Broken(), (2,): [Exiting(), 3]})
    assert text == "{(1,): <Broken>, (2,): [<Exiting>, 3]}"


def test_rendering_does_not_depend_on_the_process() -> None:
    script = """
        import dataclasses
        from pydantic import BaseModel
        from loopbench.protocol import Tool, render_value

        @dataclasses.dataclass(frozen=True)
        class Item:
            name: str
            tags: frozenset

        class Card(BaseModel, frozen=True):
            tags: frozenset[str]
            more: tuple[dict[int, frozenset[str]], ...] = ()
            cards: "frozenset[Card]" = frozenset()

        words = [f"word{i}" for i in range(30)]
        tags = frozenset(words)
        values = [
            set(words), {(1, 2): set(words)}, [Item(word, tags) for word in words[:3]],
            {Item(word, tags) for word in words}, {frozenset(words[i:i + 3]) for i in range(20)},
            {frozenset(words): tags}, {(word, i) for i, word in enumerate(words)},
            {1, "1", None, "None", 2.5, "x"}, object(), print,
            Card(tags=tags, more=({1: tags, 2: tags},), cards={Card(tags={word, "x"}) for word in words}),
        ]
        for value in values:
            print(render_value(value))
        def tool(words: set[str] = tags) -> None: ...
        print(Tool.from_function(tool).parameters)
    """
    outputs = {python(script, PYTHONHASHSEED=str(seed)).stdout for seed in (0, 1, 2)}
    assert len(outputs) == 1
    assert "word29" in outputs.pop()


@given(st.text(max_size=50), st.integers(0, 60))
def test_a_long_text_is_cut_and_says_so(text: str, limit: int) -> None:
    shown = cap(text, limit)
    if len(text) <= limit:
        assert shown == text
    else:
        assert shown == f"{text[:limit]}... (truncated, {len(text)} characters in all)"


def test_results_and_errors_are_capped_and_the_value_stays_whole() -> None:
    box = Toolbox([named("long", lambda: "x" * 100), named("bad", raises(ValueError("y" * 100)))], max_chars=10)
    good, bad, unknown = run_sync(box.call_all([ToolCall("long", {}), ToolCall("bad", {}), ToolCall("z" * 100, {})]))
    assert good.data == "x" * 10 + "... (truncated, 100 characters in all)"
    assert good.value == "x" * 100
    assert bad.data == "y" * 10 + "... (truncated, 100 characters in all)"
    assert unknown.data.startswith("Tool 'zzzz... (truncated")


def test_an_errors_text_has_no_type_and_no_traceback() -> None:
    assert error_text(ValueError("x")) == "x"
    assert error_text(ValueError()) == ""
    assert error_text(ValueError("a", 1)) == "('a', 1)"


# --- imports ---


@pytest.mark.parametrize("module", ["loopbench", "loopbench.protocol", "loopbench.protocol.tools"])
def test_importing_loads_nothing_heavy_and_leaves_the_world_alone(module: str, tmp_path: Any) -> None:
    done = python(
        f"""
        import os, sys
        os.chdir({str(tmp_path)!r})
        touched = []

        def audit(event, args):
            opened = event == "open" and (args[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if opened or event.startswith(("socket.", "subprocess.", "os.mkdir")):
                touched.append((event, args))

        sys.addaudithook(audit)
        import {module}
        heavy = {{"pydantic", "pydantic_core", "dspy", "mlflow", "litellm", "numpy", "pandas", "scipy", "rich", "typer"}}
        assert not touched, touched
        assert not heavy & {{name.partition(".")[0] for name in sys.modules}}
        """,
        PYTHONDONTWRITEBYTECODE="1",
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert list(tmp_path.iterdir()) == []


def test_the_first_typed_tool_loads_pydantic_and_a_call_without_one_does_not() -> None:
    done = python(
        """
        import sys
        from loopbench.protocol import Tool, Toolbox, ToolCall, run_sync

        box = Toolbox([Tool("one", "", {}, lambda: {1})])
        print(run_sync(box.call(ToolCall("one", {}))).data, "pydantic" in sys.modules)
        Tool.from_function(len)
        print("pydantic" in sys.modules)
        """
    )
    assert (done.stdout, done.stderr) == ("[1] False\nTrue\n", "")


class Unreadable(dict[str, Any]):
    """A mapping whose own code raises."""

    def keys(self) -> Any:
        raise ValueError("not mine")

    def __iter__(self) -> Any:
        raise ValueError("not mine")


@pytest.mark.parametrize("validate", [True, False])
def test_arguments_that_cannot_be_read_are_an_observation(validate: bool) -> None:
    box = Toolbox([named("tool", lambda a: a)])
    seen = run_sync(box.call(ToolCall("tool", Unreadable(a=1)), validate=validate))
    assert (seen.status, seen.error_type) == ("error", "InvalidArguments")
    assert run_sync(box.call(ToolCall("tool", {"a": [Unreadable(a=1)]}), validate=validate)).ok
