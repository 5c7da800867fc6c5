"""The finish loop: what the document says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.loops.finish.helpers import ADD, BAD, VERDICT, add, finish, native, results, run, says, steps
from tests.loops.helpers import Script
from tests.rows import row
from whichloop.loops.finish import Finish, Step
from whichloop.protocol import (
    Capabilities,
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

XML_REQUEST = "You must provide your final answer now. Respond with your answer in the following XML structure:"


@row("S3-2")
def test_a_request_is_system_text_input_as_xml_and_finish_with_the_schema() -> None:
    model = Script(says(native("__finish__", {"sentiment": "good", "score": 1})))
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


@row("S3-2")
def test_without_schema_or_with_one_of_no_object_finish_takes_one_argument() -> None:
    for schema, value in ((None, "7"), ({"type": "integer"}, 7), ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, 7)):
        model = Script(finish(value))
        assert run(Finish(), model, schema=schema).answer == value
        parameters = model.requests[0].tools[-1].parameters
        assert parameters["required"] == ["answer"]
        assert list(parameters["properties"]) == ["answer"]
        assert ("$defs" in parameters) is (schema is not None and "$defs" in schema)


@row("S3-3")
def test_text_and_several_calls_in_one_reply() -> None:
    model = Script(says(native("add", {"a": 1, "b": 2}, "i"), native("risky", {"x": 1}, "j"), text="Both."), finish())
    run(steps(), model)
    said, first, second = model.requests[1].messages[-3:]
    assert (said.role, said.content, [call.id for call in said.calls]) == ("assistant", "Both.", ["i", "j"])
    assert [(m.role, m.call_id, m.content) for m in (first, second)] == [("tool", "i", "3"), ("tool", "j", "success")]


@row("S3-4", "S3-19")
def test_a_valid_finish_ends_the_run_and_other_calls_go_on() -> None:
    outcome = run(steps(), Script(ADD, ADD, finish("3")))
    assert (outcome.answer, outcome.stop, outcome.steps) == ("3", StopReason.FINISHED, 3)


@pytest.mark.parametrize("limit", [1, 2, 4])
@row("S3-5")
def test_max_steps_bounds_the_loop_and_none_is_a_single_turn(limit: int) -> None:
    assert Finish().max_steps is None
    model = Script(then=lambda request: ADD if request.role is Role.DECIDE else finish())
    outcome = run(Finish(max_steps=limit), model)
    assert (model.roles, outcome.steps) == ([Role.DECIDE] * limit + [Role.ANSWER], limit)
    model = Script(then=ADD)
    outcome = run(Finish(), model)
    assert (model.roles, outcome.steps, outcome.stop) == ([Role.DECIDE], 1, StopReason.UNFINISHED)


@row("S3-20", "B3-21")
def test_at_the_limit_a_forced_call_with_messages_unchanged() -> None:
    model = Script(ADD, finish("late"))
    outcome = run(Finish(max_steps=1), model)
    decided, forced = model.requests
    assert forced.messages[: len(decided.messages)] == decided.messages
    assert [message.role for message in forced.messages[len(decided.messages) :]] == ["assistant", "tool"]
    assert (forced.tool_choice, forced.role, forced.tools) == ("__finish__", Role.ANSWER, decided.tools)
    assert (outcome.answer, outcome.stop) == ("late", StopReason.FORCED)


@row("S3-21", "B3-21")
def test_without_tool_choice_an_xml_template_is_a_new_message() -> None:
    model = Script(ADD, "<output>\n    <sentiment>good</sentiment>\n    <score>0.95</score>\n</output>")
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
@row("S3-23", "X-4", "B3-3")
def test_a_forced_answer_that_stays_invalid_is_a_parse_failure_that_says_forced(bad: Reply, retries: int) -> None:
    model = Script(ADD, then=bad)
    model.capabilities = Capabilities(tool_choice=bad is BAD)
    outcome = run(Finish(max_steps=1, parse_retries=retries), model)
    assert (outcome.stop, outcome.answer) == (StopReason.PARSE_FAILED, None)
    assert model.roles == [Role.DECIDE] + [Role.ANSWER] * (1 + retries)
    assert outcome.details["error"].startswith("ParseError: no valid forced __finish__")


@pytest.mark.parametrize("retries", [0, 1, 2, 4])
@row("S3-26", "X-4", "B3-20")
def test_one_plus_parse_retries_replies_and_the_error_is_shown(retries: int) -> None:
    model = Script(then=BAD)
    outcome = run(Finish(max_steps=9, parse_retries=retries), model)
    assert (outcome.stop, len(model.requests)) == (StopReason.PARSE_FAILED, 1 + retries)
    for request in model.requests[1:]:
        assert "answer: 3 is not of type 'string'" in request.messages[-1].content
    mended = Script(*[BAD] * retries, finish("ok"))
    assert run(Finish(max_steps=9, parse_retries=retries), mended).answer == "ok"
    assert Finish().parse_retries == 2


@row("S3-27", "B3-11")
def test_tool_errors_name_type_and_message_and_the_loop_goes_on() -> None:
    model = Script(says(native("risky", {"x": -1})), finish("ok"))
    outcome = run(steps(), model)
    assert results(model.requests[1]) == ["Tool error: ValueError: x must be positive"]
    assert outcome.answer == "ok"


@row("S3-32", "B3-12", "B3-23")
def test_a_single_turn_runs_a_tool_once_and_says_that_it_did_not_finish() -> None:
    heard: list[Step] = []
    model = Script(ADD)
    outcome = run(Finish(on_step=heard.append), model)
    assert (outcome.stop, outcome.answer, outcome.steps, len(model.requests)) == (StopReason.UNFINISHED, None, 1, 1)
    unfinished = outcome.details["unfinished"]
    assert unfinished.tool_calls == (ToolCall("add", {"a": 1, "b": 2}),)
    assert [(result.name, result.output) for result in unfinished.tool_results] == [("add", 3)]
    assert heard == []


@row("B3-23")
def test_a_single_turn_is_one_step_with_its_parse_retries() -> None:
    model = Script(BAD, Reply("well"), finish("ok"))
    outcome = run(Finish(), model)
    assert (outcome.answer, outcome.steps, len(model.requests)) == ("ok", 1, 3)
    assert run(Finish(), Script(then=BAD)).stop is StopReason.PARSE_FAILED
    assert run(Finish(), Script(BAD, ADD)).stop is StopReason.UNFINISHED


@pytest.mark.parametrize(
    "unforced",
    [ProviderError("tool_choice is not supported", "refused"), ADD, Reply("text only")],
    ids=["refused", "another tool", "text"],
)
@row("S3-43", "X-7")
def test_a_refusal_or_a_reply_without_finish_falls_to_xml_at_no_cost_in_retries(unforced: Any) -> None:
    ran: list[int] = []

    def count(a: int, b: int) -> int:
        """Count calls."""
        ran.append(a)
        return a

    model = Script(ADD, unforced, "<output><answer>yes</answer></output>")
    outcome = run(Finish(max_steps=1, parse_retries=0), model, Tool.from_function(count, name="add", blocking=False))
    forced, xml = model.requests[1:]
    assert xml.messages[:-1] == forced.messages
    assert (xml.messages[-1].role, xml.tools, xml.tool_choice) == ("user", forced.tools, None)
    assert (outcome.answer, outcome.stop) == ("yes", StopReason.FORCED)
    assert len(ran) == 1


@row("S3-43", "X-7")
def test_other_provider_errors_do_not_fall_to_xml() -> None:
    model = Script(ADD, ProviderError("429", "rate_limit"), then="<output><answer>x</answer></output>")
    assert run(Finish(max_steps=1), model).stop is StopReason.PROVIDER_ERROR
    assert len(model.requests) == 2


@row("S3-43")
def test_the_xml_request_takes_a_native_finish_too() -> None:
    assert run(Finish(max_steps=0, forced_finish="xml"), Script(finish("ok"))).answer == "ok"


@row("S3-45")
def test_the_error_is_the_result_of_the_failed_call_and_the_attempt_stays() -> None:
    model = Script(says(native("__finish__", {"answer": 3}, "call_9"), text="Done."), finish())
    run(steps(), model)
    said, error = model.requests[1].messages[-2:]
    assert (said.content, said.calls[0].arguments) == ("Done.", '{"answer": 3}')
    assert (error.role, error.call_id) == ("tool", "call_9")


@row("S3-45", "S3-26")
def test_an_xml_error_is_a_user_message_after_the_attempt() -> None:
    model = Script("<output>", "<output><answer>ok</answer></output>")
    assert run(Finish(max_steps=0, forced_finish="xml"), model).answer == "ok"
    said, error = model.requests[1].messages[-2:]
    assert (said.role, said.content) == ("assistant", "<output>")
    assert (error.role, error.content.startswith("Error: ")) == ("user", True)


@row("S3-48")
def test_calls_of_a_step_run_in_order_or_concurrently_with_results_in_call_order() -> None:
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
        model = Script(says(native("one", {}), native("two", {})), finish())
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
@row("S3-40")
def test_a_tools_output_reaches_the_model_as_text_or_json(value: Any, text: str) -> None:
    model = Script(says(native("give", {})), finish())
    run(steps(), model, Tool.from_function(lambda: value, name="give", blocking=False))
    assert results(model.requests[1]) == [text]
