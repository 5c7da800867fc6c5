"""The step that `on_step` sees and changes, and a history that a hook has changed, mended."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.cases import cases
from tests.loops.finish import helpers
from tests.loops.finish.helpers import BAD, FAIL, SEARCH, AnswerOutput, agent_of, finish, native, results, run, search, steps
from tests.loops.helpers import Script
from tests.rows import row
from whichloop.loops.finish import Finish, ParseError, Step, Unfinished, UnfinishedError
from whichloop.protocol import BudgetExceeded, ContextOverflow, Message, ProviderError, Reply, Role, StopReason, Tool

FOUND, FAILED = '["result 1", "result 2"]', "Tool error: ValueError: x must be positive"


def other(x: int) -> int:
    """Another tool."""
    return x


@row("S3-6", "S3-9", "S3-12", "S3-18", "S3-34", "S3-37", "B3-2", "X-2")
def test_on_step_sees_the_step_after_its_tools_whose_results_enter_the_history_after_it() -> None:
    def on_step(self: Any, step: Step) -> Step:
        (result,), (call,) = step.tool_results, step.tool_calls
        seen.append((step.counter, len(model.requests), call.name, result.output, result.error is None))
        assert (step.response, step.temperature, step.max_tokens) == ((SEARCH, FAIL)[step.counter - 1], 0.7, 99)
        assert step.model is model
        assert [made.name for made in step.tools] == ["search", "fail"]
        assert (result.name, result.id) == (call.name, call.call_id)
        roles.append([entry["role"] for entry in self.history])
        self.history = [*copy.deepcopy(self.history), {"role": "user", "content": f"after {step.counter}"}]
        return step

    seen: list[Any] = []
    roles: list[Any] = []
    model = Script(SEARCH, FAIL, finish())
    agent_of(model, on_step, temperature=0.7, max_tokens=99)(question="?")
    assert seen == [(1, 1, "search", ["result 1", "result 2"], True), (2, 2, "fail", FAILED, False)]
    assert roles == [["system", "user", "assistant"], ["system", "user", "assistant", "tool", "user", "assistant"]]
    last = [message.role for message in model.requests[-1].messages]
    assert last == ["system", "user", "assistant", "tool", "user", "assistant", "tool", "user"]
    assert results(model.requests[2]) == [FOUND, FAILED]


@row("S3-7", "S3-14", "X-1")
def test_tools_added_and_removed_change_the_next_requests() -> None:
    def on_step(self: Any, step: Step) -> None:
        if step.counter == 1:
            step.remove_tool("fail")
            step.add_tool(other)
            assert [made.name for made in step.tools] == ["search", "other"]

    model = Script(SEARCH, helpers.says(native("other", {"x": 7})), FAIL, finish())
    agent_of(model, on_step)(question="?")
    before, after = ["search", "fail", "__finish__"], ["search", "other", "__finish__"]
    assert [helpers.offered(request) for request in model.requests] == [before, after, after, after]
    assert results(model.requests[-1])[1:] == ["7", "Tool error: Tool 'fail' not found"]


@row("S3-8", "S3-16", "S3-24", "S3-39", "X-5")
def test_step_finish_is_validated_at_the_call_and_ends_the_run() -> None:
    def on_step(self: Any, step: Step) -> None:
        with pytest.raises(ValidationError):
            step.finish(wrong=1)
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
    with pytest.raises(ValidationError):
        agent_of(Script(SEARCH), lambda self, step: step.finish(answer=3))(question="?")
    outcome = run(steps(on_step=lambda step: step.finish(answer=3)), Script(SEARCH), search)
    assert (outcome.stop, outcome.details["error"]) == (StopReason.TERMINATED, "ValueError: answer: 3 is not of type 'string'")


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
    first, second = Script(SEARCH), Script(SEARCH, finish("second"))
    given = {"model": second}

    def on_step(step: Step) -> None:
        assert (step.model is given) is (step.counter == 2)
        step.model, step.temperature, step.max_tokens = given, 0.1, 50

    assert run(steps(on_step=on_step, temperature=0.9), first, search).answer == "second"
    assert first.requests[0].sampling.as_dict() == {"temperature": 0.9}
    assert [request.sampling.as_dict() for request in second.requests] == [{"temperature": 0.1, "max_tokens": 50}] * 2


CHANGES: list[Callable[[Any], Any]] = [
    lambda output: {"data": output, "note": "verify"},
    lambda output: str(output)[:5] + "... (truncated)",
    lambda output: AnswerOutput(answer="a"),
    lambda output: None,
    lambda output: output.append("in place") or output,
]


@row("S3-13", "S3-40", "B3-2", "X-1")
def test_results_changed_replaced_or_taken_out_in_on_step_are_what_the_model_sees() -> None:
    def on_step(self: Any, step: Step) -> None:
        (result,) = step.tool_results
        result.output = CHANGES[step.counter - 1](result.output)

    model = Script(*[SEARCH] * 5, finish())
    agent_of(model, on_step, max_steps=6)(question="?")
    assert results(model.requests[-1]) == [
        '{"data": ["result 1", "result 2"], "note": "verify"}',
        "['res... (truncated)",
        '{"answer": "a", "confidence": 0.5}',
        "null",
        '["result 1", "result 2", "in place"]',
    ]

    def swap(self: Any, step: Step) -> None:
        first, second = step.tool_results
        first.output = "changed"
        step.tool_results = [second, first] if step.counter == 1 else [first]

    twice = helpers.says(native("search", {"query": "q"}, "a"), native("search", {"query": "q"}, "b"))
    model = Script(twice, twice, finish())
    agent_of(model, swap)(question="?")
    assert results(model.requests[2]) == ["changed", FOUND, "changed", "(removed)"]
    with pytest.raises(TypeError, match="tool_results"):
        agent_of(Script(SEARCH), lambda self, step: setattr(step, "tool_results", ["text"]))(question="?")


def test_what_a_providers_reply_brings_with_it_goes_back_also_from_a_copy() -> None:
    def on_step(step: Step) -> None:
        step.history = copy.deepcopy(step.history)

    for hook in (None, on_step):
        model = Script(Reply("", SEARCH.calls, native={"signature": "s"}), finish())
        run(steps(on_step=hook), model, search)
        assert [message.native for message in model.requests[1].messages if message.calls] == [{"signature": "s"}]


@row("S3-12", "B3-15", "X-1", "X-2")
def test_a_history_may_be_edited_and_trimmed_and_what_is_mended_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    def on_step(self: Any, step: Step) -> None:
        for entry in self.history[:1] if step.counter == 1 else ():
            entry["content"] += "\n\nNOTE: bullet points."
        if step.counter > 1:
            step.history = step.history[:1] + step.history[-3:]
            trimmed.append(self.history[1]["role"])
        self.history.append({"role": "user", "content": f"s{step.counter}"})

    trimmed: list[str] = []
    model = Script(*[SEARCH] * 4, finish("ok"))
    with caplog.at_level(logging.WARNING):
        assert agent_of(model, on_step)(question="?").answer == "ok"
    for request in model.requests[1:]:
        helpers.assert_legal(request.messages)
        assert helpers.contents(request, "system") == ["You are a research assistant.\n\nNOTE: bullet points."]
    assert model.requests[1].messages[-1] == Message("user", "s1")
    assert trimmed == ["tool"] * 3  # its call is gone each time
    assert results(model.requests[-1]) == [FOUND]
    assert len(caplog.records) == 1


ENTRIES = st.one_of(
    st.builds(
        lambda role, text: {"role": role, "content": text},
        st.sampled_from(["user", "system", "assistant"]),
        st.text(max_size=3),
    ),
    st.builds(lambda name: {"role": "tool", "content": "r", "tool_call_id": name}, st.sampled_from(["id_search", "b", ""])),
    st.builds(
        lambda names: {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}} for name in names],
        },
        st.lists(st.sampled_from(["id_search", "b", ""]), max_size=3),
    ),
    st.just(Message("user", "m")),
)


EDITS = st.lists(st.tuples(st.sampled_from(["insert", "delete", "copy", "swap"]), st.integers(0, 20), ENTRIES), max_size=6)


@given(edits=st.lists(EDITS, min_size=1, max_size=3))
@settings(deadline=None, max_examples=cases(25))
@row("X-2", "B3-15", "B3-24")
def test_whatever_on_step_does_to_the_history_requests_stay_legal(edits: list[Any]) -> None:
    def on_step(step: Step) -> None:
        history = step.history
        for what, place, entry in edits[(step.counter - 1) % len(edits)]:
            index = place % (len(history) + 1)
            if what == "insert":
                history.insert(index, copy.deepcopy(entry))
            elif what == "delete":
                del history[index : index + 1]
            elif what == "copy":
                history[:] = copy.deepcopy(history)
            else:
                history[index:], history[:index] = history[:index], history[index:]

    model = Script(SEARCH, FAIL, BAD, SEARCH, finish())
    assert run(Finish(max_steps=9, on_step=on_step), model, search, helpers.fail).stop is StopReason.FINISHED
    for request in model.requests:
        helpers.assert_legal(request.messages)


@pytest.mark.parametrize(
    ("leaving", "is_async"), [(BudgetExceeded("spent"), True), (asyncio.CancelledError(), False), (KeyboardInterrupt(), False)]
)
@row("G-3")
def test_finish_budget_and_cancellation_leave_through_on_step(leaving: BaseException, is_async: bool) -> None:
    def plain(step: Step) -> None:
        raise leaving

    async def later(step: Step) -> None:
        raise leaving

    with pytest.raises(type(leaving)):
        run(steps(on_step=later if is_async else plain), Script(SEARCH), search)


@pytest.mark.parametrize(
    ("error", "stop"),
    [
        (ParseError("child"), StopReason.PARSE_FAILED),
        (ProviderError("child"), StopReason.PROVIDER_ERROR),
        (ContextOverflow("child"), StopReason.CONTEXT_OVERFLOW),
        (UnfinishedError(Unfinished()), StopReason.TERMINATED),
        (StopIteration("odd"), StopReason.TERMINATED),
    ],
)
@pytest.mark.parametrize("limit", [1, 5])
@row("S3-17", "S3-25", "X-5")
def test_raising_in_on_step_aborts_even_before_forcing_and_keeps_its_stop_reason(
    limit: int, error: Exception, stop: StopReason
) -> None:
    def on_step(*_: Any) -> None:
        raise error

    model = Script(SEARCH, then=finish())
    with pytest.raises(RuntimeError if isinstance(error, StopIteration) else type(error)):
        agent_of(model, on_step, max_steps=limit)(question="?")
    assert len(model.requests) == 1
    loop = steps(max_steps=limit, on_step=on_step)
    assert run(loop, Script(SEARCH), search).stop is stop
    assert stop in loop.stops


@pytest.mark.parametrize("item", [{}, "text", {"role": "odd"}, {"role": "user", "content": 3}, {"role": "user", "tool_calls": 3}])
@row("S3-17", "B3-2")
def test_a_hook_that_puts_no_message_into_the_history_ends_the_run(item: Any) -> None:
    def on_step(step: Step) -> None:
        step.history.append(item)

    outcome = run(steps(on_step=on_step), Script(SEARCH, finish()), search)
    assert outcome.stop is StopReason.TERMINATED
    assert outcome.details["error"].startswith("ValueError: history: no message: ")


@row("S3-41", "X-5", "X-18", "B3-8")
def test_tools_that_cannot_be_added_or_removed() -> None:
    def impostor(query: str) -> str:
        return query

    def on_step(self: Any, step: Step) -> None:
        assert "__finish__" not in [made.name for made in step.tools]
        step.remove_tool("absent")
        for added in (search, self.note, self.note):
            step.add_tool(added)
        for refused in (Tool.from_function(impostor, name="search"), Tool.from_function(impostor, name="__finish__")):
            with pytest.raises(ValueError, match=refused.name):
                step.add_tool(refused)
        with pytest.raises(ValueError, match="__finish__"):
            step.remove_tool("__finish__")
        assert [made.name for made in step.tools] == ["search", "fail", "note"]

    def note(self: Any, text: str) -> str:
        return text

    assert agent_of(Script(SEARCH, finish("ok")), on_step, note=note)(question="?").answer == "ok"
    reserved = [Tool.from_function(impostor, name="__finish__")]
    with pytest.raises(ValueError, match="__finish__"):
        agent_of(Script(), tools=reserved)


@row("S3-37", "B3-9", "X-7")
def test_on_step_is_called_for_steps_with_calls_only_and_before_forcing() -> None:
    def on_step(self: Any, step: Step) -> None:
        seen.append((step.counter, [call.name for call in step.tool_calls], len(model.requests)))
        if step.counter == 4:
            step.temperature = 0.1
            step.remove_tool("search")
            step.add_tool(other)
            self.history.append({"role": "user", "content": "last words"})

    for replies in ([finish("forced")], [Reply("no"), Reply("<output><answer>forced</answer></output>")]):
        seen: list[tuple[int, list[str], int]] = []
        model = Script(Reply("hm"), BAD, helpers.NOPE, SEARCH, *replies)
        assert agent_of(model, on_step, max_steps=4)(question="?").answer == "forced"
        assert seen == [(2, ["__finish__"], 2), (3, ["nope"], 3), (4, ["search"], 4)]
        for request in model.requests[4:]:
            assert (request.role, request.sampling.temperature) == (Role.ANSWER, 0.1)
            assert helpers.offered(request) == ["fail", "other", "__finish__"]
        assert model.requests[4].messages[-1].content == "last words"
