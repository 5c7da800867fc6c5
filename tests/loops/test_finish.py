"""Design 3, the `__finish__` loop: a test for every row that the loop by itself shows, named after it; then the options."""
# ruff: noqa: N802  (row ids keep their capitals)

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopbench.datasets.arithmetic import SUITE
from loopbench.loops.finish import Finish, Step
from loopbench.protocol import (
    SILENT,
    BudgetExceeded,
    Capabilities,
    Chunk,
    ContextOverflow,
    Message,
    NativeCall,
    Observer,
    Outcome,
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
from loopbench.protocol.names import parse_spec
from loopbench.runs.options import options_of
from loopbench.runs.registry import make_loop

REMINDER = (
    "You must respond by calling one of the available tools. Use the provided tools to take action, "
    "or call __finish__ with the appropriate arguments to complete the task."
)
XML_REQUEST = "You must provide your final answer now. Respond with your answer in the following XML structure:"
NOT_RUN = "Tool error: not run, __finish__ was called"
VERDICT = {
    "type": "object",
    "properties": {"sentiment": {"type": "string"}, "score": {"type": "number"}},
    "required": ["sentiment", "score"],
    "additionalProperties": False,
}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def risky(x: int) -> str:
    """Wants a positive number."""
    if x < 0:
        raise ValueError("x must be positive")
    return "success"


def native(tool: str, arguments: Any, name: str = "") -> NativeCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return NativeCall(name or f"id_{tool}", tool, text)


def says(*calls: NativeCall, text: str = "") -> Reply:
    return Reply(text, calls, None, "tool_calls")


def finish(answer: Any = "x", **others: Any) -> Reply:
    return says(native("__finish__", {"answer": answer, **others}))


ADD = says(native("add", {"a": 1, "b": 2}))
BAD = says(native("__finish__", {"answer": 3}))
GOOD_AND_ADD = says(native("add", {"a": 1, "b": 2}), native("__finish__", {"answer": "early"}))
BAD_AND_ADD = says(native("add", {"a": 1, "b": 2}), native("__finish__", {"answer": 3}), native("risky", {"x": 1}))


def run(
    loop: Finish, model: Any, *functions: Tool | Callable[..., Any], schema: Any = None, observer: Observer = SILENT
) -> Outcome:
    return run_sync(loop.run(Query("Q", schema=schema), Toolbox(functions or (add, risky)), model, observer))


def results(request: Any) -> list[str]:
    """The tool messages that a request shows."""
    return [message.content for message in request.messages if message.role == "tool"]


def steps(**options: Any) -> Finish:
    return Finish(**{"max_steps": 5} | options)


# --- the law: any reply, any tool ---

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
@settings(deadline=None, max_examples=100)
def test_X_21_X_2_G_9_any_reply_and_any_tool_end_in_an_outcome_within_the_limits(
    loop: Finish, replies: list[Any], result: Any, schema: Any, tool_choice: bool, kit: Any
) -> None:
    model = kit.Script(*replies, then=Reply("no call"))
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
@settings(deadline=None, max_examples=12)
def test_G_3_finish_cancellation_at_any_point_leaves_the_loop_and_nothing_running(point: int, forced: bool, kit: Any) -> None:
    async def main() -> None:
        before = asyncio.all_tasks()
        reached = asyncio.Event()
        asked = 0

        class Slow(kit.Script):  # type: ignore[misc]
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


# --- S3: what the document says ---


def test_S3_2_a_request_is_system_text_input_as_xml_and_finish_with_the_schema(kit: Any) -> None:
    model = kit.Script(says(native("__finish__", {"sentiment": "good", "score": 1})))
    query = Query("Is 3 < 4 & so on?", "a passage", VERDICT)
    outcome = run_sync(Finish(system_prompt="Be brief.").run(query, Toolbox([add]), model))
    (request,) = model.requests
    assert [(message.role, message.content) for message in request.messages] == [
        ("system", "Be brief."),
        ("user", "<input>\n    <question>Is 3 &lt; 4 &amp; so on?\n\nContext:\na passage</question>\n</input>"),
    ]
    assert [tool.name for tool in request.tools] == ["add", "__finish__"]
    assert request.tools[-1].parameters == VERDICT
    assert outcome.answer == {"sentiment": "good", "score": 1}


def test_S3_2_without_schema_or_with_one_of_no_object_finish_takes_one_argument(kit: Any) -> None:
    for schema, value in ((None, "7"), ({"type": "integer"}, 7), ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, 7)):
        model = kit.Script(finish(value))
        assert run(Finish(), model, schema=schema).answer == value
        parameters = model.requests[0].tools[-1].parameters
        assert parameters["required"] == ["answer"]
        assert list(parameters["properties"]) == ["answer"]
        assert ("$defs" in parameters) is (schema is not None and "$defs" in schema)


