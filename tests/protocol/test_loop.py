"""What a loop sees and gives back, and running it from synchronous code."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import dataclasses
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from whichloop.protocol import (
    SILENT,
    FunctionModel,
    Model,
    Observer,
    Outcome,
    Query,
    RunsSync,
    StopReason,
    Toolbox,
    ToolCall,
    run_sync,
)
from whichloop.protocol.threads import beside_event_loop, run_blocking

who = contextvars.ContextVar("who", default="nobody")

Runner = Callable[[Callable[[], Awaitable[Any]]], Any]


MODEL = FunctionModel(lambda request: "unasked")


def where() -> int:
    """Return the thread that this tool runs on."""
    return threading.get_ident()


def from_plain_code(make: Callable[[], Any]) -> Any:
    return run_blocking(make())


def from_inside_a_loop(make: Callable[[], Any]) -> Any:
    async def outer() -> Any:
        return run_blocking(make())

    return asyncio.run(outer())


both_ways = pytest.mark.parametrize("run", [from_plain_code, from_inside_a_loop])


@both_ways
@given(value=st.integers() | st.text(max_size=5) | st.none())
def test_run_blocking_gives_what_the_coroutine_gives(run: Runner, value: object) -> None:
    async def give() -> object:
        await asyncio.sleep(0)
        return value

    assert run(give) == value


@both_ways
@pytest.mark.parametrize(
    "error", [ValueError("x"), TimeoutError("t"), asyncio.CancelledError("c"), SystemExit(3), KeyboardInterrupt("k")]
)
def test_run_blocking_raises_what_the_coroutine_raises(run: Runner, error: BaseException) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise error

    with pytest.raises(type(error)) as caught:
        run(fail)
    assert caught.value.args == error.args


@both_ways
def test_an_error_carries_no_trace_of_how_it_was_run(run: Runner) -> None:
    async def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x") as caught:
        run(fail)
    assert caught.value.__context__ is None


@both_ways
def test_context_variables_reach_the_coroutine(run: Runner) -> None:
    async def tell() -> str:
        return who.get()

    token = who.set("caller")
    try:
        assert run(tell) == "caller"
    finally:
        who.reset(token)


@both_ways
def test_it_runs_on_the_callers_thread_and_the_tools_on_threads_of_their_own(run: Runner) -> None:
    async def where() -> tuple[int, int]:
        return threading.get_ident(), await beside_event_loop(threading.get_ident)

    here = threading.get_ident()
    coroutine, tool = run(where)
    assert coroutine == here != tool


class Asking(RunsSync):
    """A loop that tells where its tool runs."""

    name = "asking"
    stops = frozenset({StopReason.FINISHED})

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return Outcome((await tools.call(ToolCall("where", {}))).value, StopReason.FINISHED, 1)

    def with_step_limit(self, tool_steps: int) -> Self:
        return self


WAYS: dict[str, Callable[[], Outcome]] = {
    "the function": lambda: run_sync(Asking().run(Query("Q"), Toolbox([where]), MODEL)),
    "the method": lambda: Asking().run_sync(Query("Q"), Toolbox([where]), MODEL),
}
"""The two ways in which synchronous code runs a loop."""


@pytest.mark.parametrize("way", WAYS)
def test_the_function_run_sync_does_what_a_loops_method_of_that_name_does(way: str) -> None:
    assert WAYS[way]().answer == threading.get_ident(), "tools run on the caller's thread"

    async def service() -> None:
        with pytest.raises(RuntimeError, match="write `await loop"):
            WAYS[way]()

    asyncio.run(service())


# --- a typed answer ---


class Offer(BaseModel):
    item: str
    euros: float


@dataclasses.dataclass
class Parcel:
    grams: int


@pytest.mark.parametrize("kind", [Offer, Parcel, list[int]], ids=str)
def test_a_query_takes_a_type_as_the_schema_of_its_answer(kind):
    query = Query("What?", schema=kind)
    assert query.schema == TypeAdapter(kind).json_schema()
    assert query == Query("What?", schema=dict(query.schema))
    assert dataclasses.replace(query, text="Why?").schema == query.schema
    assert copy.deepcopy(query) == query


def test_a_type_without_a_json_schema_is_refused():
    wrong: Any
    for wrong in (3, [int], threading.Thread):
        with pytest.raises(TypeError, match=r"^schema: .* has no JSON schema"):
            Query("How many?", schema=wrong)
