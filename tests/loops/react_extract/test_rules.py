"""Design 2, React -> Extract: the rules for all designs, a test for every row, named after it."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.helpers import Script, answer, call, extract, react
from tests.loops.react_extract.helpers import BAD, add, run, shown, trajectory
from tests.rows import row
from whichloop.loops.bare import Bare
from whichloop.loops.react_extract import ReactExtract
from whichloop.protocol import (
    BudgetExceeded,
    ContextOverflow,
    ProviderError,
    Query,
    Role,
    StopReason,
    Tool,
    Toolbox,
    run_sync,
)
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

CONFIGS = st.builds(
    ReactExtract,
    max_iterations=st.integers(1, 5),
    extract=st.booleans(),
    on_parse_error=st.sampled_from(["finish", "observe"]),
    on_unknown_tool=st.sampled_from(["observe", "finish"]),
    parse_retries=st.integers(0, 2),
    overflow_attempts=st.integers(0, 3),
    tell_extract=st.booleans(),
)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


MARKED = st.builds(
    "[[ ## next_thought ## ]]\n{}\n[[ ## next_tool_name ## ]]\n{}\n[[ ## next_tool_args ## ]]\n{}".format,
    st.text(max_size=8),
    st.sampled_from(["add", "any", "finish", "nope", ""]),
    st.one_of(JSON.map(json.dumps), st.text(max_size=8), st.just('{"value": 1}')),
)


EXTRACTED = st.builds("[[ ## reasoning ## ]]\n{}\n[[ ## answer ## ]]\n{}".format, st.text(max_size=8), st.text(max_size=8))


FAILURES = st.sampled_from([ProviderError("down"), ContextOverflow("too long")])


REPLIES = st.one_of(MARKED, MARKED, EXTRACTED, st.text(max_size=20), FAILURES)


class Odd:
    """A result that JSON cannot say and whose own text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


RESULTS = st.one_of(JSON, st.sampled_from([Odd(), {1, 2}, b"\xff", object(), SystemExit(3), KeyError("k"), ValueError("v")]))


@given(loop=CONFIGS, replies=st.lists(REPLIES, max_size=7), result=RESULTS)
@settings(deadline=None, max_examples=cases(40))
@row("X-21", "G-9")
def test_any_reply_and_any_tool_end_in_an_outcome_within_the_limits(loop: ReactExtract, replies: list[Any], result: Any) -> None:
    def anything(value: Any = None) -> Any:
        """Gives whatever it is to give."""
        if isinstance(result, BaseException):
            raise result
        return result

    model = Script(*replies, then=BAD)
    tools = [Tool.from_function(f, name=n, blocking=False) for f, n in ((add, "add"), (anything, "any"))]
    outcome = run(loop, model, *tools)
    decisions, answers = model.roles.count(Role.DECIDE), model.roles.count(Role.ANSWER)
    assert outcome.stop in loop.stops
    assert outcome.steps <= loop.max_iterations
    assert outcome.steps <= decisions <= outcome.steps + loop.overflow_attempts + 1
    assert answers <= (loop.parse_retries + loop.overflow_attempts + 1 if loop.extract else 0)
    assert sorted(model.roles, key=str, reverse=True) == model.roles, "extract stands last"
    indices = sorted({int(key.rpartition("_")[2]) for key in trajectory(outcome)})
    assert indices == list(range(outcome.steps))
    for k in indices:
        kinds = [key.rpartition("_")[0] for key in trajectory(outcome) if key.endswith(f"_{k}")]
        assert kinds in (["thought", "tool_name", "tool_args", "observation"], ["error"])


@row("G-2")
def test_react_extract_finish_then_extract_is_finished() -> None:
    assert run(ReactExtract(), Script(react("finish"), extract("x"))).stop is StopReason.FINISHED


@row("G-2")
def test_react_extract_limit_then_extract_is_forced() -> None:
    outcome = run(ReactExtract(max_iterations=1), Script(react("add", a=1, b=2), extract("3")))
    assert (outcome.stop, outcome.answer) == (StopReason.FORCED, "3")


