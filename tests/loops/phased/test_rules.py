"""The loop of phases: how a run ends, its executors and layouts, and options that no other file has."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.loops.helpers import Notes, add
from tests.loops.phased import helpers
from tests.loops.phased.helpers import FAIL, INCOMPLETE, Brain, CallbackLog, adding, box, finished, hang, plan, run, statuses
from tests.rows import row
from whichloop.loops.phased import Phased, PhaseTask, TaskStatus, ToolCallStatus, ToolContextManager
from whichloop.protocol import Chunk, Query, Reply, Request, StopReason, Toolbox, ToolCall
from whichloop.protocol.moves import Act, Answer, Role, Text, Understanding


@pytest.mark.parametrize(
    ("where", "how"),
    [("plan", "token"), ("select", "token"), ("answer", "token"), ("tool", "token"), ("stream", "token"), ("tool", "both")],
)
@row("G-2", "G-3")
def test_phased_the_token_ends_the_run_as_cancelled_and_cancellation_leaves_it(where: str, how: str) -> None:
    told = CallbackLog()
    told.streams = True

    async def main() -> Any:
        token, begun = asyncio.Event(), asyncio.Event()

        async def stay() -> None:
            begun.set()
            await hang()

        class Stuck(Brain):
            async def complete(self, request: Request) -> Reply:
                if request.role.value == where:
                    await stay()
                return await super().complete(request)

            async def stream(self, request: Request) -> AsyncIterator[Chunk]:
                if where == "stream":
                    yield Chunk("d")
                    await stay()
                async for chunk in super().stream(request):
                    yield chunk

        model = Stuck(select=Act("", (ToolCall("stay", {}),) if where == "tool" else adding(1, 2)))
        loop = Phased(cancellation_token=token, callbacks=told)
        assert StopReason.CANCELLED in loop.stops
        running = asyncio.create_task(loop.run(Query("Q"), box(add, stay), model))
        await begun.wait()
        token.set()
        if how != "token":
            running.cancel()
        await asyncio.wait([running])
        return None if running.cancelled() else running.result()

    outcome = finished(main())
    ends = [status for _, status in told.of("on_task_update")][1:]
    assert ends == ([TaskStatus.FAILED] if where in ("select", "tool") else [TaskStatus.COMPLETED] * len(ends))
    assert (outcome is None) is (how != "token")
    if outcome is not None:
        assert (outcome.answer, outcome.stop) == (None, StopReason.CANCELLED)
        assert "in_progress" not in {status for status, _ in statuses(outcome).values()}


@row("X-6")
def test_phased_an_answer_that_cannot_be_read_is_taken_as_text() -> None:
    schema, notes = {"type": "integer"}, Notes()
    assert run(Phased(), Brain(answer=Answer("sum", 3)), schema=schema).answer == 3
    assert run(Phased(), Brain(answer="three"), schema=schema, observer=notes).answer == "three"
    assert ("unreadable", "answer") in [(kind, data.get("phase")) for kind, data in notes.notes]
    assert run(Phased(), Brain(answer="")).answer == ""


@row("phased.understand", "phased.plan", "phased.reflect")
def test_options_understand_plan_and_reflect_off_leave_out_a_request() -> None:
    roles = ["understand", "plan", "select", "reflect", "summarize", "answer"]
    for option in ("understand", "plan", "reflect"):
        model = Brain(reflect=INCOMPLETE)
        options: dict[str, Any] = {option: False}
        outcome = run(Phased(max_rounds=1, **options), model)
        assert model.roles == [role for role in roles if role != option]
        assert option not in outcome.details["phases"]
        assert outcome.stop is (StopReason.FINISHED if option == "reflect" else StopReason.FORCED)
        assert [task["description"] == "What is 1 + 2?" for task in outcome.details["tasks"]] == [option == "plan"]


@pytest.mark.parametrize(("grace", "gathered"), [(20.0, 1), (0.0, 0)])
@row("phased.cancel_grace_s", "B1-12", "X-15")
def test_option_cancel_grace_s_is_how_long_a_thread_is_waited_for(grace: float, gathered: int) -> None:
    """Also beside a task that ends at once."""

    async def main() -> Any:
        begun, let_go, token = threading.Event(), threading.Event(), asyncio.Event()

        def work() -> str:
            begun.set()
            let_go.wait(30)
            return "paid"

        async def hang() -> None:
            """Never ends by itself; lets the other go on, in time, once it is cancelled."""
            try:
                await asyncio.Event().wait()
            finally:
                if grace:
                    asyncio.get_running_loop().call_later(0.05, let_go.set)

        select = lambda request: Act("", (ToolCall("work" if request.scope == "b" else "hang", {}),))  # noqa: E731
        model = Brain(plan='{"tasks": [{"id": "a", "description": "A."}, {"id": "b", "description": "B."}]}', select=select)
        loop = Phased(cancel_grace_s=grace, cancellation_token=token)
        running = asyncio.create_task(loop.run(Query("Q"), Toolbox([work, hang]), model))
        await asyncio.to_thread(begun.wait, 20)
        token.set()
        outcome = await running
        let_go.set()
        return outcome

    outcome = finished(main())
    assert (outcome.stop, outcome.details["gathered"]) == (StopReason.CANCELLED, gathered)


@row("S1-5")
def test_prompts_can_be_replaced_by_phase_and_the_format_stays() -> None:
    model, small = Brain(), Brain()
    own = Phased(select_model=small)
    changed = {"plan": "Plan like a pirate.", "select": "Pick like one."}
    run(own.with_predictors({name: replace(own.predictors[name], instructions=text) for name, text in changed.items()}), model)
    (plan,) = (request.messages[0].content for request in model.requests if request.role.value == "plan")
    assert plan.startswith("Plan like a pirate.")
    assert '"dependsOn"' in plan
    assert small.requests[0].messages[0].content.startswith("Pick like one.")
    assert (small.roles, "select" in model.roles) == (["select"], False)


# --- executors, layouts, stores and the limit of tool tasks ---


class Own:
    """The least that an executor can be: it keeps nothing, and has the signature of the document, without a token."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def select_tools(self, task: PhaseTask, understanding: Understanding | None) -> list[ToolCallStatus]:
        self.seen.append(f"{task.id} {understanding.intent if understanding else None}")
        return [ToolCallStatus("own", {"x": 1})]

    async def execute_tools(self, task: PhaseTask, query_id: str, callbacks: Any) -> bool:
        for call in task.toolCalls or ():
            call.status, call.output = TaskStatus.COMPLETED, "forty-two"
        return True


