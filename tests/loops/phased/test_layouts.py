"""The loop of phases: executors, layouts, stores and the limit of tool tasks, seen from the loop."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.helpers import Notes
from tests.loops.phased.helpers import FAIL, INCOMPLETE, LAYOUTS, Brain, adding, by_task, plan, run, statuses
from tests.rows import row
from whichloop.loops.phased import Phased, Understanding
from whichloop.loops.phased.state import AgentCallbacks, Phase, PhaseTask, TaskStatus, ToolCallStatus, ToolContextManager
from whichloop.protocol import Reply, Request, Role, StopReason, ToolCall
from whichloop.protocol.moves import Act, Text


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


@row("S1-31")
def test_a_store_that_fails_loses_no_result(tmp_path: Path) -> None:
    class Damaging(AgentCallbacks):
        def on_phase_start(self, phase: Phase) -> None:
            if phase is Phase.ANSWER:
                (kept,) = (tmp_path / "good").rglob("*.json")
                kept.write_text("{ half")

    model = Brain()
    run(Phased(context_manager=ToolContextManager(tmp_path / "good"), callbacks=Damaging()), model)
    assert "):\n3" in model.prompts("answer")[0]

    (tmp_path / "file").write_text("")
    notes, other = Notes(), Brain()
    run(Phased(executor=Own(), context_manager=ToolContextManager(tmp_path / "file" / "x")), other, observer=notes)
    assert "forty-two" in other.prompts("answer")[0]
    assert "not_kept" in dict(notes.notes)


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
        summaries[layout] = model.roles.count("summarize")
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
