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

from whichloop.loops.bare_codecs import CODEC
from whichloop.protocol import (
    SILENT,
    FunctionModel,
    Message,
    Model,
    NativeCall,
    Observer,
    Outcome,
    Query,
    Request,
    Role,
    RunsSync,
    Sampling,
    StopReason,
    Toolbox,
    ToolCall,
    ToolSpec,
    Usage,
    run_sync,
)
from whichloop.protocol.json_text import digest
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


usages = st.builds(
    Usage,
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.booleans(),
    st.none() | st.integers(0, 1000).map(float),
)


def test_role_scope_and_codec_are_no_part_of_what_is_asked() -> None:
    asked = Request((Message("user", "q"),), sampling=Sampling(temperature=0.0, max_tokens=0, seed=0))
    marked = dataclasses.replace(asked, role=Role.ANSWER, scope="left", codec=CODEC)
    assert marked == asked
    assert digest(marked.as_dict()) == digest(asked.as_dict())
    assert marked.as_dict() == {"messages": [{"role": "user", "content": "q"}], "temperature": 0.0, "max_tokens": 0, "seed": 0}


@given(usages, usages, usages)
def test_usages_add_up_in_any_order_with_nothing_as_zero(a: Usage, b: Usage, c: Usage) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Usage() == a
    assert (a + b).total_tokens == a.total_tokens + b.total_tokens


def test_costs_add_up_where_known_and_stay_unknown_elsewhere() -> None:
    assert (Usage(cost_usd=0.5) + Usage()).cost_usd == 0.5
    assert (Usage() + Usage()).cost_usd is None
    assert (Usage(cost_usd=0.0) + Usage()).cost_usd == 0.0
    assert (Usage(estimated=True) + Usage()).estimated


def test_messages_take_the_form_of_openai() -> None:
    assert Message("tool", "7", call_id="c1").as_dict() == {"role": "tool", "content": "7", "tool_call_id": "c1"}
    broken = NativeCall("c1", "add", '{"a": 1, "b"')
    assert Message("assistant", "", (broken,)).as_dict() == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b"'}}],
    }


def test_a_full_request_states_tools_choice_schema_and_sampling() -> None:
    spec = ToolSpec("add", "Add.", {"type": "object"})
    asked = Request((Message("user", "q"),), (spec,), "required", {"type": "string"}, Sampling(temperature=0.0, stop=("END",)))
    assert asked.as_dict() == {
        "messages": [{"role": "user", "content": "q"}],
        "tools": [{"name": "add", "description": "Add.", "parameters": {"type": "object"}}],
        "tool_choice": "required",
        "response_schema": {"type": "string"},
        "temperature": 0.0,
        "stop": ["END"],
    }
    assert Request((Message("user", "q"),)).as_dict() == {"messages": [{"role": "user", "content": "q"}]}
