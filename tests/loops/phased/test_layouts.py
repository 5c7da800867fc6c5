"""The loop of phases: the executor and the layouts, seen from the loop."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from tests.loops.helpers import Notes
from tests.loops.phased.helpers import (
    INCOMPLETE,
    Brain,
    CallbackLog,
    Shuffled,
    adding,
    box,
    by_task,
    limited,
    make_phased,
    plan,
    run,
    statuses,
)
from tests.rows import row
from whichloop.loops.phased import (
    AgentCallbacks,
    Phase,
    Phased,
    PhaseTask,
    TaskStatus,
    ToolCallStatus,
    ToolContextManager,
    ToolExecutor,
    ToolExecutorOptions,
    Understanding,
)
from whichloop.protocol import (
    Act,
    Outcome,
    Query,
    Reply,
    Request,
    StopReason,
    ToolCall,
    run_sync,
)


class Own:
    """The least that an executor can be: it keeps nothing."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def select_tools(self, task: PhaseTask, understanding: Understanding | None) -> list[ToolCallStatus]:
        self.seen.append(f"{task.id} {understanding.intent if understanding else None}")
        return [ToolCallStatus("own", {"x": 1})]

    async def execute_tools(self, task: PhaseTask, query_id: str, callbacks: Any = None, cancellation_token: Any = None) -> bool:
        for call in task.toolCalls or ():
            call.status, call.output = TaskStatus.COMPLETED, "forty-two"
        return True


@row("S1-34")
def test_the_agent_takes_any_executor() -> None:
    own, model, kept = Own(), Brain(), ToolContextManager()
    outcome = run(Phased(executor=own, context_manager=kept), model)
    assert own.seen == ["r1.t1 a sum"]
    assert "select" not in model.roles
    assert "forty-two" in model.prompts("reflect")[0]
    assert "forty-two" in model.prompts("answer")[0]
    assert outcome.details["gathered"] == 1


@row("S1-34", "S1-7")
def test_an_executor_with_the_signature_of_the_document_serves_without_a_token() -> None:
    class Plain:
        async def select_tools(self, task: PhaseTask, understanding: Understanding | None) -> list[ToolCallStatus]:
            return [ToolCallStatus("own", {})]

        async def execute_tools(self, task: PhaseTask, query_id: str, callbacks: Any) -> bool:
            return await Own().execute_tools(task, query_id, callbacks)

    executor: Any = Plain()
    assert run(Phased(executor=executor), Brain()).details["gathered"] == 1


@row("S1-34", "B1-2")
def test_the_token_ends_a_choice_that_an_executors_own_model_makes() -> None:
    async def main() -> Outcome:
        token = asyncio.Event()

        class Stuck(Own):
            async def select_tools(self, task: PhaseTask, understanding: Understanding | None) -> list[ToolCallStatus]:
                token.set()
                await asyncio.Event().wait()
                return []

        outcome = await Phased(executor=Stuck(), cancellation_token=token).run(Query("Q"), box(), Brain())
        assert len(asyncio.all_tasks()) == 1
        return outcome

    assert run_sync(limited(main())).stop is StopReason.CANCELLED


@row("S1-31")
def test_a_store_that_fails_loses_no_result(tmp_path: Path) -> None:
    class Damaging(AgentCallbacks):
        def on_answer_start(self) -> None: ...

        def on_phase_start(self, phase: Phase) -> None:
            if phase is Phase.ANSWER:
                (kept,) = (tmp_path / "good").rglob("*.json")
                kept.write_text("{ half")

    model, kept = Brain(), ToolContextManager(tmp_path / "good")
    run(Phased(context_manager=kept, callbacks=Damaging()), model)
    assert "):\n3" in model.prompts("answer")[0]

    (tmp_path / "file").write_text("")
    blocked, notes, other = ToolContextManager(tmp_path / "file" / "x"), Notes(), Brain()
    run(Phased(executor=Own(), context_manager=blocked), other, observer=notes)
    assert "forty-two" in other.prompts("answer")[0]
    assert "not_kept" in [kind for kind, _ in notes.notes]


@row("S1-33")
def test_concurrent_runs_share_an_executor_without_mixing() -> None:
    async def main() -> list[Outcome]:
        kept = ToolContextManager()
        brains = [Shuffled(random.Random(i), select=by_task(t1=adding(100 * i, 1))) for i in range(3)]

        async def pick(request: Request) -> Reply:
            number = int(request.messages[1].content.partition("number ")[2][0])
            return await brains[number].complete(request)

        class Picker(Brain):
            async def complete(self, request: Request) -> Reply:
                return await pick(request)

        shared = ToolExecutor(ToolExecutorOptions(list(box()), kept, Picker()))
        told = [CallbackLog() for _ in brains]
        loops = [Phased(executor=shared, context_manager=kept, callbacks=told[i]) for i in range(3)]
        outcomes = await asyncio.gather(*(loop.run(Query(f"number {i}"), box(), brains[i]) for i, loop in enumerate(loops)))
        for i, brain in enumerate(brains):
            assert f"{100 * i + 1}" in brain.prompts("answer")[0]
            assert [args[3] for args in told[i].of("on_tool_call_update")] == [None, f"{100 * i + 1}"]
        return list(outcomes)

    assert [outcome.details["gathered"] for outcome in run_sync(limited(main()))] == [1, 1, 1]


@row("S1-38")
def test_both_layouts_make_the_same_calls_and_give_the_same_answer() -> None:
    calls: dict[str, list[Any]] = {}
    roles: dict[str, list[str]] = {}
    for layout in ("executor", "agent"):
        seen: list[Any] = []
        busy = most = 0

        async def work(x: int, seen: list[Any] = seen) -> str:
            """Works."""
            nonlocal busy, most
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(0)
            busy -= 1
            seen.append(x)
            return f"result {x}"

        model = Brain(select=Act("", tuple(ToolCall("work", {"x": x}) for x in range(3))))
        outcome = run(make_phased(layout), model, work)
        assert outcome.answer == "done"
        assert most == (3 if layout == "executor" else 1)
        calls[layout], roles[layout] = seen, model.roles
    assert calls["executor"] == calls["agent"]
    assert roles["agent"].count("summarize") == roles["executor"].count("summarize") + 3


@row("S1-43", "G-8")
def test_tool_tasks_of_the_whole_run_are_bounded() -> None:
    tasks = plan(("a", "A."), ("b", "B."))
    model = Brain(plan=[tasks, plan(("c", "C."), ("d", "D.", ("c",)), ("e", "E."))], reflect=INCOMPLETE)
    outcome = run(Phased(max_tool_tasks=3), model)
    assert (outcome.stop, outcome.steps, outcome.details["rounds"]) == (StopReason.FORCED, 3, 2)
    assert statuses(outcome) == {
        "r1.a": ("completed", None),
        "r1.b": ("completed", None),
        "r2.c": ("completed", None),
        "r2.d": ("failed", "step limit"),
        "r2.e": ("failed", "step limit"),
    }
    assert model.roles[-3:] == ["reflect", "summarize", "answer"]
    assert "step limit" in model.prompts("reflect")[1]


@row("S1-43")
def test_said_complete_at_the_limit_is_finished() -> None:
    outcome = run(Phased(max_tool_tasks=1), Brain(plan=plan(("a", "A."), ("b", "B."))))
    assert (outcome.stop, outcome.steps) == (StopReason.FINISHED, 1)
