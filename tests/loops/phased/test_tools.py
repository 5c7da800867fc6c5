"""Design 1's tools: where results are kept, the agent's own way with them, and cancellation of calls."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loops.helpers import Script, add
from tests.loops.phased.helpers import ADD, LAYOUTS, CallbackLog, adding, ended, fail, hang, limited, pure, task
from tests.rows import row
from whichloop.loops.phased import Agent, AgentTools, Scratchpad, ToolContextManager, ToolExecutor, ToolExecutorOptions
from whichloop.loops.phased.codecs import REFLECT
from whichloop.protocol import Outcome, ProviderError, Reply, Toolbox, render_value, run_sync
from whichloop.protocol.moves import Act, Answer, Completion, PlanTask, Role, Tasks, Text, Understanding, WireError

KEPT = st.lists(
    st.tuples(
        st.text(max_size=5),
        st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2),
        st.one_of(st.text(max_size=20), st.integers(), st.none(), st.lists(st.integers(), max_size=2)),
        st.sampled_from(["q1", "q2", "../q3"]),
    ),
    max_size=5,
)


@given(KEPT)
@row("S1-31")
def test_memory_and_directory_keep_the_same(tmp_path_factory: pytest.TempPathFactory, saved: list[Any]) -> None:
    directory = tmp_path_factory.mktemp("contexts")
    memory, disk = ToolContextManager(), ToolContextManager(directory)
    pointers = [[kept.save(tool, args, result, "t", query) for tool, args, result, query in saved] for kept in (memory, disk)]
    again = ToolContextManager(directory=str(directory))
    assert pointers[0] == pointers[1]
    assert len(set(pointers[0])) == len(saved)
    for kept in (memory, disk, again):
        found = kept.load(pointers[0])
        assert [item.result for item in found] == [render_value(result) for _, _, result, _ in saved]
        assert found == memory.load(pointers[0])
        for query in ("q1", "q2", "../q3"):
            mine = [pointer for pointer, item in zip(pointers[0], saved, strict=True) if item[3] == query]
            assert kept.pointers_for(query) == mine


@row("S1-31")
def test_memory_writes_nothing_and_unknown_pointers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = ToolContextManager()
    kept.save("add", {"a": {1, 2}}, object, "t", "q")
    assert list(tmp_path.iterdir()) == []
    for manager in (kept, ToolContextManager(tmp_path)):
        for pointer in ("", "../etc", "0" * 16 + "/000009"):
            with pytest.raises(KeyError) as refused:
                manager.load([pointer])
            assert refused.value.args == (pointer,)


@row("S1-31")
def test_a_full_disk_leaves_no_half_of_a_result(tmp_path: Path) -> None:
    kept, before = ToolContextManager(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            kept.save("add", {}, "x" * 100_000, "t", "q")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert kept.pointers_for("q") == []


@row("S1-24")
def test_a_reflection_has_four_fields_and_a_single_text_is_a_list_of_one() -> None:
    reply = Reply('{"isComplete": false, "reasoning": "r", "missingInfo": "m", "suggestedNextSteps": "s"}')
    assert REFLECT.parse(reply) == Completion(False, "r", ("m",))
    for wrong in ('"isComplete": 1', '"reasoning": 1', '"missingInfo": 1', '"suggestedNextSteps": [1]'):
        with pytest.raises(WireError, match=wrong.partition(":")[0]):
            REFLECT.parse(Reply(f'{{"isComplete": true, {wrong}}}'))


# --- the agent's own way with tools ---


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
    for held in ([*tools, max], Toolbox(tools)):
        agent = Agent(held)
        assert agent.tools == list(held)
        assert agent.tool_map == {"add": tools[0], "fail": tools[1]} | ({"max": max} if isinstance(held, list) else {})


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


# --- the ToolExecutor by itself: its cancellation token ---


each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def made(layout: str, tools: Any, kept: ToolContextManager | None = None, **options: Any) -> ToolExecutor:
    kind = ToolExecutor if layout == "executor" else AgentTools
    return kind(ToolExecutorOptions(tools, kept or ToolContextManager(), Script(then="s"), **options))


async def cut_off(work: Any) -> None:
    """It ends as cancelled, and nothing is left running."""
    with pytest.raises(asyncio.CancelledError):
        await limited(work)
    assert len(asyncio.all_tasks()) == 1


@each_layout
@row("S1-10", "X-15")
def test_checkpoint_before_all_calls(layout: str) -> None:
    async def main() -> None:
        token, seen = asyncio.Event(), CallbackLog()
        token.set()
        for calls in ([ADD], []):
            await cut_off(made(layout, pure()).execute_tools(task(*calls), "q", seen, token))
        assert seen.heard == []

    run_sync(main())


@each_layout
@row("S1-10", "B1-6", "X-15")
def test_checkpoint_after_a_tool_keeps_its_result_and_leaves_the_next_pending(layout: str) -> None:
    async def main() -> None:
        token = asyncio.Event()

        async def last() -> str:
            token.set()
            return "paid"

        kept, work, seen = ToolContextManager(), task(("last", {}), ADD), CallbackLog()
        await cut_off(made(layout, [*pure(last), *pure()], kept).execute_tools(work, "q", seen, token))
        assert seen.updates == [(0, "in_progress", None, None), (0, "completed", "paid", None)]
        assert [found.result for found in kept.load(kept.pointers_for("q"))] == ["paid"]
        assert ended(work) == [("completed", "paid", None), ("pending", None, None)]

    run_sync(main())


@pytest.mark.parametrize("by_token", [True, False])
@each_layout
@row("B1-2", "B1-5", "B1-12", "X-15")
def test_siblings_are_cancelled_awaited_and_told_once(by_token: bool, layout: str) -> None:
    hanging = 2 if layout == "executor" else 1

    async def main() -> None:
        token, begun, log = asyncio.Event(), asyncio.Event(), list[str]()

        async def wait() -> None:
            begun.set()
            try:
                await hang()
            finally:
                await asyncio.sleep(0)
                log.append("cleaned up")

        work, seen = task(("wait", {}), ("wait", {})), CallbackLog()
        running = asyncio.create_task(made(layout, pure(wait)).execute_tools(work, "q", seen, token))
        await begun.wait()
        token.set() if by_token else running.cancel()
        await cut_off(running)
        assert log == ["cleaned up"] * hanging
        assert sorted(seen.updates) == [
            (place, *rest) for place in range(hanging) for rest in (("failed", None, "cancelled"), ("in_progress", None, None))
        ]
        assert ended(work) == [("failed", None, "cancelled")] * hanging + [("pending", None, None)] * (2 - hanging)

    run_sync(main())