def test_S3_3_text_and_several_calls_in_one_reply(kit: Any) -> None:
    model = kit.Script(says(native("add", {"a": 1, "b": 2}, "i"), native("risky", {"x": 1}, "j"), text="Both."), finish())
    run(steps(), model)
    said, first, second = model.requests[1].messages[-3:]
    assert (said.role, said.content, [call.id for call in said.calls]) == ("assistant", "Both.", ["i", "j"])
    assert [(m.role, m.call_id, m.content) for m in (first, second)] == [("tool", "i", "3"), ("tool", "j", "success")]


def test_S3_4_S3_19_a_valid_finish_ends_the_run_and_other_calls_go_on(kit: Any) -> None:
    outcome = run(steps(), kit.Script(ADD, ADD, finish("3")))
    assert (outcome.answer, outcome.stop, outcome.steps) == ("3", StopReason.FINISHED, 3)


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_S3_5_max_steps_bounds_the_loop_and_none_is_a_single_turn(limit: int, kit: Any) -> None:
    assert Finish().max_steps is None
    model = kit.Script(then=lambda request: ADD if request.role is Role.DECIDE else finish())
    outcome = run(Finish(max_steps=limit), model)
    assert (model.roles, outcome.steps) == ([Role.DECIDE] * limit + [Role.ANSWER], limit)


def test_S3_20_B3_21_at_the_limit_a_forced_call_with_messages_unchanged(kit: Any) -> None:
    model = kit.Script(ADD, finish("late"))
    outcome = run(Finish(max_steps=1), model)
    decided, forced = model.requests
    assert forced.messages[: len(decided.messages)] == decided.messages
    assert [message.role for message in forced.messages[len(decided.messages) :]] == ["assistant", "tool"]
    assert (forced.tool_choice, forced.role, forced.tools) == ("__finish__", Role.ANSWER, decided.tools)
    assert (outcome.answer, outcome.stop) == ("late", StopReason.FORCED)


def test_S3_21_B3_21_without_tool_choice_an_xml_template_is_a_new_message(kit: Any) -> None:
    model = kit.Script(ADD, "<output>\n    <sentiment>good</sentiment>\n    <score>0.95</score>\n</output>")
    model.capabilities = Capabilities(tool_choice=False)
    outcome = run(Finish(max_steps=1), model, schema=VERDICT)
    last = model.requests[-1]
    assert last.messages[-1].role == "user"
    assert last.messages[-1].content.startswith(XML_REQUEST)
    assert "now" not in model.requests[0].messages[1].content
    assert (last.tool_choice, [tool.name for tool in last.tools]) == (None, ["add", "risky", "__finish__"])
    assert (outcome.answer, outcome.stop) == ({"sentiment": "good", "score": 0.95}, StopReason.FORCED)


@pytest.mark.parametrize("retries", [0, 1, 2])
@pytest.mark.parametrize("bad", [BAD, Reply("<output></output>")], ids=["native", "xml"])
def test_S3_23_X_4_B3_3_a_forced_answer_that_stays_invalid_is_a_parse_failure_that_says_forced(
    bad: Reply, retries: int, kit: Any
) -> None:
    model = kit.Script(ADD, then=bad)
    model.capabilities = Capabilities(tool_choice=bad is BAD)
    outcome = run(Finish(max_steps=1, parse_retries=retries), model)
    assert (outcome.stop, outcome.answer) == (StopReason.PARSE_FAILED, None)
    assert model.roles == [Role.DECIDE] + [Role.ANSWER] * (1 + retries)
    assert outcome.details["error"].startswith("ParseError: no valid forced __finish__")


