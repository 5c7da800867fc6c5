"""Design 3, its declarative face and its hooks: a test for every row that they show, named after it."""
# ruff: noqa: N802  (row ids keep their capitals)

from __future__ import annotations

import asyncio
import copy
import json
import logging
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, ValidationError

from loopbench.loops.finish import (
    Finish,
    Module,
    ParseError,
    Partial,
    Step,
    StreamChunk,
    Unfinished,
    UnfinishedError,
    module,
    resolve_model,
    tool,
)
from loopbench.protocol import (
    BudgetExceeded,
    CallDelta,
    Capabilities,
    Chunk,
    ContextOverflow,
    Message,
    NativeCall,
    Outcome,
    ProviderError,
    Query,
    Reply,
    Request,
    Role,
    StopReason,
    Tool,
    Toolbox,
    run_sync,
)


class QuestionInput(BaseModel):
    question: str = Field(description="what is asked")


class AnswerOutput(BaseModel):
    answer: str
    confidence: float = 0.5


@tool
def search(query: str, limit: int = 3) -> list[str]:
    """Search for information."""
    return ["result 1", "result 2"][:limit]


@tool
def fail(x: int = 0) -> str:
    """Always fails."""
    raise ValueError("x must be positive")


def other(x: int) -> int:
    """Another tool."""
    return x


def native(name: str, _id: str = "", **arguments: Any) -> NativeCall:
    return NativeCall(_id or f"id_{name}", name, json.dumps(arguments))


def says(*calls: NativeCall, text: str = "") -> Reply:
    return Reply(text, calls, None, "tool_calls")


def finish(answer: Any = "x", **others: Any) -> Reply:
    return says(native("__finish__", answer=answer, **others))


SEARCH = says(native("search", query="q"))
FAIL = says(native("fail"))
BAD = says(native("__finish__", answer=["no text"]))


class Agent(module):
    """You are a research assistant."""

    max_steps = 5
    initial_input = QuestionInput
    final_output = AnswerOutput
    tools = (search, fail)


def agent_of(model_: Any, on_step: Any = None, on_stream: Any = None, base: type[Module] = Agent, **attributes: Any) -> Any:
    """An instance of a subclass made on the spot."""
    hooks = {name: hook for name, hook in (("on_step", on_step), ("on_stream", on_stream)) if hook is not None}
    return type("Made", (base,), {"__doc__": base.__doc__, "model": model_, **hooks, **attributes})()


def assert_legal(messages: tuple[Message, ...]) -> None:
    """Every call has exactly one result, next to it and in order."""
    position = 0
    while position < len(messages):
        message = messages[position]
        assert message.role != "tool"
        answers = messages[position + 1 : position + 1 + len(message.calls)]
        assert [(answer.role, answer.call_id) for answer in answers] == [("tool", call.id) for call in message.calls]
        position += 1 + len(message.calls)


def contents(request: Request, role: str) -> list[str]:
    return [message.content for message in request.messages if message.role == role]


# --- flow ---


def test_S3_1_S3_2_inputs_are_validated_and_stand_in_the_request_as_xml(kit: Any) -> None:
    model = kit.Script(finish("Paris"))
    result = agent_of(model)(question="Capital of <France>?")
    assert result == AnswerOutput(answer="Paris")
    (request,) = model.requests
    assert contents(request, "system") == ["You are a research assistant."]
    assert contents(request, "user") == [
        '<input>\n    <question description="what is asked">Capital of &lt;France&gt;?</question>\n</input>'
    ]
    assert request.tools[-1].name == "__finish__"
    assert request.tools[-1].parameters["properties"].keys() == {"answer", "confidence"}
    for wrong in ({}, {"question": ["x"]}):
        with pytest.raises(ValidationError):
            agent_of(kit.Script())(**wrong)


class Tree(BaseModel):
    label: str = Field(description="of the node")
    parts: list[Tree] = []


def test_S3_2_a_model_that_holds_itself_is_an_object_for_finish_and_for_xml(kit: Any) -> None:
    tree = Tree(label="a", parts=[Tree(label="b")])
    xml = Reply("<output><label>a</label><parts><item><label>b</label></item></parts></output>")
    for reply in (says(native("__finish__", **tree.model_dump())), xml):
        model = kit.Script(reply)
        model.capabilities = Capabilities(tool_choice=False)
        assert agent_of(model, final_output=Tree, max_steps=None if reply.calls else 0)(question="?") == tree
        parameters = model.requests[0].tools[-1].parameters
        assert (parameters["type"], list(parameters["properties"])) == ("object", ["label", "parts"])
    assert '<label description="of the node"></label>' in model.requests[0].messages[-1].content


def test_S3_33_an_input_or_output_that_is_no_object_is_refused(kit: Any) -> None:
    for attribute in ("initial_input", "final_output"):
        wrong: dict[str, Any] = {attribute: str}
        with pytest.raises(TypeError, match=attribute):
            agent_of(kit.Script(), **wrong)
    with pytest.raises(TypeError, match="no object"):
        agent_of(kit.Script(), final_output=RootModel[list[int]])(question="?")


def test_S3_1_without_initial_input_no_argument_is_taken(kit: Any) -> None:
    plain = agent_of(kit.Script(finish()), initial_input=None)
    with pytest.raises(TypeError, match="initial_input"):
        plain(question="?")
    assert plain().answer == "x"


def test_S3_33_class_attributes_are_the_settings(kit: Any) -> None:
    model = kit.Script(SEARCH, BAD, BAD)
    made = agent_of(
        model,
        temperature=0.7,
        max_tokens=4096,
        max_steps=15,
        parse_retries=1,
        system_prompt="\n    S.\n    T.\n    ",
        tools=[search],
    )
    with pytest.raises(ParseError):
        made(question="?")
    first = model.requests[0]
    assert first.sampling.as_dict() == {"temperature": 0.7, "max_tokens": 4096}
    assert contents(first, "system") == ["S.\nT."]
    assert [spec.name for spec in first.tools] == ["search", "__finish__"]
    with pytest.raises(ValueError, match="parse_retries"):
        agent_of(model, parse_retries=-1)


