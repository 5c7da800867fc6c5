"""Design 1, the loop of phases: a test for every row, named after it. Its parts have files of their own."""
# ruff: noqa: N802  (row ids keep their capitals)

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import logging
import random
import re
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopbench.datasets.task import StatelessEnvironment, Suite
from loopbench.datasets.task import Task as BenchTask
from loopbench.experiments.laws import check_loop
from loopbench.experiments.registry import make_loop, options_of, parse_spec
from loopbench.experiments.schedule import Arm, Trial
from loopbench.experiments.trial import TrialContext, run_trial
from loopbench.loops.phased import (
    NO_DATA,
    AgentCallbacks,
    Phase,
    Phased,
    PhaseTask,
    Reflection,
    TaskStatus,
    ToolCallStatus,
    ToolContextManager,
    ToolExecutor,
    ToolExecutorOptions,
    Understanding,
)
from loopbench.loops.phased.options import PhasedOptions
from loopbench.models.profiles import load_profile
from loopbench.protocol import (
    SILENT,
    Act,
    Answer,
    BudgetExceeded,
    Capabilities,
    Chunk,
    Completion,
    ContextOverflow,
    Loop,
    Move,
    NativeCall,
    Observer,
    Outcome,
    Plan,
    PlannedCall,
    PlanTask,
    ProviderError,
    Query,
    Ref,
    Reply,
    Request,
    Role,
    StopReason,
    Tasks,
    Text,
    Tool,
    Toolbox,
    ToolCall,
    render_value,
    run_sync,
)

Saying = Move | Reply | str | BaseException | Callable[[Request], Any]
BAD = "{ not json"


class Brain:
    """A Model that is told what to say by role: one saying for ever, or a list whose last is said for ever.

    What it is not told: one task that calls add(1, 2), enough after the first round, all contexts, the answer "done".
    """

    name = "brain"

    def __init__(self, capabilities: Capabilities | None = None, **sayings: Saying | list[Saying]) -> None:
        self.capabilities = capabilities or Capabilities()
        usual: dict[str, list[Saying]] = {
            "understand": [Understanding("a sum", ("one", "two"))],
            "plan": [Tasks((PlanTask("t1", "Add one and two."),), "Add.")],
            "select": [Act("", (ToolCall("add", {"a": 1, "b": 2}),))],
            "reflect": [Completion(True, "It is enough.")],
            "reason": [Text("So it is three.")],
            "summarize": [lambda request: Text(request.messages[1].content)],
            "answer": [Answer("", "done")],
        }
        self.sayings = usual | {role: list(said) if isinstance(said, list) else [said] for role, said in sayings.items()}
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        waiting = self.sayings[request.role.value]
        said = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return self.reply(request, said(request) if callable(said) else said)

    def reply(self, request: Request, said: Any) -> Reply:
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, str | Reply):
            return Reply(said) if isinstance(said, str) else said
        assert request.codec is not None
        return request.codec.render(said)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        reply = await self.complete(request)
        for letter in reply.text:
            yield Chunk(letter)
        yield Chunk(reply=reply)

    @property
    def roles(self) -> list[str]:
        return [request.role.value for request in self.requests]

    def prompts(self, role: str) -> list[str]:
        return [request.messages[1].content for request in self.requests if request.role.value == role]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail(text: str = "broken") -> None:
    """Always fails."""
    raise ValueError(text)


def box(*functions: Callable[..., Any]) -> Toolbox:
    return Toolbox(Tool.from_function(function, blocking=False) for function in (functions or (add, fail)))


def run(loop: Phased, model: Any, *functions: Callable[..., Any], observer: Observer = SILENT, schema: Any = None) -> Outcome:
    outcome: Outcome = run_sync(limited(loop.run(Query("What is 1 + 2?", schema=schema), box(*functions), model, observer)))
    return outcome


async def limited(work: Coroutine[Any, Any, Any]) -> Any:
    """A dead lock is a failure, not a hang."""
    async with asyncio.timeout(30):
        return await work


def plan(*tasks: tuple[str, str] | tuple[str, str, Sequence[str]], kind: Literal["use_tools", "reason"] = "use_tools") -> Tasks:
    return Tasks(tuple(PlanTask(task[0], task[1], kind, tuple(task[2]) if len(task) > 2 else ()) for task in tasks))


def by_task(**calls: Sequence[ToolCall] | str) -> Callable[[Request], Any]:
    """Select: the calls of the task whose id is the request's scope; a text is said as it is."""

    def say(request: Request) -> Any:
        said = calls.get(request.scope, ())
        return Reply("", (NativeCall("1", "add", said),)) if isinstance(said, str) else Act("", tuple(said))

    return say


def adding(a: int, b: int) -> tuple[ToolCall, ...]:
    return (ToolCall("add", {"a": a, "b": b}),)


FAIL = (ToolCall("fail", {}),)
INCOMPLETE = Completion(False, "Two is missing.", ("the number two",))


def statuses(outcome: Outcome) -> dict[str, tuple[str, str | None]]:
    return {task["id"]: (task["status"], task["error"]) for task in outcome.details["tasks"]}


# --- the law: any model, any tool ---

