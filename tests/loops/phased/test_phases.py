"""The loop of phases: what the document says of phases, rounds and tasks."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.loops.helpers import Notes
from tests.loops.phased.helpers import (
    BAD,
    INCOMPLETE,
    Brain,
    CallbackLog,
    Listening,
    adding,
    box,
    by_task,
    limited,
    plan,
    run,
    statuses,
)
from tests.rows import row
from whichloop.loops.phased import (
    AgentCallbacks,
    Phase,
    Phased,
    Reflection,
    TaskStatus,
    Understanding,
)
from whichloop.loops.phased.prompts import NO_DATA
from whichloop.protocol import (
    Act,
    Capabilities,
    Completion,
    NativeCall,
    PlanTask,
    Query,
    Reply,
    Role,
    StopReason,
    Tasks,
    Text,
    ToolCall,
    run_sync,
)


@row("S1-1", "S1-29")
def test_phases_come_in_order_and_complete_after_the_answer() -> None:
    told, notes = CallbackLog(), Notes()
    outcome = run(Phased(callbacks=told), Brain(), observer=notes)
    phases = ["understand", "plan", "execute", "reflect", "answer", "complete"]
    assert outcome.details["phases"] == phases
    assert told.of("on_phase_start") == [(Phase(name),) for name in phases]
    assert told.of("on_phase_complete") == [(Phase(name),) for name in phases[:-1]]
    assert [data["phase"] for kind, data in notes.notes if kind == "phase"] == phases


@row("S1-17")
def test_understand_runs_once_whatever_the_rounds() -> None:
    model = Brain(reflect=[INCOMPLETE])
    run(Phased(max_rounds=3), model)
    assert model.roles.count("understand") == 1
    assert model.roles.count("plan") == 3
    assert "a sum" in model.prompts("select")[-1]


@row("S1-17")
def test_an_unreadable_understanding_is_the_question_itself() -> None:
    notes = Notes()
    assert run(Phased(), Brain(understand=BAD), observer=notes).answer == "done"
    assert [data["phase"] for kind, data in notes.notes if kind == "unreadable"] == ["understand"]


@pytest.mark.parametrize("rounds", [1, 2, 5])
@row("S1-18", "S1-25", "B1-10")
def test_rounds_repeat_up_to_the_limit_and_then_the_answer_is_forced(rounds: int) -> None:
    assert Phased().max_rounds == 5
    model = Brain(reflect=INCOMPLETE)
    outcome = run(Phased(max_rounds=rounds), model)
    assert (outcome.stop, outcome.answer, outcome.details["rounds"]) == (StopReason.FORCED, "done", rounds)
    assert model.roles == ["understand", *["plan", "select", "reflect"] * rounds, "summarize", "answer"]


@row("S1-25")
def test_said_complete_in_the_last_round_is_finished() -> None:
    outcome = run(Phased(max_rounds=2), Brain(reflect=[INCOMPLETE, Completion(True)]))
    assert (outcome.stop, outcome.details["rounds"]) == (StopReason.FINISHED, 2)


@pytest.mark.parametrize("count", [1, 2, 5, 6])
@row("S1-19")
def test_a_plan_of_one_to_six_tasks_is_taken_and_two_to_five_are_asked_for(count: int) -> None:
    told = CallbackLog()
    model = Brain(plan=Tasks(tuple(PlanTask(str(i), f"Task {i}.") for i in range(count)), "All of it."))
    outcome = run(Phased(callbacks=told), model)
    assert outcome.steps == count
    assert "2 to 5" in model.requests[1].messages[0].content
    assert told.of("on_progress_message") == [("All of it.",)]


@row("S1-20", "B1-9")
def test_ids_are_prefixed_per_round_and_dependencies_follow() -> None:
    notes = Notes()
    tasks = plan(("a", "A.", ("zzz",)), ("b", "B.", ("a", "a")), ("a", "A again."))
    outcome = run(Phased(max_rounds=2), Brain(plan=tasks, reflect=INCOMPLETE), observer=notes)
    depends = {task["id"]: task["dependsOn"] for task in outcome.details["tasks"]}
    first = {"r1.a": [], "r1.b": ["r1.a"], "r1.a#2": []}
    assert depends == first | {"r2.a": [], "r2.b": ["r2.a"], "r2.a#2": []}
    assert [data for kind, data in notes.notes if kind == "unknown_dependency"] == [{"task": "a", "depends_on": "zzz"}] * 2


@row("S1-20")
def test_a_scope_is_the_id_as_the_model_gave_it_in_every_round() -> None:
    model = Brain(plan=plan(("c1", "A."), ("c1", "B.")), reflect=INCOMPLETE)
    run(Phased(max_rounds=2), model)
    assert [request.scope for request in model.requests if request.role is Role.SELECT] == ["c1", "c1#2"] * 2


@row("S1-21")
def test_ready_tasks_run_together_and_the_rest_once_what_they_need_is_done() -> None:
    meeting: list[Any] = []

    async def meet(who: str) -> str:
        """Waits for the other."""
        if not meeting:
            meeting.append(asyncio.Barrier(2))
        await meeting[0].wait()
        return f"<{who}>"

    tasks = plan(("a", "A."), ("b", "B."), ("c", "C.", ("a",)))
    calls = by_task(a=[ToolCall("meet", {"who": "a"})], b=[ToolCall("meet", {"who": "b"})])
    model = Brain(plan=tasks, select=calls)
    run(Phased(), model, meet)
    prompts = {request.scope: request.messages[1].content for request in model.requests if request.role is Role.SELECT}
    assert "<a>" in prompts["c"]
    assert "<b>" not in prompts["c"]
    assert "<a>" not in prompts["b"]


@row("S1-21")
def test_a_task_starts_when_its_own_dependencies_are_done_not_when_all_are() -> None:
    order: list[str] = []

    async def main() -> None:
        go = asyncio.Event()

        async def work(who: str) -> str:
            """Works."""
            if who == "slow":
                await go.wait()
            order.append(who)
            if who == "after":
                go.set()
            return who

        tasks = plan(("slow", "S."), ("quick", "Q."), ("after", "A.", ("quick",)))
        calls = by_task(**{who: [ToolCall("work", {"who": who})] for who in ("slow", "quick", "after")})
        await Phased().run(Query("Q"), box(work), Brain(plan=tasks, select=calls))

    run_sync(limited(main()))
    assert order == ["quick", "after", "slow"]


@row("S1-21")
def test_a_task_sees_what_its_dependencies_depend_on_too() -> None:
    tasks = plan(("a", "A."), ("b", "B.", ("a",)), ("c", "C.", ("b",)))
    model = Brain(plan=tasks, select=by_task(a=adding(100, 11), b=adding(200, 22)))
    run(Phased(), model)
    assert "111" in model.prompts("select")[2]
    assert "222" in model.prompts("select")[2]


@row("S1-22", "X-16")
def test_a_cycle_fails_and_reflect_follows() -> None:
    tasks = plan(("a", "A.", ("b",)), ("b", "B.", ("a",)), ("c", "C."), ("d", "D.", ("a",)), ("e", "E.", ("e",)))
    model = Brain(plan=tasks)
    outcome = run(Phased(), model)
    cycle = ("failed", "dependency cycle")
    assert statuses(outcome) == {"r1.a": cycle, "r1.b": cycle, "r1.c": ("completed", None), "r1.d": cycle, "r1.e": cycle}
    assert "dependency cycle" in model.prompts("reflect")[0]
    assert outcome.steps == 1


@row("S1-23")
def test_no_selected_tool_completes_without_data_and_reason_is_one_call_over_data() -> None:
    tasks = Tasks((PlanTask("a", "Add."), PlanTask("n", "Nothing."), PlanTask("r", "Think.", "reason", ("a",))))
    model = Brain(plan=tasks, select=[Act("", adding(40, 2)), Text("I need no tool for this.")])
    outcome = run(Phased(), model)
    assert {status for status, _ in statuses(outcome).values()} == {"completed"}
    assert (outcome.steps, outcome.details["gathered"]) == (2, 1)
    (prompt,) = model.prompts("reason")
    assert "42" in prompt
    assert "Think." in prompt
    for role in ("reflect", "answer"):
        assert "So it is three." in model.prompts(role)[0]


@row("S1-23")
def test_an_unreadable_choice_of_tools_fails_its_task_and_the_next_round_is_told() -> None:
    model = Brain(select=[Reply("", (NativeCall("1", "add", '{"a": '),)), Act("", ())], reflect=[INCOMPLETE, Completion(True)])
    outcome = run(Phased(), model)
    assert statuses(outcome)["r1.t1"][0] == "failed"
    for prompt in (model.prompts("reflect")[0], model.prompts("plan")[1], model.prompts("select")[1]):
        assert "The choice of tools could not be read: The arguments of add are no JSON" in prompt


@row("S1-24", "X-16")
def test_an_unreadable_reflection_is_incomplete() -> None:
    told = CallbackLog()
    outcome = run(Phased(callbacks=told), Brain(reflect=[BAD, Completion(True)]))
    assert (outcome.stop, outcome.details["rounds"]) == (StopReason.FINISHED, 2)
    assert told.of("on_reflection_complete")[0][0].isComplete is False


@row("S1-26")
def test_guidance_is_in_the_next_plan_request() -> None:
    said = '{"isComplete": false, "reasoning": "Why.", "missingInfo": ["the half"], "suggestedNextSteps": ["ask again"]}'
    told = CallbackLog()
    model = Brain(reflect=[said, Completion(True)])
    run(Phased(callbacks=told), model)
    first, second = model.prompts("plan")
    for words in ("Why.", "the half", "ask again"):
        assert words not in first
        assert words in second
    assert told.of("on_reflection_complete")[0] == (Reflection(False, "Why.", ("the half",), ("ask again",)), 1)


@row("S1-26")
def test_a_tasks_own_request_shows_why_but_not_what_became_tasks_of_others() -> None:
    model = Brain(reflect=[INCOMPLETE, Completion(True)])
    run(Phased(), model)
    assert "Two is missing." in model.prompts("select")[1]
    assert "the number two" not in model.prompts("select")[1]
    alone = Brain(reflect=[INCOMPLETE, Completion(True)])
    run(Phased(plan=False), alone)
    assert "the number two" in alone.prompts("select")[1]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('{"contexts": ["c2"], "why": "x"}', [2]),
        ('{"contexts": []}', []),
        (BAD, [1, 2]),
        ('{"contexts": ["r1.a", 2]}', [1, 2]),  # none of them is a label: not a choice of nothing
    ],
)
@row("S1-27", "B1-10")
def test_the_answer_request_holds_the_contexts_that_the_model_chose(said: str, shown: list[int]) -> None:
    tasks = plan(("a", "A."), ("b", "B."))
    model = Brain(plan=tasks, select=by_task(a=adding(100, 11), b=adding(200, 22)), summarize=said)
    outcome = run(Phased(), model)
    assert outcome.details["contexts"] == [f"c{number}" for number in shown]
    (prompt,) = model.prompts("answer")
    assert [number for number, result in ((1, "111"), (2, "222")) if result in prompt] == shown
    assert NO_DATA not in prompt


@row("S1-27")
def test_the_answer_is_streamed_if_someone_listens() -> None:
    observer = Listening()
    assert run(Phased(), Brain(), observer=observer).answer == "done"
    assert observer.text == "done"
    quiet = CallbackLog()
    assert run(Phased(callbacks=quiet), Brain()).answer == "done"
    assert quiet.of("on_answer_stream") == []
    quiet.streams = True
    assert run(Phased(callbacks=quiet), Brain()).answer == "done"
    assert len(quiet.of("on_answer_stream")) == 4
    unable = Listening()
    assert run(Phased(), Brain(Capabilities(streaming=False)), observer=unable).answer == "done"
    assert unable.text == ""


@row("S1-28")
def test_every_callback_is_called_with_what_happened() -> None:
    told = CallbackLog()
    run(Phased(callbacks=told), Brain(reflect=[INCOMPLETE, Completion(True)]))
    names = {name for name in dir(AgentCallbacks) if name.startswith("on_")} - {"on_answer_stream"}
    assert {name for name, _ in told.heard} == names
    assert told.of("on_iteration_start") == [(1,), (2,)]
    assert told.of("on_understanding_complete") == [(Understanding("a sum", ("one", "two")),)]
    assert [(tasks[0].id, number) for tasks, number in told.of("on_plan_created")] == [("r1.t1", 1), ("r2.t1", 2)]
    assert told.of("on_task_update")[:2] == [("r1.t1", TaskStatus.IN_PROGRESS), ("r1.t1", TaskStatus.COMPLETED)]
    task_id, calls = told.of("on_task_tool_calls_set")[0]
    assert (task_id, [call.tool for call in calls]) == ("r1.t1", ["add"])
    assert told.of("on_tool_call_update")[:2] == [
        ("r1.t1", 0, TaskStatus.IN_PROGRESS, None, None),
        ("r1.t1", 0, TaskStatus.COMPLETED, "3", None),
    ]
    assert told.of("on_answer_start") == [()]


@row("S1-28", "B1-3", "X-16")
def test_callbacks_that_raise_are_logged_and_fail_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Raising(AgentCallbacks):
        def on_phase_start(self, phase: Phase) -> None:
            raise RuntimeError("my own bug")

        def on_tool_call_update(self, *args: Any, **kwargs: Any) -> None:
            raise RuntimeError("another")

    with caplog.at_level(logging.WARNING):
        outcome = run(Phased(callbacks=Raising()), Brain())
    assert (outcome.stop, outcome.details["gathered"]) == (StopReason.FINISHED, 1)
    assert "my own bug" in caplog.text
    assert "another" in caplog.text
