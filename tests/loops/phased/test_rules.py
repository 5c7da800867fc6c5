"""The loop of phases: the rules for all designs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    giving,
    hang,
    plan,
    run,
    statuses,
)
from tests.rows import row
from whichloop.loops.phased import AgentCallbacks, Phase, Phased, TaskStatus
from whichloop.protocol import (
    BudgetExceeded,
    Chunk,
    ContextOverflow,
    Loop,
    Outcome,
    ProviderError,
    Query,
    Reply,
    Request,
    Role,
    StopReason,
    Tool,
    Toolbox,
    ToolCall,
    render_value,
)
from whichloop.protocol.moves import Act, Answer, Completion, Tasks
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

ROLES = ["understand", "plan", "select", "reflect", "summarize", "answer"]
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


@pytest.mark.parametrize("role", ROLES)
@each_layout
@row("G-2", "G-3")
def test_phased_provider_error_and_overflow_end_without_answer_or_further_call(role: str, layout: Any) -> None:
    for error, stop in ((ProviderError("down"), StopReason.PROVIDER_ERROR), (ContextOverflow("down"), StopReason.CONTEXT_OVERFLOW)):
        said: dict[str, Any] = {"plan": AB, role: error}
        model = Brain(**said)
        outcome = run(Phased(tool_layout=layout), model)
        assert (outcome.answer, outcome.stop, outcome.details["error"]) == (None, stop, "down")
        assert model.roles[-1] == role
        assert model.roles.count(role) == 1
        assert "in_progress" not in {status for status, _ in statuses(outcome).values()}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), ZeroDivisionError("a bug")])
@each_layout
@row("G-3")
def test_phased_budget_and_bugs_leave_the_loop(role: str, leaving: BaseException, layout: Any) -> None:
    said: dict[str, Any] = {"plan": AB, role: leaving}
    model = Brain(**said)
    with pytest.raises(type(leaving)):
        run(Phased(tool_layout=layout), model)
    assert model.roles.count(role) == 1


@pytest.mark.parametrize("where", [*ROLES, "tool", "stream"])
@pytest.mark.parametrize("how", ["token", "outside", "both"])
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


@row("B1-2")
def test_a_token_of_another_event_loop_is_an_error_and_no_cancellation() -> None:
    token = asyncio.Event()

    async def wait() -> str:
        """Waits a moment."""
        await asyncio.sleep(0.01)
        return "waited"

    def once() -> Outcome:
        loop = Phased(cancellation_token=token)
        return loop.run_sync(Query("Q"), box(wait), Brain(select=Act("", (ToolCall("wait", {}),))))

    assert once().stop is StopReason.FINISHED
    with pytest.raises(RuntimeError, match="different event loop"):
        once()


@row("S1-27", "B1-2")
def test_a_time_limit_inside_a_stream_counts_though_there_is_a_token() -> None:
    class Slow(Brain):
        async def stream(self, request: Request) -> AsyncIterator[Chunk]:
            try:
                async with asyncio.timeout(0.02):
                    yield Chunk("d")
                    await hang()
            except TimeoutError:
                raise ProviderError("no reply within 0.02 s") from None

    async def main() -> Any:
        told = CallbackLog()
        told.streams = True
        return await Phased(cancellation_token=asyncio.Event(), callbacks=told).run(Query("Q"), box(), Slow())

    assert finished(main()).details["error"] == "no reply within 0.02 s"


@each_layout
@row("G-5", "X-10")
def test_phased_interrupts_leave_and_all_else_that_a_tool_raises_is_a_failed_call(layout: Any) -> None:
    raising = Brain(select=Act("", (ToolCall("any", {}),)))
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(Phased(tool_layout=layout).run(Query("Q"), box(giving(KeyboardInterrupt())), raising))
    errors = ((SystemExit(2), "SystemExit: 2"), (OSError(), "OSError: "), (GeneratorExit("g"), "GeneratorExit: g"))
    for raised, text in errors:
        model = Brain(select=Act("", (ToolCall("any", {}),)))
        outcome = run(Phased(tool_layout=layout), model, giving(raised))
        assert outcome.details["tasks"][0]["toolCalls"][0]["error"] == text
        assert text in model.prompts("reflect")[0]


@row("G-5", "X-10")
def test_phased_what_json_cannot_say_is_shown_as_its_text() -> None:
    class Thing:
        def __str__(self) -> str:
            return "a thing"

    model = Brain(select=Act("", (ToolCall("any", {}),)))
    run(Phased(), model, giving(Thing()))
    assert render_value(Thing()) == "a thing"
    assert "a thing" in model.prompts("answer")[0]


@row("X-10")
def test_phased_a_hung_tool_fails_and_its_neighbours_do_not() -> None:
    tools = Toolbox([Tool.from_function(hang, time_limit_s=0.02), *box()])
    outcome = finished(Phased().run(Query("Q"), tools, Brain(select=Act("", (ToolCall("hang", {}), *adding(1, 2))))))
    calls = outcome.details["tasks"][0]["toolCalls"]
    late = ("failed", "TimeoutError: no result within 0.02 s")
    assert [(call["status"], call["error"]) for call in calls] == [late, ("completed", None)]


@pytest.mark.parametrize("name", ["submit", "branch", "finish", "__finish__"])
@row("G-6", "X-18")
def test_phased_reserves_no_tool_name(name: str) -> None:
    tools = Toolbox([Tool.from_function(lambda: "ran", name=name, blocking=False)])
    outcome = Phased().run_sync(Query("Q"), tools, Brain(select=Act("", (ToolCall(name, {}),))))
    assert outcome.details["tasks"][0]["toolCalls"][0]["output"] == "ran"


@given(st.integers(0, 30))
@row("G-8", "X-13")
def test_phased_n_tool_steps_are_n_tool_tasks_and_rounds_stay(tool_steps: int) -> None:
    assert Phased(plan=False).with_step_limit(tool_steps) == Phased(plan=False, max_tool_tasks=tool_steps)
    for spec, loop in (
        ("phased", Phased(max_tool_tasks=tool_steps)),
        ("phased(max_tool_tasks=2)", Phased(max_tool_tasks=2)),
        ("phased(max_rounds=7)", Phased(max_rounds=7, max_tool_tasks=tool_steps)),
    ):
        assert make_loop(parse_spec(spec), tool_steps) == loop


@row("X-6")
def test_phased_an_answer_that_cannot_be_read_is_taken_as_text() -> None:
    schema, notes = {"type": "integer"}, Notes()
    assert run(Phased(), Brain(answer=Answer("sum", 3)), schema=schema).answer == 3
    assert run(Phased(), Brain(answer="three"), schema=schema, observer=notes).answer == "three"
    assert ("unreadable", "answer") in [(kind, data.get("phase")) for kind, data in notes.notes]
    assert run(Phased(), Brain(answer="")).answer == ""
