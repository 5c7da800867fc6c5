"""The agent's own way with tools."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tests.loops.helpers import Script
from tests.loops.phased.helpers import ADD, add, adding, ended, fail, finished, pure, task
from tests.rows import row
from whichloop.loops.phased import Agent, Phased, Scratchpad, ToolContextManager, Understanding
from whichloop.protocol import Outcome, ProviderError, Reply, Role, Toolbox, run_sync
from whichloop.protocol.moves import Act, Answer, Completion, PlanTask, Tasks, Text


def events(agent: Agent, scratchpad: Scratchpad, *calls: Any) -> list[Any]:
    async def main() -> list[Any]:
        return [event async for event in agent.execute_tool_calls(SimpleNamespace(tool_calls=calls), "Q", scratchpad)]

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


@row("S1-37", "B1-6")
def test_a_provider_error_is_no_tool_error_and_the_result_is_kept() -> None:
    agent, scratchpad = Agent(pure(add), Script(ProviderError("down"))), Scratchpad()
    with pytest.raises(ProviderError):
        events(agent, scratchpad, {"name": "add", "args": {"a": 1, "b": 2}})
    assert [entry.output for entry in scratchpad.entries] == ["3"]


@row("S1-39")
def test_an_agent_keeps_its_tools_and_a_map_by_name() -> None:
    tools = pure(add, fail)
    for given in ([*tools, max], Toolbox(tools)):
        agent = Agent(given)
        assert agent.tools == list(given)
        assert agent.tool_map == {"add": tools[0], "fail": tools[1]} | ({"max": max} if isinstance(given, list) else {})


@row("S1-40")
def test_one_call_is_run_summarized_in_view_of_those_before_it_and_noted() -> None:
    model, scratchpad = Script(Text("It is three."), "It is seven."), Scratchpad()
    agent = Agent(pure(), model)
    for a in (1, 3):
        run_sync(agent.execute_tool_call("add", {"a": a, "b": a + 1}, "What is it?", scratchpad))
    entry = scratchpad.entries[0]
    assert (entry.tool, entry.args, entry.output, entry.summary) == ("add", {"a": 1, "b": 2}, "3", "It is three.")
    assert model.roles == [Role.SUMMARIZE] * 2
    first, second = (request.messages[1].content for request in model.requests)
    assert "What is it?" in first
    assert ("It is three." in first, "It is three." in second) == (False, True)
    for without_tool, words in ((agent, "^Tool 'nope' not found$"), (Agent([Toolbox(pure()).get("add")]), "needs a model")):
        with pytest.raises(ValueError, match=words):
            run_sync(without_tool.execute_tool_call("nope" if without_tool is agent else "add", ADD[1], "Q", scratchpad))


@row("S1-41")
def test_the_context_manager_is_an_object_of_its_own() -> None:
    kept = ToolContextManager()
    agent = Agent(pure(add), Script(then="s"), Phased(context_manager=kept))
    work = task(ADD)
    assert agent.context_manager is kept
    assert finished(agent.execute_tools(work, "q")) is True
    assert [found.result for found in kept.load(kept.pointers_for("q"))] == ["3"]
    assert [(call.output, call.summary) for call in work.toolCalls or ()] == [("3", "s")]


@row("S1-40", "B1-6")
def test_a_result_whose_summary_is_cut_off_is_kept() -> None:
    work = task(ADD)

    async def main() -> None:
        begun = asyncio.Event()

        class Slow(Script):
            async def complete(self, request: Any) -> Reply:
                begun.set()
                await asyncio.Event().wait()
                return Reply()

        running = asyncio.create_task(Agent(pure(add), Slow()).execute_tools(work, "q"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    finished(main())
    assert ended(work) == [("completed", "3", None)]


@row("B1-15")
def test_the_agent_runs_the_phases_with_its_own_methods() -> None:
    class Loud(Agent):
        async def summarize_tool_result(self, query: str, tool_name: str, tool_args: Any, result: Any) -> str:
            return f"LOUD {result}"

    plan, picked = Tasks((PlanTask("1", "Add."),)), Act("", adding(1, 2))
    model = Script(Understanding("sum"), plan, picked, Completion(True), Text("3"), Answer("", "three"))
    outcome = run_sync(Loud(pure(add), model).run("What is 1 + 2?"))
    assert isinstance(outcome, Outcome)
    assert (outcome.answer, outcome.steps) == ("three", 1)
    assert "LOUD 3" in model.requests[3].messages[1].content
    with pytest.raises(ValueError, match="needs a model"):
        run_sync(Agent(pure(add)).run("Q"))
