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
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from tests.cases import cases
from whichloop.protocol import (
    SILENT,
    BudgetExceeded,
    ContextOverflow,
    FunctionModel,
    Message,
    Model,
    ModelError,
    Move,
    NativeCall,
    Observer,
    Outcome,
    ProviderError,
    Query,
    Reply,
    Request,
    Role,
    RunsSync,
    Sampling,
    StopReason,
    Toolbox,
    ToolCall,
    ToolSpec,
    Usage,
    WireError,
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


# --- Messages, requests and moves: plain data, equal by what they say and not by where they came from. ---


short_text = st.text(max_size=10)
json_objects = st.dictionaries(short_text, st.integers() | short_text, max_size=3)
calls = st.lists(st.builds(NativeCall, short_text, short_text, short_text), max_size=2).map(tuple)
messages = st.builds(Message, st.sampled_from(["system", "user", "assistant", "tool"]), short_text, calls, short_text)
samplings = st.builds(
    Sampling,
    temperature=st.none() | st.floats(0, 2),
    max_tokens=st.none() | st.integers(0, 9),
    top_p=st.none() | st.floats(0, 1),
    seed=st.none() | st.integers(),
    stop=st.lists(short_text, max_size=2).map(tuple),
)
requests = st.builds(
    Request,
    messages=st.lists(messages, max_size=3).map(tuple),
    tools=st.lists(st.builds(ToolSpec, short_text, short_text, json_objects), max_size=2).map(tuple),
    tool_choice=st.none() | short_text,
    response_schema=st.none() | json_objects,
    sampling=samplings,
)
usages = st.builds(
    Usage,
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.booleans(),
    st.none() | st.integers(0, 1000).map(float),
)


class Shout:
    """A wire format for prose alone."""

    name = "shout"
    role = Role.ANSWER
    max_calls = 0

    def render(self, move: Move) -> Reply:
        return Reply(repr(move).upper())

    def parse(self, reply: Reply) -> Move:
        raise WireError("nothing can be read back")


@settings(max_examples=cases(25))
@given(requests, st.sampled_from(list(Role)), short_text)
def test_role_scope_and_codec_are_no_part_of_what_is_asked(request_: Request, role: Role, scope: str) -> None:
    marked = dataclasses.replace(request_, role=role, scope=scope, codec=Shout())
    assert marked.as_dict() == request_.as_dict()
    assert marked == request_
    assert digest(marked.as_dict()) == digest(request_.as_dict())
    assert not {"role", "scope", "codec"} & marked.as_dict().keys()


def test_zero_is_a_setting_and_messages_take_openai_form() -> None:
    assert Sampling(temperature=0.0, max_tokens=0, seed=0).as_dict() == {"temperature": 0.0, "max_tokens": 0, "seed": 0}
    assert Sampling().as_dict() == {}


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
    assert Message("user", "hi").as_dict() == {"role": "user", "content": "hi"}
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


def test_a_used_up_budget_is_no_error_of_a_model() -> None:
    """A loop that handles these must let it through."""
    assert issubclass(ProviderError, ModelError)
    assert issubclass(ContextOverflow, ModelError)
    assert not issubclass(BudgetExceeded, ModelError)
