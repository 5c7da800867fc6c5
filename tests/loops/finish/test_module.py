"""The declarative face: from the class to the answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel, Field, RootModel, ValidationError

from tests.loops.finish.module_helpers import (
    BAD,
    FAIL,
    SEARCH,
    AnswerOutput,
    agent_of,
    assert_legal,
    contents,
    finish,
    native,
    says,
    search,
)
from tests.loops.helpers import Script, python
from tests.rows import row
from whichloop.loops.finish import (
    Finish,
    Module,
    ParseError,
    Step,
    module,
    resolve_model,
    tool,
)
from whichloop.protocol import (
    Capabilities,
    Chunk,
    ProviderError,
    Query,
    Reply,
    Request,
    StopReason,
    Toolbox,
    run_sync,
)


@row("S3-1", "S3-2")
def test_inputs_are_validated_and_stand_in_the_request_as_xml() -> None:
    model = Script(finish("Paris"))
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
            agent_of(Script())(**wrong)


class Tree(BaseModel):
    label: str = Field(description="of the node")
    parts: list[Tree] = []


@row("S3-2")
def test_a_model_that_holds_itself_is_an_object_for_finish_and_for_xml() -> None:
    tree = Tree(label="a", parts=[Tree(label="b")])
    xml = Reply("<output><label>a</label><parts><item><label>b</label></item></parts></output>")
    for reply in (says(native("__finish__", **tree.model_dump())), xml):
        model = Script(reply)
        model.capabilities = Capabilities(tool_choice=False)
        assert agent_of(model, final_output=Tree, max_steps=None if reply.calls else 0)(question="?") == tree
        parameters = model.requests[0].tools[-1].parameters
        assert (parameters["type"], list(parameters["properties"])) == ("object", ["label", "parts"])
    assert '<label description="of the node"></label>' in model.requests[0].messages[-1].content


@row("S3-33")
def test_an_input_or_output_that_is_no_object_is_refused() -> None:
    for attribute in ("initial_input", "final_output"):
        wrong: dict[str, Any] = {attribute: str}
        with pytest.raises(TypeError, match=attribute):
            agent_of(Script(), **wrong)
    with pytest.raises(TypeError, match="not an object"):
        agent_of(Script(), final_output=RootModel[list[int]])(question="?")


@row("S3-1")
def test_without_initial_input_no_argument_is_taken() -> None:
    plain = agent_of(Script(finish()), initial_input=None)
    with pytest.raises(TypeError, match="initial_input"):
        plain(question="?")
    assert plain().answer == "x"


@row("S3-33")
def test_class_attributes_are_the_settings() -> None:
    model = Script(SEARCH, BAD, BAD)
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


@row("S3-42")
def test_the_docstring_is_the_system_text_unless_there_is_a_prompt() -> None:
    for attributes, shown in (({}, ["You are a research assistant."]), ({"system_prompt": "P"}, ["P"]), ({"__doc__": None}, [])):
        model = Script(finish())
        agent_of(model, **attributes)(question="?")
        assert contents(model.requests[0], "system") == shown


@row("S3-35")
def test_one_instance_runs_many_calls_each_with_its_own_state() -> None:
    started: list[Any] = []

    class Echo(Script):
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


@row("S3-36", "B3-14")
def test_a_plain_call_is_synchronous_and_refused_inside_an_event_loop() -> None:
    assert Module is module
    agent = agent_of(Script(then=finish("ok")))
    assert agent(question="?").answer == "ok"

    async def main() -> Any:
        with pytest.raises(RuntimeError, match="acall"):
            agent(question="?")
        return await agent.acall(question="?")

    assert run_sync(main()).answer == "ok"


@row("S3-36")
def test_a_plain_on_step_runs_off_the_event_loop_and_an_async_one_is_awaited() -> None:
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
        agent_of(Script(SEARCH, finish()), hook)(question="?")
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
@row("S3-47", "S3-28")
def test_a_model_dict_says_how_often_a_failure_is_tried_again(streams: bool) -> None:
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


@row("S3-47")
def test_retry_delay_lies_between_the_tries_and_hopeless_errors_are_not_tried_again() -> None:
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


@row("S3-47")
def test_exhausted_retries_are_provider_error_in_an_outcome(caplog: pytest.LogCaptureFixture) -> None:
    model = resolve_model({"model": Flaky(9), "num_retries": 1})
    caplog.set_level("INFO", "whichloop.loops")
    outcome = run_sync(Finish().run(Query("Q"), Toolbox(), model))
    assert outcome.stop is StopReason.PROVIDER_ERROR
    retried, ended = [record.getMessage() for record in caplog.records]
    assert retried.startswith("attempt 1 of 2 failed")
    assert ended.startswith("the run ends as provider_error: ProviderError: ")


@row("S3-47")
def test_a_name_becomes_a_model_without_litellm_and_anything_else_is_refused() -> None:
    done = python(
        "import os, sys\n"
        "from whichloop.loops.finish import resolve_model\n"
        "assert 'dspy' not in sys.modules\n"
        "print(resolve_model('openai/gpt-4o-mini').name, 'litellm' in sys.modules, os.environ['LITELLM_LOCAL_MODEL_COST_MAP'])\n",
        OPENAI_API_KEY="none",
    )
    assert done.stdout.split() == ["openai/gpt-4o-mini", "False", "True"], done.stderr
    for wrong in (None, 3, {}, {"num_retries": 1}, {"model": Script(), "num_retries": -1}):
        with pytest.raises(ValueError, match="model"):
            resolve_model(wrong)


@row("S3-48")
def test_a_decorated_tool_is_unchanged_and_known_by_name_docstring_and_schema() -> None:
    assert search("q", limit=1) == ["result 1"]

    @tool(name="renamed", description="Described.")
    def original(x: float) -> float:
        """Not this."""
        return x

    model = Script(finish())
    agent_of(model, tools=[search, original])(question="?")
    shown, renamed, _ = model.requests[0].tools
    assert (shown.name, shown.description) == ("search", "Search for information.")
    assert shown.parameters["properties"]["limit"] == {"type": "integer", "default": 3}
    assert shown.parameters["required"] == ["query"]
    assert (renamed.name, renamed.description) == ("renamed", "Described.")


@pytest.mark.parametrize("parallel", [False, True])
@row("S3-48")
def test_parallel_tools_run_concurrently_in_a_module_too(parallel: bool) -> None:
    most = inside = 0

    async def wait() -> int:
        nonlocal most, inside
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        return inside

    model = Script(says(native("wait", "1"), native("wait", "2")), finish())
    agent_of(model, tools=[wait], parallel_tools=parallel)(question="?")
    assert most == (2 if parallel else 1)