def test_S3_42_the_docstring_is_the_system_text_unless_there_is_a_prompt(kit: Any) -> None:
    for attributes, shown in (({}, ["You are a research assistant."]), ({"system_prompt": "P"}, ["P"]), ({"__doc__": None}, [])):
        model = kit.Script(finish())
        agent_of(model, **attributes)(question="?")
        assert contents(model.requests[0], "system") == shown


def test_S3_35_one_instance_runs_many_calls_each_with_its_own_state(kit: Any) -> None:
    started: list[Any] = []

    class Echo(kit.Script):  # type: ignore[misc]
        """Searches twice, then answers with the question."""

        async def complete(self, request: Request) -> Reply:
            await asyncio.sleep(0)
            assert_legal(request.messages)
            question = contents(request, "user")[0].split(">")[2].split("<")[0]
            assert contents(request, "user")[1:] == [f"note {question}"] * len(contents(request, "tool"))
            if len(contents(request, "tool")) < 2:
                return SEARCH if "search" in [spec.name for spec in request.tools] else FAIL
            return finish(question)

    async def on_step(self: Any, step: Step) -> None:
        started.append(step.counter)
        question = self.history[1]["content"].split(">")[2].split("<")[0]
        await asyncio.sleep(0)
        step.remove_tool("search")
        self.history.append({"role": "user", "content": f"note {question}"})

    agent = agent_of(Echo(), on_step)

    async def main() -> list[Any]:
        return list(await asyncio.gather(*[agent.acall(question=f"q{index}") for index in range(5)]))

    assert [result.answer for result in run_sync(main())] == [f"q{index}" for index in range(5)]
    assert sorted(started) == [1] * 5 + [2] * 5
    assert agent(question="again").answer == "again"
    assert sorted(started)[5] == 1


def test_S3_36_B3_14_a_plain_call_is_synchronous_and_refused_inside_an_event_loop(kit: Any) -> None:
    assert Module is module
    agent = agent_of(kit.Script(then=finish("ok")))
    assert agent(question="?").answer == "ok"

    async def main() -> Any:
        with pytest.raises(RuntimeError, match="acall"):
            agent(question="?")
        return await agent.acall(question="?")

    assert run_sync(main()).answer == "ok"


def test_S3_36_a_plain_on_step_runs_off_the_event_loop_and_an_async_one_is_awaited(kit: Any) -> None:
    threads: list[str] = []

    def plain(self: Any, step: Step) -> None:
        threads.append(threading.current_thread().name)
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()

    async def later(self: Any, step: Step) -> None:
        await asyncio.sleep(0)
        threads.append(threading.current_thread().name)

    main_name = threading.current_thread().name
    for hook in (plain, later):
        agent_of(kit.Script(SEARCH, finish()), hook)(question="?")
    assert threads[0] != main_name == threads[1]


class Flaky:
    """Fails a number of times with one kind of error."""

    name = "flaky"
    capabilities = Capabilities()

    def __init__(self, failures: int, kind: Any = "server") -> None:
        self.failures = failures
        self.kind = kind
        self.asked = 0

    async def complete(self, request: Request) -> Reply:
        self.asked += 1
        if self.asked <= self.failures:
            raise ProviderError("down", self.kind)
        return finish("ok", confidence=1)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


@pytest.mark.parametrize("streams", [False, True])
def test_S3_47_S3_28_a_model_dict_says_how_often_a_failure_is_tried_again(streams: bool) -> None:
    hook = (lambda self, chunk: None) if streams else None
    for retries, works in ((2, True), (1, False), (0, False)):
        model = Flaky(2)
        agent = agent_of({"model": model, "num_retries": retries, "retry_delay": 0.001}, on_stream=hook)
        if works:
            assert agent(question="?").answer == "ok"
        else:
            with pytest.raises(ProviderError, match="down"):
                agent(question="?")
        assert model.asked == retries + 1


def test_S3_47_retry_delay_lies_between_the_tries_and_hopeless_errors_are_not_tried_again() -> None:
    async def elapsed() -> float:
        clock = asyncio.get_running_loop().time
        before = clock()
        await agent_of({"model": Flaky(2), "num_retries": 2, "retry_delay": 0.02}).acall(question="?")
        return clock() - before

    assert run_sync(elapsed()) >= 0.04
    model = Flaky(1, "auth")
    with pytest.raises(ProviderError):
        agent_of({"model": model, "num_retries": 5})(question="?")
    assert model.asked == 1


def test_S3_47_exhausted_retries_are_provider_error_in_an_outcome() -> None:
    model = resolve_model({"model": Flaky(9), "num_retries": 1})
    outcome = run_sync(Finish().run(Query("Q"), Toolbox(), model))
    assert outcome.stop is StopReason.PROVIDER_ERROR


def test_S3_47_a_name_becomes_a_model_without_litellm_and_anything_else_is_refused(kit: Any) -> None:
    done = kit.python(
        "import sys\n"
        "from loopbench.loops.finish import resolve_model\n"
        "assert 'dspy' not in sys.modules\n"
        "print(resolve_model('openai/gpt-4o-mini').name, 'litellm' in sys.modules)\n",
        OPENAI_API_KEY="none",
    )
    assert done.stdout.split() == ["openai/gpt-4o-mini", "False"], done.stderr
    for wrong in (None, 3, {}, {"num_retries": 1}, {"model": kit.Script(), "num_retries": -1}):
        with pytest.raises(ValueError, match="model"):
            resolve_model(wrong)


def test_S3_48_a_decorated_tool_is_unchanged_and_known_by_name_docstring_and_schema(kit: Any) -> None:
    assert search("q", limit=1) == ["result 1"]

    @tool(name="renamed", description="Described.")
    def original(x: float) -> float:
        """Not this."""
        return x

    model = kit.Script(finish())
    agent_of(model, tools=[search, original])(question="?")
    shown, renamed, _ = model.requests[0].tools
    assert (shown.name, shown.description) == ("search", "Search for information.")
    assert shown.parameters["properties"]["limit"] == {"type": "integer", "default": 3}
    assert shown.parameters["required"] == ["query"]
    assert (renamed.name, renamed.description) == ("renamed", "Described.")


