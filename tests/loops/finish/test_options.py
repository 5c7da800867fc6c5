"""The finish loop: a test for every option."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import pytest

from tests.loops.finish.helpers import ADD, BAD, GOOD_AND_ADD, VERDICT, XML, finish, native, results, run, says, steps
from tests.loops.helpers import Script
from tests.loops.looking import check_tool_max_chars, check_tool_threads, check_tool_timeout_s
from tests.rows import row
from whichloop.loops.finish import Finish
from whichloop.protocol import Reply, StopReason
from whichloop.runs.built_in import options_of


@pytest.mark.parametrize(
    ("option", "value"),
    [("max_steps", -1), ("parse_retries", -1), ("max_tokens", 0), ("finish_with_tools", "maybe"), ("forced_finish", "maybe")],
)
@row("finish.max_tokens")
def test_an_option_out_of_range_is_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=option):
        Finish(**{option: value})


@row("finish.max_steps", "S3-5")
def test_option_max_steps_bounds_the_steps_and_none_is_a_single_turn() -> None:
    assert Finish().max_steps is None
    for limit in (1, 2, 4):
        assert run(Finish(max_steps=limit), Script(*[ADD] * limit, finish())).steps == limit


@pytest.mark.parametrize("retries", [0, 1, 2, 5])
@row("finish.parse_retries", "S3-26", "X-4", "B3-20")
def test_option_parse_retries_is_how_often_an_invalid_finish_is_corrected(retries: int) -> None:
    assert Finish().parse_retries == 2
    for limit in (None, 9):
        model = Script(then=BAD)
        assert run(Finish(max_steps=limit, parse_retries=retries), model).stop is StopReason.PARSE_FAILED
        assert len(model.requests) == 1 + retries
        for request in model.requests[1:]:
            assert "answer: ['no text'] is not of type 'string'" in request.messages[-1].content
        assert run(Finish(max_steps=limit, parse_retries=retries), Script(*[BAD] * retries, finish("ok"))).answer == "ok"


@row("finish.retries_consume_steps")
def test_option_retries_consume_steps_or_leave_them() -> None:
    for consume, stop, used in ((True, StopReason.FORCED, 2), (False, StopReason.FINISHED, 2)):
        outcome = run(Finish(max_steps=2, retries_consume_steps=consume), Script(BAD, ADD, finish("ok")))
        assert (outcome.stop, outcome.steps) == (stop, used)


@row("finish.finish_with_tools")
def test_option_finish_with_tools_asks_again_after_the_others_have_run() -> None:
    model = Script(GOOD_AND_ADD, finish("late"))
    outcome = run(steps(finish_with_tools="ask_again"), model)
    assert results(model.requests[1])[0] == "3"
    assert results(model.requests[1])[1].startswith("Not accepted yet")
    assert (outcome.answer, outcome.steps) == ("late", 2)
    assert run(Finish(finish_with_tools="ask_again"), Script(GOOD_AND_ADD)).answer == "early"  # nothing can be asked again


@pytest.mark.parametrize(
    ("option", "replies", "choices", "stop"),
    [
        ("both", [Reply("no"), XML], ["__finish__", None], StopReason.FORCED),
        ("tool_choice", [finish()], ["__finish__"], StopReason.FORCED),
        ("tool_choice", [Reply("no")], ["__finish__"], StopReason.MAX_STEPS),
        ("xml", [XML], [None], StopReason.FORCED),
        ("off", [], [], StopReason.MAX_STEPS),
    ],
)
@row("finish.forced_finish")
def test_option_forced_finish_is_both_or_one_way_or_a_canned_text(
    option: Any, replies: list[Any], choices: list[Any], stop: StopReason
) -> None:
    model = Script(ADD, *replies)
    outcome = run(Finish(max_steps=1, forced_finish=option), model)
    assert [request.tool_choice for request in model.requests[1:]] == choices
    assert outcome.stop is stop
    assert outcome.answer == ("x" if stop is StopReason.FORCED else "Maximum steps reached without a final answer")


@row("finish.list_tools_in_error", "B3-10")
def test_option_list_tools_in_error_adds_the_known_ones() -> None:
    model = Script(says(native("nope")), finish())
    run(steps(list_tools_in_error=True), model)
    assert results(model.requests[1]) == ["Tool error: Tool 'nope' not found. Available tools: add, risky, __finish__"]


@row("finish.typed_output")
def test_option_typed_output_off_takes_a_text_whatever_the_schema() -> None:
    for typed, answer in ((True, {"sentiment": "s", "score": 1}), (False, "s")):
        model = Script(says(native("__finish__", answer if isinstance(answer, dict) else {"answer": answer})))
        assert run(Finish(typed_output=typed), model, schema=VERDICT).answer == answer
        assert list(model.requests[0].tools[-1].parameters["properties"]) == (["sentiment", "score"] if typed else ["answer"])


@row("finish.system_prompt")
def test_option_system_prompt_is_the_first_message_or_there_is_none() -> None:
    for text, roles in (("Be brief.", ["system", "user"]), (None, ["user"])):
        model = Script(finish())
        run(Finish(system_prompt=text), model)
        assert [message.role for message in model.requests[0].messages] == roles
        assert text is None or model.requests[0].messages[0].content == text


@row("finish.temperature", "finish.max_tokens")
def test_option_temperature_and_option_max_tokens_reach_every_request_or_are_left_out() -> None:
    for options in ({"temperature": 0.5, "max_tokens": 9}, {}):
        model = Script(ADD, finish())
        run(Finish(max_steps=1, **options), model)  # type: ignore[arg-type]  # of two types
        assert [request.sampling.as_dict() for request in model.requests] == [options] * 2


def test_options_are_the_fields_with_a_line_each_and_hooks_are_none_of_them() -> None:
    options = options_of(Finish)
    assert all(option.doc for option in options.values())
    assert set(options) == {item.name for item in dataclasses.fields(Finish)} - {"on_step", "on_stream", "resolver", "program"}
    assert Finish(on_step=lambda step: None) == Finish()


@row("finish.tool_max_chars")
def test_option_tool_max_chars_cuts_what_the_model_reads_and_by_default_nothing_does() -> None:
    check_tool_max_chars(partial(Finish, max_steps=4))


@row("finish.tool_timeout_s")
def test_option_tool_timeout_s_limits_a_call_and_by_default_nothing_does(monkeypatch: pytest.MonkeyPatch) -> None:
    check_tool_timeout_s(partial(Finish, max_steps=4), monkeypatch)


@row("finish.tool_threads")
def test_option_tool_threads_puts_tools_on_threads_of_their_own_or_on_the_callers() -> None:
    check_tool_threads(partial(Finish, max_steps=4), here_by_default=True)