@pytest.mark.parametrize("retries", [0, 1, 2, 4])
def test_S3_26_X_4_B3_20_one_plus_parse_retries_replies_and_the_error_is_shown(retries: int, kit: Any) -> None:
    model = kit.Script(then=BAD)
    outcome = run(Finish(max_steps=9, parse_retries=retries), model)
    assert (outcome.stop, len(model.requests)) == (StopReason.PARSE_FAILED, 1 + retries)
    for request in model.requests[1:]:
        assert "answer: 3 is not of type 'string'" in request.messages[-1].content
    mended = kit.Script(*[BAD] * retries, finish("ok"))
    assert run(Finish(max_steps=9, parse_retries=retries), mended).answer == "ok"
    assert Finish().parse_retries == 2


def test_S3_27_B3_11_tool_errors_name_type_and_message_and_the_loop_goes_on(kit: Any) -> None:
    model = kit.Script(says(native("risky", {"x": -1})), finish("ok"))
    outcome = run(steps(), model)
    assert results(model.requests[1]) == ["Tool error: ValueError: x must be positive"]
    assert outcome.answer == "ok"


def test_S3_32_B3_12_B3_23_a_single_turn_runs_a_tool_once_and_says_that_it_did_not_finish(kit: Any) -> None:
    heard: list[Step] = []
    model = kit.Script(ADD)
    outcome = run(Finish(on_step=heard.append), model)
    assert (outcome.stop, outcome.answer, outcome.steps, len(model.requests)) == (StopReason.UNFINISHED, None, 1, 1)
    unfinished = outcome.details["unfinished"]
    assert unfinished.tool_calls == (ToolCall("add", {"a": 1, "b": 2}),)
    assert [(result.name, result.output) for result in unfinished.tool_results] == [("add", 3)]
    assert heard == []


def test_B3_23_a_single_turn_is_one_step_with_its_parse_retries(kit: Any) -> None:
    model = kit.Script(BAD, Reply("well"), finish("ok"))
    outcome = run(Finish(), model)
    assert (outcome.answer, outcome.steps, len(model.requests)) == ("ok", 1, 3)
    assert run(Finish(), kit.Script(then=BAD)).stop is StopReason.PARSE_FAILED
    assert run(Finish(), kit.Script(BAD, ADD)).stop is StopReason.UNFINISHED


@pytest.mark.parametrize(
    "unforced",
    [ProviderError("tool_choice is not supported", "refused"), ADD, Reply("text only")],
    ids=["refused", "another tool", "text"],
)
def test_S3_43_X_7_a_refusal_or_a_reply_without_finish_falls_to_xml_at_no_cost_in_retries(unforced: Any, kit: Any) -> None:
    ran: list[int] = []

    def count(a: int, b: int) -> int:
        """Count calls."""
        ran.append(a)
        return a

    model = kit.Script(ADD, unforced, "<output><answer>yes</answer></output>")
    outcome = run(Finish(max_steps=1, parse_retries=0), model, Tool.from_function(count, name="add", blocking=False))
    forced, xml = model.requests[1:]
    assert xml.messages[:-1] == forced.messages
    assert (xml.messages[-1].role, xml.tools, xml.tool_choice) == ("user", forced.tools, None)
    assert (outcome.answer, outcome.stop) == ("yes", StopReason.FORCED)
    assert len(ran) == 1


def test_S3_43_X_7_other_provider_errors_do_not_fall_to_xml(kit: Any) -> None:
    model = kit.Script(ADD, ProviderError("429", "rate_limit"), then="<output><answer>x</answer></output>")
    assert run(Finish(max_steps=1), model).stop is StopReason.PROVIDER_ERROR
    assert len(model.requests) == 2


def test_S3_43_the_xml_request_takes_a_native_finish_too(kit: Any) -> None:
    assert run(Finish(max_steps=0, forced_finish="xml"), kit.Script(finish("ok"))).answer == "ok"


def test_S3_45_the_error_is_the_result_of_the_failed_call_and_the_attempt_stays(kit: Any) -> None:
    model = kit.Script(says(native("__finish__", {"answer": 3}, "call_9"), text="Done."), finish())
    run(steps(), model)
    said, error = model.requests[1].messages[-2:]
    assert (said.content, said.calls[0].arguments) == ("Done.", '{"answer": 3}')
    assert (error.role, error.call_id) == ("tool", "call_9")