@pytest.mark.parametrize("parallel", [False, True])
def test_S3_48_parallel_tools_run_concurrently_in_a_module_too(parallel: bool, kit: Any) -> None:
    most = inside = 0

    async def wait() -> int:
        nonlocal most, inside
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        return inside

    model = kit.Script(says(native("wait", "1"), native("wait", "2")), finish())
    agent_of(model, tools=[wait], parallel_tools=parallel)(question="?")
    assert most == (2 if parallel else 1)


# --- the step ---


def test_S3_6_S3_9_S3_37_on_step_sees_the_step_after_the_tools_and_before_the_next_request(kit: Any) -> None:
    seen: list[Any] = []
    model = kit.Script(SEARCH, FAIL, finish())

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


def test_S3_37_on_step_is_called_for_steps_with_calls_only_and_before_forcing(kit: Any) -> None:
    seen: list[tuple[int, list[str], int]] = []
    model = kit.Script(Reply("hm"), BAD, says(native("nope")), SEARCH, finish("forced"))

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


def test_S3_7_S3_14_X_1_tools_added_and_removed_change_the_next_requests(kit: Any) -> None:
    def on_step(self: Any, step: Step) -> None:
        if step.counter == 1:
            step.remove_tool("fail")
            step.add_tool(other)
            assert [made.name for made in step.tools] == ["search", "other"]

    model = kit.Script(SEARCH, says(native("other", x=7)), FAIL, finish())
    agent_of(model, on_step)(question="?")
    names = [[spec.name for spec in request.tools] for request in model.requests]
    assert names == [["search", "fail", "__finish__"]] + [["search", "other", "__finish__"]] * 3
    assert contents(model.requests[-1], "tool")[1:] == ["7", "Tool error: Tool 'fail' not found"]


def test_S3_8_S3_16_S3_24_S3_39_step_finish_is_validated_and_ends_the_run(kit: Any) -> None:
    def on_step(self: Any, step: Step) -> None:
        step.finish(answer="first")
        step.finish(answer="x", confidence="0.95")
        self.history.append({"role": "user", "content": "after"})
        seen.append(self.history)

    seen: list[Any] = []
    model = kit.Script(SEARCH)
    made = agent_of(model, on_step, max_steps=1)(question="?")
    assert made == AnswerOutput(answer="x", confidence=0.95) == agent_of(kit.Script(finish("x", confidence="0.95")))(question="?")
    assert len(model.requests) == 1
    assert [entry["role"] for entry in seen[0]] == ["system", "user", "assistant", "tool", "user"]


def test_S3_39_X_5_step_finish_with_bad_data_raises_at_the_call(kit: Any) -> None:
    def uncaught(self: Any, step: Step) -> None:
        step.finish(answer=3)

    def caught(self: Any, step: Step) -> None:
        with pytest.raises(ValidationError):
            step.finish(wrong=1)

    model = kit.Script(SEARCH)
    with pytest.raises(ValidationError):
        agent_of(model, uncaught)(question="?")
    assert len(model.requests) == 1
    assert agent_of(kit.Script(SEARCH, finish("ok")), caught)(question="?").answer == "ok"
    loop = Finish(max_steps=3, on_step=lambda step: step.finish(answer=3))
    outcome = run_sync(loop.run(Query("Q"), Toolbox([search]), kit.Script(SEARCH)))
    assert (outcome.stop, outcome.details["error"]) == (
        StopReason.TERMINATED,
        "InvalidOutput: answer: 3 is not of type 'string'",
    )


@pytest.mark.parametrize("returned", [True, False])
def test_S3_10_B3_6_X_5_on_step_returns_the_step_or_none(returned: bool, kit: Any) -> None:
    def on_step(self: Any, step: Step) -> Any:
        step.temperature = 0.1
        return step if returned else None

    model = kit.Script(SEARCH, finish())
    agent_of(model, on_step)(question="?")
    assert model.requests[1].sampling.temperature == 0.1
    with pytest.raises(TypeError, match="return the step"):
        agent_of(kit.Script(SEARCH), lambda self, step: "something else")(question="?")


def test_S3_11_S3_38_B3_1_X_1_model_temperature_and_max_tokens_hold_from_the_next_request_on(kit: Any) -> None:
    second = kit.Script(SEARCH, finish("second"))

    def on_step(self: Any, step: Step) -> None:
        if step.counter == 1:
            assert step.model is first
            step.model, step.temperature, step.max_tokens = {"model": second, "num_retries": 1}, 0.1, 50
        else:
            assert step.model == {"model": second, "num_retries": 1}

    first = kit.Script(SEARCH)
    assert agent_of(first, on_step, temperature=0.9)(question="?").answer == "second"
    assert first.requests[0].sampling.as_dict() == {"temperature": 0.9}
    assert [request.sampling.as_dict() for request in second.requests] == [{"temperature": 0.1, "max_tokens": 50}] * 2


def test_S3_38_a_models_name_is_resolved_once_and_its_model_asked_from_then_on(kit: Any) -> None:
    second = kit.Script(SEARCH, finish("second"))
    resolved: list[Any] = []

    def resolver(given: Any) -> Any:
        resolved.append(given)
        return second

    def on_step(step: Step) -> None:
        step.model = "provider/second"

    loop = Finish(max_steps=5, on_step=on_step, resolver=resolver)
    outcome = run_sync(loop.run(Query("Q"), Toolbox([search]), kit.Script(SEARCH)))
    assert (outcome.answer, resolved, len(second.requests)) == ("second", ["provider/second"], 2)


def test_S3_38_a_model_that_cannot_be_made_aborts_the_run(kit: Any) -> None:
    def on_step(self: Any, step: Step) -> None:
        step.model = 3

    with pytest.raises(ValueError, match="model"):
        agent_of(kit.Script(SEARCH), on_step)(question="?")


