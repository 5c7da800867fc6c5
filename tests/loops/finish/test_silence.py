"""The finish loop: where the document is silent."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.loops.finish.helpers import ADD, BAD, GOOD_AND_ADD, finish, native, results, run, says, steps
from tests.loops.helpers import Notes, Script
from tests.rows import row
from whichloop.datasets.arithmetic import SUITE
from whichloop.loops.finish import Finish, Step
from whichloop.protocol import (
    Message,
    Reply,
    Role,
    StopReason,
    Tool,
    Toolbox,
    ToolCall,
    run_sync,
)

REMINDER = (
    "You must respond by calling one of the available tools. Use the provided tools to take action, "
    "or call __finish__ with the appropriate arguments to complete the task."
)

NOT_RUN = "Tool error: not run, __finish__ was called"

BAD_AND_ADD = says(native("add", {"a": 1, "b": 2}), native("__finish__", {"answer": 3}), native("risky", {"x": 1}))


@row("B3-4")
def test_a_retry_uses_a_step_and_without_limit_none_is_possible() -> None:
    model = Script(BAD, BAD, finish("forced"))
    outcome = run(Finish(max_steps=2, parse_retries=5), model)
    assert (outcome.stop, outcome.steps, model.roles) == (StopReason.FORCED, 2, [Role.DECIDE, Role.DECIDE, Role.ANSWER])


@pytest.mark.parametrize("order", [1, -1])
@row("B3-5", "X-3")
def test_a_valid_finish_beside_other_calls_wins_in_either_order(order: int) -> None:
    ran: list[int] = []
    notes = Notes()
    reply = dataclasses.replace(GOOD_AND_ADD, calls=GOOD_AND_ADD.calls[::order])
    outcome = run(steps(), Script(reply), Tool.from_function(ran.append, name="add"), observer=notes)
    assert (outcome.answer, ran) == ("early", [])
    assert [data["tools"] for kind, data in notes.notes if kind == "not_run"] == [["add"]]


@pytest.mark.parametrize("arguments", ['{"a": 1,', "[1]", "7", "null", '"{}"', "[" * 100_000, '{"a": NaN}', '{"a": 1e999}'])
@row("B3-7", "X-6")
def test_finish_arguments_that_are_no_object_are_an_error_result(arguments: str) -> None:
    model = Script(says(native("add", arguments)), finish("ok"))
    outcome = run(steps(), model)
    assert results(model.requests[1])[0].startswith("Tool error: the arguments of 'add' ")
    assert outcome.answer == "ok"
    assert run(steps(parse_retries=0), Script(says(native("__finish__", arguments)))).stop is StopReason.PARSE_FAILED


@row("X-6")
def test_finish_no_arguments_at_all_are_an_empty_object() -> None:
    model = Script(says(native("ping", "")), finish())
    run(steps(), model, Tool.from_function(lambda: "pong", name="ping", blocking=False))
    assert results(model.requests[1]) == ["pong"]


@row("B3-10")
def test_an_unknown_tool_is_named() -> None:
    model = Script(says(native("nope", {})), finish())
    run(steps(), model)
    assert results(model.requests[1]) == ["Tool error: Tool 'nope' not found"]
    model = Script(says(native("gone", {})), finish())
    run(steps(list_tools_in_error=True), model, Tool.from_function(lambda: "pong", name="ping", blocking=False))
    (text,) = results(model.requests[1])
    assert text.startswith("Tool error: Tool 'gone' not found")
    assert "ping" in text


@pytest.mark.parametrize("reply", [Reply("Let me think."), Reply("")], ids=["text", "empty"])
@row("B3-13", "X-6")
def test_a_reply_without_call_gets_the_reminder_and_counts_as_an_invalid_finish(reply: Reply) -> None:
    model = Script(then=reply)
    outcome = run(steps(), model)
    assert (outcome.stop, len(model.requests), outcome.steps) == (StopReason.PARSE_FAILED, 3, 3)
    assert model.requests[1].messages[-1] == Message("user", REMINDER)
    shown = [message.content for message in model.requests[1].messages if message.role == "assistant"]
    assert shown == ([reply.text] if reply.text else [])


@pytest.mark.parametrize("order", [1, -1])
@row("B3-16", "B3-22", "X-3")
def test_beside_an_invalid_finish_nothing_runs_and_results_keep_call_order(order: int) -> None:
    calls = BAD_AND_ADD.calls[::order]
    model = Script(dataclasses.replace(BAD_AND_ADD, calls=calls), finish("ok"))
    ran: list[int] = []
    run(steps(), model, Tool.from_function(ran.append, name="add"), Tool.from_function(ran.append, name="risky"))
    shown = [message for message in model.requests[1].messages if message.role == "tool"]
    assert [message.call_id for message in shown] == [call.id for call in calls]
    assert [message.content == NOT_RUN for message in shown] == [call.name != "__finish__" for call in calls]
    assert ran == []


@row("B3-17")
def test_no_shipped_tool_evaluates_python() -> None:
    task = next(iter(SUITE().tasks))
    tools = Toolbox(SUITE().open(task).tools)
    for tool in tools:
        names = list(tool.parameters["properties"])
        seen = run_sync(tools.call(ToolCall(tool.name, dict.fromkeys(names, "__import__('os').getpid()"))))
        assert not seen.ok


@row("B3-19")
def test_max_steps_of_zero_goes_straight_to_the_forced_finish() -> None:
    model = Script(finish("now"))
    outcome = run(Finish(max_steps=0), model)
    assert (outcome.answer, outcome.stop, outcome.steps) == ("now", StopReason.FORCED, 0)
    assert [(request.role, request.tool_choice) for request in model.requests] == [(Role.ANSWER, "__finish__")]


@row("B3-20", "X-4")
def test_the_counter_is_of_failures_in_a_row_and_the_forced_phase_starts_its_own() -> None:
    unknown = says(native("nope", {}))
    assert run(steps(max_steps=9), Script(BAD, BAD, ADD, BAD, BAD, finish("ok"))).answer == "ok"
    assert run(steps(max_steps=9), Script(BAD, BAD, unknown, BAD)).stop is StopReason.PARSE_FAILED
    assert run(Finish(max_steps=2), Script(BAD, BAD, BAD, BAD, finish("ok"))).stop is StopReason.FORCED


@pytest.mark.parametrize("order", [1, -1])
@row("B3-16", "B3-5")
def test_when_asked_again_results_stand_in_call_order_for_on_step_too(order: int) -> None:
    heard: list[Any] = []

    def on_step(step: Step) -> None:
        heard.append([(result.name, result.error) for result in step.tool_results])

    reply = dataclasses.replace(GOOD_AND_ADD, calls=GOOD_AND_ADD.calls[::order])
    run(steps(finish_with_tools="ask_again", on_step=on_step), Script(reply, finish()))
    assert heard == [[("add", None), ("__finish__", "NotRun")][::order]]


@row("B3-22")
def test_an_invalid_finish_and_the_calls_beside_it_are_one_step_for_on_step() -> None:
    heard: list[Any] = []

    def on_step(step: Step) -> None:
        heard.append(([call.name for call in step.tool_calls], [result.output == NOT_RUN for result in step.tool_results]))

    run(steps(on_step=on_step), Script(BAD_AND_ADD, BAD, finish()))
    assert heard == [(["add", "__finish__", "risky"], [True, False, True]), (["__finish__"], [False])]