def test_S3_45_S3_26_an_xml_error_is_a_user_message_after_the_attempt(kit: Any) -> None:
    model = kit.Script("<output>", "<output><answer>ok</answer></output>")
    assert run(Finish(max_steps=0, forced_finish="xml"), model).answer == "ok"
    said, error = model.requests[1].messages[-2:]
    assert (said.role, said.content) == ("assistant", "<output>")
    assert (error.role, error.content.startswith("Error: ")) == ("user", True)


def test_S3_48_calls_of_a_step_run_in_order_or_concurrently_with_results_in_call_order(kit: Any) -> None:
    for parallel in (False, True):
        gate = asyncio.Event()
        order: list[str] = []

        async def first(gate: Any = gate, order: Any = order, parallel: bool = parallel) -> str:
            if parallel:
                await gate.wait()
            order.append("first")
            return "1"

        async def second(gate: Any = gate, order: Any = order) -> str:
            order.append("second")
            gate.set()
            return "2"

        box = [Tool("one", "", {"type": "object"}, first), Tool("two", "", {"type": "object"}, second)]
        model = kit.Script(says(native("one", {}), native("two", {})), finish())
        run(steps(parallel_tools=parallel), model, *box)
        assert results(model.requests[1]) == ["1", "2"]
        assert order == (["second", "first"] if parallel else ["first", "second"])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ([1, 2.5], "[1, 2.5]"),
        (True, "true"),
        (None, "null"),
        (7, "7"),
    ],
)
def test_S3_40_a_tools_output_reaches_the_model_as_text_or_json(value: Any, text: str, kit: Any) -> None:
    model = kit.Script(says(native("give", {})), finish())
    run(steps(), model, Tool.from_function(lambda: value, name="give", blocking=False))
    assert results(model.requests[1]) == [text]


# --- B3: where it is silent ---


def test_B3_4_a_retry_uses_a_step_and_without_limit_none_is_possible(kit: Any) -> None:
    model = kit.Script(BAD, BAD, finish("forced"))
    outcome = run(Finish(max_steps=2, parse_retries=5), model)
    assert (outcome.stop, outcome.steps, model.roles) == (StopReason.FORCED, 2, [Role.DECIDE, Role.DECIDE, Role.ANSWER])


@pytest.mark.parametrize("order", [1, -1])
def test_B3_5_X_3_a_valid_finish_beside_other_calls_wins_in_either_order(order: int, kit: Any) -> None:
    ran: list[int] = []
    notes = kit.Notes()
    reply = dataclasses.replace(GOOD_AND_ADD, calls=GOOD_AND_ADD.calls[::order])
    outcome = run(steps(), kit.Script(reply), Tool.from_function(ran.append, name="add"), observer=notes)
    assert (outcome.answer, ran) == ("early", [])
    assert [data["tools"] for kind, data in notes.notes if kind == "not_run"] == [["add"]]


@pytest.mark.parametrize("arguments", ['{"a": 1,', "[1]", "7", "null", '"{}"', "[" * 100_000, '{"a": NaN}', '{"a": 1e999}'])
def test_B3_7_X_6_finish_arguments_that_are_no_object_are_an_error_result(arguments: str, kit: Any) -> None:
    model = kit.Script(says(native("add", arguments)), finish("ok"))
    outcome = run(steps(), model)
    assert results(model.requests[1])[0].startswith("Tool error: the arguments of 'add' ")
    assert outcome.answer == "ok"
    assert run(steps(parse_retries=0), kit.Script(says(native("__finish__", arguments)))).stop is StopReason.PARSE_FAILED


def test_X_6_finish_no_arguments_at_all_are_an_empty_object(kit: Any) -> None:
    model = kit.Script(says(native("ping", "")), finish())
    run(steps(), model, Tool.from_function(lambda: "pong", name="ping", blocking=False))
    assert results(model.requests[1]) == ["pong"]


def test_B3_10_an_unknown_tool_is_named(kit: Any) -> None:
    model = kit.Script(says(native("nope", {})), finish())
    run(steps(), model)
    assert results(model.requests[1]) == ["Tool error: Tool 'nope' not found"]


@pytest.mark.parametrize("reply", [Reply("Let me think."), Reply("")], ids=["text", "empty"])
def test_B3_13_X_6_a_reply_without_call_gets_the_reminder_and_counts_as_an_invalid_finish(reply: Reply, kit: Any) -> None:
    model = kit.Script(then=reply)
    outcome = run(steps(), model)
    assert (outcome.stop, len(model.requests), outcome.steps) == (StopReason.PARSE_FAILED, 3, 3)
    assert model.requests[1].messages[-1] == Message("user", REMINDER)
    shown = [message.content for message in model.requests[1].messages if message.role == "assistant"]
    assert shown == ([reply.text] if reply.text else [])