def test_S3_12_X_1_history_can_be_appended_to_replaced_edited_and_trimmed(kit: Any) -> None:
    def on_step(self: Any, step: Step) -> None:
        if step.counter == 1:
            self.history.append({"role": "user", "content": "Be concise."})
            for entry in self.history:
                if entry["role"] == "system":
                    entry["content"] += "\n\nNOTE: bullet points."
        if step.counter == 2:
            self.history = self.history[:1] + self.history[-1:]

    model = kit.Script(SEARCH, SEARCH, finish())
    agent_of(model, on_step)(question="?")
    second, third = model.requests[1:]
    assert contents(second, "system") == ["You are a research assistant.\n\nNOTE: bullet points."]
    assert second.messages[-1] == Message("user", "Be concise.")
    assert [message.role for message in third.messages] == ["system", "assistant", "tool"]


def test_S3_13_S3_34_B3_2_X_1_results_changed_in_on_step_are_what_the_model_sees(kit: Any) -> None:
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
    model = kit.Script(SEARCH, SEARCH, SEARCH, SEARCH, finish())
    agent_of(model, on_step)(question="?")
    assert contents(model.requests[-1], "tool") == [
        '{"data": ["result 1", "result 2"], "note": "verify"}',
        "['res... (truncated)",
        '{"answer": "a", "confidence": 0.5}',
        "null",
    ]


def test_S3_12_X_2_results_find_their_calls_in_a_copy_of_the_history(kit: Any) -> None:
    def on_step(self: Any, step: Step) -> None:
        self.history = copy.deepcopy(self.history)

    model = kit.Script(SEARCH, FAIL, finish())
    agent_of(model, on_step)(question="?")
    assert contents(model.requests[2], "tool") == ['["result 1", "result 2"]', "Tool error: ValueError: x must be positive"]


@pytest.mark.parametrize("is_async", [True, False])
def test_S3_13_X_1_a_result_edited_in_place_is_what_the_model_sees(is_async: bool, kit: Any) -> None:
    def edit(self: Any, step: Step) -> None:
        for result in step.tool_results:
            result.output["data"].append("verified")

    async def later(self: Any, step: Step) -> None:
        edit(self, step)

    give = Tool.from_function(lambda: {"data": ["found"]}, name="give", blocking=False)
    model = kit.Script(says(native("give", "a"), native("give", "b")), finish())
    agent_of(model, later if is_async else edit, tools=[give])(question="?")
    assert contents(model.requests[1], "tool") == ['{"data": ["found", "verified"]}'] * 2


def test_S3_13_the_list_of_results_may_be_replaced_but_holds_results_only(kit: Any) -> None:
    def on_step(self: Any, step: Step) -> None:
        first, second = step.tool_results
        first.output = "changed"
        step.tool_results = [second, first] if step.counter == 1 else [first]

    twice = says(native("search", "a", query="q"), native("search", "b", query="q"))
    model = kit.Script(twice, twice, finish())
    agent_of(model, on_step)(question="?")
    assert contents(model.requests[1], "tool") == ["changed", '["result 1", "result 2"]']
    assert contents(model.requests[2], "tool")[2:] == ["changed", "(removed)"]

    def junk(self: Any, step: Step) -> None:
        step.tool_results = ["text"]  # type: ignore[list-item]

    with pytest.raises(TypeError, match="tool_results"):
        agent_of(kit.Script(SEARCH), junk)(question="?")


def test_S3_12_a_hook_without_module_changes_the_history_of_its_step(kit: Any) -> None:
    def on_step(step: Step) -> None:
        step.history = [{"role": "user", "content": "Q, again"}, *step.history[-1:]]

    model = kit.Script(SEARCH, finish())
    run_sync(Finish(max_steps=3, on_step=on_step).run(Query("Q"), Toolbox([search]), model))
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "tool"]


def test_S3_40_on_step_sees_the_raw_object(kit: Any) -> None:
    found: list[Any] = []
    thing = AnswerOutput(answer="raw")

    def on_step(self: Any, step: Step) -> None:
        found.append(step.tool_results[0].output)

    model = kit.Script(says(native("give")), finish())
    agent_of(model, on_step, tools=[Tool.from_function(lambda: thing, name="give")])(question="?")
    assert found == [thing]
    assert contents(model.requests[1], "tool") == ['{"answer": "raw", "confidence": 0.5}']


def test_S3_18_B3_2_X_2_results_enter_the_history_after_on_step_next_to_their_calls(kit: Any) -> None:
    def on_step(self: Any, step: Step) -> None:
        roles.append([entry["role"] for entry in self.history])
        self.history.append({"role": "user", "content": f"after {step.counter}"})

    roles: list[Any] = []
    model = kit.Script(SEARCH, SEARCH, finish())
    agent_of(model, on_step)(question="?")
    assert roles == [["system", "user", "assistant"], ["system", "user", "assistant", "tool", "user", "assistant"]]
    last = [message.role for message in model.requests[-1].messages]
    assert last == ["system", "user", "assistant", "tool", "user", "assistant", "tool", "user"]


@pytest.mark.parametrize("last", [False, True])
def test_S3_17_S3_25_X_5_raising_in_on_step_aborts_even_before_forcing(last: bool, kit: Any) -> None:
    def on_step(self: Any, step: Step) -> None:
        raise KeyError("no key")

    model = kit.Script(SEARCH, then=finish())
    with pytest.raises(KeyError, match="no key"):
        agent_of(model, on_step, max_steps=1 if last else 5)(question="?")
    assert len(model.requests) == 1

    def raising(step: Step) -> None:
        raise KeyError("no key")

    outcome = run_sync(Finish(max_steps=1 if last else 5, on_step=raising).run(Query("Q"), Toolbox([search]), kit.Script(SEARCH)))
    assert outcome.stop is StopReason.TERMINATED
    assert isinstance(outcome.details["exception"], KeyError)


