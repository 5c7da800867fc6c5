"""The finish loop: the rules for all designs, and laws that hold for any reply and any tool."""

from __future__ import annotations

import asyncio
import json
import threading
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.finish.helpers import (
    ADD,
    BAD,
    JSON,
    NOPE,
    VERDICT,
    XML,
    add,
    assert_legal,
    finish,
    native,
    offered,
    results,
    run,
    says,
    steps,
)
from tests.loops.helpers import Script
from tests.rows import row
from whichloop.loops.finish import Finish
from whichloop.protocol import (
    BudgetExceeded,
    Capabilities,
    ContextOverflow,
    NativeCall,
    ProviderError,
    Query,
    Reply,
    Role,
    StopReason,
    Tool,
    Toolbox,
    ToolCall,
    run_sync,
)
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

DOWN, LONG = ProviderError("down"), ContextOverflow("long")


@pytest.mark.parametrize(
    ("loop", "replies", "stop"),
    [
        (steps(), [finish()], StopReason.FINISHED),
        (steps(on_step=lambda step: step.finish(answer="x")), [ADD], StopReason.FINISHED),
        (steps(max_steps=1), [ADD, finish()], StopReason.FORCED),
        (steps(max_steps=1, forced_finish="xml"), [ADD, XML], StopReason.FORCED),
        (steps(), [BAD, BAD, BAD], StopReason.PARSE_FAILED),
        (Finish(), [ADD], StopReason.UNFINISHED),
        (steps(on_step=lambda step: 1 / 0), [ADD], StopReason.TERMINATED),
        (steps(on_stream=lambda chunk: 1 / 0), [ADD], StopReason.TERMINATED),
        (steps(max_steps=1, forced_finish="off"), [ADD], StopReason.MAX_STEPS),
        (steps(), [ADD, DOWN], StopReason.PROVIDER_ERROR),
        (steps(), [ADD, LONG], StopReason.CONTEXT_OVERFLOW),
    ],
    ids=lambda value: value.value if isinstance(value, StopReason) else None,
)
@row("G-2", "G-3")
def test_finish_every_ending_has_its_stop_reason(loop: Finish, replies: list[Any], stop: StopReason) -> None:
    model = Script(*replies)
    outcome = run(loop, model)
    assert (outcome.stop, len(model.requests)) == (stop, len(replies))
    assert stop in loop.stops
    assert (outcome.answer is not None) == (stop in (StopReason.FINISHED, StopReason.FORCED, StopReason.MAX_STEPS))


REACHING = [
    pytest.param(limit, forced, consume, retries, marks=() if (place % 2, place // 2 % 2) == (first, second) else pytest.mark.slow)
    for place, (limit, forced) in enumerate(product([None, 0, 1, 3], ["both", "tool_choice", "xml", "off"]))
    for first, consume in enumerate([True, False])
    for second, retries in enumerate([0, 2])
]
"""Options of `Finish`: each limit with each way to force an answer, and the others in turn; the slow tests take all."""


@pytest.mark.parametrize(("limit", "forced", "consume", "retries"), REACHING)
@row("X-21")
def test_finish_declares_exactly_the_stops_that_it_can_reach(limit: int | None, forced: Any, consume: bool, retries: int) -> None:
    loop = Finish(max_steps=limit, forced_finish=forced, retries_consume_steps=consume, parse_retries=retries)
    reached = set()
    for many in range(4):
        for first in (ADD, BAD) if many else (ADD,):
            for end in (finish(), Reply("no"), BAD, XML, DOWN, LONG):
                reached.add(run(loop, Script(*[first] * many, then=end)).stop)
    assert reached == loop.stops


@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), ZeroDivisionError("a bug")])
@pytest.mark.parametrize("limit", [1, 5])
@row("G-3")
def test_finish_budget_and_bugs_leave_the_loop(leaving: BaseException, limit: int) -> None:
    with pytest.raises(type(leaving)):
        run(Finish(max_steps=limit), Script(ADD, leaving))


@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), asyncio.CancelledError(), KeyboardInterrupt()])
@pytest.mark.parametrize("parallel", [True, False])
@row("G-3")
def test_finish_what_leaves_a_toolbox_leaves_the_loop(leaving: BaseException, parallel: bool) -> None:
    class Leaving(Toolbox):
        async def call(self, call: ToolCall, *, validate: bool = True) -> Any:
            raise leaving

    with pytest.raises(type(leaving)):
        run_sync(steps(parallel_tools=parallel).run(Query("Q"), Leaving([add]), Script(ADD)))


@pytest.mark.parametrize(("raised", "text"), [(SystemExit(2), "SystemExit: 2"), (OSError(), "OSError: ")])
@pytest.mark.parametrize("blocking", [True, False])
@row("G-5", "X-10")
def test_finish_whatever_a_tool_raises_is_an_error_result(raised: BaseException, text: str, blocking: bool) -> None:
    def bad() -> None:
        raise raised

    model = Script(says(native("bad")), finish())
    run(steps(), model, Tool.from_function(bad, blocking=blocking))
    assert results(model.requests[1]) == [f"Tool error: {text}"]


@row("X-10")
def test_finish_a_hung_tool_is_an_error_result_beside_one_that_is_done() -> None:
    let_go = threading.Event()
    hang = Tool.from_function(lambda: let_go.wait(30), name="hang", time_limit_s=0.02)
    model = Script(says(native("hang"), *ADD.calls), finish())
    run(steps(parallel_tools=True), model, hang, add)
    let_go.set()
    assert results(model.requests[1]) == ["Tool error: TimeoutError: no result within 0.02 s", "3"]


