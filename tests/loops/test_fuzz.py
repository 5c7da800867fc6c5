"""Every built-in loop whatever a model, a tool or a caller does: always an Outcome, within the limit, nothing left running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.designs import DESIGNS
from tests.rows import row
from whichloop.models.scripted_calls import pieces
from whichloop.protocol import (
    Act,
    Answer,
    Capabilities,
    Chunk,
    Completion,
    ContextOverflow,
    Inexpressible,
    Loop,
    Move,
    NativeCall,
    Outcome,
    PlanTask,
    ProviderError,
    Query,
    Recovery,
    Reply,
    Request,
    Role,
    Tasks,
    Text,
    Tool,
    Toolbox,
    ToolCall,
    Understanding,
    run_sync,
)
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

LIMIT = 3
SPECS = [*DESIGNS, 'guarded(loop="bare", tools=needed, writes=confirmed)']
SPECS += ['repeat_guard(loop="bare", stop_at=3)', 'microcompact(loop="finish", keep=1)', "bare(decision_format=native)"]
SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}

WORDS = st.text(max_size=8) | st.sampled_from(
    ["finish", "__finish__", "add", "[[ ## answer ## ]]", "<output>", "{", "null", "\ud800", "\x00"]
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=5,
)
NUMBERS = st.fixed_dictionaries({"a": st.integers(), "b": st.integers()})
CALLS = st.builds(
    ToolCall, st.sampled_from(["add", "add", "odd", "gone", "finish"]), NUMBERS | st.dictionaries(WORDS, JSON, max_size=2)
)
TASK = st.builds(
    PlanTask,
    st.sampled_from(["1", "2", "3"]),
    WORDS,
    st.sampled_from(["use_tools", "use_tools", "reason"]),
    st.lists(st.sampled_from(["1", "2", "9"]), max_size=2).map(tuple),
)
MOVES: st.SearchStrategy[Move] = st.one_of(
    st.builds(Act, WORDS, st.lists(CALLS, max_size=3).map(tuple)),
    st.builds(Act, WORDS, CALLS.map(lambda call: (call,))),
    st.builds(Answer, WORDS, JSON | st.just({"answer": 3}), st.none() | st.floats(0, 1)),
    st.builds(Answer, WORDS),
    st.builds(Text, WORDS),
    st.builds(Understanding, WORDS),
    st.builds(Tasks, st.lists(TASK, max_size=4).map(tuple)),
    st.builds(Completion, st.booleans(), WORDS),
    st.builds(Recovery, st.sampled_from(["retry", "alternative_tool", "skip", "fail"]), st.none() | CALLS, WORDS),
)
RAW_CALLS = st.builds(
    NativeCall, st.sampled_from(["1", "2", ""]), st.sampled_from(["add", "__finish__", "gone", ""]), WORDS | st.just("[1]")
)
REPLIES = st.builds(Reply, WORDS | st.text(max_size=40), st.lists(RAW_CALLS, max_size=3).map(tuple))
ANSWERS = st.lists(MOVES | MOVES | REPLIES | st.sampled_from([ProviderError("down"), ContextOverflow("too long")]), max_size=14)


class Anything:
    """Gives the drawn answers: a move in the request's own format where that can say it, else as prose; at the end it is down."""

    name = "anything"
    capabilities = Capabilities()

    def __init__(self, answers: list[Any], cancel_at: int | None = None) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []
        self.ticks = 0
        self.cancel_at = cancel_at
        self.cancelled = asyncio.Event()

    async def tick(self) -> None:
        """One point at which the run may be cancelled: there it hangs until that happens."""
        self.ticks += 1
        await asyncio.sleep(0)
        if self.ticks - 1 == self.cancel_at:
            self.cancelled.set()
            await asyncio.Event().wait()

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        await self.tick()
        answer = self.answers.pop(0) if self.answers else ProviderError("down")
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Reply):
            return answer
        assert request.codec is not None
        try:
            return request.codec.render(answer)
        except Inexpressible:
            return Reply(repr(answer))

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        for chunk in pieces(await self.complete(request)):
            yield chunk


class Unshowable:
    """A result that nothing can render."""

    def __repr__(self) -> str:
        raise RuntimeError("cannot be shown")


RAISED: list[BaseException] = [ValueError("no"), SystemExit(3), GeneratorExit(), RuntimeError("\ud800"), TimeoutError()]
RESULTS = JSON | st.just(Unshowable()) | st.just({1, 2}) | st.sampled_from(RAISED)


def toolbox(model: Anything, results: list[Any]) -> tuple[Toolbox, list[int]]:
    """Two tools, and how many of their runs are going on."""
    running: list[int] = []
    left = list(results)

    async def add(a: int, b: int) -> Any:
        """Add two numbers."""
        running.append(a)
        try:
            await model.tick()
            result = left.pop(0) if left else a + b
            if isinstance(result, BaseException):
                raise result
            return result
        finally:
            running.remove(a)

    return Toolbox([Tool.from_function(add), Tool.from_function(lambda x=0: [x], name="odd", blocking=False)]), running


async def bounded(loop: Loop, query: Query, tools: Toolbox, model: Anything) -> Outcome:
    outcome = await loop.run(query, tools, model)
    assert asyncio.all_tasks() == {asyncio.current_task()}, "something is left running"
    return outcome


def limited(spec: str) -> Loop:
    return make_loop(parse_spec(spec), LIMIT)


EVERY = settings(
    deadline=None, max_examples=cases(15), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("spec", SPECS)
@EVERY
@given(answers=ANSWERS, results=st.lists(RESULTS, max_size=6), schema=st.sampled_from([None, SCHEMA]))
@row("X-21", "G-9")
def test_any_replies_and_results_end_in_a_declared_outcome_within_the_limit(
    spec: str, answers: list[Any], results: list[Any], schema: Any
) -> None:
    loop, model = limited(spec), Anything(answers)
    tools, running = toolbox(model, results)
    outcome = run_sync(bounded(loop, Query("What is 2 + 3?", schema=schema), tools, model))
    assert outcome.stop in loop.stops
    assert not running
    asked = [request.role for request in model.requests]
    assert asked.count(Role.DECIDE) <= LIMIT + 1
    assert asked.count(Role.SELECT) <= LIMIT
    assert all(request.codec is not None and request.codec.role is request.role for request in model.requests)


@pytest.mark.parametrize("spec", SPECS)
@EVERY
@given(answers=ANSWERS, point=st.integers(0, 12))
@row("X-15")
def test_cancelled_at_any_point_a_run_is_over_and_nothing_goes_on(spec: str, answers: list[Any], point: int) -> None:
    async def cancel() -> None:
        loop, model = limited(spec), Anything(answers, cancel_at=point)
        tools, running = toolbox(model, [])
        run = asyncio.create_task(loop.run(Query("What is 2 + 3?"), tools, model))
        hanging = asyncio.create_task(model.cancelled.wait())
        await asyncio.wait({run, hanging}, return_when=asyncio.FIRST_COMPLETED)
        hanging.cancel()
        if not run.done():
            run.cancel()
        done, _ = await asyncio.wait({run}, timeout=5)
        assert done, "cancellation was swallowed"
        assert run.cancelled() or (not model.cancelled.is_set() and run.result().stop in loop.stops)
        asked = len(model.requests)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() - {asyncio.current_task(), hanging} == set()
        assert (running, len(model.requests)) == ([], asked)

    run_sync(cancel())
