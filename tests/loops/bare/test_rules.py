"""Design 4, the bare loop: the rules for all designs, a test for every row, named after it."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.bare.helpers import (
    ADD,
    BAD,
    CAP,
    VALVE,
    Thing,
    add,
    answer,
    call,
    observed,
    run,
)
from tests.loops.helpers import Script
from tests.rows import row
from whichloop.loops.bare import Bare
from whichloop.loops.bare_codecs import INSTRUCTIONS
from whichloop.loops.bare_standalone import ToolRegistry, arun_agent, run_agent
from whichloop.protocol import (
    BudgetExceeded,
    ContextOverflow,
    ProviderError,
    Query,
    StopReason,
    Tool,
    Toolbox,
    run_sync,
)
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

CONFIGS = st.builds(
    Bare,
    max_steps=st.integers(1, 6),
    max_consecutive_errors=st.none() | st.integers(1, 6),
    instructions=st.sampled_from([INSTRUCTIONS, None]),
    fences=st.sampled_from(["refuse", "read"]),
    keep_bad_replies=st.booleans(),
    validate_arguments=st.booleans(),
    check_types=st.booleans(),
    list_tools_in_error=st.booleans(),
    error_type_in_text=st.booleans(),
    on_provider_error=st.sampled_from(["stop", "observe"]),
)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


REPLIES = st.one_of(
    st.text(max_size=30),
    JSON.map(json.dumps),
    st.fixed_dictionaries(
        {},
        optional={
            "thought": JSON,
            "tool_name": st.sampled_from(["add", "any", "nope", "", None, 3, []]),
            "arguments": JSON | st.fixed_dictionaries({"value": JSON}) | st.fixed_dictionaries({"a": JSON, "b": JSON}),
            "final_answer": JSON,
        },
    ).map(json.dumps),
    st.sampled_from([ProviderError("down"), ContextOverflow("too long")]),
)


class Odd:
    """A result that JSON cannot say and whose own text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


RESULTS = st.one_of(
    JSON, st.sampled_from([Odd(), {1, 2}, b"\xff", object(), Query("x"), SystemExit(3), KeyError("k"), ValueError("v")])
)


def tools_that_give(result: Any) -> tuple[Tool, ...]:
    def anything(value: Any = None) -> Any:
        """Gives whatever it is to give."""
        if isinstance(result, BaseException):
            raise result
        return result

    return tuple(Tool.from_function(f, name=n, blocking=False) for f, n in ((add, "add"), (anything, "any")))


@given(loop=CONFIGS, replies=st.lists(REPLIES, max_size=7), result=RESULTS)
@settings(deadline=None, max_examples=cases(40))
@row("X-21", "G-9")
def test_any_reply_and_any_tool_end_in_an_outcome_within_the_limits(loop: Bare, replies: list[Any], result: Any) -> None:
    model = Script(*replies, then=BAD)
    outcome = run(loop, model, *tools_that_give(result))
    seen = observed(outcome)
    assert outcome.stop in loop.stops
    assert isinstance(outcome.answer, str) == (outcome.stop not in (StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW))
    assert outcome.steps == len(seen) <= loop.max_steps
    assert len(model.requests) <= loop.max_steps
    errors = [entry["status"] == "error" for entry in seen]
    assert outcome.details["consecutive_errors"] == next((i for i, bad in enumerate(reversed(errors)) if not bad), len(errors))
    if loop.max_consecutive_errors is not None:
        runs = "".join("x" if bad else " " for bad in errors).split()
        assert max(map(len, runs), default=0) <= loop.max_consecutive_errors
    assert all(entry.keys() <= {"status", "data", "tool_name"} and isinstance(entry["data"], str) for entry in seen)
    assert json.loads(json.dumps(outcome.details["history"])) == outcome.details["history"]


@row("G-2")
def test_bare_final_answer_is_finished() -> None:
    assert run(Bare(), Script(answer("x"))).stop is StopReason.FINISHED


@row("G-2")
def test_bare_error_valve() -> None:
    outcome = run(Bare(), Script(then=BAD))
    assert (outcome.stop, outcome.answer) == (StopReason.ERROR_VALVE, VALVE)