CONFIGS = st.builds(
    Phased,
    max_rounds=st.integers(1, 3),
    max_tool_tasks=st.none() | st.integers(0, 3),
    understand=st.booleans(),
    plan=st.booleans(),
    reflect=st.booleans(),
    failed_dependency=st.sampled_from(["run", "skip", "fail"]),
    tool_layout=st.sampled_from(["executor", "agent"]),
)
WORDS = st.text(max_size=4) | st.sampled_from(["t1", "t2", "t3"])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
PLANS = st.lists(
    st.builds(PlanTask, WORDS, WORDS, st.sampled_from(["use_tools"] * 2 + ["reason"]), st.lists(WORDS, max_size=2).map(tuple)),
    max_size=4,
).map(lambda tasks: Tasks(tuple(tasks)))
PICKS = st.lists(
    st.builds(
        ToolCall,
        st.sampled_from(["add", "any", "nope", ""]),
        st.just({"a": 1, "b": 2}) | st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    ),
    max_size=3,
).map(lambda calls: Act("", tuple(calls)))
WILD: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=20),
    JSON.map(json.dumps),
    st.builds(lambda name, text: Reply("", (NativeCall("1", name, text),)), st.sampled_from(["add", ""]), st.text(max_size=5)),
)
ERRORS: st.SearchStrategy[Any] = st.sampled_from([ProviderError("down"), ContextOverflow("long")])


def sayings(ordinary: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(ordinary, ordinary, ordinary, WILD, ERRORS), min_size=1, max_size=5)


SAYINGS = st.fixed_dictionaries(
    {
        "understand": sayings(st.builds(Understanding, WORDS)),
        "plan": sayings(PLANS),
        "select": sayings(PICKS),
        "reflect": sayings(st.builds(Completion, st.booleans(), WORDS)),
        "reason": sayings(st.builds(Text, WORDS)),
        "summarize": sayings(st.builds(Text, WORDS)),
        "answer": sayings(st.builds(lambda text: Answer("", text), WORDS)),
    }
)
RESULTS = st.one_of(JSON, st.sampled_from([object(), {1, 2}, b"\xff", SystemExit(3), KeyError("k"), StopIteration()]))


def giving(result: Any) -> Callable[..., Any]:
    def any_(**arguments: Any) -> Any:
        """Gives whatever it is to give."""
        if isinstance(result, BaseException):
            raise result
        return result

    any_.__name__ = "any"
    return any_


@given(loop=CONFIGS, said=SAYINGS, result=RESULTS)
@settings(max_examples=80)
def test_X_6_X_21_G_9_phased_any_replies_and_any_tool_end_in_an_outcome_within_the_limits(
    loop: Phased, said: dict[str, Any], result: Any
) -> None:
    model = Brain(**said)

    async def main() -> Outcome:
        outcome = await loop.run(Query("Q"), box(add, giving(result)), model)
        assert len(asyncio.all_tasks()) == 1
        return outcome

    outcome = run_sync(limited(main()))
    assert outcome.stop in loop.stops
    unanswered = (StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW)
    assert isinstance(outcome.answer, str) == (outcome.stop not in unanswered)
    assert loop.max_tool_tasks is None or outcome.steps <= loop.max_tool_tasks
    assert model.roles.count("select") <= outcome.steps
    assert outcome.details["rounds"] <= loop.max_rounds
    assert model.roles.count("plan") <= loop.max_rounds
    assert json.loads(json.dumps(outcome.details)) == outcome.details
    if outcome.stop not in unanswered:
        assert {status for status, _ in statuses(outcome).values()} <= {"completed", "failed"}


@given(loop=CONFIGS, said=SAYINGS, when=st.integers(0, 12), by_token=st.booleans())
@settings(max_examples=80)
def test_X_15_G_3_phased_cancelled_at_any_point_nothing_is_left_running(
    loop: Phased, said: dict[str, Any], when: int, by_token: bool
) -> None:
    async def main() -> None:
        token = asyncio.Event()
        points = 0
        asked_since = 0

        async def point() -> None:
            nonlocal points
            points += 1
            if points == when + 1:
                token.set() if by_token else running.cancel()
            await asyncio.sleep(0)

        class Watched(Brain):
            async def complete(self, request: Request) -> Reply:
                nonlocal asked_since
                asked_since += points > when
                await point()
                return await super().complete(request)

        async def slow(**arguments: Any) -> int:
            """Takes a while."""
            await point()
            return 3

        slow.__name__ = "any"
        given_loop = dataclasses.replace(loop, cancellation_token=token)
        running = asyncio.create_task(given_loop.run(Query("Q"), box(add, slow), Watched(**said)))
        await asyncio.wait([running])
        assert len(asyncio.all_tasks()) == 1
        if points <= when:
            assert running.result().stop in loop.stops
        elif by_token:
            assert running.result().stop in given_loop.stops
        else:
            assert running.cancelled() or points == when + 1  # the cancellation came with the run's very last step
        assert asked_since == 0 or not by_token

    run_sync(limited(main()))