@pytest.mark.parametrize("order", [1, -1])
def test_B3_16_B3_22_X_3_beside_an_invalid_finish_nothing_runs_and_results_keep_call_order(order: int, kit: Any) -> None:
    calls = BAD_AND_ADD.calls[::order]
    model = kit.Script(dataclasses.replace(BAD_AND_ADD, calls=calls), finish("ok"))
    ran: list[int] = []
    run(steps(), model, Tool.from_function(ran.append, name="add"), Tool.from_function(ran.append, name="risky"))
    shown = [message for message in model.requests[1].messages if message.role == "tool"]
    assert [message.call_id for message in shown] == [call.id for call in calls]
    assert [message.content == NOT_RUN for message in shown] == [call.name != "__finish__" for call in calls]
    assert ran == []


def test_B3_17_no_shipped_tool_evaluates_python() -> None:
    task = next(iter(SUITE().tasks))
    tools = Toolbox(SUITE().open(task).tools)
    for tool in tools:
        names = list(tool.parameters["properties"])
        seen = run_sync(tools.call(ToolCall(tool.name, dict.fromkeys(names, "__import__('os').getpid()"))))
        assert not seen.ok


def test_B3_19_max_steps_of_zero_goes_straight_to_the_forced_finish(kit: Any) -> None:
    model = kit.Script(finish("now"))
    outcome = run(Finish(max_steps=0), model)
    assert (outcome.answer, outcome.stop, outcome.steps) == ("now", StopReason.FORCED, 0)
    assert [(request.role, request.tool_choice) for request in model.requests] == [(Role.ANSWER, "__finish__")]


def test_B3_20_X_4_the_counter_is_of_failures_in_a_row_and_the_forced_phase_starts_its_own(kit: Any) -> None:
    unknown = says(native("nope", {}))
    assert run(steps(max_steps=9), kit.Script(BAD, BAD, ADD, BAD, BAD, finish("ok"))).answer == "ok"
    assert run(steps(max_steps=9), kit.Script(BAD, BAD, unknown, BAD)).stop is StopReason.PARSE_FAILED
    assert run(Finish(max_steps=2), kit.Script(BAD, BAD, BAD, BAD, finish("ok"))).stop is StopReason.FORCED


@pytest.mark.parametrize("order", [1, -1])
def test_B3_16_B3_5_when_asked_again_results_stand_in_call_order_for_on_step_too(order: int, kit: Any) -> None:
    heard: list[Any] = []

    def on_step(step: Step) -> None:
        heard.append([(result.name, result.error) for result in step.tool_results])

    reply = dataclasses.replace(GOOD_AND_ADD, calls=GOOD_AND_ADD.calls[::order])
    run(steps(finish_with_tools="ask_again", on_step=on_step), kit.Script(reply, finish()))
    assert heard == [[("add", None), ("__finish__", "NotRun")][::order]]


def test_B3_22_an_invalid_finish_and_the_calls_beside_it_are_one_step_for_on_step(kit: Any) -> None:
    heard: list[Any] = []

    def on_step(step: Step) -> None:
        heard.append(([call.name for call in step.tool_calls], [result.output == NOT_RUN for result in step.tool_results]))

    run(steps(on_step=on_step), kit.Script(BAD_AND_ADD, BAD, finish()))
    assert heard == [(["add", "__finish__", "risky"], [True, False, True]), (["__finish__"], [False])]


# --- the options ---


def test_option_max_steps_bounds_the_steps_and_is_never_negative(kit: Any) -> None:
    for limit in (1, 3):
        assert run(Finish(max_steps=limit), kit.Script(*[ADD] * limit, finish())).steps == limit
    with pytest.raises(ValueError, match="max_steps"):
        Finish(max_steps=-1)


@pytest.mark.parametrize("retries", [0, 1, 2, 5])
def test_option_parse_retries_is_how_often_an_invalid_finish_is_corrected(retries: int, kit: Any) -> None:
    model = kit.Script(then=BAD)
    run(Finish(parse_retries=retries), model)
    assert len(model.requests) == 1 + retries
    with pytest.raises(ValueError, match="parse_retries"):
        Finish(parse_retries=-1)


