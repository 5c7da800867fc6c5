"""The agent's own way with tools."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

import whichloop.loops.phased as package
from tests.loops.helpers import Script
from tests.loops.phased.executor_helpers import Async, Sync, UpdateLog, add, asyncio_limit, execute, fail, pure, task
from tests.rows import row
from whichloop.loops.phased import (
    Agent,
    Phased,
    PhaseTask,
    Scratchpad,
    ToolContextManager,
)
from whichloop.protocol import (
    Act,
    Answer,
    Completion,
    Outcome,
    PlanTask,
    ProviderError,
    Reply,
    Role,
    Tasks,
    Text,
    Toolbox,
    run_sync,
)
from whichloop.protocol import ToolCall as Call


def events(agent: Agent, scratchpad: Scratchpad, *calls: Any) -> list[Any]:
    class Response:
        tool_calls = calls

    async def main() -> list[Any]:
        return [event async for event in agent.execute_tool_calls(Response(), "Q", scratchpad)]

    return list(run_sync(main()))


@row("S1-37", "B1-7")
def test_events_name_tool_and_id_and_errors_reach_the_scratchpad() -> None:
    scratchpad = Scratchpad()
    agent = Agent(pure(add, fail), Script(then="three"))
    calls = (
        {"name": "fail", "args": {"text": "broken"}, "id": "a"},
        SimpleNamespace(id="b", name="nope", args={}),
        {"name": "add", "args": {"a": 1, "b": 2}},
    )
    assert events(agent, scratchpad, *calls) == [
        {"type": "tool_start", "tool": "fail", "id": "a"},
        {"type": "tool_error", "error": "ValueError: broken", "tool": "fail", "id": "a"},
        {"type": "tool_start", "tool": "nope", "id": "b"},
        {"type": "tool_error", "error": "Tool 'nope' not found", "tool": "nope", "id": "b"},
        {"type": "tool_start", "tool": "add", "id": "call_2"},
        {"type": "tool_end", "tool": "add", "id": "call_2"},
    ]
    assert [entry.error for entry in scratchpad.entries] == ["ValueError: broken", "Tool 'nope' not found", None]
    assert "ValueError: broken" in scratchpad.text
    assert "three" in scratchpad.text


@row("S1-37")
def test_a_provider_error_is_no_tool_error() -> None:
    agent, scratchpad = Agent(pure(add), Script(ProviderError("down"))), Scratchpad()
    with pytest.raises(ProviderError):
        events(agent, scratchpad, {"name": "add", "args": {"a": 1, "b": 2}})
    assert [entry.output for entry in scratchpad.entries] == ["3"]


@row("S1-39")
def test_an_agent_keeps_its_tools_and_a_map_by_name() -> None:
    given_tools = [Sync(), add]
    agent = Agent(given_tools)
    assert agent.tools == given_tools
    assert agent.tool_map == {"double": given_tools[0], "add": add}
    box = Toolbox(pure(add))
    assert Agent(box).tool_map == {"add": box.get("add")}


@row("S1-40")
def test_one_call_is_run_summarized_and_noted() -> None:
    model, scratchpad = Script(Text("It is three.")), Scratchpad()
    agent = Agent([Async("treble")], model)
    run_sync(agent.execute_tool_call("treble", {"x": 1}, "What is it?", scratchpad))
    (entry,) = scratchpad.entries
    assert (entry.tool, entry.args, entry.output, entry.summary) == ("treble", {"x": 1}, "3", "It is three.")
    assert model.roles == [Role.SUMMARIZE]
    assert "What is it?" in model.requests[0].messages[1].content
    with pytest.raises(ValueError, match=r"^Tool 'nope' not found$"):
        run_sync(agent.execute_tool_call("nope", {}, "Q", scratchpad))
    with pytest.raises(ValueError, match="needs a model"):
        run_sync(Agent(pure(add)).execute_tool_call("add", {"a": 1, "b": 2}, "Q", scratchpad))


@row("S1-41")
def test_the_context_manager_is_an_object_of_its_own() -> None:
    kept = ToolContextManager()
    agent = Agent(pure(add), Script(then="s"), Phased(context_manager=kept))
    assert agent.context_manager is kept
    work = task(("add", {"a": 1, "b": 2}))
    assert execute(agent, work, "q") is True
    assert [found.result for found in kept.load(kept.pointers_for("q"))] == ["3"]
    assert [(call.output, call.summary) for call in work.toolCalls or ()] == [("3", "s")]


@row("S1-40")
def test_a_summary_is_asked_for_in_view_of_those_before_it() -> None:
    model = Script("It is three.", "It is seven.")
    execute(Agent(pure(add), model), task(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})), "q")
    first, second = (request.messages[1].content for request in model.requests)
    assert "It is three." not in first
    assert "It is three." in second


@row("S1-40", "B1-6")
def test_a_result_whose_summary_is_cut_off_is_kept() -> None:
    async def main() -> PhaseTask:
        begun = asyncio.Event()

        class Slow(Script):
            async def complete(self, request: Any) -> Reply:
                begun.set()
                await asyncio.Event().wait()
                return Reply()

        work = task(("add", {"a": 1, "b": 2}))
        running = asyncio.create_task(Agent(pure(add), Slow()).execute_tools(work, "q"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return work

    (call,) = run_sync(asyncio_limit(main())).toolCalls
    assert (str(call.status), call.output, call.error) == ("completed", "3", None)


def test_a_subclass_may_summarize_in_its_own_way_and_a_bug_in_it_is_the_calls_error() -> None:
    class Own(Agent):
        async def summarize_tool_result(self, query: str, tool_name: str, tool_args: Any, result: Any) -> str:
            if result == "0":
                raise LookupError("no words")
            return f"{tool_name} gave {result}"

    scratchpad = Scratchpad()
    agent = Own(pure(add))
    assert [event["type"] for event in events(agent, scratchpad, {"name": "add", "args": {"a": 1, "b": 2}})] == [
        "tool_start",
        "tool_end",
    ]
    assert scratchpad.entries[0].summary == "add gave 3"
    work, seen = task(("add", {"a": 0, "b": 0})), UpdateLog()
    assert execute(agent, work, "q", seen) is False
    assert [update[1] for update in seen.updates] == ["in_progress", "failed"]
    assert (work.toolCalls or [])[0].error == "no words"


@row("B1-15")
def test_the_agent_runs_the_phases_with_its_own_methods() -> None:
    class Loud(Agent):
        async def summarize_tool_result(self, query: str, tool_name: str, tool_args: Any, result: Any) -> str:
            return f"LOUD {result}"

    model = Script(
        package.Understanding("sum"),
        Tasks((PlanTask("1", "Add."),)),
        Act("", (Call("add", {"a": 1, "b": 2}),)),
        Completion(True),
        Text("3"),
        Answer("", "three"),
    )
    agent = Loud(pure(add), model)
    outcome = run_sync(agent.run("What is 1 + 2?"))
    assert isinstance(outcome, Outcome)
    assert (outcome.answer, outcome.steps) == ("three", 1)
    assert "LOUD 3" in model.requests[3].messages[1].content
    with pytest.raises(ValueError, match="needs a model"):
        run_sync(Agent(pure(add)).run("Q"))


def test_arguments_that_json_cannot_say_are_kept_as_text() -> None:
    kept = ToolContextManager()
    loop: list[Any] = []
    loop.append(loop)
    pointer = kept.save("t", {"x": loop}, 1, "t", "q")
    assert json.dumps(kept.load([pointer])[0].args)