@given(seed=st.integers(0, 10_000), layout=st.sampled_from(["executor", "agent"]))
@settings(max_examples=40)
def test_S1_21_S1_33_X_16_the_order_in_which_concurrent_requests_are_answered_changes_nothing(
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


# --- S1: the loop of phases ---


class Told(AgentCallbacks):
    """Keeps the name and arguments of every callback."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, tuple[Any, ...]]] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return object.__getattribute__(self, name)
        return lambda *args: self.heard.append((name, args))

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [args for heard, args in self.heard if heard == name]


def test_S1_1_S1_29_phases_come_in_order_and_complete_after_the_answer(kit: Any) -> None:
    told, notes = Told(), kit.Notes()
    outcome = run(Phased(callbacks=told), Brain(), observer=notes)
    phases = ["understand", "plan", "execute", "reflect", "answer", "complete"]
    assert outcome.details["phases"] == phases
    assert told.of("on_phase_start") == [(Phase(name),) for name in phases]
    assert told.of("on_phase_complete") == [(Phase(name),) for name in phases[:-1]]
    assert [data["phase"] for kind, data in notes.notes if kind == "phase"] == phases


def test_S1_17_understand_runs_once_whatever_the_rounds() -> None:
    model = Brain(reflect=[INCOMPLETE])
    run(Phased(max_rounds=3), model)
    assert model.roles.count("understand") == 1
    assert model.roles.count("plan") == 3
    assert "a sum" in model.prompts("select")[-1]


def test_S1_17_an_unreadable_understanding_is_the_question_itself(kit: Any) -> None:
    notes = kit.Notes()
    assert run(Phased(), Brain(understand=BAD), observer=notes).answer == "done"
    assert [data["phase"] for kind, data in notes.notes if kind == "unreadable"] == ["understand"]


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_S1_18_S1_25_B1_10_rounds_repeat_up_to_the_limit_and_then_the_answer_is_forced(rounds: int) -> None:
    assert Phased().max_rounds == 5
    model = Brain(reflect=INCOMPLETE)
    outcome = run(Phased(max_rounds=rounds), model)
    assert (outcome.stop, outcome.answer, outcome.details["rounds"]) == (StopReason.FORCED, "done", rounds)
    assert model.roles == ["understand", *["plan", "select", "reflect"] * rounds, "summarize", "answer"]


def test_S1_25_said_complete_in_the_last_round_is_finished() -> None:
    outcome = run(Phased(max_rounds=2), Brain(reflect=[INCOMPLETE, Completion(True)]))
    assert (outcome.stop, outcome.details["rounds"]) == (StopReason.FINISHED, 2)


@pytest.mark.parametrize("count", [1, 2, 5, 6])
def test_S1_19_a_plan_of_one_to_six_tasks_is_taken_and_two_to_five_are_asked_for(count: int) -> None:
    told = Told()
    model = Brain(plan=Tasks(tuple(PlanTask(str(i), f"Task {i}.") for i in range(count)), "All of it."))
    outcome = run(Phased(callbacks=told), model)
    assert outcome.steps == count
    assert "2 to 5" in model.requests[1].messages[0].content
    assert told.of("on_progress_message") == [("All of it.",)]


def test_S1_20_B1_9_ids_are_prefixed_per_round_and_dependencies_follow(kit: Any) -> None:
    notes = kit.Notes()
    tasks = plan(("a", "A.", ("zzz",)), ("b", "B.", ("a", "a")), ("a", "A again."))
    outcome = run(Phased(max_rounds=2), Brain(plan=tasks, reflect=INCOMPLETE), observer=notes)
    depends = {task["id"]: task["dependsOn"] for task in outcome.details["tasks"]}
    first = {"r1.a": [], "r1.b": ["r1.a"], "r1.a#2": []}
    assert depends == first | {"r2.a": [], "r2.b": ["r2.a"], "r2.a#2": []}
    assert [data for kind, data in notes.notes if kind == "unknown_dependency"] == [{"task": "a", "depends_on": "zzz"}] * 2


def test_S1_20_a_scope_is_the_id_as_the_model_gave_it_in_every_round() -> None:
    model = Brain(plan=plan(("c1", "A."), ("c1", "B.")), reflect=INCOMPLETE)
    run(Phased(max_rounds=2), model)
    assert [request.scope for request in model.requests if request.role is Role.SELECT] == ["c1", "c1#2"] * 2


def test_S1_21_ready_tasks_run_together_and_the_rest_once_what_they_need_is_done() -> None:
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


def test_S1_21_a_task_starts_when_its_own_dependencies_are_done_not_when_all_are() -> None:
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


def test_S1_21_a_task_sees_what_its_dependencies_depend_on_too() -> None:
    tasks = plan(("a", "A."), ("b", "B.", ("a",)), ("c", "C.", ("b",)))
    model = Brain(plan=tasks, select=by_task(a=adding(100, 11), b=adding(200, 22)))
    run(Phased(), model)
    assert "111" in model.prompts("select")[2]
    assert "222" in model.prompts("select")[2]


def test_S1_22_X_16_a_cycle_fails_and_reflect_follows() -> None:
    tasks = plan(("a", "A.", ("b",)), ("b", "B.", ("a",)), ("c", "C."), ("d", "D.", ("a",)), ("e", "E.", ("e",)))
    model = Brain(plan=tasks)
    outcome = run(Phased(), model)
    cycle = ("failed", "dependency cycle")
    assert statuses(outcome) == {"r1.a": cycle, "r1.b": cycle, "r1.c": ("completed", None), "r1.d": cycle, "r1.e": cycle}
    assert "dependency cycle" in model.prompts("reflect")[0]
    assert outcome.steps == 1


def test_S1_23_no_tool_selected_completes_without_data_and_reason_is_one_call_over_the_data() -> None:
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


def test_S1_23_an_unreadable_choice_of_tools_fails_its_task_and_the_next_round_is_told() -> None:
    model = Brain(select=[Reply("", (NativeCall("1", "add", '{"a": '),)), Act("", ())], reflect=[INCOMPLETE, Completion(True)])
    outcome = run(Phased(), model)
    assert statuses(outcome)["r1.t1"][0] == "failed"
    for prompt in (model.prompts("reflect")[0], model.prompts("plan")[1], model.prompts("select")[1]):
        assert "The choice of tools could not be read: The arguments of add are no JSON" in prompt


def test_S1_24_X_16_an_unreadable_reflection_is_incomplete() -> None:
    told = Told()
    outcome = run(Phased(callbacks=told), Brain(reflect=[BAD, Completion(True)]))
    assert (outcome.stop, outcome.details["rounds"]) == (StopReason.FINISHED, 2)
    assert told.of("on_reflection_complete")[0][0].isComplete is False


def test_S1_26_guidance_is_in_the_next_plan_request() -> None:
    said = '{"isComplete": false, "reasoning": "Why.", "missingInfo": ["the half"], "suggestedNextSteps": ["ask again"]}'
    told = Told()
    model = Brain(reflect=[said, Completion(True)])
    run(Phased(callbacks=told), model)
    first, second = model.prompts("plan")
    for words in ("Why.", "the half", "ask again"):
        assert words not in first
        assert words in second
    assert told.of("on_reflection_complete")[0] == (Reflection(False, "Why.", ("the half",), ("ask again",)), 1)


def test_S1_26_a_tasks_own_request_shows_why_but_not_what_became_tasks_of_others() -> None:
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
def test_S1_27_B1_10_the_answer_request_holds_the_contexts_that_the_model_chose(said: str, shown: list[int]) -> None:
    tasks = plan(("a", "A."), ("b", "B."))
    model = Brain(plan=tasks, select=by_task(a=adding(100, 11), b=adding(200, 22)), summarize=said)
    outcome = run(Phased(), model)
    assert outcome.details["contexts"] == [f"c{number}" for number in shown]
    (prompt,) = model.prompts("answer")
    assert [number for number, result in ((1, "111"), (2, "222")) if result in prompt] == shown
    assert NO_DATA not in prompt


class Listening(Observer):
    streams = True

    def __init__(self) -> None:
        self.text = ""

    def chunk(self, chunk: Chunk) -> None:
        self.text += chunk.text


def test_S1_27_the_answer_is_streamed_if_someone_listens() -> None:
    observer, told = Listening(), Told()
    assert run(Phased(callbacks=told), Brain(), observer=observer).answer == "done"
    assert observer.text == "done"
    assert told.of("on_answer_stream") == [("d",), ("o",), ("n",), ("e",)]
    quiet = Told()
    assert run(Phased(callbacks=quiet), Brain()).answer == "done"
    assert quiet.of("on_answer_stream") == []
    quiet.streams = True
    assert run(Phased(callbacks=quiet), Brain()).answer == "done"
    assert len(quiet.of("on_answer_stream")) == 4
    unable = Listening()
    assert run(Phased(), Brain(Capabilities(streaming=False)), observer=unable).answer == "done"
    assert unable.text == ""


def test_S1_28_every_callback_is_called_with_what_happened() -> None:
    told = Told()
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


def test_S1_28_B1_3_X_16_callbacks_that_raise_are_logged_and_fail_nothing(caplog: pytest.LogCaptureFixture) -> None:
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


# --- the executor and the layouts, seen from the loop ---


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


def test_S1_34_the_agent_takes_any_executor() -> None:
    own, model, kept = Own(), Brain(), ToolContextManager()
    outcome = run(Phased(executor=own, context_manager=kept), model)
    assert own.seen == ["r1.t1 a sum"]
    assert "select" not in model.roles
    assert "forty-two" in model.prompts("reflect")[0]
    assert "forty-two" in model.prompts("answer")[0]
    assert outcome.details["gathered"] == 1


def test_S1_34_S1_7_an_executor_with_the_signature_of_the_document_serves_without_a_token() -> None:
    class Plain:
        async def select_tools(self, task: PhaseTask, understanding: Understanding | None) -> list[ToolCallStatus]:
            return [ToolCallStatus("own", {})]

        async def execute_tools(self, task: PhaseTask, query_id: str, callbacks: Any) -> bool:
            return await Own().execute_tools(task, query_id, callbacks)

    executor: Any = Plain()
    assert run(Phased(executor=executor), Brain()).details["gathered"] == 1


def test_S1_34_B1_2_the_token_ends_a_choice_that_an_executors_own_model_makes() -> None:
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


def test_S1_31_a_store_that_fails_loses_no_result(tmp_path: Path, kit: Any) -> None:
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
    blocked, notes, other = ToolContextManager(tmp_path / "file" / "x"), kit.Notes(), Brain()
    run(Phased(executor=Own(), context_manager=blocked), other, observer=notes)
    assert "forty-two" in other.prompts("answer")[0]
    assert "not_kept" in [kind for kind, _ in notes.notes]


def test_S1_33_concurrent_runs_share_an_executor_without_mixing() -> None:
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
        told = [Told() for _ in brains]
        loops = [Phased(executor=shared, context_manager=kept, callbacks=told[i]) for i in range(3)]
        outcomes = await asyncio.gather(*(loop.run(Query(f"number {i}"), box(), brains[i]) for i, loop in enumerate(loops)))
        for i, brain in enumerate(brains):
            assert f"{100 * i + 1}" in brain.prompts("answer")[0]
            assert [args[3] for args in told[i].of("on_tool_call_update")] == [None, f"{100 * i + 1}"]
        return list(outcomes)

    assert [outcome.details["gathered"] for outcome in run_sync(limited(main()))] == [1, 1, 1]


def test_S1_38_both_layouts_make_the_same_calls_and_give_the_same_answer() -> None:
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


def make_phased(layout: str, **options: Any) -> Phased:
    return Phased(tool_layout="agent" if layout == "agent" else "executor", **options)


def test_S1_43_G_8_tool_tasks_of_the_whole_run_are_bounded() -> None:
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


def test_S1_43_said_complete_at_the_limit_is_finished() -> None:
    outcome = run(Phased(max_tool_tasks=1), Brain(plan=plan(("a", "A."), ("b", "B."))))
    assert (outcome.stop, outcome.steps) == (StopReason.FINISHED, 1)


# --- B1: faults of the document ---


@pytest.mark.parametrize("before", [True, False])
def test_B1_10_X_16_an_empty_plan_is_answered_at_once(before: bool) -> None:
    model = Brain(plan=[Tasks(())] if before else [plan(("a", "A.")), Tasks(())], reflect=INCOMPLETE)
    outcome = run(Phased(), model)
    assert outcome.stop is StopReason.FINISHED
    assert (outcome.details["gathered"], NO_DATA in model.prompts("answer")[0]) == ((0, True) if before else (1, False))
    if before:
        assert model.roles == ["understand", "plan", "answer"]


def test_B1_10_X_16_a_plan_that_cannot_be_read_is_the_question_as_one_task() -> None:
    model = Brain(plan=[BAD, plan(("a", "A."))], select=Act("", ()), reflect=[INCOMPLETE, Completion(True)])
    outcome = run(Phased(), model)
    task = outcome.details["tasks"][0]
    assert "The plan of round 1 could not be read" in model.prompts("plan")[1]
    assert "could not be read" not in model.prompts("reflect")[1]
    assert task["description"] == "What is 1 + 2?"
    assert "The plan of round 1 could not be read" in model.prompts("reflect")[0]
    assert outcome.details["gathered"] == 0
    assert NO_DATA in model.prompts("answer")[0]


@pytest.mark.parametrize(
    ("rule", "expected", "asked"),
    [
        ("run", ("completed", None), True),
        ("skip", ("completed", None), False),
        ("fail", ("failed", "dependency failed"), False),
    ],
)
def test_B1_8_X_16_dependents_of_a_failed_task(rule: Any, expected: Any, asked: bool) -> None:
    model = Brain(plan=plan(("a", "A."), ("b", "B.", ("a",))), select=by_task(a=FAIL, b=adding(1, 2)))
    outcome = run(Phased(failed_dependency=rule), model)
    assert statuses(outcome)["r1.b"] == expected
    prompts = {request.scope: request.messages[1].content for request in model.requests if request.role is Role.SELECT}
    assert ("b" in prompts) is asked
    if asked:
        assert "ValueError: broken" in prompts["b"]
    assert outcome.steps == (2 if asked else 1)


def test_B1_8_a_dependent_is_told_failed_to_gather_data() -> None:
    model = Brain(plan=plan(("a", "A."), ("b", "B.", ("a",))), select=by_task(a="{", b=()))
    run(Phased(), model)
    assert "Failed to gather data: The choice of tools" in model.prompts("select")[1]


def test_B1_7_failures_are_shown_to_every_later_request() -> None:
    for layout in ("executor", "agent"):
        model = Brain(select=Act("", FAIL), reflect=[INCOMPLETE, Completion(True)])
        run(make_phased(layout), model)
        later = [model.prompts("plan")[1], model.prompts("select")[1], *model.prompts("reflect"), *model.prompts("answer")]
        assert all("ValueError: broken" in prompt for prompt in later)


def test_a_result_reaches_every_later_request_whole() -> None:
    long = "line\n" * 2000 + 'end "quoted" [r:abcdef.0123]'

    def give() -> str:
        """A long text."""
        return long

    for layout in ("executor", "agent"):
        model = Brain(select=Act("", (ToolCall("give", {}),)), reflect=[INCOMPLETE, Completion(True)])
        run(make_phased(layout), model, give)
        for role in ("plan", "select", "reflect", "answer"):
            assert long in model.prompts(role)[-1]


def test_agent_layout_shows_summaries_and_answers_from_whole_results() -> None:
    model = Brain(summarize=[Text("SHORT"), BAD])
    run(Phased(tool_layout="agent"), model)
    assert "SHORT" in model.prompts("reflect")[0]
    assert "):\n3" in model.prompts("answer")[0]
    blank = Brain(summarize=[Text("  "), BAD])
    run(Phased(tool_layout="agent"), blank)
    assert "):\n3" in blank.prompts("reflect")[0]


# --- options ---


def test_option_max_rounds_bounds_the_rounds() -> None:
    for rounds in (1, 2):
        assert run(Phased(max_rounds=rounds), Brain(reflect=INCOMPLETE)).details["rounds"] == rounds


def test_option_max_tool_tasks_bounds_the_tasks_that_use_tools() -> None:
    for limit, steps in ((None, 5), (2, 2), (0, 0)):
        assert run(Phased(max_tool_tasks=limit), Brain(reflect=INCOMPLETE)).steps == steps


def test_option_understand_off_asks_for_no_understanding() -> None:
    for understand in (True, False):
        model = Brain()
        outcome = run(Phased(understand=understand), model)
        assert ("understand" in model.roles) is understand
        assert ("understand" in outcome.details["phases"]) is understand


def test_option_plan_off_makes_the_question_the_only_task() -> None:
    model = Brain()
    outcome = run(Phased(plan=False), model)
    assert "plan" not in model.roles
    assert [task["description"] for task in outcome.details["tasks"]] == ["What is 1 + 2?"]


def test_option_reflect_off_answers_after_the_first_round() -> None:
    model = Brain(reflect=INCOMPLETE)
    outcome = run(Phased(reflect=False), model)
    assert model.roles == ["understand", "plan", "select", "summarize", "answer"]
    assert (outcome.stop, outcome.answer) == (StopReason.FINISHED, "done")


def test_option_failed_dependency_runs_skips_or_fails_what_depends() -> None:
    tasks = plan(("a", "A."), ("b", "B.", ("a",)))
    made = {
        rule: run(Phased(failed_dependency=rule), Brain(plan=tasks, select=by_task(a=FAIL, b=adding(1, 2))))
        for rule in ("run", "skip", "fail")
    }
    assert [outcome.details["gathered"] for outcome in made.values()] == [1, 0, 0]
    assert statuses(made["fail"])["r1.b"] != statuses(made["skip"])["r1.b"]


def test_option_tool_layout_agent_adds_a_summary_per_call() -> None:
    counts = {}
    for layout in ("executor", "agent"):
        model = Brain()
        run(make_phased(layout), model)
        counts[layout] = model.roles.count("summarize")
    assert counts == {"executor": 1, "agent": 2}


@pytest.mark.parametrize(("grace", "gathered"), [(20.0, 1), (0.0, 0)])
def test_option_cancel_grace_s_is_how_long_a_thread_is_waited_for(grace: float, gathered: int) -> None:
    async def main() -> Outcome:
        begun, let_go, token = threading.Event(), threading.Event(), asyncio.Event()

        def work() -> str:
            """Works in its thread."""
            begun.set()
            let_go.wait(30)
            return "done"

        loop = Phased(cancel_grace_s=grace, cancellation_token=token)
        model = Brain(select=Act("", (ToolCall("work", {}),)))
        running = asyncio.create_task(loop.run(Query("Q"), Toolbox([work]), model))
        await asyncio.to_thread(begun.wait, 20)
        token.set()
        if grace:
            let_go.set()
        outcome = await running
        let_go.set()
        return outcome

    outcome = run_sync(limited(main()))
    assert (outcome.stop, outcome.details["gathered"]) == (StopReason.CANCELLED, gathered)


def test_hooks_are_no_options_and_every_field_is_documented() -> None:
    hooks = {"callbacks", "prompts", "cancellation_token", "executor", "select_model", "context_manager", "program"}
    names = {field.name for field in dataclasses.fields(Phased)}
    assert set(options_of(Phased)) == names - hooks
    assert all(option.doc for option in options_of(Phased).values())
    source = inspect.getsource(PhasedOptions)
    for name in names:
        assert re.search(rf'    {name}: [^\n]+\n    """\w', source), name


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"max_rounds": 0}, "max_rounds"),
        ({"max_tool_tasks": -1}, "max_tool_tasks"),
        ({"cancel_grace_s": -1.0}, "cancel_grace_s"),
        ({"cancel_grace_s": float("nan")}, "cancel_grace_s"),
        ({"prompts": {"plann": "x"}}, "plann"),
        ({"failed_dependency": "runn"}, "failed_dependency must be run, skip or fail, not 'runn'"),
        ({"tool_layout": "both"}, "tool_layout must be executor or agent, not 'both'"),
    ],
)
def test_bad_values_are_refused_by_name(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Phased(**wrong)


def test_S1_5_prompts_can_be_replaced_by_phase_and_the_format_stays() -> None:
    model = Brain()
    run(Phased(prompts={Phase.PLAN: "Plan like a pirate.", Phase.EXECUTE: "Pick like one."}), model)
    systems = {request.role.value: request.messages[0].content for request in model.requests}
    assert systems["plan"].startswith("Plan like a pirate.")
    assert '"dependsOn"' in systems["plan"]
    assert systems["select"].startswith("Pick like one.")


def test_a_smaller_model_may_select() -> None:
    small, large = Brain(), Brain()
    run(Phased(select_model=small), large)
    assert (small.roles, "select" in large.roles) == (["select"], False)


# --- G and X: rules for all designs ---


def test_G_2_phased_said_complete_is_finished() -> None:
    assert run(Phased(), Brain()).stop is StopReason.FINISHED


def test_G_2_phased_an_empty_plan_is_finished() -> None:
    assert run(Phased(), Brain(plan=Tasks(()))).stop is StopReason.FINISHED


def test_G_2_phased_rounds_or_tool_tasks_used_up_are_forced() -> None:
    assert run(Phased(max_rounds=1), Brain(reflect=INCOMPLETE)).stop is StopReason.FORCED
    assert run(Phased(max_tool_tasks=1), Brain(reflect=INCOMPLETE)).stop is StopReason.FORCED


ROLES = ["understand", "plan", "select", "reflect", "summarize", "answer"]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("layout", ["executor", "agent"])
def test_G_2_G_3_phased_provider_error_and_overflow_end_without_answer_or_further_call(role: str, layout: str) -> None:
    for error, stop in ((ProviderError("down"), StopReason.PROVIDER_ERROR), (ContextOverflow("down"), StopReason.CONTEXT_OVERFLOW)):
        said: dict[str, Any] = {role: error}
        model = Brain(plan=plan(("a", "A."), ("b", "B.")), **said) if role != "plan" else Brain(**said)
        outcome = run(make_phased(layout), model)
        assert (outcome.answer, outcome.stop, outcome.details["error"]) == (None, stop, "down")
        assert model.roles[-1] == role
        assert model.roles.count(role) == 1
        assert "in_progress" not in {status for status, _ in statuses(outcome).values()}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), asyncio.CancelledError(), ZeroDivisionError("a bug")])
