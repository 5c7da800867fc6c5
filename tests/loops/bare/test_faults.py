"""Design 4, the bare loop: faults of the document and what is built instead, its ends, and each option."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loops.bare.helpers import ADD, BAD, CAP, asked, data_of, divide, observed, registry, run
from tests.loops.helpers import Notes, Script, add, answer, call
from tests.rows import row
from whichloop.loops.bare import Bare, create_observation, validate_tool_arguments
from whichloop.loops.bare_codecs import INSTRUCTIONS
from whichloop.protocol import BudgetExceeded, ContextOverflow, ProviderError, Query, StopReason, Tool, Toolbox, run_sync
from whichloop.protocol.chat import Message, NativeCall, Reply


@row("B4-4")
def test_a_type_error_inside_a_tool_is_no_complaint_about_arguments() -> None:
    broken = registry(broken=lambda: "a" + 1)  # type: ignore[operator]  # that is the error
    assert data_of(call("broken"), broken) == 'TypeError: can only concatenate str (not "int") to str'


@pytest.mark.parametrize("reply", [BAD + "x" * 3000, "[]"])
@row("B4-6", "bare.keep_bad_replies")
def test_option_keep_bad_replies_shows_an_unreadable_reply_again_cut_at_2000_characters(reply: str) -> None:
    kept = run(Bare(), Script(reply, answer("x"))).details["history"]
    assert [entry["role"] for entry in kept] == ["user", "assistant", "observation", "assistant"]
    assert kept[1]["content"] == reply[:2000]
    model = Script(reply, answer("x"))
    dropped = run(Bare(keep_bad_replies=False), model).details["history"]
    assert [entry["role"] for entry in dropped] == ["user", "observation", "assistant"]
    assert reply[:2000] not in [message.content for message in model.requests[1].messages]
    legible = json.dumps({"thought": "x" * 3000})  # it states no move, and stands whole either way
    for loop in (Bare(), Bare(keep_bad_replies=False)):
        assert run(loop, Script(legible, answer("x"))).details["history"][1] == {"role": "assistant", "content": legible}


@row("B4-9", "X-6")
def test_the_answer_wins_over_a_call_beside_it_which_is_noted() -> None:
    notes, ran = Notes(), []
    both = '{"final_answer": 0, "tool_name": "spy", "arguments": {}}'
    outcome = run(Bare(), Script(both), Tool.from_function(lambda: ran.append(1), name="spy"), observer=notes)
    assert (outcome.answer, outcome.stop, ran) == ("0", StopReason.FINISHED, [])
    assert notes.notes == [("not_run", {"tool_name": "spy", "reason": "final_answer wins"})]


@pytest.mark.parametrize(
    ("value", "text"),
    [("it's", "it's"), ({"a": [1]}, '{"a": [1]}'), ([1, "b"], '[1, "b"]'), (True, "true"), (2.0, "2.0"), (None, "None")],
)
@row("B4-10")
def test_results_keep_their_structure_as_text(value: Any, text: str) -> None:
    assert create_observation("success", value)["data"] == data_of(call("give"), registry(give=lambda: value)) == text


@row("B4-11")
def test_a_failing_llm_func_ends_the_run_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def raising(error: Exception, history: list[dict[str, str]], step: int) -> str:
        raise error

    result = asked(partial(raising, ConnectionError("no route")))
    assert (result["final_answer"], result["steps"]) == (None, 0)
    assert "ConnectionError: no route" in caplog.text
    config = Bare(on_provider_error="observe")
    assert asked(partial(raising, ContextOverflow("long")), 2, config=config)["steps"] == 0
    with pytest.raises(BudgetExceeded):
        asked(partial(raising, BudgetExceeded("spent")))

    async def nothing(history: list[dict[str, str]], step: int) -> Any:
        return None

    assert asked(nothing, 1, config=config)["seen"][0]["data"] == "LLM call failed - llm_func gave NoneType, not text"


@row("B4-11", "bare.on_provider_error", "X-19")
def test_option_on_provider_error_ends_the_run_or_feeds_the_failure_back_and_counts_it() -> None:
    down = ProviderError("503")
    loop, model = Bare(on_provider_error="observe"), Script(down, answer("x"))
    outcome = run(loop, model)
    assert (outcome.answer, outcome.steps) == ("x", 1)
    assert [message.role for message in model.requests[1].messages] == ["system", "user", "user"]
    assert observed(outcome) == [{"status": "error", "data": "LLM call failed - 503"}]
    counted = run(loop, Script(BAD, BAD, down))
    assert (counted.stop, counted.details["consecutive_errors"]) == (StopReason.ERROR_VALVE, 3)
    assert run(Bare(), Script(BAD, down)).details["consecutive_errors"] == 1
    assert run(loop, Script(ADD, ContextOverflow("long"))).stop is StopReason.CONTEXT_OVERFLOW
    for leaving in (BudgetExceeded("spent"), ZeroDivisionError("a bug")):
        with pytest.raises(type(leaving)):
            run(loop, Script(ADD, leaving))


@row("B4-12", "B4-14")
def test_the_model_is_told_format_and_tools_and_the_history_begins_with_the_query() -> None:
    model = Script(ADD, answer("x"))
    history = run(Bare(), model).details["history"]
    system, user, _, seen = model.requests[1].messages
    assert (system.role, user.role, user.content) == ("system", "user", "Q")
    assert system.content.startswith(INSTRUCTIONS)
    assert "\nadd(a: int, b: int) -> int: Add two numbers.\n" in system.content
    assert history[0] == {"role": "user", "content": "Q"}
    assert (seen.role, history[2]["role"]) == ("user", "observation")
    assert seen.content == history[2]["content"] == '{"status": "success", "data": "3", "tool_name": "add"}'
    alone = Script(answer("x"))
    run_sync(Bare(instructions=None).run(Query("Who?", context="Ann."), Toolbox(), alone))
    assert [message.content for message in alone.requests[0].messages] == ["Who?\n\nContext:\nAnn."]


@pytest.mark.parametrize(
    ("loop", "replies", "stop", "answered", "steps"),
    [
        (Bare(), [answer("x")], "finished", "x", 0),
        (Bare(max_steps=2), [ADD, ADD], "max_steps", CAP, 2),
        (Bare(max_steps=3, max_consecutive_errors=3), [BAD] * 3, "max_steps", CAP, 3),
        (Bare(max_consecutive_errors=1), [BAD], "error_valve", "Agent terminated: 1 consecutive errors detected", 1),
        (Bare(), [call("add", z=1)] * 3, "error_valve", "Agent terminated: 3 consecutive errors detected", 3),
        (Bare(max_steps=8, max_consecutive_errors=None), [BAD] * 8, "max_steps", CAP, 8),
        (Bare(), [ADD, ProviderError("down")], "provider_error", None, 1),
    ],
)
@row("G-2", "B4-7", "B4-16", "X-19", "bare.max_steps", "bare.max_consecutive_errors")
def test_every_way_to_end_has_its_stop_reason(loop: Bare, replies: list[Any], stop: str, answered: Any, steps: int) -> None:
    model = Script(*replies)
    outcome = run(loop, model)
    assert (outcome.stop, outcome.answer, outcome.steps, len(model.requests)) == (stop, answered, steps, len(replies))
    assert stop in loop.stops


# --- options ---

FORMATS_SAY: dict[str, tuple[Any, Any]] = {
    "json": (Reply('{"thought": "Go.", "tool_name": "add", "arguments": {"a": 2, "b": 3}}'), Reply('{"final_answer": "5"}')),
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
    native = form == "native"
    assert [(request.tools != (), request.parallel_calls) for request in model.requests] == [(native, not native)] * 2


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


FLY, WRONG = "Tool 'fly' not found", call("add", a=1, b=2, c=3)


@pytest.mark.parametrize(
    ("options", "reply", "told", "told_else"),
    [
        ({"list_tools_in_error": False}, call("fly"), f"{FLY}. Available tools: add, divide, lookup", FLY),
        ({"error_type_in_text": False}, call("lookup", key="e"), "KeyError: 'e'", "'e'"),
        (
            {"validate_arguments": False},
            WRONG,
            "Error: Tool 'add' does not accept argument 'c'. Valid parameters: a, b",
            "TypeError: add() got an unexpected keyword argument 'c'",
        ),
        ({"check_types": True}, call("add", a="1", b="x"), "1x", "Tool 'add': argument 'b'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
@row("bare.validate_arguments", "bare.check_types", "bare.list_tools_in_error", "bare.error_type_in_text", "B4-17")
def test_an_option_changes_what_the_model_is_told(options: dict[str, Any], reply: str, told: str, told_else: str) -> None:
    assert observed(run(Bare(), Script(reply, answer("x"))))[0]["data"] == told
    assert observed(run(Bare(**options), Script(reply, answer("x"))))[0]["data"].startswith(told_else)


# --- what the functions behind tools take ---


class Counter:
    def __init__(self) -> None:
        self.n = 0

    def up(self, by: int = 1) -> int:
        self.n += by
        return self.n


async def later(x: int, *, twice: bool = False) -> int:
    """Give x after a while."""
    await asyncio.sleep(0)
    return x * 2 if twice else x


@pytest.mark.parametrize(
    ("function", "arguments", "data"),
    [
        (lambda *args, **kwargs: sorted(kwargs), {"b": 1, "a": 2}, '["a", "b"]'),
        (lambda a, *rest, **more: a, {"anything": 2}, "Error: Tool 't' missing required argument 'a'"),
        (lambda *args: len(args), {"x": 1}, "Error: Tool 't' does not accept argument 'x'. Valid parameters: "),
        (lambda x=1, /, y=2: x + y, {"y": 5}, "6"),
        (lambda x=1, /, y=2: x + y, {"x": 5}, "Error: Tool 't' does not accept argument 'x'. Valid parameters: y"),
        (lambda *, only: only, {}, "Error: Tool 't' missing required argument 'only'"),
        (Counter().up, {"by": 3}, "3"),
        (Counter().up, {"self": 3}, "Error: Tool 't' does not accept argument 'self'. Valid parameters: by"),
        (later, {"x": 2, "twice": True}, "4"),
        (dict, {"free": 1}, '{"free": 1}'),
        (partial(add, b=1), {"a": 1}, "2"),
    ],
)
@row("X-20", "B4-3")
def test_validator_knows_every_kind_of_parameter(function: Callable[..., Any], arguments: dict[str, Any], data: str) -> None:
    assert data_of(call("t", **arguments), registry(t=function)) == data


@row("B4-3")
def test_a_positional_only_parameter_without_default_is_refused_at_register() -> None:
    def strict(a: int, /) -> None: ...

    with pytest.raises(ValueError, match="'a' is positional-only"):
        registry(strict=strict)


NAMES = st.sampled_from("abcde")


@given(
    needed=st.lists(NAMES, unique=True, max_size=3),
    optional=st.lists(st.sampled_from("vwxyz"), unique=True, max_size=2),
    open_ended=st.booleans(),
    given_names=st.sets(st.sampled_from("abcdevwxyz")),
)
@settings(deadline=None)
@row("X-20")
def test_validator_passes_exactly_what_python_could_call(
    needed: list[str], optional: list[str], open_ended: bool, given_names: set[str]
) -> None:
    kinds = inspect.Parameter
    parameters = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in needed]
    parameters += [kinds(name, kinds.KEYWORD_ONLY, default=0) for name in optional]
    parameters += [kinds("rest", kinds.VAR_KEYWORD)] if open_ended else []

    def tool() -> None: ...

    signature = tool.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    arguments = dict.fromkeys(given_names)
    try:
        signature.bind(**arguments)
        callable_so = True
    except TypeError:
        callable_so = False
    assert (validate_tool_arguments(tool, arguments, "t") is None) is callable_so
