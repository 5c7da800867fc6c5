"""The ToolExecutor by itself: names, types, the choice and the making of calls, tools in any form."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import whichloop.loops.phased as package
from tests.loops.helpers import Script, add
from tests.loops.phased.helpers import ADD, CallbackLog, adding, ended, executor, fail, finished, pure, task
from tests.rows import row
from whichloop.loops.phased import Phase, PhaseTask, TaskStatus, TaskType, ToolCallStatus, ToolExecutor, ToolExecutorOptions
from whichloop.protocol import NativeCall, Reply, Role, run_sync
from whichloop.protocol.moves import Act

KINDS = pytest.mark.parametrize("kind", [ToolExecutor, package.AgentTools])


def execute(made: Any, *args: Any, **named: Any) -> bool:
    return bool(finished(made.execute_tools(*args, **named)))


@row("S1-1", "S1-2", "S1-3", "S1-29")
def test_enums_have_the_documents_names_and_lower_case_values() -> None:
    names = {
        Phase: "UNDERSTAND PLAN EXECUTE REFLECT ANSWER COMPLETE",
        TaskStatus: "PENDING IN_PROGRESS COMPLETED FAILED",
        TaskType: "USE_TOOLS REASON",
    }
    for kind, expected in names.items():
        members: list[Any] = list(kind)
        assert [member.name for member in members] == expected.split()
        assert [str(member) for member in members] == expected.lower().split()


@row("S1-4", "B1-1")
def test_fields_are_the_seeds_and_task_and_call_status_can_change() -> None:
    made, call = PhaseTask("1", "d"), ToolCallStatus("add", {})
    assert (made.status, made.taskType, made.toolCalls, made.dependsOn) == (TaskStatus.PENDING, TaskType.USE_TOOLS, None, [])
    assert (call.tool, call.args, call.status, call.output, call.error) == ("add", {}, TaskStatus.PENDING, None, None)
    made.status, call.error = TaskStatus.FAILED, "x"
    with pytest.raises(dataclasses.FrozenInstanceError):
        package.Understanding("i", ("e",)).intent = "y"  # type: ignore[misc]  # that is refused


@row("S1-5", "B1-15")
def test_every_name_of_the_document_is_importable() -> None:
    names = "Phase Task TaskStatus TaskType ToolCall ToolCallStatus Understanding ToolExecutor ToolExecutorOptions"
    added = "ToolExecutorCallbacks ToolContextManager Agent Scratchpad AgentEvent get_tools"
    for name in f"{names} {added}".split():
        assert hasattr(package, name)
    assert callable(package.Agent.summarize_tool_result)
    assert [tool.name for tool in package.get_tools(model="gpt-4o")] == ["add", "multiply"]
    assert set(Phase) - {Phase.COMPLETE} <= set(package.PROMPTS)
    assert all(isinstance(text, str) and text for text in package.PROMPTS.values())


@row("S1-6", "S1-7", "S1-15")
def test_the_usage_example_of_the_document_runs() -> None:
    seen = CallbackLog()
    made = ToolExecutor(
        options=ToolExecutorOptions(tools=package.get_tools(model="gpt-4o"), context_manager=package.ToolContextManager())
    )
    work = PhaseTask("task-1", "Add.", toolCalls=[ToolCallStatus("add", {"a": 1, "b": 2})])
    assert run_sync(made.execute_tools(work, query_id="query-1", callbacks=seen)) is True
    assert seen.updates == [(0, "in_progress", None, None), (0, "completed", "3.0", None)]


@KINDS
@row("S1-8", "S1-41")
def test_the_model_picks_tools_per_task(kind: Any) -> None:
    model = Script(Act("", adding(1, 2)))
    made = kind(ToolExecutorOptions(pure(add, fail), model=model))
    picked = run_sync(made.select_tools(PhaseTask("t1", "Add one and two."), package.Understanding("sum", ("one",))))
    assert picked == [ToolCallStatus("add", {"a": 1, "b": 2})]
    request = model.requests[0]
    assert (request.role, request.scope, [tool.name for tool in request.tools]) == (Role.SELECT, "t1", ["add", "fail"])
    assert "Add one and two." in request.messages[1].content
    assert "sum" in request.messages[1].content


@row("S1-9", "B1-13")
def test_tools_are_described_in_the_system_prompt_and_calls_extracted() -> None:
    model = Script(Act("", ()))
    made = executor(model=model)
    text = made._format_tool_descriptions()
    assert text.splitlines() == [made.format_tool(tool) for tool in made.toolbox]
    assert "add: Add two numbers." in text
    run_sync(made.select_tools(PhaseTask("1", "d"), None))
    assert text in model.requests[0].messages[0].content
    assert made._extract_tool_calls(Reply("", (NativeCall("1", "add", '{"a": 1}'),))) == [package.ToolCall("add", {"a": 1})]


@KINDS
@given(goods=st.lists(st.booleans(), max_size=4))
@row("S1-7", "S1-13", "S1-30")
def test_execute_tools_is_true_exactly_if_every_call_is_completed(kind: Any, goods: list[bool]) -> None:
    work = task(*[ADD if good else ("fail", {}) for good in goods])
    made = kind(ToolExecutorOptions(pure(), model=Script(then="s")))
    assert execute(made, work, "q", None) is all(goods)
    assert ended(work) == [("completed", "3", None) if good else ("failed", None, "ValueError: broken") for good in goods]


@row("S1-13", "S1-30")
def test_a_call_that_cannot_be_made_stops_no_other() -> None:
    work = task(("nope", {}), ADD, ("add", {"a": 1}))
    assert execute(executor(), work, "q") is False
    assert [str(status) for status, _, _ in ended(work)] == ["failed", "completed", "failed"]
    for (_, _, error), words in zip(ended(work), ("UnknownTool: ", "None", "InvalidArguments: "), strict=True):
        assert str(error).startswith(words)


@KINDS
@row("S1-11")
def test_every_result_of_every_execution_is_kept(kind: Any) -> None:
    kept = package.ToolContextManager()
    made = kind(ToolExecutorOptions(pure(), kept, Script(then="s")))
    work = task(*[("add", {"a": n, "b": 0}) for n in range(3)], ("fail", {}))
    for number in (1, 2):
        execute(made, work, "q", None)
        pointers = [call.pointer for call in work.toolCalls or ()]
        assert pointers == [*kept.pointers_for("q")[-3:], None]
        found = kept.load(filter(None, pointers))
        assert [(one.tool, one.args, one.result, one.task_id, one.query_id) for one in found] == [
            ("add", {"a": n, "b": 0}, str(n), "t1", "q") for n in range(3)
        ]
        assert len(kept.pointers_for("q")) == 3 * number


@row("S1-12", "B1-4")
def test_updates_are_live_and_one_per_transition() -> None:
    seen, live = CallbackLog(), []

    async def look() -> str:
        live.append(len(seen.updates))
        await asyncio.sleep(0)
        return "x"

    execute(executor(look), task(("look", {})), "q", seen)
    assert live == [1]
    assert seen.updates == [(0, "in_progress", None, None), (0, "completed", "x", None)]


@row("S1-14", "S1-35", "S1-12")
def test_calls_run_together_and_places_and_results_stay_in_call_order() -> None:
    seen, work = CallbackLog(), task(*[("wait", {"index": index}) for index in range(3)])

    async def main() -> None:
        gates = [asyncio.Event() for _ in range(3)]
        gates[2].set()

        async def wait(index: int) -> int:
            await gates[index].wait()
            if index:
                gates[index - 1].set()
            return index

        await executor(wait).execute_tools(work, "q", seen)

    finished(main())
    assert [(place, output) for place, status, output, _ in seen.updates if status == "completed"] == [(2, "2"), (1, "1"), (0, "0")]
    assert [output for _, output, _ in ended(work)] == ["0", "1", "2"]


@row("S1-36", "B1-3", "X-16")
def test_callbacks_are_none_or_override_any_one_method_and_what_they_raise_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class OnlyPhases(package.AgentCallbacks):
        def on_phase_start(self, phase: Phase) -> None:
            raise AssertionError

    class Raising(package.ToolExecutorCallbacks):
        def on_tool_call_update(self, *args: Any, **kwargs: Any) -> None:
            raise RuntimeError("my own bug")

    for callbacks in (None, package.ToolExecutorCallbacks(), OnlyPhases(), Raising()):
        work = task(ADD)
        with caplog.at_level(logging.WARNING):
            assert execute(executor(), work, "q", callbacks) is True
        assert ended(work) == [("completed", "3", None)]
    assert "my own bug" in caplog.text


class Args(BaseModel):
    x: int


@dataclasses.dataclass
class Sync:
    """As langchain makes a tool, without ainvoke."""

    name: str = "double"
    description: str = "Doubles x."
    args_schema: Any = Args
    thread: int = 0

    def invoke(self, args: dict[str, Any]) -> Any:
        self.thread = threading.get_ident()
        return 2 * args["x"]


class Async(Sync):
    async def ainvoke(self, args: dict[str, Any]) -> Any:
        return 3 * args["x"]


@row("S1-32", "B1-14")
def test_foreign_tools_are_called_by_ainvoke_or_else_off_the_event_loop() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    foreign = [Sync(), Async("treble"), Async("plain", args_schema=schema)]
    made = ToolExecutor(ToolExecutorOptions([*foreign, add, *pure(fail)]))
    work = task(("double", {"x": 2}), ("treble", {"x": 2}), ("plain", {"x": 1}), ("add", {"a": 1, "b": 1}))
    assert execute(made, work, "q") is True
    assert [output for _, output, _ in ended(work)] == ["4", "6", "3", "2"]
    assert foreign[0].thread not in (0, threading.get_ident())
    assert foreign[1].thread == 0
    for place in (0, 2):
        assert made.toolbox.specs[place].parameters["properties"]["x"]["type"] == "integer"


@row("S1-32")
def test_what_is_no_tool_is_refused() -> None:
    for tools, error, words in (([3], TypeError, "ainvoke or invoke"), ([Sync(), Sync()], ValueError, "two tools")):
        with pytest.raises(error, match=words):
            ToolExecutor(ToolExecutorOptions(tools))