def test_G_3_phased_budget_cancellation_and_bugs_leave_the_loop(role: str, leaving: BaseException) -> None:
    said: dict[str, Any] = {"plan": plan(("a", "A."), ("b", "B."))} | {role: leaving}
    for layout in ("executor", "agent"):
        model = Brain(**said)
        with pytest.raises(type(leaving)):
            run(make_phased(layout), model)
        assert model.roles.count(role) == 1


@pytest.mark.parametrize("where", [*ROLES, "tool"])
@pytest.mark.parametrize("by_token", [True, False])
def test_G_2_G_3_phased_the_token_ends_the_run_as_cancelled_and_cancellation_leaves_it(where: str, by_token: bool) -> None:
    told = Told()

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


def test_G_3_phased_cancellation_from_outside_leaves_though_the_token_is_set_too() -> None:
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
def test_G_3_phased_no_tool_is_begun_once_a_neighbour_has_ended_the_run(error: Exception, layout: str) -> None:
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


def test_B1_12_X_15_a_thread_keeps_its_grace_though_a_neighbours_task_ends_at_once() -> None:
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


def test_B1_2_a_token_of_another_event_loop_is_an_error_and_no_cancellation() -> None:
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


def test_S1_27_B1_2_a_time_limit_inside_a_stream_counts_though_there_is_a_token() -> None:
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


