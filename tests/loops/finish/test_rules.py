"""The finish loop: the rules for all designs."""

from __future__ import annotations

import asyncio
import inspect
import threading
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.finish.helpers import ADD, BAD, add, finish, native, results, run, says, steps
from tests.loops.helpers import Script
from tests.rows import row
from whichloop.loops.finish import Finish
from whichloop.protocol import (
    BudgetExceeded,
    Chunk,
    ContextOverflow,
    NativeCall,
    Observer,
    Outcome,
    ProviderError,
    Query,
    Reply,
    Role,
    RunEvent,
    StopReason,
    Tool,
    Toolbox,
    ToolCall,
    run_sync,
)
from whichloop.protocol.events import ReplyChunk
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop


@pytest.mark.parametrize(
    ("loop", "replies", "stop"),
    [
        (steps(), [finish()], StopReason.FINISHED),
        (steps(on_step=lambda step: step.finish(answer="x")), [ADD], StopReason.FINISHED),
        (steps(max_steps=1), [ADD, finish()], StopReason.FORCED),
        (steps(max_steps=1, forced_finish="xml"), [ADD, "<output><answer>x</answer></output>"], StopReason.FORCED),
        (steps(), [BAD, BAD, BAD], StopReason.PARSE_FAILED),
        (Finish(), [BAD, BAD, BAD], StopReason.PARSE_FAILED),
        (Finish(), [ADD], StopReason.UNFINISHED),
        (steps(on_step=lambda step: 1 / 0), [ADD], StopReason.TERMINATED),
        (steps(on_stream=lambda chunk: 1 / 0), [ADD], StopReason.TERMINATED),
        (steps(max_steps=1, forced_finish="off"), [ADD], StopReason.MAX_STEPS),
        (steps(), [ADD, ProviderError("down")], StopReason.PROVIDER_ERROR),
        (steps(), [ADD, ContextOverflow("long")], StopReason.CONTEXT_OVERFLOW),
    ],
    ids=lambda value: value.value if isinstance(value, StopReason) else None,
)
@row("G-2")
def test_finish_every_ending_has_its_stop_reason(loop: Finish, replies: list[Any], stop: StopReason) -> None:
    outcome = run(loop, Script(*replies))
    assert outcome.stop is stop
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
    ends: list[Reply | ProviderError | ContextOverflow] = [
        finish(),
        Reply("no"),
        BAD,
        Reply("<output><answer>x</answer></output>"),
        ProviderError("down"),
        ContextOverflow("long"),
    ]
    reached = set()
    for many in range(4):
        for first in (ADD, BAD) if many else (ADD,):
            for end in ends:
                reached.add(run(loop, Script(*[first] * many, then=end)).stop)
    assert reached == loop.stops


@row("G-3")
def test_finish_a_provider_error_is_followed_by_no_further_call() -> None:
    model = Script(ADD, ProviderError("down"), then=finish())
    outcome = run(steps(), model)
    assert (len(model.requests), outcome.details["error"]) == (2, "ProviderError: down")


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

    loop = steps(parallel_tools=parallel)

    async def main() -> Outcome:
        return await loop.run(Query("Q"), Leaving([add]), Script(ADD))

    with pytest.raises(type(leaving)):
        run_sync(main())


@pytest.mark.parametrize(
    ("raised", "text"),
    [(SystemExit(2), "Tool error: SystemExit: 2"), (OSError(), "Tool error: OSError: ")],
)
@pytest.mark.parametrize("blocking", [True, False])
@row("G-5", "X-10")
def test_finish_whatever_a_tool_raises_is_an_error_result(raised: BaseException, text: str, blocking: bool) -> None:
    def bad() -> None:
        raise raised

    model = Script(says(native("bad", {})), finish())
    run(steps(), model, Tool.from_function(bad, blocking=blocking))
    assert results(model.requests[1]) == [text]


@row("X-10")
def test_finish_a_hung_tool_is_an_error_result_beside_one_that_is_done() -> None:
    let_go = threading.Event()
    box = Toolbox([Tool.from_function(lambda: let_go.wait(30), name="hang", time_limit_s=0.02), add])
    model = Script(says(native("hang", {}), native("add", {"a": 1, "b": 2})), finish())
    run_sync(steps(parallel_tools=True).run(Query("Q"), box, model))
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


