"""Design 4, the bare loop: each option changes what the loop does."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import pytest

from tests.loops.bare.helpers import (
    ADD,
    BAD,
    add,
    answer,
    call,
    divide,
    observed,
    run,
)
from tests.loops.helpers import Script
from tests.loops.looking import check_tool_max_chars, check_tool_threads, check_tool_timeout_s
from tests.rows import row
from whichloop.loops.bare import Bare
from whichloop.loops.bare_standalone import run_agent
from whichloop.loops.shared.option_checks import ToolSettings
from whichloop.protocol import (
    Message,
    NativeCall,
    ProviderError,
    Query,
    Reply,
    StopReason,
    Toolbox,
    run_sync,
)

FORMATS_SAY: dict[str, tuple[Any, Any]] = {
    "json": (
        Reply('{"thought": "Go.", "tool_name": "add", "arguments": {"a": 2, "b": 3}}'),
        Reply('{"final_answer": "5"}'),
    ),
    "fields": (Reply('Thought: Go.\nTool: add\nArguments: {"a": 2, "b": 3}'), Reply("Thought: Done.\nAnswer: 5")),
    "native": (Reply("Go.", (NativeCall("x1", "add", '{"a": 2, "b": 3}'),)), Reply("5")),
}


@pytest.mark.parametrize("form", FORMATS_SAY)
@row("bare.decision_format")
def test_option_decision_format_changes_how_a_decision_is_written_and_nothing_else(form: str) -> None:
    model = Script(*FORMATS_SAY[form])
    outcome = run_sync(Bare(decision_format=form).run(Query("2 + 3?"), Toolbox((add,)), model))  # type: ignore[arg-type]
    assert (outcome.answer, outcome.stop, outcome.steps) == ("5", StopReason.FINISHED, 1)
    system, question, said, seen = model.requests[-1].messages
    assert "add(a: int, b: int) -> int: " in system.content
    assert question == Message("user", "2 + 3?")
    assert (said.content, said.calls) == (FORMATS_SAY[form][0].text, FORMATS_SAY[form][0].calls)
    assert seen.content == '{"status": "success", "data": "5", "tool_name": "add"}'
    assert (seen.role, seen.call_id) == (("tool", "x1") if form == "native" else ("user", ""))
    assert [(request.tools != (), request.parallel_calls) for request in model.requests] == [
        (form == "native", form != "native")
    ] * 2


@pytest.mark.parametrize(
    ("form", "bad", "words"),
    [
        ("fields", Reply("I think so."), "must have lines that begin with"),
        ("fields", Reply("Thought: Go."), "No Tool: line"),
        ("fields", Reply("Tool: add\nArguments: {a}"), "Arguments: no JSON"),
        ("fields", Reply("Tool: add\nArguments: [1]"), "arguments must be an object"),
        ("native", Reply(""), "The reply is empty"),
        ("native", Reply("", (NativeCall("1", "add", "{"),)), "Invalid JSON in the arguments"),
        ("native", Reply("", (NativeCall("1", "add", "{"),)), '"tool_name": "add"'),
        ("native", Reply("", (NativeCall("1", "add", "{}"), NativeCall("2", "add", "{}"))), "one tool at a time"),
        ("native", Reply("", (NativeCall("1", "", "{}"),)), "No tool name"),
    ],
)
@row("bare.decision_format")
def test_option_decision_format_has_its_unreadable_replies_fed_back(form: Any, bad: Reply, words: str) -> None:
    model = Script(bad, *FORMATS_SAY[form])
    outcome = run_sync(Bare(decision_format=form).run(Query("2 + 3?"), Toolbox((add,)), model))
    assert (outcome.answer, outcome.steps) == ("5", 2)
    shown = model.requests[1].messages[3:]
    assert all(words in message.content for message in shown)
    assert [message.call_id for message in shown] == ([call.id for call in bad.calls] or [""])


@row("bare.decision_format")
def test_option_decision_format_native_needs_a_model_and_bad_ones_are_refused() -> None:
    with pytest.raises(ValueError, match=r"llm_func gives text"):
        run_agent("?", config=Bare(decision_format="native"))
    with pytest.raises(ValueError, match=r"decision_format must be one of json, fields, native, not 'yaml'"):
        Bare(decision_format="yaml")  # type: ignore[arg-type]


@row("bare.max_steps")
def test_option_max_steps_bounds_the_model_calls() -> None:
    for steps in (1, 4):
        model = Script(then=ADD)
        run(Bare(max_steps=steps), model)
        assert len(model.requests) == steps


@pytest.mark.parametrize(("valve", "steps"), [(2, 2), (3, 3), (5, 5), (None, 10)])
@row("bare.max_consecutive_errors")
def test_option_max_consecutive_errors_sets_or_removes_the_valve(valve: int | None, steps: int) -> None:
    outcome = run(Bare(max_consecutive_errors=valve), Script(then=BAD))
    assert outcome.steps == steps
    assert outcome.stop is (StopReason.MAX_STEPS if valve is None else StopReason.ERROR_VALVE)


@pytest.mark.parametrize(("retries", "asked", "stop"), [(0, 1, "parse_failed"), (3, 4, "parse_failed"), (9, 6, "max_steps")])
@row("bare.answer_retries")
def test_option_answer_retries_bounds_refused_answers_apart_from_the_valve(retries: int, asked: int, stop: str) -> None:
    model = Script(then=answer("many"))
    loop = Bare(answer_retries=retries, max_consecutive_errors=1, max_steps=6)
    outcome = run_sync(loop.run(Query("How many?", schema=int), Toolbox([add]), model))
    assert (outcome.answer, outcome.stop, len(model.requests)) == (None, stop, asked)
    assert "the answer is no int" in str(outcome.error)
    with pytest.raises(ValueError, match=r"^answer_retries must be at least 0, not -1$"):
        Bare(answer_retries=-1)


@pytest.mark.parametrize(
    ("replies", "stop", "steps", "value"),
    [
        ([BAD, answer("many"), call("divide", a=1, b=0), call("nope")], "error_valve", 4, None),
        ([answer("many"), BAD, answer("few"), ADD, BAD, BAD, answer("many"), answer("few"), answer(3)], "finished", 8, 3),
        ([answer("many"), BAD, answer("few"), answer("none")], "parse_failed", 3, None),
        ([answer(None)] * 3, "error_valve", 3, None),
    ],
)
def test_errors_and_refused_answers_are_counted_apart_and_a_result_starts_both_counts_again(
    replies: list[str], stop: str, steps: int, value: int | None
) -> None:
    model = Script(*replies)
    outcome = run_sync(Bare().run(Query("How many?", schema=int), Toolbox([add, divide]), model))
    assert (outcome.stop, outcome.steps, outcome.answer, len(model.requests)) == (stop, steps, value, len(replies))


@row("bare.instructions")
def test_option_instructions_are_the_system_text_or_absent() -> None:
    for instructions, roles in (("Be brief.", ["system", "user"]), (None, ["user"])):
        model = Script(answer("x"))
        run(Bare(instructions=instructions), model)
        assert [message.role for message in model.requests[0].messages] == roles


@row("bare.fences")
def test_option_fences_reads_an_object_in_a_code_fence_and_nothing_else() -> None:
    fenced = f"Sure, here is my reply:\n```json\n{answer('5')}\n```\nLet me know."
    read = Bare(fences="read")
    assert run(read, Script(fenced)).answer == "5"
    assert observed(run(Bare(), Script(fenced, answer("x"))))[0]["data"].startswith("Invalid JSON response from LLM")
    for reply in (BAD, "```\nno JSON\n```", "[]", f"{answer('5')} ```"):
        told = [observed(run(loop, Script(reply, answer("x"))))[0]["data"] for loop in (Bare(), read)]
        assert told[0].split(" - ")[0] == told[1].split(" - ")[0]
    inside = answer("Write:\n```\nx = 1\n```\n")
    assert run(read, Script(inside)).answer == run(Bare(), Script(inside)).answer
    with pytest.raises(ValueError, match="fences must be one of refuse, read, not 'cut'"):
        Bare(fences="cut")  # type: ignore[arg-type]


@row("bare.keep_bad_replies")
def test_option_keep_bad_replies_shows_the_model_its_own_words() -> None:
    for keep in (True, False):
        model = Script(BAD, answer("x"))
        run(Bare(keep_bad_replies=keep), model)
        assert (BAD in [message.content for message in model.requests[1].messages]) is keep


@row("bare.validate_arguments")
def test_option_validate_arguments_leaves_the_check_to_the_call_when_off() -> None:
    wrong = call("add", a=1, b=2, c=3)
    checked = observed(run(Bare(), Script(wrong, answer("x"))))[0]["data"]
    unchecked = observed(run(Bare(validate_arguments=False), Script(wrong, answer("x"))))[0]["data"]
    assert checked.startswith("Error: Tool 'add' does not accept")
    assert unchecked == "TypeError: add() got an unexpected keyword argument 'c'"


@row("bare.check_types")
def test_option_check_types_refuses_before_the_call() -> None:
    for check, runs in ((False, 1), (True, 0)):
        ran: list[Any] = []

        def spy(x: int, into: list[Any] = ran) -> None:
            into.append(x)

        run(Bare(check_types=check), Script(call("spy", x="one"), answer("x")), spy)
        assert len(ran) == runs


@row("bare.list_tools_in_error")
def test_option_list_tools_in_error_can_be_left_out() -> None:
    for listed, text in ((True, "Tool 'fly' not found. Available tools: add, divide, lookup"), (False, "Tool 'fly' not found")):
        outcome = run(Bare(list_tools_in_error=listed), Script(call("fly"), answer("x")))
        assert observed(outcome)[0]["data"] == text


@row("bare.error_type_in_text")
def test_option_error_type_in_text_can_be_left_out() -> None:
    for typed, text in ((True, "KeyError: 'e'"), (False, "'e'")):
        outcome = run(Bare(error_type_in_text=typed), Script(call("lookup", key="e"), answer("x")))
        assert observed(outcome)[0]["data"] == text


@row("bare.on_provider_error")
def test_option_on_provider_error_ends_the_run_or_goes_on() -> None:
    for loop, stop in ((Bare(), StopReason.PROVIDER_ERROR), (Bare(on_provider_error="observe"), StopReason.FINISHED)):
        assert run(loop, Script(ProviderError("429"), answer("x"))).stop is stop


def test_every_option_has_a_line_of_documentation() -> None:
    source = inspect.getsource(Bare) + inspect.getsource(ToolSettings)
    for field in dataclasses.fields(Bare):
        assert re.search(rf'    {field.name}: [^\n]+\n    """[A-Zs]', source), field.name


@row("bare.tool_max_chars")
def test_option_tool_max_chars_cuts_what_the_model_reads_and_by_default_nothing_does() -> None:
    check_tool_max_chars(Bare)


@row("bare.tool_timeout_s")
def test_option_tool_timeout_s_limits_a_call_and_by_default_nothing_does(monkeypatch: pytest.MonkeyPatch) -> None:
    check_tool_timeout_s(Bare, monkeypatch)


@row("bare.tool_threads")
def test_option_tool_threads_puts_tools_on_threads_of_their_own_or_on_the_callers() -> None:
    check_tool_threads(Bare, here_by_default=True)