def test_G_2_phased_streaming_ends_with_the_token_too() -> None:
    async def main() -> Outcome:
        token = asyncio.Event()

        class Endless(Brain):
            async def stream(self, request: Request) -> AsyncIterator[Chunk]:
                yield Chunk("d")
                token.set()
                await asyncio.Event().wait()

        return await Phased(cancellation_token=token).run(Query("Q"), box(), Endless(), Listening())

    assert run_sync(limited(main())).stop is StopReason.CANCELLED


def test_G_5_phased_interrupts_of_a_tool_leave_the_loop() -> None:
    def interrupt(kind: str) -> None:
        """Leaves."""
        raise KeyboardInterrupt if kind == "k" else asyncio.CancelledError

    for kind, error in (("k", KeyboardInterrupt), ("c", asyncio.CancelledError)):
        for layout in ("executor", "agent"):
            model = Brain(select=Act("", (ToolCall("interrupt", {"kind": kind}),)))
            with pytest.raises(error):
                asyncio.run(make_phased(layout).run(Query("Q"), box(interrupt), model))


@pytest.mark.parametrize(
    ("raised", "text"), [(SystemExit(2), "SystemExit: 2"), (OSError(), "OSError: "), (GeneratorExit("g"), "GeneratorExit: g")]
)
def test_G_5_X_10_phased_whatever_else_a_tool_raises_is_a_failed_call(raised: BaseException, text: str) -> None:
    for layout in ("executor", "agent"):
        model = Brain(select=Act("", (ToolCall("any", {}),)))
        outcome = run(make_phased(layout), model, giving(raised))
        assert outcome.details["tasks"][0]["toolCalls"][0]["error"] == text
        assert text in model.prompts("reflect")[0]