@given(st.integers(0, 30))
@row("G-8")
def test_finish_n_tool_steps_are_n_plus_one_steps(tool_steps: int) -> None:
    assert Finish(parse_retries=1).with_step_limit(tool_steps) == Finish(parse_retries=1, max_steps=tool_steps + 1)


@row("G-8")
def test_finish_a_plan_as_long_as_the_limit_can_be_finished() -> None:
    assert run(Finish().with_step_limit(3), Script(ADD, ADD, ADD, finish())).stop is StopReason.FINISHED
    assert make_loop(parse_spec("finish"), 4) == Finish(max_steps=5)
    assert make_loop(parse_spec("finish(max_steps=2)"), 4) == Finish(max_steps=2)


def test_every_request_names_role_codec_and_the_same_scope() -> None:
    model = Script(ADD, Reply("no"), "<output><answer>x</answer></output>")
    run(Finish(max_steps=1), model)
    codecs = [request.codec for request in model.requests if request.codec is not None]
    assert [(codec.name, codec.role, codec.max_calls) for codec in codecs] == [
        ("finish.native", Role.DECIDE, 64),
        ("finish.forced", Role.ANSWER, 0),
        ("finish.xml", Role.ANSWER, 0),
    ]
    assert {request.scope for request in model.requests} == {""}


def test_calls_of_equal_ids_in_one_reply_and_over_steps_keep_their_own_results() -> None:
    twice = says(native("add", {"a": 1, "b": 1}, "c"), native("add", {"a": 2, "b": 2}, "c"))
    model = Script(twice, says(native("add", {"a": 3, "b": 3}, "c")), finish())
    run(steps(), model)
    assert results(model.requests[2]) == ["2", "4", "6"]


def test_a_schema_that_points_elsewhere_fetches_nothing() -> None:
    recursive = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}
    assert run(Finish(), Script(says(native("__finish__", {"next": {"next": {}}}))), schema=recursive).answer == {
        "next": {"next": {}}
    }
    wrong = run(Finish(parse_retries=0), Script(says(native("__finish__", {"next": {"other": 1}}))), schema=recursive)
    assert wrong.stop is StopReason.PARSE_FAILED
    assert "next" in wrong.details["error"]


def test_an_observer_that_wants_the_stream_gets_it() -> None:
    class Listening(Observer):
        streams = True

        def __init__(self) -> None:
            self.chunks: list[Chunk] = []

        def on_event(self, event: RunEvent) -> None:
            if isinstance(event, ReplyChunk):
                self.chunks.append(event.chunk)

    listening = Listening()
    assert run(Finish(), Script(finish()), observer=listening).answer == "x"
    assert [chunk.call.name for chunk in listening.chunks if chunk.call is not None] == ["__finish__"]


def test_run_sync_has_the_arguments_of_run() -> None:
    assert list(inspect.signature(Finish.run_sync).parameters) == ["self", "query", "tools", "model", "observer"]


@settings(deadline=None, max_examples=cases(20))
@given(data=st.data())
def test_a_run_without_hooks_asks_the_same_as_one_whose_hook_does_nothing(data: st.DataObject) -> None:
    replies = data.draw(
        st.lists(
            st.builds(
                Reply,
                st.sampled_from(["", "text"]),
                st.lists(
                    st.builds(
                        NativeCall,
                        st.sampled_from(["1", "2"]),
                        st.sampled_from(["add", "gone"]),
                        st.sampled_from(['{"a": 1, "b": 2}', "{"]),
                    ),
                    max_size=3,
                ).map(tuple),
            ),
            max_size=6,
        )
    )
    asked = []
    for hook in (None, lambda step: None):
        model = Script(*replies, then=ProviderError("down"))
        run_sync(Finish(max_steps=8, parse_retries=9, on_step=hook).run(Query("Q"), Toolbox([add]), model))
        asked.append([request.messages for request in model.requests])
    assert asked[0] == asked[1]