@row("S1-34", "S1-7", "S1-33")
def test_the_agent_takes_any_executor_which_concurrent_runs_may_share() -> None:
    own, model, kept = Own(), Brain(), ToolContextManager()
    outcome = run(Phased(executor=own, context_manager=kept), model)
    assert own.seen == ["r1.t1 a sum"]
    assert "select" not in model.roles
    assert "forty-two" in model.prompts("reflect")[0]
    assert "forty-two" in model.prompts("answer")[0]
    assert outcome.details["gathered"] == 1

    async def twice() -> Any:
        return await asyncio.gather(*(Phased(executor=own).run(Query("Q"), box(), Brain()) for _ in range(2)))

    assert [ended.answer for ended in finished(twice())] == ["done"] * 2


@pytest.mark.parametrize(("layout", "at_once", "summaries"), [("executor", 3, 1), ("agent", 1, 4)])
@row("S1-38", "phased.tool_layout")
def test_option_tool_layout_makes_the_same_calls_at_once_or_in_sequence_with_summaries(
    layout: Any, at_once: int, summaries: int
) -> None:
    seen, busy, most = list[int](), list[int](), list[int]()

    async def work(x: int) -> str:
        busy.append(x)
        most.append(len(busy))
        await asyncio.sleep(0)
        busy.remove(x)
        seen.append(x)
        return f"result {x}"

    model = Brain(select=Act("", tuple(ToolCall("work", {"x": x}) for x in range(3))))
    assert run(Phased(tool_layout=layout), model, work).answer == "done"
    assert (seen, max(most), model.roles.count(Role.SUMMARIZE)) == ([0, 1, 2], at_once, summaries)


@row("S1-38", "B1-7")
def test_agent_layout_shows_summaries_to_tasks_and_whole_results_to_the_answer() -> None:
    calls = (*adding(1, 2), *FAIL, *adding(3, 4))
    model = Brain(
        plan=plan(("t1", "A."), ("t2", "B.", ("t1",))),
        select=helpers.by_task(t1=calls),
        summarize=[Text("Sum one."), Text("  "), '{"contexts": ["c1", "c2"]}'],
    )
    outcome = run(Phased(tool_layout="agent"), model)
    assert [call["status"] for call in outcome.details["tasks"][0]["toolCalls"]] == ["completed", "failed", "completed"]
    first, second, _ = (request for request in model.requests if request.role is Role.SUMMARIZE)
    assert (first.scope, second.scope) == ("t1", "t1")
    assert "Sum one." in second.messages[1].content
    assert "ValueError: broken" in second.messages[1].content
    shown = model.prompts("select")[1]
    for words in ("Sum one.", "):\n7", "ValueError: broken"):
        assert words in shown
    (answer,) = model.prompts("answer")
    assert ("):\n3" in answer, "):\n7" in answer, "Sum one." in answer) == (True, True, False)


@row("S1-43", "G-8", "phased.max_tool_tasks")
def test_option_max_tool_tasks_bounds_the_tool_tasks_of_the_whole_run() -> None:
    for limit, steps in ((None, 5), (2, 2), (0, 0)):
        assert run(Phased(max_tool_tasks=limit), Brain(reflect=INCOMPLETE)).steps == steps
    tasks = plan(("a", "A."), ("b", "B."))
    model = Brain(plan=[tasks, plan(("c", "C."), ("d", "D.", ("c",)), ("e", "E."))], reflect=INCOMPLETE)
    outcome = run(Phased(max_tool_tasks=3), model)
    assert (outcome.stop, outcome.steps, outcome.details["rounds"]) == (StopReason.FORCED, 3, 2)
    done, refused = ("completed", None), ("failed", "step limit")
    assert statuses(outcome) == {"r1.a": done, "r1.b": done, "r2.c": done, "r2.d": refused, "r2.e": refused}
    assert model.roles[-3:] == ["reflect", "summarize", "answer"]
    assert "step limit" in model.prompts("reflect")[1]