def test_G_5_X_10_phased_what_json_cannot_say_is_shown_as_its_text() -> None:
    class Thing:
        def __str__(self) -> str:
            return "a thing"

    model = Brain(select=Act("", (ToolCall("any", {}),)))
    run(Phased(), model, giving(Thing()))
    assert render_value(Thing()) == "a thing"
    assert "a thing" in model.prompts("answer")[0]


def test_X_10_phased_a_hung_tool_fails_and_its_neighbours_do_not() -> None:
    async def hang() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    tools = Toolbox([Tool.from_function(hang), *box()], time_limit_s=0.02)
    model = Brain(select=Act("", (ToolCall("hang", {}), *adding(1, 2))))
    outcome = run_sync(limited(Phased().run(Query("Q"), tools, model)))
    calls = outcome.details["tasks"][0]["toolCalls"]
    assert [(call["status"], call["error"]) for call in calls] == [
        ("failed", "TimeoutError: no result within 0.02 s"),
        ("completed", None),
    ]


@pytest.mark.parametrize("name", ["submit", "branch", "finish", "__finish__"])
def test_G_6_X_18_phased_reserves_no_tool_name(name: str) -> None:
    tools = Toolbox([Tool.from_function(lambda: "ran", name=name, blocking=False)])
    outcome = Phased().run_sync(Query("Q"), tools, Brain(select=Act("", (ToolCall(name, {}),))))
    assert outcome.details["tasks"][0]["toolCalls"][0]["output"] == "ran"