@row("G-6", "X-18")
def test_finish_refuses_its_own_name_and_no_other() -> None:
    with pytest.raises(ValueError, match="__finish__"):
        run(steps(), Script(), Tool.from_function(add, name="__finish__"))
    for name in ("finish", "submit", "branch"):
        model = Script(says(native(name, {"a": 1, "b": 1})), finish())
        run(steps(), model, Tool.from_function(add, name=name))
        assert results(model.requests[1]) == ["2"]


@row("G-8")
def test_finish_n_tool_steps_are_n_plus_one_steps() -> None:
    assert Finish(parse_retries=1).with_step_limit(3) == Finish(parse_retries=1, max_steps=4)
    assert run(Finish().with_step_limit(3), Script(ADD, ADD, ADD, finish())).stop is StopReason.FINISHED
    assert make_loop(parse_spec("finish"), 4) == Finish(max_steps=5)
    assert make_loop(parse_spec("finish(max_steps=2)"), 4) == Finish(max_steps=2)


# --- laws ---

NEXT: dict[str, Reply] = {
    "an invalid answer": BAD,
    "a call of no tool": Reply("well"),
    "an unknown tool": NOPE,
    "arguments that do not fit": says(native("add", {"a": "one"})),
    "arguments that are no JSON": says(native("add", '{"a": 1')),
    "a call": ADD,
    "a call whose tool fails": says(native("risky", {"x": -1})),
    "a call beside a refused one": says(*NOPE.calls, *ADD.calls),
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
    assert run(Finish(max_steps=9, parse_retries=1), Script(BAD, NEXT[name], BAD, finish())).stop is StopReason.PARSE_FAILED


class Odd:
    """A result that JSON cannot say and whose own text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


ARGUMENTS = st.one_of(
    st.text(max_size=12),
    JSON.map(json.dumps),
    st.sampled_from(['{"a": 1, "b": 2}', '{"answer": "x"}', '{"answer": 1e999}', "[" * 5000, '{"sentiment": "s", "score": 1}']),
)
CALLS = st.builds(
    NativeCall, st.sampled_from(["", "1", "2"]), st.sampled_from(["add", "any", "nope", "", "__finish__", "__finish__"]), ARGUMENTS
)
REPLIES: st.SearchStrategy[Any] = st.one_of(
    st.builds(Reply, st.text(max_size=10), st.lists(CALLS, max_size=3).map(tuple)),
    st.builds(Reply, st.sampled_from(["", XML.text, "<output>", "<output></output>"])),
    st.sampled_from([DOWN, ProviderError("no", "refused"), LONG]),
)
CONFIGS = st.builds(
    Finish,
    max_steps=st.none() | st.integers(0, 5),
    parse_retries=st.integers(0, 3),
    retries_consume_steps=st.booleans(),
    finish_with_tools=st.sampled_from(["stop", "ask_again"]),
    forced_finish=st.sampled_from(["both", "tool_choice", "xml", "off"]),
    parallel_tools=st.booleans(),
    typed_output=st.booleans(),
    system_prompt=st.sampled_from([None, "S"]),
)
RESULTS = st.one_of(JSON, st.sampled_from([Odd(), {1, 2}, b"\xff", object(), SystemExit(3), KeyError("k"), ValueError("v")]))


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
    def anything(value: Any = None) -> Any:
        """Gives whatever it is to give."""
        if isinstance(result, BaseException):
            raise result
        return result

    model = Script(*replies, then=Reply("no call"))
    model.capabilities = Capabilities(tool_choice=tool_choice)
    tools = [Tool.from_function(each, name=name, blocking=False) for each, name in ((add, "add"), (anything, "any"))]
    outcome = run(loop, model, *tools, schema=schema)
    assert outcome.stop in loop.stops
    limit = 1 if loop.max_steps is None else loop.max_steps
    assert outcome.steps <= limit
    deciding = model.roles.count(Role.DECIDE)
    assert deciding <= limit * (1 if loop.retries_consume_steps and loop.max_steps is not None else 1 + loop.parse_retries)
    assert model.roles.count(Role.ANSWER) <= loop.parse_retries + 2
    for request in model.requests:
        assert_legal(request.messages)
        assert "Q" in request.messages[0 if loop.system_prompt is None else 1].content
        assert offered(request) == ["add", "any", "__finish__"]


@given(replies=st.lists(st.builds(Reply, st.sampled_from(["", "text"]), st.lists(CALLS, max_size=3).map(tuple)), max_size=6))
@settings(deadline=None, max_examples=cases(20))
def test_a_run_without_hooks_asks_the_same_as_one_whose_hook_does_nothing(replies: list[Reply]) -> None:
    asked = []
    for hook in (None, lambda step: None):
        model = Script(*replies, then=DOWN)
        run(Finish(max_steps=8, parse_retries=9, on_step=hook), model)
        asked.append([request.messages for request in model.requests])
    assert asked[0] == asked[1]


@given(point=st.integers(0, 5), forced=st.booleans())
@settings(deadline=None, max_examples=cases(6))
@row("G-3")
def test_finish_cancellation_at_any_point_leaves_the_loop_and_nothing_running(point: int, forced: bool) -> None:
    async def main() -> None:
        before = asyncio.all_tasks()
        reached = asyncio.Event()

        class Slow(Script):
            async def complete(self, request: Any) -> Reply:
                self.requests.append(request)
                if len(self.requests) > point:
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
