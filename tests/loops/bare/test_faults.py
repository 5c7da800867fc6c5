"""Design 4, the bare loop: faults of the document, and the semantics built."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from tests.loops.bare.helpers import (
    ADD,
    BAD,
    CAP,
    VALVE,
    Llm,
    Thing,
    answer,
    call,
    observations,
    observed,
    run,
)
from tests.loops.helpers import Notes, Script
from tests.rows import row
from whichloop.loops.bare import Bare, create_observation, validate_tool_arguments
from whichloop.loops.bare_codecs import INSTRUCTIONS
from whichloop.loops.bare_standalone import ToolRegistry, run_agent
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


@pytest.mark.parametrize("reply", ["[]", "3", "null", '"text"', "true"])
@row("B4-2")
def test_json_that_is_no_object_is_a_counted_error(tools: ToolRegistry, reply: str) -> None:
    result = run_agent("q", llm_func=Llm(reply), registry=tools)
    assert {entry["data"] for entry in observations(result["history"])} == {"Reply must be a JSON object"}
    assert (result["final_answer"], result["steps"]) == (VALVE, 3)


@row("B4-3")
def test_open_ended_signatures_are_accepted_and_positional_only_ones_refused() -> None:
    def open_ended(a: int, *rest: int, **more: int) -> None: ...

    def strict(a: int, /) -> None: ...

    def with_default(a: int = 1, /, b: int = 2) -> None: ...

    assert validate_tool_arguments(open_ended, {"a": 1, "anything": 2}, "t") is None
    assert "missing required argument 'a'" in str(validate_tool_arguments(open_ended, {"anything": 2}, "t"))
    assert validate_tool_arguments(lambda *args: None, {}, "t") is None
    assert validate_tool_arguments(dict, {"whatever": 1}, "t") is None
    with pytest.raises(ValueError, match="'a' is positional-only"):
        ToolRegistry().register()(strict)
    assert ToolRegistry().register()(with_default) is with_default


@row("B4-4")
def test_a_type_error_inside_a_tool_is_no_complaint_about_arguments(tools: ToolRegistry) -> None:
    tools.register("broken")(lambda: "a" + 1)  # type: ignore[operator]
    seen = observations(run_agent("q", 1, Llm(call("broken")), registry=tools)["history"])
    assert seen[0]["data"] == 'TypeError: can only concatenate str (not "int") to str'


@pytest.mark.parametrize("arguments", ["[1, 2]", '"a"', "3", "false"])
@row("B4-5")
def test_arguments_must_be_an_object(tools: ToolRegistry, arguments: str) -> None:
    result = run_agent("q", 1, Llm(f'{{"tool_name": "add", "arguments": {arguments}}}'), registry=tools)
    assert observations(result["history"]) == [{"status": "error", "data": "arguments must be an object", "tool_name": "add"}]


@pytest.mark.parametrize("reply", ['{"tool_name": "now"}', '{"tool_name": "now", "arguments": null}'])
@row("B4-5")
def test_null_or_absent_arguments_are_none(tools: ToolRegistry, reply: str) -> None:
    tools.register("now")(lambda: "noon")
    assert observations(run_agent("q", 1, Llm(reply), registry=tools)["history"])[0]["data"] == "noon"


@pytest.mark.parametrize("reply", [BAD + "x" * 3000, "[]"])
@row("B4-6")
def test_an_unreadable_reply_is_shown_again_cut_at_2000_characters(reply: str) -> None:
    kept = run(Bare(), Script(reply, answer("x"))).details["history"]
    assert [entry["role"] for entry in kept] == ["user", "assistant", "observation", "assistant"]
    assert kept[1]["content"] == reply[:2000]
    bare_form = run(Bare(keep_bad_replies=False), Script(reply, answer("x"))).details["history"]
    assert [entry["role"] for entry in bare_form] == ["user", "observation", "assistant"]


@pytest.mark.parametrize("keep", [True, False])
@row("B4-6")
def test_a_legible_reply_that_states_no_move_stands_whole_in_the_history(keep: bool) -> None:
    reply = json.dumps({"thought": "x" * 3000})
    history = run(Bare(keep_bad_replies=keep), Script(reply, answer("x"))).details["history"]
    assert history[1] == {"role": "assistant", "content": reply}


@row("B4-7")
def test_the_limit_wins_over_a_valve_reached_on_the_last_step() -> None:
    outcome = run(Bare(max_steps=3, max_consecutive_errors=3), Script(then=BAD))
    assert (outcome.answer, outcome.stop, outcome.steps) == (CAP, StopReason.MAX_STEPS, 3)
    assert outcome.details["consecutive_errors"] == 3


@row("B4-8")
def test_a_null_answer_is_none_given(tools: ToolRegistry) -> None:
    with_tool = '{"final_answer": null, "tool_name": "add", "arguments": {"a": 1, "b": 2}}'
    history = run_agent("q", llm_func=Llm(with_tool, answer("x")), registry=tools)["history"]
    assert observations(history)[0]["data"] == "3"
    alone = run_agent("q", 1, Llm(answer(None)), registry=tools)
    assert observations(alone["history"])[0]["data"] == "No tool_name specified"


@pytest.mark.parametrize(
    ("value", "text"), [("", ""), (0, "0"), (False, "false"), ([], "[]"), ({"é": 1}, '{"é": 1}'), ("3", "3"), (2.5, "2.5")]
)
@row("B4-8")
def test_any_other_answer_ends_the_run_as_text(tools: ToolRegistry, value: Any, text: str) -> None:
    result = run_agent("q", llm_func=Llm(answer(value)), registry=tools)
    assert (result["final_answer"], result["steps"]) == (text, 0)


@row("B4-9")
def test_the_answer_wins_and_the_dropped_call_is_noted() -> None:
    notes, ran = Notes(), []
    both = '{"final_answer": "x", "tool_name": "spy", "arguments": {}}'
    outcome = run(Bare(), Script(both), Tool.from_function(lambda: ran.append(1), name="spy"), observer=notes)
    assert (outcome.answer, outcome.stop, ran) == ("x", StopReason.FINISHED, [])
    assert notes.notes == [("not_run", {"tool_name": "spy", "reason": "final_answer wins"})]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("it's", "it's"),
        ({"a": [1]}, '{"a": [1]}'),
        ([1, "b"], '[1, "b"]'),
        (True, "true"),
        (2.0, "2.0"),
        (None, "None"),
        (Thing(), "a thing"),
    ],
)
@row("B4-10")
def test_results_keep_their_structure_as_text(tools: ToolRegistry, value: Any, text: str) -> None:
    assert create_observation("success", value)["data"] == text
    tools.register("give")(lambda: value)
    assert observations(run_agent("q", 1, Llm(call("give")), registry=tools)["history"])[0]["data"] == text


@row("B4-11")
def test_a_failing_llm_func_ends_the_run_and_is_logged(tools: ToolRegistry, caplog: pytest.LogCaptureFixture) -> None:
    def broken(history: list[dict[str, str]], step: int) -> str:
        raise ConnectionError("no route")

    result = run_agent("q", llm_func=broken, registry=tools)
    assert (result["final_answer"], result["steps"]) == (None, 0)
    assert "ConnectionError: no route" in caplog.text


@row("B4-11")
def test_observe_feeds_the_failure_back_and_counts_it() -> None:
    loop, model = Bare(on_provider_error="observe"), Script(ProviderError("503"), answer("x"))
    outcome = run(loop, model)
    assert (outcome.answer, outcome.steps) == ("x", 1)
    assert [message.role for message in model.requests[1].messages] == ["system", "user", "user"]
    assert observed(outcome) == [{"status": "error", "data": "LLM call failed - 503"}]
    assert run(loop, Script(then=ProviderError("503"))).stop is StopReason.ERROR_VALVE


@row("B4-11")
def test_llm_func_may_raise_the_models_own_errors_and_must_give_text(tools: ToolRegistry) -> None:
    def raising(error: Exception, history: list[dict[str, str]], step: int) -> str:
        raise error

    config = Bare(on_provider_error="observe")
    assert run_agent("q", 2, partial(raising, ContextOverflow("long")), config=config, registry=tools)["steps"] == 0
    with pytest.raises(BudgetExceeded):
        run_agent("q", llm_func=partial(raising, BudgetExceeded("spent")), registry=tools)

    async def nothing(history: list[dict[str, str]], step: int) -> Any:
        return None

    seen = observations(run_agent("q", 1, nothing, config=config, registry=tools)["history"])
    assert seen[0]["data"] == "LLM call failed - llm_func gave NoneType, not text"


@row("B4-12")
def test_observations_are_sent_as_user_and_returned_as_observation() -> None:
    model = Script(ADD, answer("x"))
    outcome = run(Bare(), model)
    sent = model.requests[1].messages[-1]
    kept = outcome.details["history"][2]
    assert (sent.role, kept["role"]) == ("user", "observation")
    assert sent.content == kept["content"] == '{"status": "success", "data": "3", "tool_name": "add"}'


@row("B4-14")
def test_the_model_is_told_format_and_tools_and_history_begins_with_the_query() -> None:
    model = Script(answer("x"))
    outcome = run(Bare(), model)
    system, user = model.requests[0].messages
    assert (system.role, user.role, user.content) == ("system", "user", "Q")
    assert system.content.startswith(INSTRUCTIONS)
    assert "\nadd(a: int, b: int) -> int: Add two numbers.\n" in system.content
    assert outcome.details["history"][0] == {"role": "user", "content": "Q"}


@row("B4-14")
def test_a_query_that_is_part_of_the_call_has_its_context() -> None:
    model = Script(answer("x"))
    run_sync(Bare(instructions=None).run(Query("Who?", context="Ann."), Toolbox(), model))
    assert [message.content for message in model.requests[0].messages] == ["Who?\n\nContext:\nAnn."]


@pytest.mark.parametrize("valve", [1, 2, 5])
@row("B4-15")
def test_the_valves_text_has_its_number(tools: ToolRegistry, valve: int) -> None:
    result = run_agent("q", llm_func=Llm(BAD), max_consecutive_errors=valve, registry=tools)
    assert result["final_answer"] == f"Agent terminated: {valve} consecutive errors detected"


@row("B4-16")
def test_limits_below_one_are_refused_and_none_is_no_valve() -> None:
    for steps, valve in ((0, 3), (-1, 3), (10, 0)):
        with pytest.raises(ValueError, match="must be at least 1"):
            Bare(max_steps=steps, max_consecutive_errors=valve)
    assert run(Bare(max_steps=8, max_consecutive_errors=None), Script(then=BAD)).steps == 8


@row("B4-17")
def test_wrong_types_pass_unless_check_types_is_on() -> None:
    wrong = call("add", a="1", b="x")
    assert observed(run(Bare(), Script(wrong, answer("x"))))[0]["data"] == "1x"
    checked = observed(run(Bare(check_types=True), Script(wrong, answer("x"))))[0]
    assert checked["status"] == "error"
    assert "argument 'b'" in checked["data"]