def test_option_retries_consume_steps_or_leave_them(kit: Any) -> None:
    for consume, stop, used in ((True, StopReason.FORCED, 2), (False, StopReason.FINISHED, 2)):
        outcome = run(Finish(max_steps=2, retries_consume_steps=consume), kit.Script(BAD, ADD, finish("ok")))
        assert (outcome.stop, outcome.steps) == (stop, used)


def test_option_finish_with_tools_asks_again_after_the_others_have_run(kit: Any) -> None:
    model = kit.Script(GOOD_AND_ADD, finish("late"))
    outcome = run(steps(finish_with_tools="ask_again"), model)
    assert results(model.requests[1])[0] == "3"
    assert results(model.requests[1])[1].startswith("Not accepted yet")
    assert (outcome.answer, outcome.steps) == ("late", 2)
    assert run(Finish(finish_with_tools="ask_again"), kit.Script(GOOD_AND_ADD)).answer == "early"  # nothing can be asked again
    with pytest.raises(ValueError, match="finish_with_tools"):
        Finish(finish_with_tools="maybe")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "replies", "choices", "stop"),
    [
        ("both", [Reply("no"), "<output><answer>x</answer></output>"], ["__finish__", None], StopReason.FORCED),
        ("tool_choice", [finish()], ["__finish__"], StopReason.FORCED),
        ("tool_choice", [Reply("no")], ["__finish__"], StopReason.MAX_STEPS),
        ("xml", ["<output><answer>x</answer></output>"], [None], StopReason.FORCED),
        ("off", [], [], StopReason.MAX_STEPS),
    ],
)
def test_option_forced_finish_is_both_or_one_way_or_a_canned_text(
    option: Any, replies: list[Any], choices: list[Any], stop: StopReason, kit: Any
) -> None:
    model = kit.Script(ADD, *replies)
    outcome = run(Finish(max_steps=1, forced_finish=option), model)
    assert [request.tool_choice for request in model.requests[1:]] == choices
    assert outcome.stop is stop
    assert outcome.answer == ("x" if stop is StopReason.FORCED else "Maximum steps reached without a final answer")
    with pytest.raises(ValueError, match="forced_finish"):
        Finish(forced_finish="maybe")  # type: ignore[arg-type]


def test_option_parallel_tools_runs_the_calls_of_a_step_at_once(kit: Any) -> None:
    for parallel, most in ((False, 1), (True, 3)):
        inside = peak = 0

        async def wait() -> int:
            nonlocal inside, peak
            inside += 1
            peak = max(peak, inside)
            await asyncio.sleep(0)
            inside -= 1
            return peak

        reply = says(*[native("wait", {}, str(index)) for index in range(3)])
        run(steps(parallel_tools=parallel), kit.Script(reply, finish()), Tool("wait", "", {"type": "object"}, wait))
        assert peak == most


def test_option_list_tools_in_error_adds_the_known_ones(kit: Any) -> None:
    model = kit.Script(says(native("nope", {})), finish())
    run(steps(list_tools_in_error=True), model)
    assert results(model.requests[1]) == ["Tool error: Tool 'nope' not found. Available tools: add, risky, __finish__"]


def test_option_typed_output_off_takes_a_text_whatever_the_schema(kit: Any) -> None:
    for typed, names in ((True, ["sentiment", "score"]), (False, ["answer"])):
        model = kit.Script(says(native("__finish__", {"sentiment": "s", "score": 1} if typed else {"answer": "s"})))
        outcome = run(Finish(typed_output=typed), model, schema=VERDICT)
        assert list(model.requests[0].tools[-1].parameters["properties"]) == names
        assert outcome.answer == ({"sentiment": "s", "score": 1} if typed else "s")


def test_option_system_prompt_is_the_first_message_or_there_is_none(kit: Any) -> None:
    for text, roles in (("Be brief.", ["system", "user"]), (None, ["user"])):
        model = kit.Script(finish())
        run(Finish(system_prompt=text), model)
        assert [message.role for message in model.requests[0].messages] == roles
        assert text is None or model.requests[0].messages[0].content == text