@row("G-2")
def test_bare_limit_is_max_steps_with_canned_text() -> None:
    outcome = run(Bare(max_steps=2), Script(then=ADD))
    assert (outcome.stop, outcome.answer) == (StopReason.MAX_STEPS, CAP)


@row("G-2")
def test_bare_provider_error() -> None:
    outcome = run(Bare(), Script(ADD, ProviderError("down")))
    assert (outcome.stop, outcome.answer, outcome.details["error"]) == (StopReason.PROVIDER_ERROR, None, "down")


@row("G-2")
def test_bare_context_overflow_whatever_the_option() -> None:
    for loop in (Bare(), Bare(on_provider_error="observe")):
        outcome = run(loop, Script(ADD, ContextOverflow("long")))
        assert (outcome.stop, outcome.answer) == (StopReason.CONTEXT_OVERFLOW, None)


@row("G-3")
def test_bare_a_provider_error_is_followed_by_no_further_call() -> None:
    model = Script(ProviderError("down"), then=answer("x"))
    run(Bare(), model)
    assert len(model.requests) == 1


@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), ZeroDivisionError("a bug")])
@row("G-3")
def test_bare_budget_and_bugs_leave_the_loop(leaving: BaseException) -> None:
    with pytest.raises(type(leaving)):
        run(Bare(on_provider_error="observe"), Script(ADD, leaving))


@row("G-3")
def test_bare_cancelling_the_run_cancels_the_model_call() -> None:
    async def main() -> list[str]:
        heard: list[str] = []

        async def never(history: list[dict[str, str]], step: int) -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                heard.append("cancelled")
                raise
            return ""

        task = asyncio.create_task(arun_agent("q", llm_func=never))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return heard

    assert run_sync(main()) == ["cancelled"]


@pytest.mark.parametrize("blocking", [True, False])
@row("G-5")
def test_bare_interrupts_of_a_tool_leave_the_loop(blocking: bool) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Bare(), Script(call("stop")), Tool.from_function(stop, blocking=blocking))


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (ValueError("v"), "ValueError - v"),
        (SystemExit(2), "SystemExit: 2"),
        (GeneratorExit("g"), "GeneratorExit: g"),
        (OSError(), "OSError: "),
    ],
)
@row("G-5", "X-10")
def test_bare_whatever_else_a_tool_raises_is_an_error_result(raised: BaseException, text: str, blocking: bool) -> None:
    def bad() -> None:
        raise raised

    outcome = run(Bare(), Script(call("bad"), answer("x")), Tool.from_function(bad, blocking=blocking))
    assert observed(outcome) == [{"status": "error", "data": text, "tool_name": "bad"}]
    assert outcome.answer == "x"


@row("G-5", "X-10")
def test_bare_what_json_cannot_say_is_shown_as_its_text() -> None:
    outcome = run(Bare(), Script(call("give"), answer("x")), Tool.from_function(lambda: Thing(), name="give"))
    assert observed(outcome)[0] == {"status": "success", "data": "a thing", "tool_name": "give"}


@row("X-10")
def test_bare_a_hung_tool_is_an_error_result() -> None:
    let_go = threading.Event()
    tools = Toolbox([Tool.from_function(lambda: let_go.wait(30), name="hang")], time_limit_s=0.02)
    outcome = run_sync(Bare().run(Query("Q"), tools, Script(call("hang"), answer("x"))))
    let_go.set()
    assert observed(outcome)[0]["data"] == "TimeoutError: no result within 0.02 s"
    assert outcome.answer == "x"


@pytest.mark.parametrize("name", ["submit", "branch", "finish", "__finish__"])
@row("G-6", "X-18")
def test_no_tool_name_is_reserved_here(name: str) -> None:
    outcome = run(Bare(), Script(call(name), answer("x")), Tool.from_function(lambda: "ran", name=name))
    assert observed(outcome)[0] == {"status": "success", "data": "ran", "tool_name": name}


@given(st.integers(0, 30))
@row("G-8")
def test_bare_n_tool_steps_are_n_plus_one_steps(tool_steps: int) -> None:
    limited = Bare(check_types=True).with_step_limit(tool_steps)
    assert limited == Bare(check_types=True, max_steps=tool_steps + 1)