@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), asyncio.CancelledError(), KeyboardInterrupt()])
@pytest.mark.parametrize("is_async", [True, False])
def test_G_3_finish_budget_and_cancellation_leave_through_on_step(leaving: BaseException, is_async: bool, kit: Any) -> None:
    def plain(step: Step) -> None:
        raise leaving

    async def later(step: Step) -> None:
        raise leaving

    loop = Finish(max_steps=3, on_step=later if is_async else plain)
    with pytest.raises(type(leaving)):
        run_sync(loop.run(Query("Q"), Toolbox([search]), kit.Script(SEARCH)))


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
def test_S3_17_a_childs_error_that_is_not_caught_keeps_its_own_stop_reason(error: Exception, stop: StopReason, kit: Any) -> None:
    def on_step(step: Step) -> None:
        raise error

    loop = Finish(max_steps=3, on_step=on_step)
    outcome = run_sync(loop.run(Query("Q"), Toolbox([search]), kit.Script(SEARCH)))
    assert outcome.stop is stop
    assert stop in loop.stops


def test_S3_41_X_5_X_18_B3_8_tools_that_cannot_be_added_or_removed(kit: Any) -> None:
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
    assert agent_of(kit.Script(SEARCH, finish("ok")), on_step, note=note)(question="?").answer == "ok"
    assert checked == [["search", "fail", "note"]]
    reserved = [Tool.from_function(impostor, name="__finish__")]
    with pytest.raises(ValueError, match="__finish__"):
        agent_of(kit.Script(), tools=reserved)
    agent = agent_of(kit.Script(finish()))
    agent.tools = reserved  # of one instance only
    with pytest.raises(ValueError, match="__finish__"):
        agent(question="?")


def test_B3_9_X_7_the_forced_call_offers_the_current_tools(kit: Any) -> None:
    def on_step(self: Any, step: Step) -> None:
        step.remove_tool("search")
        step.add_tool(other)

    for unforced in (finish("ok", confidence=1), Reply("no")):
        model = kit.Script(SEARCH, unforced, "<output><answer>ok</answer></output>")
        assert agent_of(model, on_step, max_steps=1)(question="?").answer == "ok"
        for request in model.requests[1:]:
            assert [spec.name for spec in request.tools] == ["fail", "other", "__finish__"]


def test_S3_26_X_4_B3_3_the_declarative_face_raises_parse_error_on_every_path(kit: Any) -> None:
    for replies, then, said in (
        ([], BAD, "no valid __finish__ in 3 replies"),
        ([SEARCH], BAD, "no valid forced __finish__ in 3 replies"),
        ([SEARCH, Reply("no")], Reply("<output></output>"), "no valid forced __finish__ in 3 replies"),
    ):
        with pytest.raises(ParseError, match=said):
            agent_of(kit.Script(*replies, then=then), max_steps=1 if replies else 5)(question="?")


def test_B3_12_S3_32_a_single_turn_gives_unfinished_or_raises_it_when_strict(kit: Any) -> None:
    unfinished = agent_of(kit.Script(SEARCH), max_steps=None)(question="?")
    assert isinstance(unfinished, Unfinished)
    assert [call.name for call in unfinished.tool_calls] == ["search"]
    assert unfinished.tool_results[0].output == ["result 1", "result 2"]
    with pytest.raises(UnfinishedError, match="search") as caught:
        agent_of(kit.Script(SEARCH), max_steps=None, strict=True)(question="?")
    assert [result.name for result in caught.value.unfinished.tool_results] == ["search"]


def test_S3_41_attributes_keep_their_bounds_and_the_answer_may_be_a_text(kit: Any) -> None:
    with pytest.raises(ValueError, match="max_steps"):
        agent_of(kit.Script(), max_steps=-1)
    assert agent_of(kit.Script(finish("plain")), final_output=None)(question="?") == "plain"
    with pytest.raises(ValueError, match="model"):
        agent_of(None)(question="?")


# --- the history, mended ---