@given(st.integers(0, 30))
def test_G_8_X_13_phased_n_tool_steps_are_n_tool_tasks_and_rounds_stay(tool_steps: int) -> None:
    assert Phased(plan=False).with_step_limit(tool_steps) == Phased(plan=False, max_tool_tasks=tool_steps)
    assert make_loop(parse_spec("phased"), tool_steps) == Phased(max_tool_tasks=tool_steps)
    assert make_loop(parse_spec("phased(max_tool_tasks=2)"), tool_steps) == Phased(max_tool_tasks=2)
    assert make_loop(parse_spec("phased(max_rounds=7)"), tool_steps) == Phased(max_rounds=7, max_tool_tasks=tool_steps)


def test_X_6_phased_an_answer_that_cannot_be_read_is_taken_as_text(kit: Any) -> None:
    schema = {"type": "integer"}
    assert run(Phased(), Brain(answer=Answer("sum", 3)), schema=schema).answer == 3
    notes = kit.Notes()
    assert run(Phased(), Brain(answer="three"), schema=schema, observer=notes).answer == "three"
    assert ("unreadable", "answer") in [(kind, data.get("phase")) for kind, data in notes.notes]
    assert run(Phased(), Brain(answer="")).answer == ""


def test_X_21_phased_stops_are_declared_exactly_where_they_can_be_reached() -> None:
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


