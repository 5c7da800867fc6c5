"""The declarative face: from the class to the answer, and branches."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from pydantic import RootModel, ValidationError

from tests.loops.finish import helpers
from tests.loops.finish.helpers import BAD, SEARCH, Review, agent_of, assert_legal, contents, finish, native, offered, search
from tests.loops.helpers import Script
from tests.rows import row
from whichloop.loops.finish import Finish, Module, ParseError, Step, module, resolve_model, tool
from whichloop.protocol import Message, ProviderError, Reply, Request, StopReason, run_sync


@row("S3-1", "S3-2", "S3-33")
def test_inputs_are_validated_and_stand_in_the_request_as_xml() -> None:
    model = Script(finish("Paris"))
    assert agent_of(model)(question="Capital of <France>?") == helpers.AnswerOutput(answer="Paris")
    (request,) = model.requests
    assert contents(request, "system") == ["You are a research assistant."]
    assert contents(request, "user") == [
        '<input>\n    <question description="what is asked">Capital of &lt;France&gt;?</question>\n</input>'
    ]
    assert request.tools[-1].parameters["properties"].keys() == {"answer", "confidence"}
    for wrong in ({}, {"question": ["x"]}):
        with pytest.raises(ValidationError):
            agent_of(Script())(**wrong)
    with pytest.raises(TypeError, match="not an object"):
        agent_of(Script(), final_output=RootModel[list[int]])(question="?")
    plain = agent_of(Script(finish("plain")), initial_input=None, final_output=None)
    with pytest.raises(TypeError, match="initial_input"):
        plain(question="?")
    assert plain() == "plain"


@row("S3-33", "S3-42")
def test_class_attributes_are_the_settings_and_the_docstring_is_the_system_text() -> None:
    for attributes, shown in (({}, ["You are a research assistant."]), ({"__doc__": None}, [])):
        given: dict[str, Any] = {**attributes}
        agent_of(plain := Script(finish()), **given)(question="?")
        assert contents(plain.requests[0], "system") == shown
    model = Script(SEARCH, BAD, BAD)
    options: dict[str, Any] = {"temperature": 0.7, "max_tokens": 4096, "max_steps": 15, "parse_retries": 1, "tools": [search]}
    with pytest.raises(ParseError):
        agent_of(model, **options, system_prompt="\n    S.\n    T.\n    ")(question="?")
    first = model.requests[0]
    assert first.sampling.as_dict() == {"temperature": 0.7, "max_tokens": 4096}
    assert contents(first, "system") == ["S.\nT."]
    assert offered(first) == ["search", "__finish__"]
    with pytest.raises(ValueError, match="parse_retries"):
        agent_of(model, parse_retries=-1)


@row("S3-35")
def test_one_instance_runs_many_calls_each_with_its_own_state() -> None:
    def echo(request: Request) -> Reply:
        """Search once, then answer with the question."""
        assert_legal(request.messages)
        question = contents(request, "user")[0].split(">")[2].split("<")[0]
        assert contents(request, "user")[1:] == [f"note {question}"] * len(helpers.results(request))
        return finish(question) if helpers.results(request) else SEARCH

    async def on_step(self: Any, step: Step) -> None:
        assert step.counter == 1
        question = self.history[1]["content"].split(">")[2].split("<")[0]
        await asyncio.sleep(0)
        self.history.append({"role": "user", "content": f"note {question}"})

    agent = agent_of(Script(then=echo), on_step)

    async def main() -> list[Any]:
        return list(await asyncio.gather(*[agent.acall(question=f"q{index}") for index in range(5)]))

    assert [result.answer for result in run_sync(main())] == [f"q{index}" for index in range(5)]


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


def flaky(failures: int, kind: Any = "server") -> Script:
    """Fails a number of times with one kind of error."""
    return Script(*[ProviderError("down", kind)] * failures, then=finish("ok"))


@pytest.mark.parametrize("streams", [False, True])
@row("S3-47", "S3-28")
def test_a_model_dict_says_how_often_a_failure_is_tried_again(streams: bool) -> None:
    hook = (lambda self, chunk: None) if streams else None
    for model, retries, asked in ((flaky(2), 2, 3), (flaky(2), 1, 2), (flaky(2), 0, 1), (flaky(1, "auth"), 5, 1)):
        agent = agent_of({"model": model, "num_retries": retries, "retry_delay": 0.001}, on_stream=hook)
        if asked == 3:
            assert agent(question="?").answer == "ok"
        else:
            with pytest.raises(ProviderError, match="down"):
                agent(question="?")
        assert len(model.requests) == asked
    assert helpers.run(Finish(), resolve_model({"model": flaky(9), "num_retries": 1})).stop is StopReason.PROVIDER_ERROR


@row("S3-47")
def test_a_name_becomes_a_model_and_anything_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert resolve_model("openai/gpt-4o-mini").name == "openai/gpt-4o-mini"
    for wrong in (None, 3, {}, {"num_retries": 1}, {"model": Script(), "num_retries": -1}):
        with pytest.raises(ValueError, match="model"):
            resolve_model(wrong)


@row("S3-48")
def test_a_decorated_tool_is_unchanged_and_known_by_name_docstring_and_schema() -> None:
    assert search("q", limit=1) == ["result 1"]

    @tool(name="renamed", description="Described.")
    def original(x: float) -> float:
        return x

    model = Script(finish())
    agent_of(model, tools=[search, original])(question="?")
    shown, renamed, _ = model.requests[0].tools
    assert (shown.name, shown.description) == ("search", "Search for information.")
    assert shown.parameters["properties"]["limit"] == {"type": "integer", "default": 3}
    assert shown.parameters["required"] == ["query"]
    assert (renamed.name, renamed.description) == ("renamed", "Described.")


# --- branches ---


class Deeper(module):
    """Branches into itself."""

    max_steps = 2
    tools = (search,)

    async def on_step(self, step: Step) -> None:
        await self.branch(Deeper)


def branching(self: Any, step: Step) -> None:
    self.branch(Review)


@pytest.mark.parametrize("is_async", [True, False])
@row("S3-15", "S3-36", "B3-24")
def test_a_branch_gives_the_childs_result_and_nothing_is_injected(is_async: bool) -> None:
    def plain(self: Any, step: Step) -> None:
        self.history.append({"role": "user", "content": f"Review complete: {self.branch(Review).model_dump_json()}"})

    async def later(self: Any, step: Step) -> None:
        review = await self.branch(Review)
        self.history.append({"role": "user", "content": f"Review complete: {review.model_dump_json()}"})

    model = Script(SEARCH, finish("fine", confidence=1), finish("done"))
    assert agent_of(model, later if is_async else plain)(question="?").answer == "done"
    parent, child, after = model.requests
    assert contents(after, "user")[1:] == ['Review complete: {"answer":"fine","confidence":1.0}']
    assert "fine" not in str([message for message in after.messages if message.role != "user"])
    assert_legal(after.messages)
    assert (parent.scope, child.scope) == ("", "/Review")
    assert offered(child) == ["__finish__"]


@row("B3-24", "X-2")
def test_a_child_inherits_the_history_without_system_message_and_unfinished_step() -> None:
    def on_step(self: Any, step: Step) -> None:
        if step.counter == 2:
            self.history.insert(1, Message("system", "as a Message"))
            self.branch(Review)

    model = Script(
        helpers.says(native("search", {"query": "a"}, "one")),
        helpers.says(native("search", {"query": "b"}, "two")),
        finish(),
        finish(),
    )
    agent_of(model, on_step)(question="?")
    child = model.requests[2]
    assert [message.role for message in child.messages] == ["system", "user", "assistant", "tool", "user"]
    assert child.messages[0].content == "Review the work."
    assert child.messages[2].calls[0].id == "one"
    assert_legal(child.messages)
    assert len(model.requests) == 4


@row("B3-24")
def test_a_child_has_its_own_limit_copy_settings_model_and_inputs() -> None:
    own = Script(finish("own"))

    class Child(Review):
        max_steps = 1
        temperature = 0.1
        tools = (search,)

        def on_step(self, step: Step) -> None:
            self.history.append({"role": "user", "content": "child's own"})
            self.history[0]["content"] += " child's edit"

    class Named(Review):
        model = own
        initial_input = helpers.QuestionInput

    def on_step(self: Any, step: Step) -> None:
        self.branch(Child)
        self.branch(Named, question="really?")

    model = Script(SEARCH, SEARCH, finish("c"), finish("d"))
    agent_of(model, on_step, temperature=0.9)(question="?")
    assert [request.sampling.temperature for request in model.requests] == [0.9, 0.1, 0.1, 0.9]
    assert model.requests[2].tool_choice == "__finish__"
    assert "child's edit" in contents(model.requests[2], "user")[0]
    assert model.requests[3].messages[:2] == model.requests[0].messages
    assert "child's own" not in contents(model.requests[3], "user")
    assert "really?" in own.requests[0].messages[-1].content


@row("B3-24")
def test_branches_are_three_deep_at_most_and_a_childs_error_raises_in_on_step() -> None:
    class Top(Deeper):
        async def on_step(self, step: Step) -> None:
            with pytest.raises(RuntimeError, match="branch: deeper than 3 modules"):
                await self.branch(Deeper)

    def plain(self: Any, step: Step) -> None:
        with pytest.raises(ParseError):
            self.branch(Review)

    model = Script(*[SEARCH] * 4, finish("ok"))
    assert agent_of(model, base=Top)() == "ok"
    assert [request.scope for request in model.requests] == ["", "/Deeper", "/Deeper/Deeper", "/Deeper/Deeper/Deeper", ""]
    assert agent_of(Script(SEARCH, BAD, BAD, BAD, finish("ok")), plain)(question="?").answer == "ok"
    with pytest.raises(ProviderError):
        agent_of(Script(SEARCH, ProviderError("down")), branching)(question="?")


@row("S3-36")
def test_a_branch_ends_with_its_call_when_that_is_cancelled() -> None:
    async def stays(request: Request) -> Reply:
        if not request.scope:
            return SEARCH
        inside.set()
        await asyncio.Event().wait()
        raise AssertionError

    def plain(self: Any, step: Step) -> None:
        try:
            self.branch(Review)
        finally:
            ended.set()

    async def main() -> None:
        before = asyncio.all_tasks()
        call = asyncio.create_task(agent_of(Script(then=stays), plain).acall(question="?"))
        await inside.wait()
        call.cancel()
        await asyncio.wait({call}, timeout=5)
        assert call.cancelled()
        assert asyncio.all_tasks() == before

    inside, ended = asyncio.Event(), threading.Event()
    run_sync(main())
    assert ended.wait(5)
