"""The declarative face: the step that `on_step` sees and changes."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from pydantic import ValidationError

from tests.loops.finish.module_helpers import BAD, FAIL, SEARCH, AnswerOutput, agent_of, contents, finish, native, says, search
from tests.loops.helpers import Script
from tests.rows import row
from whichloop.loops.finish import (
    Finish,
    ParseError,
    Step,
    Unfinished,
    UnfinishedError,
)
from whichloop.protocol import (
    BudgetExceeded,
    ContextOverflow,
    Message,
    ProviderError,
    Query,
    Reply,
    Role,
    StopReason,
    Tool,
    Toolbox,
    run_sync,
)


def other(x: int) -> int:
    """Another tool."""
    return x


@row("S3-6", "S3-9", "S3-37")
def test_on_step_sees_the_step_after_the_tools_and_before_the_next_request() -> None:
    seen: list[Any] = []
    model = Script(SEARCH, FAIL, finish())

    def on_step(self: Any, step: Step) -> Step:
        seen.append((step.counter, len(model.requests), step.tool_calls[0].name, step.tool_results[0].output))
        assert step.response is (SEARCH if step.counter == 1 else FAIL)
        assert (step.model, step.temperature, step.max_tokens) == (model, 0.7, 99)
        assert [made.name for made in step.tools] == ["search", "fail"]
        assert step.tool_results[0].id == step.tool_calls[0].call_id
        return step

    agent_of(model, on_step, temperature=0.7, max_tokens=99)(question="?")
    assert seen == [
        (1, 1, "search", ["result 1", "result 2"]),
        (2, 2, "fail", "Tool error: ValueError: x must be positive"),
    ]


@row("S3-37")
def test_on_step_is_called_for_steps_with_calls_only_and_before_forcing() -> None:
    seen: list[tuple[int, list[str], int]] = []
    model = Script(Reply("hm"), BAD, says(native("nope")), SEARCH, finish("forced"))

    def on_step(self: Any, step: Step) -> None:
        seen.append((step.counter, [call.name for call in step.tool_calls], len(model.requests)))
        if step.counter == 4:
            step.temperature = 0.1
            step.remove_tool("search")
            self.history.append({"role": "user", "content": "last words"})

    assert agent_of(model, on_step, max_steps=4)(question="?").answer == "forced"
    assert seen == [(2, ["__finish__"], 2), (3, ["nope"], 3), (4, ["search"], 4)]
    forced = model.requests[-1]
    assert (forced.role, forced.sampling.temperature) == (Role.ANSWER, 0.1)
    assert [spec.name for spec in forced.tools] == ["fail", "__finish__"]
    assert forced.messages[-1].content == "last words"


@row("S3-7", "S3-14", "X-1")
def test_tools_added_and_removed_change_the_next_requests() -> None:
    def on_step(self: Any, step: Step) -> None:
        if step.counter == 1:
            step.remove_tool("fail")
            step.add_tool(other)
            assert [made.name for made in step.tools] == ["search", "other"]

    model = Script(SEARCH, says(native("other", x=7)), FAIL, finish())
    agent_of(model, on_step)(question="?")
    names = [[spec.name for spec in request.tools] for request in model.requests]
    assert names == [["search", "fail", "__finish__"]] + [["search", "other", "__finish__"]] * 3
    assert contents(model.requests[-1], "tool")[1:] == ["7", "Tool error: Tool 'fail' not found"]


@row("S3-8", "S3-16", "S3-24", "S3-39")
def test_step_finish_is_validated_and_ends_the_run() -> None:
    def on_step(self: Any, step: Step) -> None:
        step.finish(answer="first")
        step.finish(answer="x", confidence="0.95")
        self.history.append({"role": "user", "content": "after"})
        seen.append(self.history)

    seen: list[Any] = []
    model = Script(SEARCH)
    made = agent_of(model, on_step, max_steps=1)(question="?")
    assert made == AnswerOutput(answer="x", confidence=0.95) == agent_of(Script(finish("x", confidence="0.95")))(question="?")
    assert len(model.requests) == 1
    assert [entry["role"] for entry in seen[0]] == ["system", "user", "assistant", "tool", "user"]


@row("S3-39", "X-5")
def test_step_finish_with_bad_data_raises_at_the_call() -> None:
    def uncaught(self: Any, step: Step) -> None:
        step.finish(answer=3)

    def caught(self: Any, step: Step) -> None:
        with pytest.raises(ValidationError):
            step.finish(wrong=1)

    model = Script(SEARCH)
    with pytest.raises(ValidationError):
        agent_of(model, uncaught)(question="?")
    assert len(model.requests) == 1
    assert agent_of(Script(SEARCH, finish("ok")), caught)(question="?").answer == "ok"
    loop = Finish(max_steps=3, on_step=lambda step: step.finish(answer=3))
    outcome = run_sync(loop.run(Query("Q"), Toolbox([search]), Script(SEARCH)))
    assert (outcome.stop, outcome.details["error"]) == (
        StopReason.TERMINATED,
        "InvalidOutput: answer: 3 is not of type 'string'",
    )


@pytest.mark.parametrize("returned", [True, False])
@row("S3-10", "B3-6", "X-5")
def test_on_step_returns_the_step_or_none(returned: bool) -> None:
    def on_step(self: Any, step: Step) -> Any:
        step.temperature = 0.1
        return step if returned else None

    model = Script(SEARCH, finish())
    agent_of(model, on_step)(question="?")
    assert model.requests[1].sampling.temperature == 0.1
    with pytest.raises(TypeError, match="return the step"):
        agent_of(Script(SEARCH), lambda self, step: "something else")(question="?")


@row("S3-11", "S3-38", "B3-1", "X-1")
def test_model_temperature_and_max_tokens_hold_from_the_next_request_on() -> None:
    second = Script(SEARCH, finish("second"))

    def on_step(self: Any, step: Step) -> None:
        if step.counter == 1:
            assert step.model is first
            step.model, step.temperature, step.max_tokens = {"model": second, "num_retries": 1}, 0.1, 50
        else:
            assert step.model == {"model": second, "num_retries": 1}

    first = Script(SEARCH)
    assert agent_of(first, on_step, temperature=0.9)(question="?").answer == "second"
    assert first.requests[0].sampling.as_dict() == {"temperature": 0.9}
    assert [request.sampling.as_dict() for request in second.requests] == [{"temperature": 0.1, "max_tokens": 50}] * 2


@row("S3-38")
def test_a_models_name_is_resolved_once_and_its_model_asked_from_then_on() -> None:
    second = Script(SEARCH, finish("second"))
    resolved: list[Any] = []

    def resolver(given: Any) -> Any:
        resolved.append(given)
        return second

    def on_step(step: Step) -> None:
        step.model = "provider/second"

    loop = Finish(max_steps=5, on_step=on_step, resolver=resolver)
    outcome = run_sync(loop.run(Query("Q"), Toolbox([search]), Script(SEARCH)))
    assert (outcome.answer, resolved, len(second.requests)) == ("second", ["provider/second"], 2)


@row("S3-38")
def test_a_model_that_cannot_be_made_aborts_the_run() -> None:
    def on_step(self: Any, step: Step) -> None:
        step.model = 3

    with pytest.raises(ValueError, match="model"):
        agent_of(Script(SEARCH), on_step)(question="?")


@row("S3-12", "X-1")
def test_history_can_be_appended_to_replaced_edited_and_trimmed() -> None:
    def on_step(self: Any, step: Step) -> None:
        if step.counter == 1:
            self.history.append({"role": "user", "content": "Be concise."})
            for entry in self.history:
                if entry["role"] == "system":
                    entry["content"] += "\n\nNOTE: bullet points."
        if step.counter == 2:
            self.history = self.history[:1] + self.history[-1:]

    model = Script(SEARCH, SEARCH, finish())
    agent_of(model, on_step)(question="?")
    second, third = model.requests[1:]
    assert contents(second, "system") == ["You are a research assistant.\n\nNOTE: bullet points."]
    assert second.messages[-1] == Message("user", "Be concise.")
    assert [message.role for message in third.messages] == ["system", "assistant", "tool"]


@row("S3-13", "S3-34", "B3-2", "X-1")
def test_results_changed_in_on_step_are_what_the_model_sees() -> None:
    def on_step(self: Any, step: Step) -> None:
        (result,) = step.tool_results
        assert (result.name, result.output, result.id, result.error) == ("search", ["result 1", "result 2"], "id_search", None)
        result.output = changes[step.counter - 1](result.output)

    changes = [
        lambda output: {"data": output, "note": "verify"},
        lambda output: str(output)[:5] + "... (truncated)",
        lambda output: AnswerOutput(answer="a"),
        lambda output: None,
    ]
    model = Script(SEARCH, SEARCH, SEARCH, SEARCH, finish())
    agent_of(model, on_step)(question="?")
    assert contents(model.requests[-1], "tool") == [
        '{"data": ["result 1", "result 2"], "note": "verify"}',
        "['res... (truncated)",
        '{"answer": "a", "confidence": 0.5}',
        "null",
    ]


@row("S3-12", "X-2")
def test_results_find_their_calls_in_a_copy_of_the_history() -> None:
    def on_step(self: Any, step: Step) -> None:
        self.history = copy.deepcopy(self.history)

    model = Script(SEARCH, FAIL, finish())
    agent_of(model, on_step)(question="?")
    assert contents(model.requests[2], "tool") == ['["result 1", "result 2"]', "Tool error: ValueError: x must be positive"]


@pytest.mark.parametrize("is_async", [True, False])
@row("S3-13", "X-1")
def test_a_result_edited_in_place_is_what_the_model_sees(is_async: bool) -> None:
    def edit(self: Any, step: Step) -> None:
        for result in step.tool_results:
            result.output["data"].append("verified")

    async def later(self: Any, step: Step) -> None:
        edit(self, step)

    give = Tool.from_function(lambda: {"data": ["found"]}, name="give", blocking=False)
    model = Script(says(native("give", "a"), native("give", "b")), finish())
    agent_of(model, later if is_async else edit, tools=[give])(question="?")
    assert contents(model.requests[1], "tool") == ['{"data": ["found", "verified"]}'] * 2


@row("S3-13")
def test_the_list_of_results_may_be_replaced_but_holds_results_only() -> None:
    def on_step(self: Any, step: Step) -> None:
        first, second = step.tool_results
        first.output = "changed"
        step.tool_results = [second, first] if step.counter == 1 else [first]

    twice = says(native("search", "a", query="q"), native("search", "b", query="q"))
    model = Script(twice, twice, finish())
    agent_of(model, on_step)(question="?")
    assert contents(model.requests[1], "tool") == ["changed", '["result 1", "result 2"]']
    assert contents(model.requests[2], "tool")[2:] == ["changed", "(removed)"]

    def junk(self: Any, step: Step) -> None:
        step.tool_results = ["text"]  # type: ignore[list-item]

    with pytest.raises(TypeError, match="tool_results"):
        agent_of(Script(SEARCH), junk)(question="?")


@row("S3-12")
def test_a_hook_without_module_changes_the_history_of_its_step() -> None:
    def on_step(step: Step) -> None:
        step.history = [{"role": "user", "content": "Q, again"}, *step.history[-1:]]

    model = Script(SEARCH, finish())
    run_sync(Finish(max_steps=3, on_step=on_step).run(Query("Q"), Toolbox([search]), model))
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "tool"]


@row("S3-40")
def test_on_step_sees_the_raw_object() -> None:
    found: list[Any] = []
    thing = AnswerOutput(answer="raw")

    def on_step(self: Any, step: Step) -> None:
        found.append(step.tool_results[0].output)

    model = Script(says(native("give")), finish())
    agent_of(model, on_step, tools=[Tool.from_function(lambda: thing, name="give")])(question="?")
    assert found == [thing]
    assert contents(model.requests[1], "tool") == ['{"answer": "raw", "confidence": 0.5}']


@row("S3-18", "B3-2", "X-2")
def test_results_enter_the_history_after_on_step_next_to_their_calls() -> None:
    def on_step(self: Any, step: Step) -> None:
        roles.append([entry["role"] for entry in self.history])
        self.history.append({"role": "user", "content": f"after {step.counter}"})

    roles: list[Any] = []
    model = Script(SEARCH, SEARCH, finish())
    agent_of(model, on_step)(question="?")
    assert roles == [["system", "user", "assistant"], ["system", "user", "assistant", "tool", "user", "assistant"]]
    last = [message.role for message in model.requests[-1].messages]
    assert last == ["system", "user", "assistant", "tool", "user", "assistant", "tool", "user"]


@pytest.mark.parametrize("last", [False, True])
@row("S3-17", "S3-25", "X-5")
def test_raising_in_on_step_aborts_even_before_forcing(last: bool) -> None:
    def on_step(self: Any, step: Step) -> None:
        raise KeyError("no key")

    model = Script(SEARCH, then=finish())
    with pytest.raises(KeyError, match="no key"):
        agent_of(model, on_step, max_steps=1 if last else 5)(question="?")
    assert len(model.requests) == 1

    def raising(step: Step) -> None:
        raise KeyError("no key")

    outcome = run_sync(Finish(max_steps=1 if last else 5, on_step=raising).run(Query("Q"), Toolbox([search]), Script(SEARCH)))
    assert outcome.stop is StopReason.TERMINATED
    assert isinstance(outcome.details["exception"], KeyError)


@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), asyncio.CancelledError(), KeyboardInterrupt()])
@pytest.mark.parametrize("is_async", [True, False])
@row("G-3")
def test_finish_budget_and_cancellation_leave_through_on_step(leaving: BaseException, is_async: bool) -> None:
    def plain(step: Step) -> None:
        raise leaving

    async def later(step: Step) -> None:
        raise leaving

    loop = Finish(max_steps=3, on_step=later if is_async else plain)
    with pytest.raises(type(leaving)):
        run_sync(loop.run(Query("Q"), Toolbox([search]), Script(SEARCH)))


@pytest.mark.parametrize(
    ("error", "stop"),
    [
        (ParseError("child"), StopReason.PARSE_FAILED),
        (ProviderError("child"), StopReason.PROVIDER_ERROR),
        (ContextOverflow("child"), StopReason.CONTEXT_OVERFLOW),
        (UnfinishedError(Unfinished((), ())), StopReason.TERMINATED),
        (StopIteration("odd"), StopReason.TERMINATED),
    ],
)
@row("S3-17")
def test_a_childs_error_that_is_not_caught_keeps_its_own_stop_reason(error: Exception, stop: StopReason) -> None:
    def on_step(step: Step) -> None:
        raise error

    loop = Finish(max_steps=3, on_step=on_step)
    outcome = run_sync(loop.run(Query("Q"), Toolbox([search]), Script(SEARCH)))
    assert outcome.stop is stop
    assert stop in loop.stops


@row("S3-41", "X-5", "X-18", "B3-8")
def test_tools_that_cannot_be_added_or_removed() -> None:
    def impostor(query: str) -> str:
        """Not the search."""
        return query

    def on_step(self: Any, step: Step) -> None:
        assert "__finish__" not in [made.name for made in step.tools]
        step.remove_tool("absent")
        step.add_tool(search)
        step.add_tool(self.note)
        step.add_tool(self.note)
        for refused in (Tool.from_function(impostor, name="search"), Tool.from_function(impostor, name="__finish__")):
            with pytest.raises(ValueError, match=refused.name):
                step.add_tool(refused)
        with pytest.raises(ValueError, match="__finish__"):
            step.remove_tool("__finish__")
        checked.append([made.name for made in step.tools])

    def note(self: Any, text: str) -> str:
        """A method."""
        return text

    checked: list[Any] = []
    assert agent_of(Script(SEARCH, finish("ok")), on_step, note=note)(question="?").answer == "ok"
    assert checked == [["search", "fail", "note"]]
    reserved = [Tool.from_function(impostor, name="__finish__")]
    with pytest.raises(ValueError, match="__finish__"):
        agent_of(Script(), tools=reserved)
    agent = agent_of(Script(finish()))
    agent.tools = reserved  # of one instance only
    with pytest.raises(ValueError, match="__finish__"):
        agent(question="?")


@row("B3-9", "X-7")
def test_the_forced_call_offers_the_current_tools() -> None:
    def on_step(self: Any, step: Step) -> None:
        step.remove_tool("search")
        step.add_tool(other)

    for unforced in (finish("ok", confidence=1), Reply("no")):
        model = Script(SEARCH, unforced, "<output><answer>ok</answer></output>")
        assert agent_of(model, on_step, max_steps=1)(question="?").answer == "ok"
        for request in model.requests[1:]:
            assert [spec.name for spec in request.tools] == ["fail", "other", "__finish__"]


@row("S3-26", "X-4", "B3-3")
def test_the_declarative_face_raises_parse_error_on_every_path() -> None:
    for replies, then, said in (
        ([], BAD, "no valid __finish__ in 3 replies"),
        ([SEARCH], BAD, "no valid forced __finish__ in 3 replies"),
        ([SEARCH, Reply("no")], Reply("<output></output>"), "no valid forced __finish__ in 3 replies"),
    ):
        with pytest.raises(ParseError, match=said):
            agent_of(Script(*replies, then=then), max_steps=1 if replies else 5)(question="?")


@row("B3-12", "S3-32")
def test_a_single_turn_gives_unfinished_or_raises_it_when_strict() -> None:
    unfinished = agent_of(Script(SEARCH), max_steps=None)(question="?")
    assert isinstance(unfinished, Unfinished)
    assert [call.name for call in unfinished.tool_calls] == ["search"]
    assert unfinished.tool_results[0].output == ["result 1", "result 2"]
    with pytest.raises(UnfinishedError, match="search") as caught:
        agent_of(Script(SEARCH), max_steps=None, strict=True)(question="?")
    assert [result.name for result in caught.value.unfinished.tool_results] == ["search"]


@row("S3-41")
def test_attributes_keep_their_bounds_and_the_answer_may_be_a_text() -> None:
    with pytest.raises(ValueError, match="max_steps"):
        agent_of(Script(), max_steps=-1)
    assert agent_of(Script(finish("plain")), final_output=None)(question="?") == "plain"
    with pytest.raises(ValueError, match="model"):
        agent_of(None)(question="?")
