"""The loop of phases: how a run ends, its executors and layouts, and options that no other file has."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.helpers import Notes, add
from tests.loops.phased.helpers import (
    FAIL,
    INCOMPLETE,
    LAYOUTS,
    Brain,
    CallbackLog,
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
from whichloop.loops.phased import Phase, Phased, PhaseTask, TaskStatus, ToolCallStatus, ToolContextManager
from whichloop.protocol import Chunk, Loop, ProviderError, Query, Reply, Request, StopReason, Toolbox, ToolCall
from whichloop.protocol.moves import Act, Answer, Completion, Role, Tasks, Text, Understanding

AB = plan(("a", "A."), ("b", "B."))


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


@row("S1-34", "S1-7")
def test_the_agent_takes_any_executor() -> None:
    own, model, kept = Own(), Brain(), ToolContextManager()
    outcome = run(Phased(executor=own, context_manager=kept), model)
    assert own.seen == ["r1.t1 a sum"]
    assert "select" not in model.roles
    assert "forty-two" in model.prompts("reflect")[0]
    assert "forty-two" in model.prompts("answer")[0]
    assert outcome.details["gathered"] == 1


@row("S1-38", "phased.tool_layout")
def test_option_tool_layout_both_make_the_same_calls_the_agent_in_sequence_with_summaries() -> None:
    calls: dict[str, list[Any]] = {}
    most: dict[str, int] = {}
    summaries: dict[str, int] = {}
    for layout in LAYOUTS:
        seen = calls[layout] = []
        busy: list[int] = []

        async def work(x: int, layout: str = layout, seen: list[Any] = seen, busy: list[int] = busy) -> str:
            """Works."""
            busy.append(x)
            most[layout] = max(most.get(layout, 0), len(busy))
            await asyncio.sleep(0)
            busy.remove(x)
            seen.append(x)
            return f"result {x}"

        model = Brain(select=Act("", tuple(ToolCall("work", {"x": x}) for x in range(3))))
        assert run(Phased(tool_layout=layout), model, work).answer == "done"
        summaries[layout] = model.roles.count(Role.SUMMARIZE)
    assert calls["executor"] == calls["agent"] == [0, 1, 2]
    assert most == {"executor": 3, "agent": 1}
    assert summaries == {"executor": 1, "agent": 4}


@row("S1-38", "B1-7")
def test_agent_layout_shows_summaries_to_tasks_and_whole_results_to_the_answer() -> None:
    calls = (*adding(1, 2), *FAIL, *adding(3, 4))
    model = Brain(
        plan=plan(("t1", "A."), ("t2", "B.", ("t1",))),
        select=by_task(t1=calls),
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


class Shuffled(Brain):
    """Answers requests in flight in random order; two of equal scope are never in flight together."""

    def __init__(self, chance: random.Random, **said: Any) -> None:
        super().__init__(**said)
        self.chance = chance
        self.in_flight: set[str] = set()

    async def complete(self, request: Request) -> Reply:
        assert request.scope not in self.in_flight
        self.in_flight.add(request.scope)
        for _ in range(self.chance.randint(0, 5)):
            await asyncio.sleep(0)
        self.in_flight.remove(request.scope)
        return await super().complete(request)


@given(seed=st.integers(0, 10_000), layout=st.sampled_from(LAYOUTS))
@settings(max_examples=cases(10))
@row("S1-21", "S1-33", "X-16")
def test_the_order_in_which_concurrent_requests_are_answered_changes_nothing(
    seed: int, layout: Literal["executor", "agent"]
) -> None:
    tasks = plan(("a", "A."), ("a", "A again."), ("b", "B.", ("a",)), ("c", "C.", ("nope",)), ("d", "D.", ("b", "c")), ("e", "E."))
    picks = by_task(a=adding(1, 1), b=[*adding(2, 2), *FAIL], c=FAIL, d=adding(3, 3), e="{")
    loop = Phased(tool_layout=layout, max_tool_tasks=9)

    def outcome(model: Brain) -> tuple[Any, ...]:
        model.sayings |= {"plan": [tasks, tasks], "select": [picks], "reflect": [INCOMPLETE]}
        made = run(loop, model)
        shown = sorted(json.dumps([request.role.value, request.scope, request.as_dict()]) for request in model.requests)
        return made.answer, made.stop, made.steps, made.details, shown

    assert outcome(Shuffled(random.Random(seed))) == outcome(Brain())
