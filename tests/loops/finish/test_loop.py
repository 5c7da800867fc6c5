"""The finish loop: what the document says, what holds where it is silent, which retries a reply has, and each option."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.drawn import WITH_CALLS
from tests.loops.finish import helpers
from tests.loops.finish.helpers import ADD, BAD, GOOD_AND_ADD, SEARCH, VERDICT, XML, finish, native, results, run, says, steps
from tests.loops.helpers import Notes, Script, add
from tests.rows import row
from whichloop.datasets.arithmetic import SUITE
from whichloop.loops.finish import Finish, ParseError, Step, Unfinished, UnfinishedError
from whichloop.loops.finish.answer import MAX_CALLS
from whichloop.protocol import Capabilities, Message, ProviderError, Query, Reply, StopReason, Tool, Toolbox, ToolCall, run_sync
from whichloop.protocol.moves import Role

XML_REQUEST = "You must provide your final answer now. Respond with your answer in the following XML structure:"
REMINDER = (
    "You must respond by calling one of the available tools. Use the provided tools to take action, "
    "or call __finish__ with the appropriate arguments to complete the task."
)
NOT_RUN = "Tool error: not run, __finish__ was called"
BAD_AND_ADD = says(native("add", {"a": 1, "b": 2}), native("__finish__", {"answer": 3}), native("risky", {"x": 1}))
TEXT, BAD_XML = Reply("Let me think."), Reply("<output></output>")
UNFORCED = ProviderError("tool_choice is not supported", "refused")
D, A = Role.DECIDE, Role.ANSWER


class Case(NamedTuple):
    """A run, and what comes of it."""

    options: dict[str, Any]
    replies: list[Any]
    stop: StopReason
    answer: Any
    steps: int
    roles: list[Role]


CASES = {
    "a valid finish ends the run": Case({}, [ADD, ADD, finish("3")], StopReason.FINISHED, "3", 3, [D, D, D]),
    "a single turn finishes": Case({"max_steps": None}, [finish()], StopReason.FINISHED, "x", 1, [D]),
    "a single turn may mend its answer": Case({"max_steps": None}, [BAD, TEXT, finish()], StopReason.FINISHED, "x", 1, [D, D, D]),
    "a single turn has its retries": Case({"max_steps": None}, [BAD, BAD, BAD], StopReason.PARSE_FAILED, None, 1, [D, D, D]),
    "a single turn ends after a tool": Case({"max_steps": None}, [BAD, ADD], StopReason.UNFINISHED, None, 1, [D, D]),
    "a step of one": Case({"max_steps": 1}, [ADD, finish("late")], StopReason.FORCED, "late", 1, [D, A]),
    "no step at all": Case({"max_steps": 0}, [finish("now")], StopReason.FORCED, "now", 0, [A]),
    "a retry uses a step": Case({"max_steps": 2, "parse_retries": 5}, [BAD, BAD, finish()], StopReason.FORCED, "x", 2, [D, D, A]),
    "a retry uses no step": Case(
        {"max_steps": 2, "retries_consume_steps": False}, [BAD, ADD, finish()], StopReason.FINISHED, "x", 2, [D, D, D]
    ),
    "a tool that ran starts the count again": Case(
        {"max_steps": 9}, [BAD, BAD, ADD, BAD, BAD, finish()], StopReason.FINISHED, "x", 6, [D] * 6
    ),
    "a tool that is none does not": Case(
        {"max_steps": 9}, [BAD, BAD, helpers.NOPE, BAD], StopReason.PARSE_FAILED, None, 4, [D] * 4
    ),
    "the forced phase starts its own count": Case(
        {"max_steps": 2}, [BAD, BAD, BAD, BAD, finish()], StopReason.FORCED, "x", 2, [D, D, A, A, A]
    ),
    "a refusal falls to XML": Case(
        {"max_steps": 1, "parse_retries": 0}, [ADD, UNFORCED, XML], StopReason.FORCED, "x", 1, [D, A, A]
    ),
    "another tool falls to XML": Case({"max_steps": 1, "parse_retries": 0}, [ADD, ADD, XML], StopReason.FORCED, "x", 1, [D, A, A]),
    "text falls to XML": Case({"max_steps": 1, "parse_retries": 0}, [ADD, TEXT, XML], StopReason.FORCED, "x", 1, [D, A, A]),
    "another failure does not": Case(
        {"max_steps": 1}, [ADD, ProviderError("429", "rate_limit")], StopReason.PROVIDER_ERROR, None, 1, [D, A]
    ),
    "no retries": Case({"parse_retries": 0}, [BAD], StopReason.PARSE_FAILED, None, 1, [D]),
    "five retries": Case({"max_steps": 9, "parse_retries": 5}, [*[BAD] * 5, finish()], StopReason.FINISHED, "x", 6, [D] * 6),
    "an error result for arguments": Case({}, [says(native("add", "[1]")), finish()], StopReason.FINISHED, "x", 2, [D, D]),
    "XML takes a native finish": Case({"max_steps": 0, "forced_finish": "xml"}, [finish()], StopReason.FORCED, "x", 0, [A]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@row("S3-4", "S3-5", "S3-19", "S3-43", "B3-4", "B3-19", "B3-20", "B3-23", "X-4", "X-7")
@row("finish.max_steps", "finish.parse_retries", "finish.retries_consume_steps", "S3-26")
def test_a_run_goes_as_its_replies_say(case: Case) -> None:
    model = Script(*case.replies)
    outcome = run(steps(**case.options), model)
    assert (outcome.stop, outcome.answer, outcome.steps, model.roles) == (case.stop, case.answer, case.steps, case.roles)
    assert {request.tool_choice for request in model.requests if request.role is D} <= {None}


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
    assert helpers.offered(request) == ["add", "__finish__"]
    assert request.tools[-1].parameters == VERDICT
    assert outcome.answer == {"sentiment": "good", "score": 1}


@row("S3-3", "S3-27", "B3-11")
def test_text_and_several_calls_in_one_reply_whose_errors_name_type_and_message() -> None:
    model = Script(says(native("add", {"a": 1, "b": 2}, "i"), native("risky", {"x": -1}, "j"), text="Both."), finish())
    assert run(steps(), model).answer == "x"
    said, *shown = model.requests[1].messages[-3:]
    assert (said.role, said.content, [call.id for call in said.calls]) == ("assistant", "Both.", ["i", "j"])
    assert [(message.call_id, message.content) for message in shown] == [
        ("i", "3"),
        ("j", "Tool error: ValueError: x must be positive"),
    ]


@row("S3-20", "B3-19", "B3-21")
def test_at_the_limit_a_forced_call_with_messages_unchanged() -> None:
    model = Script(ADD, finish("late"))
    run(Finish(max_steps=1), model)
    decided, forced = model.requests
    assert forced.messages[: len(decided.messages)] == decided.messages
    assert [message.role for message in forced.messages[len(decided.messages) :]] == ["assistant", "tool"]
    assert (forced.tool_choice, forced.tools) == ("__finish__", decided.tools)


@row("S3-21", "S3-43", "B3-21")
def test_without_tool_choice_an_xml_template_is_a_new_message() -> None:
    model = Script(ADD, "<output>\n    <sentiment>good</sentiment>\n    <score>0.95</score>\n</output>")
    model.capabilities = Capabilities(tool_choice=False)
    outcome = run(Finish(max_steps=1), model, schema=VERDICT)
    decided, last = model.requests
    assert last.messages[-1].role == "user"
    assert last.messages[-1].content.startswith(XML_REQUEST)
    assert (last.tool_choice, last.tools) == (None, decided.tools)
    assert (outcome.answer, outcome.stop) == ({"sentiment": "good", "score": 0.95}, StopReason.FORCED)


@pytest.mark.parametrize(("bad", "retries"), [(BAD, 0), (BAD, 2), (BAD_XML, 2)])
@row("S3-23", "X-4", "B3-3")
def test_a_forced_answer_that_stays_invalid_is_a_parse_failure_that_says_forced(bad: Reply, retries: int) -> None:
    model = Script(ADD, then=bad)
    model.capabilities = Capabilities(tool_choice=bad is BAD)
    outcome = run(Finish(max_steps=1, parse_retries=retries), model)
    assert (outcome.stop, outcome.answer) == (StopReason.PARSE_FAILED, None)
    assert model.roles == [D] + [A] * (1 + retries)
    assert outcome.details["error"].startswith("ParseError: no valid forced __finish__")


@row("B3-22", "X-7")
def test_no_call_beside_an_invalid_forced_finish_runs_or_stays_without_a_result() -> None:
    model = Script(ADD, BAD_AND_ADD, finish())
    assert run(Finish(max_steps=1), model).stop is StopReason.FORCED
    helpers.assert_legal(model.requests[2].messages)
    forced = "Tool error: not run, only __finish__ can be called now"
    assert [text == forced for text in results(model.requests[2])] == [False, True, False, True]


@row("S3-26", "X-4", "B3-3")
def test_the_declarative_face_raises_parse_error_on_every_path() -> None:
    for replies, then, said in (
        ([], BAD, "no valid __finish__ in 3 replies"),
        ([SEARCH], BAD, "no valid forced __finish__ in 3 replies"),
        ([SEARCH, Reply("no")], Reply("<output></output>"), "no valid forced __finish__ in 3 replies"),
    ):
        with pytest.raises(ParseError, match=said):
            helpers.agent_of(Script(*replies, then=then), max_steps=1 if replies else 5)(question="?")


@row("B3-12", "S3-32")
def test_a_single_turn_gives_unfinished_or_raises_it_when_strict() -> None:
    unfinished = helpers.agent_of(Script(SEARCH), max_steps=None)(question="?")
    assert isinstance(unfinished, Unfinished)
    assert [call.name for call in unfinished.tool_calls] == ["search"]
    assert unfinished.tool_results[0].output == ["result 1", "result 2"]
    with pytest.raises(UnfinishedError, match="search") as caught:
        helpers.agent_of(Script(SEARCH), max_steps=None, strict=True)(question="?")
    assert caught.value.unfinished.tool_results[0].name == "search"


@row("S3-45", "S3-26")
def test_the_error_of_a_finish_is_its_result_or_in_xml_a_users_message() -> None:
    model = Script(says(native("__finish__", {"answer": 3}, "call_9"), text="Done."), finish())
    run(steps(), model)
    said, error = model.requests[1].messages[-2:]
    assert (said.content, said.calls[0].arguments) == ("Done.", '{"answer": 3}')
    assert (error.role, error.call_id) == ("tool", "call_9")
    assert "answer: 3 is not of type 'string'" in error.content
    model = Script("<output>", XML)
    assert run(Finish(max_steps=0, forced_finish="xml"), model).answer == "x"
    said, error = model.requests[1].messages[-2:]
    assert (said.role, said.content) == ("assistant", "<output>")
    assert (error.role, error.content.startswith("Error: ")) == ("user", True)


@pytest.mark.parametrize("order", [1, -1])
@row("B3-5", "X-3")
def test_a_valid_finish_beside_other_calls_wins_in_either_order(order: int) -> None:
    ran: list[int] = []
    notes = Notes()
    reply = dataclasses.replace(GOOD_AND_ADD, calls=GOOD_AND_ADD.calls[::order])
    outcome = run(steps(), Script(reply), Tool.from_function(ran.append, name="add"), observer=notes)
    assert (outcome.answer, ran) == ("early", [])
    assert [data["tools"] for kind, data in notes.notes if kind == "not_run"] == [["add"]]


@pytest.mark.parametrize("order", [1, -1])
@row("B3-5", "B3-16", "B3-22", "X-3")
def test_beside_a_finish_that_does_not_count_results_keep_call_order_for_on_step_too(order: int) -> None:
    heard: list[Any] = []

    def on_step(step: Step) -> None:
        heard.append([(result.name, result.error) for result in step.tool_results])

    again = dataclasses.replace(GOOD_AND_ADD, calls=GOOD_AND_ADD.calls[::order])
    run(steps(finish_with_tools="ask_again", on_step=on_step), Script(again, finish()))
    assert heard == [[("add", None), ("__finish__", "NotRun")][::order]]
    model = Script(dataclasses.replace(BAD_AND_ADD, calls=BAD_AND_ADD.calls[::order]), finish("ok"))
    ran: list[int] = []
    run(steps(on_step=on_step), model, *(Tool.from_function(ran.append, name=name) for name in ("add", "risky")))
    shown = [message for message in model.requests[1].messages if message.role == "tool"]
    assert [message.call_id for message in shown] == [call.id for call in BAD_AND_ADD.calls[::order]]
    assert [message.content == NOT_RUN for message in shown] == [call.name != "__finish__" for call in BAD_AND_ADD.calls[::order]]
    assert (ran, heard[1]) == ([], [(call.name, "NotRun") for call in BAD_AND_ADD.calls[::order]])


@pytest.mark.parametrize("arguments", ['{"a": 1,', "[1]", "7", "null", '"{}"', "[" * 100_000, '{"a": NaN}', '{"a": 1e999}'])
@row("B3-7", "X-6")
def test_finish_arguments_that_are_no_object_are_an_error_result(arguments: str) -> None:
    model = Script(says(native("add", arguments)), finish("ok"))
    outcome = run(steps(), model)
    assert results(model.requests[1])[0].startswith("Tool error: the arguments of 'add' ")
    assert outcome.answer == "ok"
    assert run(steps(parse_retries=0), Script(says(native("__finish__", arguments)))).stop is StopReason.PARSE_FAILED


@row("X-6", "B3-10")
def test_no_arguments_at_all_are_an_empty_object_and_an_unknown_tool_is_named() -> None:
    model = Script(says(native("ping", ""), native("nope")), finish())
    run(steps(), model, Tool.from_function(lambda: "pong", name="ping", blocking=False))
    assert results(model.requests[1]) == ["pong", "Tool error: Tool 'nope' not found"]


@pytest.mark.parametrize("reply", [TEXT, Reply("")], ids=["text", "empty"])
@row("B3-13", "X-6")
def test_a_reply_without_call_gets_the_reminder_and_counts_as_an_invalid_finish(reply: Reply) -> None:
    model = Script(then=reply)
    outcome = run(steps(), model)
    assert (outcome.stop, len(model.requests), outcome.steps) == (StopReason.PARSE_FAILED, 3, 3)
    assert model.requests[1].messages[-1] == Message("user", REMINDER)
    assert helpers.contents(model.requests[1], "assistant") == ([reply.text] if reply.text else [])


@row("B3-17")
def test_no_shipped_tool_evaluates_python() -> None:
    task = next(iter(SUITE().tasks))
    tools = Toolbox(SUITE().open(task).tools)
    for tool in tools:
        names = list(tool.parameters["properties"])
        seen = run_sync(tools.call(ToolCall(tool.name, dict.fromkeys(names, "__import__('os').getpid()"))))
        assert not seen.ok


@row("S3-48", "finish.parallel_tools")
def test_option_parallel_tools_runs_the_calls_at_once_with_results_in_call_order() -> None:
    for parallel in (False, True):
        gate, order = asyncio.Event(), list[str]()

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
        model = Script(says(native("one"), native("two")), finish())
        run(steps(parallel_tools=parallel), model, *box)
        assert results(model.requests[1]) == ["1", "2"]
        assert order == (["second", "first"] if parallel else ["first", "second"])


def test_calls_beyond_the_limit_are_told_and_not_run() -> None:
    ran: list[int] = []
    calls = [native("note", {"item": number}, f"c{number}") for number in range(3 * MAX_CALLS)]
    model = Script(says(*calls), finish())
    run(steps(), model, Tool.from_function(lambda item: ran.append(item), name="note"))
    assert ran == [*range(MAX_CALLS)]
    assert len(results(model.requests[1])) == 3 * MAX_CALLS
    told = f"Tool error: at most {MAX_CALLS} calls of one reply are run"
    assert results(model.requests[1])[MAX_CALLS:] == [told] * (2 * MAX_CALLS)


def test_calls_of_equal_ids_in_one_reply_and_over_steps_keep_their_own_results() -> None:
    twice = says(native("add", {"a": 1, "b": 1}, "c"), native("add", {"a": 2, "b": 2}, "c"))
    model = Script(twice, says(native("add", {"a": 3, "b": 3}, "c")), finish())
    run(steps(), model)
    assert results(model.requests[2]) == ["2", "4", "6"]


DOWN = ProviderError("down")


NEXT: dict[str, Reply] = {
    "an invalid answer": BAD,
    "a call of no tool": Reply("well"),
    "an unknown tool": helpers.NOPE,
    "arguments that do not fit": says(native("add", {"a": "one"})),
    "arguments that are no JSON": says(native("add", '{"a": 1')),
    "a call": ADD,
    "a call whose tool fails": says(native("risky", {"x": -1})),
    "a call beside a refused one": says(*helpers.NOPE.calls, *ADD.calls),
}
"""What a model may do next, by its name."""
INVALID, RUNS_A_TOOL = (
    ("an invalid answer", "a call of no tool"),
    ("a call", "a call whose tool fails", "a call beside a refused one"),
)


@given(names=st.lists(st.sampled_from([*NEXT]), max_size=12), retries=st.integers(0, 2))
@example(names=["an invalid answer", "an unknown tool", "an invalid answer"], retries=1)
@example(names=["an invalid answer", "arguments that do not fit", "an invalid answer"], retries=1)
@settings(deadline=None, max_examples=cases(60))
@row("S3-26", "B3-20", "X-4")
def test_only_a_tool_that_ran_hands_out_fresh_retries(names: list[str], retries: int) -> None:
    failures = asked = 0
    for name in names:
        asked += 1
        failures = 0 if name in RUNS_A_TOOL else failures + (name in INVALID)
        if failures > retries:
            break
    model = Script(*(NEXT[name] for name in names), finish("ok"))
    outcome = run(Finish(max_steps=len(names) + 1, parse_retries=retries), model)
    fails = failures > retries
    assert outcome.stop is (StopReason.PARSE_FAILED if fails else StopReason.FINISHED)
    assert len(model.requests) == asked + (not fails)


@given(replies=st.lists(WITH_CALLS, max_size=6))
@settings(deadline=None, max_examples=cases(20))
def test_a_run_without_hooks_asks_the_same_as_one_whose_hook_does_nothing(replies: list[Reply]) -> None:
    asked = []
    for hook in (None, lambda step: None):
        model = Script(*replies, then=DOWN)
        run(Finish(max_steps=8, parse_retries=9, on_step=hook), model)
        asked.append([request.messages for request in model.requests])
    assert asked[0] == asked[1]


# --- options ---


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


def test_hooks_do_not_tell_two_loops_apart() -> None:
    assert Finish(on_step=lambda step: None) == Finish()