def test_option_temperature_and_option_max_tokens_reach_every_request(kit: Any) -> None:
    model = kit.Script(ADD, finish())
    run(Finish(max_steps=1, temperature=0.5, max_tokens=9), model)
    assert [request.sampling.as_dict() for request in model.requests] == [{"temperature": 0.5, "max_tokens": 9}] * 2


def test_option_temperature_is_left_to_the_model_by_default(kit: Any) -> None:
    model = kit.Script(finish())
    run(Finish(), model)
    assert model.requests[0].sampling.as_dict() == {}


def test_option_max_tokens_must_be_positive() -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        Finish(max_tokens=0)


def test_options_are_the_fields_with_a_line_each_and_hooks_are_none_of_them() -> None:
    options = options_of(Finish)
    assert all(option.doc for option in options.values())
    assert set(options) == {item.name for item in dataclasses.fields(Finish)} - {"on_step", "on_stream", "resolver", "program"}
    assert Finish(on_step=lambda step: None) == Finish()


# --- G and X: rules for all designs ---


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
def test_G_2_finish_every_ending_has_its_stop_reason(loop: Finish, replies: list[Any], stop: StopReason, kit: Any) -> None:
    outcome = run(loop, kit.Script(*replies))
    assert outcome.stop is stop
    assert stop in loop.stops
    assert (outcome.answer is not None) == (stop in (StopReason.FINISHED, StopReason.FORCED, StopReason.MAX_STEPS))


@pytest.mark.parametrize("forced", ["both", "tool_choice", "xml", "off"])
@pytest.mark.parametrize("limit", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("consume", [True, False])
@pytest.mark.parametrize("retries", [0, 2])
def test_X_21_finish_declares_exactly_the_stops_that_it_can_reach(
    limit: int | None, forced: Any, consume: bool, retries: int, kit: Any
) -> None:
    loop = Finish(max_steps=limit, forced_finish=forced, retries_consume_steps=consume, parse_retries=retries)
    ends = [
        finish(),
        Reply("no"),
        BAD,
        Reply("<output><answer>x</answer></output>"),
        ProviderError("down"),
        ContextOverflow("long"),
    ]
    reached = set()
    for many in range(4):
        for first in (ADD, BAD):
            for end in ends:
                reached.add(run(loop, kit.Script(*[first] * many, then=end)).stop)
    assert reached == loop.stops


def test_G_3_finish_a_provider_error_is_followed_by_no_further_call(kit: Any) -> None:
    model = kit.Script(ADD, ProviderError("down"), then=finish())
    outcome = run(steps(), model)
    assert (len(model.requests), outcome.details["error"]) == (2, "ProviderError: down")


@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), asyncio.CancelledError(), ZeroDivisionError("a bug")])
@pytest.mark.parametrize("limit", [1, 5])
def test_G_3_finish_budget_cancellation_and_bugs_leave_the_loop(leaving: BaseException, limit: int, kit: Any) -> None:
    with pytest.raises(type(leaving)):
        run(Finish(max_steps=limit), kit.Script(ADD, leaving))


@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), asyncio.CancelledError(), KeyboardInterrupt()])
@pytest.mark.parametrize("parallel", [True, False])
def test_G_3_finish_what_leaves_a_toolbox_leaves_the_loop(leaving: BaseException, parallel: bool, kit: Any) -> None:
    class Leaving(Toolbox):
        async def call(self, call: ToolCall, *, validate: bool = True) -> Any:
            raise leaving

    loop = steps(parallel_tools=parallel)

    async def main() -> Outcome:
        return await loop.run(Query("Q"), Leaving([add]), kit.Script(ADD))

    with pytest.raises(type(leaving)):
        run_sync(main())


@pytest.mark.parametrize(
    ("raised", "text"),
    [(SystemExit(2), "Tool error: SystemExit: 2"), (OSError(), "Tool error: OSError: ")],
)
@pytest.mark.parametrize("blocking", [True, False])
def test_G_5_X_10_finish_whatever_a_tool_raises_is_an_error_result(
    raised: BaseException, text: str, blocking: bool, kit: Any
) -> None:
    def bad() -> None:
        raise raised

    model = kit.Script(says(native("bad", {})), finish())
    run(steps(), model, Tool.from_function(bad, blocking=blocking))
    assert results(model.requests[1]) == [text]