def test_every_request_shows_the_question_and_tools_where_they_can_be_chosen() -> None:
    for layout in ("executor", "agent"):
        model = Brain(
            plan=Tasks((PlanTask("a", "Add."), PlanTask("r", "Think.", "reason"))), reflect=[INCOMPLETE, Completion(True)]
        )
        run(make_phased(layout), model)
        for request in model.requests:
            assert "What is 1 + 2?" in request.messages[1].content
            assert request.codec is not None
            assert request.codec.role is request.role
            if request.role is Role.SELECT:
                assert [tool.name for tool in request.tools] == ["add", "fail"]


def test_schemas_are_sent_to_models_that_take_them() -> None:
    for able in (True, False):
        model = Brain(Capabilities(response_schema=able))
        run(Phased(), model)
        with_schema = {request.role.value for request in model.requests if request.response_schema is not None}
        assert with_schema == ({"understand", "plan", "reflect", "summarize"} if able else set())


def test_one_instance_runs_many_queries_at_once() -> None:
    async def main() -> list[Outcome]:
        loop = Phased()
        return list(
            await asyncio.gather(
                *(loop.run(Query(f"Q{i}"), box(), Brain(answer=Answer("", str(i)))) for i in range(5)),
            )
        )

    outcomes = run_sync(limited(main()))
    assert [outcome.answer for outcome in outcomes] == list("01234")
    assert all(outcome.details == outcomes[0].details | {"tasks": outcome.details["tasks"]} for outcome in outcomes)


@pytest.mark.parametrize("options", [{}, {"tool_layout": "agent"}, {"understand": False}, {"reflect": False}])
def test_in_the_tunnel_a_clean_run_is_right_and_asks_as_often_as_its_design_says(options: dict[str, Any]) -> None:
    calls = tuple(
        PlannedCall(f"c{i}", "add", {"a": Ref(f"c{i - 1}") if i else 1, "b": i}, f"Work out number {i}.") for i in range(4)
    )
    script = Plan((*calls, PlannedCall("f", "fail", {"text": "as planned"}, "See it fail.", fails=True)), Ref("c3"))
    task = BenchTask("t", Query("How much is it?"), 7, plan=script)
    suite = Suite("s", "1", (task,), lambda _: StatelessEnvironment(tuple(box())))
    loop = Phased(**options).with_step_limit(8)
    setting = TrialContext(suite)
    done = run_sync(
        run_trial(Trial(Arm("phased/clean", parse_spec("phased"), loop, "scripted", load_profile("clean")), task, 0, 0), setting)
    )
    assert (done.record.answer, done.record.stop, done.record.steps) == ("7", "finished", 5)


def test_the_agent_layout_keeps_every_law_too() -> None:
    assert [finding for finding in check_loop(Phased(tool_layout="agent")) if finding.status == "failed"] == []


def test_importing_the_design_needs_no_framework(kit: Any) -> None:
    code = "import sys, loopbench.loops.phased; print({'dspy', 'pydantic', 'langchain_core', 'mlflow'} & set(sys.modules))"
    done = kit.python(code)
    assert (done.returncode, done.stdout.strip()) == (0, "set()"), done.stderr
