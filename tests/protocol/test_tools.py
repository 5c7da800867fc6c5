"""Tools and the box that runs them: whatever a tool does, the caller sees an observation."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import functools
import threading
from collections.abc import Callable
from datetime import date
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.helpers import call, named, python, raises
from whichloop.protocol import BudgetExceeded, Tool, Toolbox, ToolCall, run_sync

who = contextvars.ContextVar("who", default="nobody")


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


def test_an_observation_states_status_data_and_tool() -> None:
    good = call(lambda: [1])
    assert good.as_dict() == {"status": "success", "data": "[1]", "tool_name": "tool"}
    assert (good.ok, good.value, good.error_type) == (True, [1], None)
    bad = call(functools.partial(int, "x"))
    message = "invalid literal for int() with base 10: 'x'"
    assert bad.as_dict() == {"status": "error", "data": f"ValueError: {message}", "tool_name": "tool"}
    assert (bad.ok, bad.data, bad.error_type, bad.value) == (False, message, "ValueError", None)


@pytest.mark.parametrize(
    ("given", "checked", "unchecked"),
    [
        ({"day": "2026-11-29", "seats": "2"}, (date(2026, 11, 29), 2), (date(2026, 11, 29), 2)),
        ({"day": "tomorrow"}, ("day",), ("tomorrow", 1)),
        ({"day": "2026-11-29", "seats": 2.5}, ("seats",), ("2026-11-29", 2.5)),
        ({"day": "2026-11-29", "chairs": 1, "seats": "x"}, ("chairs", "seats", "Allowed: day: string, seats: integer"), ()),
    ],
)
def test_arguments_are_converted_all_or_none(given: dict[str, Any], checked: tuple[Any, ...], unchecked: tuple[Any, ...]) -> None:
    got: list[tuple[Any, ...]] = []

    def book(day: date, seats: int = 1) -> None:
        got.append((day, seats))

    for validate, check_arguments, expected in ((True, False, checked), (False, True, checked), (False, False, unchecked)):
        got.clear()
        seen = run_sync(Toolbox([book], check_arguments=check_arguments).call(ToolCall("book", given), validate=validate))
        assert got == [expected] if seen.ok else not got and all(word in seen.data for word in expected), seen


@pytest.mark.parametrize(("given", "length"), [([1], 2), ({"a": [1]}, 2)])
def test_a_tool_that_changes_its_argument_does_not_change_the_call(given: Any, length: int) -> None:
    def grow(items: Any) -> int:
        inner = items if isinstance(items, list) else items["a"]
        inner.append(2)
        return len(inner)

    made, box = ToolCall("grow", {"items": given}), Toolbox([grow])
    assert [run_sync(box.call(made)).value for _ in range(2)] == [length, length]


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Base(BaseException):
    """Neither an Exception nor one of Python's own."""


ERRORS: list[tuple[BaseException, str]] = [
    (KeyError("k"), "'k'"),
    (Exception(), ""),
    (SystemExit(3), "3"),
    (GeneratorExit("g"), "g"),
    (StopIteration("s"), "s"),
    (StopAsyncIteration("s"), "s"),
    (RuntimeError("coroutine raised StopIteration"), "coroutine raised StopIteration"),
    (asyncio.CancelledError("another task"), "another task"),
    (ExceptionGroup("two", [ValueError("a")]), "two (1 sub-exception)"),
    (Base("b"), "b"),
    (Mute(), "(no message: RuntimeError in __str__)"),
    (ValueError("\ud800"), "?"),
    (ValueError(f"{object()!r}"), "<object object>"),
]


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
def test_whatever_a_tool_raises_is_an_observation_with_the_type_kept_apart(way: str) -> None:
    for error, message in ERRORS:
        seen = run_sync(Toolbox([WAYS[way](error)]).call(ToolCall("tool", {})))
        assert (seen.status, seen.error_type, seen.data, seen.value) == ("error", type(error).__name__, message, None), error


INTERRUPTED = """
import asyncio
from whichloop.protocol import Tool, Toolbox, ToolCall

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
    done = python(INTERRUPTED)
    assert done.stdout.split() == ["left"] * 8, done.stderr


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


def test_importing_loads_nothing_heavy_and_leaves_the_world_alone(tmp_path: Any) -> None:
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
        import whichloop.protocol.tools
        heavy = {{"pydantic", "pydantic_core", "dspy", "mlflow", "litellm", "numpy", "pandas", "scipy", "rich", "typer"}}
        assert not touched, touched
        assert not heavy & {{name.partition(".")[0] for name in sys.modules}}
        """,
        PYTHONDONTWRITEBYTECODE="1",
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.integers(5, 200), min_size=1, max_size=5))
def test_the_tightest_of_limits_over_limits_holds(limits: list[int]) -> None:
    box: Toolbox = Toolbox([named("tool", lambda: "x" * 1_000)])
    for limit in limits:
        box = box.limited(None, limit)
    alone = Toolbox([named("tool", lambda: "x" * 1_000)], max_chars=min(limits))
    assert run_sync(box.call(ToolCall("tool", {}))).data == run_sync(alone.call(ToolCall("tool", {}))).data
