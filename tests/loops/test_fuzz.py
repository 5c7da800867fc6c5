"""Every built-in loop whatever a model, a tool or a caller does: always an Outcome, within the limit, nothing left running."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Literal, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.designs import DESIGNS
from tests.loops.bare.helpers import observed
from tests.loops.drawn import BY_ROLE, FAILURES, RESULTS, WITH_CALLS, WORDS, WRITTEN
from tests.loops.finish.helpers import assert_legal, offered
from tests.loops.helpers import Streaming
from tests.rows import row
from whichloop.loops import Bare, ConversationState, Finish, Phased, ReactExtract, Stateless
from whichloop.protocol import Capabilities, Loop, Outcome, Query, Reply, Request, StopReason, Tool, Toolbox, run_sync
from whichloop.protocol.moves import Inexpressible, Role
from whichloop.protocol.names import parse_spec
from whichloop.runs.built_in import options_of
from whichloop.runs.registry import make_loop

LIMIT = 3
SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}


def options(kind: type[Any], **own: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw the options of a design: its own as they are given, and all that are switches or choices by their types."""
    hints = get_type_hints(kind)
    choices = [name for name in options_of(kind) if hints[name] is bool or get_origin(hints[name]) is Literal]
    return st.builds(kind, **{name: st.from_type(hints[name]) for name in choices} | own)


STEPS = st.integers(1, 5)
LOOPS: dict[str, st.SearchStrategy[Any]] = {
    "bare": options(Bare, max_steps=STEPS, max_consecutive_errors=st.none() | STEPS, instructions=st.sampled_from(["JSON.", None])),
    "finish": options(
        Finish, max_steps=st.none() | st.integers(0, 5), parse_retries=st.integers(0, 3), system_prompt=st.sampled_from([None, "S"])
    ),
    "phased": options(Phased, max_rounds=st.integers(1, 3), max_tool_tasks=st.none() | st.integers(0, 3)),
    "react_extract": options(
        ReactExtract, max_iterations=STEPS, parse_retries=st.integers(0, 2), overflow_attempts=st.integers(0, 3)
    ),
    "stateless": options(
        Stateless,
        max_iterations=STEPS,
        response_style=st.sampled_from(["concise", "detailed", None]),
        include_confidence=st.none() | st.booleans(),
        told_max_iterations=st.none() | STEPS,
        max_empty_decisions=st.none() | STEPS,
        max_recovery_rounds=st.integers(0, 3),
        max_history_length=st.none() | STEPS,
    ),
    "wrappers": st.sampled_from(
        [
            'guarded(loop="bare", tools=needed, writes=confirmed)',
            'repeat_guard(loop="bare", stop_at=3)',
            'microcompact(loop="finish", keep=1)',
        ]
    ).map(lambda spec: make_loop(parse_spec(spec), LIMIT)),
}


class Drawn(Streaming):
    """Draws each reply: a move of the request's role that its format can say, or what the design's model may write instead."""

    def __init__(self, data: st.DataObject, design: str) -> None:
        super().__init__(then=self._said)
        self.data = data
        self.noise = WRITTEN.get(design, WITH_CALLS) | WORDS.map(str) | FAILURES
        self.capabilities = Capabilities(tool_choice=data.draw(st.booleans()))

    async def _said(self, request: Request) -> Any:
        await asyncio.sleep(0)
        said = self.data.draw(self.noise if self.data.draw(st.integers(0, 3)) == 0 else BY_ROLE[request.role])
        if isinstance(said, str | Reply | Exception):
            return said
        assert request.codec is not None
        try:
            return request.codec.render(said)
        except Inexpressible:
            return repr(said)


def toolbox(model: Drawn) -> tuple[Toolbox, list[int]]:
    """Three tools, and how many of their runs are going on."""
    running: list[int] = []

    async def add(a: int = 0, b: int = 0) -> Any:
        running.append(a)
        try:
            await asyncio.sleep(0)
            result = model.data.draw(RESULTS)
            if isinstance(result, BaseException):
                raise result
            return result
        finally:
            running.remove(a)

    odd = Tool.from_function(lambda x=0: [x], name="odd", blocking=False)
    return Toolbox([Tool.from_function(add), Tool.from_function(add, name="search"), odd]), running


# --- what each design holds to beside the laws of all ---


def check_bare(loop: Bare, outcome: Outcome, model: Drawn) -> None:
    seen = observed(outcome)
    assert isinstance(outcome.answer, str) == (outcome.stop not in (StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW))
    assert len(model.requests) <= loop.max_steps
    errors = [entry["status"] == "error" for entry in seen]
    assert outcome.steps == len(seen) <= loop.max_steps
    assert outcome.details["consecutive_errors"] == next((i for i, bad in enumerate(reversed(errors)) if not bad), len(errors))
    if loop.max_consecutive_errors is not None:
        runs = "".join("x" if bad else " " for bad in errors).split()
        assert max(map(len, runs), default=0) <= loop.max_consecutive_errors
    assert all(entry.keys() <= {"status", "data", "tool_name"} and isinstance(entry["data"], str) for entry in seen)
    assert json.loads(json.dumps(outcome.details["history"])) == outcome.details["history"]