def test_B3_15_X_2_trimming_leaves_no_call_without_result_and_says_so_once(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    def on_step(self: Any, step: Step) -> None:
        if step.counter > 1:
            self.history = self.history[:1] + self.history[-3:]
            trimmed.append(self.history[1]["role"])
        self.history.append({"role": "user", "content": f"s{step.counter}"})

    trimmed: list[str] = []

    model = kit.Script(*[SEARCH] * 4, finish("ok"))
    with caplog.at_level(logging.WARNING):
        assert agent_of(model, on_step)(question="?").answer == "ok"
    for request in model.requests:
        assert_legal(request.messages)
    assert trimmed == ["tool"] * 3  # its call is gone each time
    assert contents(model.requests[-1], "tool") == ['["result 1", "result 2"]']
    assert len(caplog.records) == 1


def test_B3_15_results_without_call_are_dropped_and_calls_without_result_get_a_stub(
    kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def on_step(self: Any, step: Step) -> None:
        if step.counter == 2:
            call = next(entry for entry in self.history if entry["role"] == "assistant")
            self.history.remove(call)
        if step.counter == 3:
            self.history.remove(next(entry for entry in self.history if entry["role"] == "tool" and entry["content"] == "two"))

    give = iter(["one", "two", "three"])
    replies = [says(native("give", f"c{index}")) for index in range(3)]
    model = kit.Script(*replies, finish())
    with caplog.at_level(logging.WARNING):
        agent_of(model, on_step, tools=[Tool.from_function(lambda: next(give), name="give")])(question="?")
    assert contents(model.requests[2], "tool") == ["two"]
    assert [(m.call_id, m.content) for m in model.requests[3].messages if m.role == "tool"] == [
        ("c1", "(removed)"),
        ("c2", "three"),
    ]
    assert len(caplog.records) == 1


def test_B3_15_a_result_stays_with_the_nearest_call_of_its_id(kit: Any) -> None:
    def on_step(self: Any, step: Step) -> None:
        if step.counter == 2:
            self.history.remove(next(entry for entry in self.history if entry["role"] == "tool"))

    give = iter(["one", "two"])
    model = kit.Script(*[says(native("give", "same"))] * 2, finish())
    agent_of(model, on_step, tools=[Tool.from_function(lambda: next(give), name="give")])(question="?")
    assert contents(model.requests[2], "tool") == ["(removed)", "two"]


ENTRIES = st.one_of(
    st.builds(
        lambda role, text: {"role": role, "content": text},
        st.sampled_from(["user", "system", "assistant", "odd"]),
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
    st.sampled_from([{}, None, 3, "text", Message("user", "m"), {"role": "assistant", "tool_calls": [3]}]),
)
EDITS = st.lists(st.tuples(st.sampled_from(["insert", "delete", "copy", "swap"]), st.integers(0, 20), ENTRIES), max_size=6)


@given(edits=st.lists(EDITS, min_size=1, max_size=3))
@settings(deadline=None, max_examples=100)
def test_X_2_B3_15_B3_24_whatever_on_step_does_to_the_history_requests_stay_legal(edits: list[Any], kit: Any) -> None:
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

    model = kit.Script(SEARCH, FAIL, BAD, SEARCH, finish())
    loop = Finish(max_steps=9, on_step=on_step)
    outcome: Outcome = run_sync(loop.run(Query("Q"), Toolbox([search, fail]), model))
    assert outcome.stop is StopReason.FINISHED
    for request in model.requests:
        assert_legal(request.messages)


# --- branches ---


class Review(module):
    """Review the work."""

    final_output = AnswerOutput


class Deeper(module):
    """Branches into itself."""

    max_steps = 2
    tools = (search,)

    async def on_step(self, step: Step) -> None:
        await self.branch(Deeper)


@pytest.mark.parametrize("is_async", [True, False])
def test_S3_15_S3_36_B3_24_a_branch_gives_the_childs_result_and_nothing_is_injected(is_async: bool, kit: Any) -> None:
    def plain(self: Any, step: Step) -> None:
        review = self.branch(Review)
        got.append(review)
        self.history.append({"role": "user", "content": f"Review complete: {review.model_dump_json()}"})

    async def later(self: Any, step: Step) -> None:
        review = await self.branch(Review)
        got.append(review)
        self.history.append({"role": "user", "content": f"Review complete: {review.model_dump_json()}"})

    got: list[Any] = []
    model = kit.Script(SEARCH, finish("fine", confidence=1), finish("done"))
    assert agent_of(model, later if is_async else plain)(question="?").answer == "done"
    parent, child, after = model.requests
    assert got == [AnswerOutput(answer="fine", confidence=1)]
    assert [message.content for message in after.messages if message.role == "user"][1:] == [
        'Review complete: {"answer":"fine","confidence":1.0}'
    ]
    assert "fine" not in str([message for message in after.messages if message.role != "user"])
    assert_legal(after.messages)
    assert (parent.scope, child.scope) == ("", "/Review")
    assert [spec.name for spec in child.tools] == ["__finish__"]


def test_B3_24_X_2_a_child_inherits_the_history_without_system_message_and_unfinished_step(kit: Any) -> None:
    def on_step(self: Any, step: Step) -> None:
        if step.counter == 2:
            self.history.insert(1, Message("system", "as a Message"))
            self.branch(Review)

    model = kit.Script(says(native("search", "one", query="a")), says(native("search", "two", query="b")), finish("c"), finish("d"))
    agent_of(model, on_step)(question="?")
    child = model.requests[2]
    assert [message.role for message in child.messages] == ["system", "user", "assistant", "tool", "user"]
    assert child.messages[0].content == "Review the work."
    assert child.messages[2].calls[0].id == "one"
    assert_legal(child.messages)
    assert len(model.requests) == 4


def test_B3_24_a_child_has_its_own_limit_copy_and_settings(kit: Any) -> None:
    class Child(Review):
        max_steps = 1
        temperature = 0.1
        tools = (search,)

        def on_step(self, step: Step) -> None:
            self.history.append({"role": "user", "content": "child's own"})
            self.history[0]["content"] += " child's edit"

    def on_step(self: Any, step: Step) -> None:
        self.branch(Child)

    model = kit.Script(SEARCH, SEARCH, finish("c"), finish("d"))
    agent_of(model, on_step, temperature=0.9)(question="?")
    assert [request.sampling.temperature for request in model.requests] == [0.9, 0.1, 0.1, 0.9]
    assert model.requests[2].tool_choice == "__finish__"
    assert "child's edit" in contents(model.requests[2], "user")[0]
    assert model.requests[3].messages[:2] == model.requests[0].messages
    assert "child's own" not in contents(model.requests[3], "user")


def test_B3_24_branches_are_three_deep_at_most_and_a_childs_error_raises_in_on_step(kit: Any) -> None:
    class Top(Deeper):
        async def on_step(self, step: Step) -> None:
            try:
                await self.branch(Deeper)
            except RuntimeError as error:
                errors.append(str(error))

    errors: list[str] = []
    model = kit.Script(*[SEARCH] * 4, finish("ok"))
    assert agent_of(model, base=Top)() == "ok"
    assert errors == ["branch: deeper than 3 modules"]
    assert [request.scope for request in model.requests] == ["", "/Deeper", "/Deeper/Deeper", "/Deeper/Deeper/Deeper", ""]

    def plain(self: Any, step: Step) -> None:
        with pytest.raises(ParseError):
            self.branch(Review)

    assert agent_of(kit.Script(SEARCH, BAD, BAD, BAD, finish("ok")), plain)(question="?").answer == "ok"
    with pytest.raises(ProviderError):
        agent_of(kit.Script(SEARCH, ProviderError("down")), lambda self, step: self.branch(Review))(question="?")


def test_B3_24_concurrent_branches_have_scopes_of_their_own_and_count_on_the_same_model(kit: Any) -> None:
    async def on_step(self: Any, step: Step) -> None:
        results.extend(await asyncio.gather(*[self.branch(Review) for _ in range(3)]))

    results: list[Any] = []
    model = kit.Script(SEARCH, finish("a"), finish("b"), finish("c"), finish("d"))
    agent_of(model, on_step)(question="?")
    assert [request.scope for request in model.requests] == ["", "/Review", "/Review-2", "/Review-3", ""]
    assert {result.answer for result in results} == {"a", "b", "c"}


def test_B3_24_a_child_that_names_a_model_is_asked_through_it_and_takes_inputs(kit: Any) -> None:
    own = kit.Script(finish("own"))

    class Named(Review):
        model = own
        initial_input = QuestionInput

    def on_step(self: Any, step: Step) -> None:
        self.branch(Named, question="really?")

    agent_of(kit.Script(SEARCH, finish()), on_step)(question="?")
    assert "really?" in own.requests[0].messages[-1].content


def test_S3_35_history_and_branch_belong_to_a_call(kit: Any) -> None:
    agent = agent_of(kit.Script())
    with pytest.raises(RuntimeError, match="history"):
        _ = agent.history
    with pytest.raises(RuntimeError, match="history"):
        agent.history = []
    with pytest.raises(RuntimeError, match="branch"):
        agent.branch(Review)

    async def main() -> None:
        done = agent_of(kit.Script(finish()))
        await done.acall(question="?")
        with pytest.raises(RuntimeError, match="history"):
            _ = done.history

    run_sync(main())


def test_S3_36_cancelling_a_call_ends_the_branch_that_a_plain_on_step_waits_for(kit: Any) -> None:
    class Stuck(kit.Script):  # type: ignore[misc]
        async def complete(self, request: Request) -> Reply:
            if request.scope:
                inside.set()
                await asyncio.sleep(60)
            return SEARCH

    ended = threading.Event()

    def on_step(self: Any, step: Step) -> None:
        try:
            self.branch(Review)
        finally:
            ended.set()

    async def main() -> None:
        before = asyncio.all_tasks()
        task = asyncio.create_task(agent_of(Stuck(), on_step).acall(question="?"))
        await inside.wait()
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.cancelled()
        assert asyncio.all_tasks() == before

    inside = asyncio.Event()
    run_sync(main())
    assert ended.wait(5)


def test_S3_36_a_branch_that_an_async_on_step_leaves_running_ends_with_the_call(kit: Any) -> None:
    class Slow(kit.Script):  # type: ignore[misc]
        async def complete(self, request: Request) -> Reply:
            if request.scope:
                inside.set()
                await asyncio.sleep(60)
            return await super().complete(request)  # type: ignore[no-any-return]

    async def on_step(self: Any, step: Step) -> None:
        left.append(asyncio.create_task(self.branch(Review)))
        await inside.wait()

    async def main() -> None:
        before = asyncio.all_tasks()
        assert (await agent_of(Slow(SEARCH, finish("ok")), on_step).acall(question="?")).answer == "ok"
        assert left[0].cancelled()
        assert asyncio.all_tasks() == before

    left: list[asyncio.Task[Any]] = []
    inside = asyncio.Event()
    run_sync(main())


def test_S3_36_a_hook_that_outlives_its_cancelled_call_cannot_branch(kit: Any) -> None:
    at_work, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def on_step(self: Any, step: Step) -> None:
        at_work.set()
        go_on.wait(5)
        try:
            self.branch(Review)
        except asyncio.CancelledError as error:
            raised.append(error)
        finally:
            ended.set()

    async def main() -> None:
        task = asyncio.create_task(agent_of(kit.Script(SEARCH), on_step).acall(question="?"))
        await asyncio.to_thread(at_work.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_sync(main())
    go_on.set()
    assert ended.wait(5)
    assert len(raised) == 1


@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), asyncio.CancelledError()])
def test_G_3_finish_budget_and_cancellation_leave_through_a_branch(leaving: BaseException, kit: Any) -> None:
    with pytest.raises(type(leaving)):
        agent_of(kit.Script(SEARCH, leaving), lambda self, step: self.branch(Review))(question="?")


# --- streams ---


class Streaming:
    """Streams replies in pieces of a few characters."""

    name = "streaming"
    capabilities = Capabilities()

    def __init__(self, *replies: Reply, size: int = 4) -> None:
        self.replies = list(replies)
        self.size = size
        self.requests: list[Request] = []
        self.closed = 0

    async def complete(self, request: Request) -> Reply:
        raise AssertionError("on_stream is defined: replies are streamed")

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        reply = self.replies.pop(0)
        try:
            for start in range(0, len(reply.text), self.size):
                yield Chunk(reply.text[start : start + self.size])
            for index, call in enumerate(reply.calls):
                yield Chunk(call=CallDelta(index, call.id, call.name))
                for start in range(0, len(call.arguments), self.size):
                    yield Chunk(call=CallDelta(index, arguments=call.arguments[start : start + self.size]))
            yield Chunk(reply=reply)
        finally:
            self.closed += 1


def streamed(*replies: Reply, on_step: Any = None, size: int = 4, **attributes: Any) -> tuple[Any, list[StreamChunk]]:
    chunks: list[StreamChunk] = []
    model = Streaming(*replies, size=size)
    result = agent_of(model, on_step, lambda self, chunk: chunks.append(chunk), **attributes)(question="?")
    assert model.closed == len(model.requests)
    return result, chunks


DONE = says(native("__finish__", answer="Paris, of course", confidence=0.95), text="Let me answer.")


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_S3_29_S3_30_S3_46_chunks_carry_text_partial_answer_or_call_and_the_last_is_done(size: int) -> None:
    looking = says(native("search", query="python creation"), text="I will look.")
    result, chunks = streamed(looking, DONE, size=size)
    assert result == AnswerOutput(answer="Paris, of course", confidence=0.95)
    assert "".join(chunk.content or "" for chunk in chunks) == "I will look.Let me answer."
    assert all(chunk.content is None for chunk in chunks if chunk.partial is not None or chunk.tool_call is not None)
    assert [index for index, chunk in enumerate(chunks) if chunk.done][-1] == len(chunks) - 1
    assert sum(chunk.done for chunk in chunks) == 2
    calls = [chunk.tool_call for chunk in chunks if chunk.tool_call is not None]
    assert calls[-1].name == "search"
    assert json.loads(calls[-1].arguments) == {"query": "python creation"}
    partials = [chunk.partial for chunk in chunks if chunk.partial is not None]
    kind: Any = Partial[AnswerOutput]
    assert all(isinstance(partial, kind) for partial in partials)
    assert partials[-1].model_dump() == result.model_dump()
    assert {partial.confidence for partial in partials} <= {None, 0.95}
    assert all("Paris, of course".startswith(partial.answer or "") for partial in partials)


def test_S3_31_text_then_calls_are_streamed_then_tools_run_then_on_step() -> None:
    order: list[str] = []

    def note() -> str:
        """Note that it ran."""
        order.append("tool")
        return ""

    def on_stream(self: Any, chunk: StreamChunk) -> None:
        order.append("done" if chunk.done else "text" if chunk.content else "call" if chunk.tool_call else "partial")

    model = Streaming(says(native("note"), text="Look"), finish())
    agent_of(model, lambda self, step: order.append("on_step"), on_stream, tools=[note])(question="?")
    assert order[: order.index("on_step") + 1] == ["text", "call", "call", "done", "tool", "on_step"]


def test_S3_46_a_reply_is_streamed_iff_on_stream_is_defined_and_the_forced_call_too(kit: Any) -> None:
    result, chunks = streamed(SEARCH, finish("late"), max_steps=1)
    assert result.answer == "late"
    assert sum(chunk.done for chunk in chunks) == 2
    assert chunks[-1].partial.answer == "late"

    class Unstreamed(kit.Script):  # type: ignore[misc]
        def stream(self, request: Request) -> Any:
            raise AssertionError("on_stream is not defined")

    assert agent_of(Unstreamed(finish()))(question="?").answer == "x"


def test_S3_46_a_model_that_streams_one_whole_chunk_gives_text_and_a_done_chunk(kit: Any) -> None:
    class Whole(kit.Script):  # type: ignore[misc]
        async def stream(self, request: Request) -> AsyncIterator[Chunk]:
            reply = await self.complete(request)
            yield Chunk(reply.text, reply=reply)

    chunks: list[StreamChunk] = []
    agent_of(Whole(Reply("hm"), DONE), None, lambda self, chunk: chunks.append(chunk))(question="?")
    assert [(chunk.content, chunk.done) for chunk in chunks] == [("hm", True), ("Let me answer.", False), (None, True)]
    assert chunks[-1].partial.answer == "Paris, of course"


def test_S3_46_a_last_chunk_with_a_piece_of_a_call_is_told_apart_and_is_done_once(kit: Any) -> None:
    class Hasty(kit.Script):  # type: ignore[misc]
        async def stream(self, request: Request) -> AsyncIterator[Chunk]:
            reply = await self.complete(request)
            call = reply.calls[0]
            yield Chunk("Look.", CallDelta(0, call.id, call.name, call.arguments), reply)

    chunks: list[StreamChunk] = []
    agent_of(Hasty(SEARCH, finish("ok")), None, lambda self, chunk: chunks.append(chunk))(question="?")
    assert [chunk.content for chunk in chunks] == ["Look.", None, None] * 2
    assert [chunk.done for chunk in chunks] == [False, False, True] * 2
    assert chunks[1].tool_call is not None
    assert chunks[1].tool_call.name == "search"
    assert chunks[5].partial.answer == "ok"


@pytest.mark.parametrize("is_async", [True, False])
def test_S3_46_S3_17_on_stream_that_raises_aborts_and_the_stream_is_closed(is_async: bool) -> None:
    def plain(self: Any, chunk: StreamChunk) -> None:
        raise OSError("pipe")

    async def later(self: Any, chunk: StreamChunk) -> None:
        raise OSError("pipe")

    async def main() -> None:
        model = Streaming(DONE)
        with pytest.raises(OSError, match="pipe") as caught:
            await agent_of(model, None, later if is_async else plain).acall(question="?")
        assert (model.closed, len(model.requests)) == (1, 1), caught  # at once, not when the exception is let go

    run_sync(main())
    loop = Finish(on_stream=lambda chunk: 1 / 0)
    assert run_sync(loop.run(Query("Q"), Toolbox(), Streaming(DONE))).stop is StopReason.TERMINATED
    assert StopReason.TERMINATED in loop.stops


def test_S3_46_a_stream_without_a_reply_is_a_provider_error() -> None:
    class Cut(Streaming):
        async def stream(self, request: Request) -> AsyncIterator[Chunk]:
            yield Chunk("half")

    with pytest.raises(ProviderError, match="without a reply"):
        agent_of(Cut(), None, lambda self, chunk: None)(question="?")


def test_S3_29_under_a_json_schema_the_partial_answer_is_a_dict() -> None:
    chunks: list[StreamChunk] = []
    outcome = run_sync(Finish(on_stream=chunks.append).run(Query("Q"), Toolbox(), Streaming(finish("long text"), size=5)))
    assert outcome.answer == "long text"
    partials = [chunk.partial for chunk in chunks if chunk.partial]
    assert partials[-1] == {"answer": "long text"}
    assert any(partial["answer"] in "long text" and partial != partials[-1] for partial in partials)


def test_S3_35_on_stream_can_branch_into_a_scope_of_its_own() -> None:
    class Talking(Streaming):
        async def complete(self, request: Request) -> Reply:
            self.requests.append(request)
            return finish("child")

    def on_stream(self: Any, chunk: StreamChunk) -> None:
        if chunk.done:
            got.append((self.branch(Review).answer, len(self.history)))

    got: list[Any] = []
    model = Talking(DONE)
    agent_of(model, None, on_stream)(question="?")
    assert got == [("child", 2)]
    assert [request.scope for request in model.requests] == ["", "/Review"]


def test_B3_24_a_branch_in_on_stream_inherits_a_text_without_calls(kit: Any) -> None:
    def on_stream(self: Any, chunk: StreamChunk) -> None:
        if chunk.done and len(self.history) > 2:
            self.branch(Review)

    model = kit.Script(Reply("Let me think."), finish("ok"), finish("child"))
    agent_of(model, None, on_stream)(question="?")
    child = model.requests[-1]
    assert child.scope == "/Review"
    assert contents(child, "assistant") == ["Let me think."]


def test_importing_the_design_loads_neither_dspy_nor_jsonschema(kit: Any) -> None:
    done = kit.python(
        "import sys, loopbench.loops.finish as f\nprint([n for n in ('dspy', 'jsonschema', 'mlflow') if n in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stderr
    assert "loopbench.loops.finish" in sys.modules
