"""The finish loop: laws that hold for any reply and any tool."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.finish.helpers import ADD, BAD, VERDICT, add, finish, native, run, says
from tests.loops.helpers import Script
from tests.rows import row
from whichloop.loops.finish import Finish
from whichloop.protocol import (
    Capabilities,
    ContextOverflow,
    Message,
    NativeCall,
    ProviderError,
    Query,
    Reply,
    Role,
    StopReason,
    Tool,
    Toolbox,
    run_sync,
)

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)

ARGUMENTS = st.one_of(
    st.text(max_size=12),
    JSON.map(json.dumps),
    st.sampled_from(
        ['{"a": 1, "b": 2}', '{"answer": "x"}', '{"answer": 1e999}', '{"a": 1', "[" * 5000, '{"sentiment": "s", "score": 1}']
    ),
    st.fixed_dictionaries({"value": JSON}).map(json.dumps),
)

CALLS = st.builds(
    NativeCall, st.sampled_from(["", "1", "2"]), st.sampled_from(["add", "any", "nope", "", "__finish__", "__finish__"]), ARGUMENTS
)

REPLIES: st.SearchStrategy[Any] = st.one_of(
    st.builds(Reply, st.text(max_size=10), st.lists(CALLS, max_size=3).map(tuple)),
    st.builds(Reply, st.sampled_from(["", "<output><answer>x</answer></output>", "<output>", "<output></output>"])),
    st.sampled_from([ProviderError("down"), ProviderError("no", "refused"), ContextOverflow("too long")]),
)

CONFIGS = st.builds(
    Finish,
    max_steps=st.none() | st.integers(0, 5),
    parse_retries=st.integers(0, 3),
    retries_consume_steps=st.booleans(),
    finish_with_tools=st.sampled_from(["stop", "ask_again"]),
    forced_finish=st.sampled_from(["both", "tool_choice", "xml", "off"]),
    parallel_tools=st.booleans(),
    list_tools_in_error=st.booleans(),
    typed_output=st.booleans(),
    system_prompt=st.sampled_from([None, "S"]),
)


NEXT: dict[str, Reply] = {
    "an invalid answer": BAD,
    "a call of no tool": Reply("well"),
    "an unknown tool": says(native("nope", {"a": 1})),
    "arguments that do not fit": says(native("add", {"a": "one"})),
    "arguments that are no JSON": says(native("add", '{"a": 1')),
    "two refused calls": says(native("nope", {}), native("add", {}, "second")),
    "a call": ADD,
    "a call whose tool fails": says(native("risky", {"x": -1})),
    "a call beside a refused one": says(native("nope", {}), native("add", {"a": 1, "b": 2})),
}
"""What a model may do next, by its name."""
INVALID, RUNS_A_TOOL = (
    ("an invalid answer", "a call of no tool"),
    ("a call", "a call whose tool fails", "a call beside a refused one"),
)


@given(names=st.lists(st.sampled_from([*NEXT]), max_size=12), retries=st.integers(0, 2))
@settings(deadline=None, max_examples=cases(60))
@row("S3-26", "B3-20")
def test_only_a_tool_that_ran_hands_out_fresh_retries(names: list[str], retries: int) -> None:
    failures = asked = 0
    for name in names:
        asked += 1
        failures = 0 if name in RUNS_A_TOOL else failures + (name in INVALID)
        if failures > retries:
            break
    model = Script(*(NEXT[name] for name in names), finish("ok"))
    outcome = run(Finish(max_steps=len(names) + 1, parse_retries=retries), model)
    fails = failures > retries
    assert outcome.stop is (StopReason.PARSE_FAILED if fails else StopReason.FINISHED)
    assert len(model.requests) == asked + (not fails)


@pytest.mark.parametrize("name", sorted(NEXT.keys() - {*INVALID, *RUNS_A_TOOL}))
@row("B3-20")
def test_a_refused_call_between_two_invalid_answers_is_no_fresh_start(name: str) -> None:
    model = Script(BAD, NEXT[name], BAD, finish("ok"))
    assert run(Finish(max_steps=9, parse_retries=1), model).stop is StopReason.PARSE_FAILED


class Odd:
    """A result that JSON cannot say and whose own text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


RESULTS = st.one_of(JSON, st.sampled_from([Odd(), {1, 2}, b"\xff", object(), SystemExit(3), KeyError("k"), ValueError("v")]))


def tools_that_give(result: Any) -> tuple[Tool, ...]:
    def anything(value: Any = None) -> Any:
        """Gives whatever it is to give."""
        if isinstance(result, BaseException):
            raise result
        return result

    return tuple(Tool.from_function(f, name=n, blocking=False) for f, n in ((add, "add"), (anything, "any")))


def assert_legal(messages: tuple[Message, ...]) -> None:
    """Every call has exactly one result, next to it and in order."""
    position = 0
    while position < len(messages):
        message = messages[position]
        assert message.role != "tool"
        answers = messages[position + 1 : position + 1 + len(message.calls)]
        assert [(answer.role, answer.call_id) for answer in answers] == [("tool", call.id) for call in message.calls]
        position += 1 + len(message.calls)


@given(
    loop=CONFIGS,
    replies=st.lists(REPLIES, max_size=8),
    result=RESULTS,
    schema=st.sampled_from([None, VERDICT, {"type": "number"}, {}]),
    tool_choice=st.booleans(),
)
@settings(deadline=None, max_examples=cases(30))
@row("X-21", "X-2", "G-9")
def test_any_reply_and_any_tool_end_in_an_outcome_within_the_limits(
    loop: Finish, replies: list[Any], result: Any, schema: Any, tool_choice: bool
) -> None:
    model = Script(*replies, then=Reply("no call"))
    model.capabilities = Capabilities(tool_choice=tool_choice)
    outcome = run(loop, model, *tools_that_give(result), schema=schema)
    assert outcome.stop in loop.stops
    limit = 1 if loop.max_steps is None else loop.max_steps
    assert outcome.steps <= limit
    deciding = model.roles.count(Role.DECIDE)
    assert deciding <= limit * (1 if loop.retries_consume_steps and loop.max_steps is not None else 1 + loop.parse_retries)
    assert model.roles.count(Role.ANSWER) <= loop.parse_retries + 2
    for request in model.requests:
        assert_legal(request.messages)
        assert "Q" in request.messages[0 if loop.system_prompt is None else 1].content
        assert [tool.name for tool in request.tools] == ["add", "any", "__finish__"]


@given(point=st.integers(0, 5), forced=st.booleans())
@settings(deadline=None, max_examples=cases(6))
@row("G-3")
def test_finish_cancellation_at_any_point_leaves_the_loop_and_nothing_running(point: int, forced: bool) -> None:
    async def main() -> None:
        before = asyncio.all_tasks()
        reached = asyncio.Event()
        asked = 0

        class Slow(Script):
            async def complete(self, request: Any) -> Reply:
                nonlocal asked
                asked += 1
                if asked > point:
                    reached.set()
                    await asyncio.sleep(60)
                return ADD if request.role is Role.DECIDE else BAD

        loop = Finish(max_steps=2 if forced else 9, parse_retries=9, parallel_tools=True)
        task = asyncio.create_task(loop.run(Query("Q"), Toolbox([Tool.from_function(add, blocking=False)]), Slow()))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == before

    run_sync(main())