@row("G-2")
def test_react_extract_unreadable_reply_of_either_call_is_parse_failed() -> None:
    bad_react = run(ReactExtract(), Script(BAD, extract("x")))
    bad_extract = run(ReactExtract(), Script(react("finish"), BAD))
    assert (bad_react.stop, bad_react.answer) == (StopReason.PARSE_FAILED, "x")
    assert (bad_extract.stop, bad_extract.answer) == (StopReason.PARSE_FAILED, None)


@row("G-2")
def test_react_extract_overflow_after_the_attempts_is_context_overflow() -> None:
    outcome = run(ReactExtract(overflow_attempts=0), Script(ContextOverflow("long"), extract("x")))
    assert (outcome.stop, outcome.answer) == (StopReason.CONTEXT_OVERFLOW, "x")


@row("G-2")
def test_react_extract_limit_without_extract_is_max_steps() -> None:
    outcome = run(ReactExtract(max_iterations=1, extract=False), Script(react("add", "Thinking.", a=1, b=2)))
    assert (outcome.stop, outcome.answer) == (StopReason.MAX_STEPS, "Thinking.")


@row("G-2")
def test_react_extract_provider_error() -> None:
    assert run(ReactExtract(), Script(ProviderError("down"))).stop is StopReason.PROVIDER_ERROR


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), ZeroDivisionError("a bug")])
@row("G-3")
def test_react_extract_budget_and_bugs_leave_the_loop(leaving: BaseException, before: int) -> None:
    with pytest.raises(type(leaving)):
        run(ReactExtract(on_parse_error="observe"), Script(*[react("finish")] * before, leaving))


@row("G-4")
def test_errors_keep_the_wording_of_their_design() -> None:
    def gone() -> None:
        raise LookupError("gone")

    model = Script(react("fly"), react("gone"), react("finish"), extract("x"))
    ours = trajectory(run(ReactExtract().with_step_limit(5), model, gone))
    bare = Script(call("fly"), call("gone"), answer("x"))
    theirs = run_sync(Bare().with_step_limit(5).run(Query("Q"), Toolbox([gone]), bare)).details["history"]
    assert [ours["observation_0"], ours["observation_1"]] == ["Error: Unknown tool fly", "Error: gone"]
    assert [json.loads(theirs[k]["content"])["data"] for k in (2, 4)] == [
        "Tool 'fly' not found. Available tools: gone",
        "LookupError: gone",
    ]


@pytest.mark.parametrize("blocking", [True, False])
@row("G-5")
def test_react_extract_interrupts_of_a_tool_leave_the_loop(blocking: bool) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(ReactExtract(), Script(react("stop")), Tool.from_function(stop, blocking=blocking))


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("raised", [ValueError("v"), SystemExit("v"), GeneratorExit("v")])
@row("G-5", "X-10")
def test_react_extract_whatever_else_a_tool_raises_is_an_error_result(raised: BaseException, blocking: bool) -> None:
    def bad() -> None:
        raise raised

    model = Script(react("bad"), react("finish"), extract("x"))
    outcome = run(ReactExtract(), model, Tool.from_function(bad, blocking=blocking))
    assert (trajectory(outcome)["observation_0"], outcome.answer) == ("Error: v", "x")


class Thing:
    def __str__(self) -> str:
        return "a thing"


@row("G-5", "X-10")
def test_react_extract_what_json_cannot_say_is_shown_as_its_text() -> None:
    thing = Thing()
    model = Script(react("give"), react("finish"), extract("x"))
    outcome = run(ReactExtract(), model, Tool.from_function(lambda: thing, name="give"))
    assert trajectory(outcome)["observation_0"] is thing
    assert shown(model.requests[1]).endswith("[[ ## observation_0 ## ]]\na thing")


@row("X-10")
def test_react_extract_a_hung_tool_is_an_error_result() -> None:
    let_go = threading.Event()
    tools = Toolbox([Tool.from_function(lambda: let_go.wait(30), name="hang")], time_limit_s=0.02)
    outcome = run_sync(ReactExtract().run(Query("Q"), tools, Script(react("hang"), react("finish"), extract("x"))))
    let_go.set()
    assert trajectory(outcome)["observation_0"] == "Error: no result within 0.02 s"


@given(st.integers(0, 30))
@row("G-8")
def test_react_extract_n_tool_steps_are_n_plus_one_iterations(tool_steps: int) -> None:
    limited = ReactExtract(tell_extract=True).with_step_limit(tool_steps)
    assert limited == ReactExtract(tell_extract=True, max_iterations=tool_steps + 1)


