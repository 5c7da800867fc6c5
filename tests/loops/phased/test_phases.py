"""The loop of phases: what the document says of phases, rounds and tasks, its faults, and what we do instead."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.loops.helpers import Notes
from tests.loops.phased import helpers
from tests.loops.phased.helpers import BAD, FAIL, INCOMPLETE, LAYOUTS, Brain, CallbackLog, adding, by_task, plan, run, statuses
from tests.rows import row
from whichloop.loops.phased import AgentCallbacks, Phase, Phased, Reflection, TaskStatus, Understanding
from whichloop.loops.phased.prompts import NO_DATA
from whichloop.protocol import Capabilities, Query, Role, StopReason, ToolCall
from whichloop.protocol.moves import Act, Completion, PlanTask, Tasks, Text

TWICE = [INCOMPLETE, Completion(True)]


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
def test_understand_runs_once_and_unreadable_it_is_the_question_itself() -> None:
    model, notes = Brain(reflect=[INCOMPLETE]), Notes()
    run(Phased(max_rounds=3), model)
    assert [model.roles.count(role) for role in (Role.UNDERSTAND, Role.PLAN)] == [1, 3]
    assert "a sum" in model.prompts("select")[-1]
    model = Brain(understand=BAD)
    assert run(Phased(), model, observer=notes).answer == "done"
    assert [data["phase"] for kind, data in notes.notes if kind == "unreadable"] == ["understand"]
    assert "Understanding:\nWhat is 1 + 2?" in model.prompts("plan")[0]


@pytest.mark.parametrize("rounds", [1, 3])
@row("S1-18", "S1-25", "B1-10", "phased.max_rounds")
def test_rounds_repeat_up_to_the_limit_and_then_the_answer_is_forced(rounds: int) -> None:
    assert Phased().max_rounds == 5
    model = Brain(reflect=INCOMPLETE)
    outcome = run(Phased(max_rounds=rounds), model)
    assert (outcome.stop, outcome.answer, outcome.details["rounds"]) == (StopReason.FORCED, "done", rounds)
    assert model.roles == ["understand", *["plan", "select", "reflect"] * rounds, "summarize", "answer"]
    last = run(Phased(max_rounds=rounds), Brain(reflect=[INCOMPLETE] * (rounds - 1) + [Completion(True)]))
    assert (last.stop, last.details["rounds"]) == (StopReason.FINISHED, rounds)


@pytest.mark.parametrize("count", [1, 6])
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
    model = Brain(plan=tasks, reflect=INCOMPLETE)
    outcome = run(Phased(max_rounds=2), model, observer=notes)
    depends = {task["id"]: task["dependsOn"] for task in outcome.details["tasks"]}
    assert depends == {"r1.a": [], "r1.b": ["r1.a"], "r1.a#2": [], "r2.a": [], "r2.b": ["r2.a"], "r2.a#2": []}
    assert [data for kind, data in notes.notes if kind == "unknown_dependency"] == [{"task": "a", "depends_on": "zzz"}] * 2
    scopes = [request.scope for request in model.requests if request.role is Role.SELECT]
    assert sorted(scopes) == sorted(["a", "a#2", "b"] * 2)


@row("S1-21")
def test_a_task_is_shown_the_results_of_all_that_it_depends_on_and_of_no_neighbour() -> None:
    tasks = plan(("a", "A."), ("n", "N."), ("b", "B.", ("a",)), ("c", "C.", ("b",)))
    model = Brain(plan=tasks, select=by_task(a=adding(40, 2), n=adding(30, 3)))
    run(Phased(), model)
    prompts = {request.scope: request.messages[1].content for request in model.requests if request.role is Role.SELECT}
    seen = {scope: {result for result in ("42", "33") if result in prompt} for scope, prompt in prompts.items()}
    assert seen == {"a": set(), "n": set(), "b": {"42"}, "c": {"42"}}


@row("S1-21")
def test_a_task_starts_when_its_own_dependencies_are_done_not_when_all_are() -> None:
    order: list[str] = []

    async def main() -> None:
        go = asyncio.Event()

        async def work(who: str) -> str:
            if who == "slow":
                await go.wait()
            order.append(who)
            if who == "after":
                go.set()
            return who

        tasks = plan(("slow", "S."), ("quick", "Q."), ("after", "A.", ("quick",)))
        calls = by_task(**{who: [ToolCall("work", {"who": who})] for who in ("slow", "quick", "after")})
        await Phased().run(Query("Q"), helpers.box(work), Brain(plan=tasks, select=calls))

    helpers.finished(main())
    assert order == ["quick", "after", "slow"]


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


@row("S1-23", "B1-8")
def test_an_unreadable_choice_of_tools_fails_its_task_and_all_that_comes_later_is_told() -> None:
    model = Brain(plan=plan(("a", "A."), ("b", "B.", ("a",))), select=by_task(a='{"a": '), reflect=TWICE)
    assert statuses(run(Phased(), model))["r1.a"][0] == "failed"
    words = "[r1.a] Failed to gather data: The choice of tools could not be read: The arguments of add are no JSON"
    shown = [words in prompt for role in ("select", "reflect", "plan") for prompt in model.prompts(role)]
    assert shown == [False, *[True] * 5, False, True]


@row("S1-24", "S1-26", "X-16")
def test_an_unreadable_reflection_is_incomplete_and_the_next_plan_is_told() -> None:
    told, model = CallbackLog(), Brain(reflect=[BAD, Completion(True)])
    outcome = run(Phased(callbacks=told), model)
    assert (outcome.stop, outcome.details["rounds"]) == (StopReason.FINISHED, 2)
    assert told.of("on_reflection_complete")[0][0].isComplete is False
    assert "The last judgement could not be read" in model.prompts("plan")[1]


@row("S1-24", "S1-26")
def test_guidance_is_in_the_next_plan_request_and_a_task_is_told_why_alone() -> None:
    words = {"isComplete": False, "reasoning": "Why.", "missingInfo": ["the half"], "suggestedNextSteps": ["ask again"]}
    for has_plan in (True, False):
        told, model = CallbackLog(), Brain(reflect=[json.dumps(words), Completion(True)])
        run(Phased(callbacks=told, plan=has_plan), model)
        asked = [*model.prompts("plan"), *model.prompts("select")]
        shown = [[word in prompt for word in ("Why.", "- missing: the half", "- next: ask again")] for prompt in asked]
        none, whole, reason_alone = [False] * 3, [True] * 3, [True, False, False]
        assert shown == ([none, whole, none, reason_alone] if has_plan else [none, whole])
        assert told.of("on_reflection_complete")[0] == (Reflection(False, "Why.", ("the half",), ("ask again",)), 1)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('{"contexts": ["c2", "c9"], "why": "x"}', [2]),
        ('{"contexts": ["c2", "c1", 3]}', [1, 2]),
        ('{"contexts": []}', []),
        (BAD, [1, 2]),
        ('{"contexts": ["r1.a", 2]}', [1, 2]),  # none of them is a label: not a choice of nothing
    ],
)
@row("S1-27", "B1-10")
def test_the_answer_request_holds_the_contexts_that_the_model_chose(said: str, shown: list[int]) -> None:
    tasks = plan(("a", "A."), ("b", "B."))
    model, notes = Brain(plan=tasks, select=by_task(a=adding(100, 11), b=adding(200, 22)), summarize=said), Notes()
    outcome = run(Phased(), model, observer=notes)
    assert outcome.details["contexts"] == [f"c{number}" for number in shown]
    (prompt,) = model.prompts("answer")
    assert [number for number, result in ((1, "111"), (2, "222")) if result in prompt] == shown
    assert NO_DATA not in prompt
    assert ("unreadable" in dict(notes.notes)) is (said == BAD or "r1.a" in said)


@row("S1-27")
def test_the_answer_is_streamed_if_someone_listens() -> None:
    for able, listens in ((True, True), (True, False), (False, True)):
        told = CallbackLog()
        told.streams = listens
        assert run(Phased(callbacks=told), Brain(Capabilities(streaming=able))).answer == "done"
        assert told.of("on_answer_stream") == [(piece,) for piece in ("done" if able and listens else "")]


@row("S1-28")
def test_every_callback_is_called_with_what_happened() -> None:
    told = CallbackLog()
    run(Phased(callbacks=told), Brain(reflect=TWICE))
    names = {name for name in dir(AgentCallbacks) if name.startswith("on_")} - {"on_answer_stream"}
    assert {name for name, _ in told.heard} == names
    assert told.of("on_iteration_start") == [(1,), (2,)]
    assert told.of("on_understanding_complete") == [(Understanding("a sum", ("one", "two")),)]
    assert [(tasks[0].id, number) for tasks, number in told.of("on_plan_created")] == [("r1.t1", 1), ("r2.t1", 2)]
    assert told.of("on_task_update")[:2] == [("r1.t1", TaskStatus.IN_PROGRESS), ("r1.t1", TaskStatus.COMPLETED)]
    task_id, calls = told.of("on_task_tool_calls_set")[0]
    assert (task_id, [call.tool for call in calls]) == ("r1.t1", ["add"])
    assert told.updates[:2] == [(0, "in_progress", None, None), (0, "completed", "3", None)]
    assert told.of("on_answer_start") == [()]


@pytest.mark.parametrize("before", [True, False])
@row("B1-10", "X-16")
def test_an_empty_plan_is_answered_at_once(before: bool) -> None:
    model = Brain(plan=[Tasks(())] if before else [plan(("a", "A.")), Tasks(())], reflect=INCOMPLETE)
    outcome = run(Phased(), model)
    assert outcome.stop is StopReason.FINISHED
    assert (outcome.details["gathered"], NO_DATA in model.prompts("answer")[0]) == ((0, True) if before else (1, False))
    assert not before or model.roles == ["understand", "plan", "answer"]


@row("B1-10", "X-16")
def test_a_plan_that_cannot_be_read_is_the_question_as_one_task() -> None:
    model = Brain(plan=[BAD, plan(("a", "A."))], select=Act("", ()), reflect=TWICE)
    outcome = run(Phased(), model)
    assert outcome.details["tasks"][0]["description"] == "What is 1 + 2?"
    words = "The plan of round 1 could not be read"
    assert [words in prompt for role in ("plan", "reflect") for prompt in model.prompts(role)] == [False, True, True, False]
    assert outcome.details["gathered"] == 0
    assert NO_DATA in model.prompts("answer")[0]


@pytest.mark.parametrize(
    ("rule", "second", "third", "asked"),
    [
        ("run", ("completed", None), ("completed", None), ["a", "b", "c"]),
        ("skip", ("completed", None), ("completed", None), ["a", "c"]),
        ("fail", ("failed", "dependency failed"), ("failed", "dependency failed"), ["a"]),
    ],
)
@row("B1-8", "X-16", "phased.failed_dependency")
def test_dependents_of_a_failed_task(rule: Any, second: Any, third: Any, asked: list[str]) -> None:
    tasks = plan(("a", "A."), ("b", "B.", ("a",)), ("c", "C.", ("b",)))
    model = Brain(plan=tasks, select=by_task(a=FAIL, b=adding(1, 2), c=adding(1, 2)))
    outcome = run(Phased(failed_dependency=rule), model)
    assert (statuses(outcome)["r1.b"], statuses(outcome)["r1.c"]) == (second, third)
    prompts = {request.scope: request.messages[1].content for request in model.requests if request.role is Role.SELECT}
    assert list(prompts) == asked
    assert all("[r1.a] fail({}) failed: ValueError: broken" in prompts[scope] for scope in asked[1:])
    assert (outcome.steps, outcome.details["gathered"]) == (len(asked), len(asked) - 1)


@pytest.mark.parametrize("layout", LAYOUTS)
@row("B1-7")
def test_failures_and_whole_results_are_shown_to_every_later_request(layout: Any) -> None:
    long = "line\n" * 2000 + 'end "quoted" [r:abcdef.0123]'

    def give() -> str:
        return long

    def fail() -> None:
        raise ValueError("broken")

    model = Brain(select=Act("", (ToolCall("give", {}), ToolCall("fail", {}))), reflect=TWICE)
    run(Phased(tool_layout=layout), model, give, fail)
    later = [model.prompts("plan")[1], model.prompts("select")[1], *model.prompts("reflect"), *model.prompts("answer")]
    assert all("ValueError: broken" in prompt and long in prompt for prompt in later)