def test_X_10_finish_a_hung_tool_is_an_error_result_beside_one_that_is_done(kit: Any) -> None:
    let_go = threading.Event()
    box = Toolbox([Tool.from_function(lambda: let_go.wait(30), name="hang"), add], time_limit_s=0.02)
    model = kit.Script(says(native("hang", {}), native("add", {"a": 1, "b": 2})), finish())
    run_sync(steps(parallel_tools=True).run(Query("Q"), box, model))
    let_go.set()
    assert results(model.requests[1]) == ["Tool error: TimeoutError: no result within 0.02 s", "3"]


def test_G_6_X_18_finish_refuses_its_own_name_and_no_other(kit: Any) -> None:
    with pytest.raises(ValueError, match="__finish__"):
        run(steps(), kit.Script(), Tool.from_function(add, name="__finish__"))
    for name in ("finish", "submit", "branch"):
        model = kit.Script(says(native(name, {"a": 1, "b": 1})), finish())
        run(steps(), model, Tool.from_function(add, name=name))
        assert results(model.requests[1]) == ["2"]


@given(st.integers(0, 30))
def test_G_8_finish_n_tool_steps_are_n_plus_one_steps(tool_steps: int) -> None:
    assert Finish(parse_retries=1).with_step_limit(tool_steps) == Finish(parse_retries=1, max_steps=tool_steps + 1)


def test_G_8_finish_a_plan_as_long_as_the_limit_can_be_finished(kit: Any) -> None:
    assert run(Finish().with_step_limit(3), kit.Script(ADD, ADD, ADD, finish())).stop is StopReason.FINISHED
    assert make_loop(parse_spec("finish"), 4) == Finish(max_steps=5)
    assert make_loop(parse_spec("finish(max_steps=2)"), 4) == Finish(max_steps=2)


def test_every_request_names_role_codec_and_the_same_scope(kit: Any) -> None:
    model = kit.Script(ADD, Reply("no"), "<output><answer>x</answer></output>")
    run(Finish(max_steps=1), model)
    assert [request.codec.name for request in model.requests] == ["finish.native", "finish.forced", "finish.xml"]
    assert [(request.codec.role, request.codec.max_calls) for request in model.requests] == [
        (Role.DECIDE, 64),
        (Role.ANSWER, 0),
        (Role.ANSWER, 0),
    ]
    assert {request.scope for request in model.requests} == {""}


def test_calls_of_equal_ids_in_one_reply_and_over_steps_keep_their_own_results(kit: Any) -> None:
    twice = says(native("add", {"a": 1, "b": 1}, "c"), native("add", {"a": 2, "b": 2}, "c"))
    model = kit.Script(twice, says(native("add", {"a": 3, "b": 3}, "c")), finish())
    run(steps(), model)
    assert results(model.requests[2]) == ["2", "4", "6"]


def test_a_schema_that_points_elsewhere_fetches_nothing(kit: Any) -> None:
    recursive = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}
    assert run(Finish(), kit.Script(says(native("__finish__", {"next": {"next": {}}}))), schema=recursive).answer == {
        "next": {"next": {}}
    }
    wrong = run(Finish(parse_retries=0), kit.Script(says(native("__finish__", {"next": {"other": 1}}))), schema=recursive)
    assert wrong.stop is StopReason.PARSE_FAILED
    assert "next" in wrong.details["error"]


def test_an_observer_that_wants_the_stream_gets_it(kit: Any) -> None:
    class Listening(Observer):
        streams = True

        def __init__(self) -> None:
            self.chunks: list[Chunk] = []

        def chunk(self, chunk: Chunk) -> None:
            self.chunks.append(chunk)

    listening = Listening()
    assert run(Finish(), kit.Script(finish()), observer=listening).answer == "x"
    assert [chunk.reply for chunk in listening.chunks] == [finish()]


def test_run_sync_has_the_arguments_of_run_without_observer() -> None:
    assert list(inspect.signature(Finish.run_sync).parameters) == ["self", "query", "tools", "model"]


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_run_without_hooks_asks_the_same_as_one_whose_hook_does_nothing(data: st.DataObject, kit: Any) -> None:
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
        model = kit.Script(*replies, then=ProviderError("down"))
        run_sync(Finish(max_steps=8, parse_retries=9, on_step=hook).run(Query("Q"), Toolbox([add]), model))
        asked.append([request.messages for request in model.requests])
    assert asked[0] == asked[1]