@row("G-8")
def test_bare_a_plan_as_long_as_the_limit_can_be_answered() -> None:
    outcome = run(Bare().with_step_limit(3), Script(ADD, ADD, ADD, answer("x")))
    assert (outcome.stop, outcome.steps) == (StopReason.FINISHED, 3)


@row("G-8")
def test_bare_the_seeds_limit_is_the_default_and_what_the_user_typed_wins() -> None:
    assert Bare().max_steps == 10
    assert make_loop(parse_spec("bare"), 4) == Bare(max_steps=5)
    assert make_loop(parse_spec("bare(max_steps=2)"), 4) == Bare(max_steps=2)


ODD_REPLIES = {
    '{"tool_name": "add", "arguments": {"a": 1,': "Invalid JSON response from LLM - ",
    '{"tool_name": "add", "arguments": "{\\"a\\": 1}"}': "arguments must be an object",
    '{"tool_name": "add", "arguments": [1]}': "arguments must be an object",
    '{"tool_name": "add", "arguments": 7}': "arguments must be an object",
    '{"tool_name": "add", "arguments": null}': "Error: Tool 'add' missing required argument 'a'",
    "[1]": "Reply must be a JSON object",
    "": "Invalid JSON response from LLM - ",
    '{"a": NaN}': "Invalid JSON response from LLM - NaN is not JSON",
    "[" * 100_000: "Invalid JSON response from LLM - ",
}


@pytest.mark.parametrize("reply", ODD_REPLIES, ids=lambda reply: reply[:40])
@row("X-6")
def test_bare_malformed_replies_are_observations(reply: str) -> None:
    outcome = run(Bare(), Script(reply, answer("x")))
    assert observed(outcome)[0]["data"].startswith(ODD_REPLIES[reply])
    assert outcome.answer == "x"


@row("X-6")
def test_bare_answer_and_tool_in_one_reply_is_an_answer() -> None:
    assert run(Bare(), Script('{"tool_name": "add", "final_answer": 0}')).answer == "0"


@row("X-19")
def test_valve_and_limit_on_the_same_step_is_max_steps() -> None:
    loop = Bare(max_steps=2, max_consecutive_errors=2)
    assert run(loop, Script(then=BAD)).stop is StopReason.MAX_STEPS
    assert StopReason.ERROR_VALVE not in loop.stops


@row("X-19")
def test_valve_of_zero_is_refused_and_of_one_ends_after_one_error() -> None:
    with pytest.raises(ValueError, match="max_consecutive_errors"):
        Bare(max_consecutive_errors=0)
    outcome = run(Bare(max_consecutive_errors=1), Script(BAD))
    assert (outcome.stop, outcome.steps) == (StopReason.ERROR_VALVE, 1)


@row("X-19")
def test_validation_errors_count_and_model_exceptions_only_when_observed() -> None:
    assert run(Bare(), Script(then=call("add", z=1))).stop is StopReason.ERROR_VALVE
    uncounted = run(Bare(), Script(BAD, ProviderError("down")))
    assert uncounted.details["consecutive_errors"] == 1
    counted = run(Bare(on_provider_error="observe"), Script(BAD, BAD, ProviderError("down")))
    assert (counted.stop, counted.details["consecutive_errors"]) == (StopReason.ERROR_VALVE, 3)


@given(
    loop=st.builds(Bare, max_steps=st.integers(1, 5), max_consecutive_errors=st.none() | st.integers(1, 5)),
    good=st.integers(0, 4),
)
@settings(deadline=None, max_examples=cases(25))
@row("X-21")
def test_bare_the_valve_is_declared_exactly_where_it_can_be_reached(loop: Bare, good: int) -> None:
    stop = run(loop, Script(*[ADD] * good, then=BAD)).stop
    assert stop in loop.stops
    if good == 0:
        assert (stop is StopReason.ERROR_VALVE) is (StopReason.ERROR_VALVE in loop.stops)


def test_run_agent_takes_an_async_llm_func_and_runs_inside_an_event_loop(tools: ToolRegistry) -> None:
    async def llm(history: list[dict[str, str]], step: int) -> str:
        await asyncio.sleep(0)
        return answer(str(step))

    async def main() -> dict[str, Any]:
        return run_agent("q", llm_func=llm, registry=tools)

    assert run_sync(main())["final_answer"] == "0"
