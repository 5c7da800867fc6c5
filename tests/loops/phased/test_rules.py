"""The loop of phases: how a run ends, and a test for options that no other file has."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.loops.helpers import Notes
from tests.loops.phased.helpers import (
    INCOMPLETE,
    LAYOUTS,
    Brain,
    CallbackLog,
    add,
    adding,
    box,
    by_task,
    finished,
    hang,
    plan,
    run,
    statuses,
)
from tests.rows import row
from whichloop.loops.phased import AgentCallbacks, Phase, Phased, TaskStatus
from whichloop.protocol import BudgetExceeded, Chunk, Loop, ProviderError, Query, Request, StopReason, Toolbox
from whichloop.protocol.moves import Act, Answer, Completion, Reply, Role, Tasks, ToolCall

AB = plan(("a", "A."), ("b", "B."))
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


@row("G-2", "X-21")
def test_phased_stops_are_declared_exactly_where_they_can_be_reached() -> None:
    always = {StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW}
    ends = {
        Phased(): {StopReason.FINISHED, StopReason.FORCED},
        Phased(reflect=False): {StopReason.FINISHED},
        Phased(reflect=False, max_tool_tasks=1): {StopReason.FINISHED, StopReason.FORCED},
        Phased(reflect=False, plan=False, max_tool_tasks=1): {StopReason.FINISHED},
        Phased(reflect=False, plan=False, max_tool_tasks=0): {StopReason.FORCED},
        Phased(plan=False, max_tool_tasks=0): {StopReason.FINISHED, StopReason.FORCED},
    }
    for loop, declared in ends.items():
        assert loop.stops == always | declared
        plans = (plan(("a", "A.")), AB)
        assert declared == {run(loop, Brain(plan=p, reflect=said)).stop for p in plans for said in (INCOMPLETE, Completion(True))}
        assert isinstance(loop, Loop)
    assert run(Phased(), Brain(plan=Tasks(()))).stop is StopReason.FINISHED


@pytest.mark.parametrize("where", ["plan", "select", "answer", "tool", "stream"])
@pytest.mark.parametrize("how", ["token", "both"])
@row("G-2", "G-3")
def test_phased_the_token_ends_the_run_as_cancelled_and_cancellation_leaves_it(where: str, how: str) -> None:
    told = CallbackLog()
    told.streams = True

    async def main() -> Any:
        token, begun = asyncio.Event(), asyncio.Event()

        async def stay() -> None:
            """Never ends by itself."""
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
        if how != "outside":
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


@pytest.mark.parametrize("after", [Phase.REFLECT, Phase.ANSWER])
@row("G-2")
def test_phased_a_token_that_is_set_between_phases_ends_the_run_unless_it_has_its_answer(after: Phase) -> None:
    model = Brain()

    async def main() -> Any:
        token = asyncio.Event()

        class Setting(AgentCallbacks):
            def on_phase_complete(self, phase: Phase) -> None:
                if phase is after:
                    token.set()

        return await Phased(cancellation_token=token, callbacks=Setting()).run(Query("Q"), box(), model)

    outcome = finished(main())
    ends = {Phase.REFLECT: (StopReason.CANCELLED, None, "reflect"), Phase.ANSWER: (StopReason.FINISHED, "done", "answer")}
    assert (outcome.stop, outcome.answer, model.roles[-1]) == ends[after]


@pytest.mark.parametrize("error", [ProviderError("down"), BudgetExceeded("spent")])
@each_layout
@row("G-3")
def test_phased_no_tool_is_begun_once_a_neighbour_has_ended_the_run(error: Exception, layout: Any) -> None:
    begun: list[int] = []

    def count(a: int) -> int:
        """Counts."""
        begun.append(a)
        return a

    async def main() -> None:
        both = asyncio.Barrier(2)

        class Meeting(Brain):
            async def complete(self, request: Request) -> Reply:
                if request.role is Role.SELECT:
                    await both.wait()
                    if request.scope == "a":
                        raise error
                    await asyncio.sleep(0)
                return await super().complete(request)

        model = Meeting(plan=AB, select=Act("", (ToolCall("count", {"a": 1}),)))
        try:
            await Phased(tool_layout=layout).run(Query("Q"), box(count), model)
        except BudgetExceeded:
            assert isinstance(error, BudgetExceeded)

    finished(main())
    assert begun == []


@row("G-3")
def test_phased_what_runs_beside_a_failure_is_stopped_and_what_waits_for_it_never_starts() -> None:
    ends: list[str] = []

    async def main() -> Any:
        begun = asyncio.Event()

        async def slow() -> None:
            """Never ends by itself."""
            begun.set()
            try:
                await hang()
            finally:
                ends.append("slow")

        class Late(Brain):
            async def complete(self, request: Request) -> Reply:
                if request.scope == "t1":
                    await begun.wait()
                    raise ProviderError("down")
                return await super().complete(request)

        tasks = plan(("t1", "A."), ("t2", "B."), ("t3", "C.", ("t1",)))
        return await Phased().run(Query("Q"), box(slow), Late(plan=tasks, select=by_task(t2=[ToolCall("slow", {})])))

    outcome = finished(main())
    assert outcome.stop is StopReason.PROVIDER_ERROR
    assert ends == ["slow"]
    failed = {"r1.t1": ("failed", "ProviderError: down"), "r1.t2": ("failed", "cancelled"), "r1.t3": ("pending", None)}
    assert statuses(outcome) == failed
    assert outcome.details["tasks"][1]["toolCalls"][0]["error"] == "cancelled"


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
            """Works in its thread."""
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
    run(Phased(prompts={Phase.PLAN: "Plan like a pirate.", Phase.EXECUTE: "Pick like one."}, select_model=small), model)
    (plan,) = (request.messages[0].content for request in model.requests if request.role.value == "plan")
    assert plan.startswith("Plan like a pirate.")
    assert '"dependsOn"' in plan
    assert small.requests[0].messages[0].content.startswith("Pick like one.")
    assert (small.roles, "select" in model.roles) == (["select"], False)
