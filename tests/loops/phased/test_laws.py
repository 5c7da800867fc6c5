"""The loop of phases: laws that hold for any model and any tool."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.phased.helpers import (
    FAIL,
    INCOMPLETE,
    LAYOUTS,
    Brain,
    add,
    adding,
    box,
    by_task,
    finished,
    giving,
    plan,
    run,
    statuses,
)
from tests.rows import row
from whichloop.loops.phased import Phased, Understanding
from whichloop.protocol import ContextOverflow, NativeCall, Outcome, ProviderError, Query, Reply, Request, StopReason, ToolCall
from whichloop.protocol.moves import Act, Answer, Completion, PlanTask, Tasks, Text

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
WILD: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=20),
    JSON.map(json.dumps),
    st.builds(lambda name, text: Reply("", (NativeCall("1", name, text),)), st.sampled_from(["add", ""]), st.text(max_size=5)),
)
ERRORS: st.SearchStrategy[Any] = st.sampled_from([ProviderError("down"), ContextOverflow("long")])


def sayings(ordinary: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(ordinary, ordinary, ordinary, WILD, ERRORS), min_size=1, max_size=5)


CONFIGS = st.builds(
    Phased,
    max_rounds=st.integers(1, 3),
    max_tool_tasks=st.none() | st.integers(0, 3),
    understand=st.booleans(),
    plan=st.booleans(),
    reflect=st.booleans(),
    failed_dependency=st.sampled_from(["run", "skip", "fail"]),
    tool_layout=st.sampled_from(LAYOUTS),
)

WORDS = st.text(max_size=4) | st.sampled_from(["t1", "t2", "t3"])

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


@given(loop=CONFIGS, said=SAYINGS, result=RESULTS)
@settings(max_examples=cases(20))
@row("X-6", "X-21", "G-9")
def test_phased_any_replies_and_any_tool_end_in_an_outcome_within_the_limits(
    loop: Phased, said: dict[str, Any], result: Any
) -> None:
    model = Brain(**said)

    outcome: Outcome = finished(loop.run(Query("Q"), box(add, giving(result)), model))
    assert outcome.stop in loop.stops
    unanswered = (StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW)
    assert isinstance(outcome.answer, str) == (outcome.stop not in unanswered)
    assert loop.max_tool_tasks is None or outcome.steps <= loop.max_tool_tasks
    assert model.roles.count("select") <= outcome.steps
    assert outcome.details["rounds"] <= loop.max_rounds
    assert model.roles.count("plan") <= loop.max_rounds
    own = {name: value for name, value in outcome.details.items() if name != "exception"}  # what the boundary adds for a product
    assert json.loads(json.dumps(own)) == own
    if outcome.stop not in unanswered:
        assert {status for status, _ in statuses(outcome).values()} <= {"completed", "failed"}


@given(loop=CONFIGS, said=SAYINGS, when=st.integers(0, 12), by_token=st.booleans())
@settings(max_examples=cases(25))
@row("X-15", "G-3")
def test_phased_cancelled_at_any_point_nothing_is_left_running(
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
        if points <= when:
            assert running.result().stop in loop.stops
        elif by_token:
            assert running.result().stop in given_loop.stops
        else:
            assert running.cancelled() or points == when + 1  # the cancellation came with the run's very last step
        assert asked_since == 0 or not by_token

    finished(main())


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