@row("G-8")
def test_react_extract_the_seeds_limit_is_the_default_and_what_the_user_typed_wins() -> None:
    assert make_loop(parse_spec("react_extract"), 4) == ReactExtract(max_iterations=5)
    assert make_loop(parse_spec("react_extract"), 9) == ReactExtract(max_iterations=10)
    assert make_loop(parse_spec("react_extract(max_iterations=2)"), 9) == ReactExtract(max_iterations=2)
    assert make_loop(parse_spec("react_extract")) == ReactExtract()


@row("G-8")
def test_react_extract_a_plan_as_long_as_the_limit_can_be_finished() -> None:
    model = Script(*[react("add", a=1, b=2)] * 3, react("finish"), extract("3"))
    assert run(ReactExtract().with_step_limit(3), model).stop is StopReason.FINISHED


@row("X-6")
def test_react_extract_empty_replies_are_parse_errors() -> None:
    for reply in ("", " \n", "[[ ## completed ## ]]", "{}", "[]"):
        outcome = run(ReactExtract(), Script(reply, extract("x")))
        assert list(trajectory(outcome)) == ["error_0"]
        assert "lacks next_thought, next_tool_name, next_tool_args" in trajectory(outcome)["error_0"]


@row("X-6")
def test_react_extract_finish_with_arguments_is_still_finish() -> None:
    outcome = run(ReactExtract(), Script(react("finish", answer="early"), extract("late")))
    assert (outcome.answer, outcome.stop) == ("late", StopReason.FINISHED)


@row("X-17")
def test_extract_after_finishing_at_once() -> None:
    model = Script(react("finish"), extract("x"))
    assert run(ReactExtract(), model).answer == "x"
    assert "observation_0" in shown(model.requests[1])


@row("X-17")
def test_extract_after_the_limit_sees_every_observation() -> None:
    model = Script(*[react("add", a=k, b=0) for k in (7, 8)], extract("x"))
    run(ReactExtract(max_iterations=2), model)
    assert re.findall(r"observation_\d ## \]\]\n(\d)", shown(model.requests[-1])) == ["7", "8"]


@row("X-17")
def test_extract_after_an_unreadable_reply() -> None:
    assert run(ReactExtract(), Script(BAD, extract("x"))).answer == "x"


@row("X-17")
def test_extract_after_failed_observations_only() -> None:
    model = Script(*[react("divide", a=1, b=0)] * 2, react("finish"), extract("cannot say"))
    outcome = run(ReactExtract(), model)
    assert shown(model.requests[-1]).count("Error: float division by zero") == 2
    assert (outcome.answer, outcome.stop) == ("cannot say", StopReason.FINISHED)


@row("X-17")
def test_extract_after_a_context_overflow() -> None:
    model = Script(react("add", a=1, b=2), ContextOverflow("l"), ContextOverflow("l"), extract("x"))
    outcome = run(ReactExtract(overflow_attempts=1), model)
    assert (outcome.answer, outcome.stop) == ("x", StopReason.CONTEXT_OVERFLOW)
    assert shown(model.requests[-1]) == ""


@pytest.mark.parametrize(
    ("failure", "stop"),
    [
        (BAD, StopReason.PARSE_FAILED),
        (ProviderError("down"), StopReason.PROVIDER_ERROR),
        (ContextOverflow("long"), StopReason.CONTEXT_OVERFLOW),
    ],
)
@row("X-17")
def test_extract_failing_keeps_the_trajectory(failure: Any, stop: StopReason) -> None:
    outcome = run(ReactExtract(max_iterations=1), Script(react("add", a=1, b=2), then=failure))
    assert (outcome.answer, outcome.stop) == (None, stop)
    assert trajectory(outcome)["observation_0"] == 3


@given(loop=CONFIGS)
@row("X-21")
def test_react_extract_declares_only_stops_of_its_own(loop: ReactExtract) -> None:
    closing = StopReason.FORCED if loop.extract else StopReason.MAX_STEPS
    assert {StopReason.FINISHED, closing, StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW} <= loop.stops
    assert loop.stops <= {
        StopReason.FINISHED, closing, StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW, StopReason.PARSE_FAILED
    }  # fmt: skip