def check_finish(loop: Finish, outcome: Outcome, model: Drawn) -> None:
    limit = 1 if loop.max_steps is None else loop.max_steps
    assert outcome.steps <= limit
    each = 1 if loop.retries_consume_steps and loop.max_steps is not None else 1 + loop.parse_retries
    assert model.roles.count(Role.DECIDE) <= limit * each
    assert model.roles.count(Role.ANSWER) <= loop.parse_retries + 2
    for request in model.requests:
        assert_legal(request.messages)
        assert "2 + 3" in request.messages[0 if loop.system_prompt is None else 1].content
        assert offered(request) == ["add", "search", "odd", "__finish__"]


def check_phased(loop: Phased, outcome: Outcome, model: Drawn) -> None:
    unanswered = (StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW)
    assert loop.max_tool_tasks is None or outcome.steps <= loop.max_tool_tasks
    assert model.roles.count(Role.SELECT) <= outcome.steps
    assert outcome.details["rounds"] <= loop.max_rounds
    assert model.roles.count(Role.PLAN) <= loop.max_rounds
    own = {name: value for name, value in outcome.details.items() if name != "exception"}  # what the boundary adds for a product
    assert json.loads(json.dumps(own)) == own
    if outcome.stop not in unanswered:
        assert {task["status"] for task in outcome.details["tasks"]} <= {"completed", "failed"}


def check_react_extract(loop: ReactExtract, outcome: Outcome, model: Drawn) -> None:
    decisions, answers = model.roles.count(Role.DECIDE), model.roles.count(Role.ANSWER)
    assert outcome.steps <= loop.max_iterations
    assert outcome.steps <= decisions <= outcome.steps + loop.overflow_attempts + 1
    assert answers <= (loop.parse_retries + loop.overflow_attempts + 1 if loop.extract else 0)
    assert sorted(model.roles, key=str, reverse=True) == model.roles, "extract stands last"
    kept = outcome.details["trajectory"]
    assert sorted({int(key.rpartition("_")[2]) for key in kept}) == [*range(outcome.steps)]
    for step in range(outcome.steps):
        kinds = [key.rpartition("_")[0] for key in kept if key.endswith(f"_{step}")]
        assert kinds in (["thought", "tool_name", "tool_args", "observation"], ["error"])


def check_stateless(loop: Stateless, outcome: Outcome, model: Drawn) -> None:
    assert outcome.steps <= loop.max_iterations
    assert model.roles.count(Role.DECIDE) <= loop.max_iterations
    assert outcome.confidence is None or 0 <= outcome.confidence <= 1
    assert all("2 + 3" in request.messages[-1].content for request in model.requests)
    state = outcome.details["state"]
    assert ConversationState.model_validate_json(state.model_dump_json()) == state
    entries = state.conversation_history
    made = sum(result["status"] != "skipped" for item in entries if item.iteration > 0 for result in item.results)
    assert state.total_tool_calls == made or any(item.iteration == -1 for item in entries)


def check_wrappers(loop: Loop, outcome: Outcome, model: Drawn) -> None:
    assert model.roles.count(Role.DECIDE) <= LIMIT + 1


CHECKS: dict[str, Callable[..., None]] = {
    "bare": check_bare,
    "finish": check_finish,
    "phased": check_phased,
    "react_extract": check_react_extract,
    "stateless": check_stateless,
    "wrappers": check_wrappers,
}
LOOPS |= {name: st.just(make_loop(parse_spec(name), LIMIT)) for name in DESIGNS if name not in LOOPS}  # one of a contributor's
each_design = pytest.mark.parametrize("design", LOOPS)
EVERY = settings(deadline=None, max_examples=cases(40), suppress_health_check=[*HealthCheck])


@each_design
@EVERY
@given(data=st.data(), schema=st.sampled_from([None, None, SCHEMA]))
@row("X-21", "G-9", "X-2", "X-6")
def test_any_replies_and_results_end_in_a_declared_outcome_within_the_limit(design: str, data: st.DataObject, schema: Any) -> None:
    async def bounded() -> Outcome:
        outcome: Outcome = await loop.run(Query("What is 2 + 3?", schema=schema), tools, model)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "something is left running"
        return outcome

    loop, model = data.draw(LOOPS[design]), Drawn(data, design)
    tools, running = toolbox(model)
    outcome = run_sync(bounded())
    assert outcome.stop in loop.stops
    assert not running
    assert all(request.codec is not None and request.codec.role is request.role for request in model.requests)
    CHECKS.get(design, check_wrappers)(loop, outcome, model)
