"""The loop of phases: the rules for all designs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loops.helpers import Notes
from tests.loops.phased.helpers import (
    INCOMPLETE,
    Brain,
    CallbackLog,
    Listening,
    add,
    adding,
    box,
    by_task,
    giving,
    limited,
    make_phased,
    plan,
    run,
    statuses,
)
from tests.rows import row
from whichloop.loops.phased import (
    Phased,
    TaskStatus,
)
from whichloop.protocol import (
    Act,
    Answer,
    BudgetExceeded,
    Chunk,
    Completion,
    ContextOverflow,
    Loop,
    Outcome,
    ProviderError,
    Query,
    Reply,
    Request,
    Role,
    StopReason,
    Tasks,
    Tool,
    Toolbox,
    ToolCall,
    render_value,
    run_sync,
)
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop


@row("G-2")
def test_phased_said_complete_is_finished() -> None:
    assert run(Phased(), Brain()).stop is StopReason.FINISHED


@row("G-2")
def test_phased_an_empty_plan_is_finished() -> None:
    assert run(Phased(), Brain(plan=Tasks(()))).stop is StopReason.FINISHED


@row("G-2")
def test_phased_rounds_or_tool_tasks_used_up_are_forced() -> None:
    assert run(Phased(max_rounds=1), Brain(reflect=INCOMPLETE)).stop is StopReason.FORCED
    assert run(Phased(max_tool_tasks=1), Brain(reflect=INCOMPLETE)).stop is StopReason.FORCED


ROLES = ["understand", "plan", "select", "reflect", "summarize", "answer"]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("layout", ["executor", "agent"])
@row("G-2", "G-3")
def test_phased_provider_error_and_overflow_end_without_answer_or_further_call(role: str, layout: str) -> None:
    for error, stop in ((ProviderError("down"), StopReason.PROVIDER_ERROR), (ContextOverflow("down"), StopReason.CONTEXT_OVERFLOW)):
        said: dict[str, Any] = {role: error}
        model = Brain(plan=plan(("a", "A."), ("b", "B.")), **said) if role != "plan" else Brain(**said)
        outcome = run(make_phased(layout), model)
        assert (outcome.answer, outcome.stop, outcome.details["error"]) == (None, stop, "down")
        assert model.roles[-1] == role
        assert model.roles.count(role) == 1
        assert "in_progress" not in {status for status, _ in statuses(outcome).values()}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), ZeroDivisionError("a bug")])
@row("G-3")
def test_phased_budget_and_bugs_leave_the_loop(role: str, leaving: BaseException) -> None:
    said: dict[str, Any] = {"plan": plan(("a", "A."), ("b", "B."))} | {role: leaving}
    for layout in ("executor", "agent"):
        model = Brain(**said)
        with pytest.raises(type(leaving)):
            run(make_phased(layout), model)
        assert model.roles.count(role) == 1


@pytest.mark.parametrize("where", [*ROLES, "tool"])
@pytest.mark.parametrize("by_token", [True, False])
@row("G-2", "G-3")
def test_phased_the_token_ends_the_run_as_cancelled_and_cancellation_leaves_it(where: str, by_token: bool) -> None:
    told = CallbackLog()

    async def main() -> Any:
        token, begun = asyncio.Event(), asyncio.Event()

        async def hang() -> None:
            """Never ends by itself."""
            begun.set()
            await asyncio.Event().wait()

        class Stuck(Brain):
            async def complete(self, request: Request) -> Reply:
                if request.role.value == where:
                    await hang()
                return await super().complete(request)

        model = Stuck(select=Act("", (ToolCall("hang", {}),) if where == "tool" else adding(1, 2)))
        loop = Phased(cancellation_token=token, callbacks=told)
        assert StopReason.CANCELLED in loop.stops
        running = asyncio.create_task(loop.run(Query("Q"), box(add, hang), model))
        await begun.wait()
        token.set() if by_token else running.cancel()
        await asyncio.wait([running])
        assert len(asyncio.all_tasks()) == 1
        return None if running.cancelled() else running.result()

    outcome = run_sync(limited(main()))
    ended = [status for _, status in told.of("on_task_update")]
    assert ended[1:] == ([TaskStatus.FAILED] if where in ("select", "tool") else [TaskStatus.COMPLETED] * (len(ended) - 1))
    if by_token:
        assert (outcome.answer, outcome.stop) == (None, StopReason.CANCELLED)
        assert "in_progress" not in {status for status, _ in statuses(outcome).values()}
    else:
        assert outcome is None


@row("G-3")
def test_phased_cancellation_from_outside_leaves_though_the_token_is_set_too() -> None:
    async def main() -> bool:
        token, begun = asyncio.Event(), asyncio.Event()

        async def hang() -> None:
            """Never ends by itself."""
            begun.set()
            await asyncio.Event().wait()

        loop = Phased(cancellation_token=token)
        running = asyncio.create_task(loop.run(Query("Q"), box(hang), Brain(select=Act("", (ToolCall("hang", {}),)))))
        await begun.wait()
        token.set()
        running.cancel()
        await asyncio.wait([running])
        return running.cancelled()

    assert run_sync(limited(main()))


@pytest.mark.parametrize("error", [ProviderError("down"), BudgetExceeded("spent")])
@pytest.mark.parametrize("layout", ["executor", "agent"])
@row("G-3")
def test_phased_no_tool_is_begun_once_a_neighbour_has_ended_the_run(error: Exception, layout: str) -> None:
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

        model = Meeting(plan=plan(("a", "A."), ("b", "B.")), select=Act("", (ToolCall("count", {"a": 1}),)))
        try:
            await make_phased(layout).run(Query("Q"), box(count), model)
        except BudgetExceeded:
            assert isinstance(error, BudgetExceeded)

    run_sync(limited(main()))
    assert begun == []


@row("B1-12", "X-15")
def test_a_thread_keeps_its_grace_though_a_neighbours_task_ends_at_once() -> None:
    async def main() -> Outcome:
        begun, let_go, token = threading.Event(), threading.Event(), asyncio.Event()

        def work() -> str:
            """Works in its thread."""
            begun.set()
            let_go.wait(30)
            return "paid"

        async def hang() -> None:
            """Never ends by itself; lets the other go on once it is cancelled."""
            try:
                await asyncio.Event().wait()
            finally:
                asyncio.get_running_loop().call_later(0.05, let_go.set)

        select = by_task(a=[ToolCall("hang", {})], b=[ToolCall("work", {})])
        model = Brain(plan=plan(("a", "A."), ("b", "B.")), select=select)
        loop = Phased(cancel_grace_s=20, cancellation_token=token)
        running = asyncio.create_task(loop.run(Query("Q"), Toolbox([work, hang]), model))
        await asyncio.to_thread(begun.wait, 20)
        token.set()
        return await running

    outcome = run_sync(limited(main()))
    assert (outcome.stop, outcome.details["gathered"]) == (StopReason.CANCELLED, 1)


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
                    await asyncio.Event().wait()
            except TimeoutError:
                raise ProviderError("no reply within 0.02 s") from None

    async def main() -> Outcome:
        return await Phased(cancellation_token=asyncio.Event()).run(Query("Q"), box(), Slow(), Listening())

    assert run_sync(limited(main())).details["error"] == "no reply within 0.02 s"


@row("G-2")
def test_phased_streaming_ends_with_the_token_too() -> None:
    async def main() -> Outcome:
        token = asyncio.Event()

        class Endless(Brain):
            async def stream(self, request: Request) -> AsyncIterator[Chunk]:
                yield Chunk("d")
                token.set()
                await asyncio.Event().wait()

        return await Phased(cancellation_token=token).run(Query("Q"), box(), Endless(), Listening())

    assert run_sync(limited(main())).stop is StopReason.CANCELLED


@row("G-5")
def test_phased_interrupts_of_a_tool_leave_the_loop() -> None:
    def interrupt() -> None:
        """Leaves."""
        raise KeyboardInterrupt

    for layout in ("executor", "agent"):
        model = Brain(select=Act("", (ToolCall("interrupt", {}),)))
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(make_phased(layout).run(Query("Q"), box(interrupt), model))


@pytest.mark.parametrize(
    ("raised", "text"), [(SystemExit(2), "SystemExit: 2"), (OSError(), "OSError: "), (GeneratorExit("g"), "GeneratorExit: g")]
)
@row("G-5", "X-10")
def test_phased_whatever_else_a_tool_raises_is_a_failed_call(raised: BaseException, text: str) -> None:
    for layout in ("executor", "agent"):
        model = Brain(select=Act("", (ToolCall("any", {}),)))
        outcome = run(make_phased(layout), model, giving(raised))
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
    async def hang() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    tools = Toolbox([Tool.from_function(hang, time_limit_s=0.02), *box()])
    model = Brain(select=Act("", (ToolCall("hang", {}), *adding(1, 2))))
    outcome = run_sync(limited(Phased().run(Query("Q"), tools, model)))
    calls = outcome.details["tasks"][0]["toolCalls"]
    assert [(call["status"], call["error"]) for call in calls] == [
        ("failed", "TimeoutError: no result within 0.02 s"),
        ("completed", None),
    ]


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
    assert make_loop(parse_spec("phased"), tool_steps) == Phased(max_tool_tasks=tool_steps)
    assert make_loop(parse_spec("phased(max_tool_tasks=2)"), tool_steps) == Phased(max_tool_tasks=2)
    assert make_loop(parse_spec("phased(max_rounds=7)"), tool_steps) == Phased(max_rounds=7, max_tool_tasks=tool_steps)


@row("X-6")
def test_phased_an_answer_that_cannot_be_read_is_taken_as_text() -> None:
    schema = {"type": "integer"}
    assert run(Phased(), Brain(answer=Answer("sum", 3)), schema=schema).answer == 3
    notes = Notes()
    assert run(Phased(), Brain(answer="three"), schema=schema, observer=notes).answer == "three"
    assert ("unreadable", "answer") in [(kind, data.get("phase")) for kind, data in notes.notes]
    assert run(Phased(), Brain(answer="")).answer == ""


@row("X-21")
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
        reached = {
            run(loop, Brain(plan=tasks, reflect=said)).stop
            for tasks in (plan(("a", "A.")), plan(("a", "A."), ("b", "B.")))
            for said in (INCOMPLETE, Completion(True))
        }
        assert reached == declared
        assert loop.stops <= set(StopReason)
        assert isinstance(loop, Loop)
