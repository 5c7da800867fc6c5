"""The stateless design as a loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.loops.helpers import Notes, Script
from tests.loops.stateless.helpers import (
    ADD,
    BAD,
    EMPTY,
    FAIL,
    PLAIN,
    STOP,
    TOOLS,
    Decides,
    Ends,
    add,
    decision,
    recover,
    run,
    section,
    shown,
    think,
)
from tests.rows import row
from whichloop.loops.stateless import (
    ActionType,
    ActivityManager,
    Stateless,
)
from whichloop.protocol import (
    Act,
    Answer,
    BudgetExceeded,
    Completion,
    ContextOverflow,
    Loop,
    Outcome,
    ProviderError,
    Query,
    Recovery,
    Role,
    StopReason,
    Text,
    Tool,
    Toolbox,
    run_sync,
)
from whichloop.protocol import ToolCall as Call

ENDINGS: list[tuple[dict[str, Any], list[Any], StopReason, str]] = [
    ({}, [STOP], StopReason.FINISHED, "completed"),
    ({}, [think(FAIL), recover("fail")], StopReason.RECOVERY_FAILED, "completed"),
    ({}, [EMPTY] * 3, StopReason.ERROR_VALVE, "terminated"),
    ({"max_iterations": 1}, [think(ADD)], StopReason.MAX_STEPS, "max_iterations"),
    ({}, [BAD], StopReason.PARSE_FAILED, "error_recovery"),
    ({}, [ProviderError("down")], StopReason.PROVIDER_ERROR, "error_recovery"),
    ({}, [ContextOverflow("long")], StopReason.CONTEXT_OVERFLOW, "error_recovery"),
    ({"response_style": "concise"}, [STOP, BAD], StopReason.PARSE_FAILED, "error_recovery"),
    ({"response_style": "concise"}, [STOP, ProviderError("down")], StopReason.PROVIDER_ERROR, "error_recovery"),
]


@pytest.mark.parametrize(("options", "replies", "stop", "status"), ENDINGS)
@row("G-2", "G-3", "X-21")
def test_every_ending_has_its_stop_reason(options: dict[str, Any], replies: list[Any], stop: StopReason, status: str) -> None:
    loop = Stateless(**{"response_style": None} | options)
    model = Script(*replies)
    outcome = run(loop, model)
    assert (outcome.stop, outcome.details["status"]) == (stop, status)
    assert stop in loop.stops
    assert len(model.requests) == len(replies), "no further call"
    if stop in (StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW):
        assert outcome.answer is None


@row("G-3")
def test_a_bug_leaves_run_as_it_was() -> None:
    bug = RuntimeError("bug")
    with pytest.raises(RuntimeError) as caught:
        run(PLAIN, Script(bug))
    assert caught.value is bug
    foreign = decision(ActionType.ERROR_RECOVERY, should_continue=False, final_response="odd")
    assert ActivityManager(Decides(foreign), Toolbox()).run_activity("Q")["status"] == "error_recovery"


class Spent(Toolbox):
    """A toolbox whose budget is used up."""

    async def call(self, call: Call, *, validate: bool = True) -> Any:
        raise BudgetExceeded("no more calls")


@pytest.mark.parametrize("mode", ["sequential", "parallel", "selective"])
@row("G-3")
def test_a_budget_that_ends_at_a_tool_leaves_the_loop(mode: Any) -> None:
    loop = Stateless(response_style=None, execution_mode=mode, tool_timeout_s=5)
    with pytest.raises(BudgetExceeded):
        run_sync(loop.run(Query("Q"), Spent(TOOLS, time_limit_s=None), Script(then=think(ADD, ADD))))


@row("G-3")
def test_siblings_of_a_call_that_ends_the_run_are_stopped() -> None:
    async def main() -> int:
        calls = think(*[("add", {"a": n, "b": 0}) for n in range(3)])
        with pytest.raises(BudgetExceeded):
            await Stateless(execution_mode="parallel").run(Query("Q"), box, Script(calls))
        return box.stopped

    box = Ends(TOOLS)
    assert asyncio.run(main()) == 2


class Heard(Toolbox):
    """A toolbox that keeps what its calls gave."""

    given: list[str | None]

    async def call(self, call: Call, *, validate: bool = True) -> Any:
        seen = await super().call(call, validate=validate)
        self.given.append(seen.error_type)
        return seen


@pytest.mark.parametrize(("own", "box_limit_s"), [(None, 0.05), (0.05, 60.0)])
def test_a_toolbox_with_a_limit_as_short_hears_of_the_time_out_itself(own: float | None, box_limit_s: float) -> None:
    async def hang() -> None:
        """Hangs."""
        await asyncio.sleep(60)

    box = Heard([Tool.from_function(hang, time_limit_s=own)], time_limit_s=box_limit_s)
    box.given = []
    loop = Stateless(response_style=None, enable_error_recovery=False, tool_timeout_s=0.05)
    run_sync(loop.run(Query("Q"), box, Script(think(("hang", {})), STOP)))
    assert box.given == ["TimeoutError"]


def test_a_run_without_decision_or_with_an_unreadable_recovery_is_noted() -> None:
    notes = Notes()
    run(PLAIN, Script(think(FAIL), BAD), observer=notes)
    run(PLAIN, Script(ProviderError("down")), observer=notes)
    assert [kind for kind, _ in notes.notes] == ["unreadable", "no_decision"]
    assert notes.notes[1][1] == {"cause": "provider_error", "error": "down"}


@row("G-8")
def test_a_limit_of_tool_steps_leaves_one_decision_to_end() -> None:
    loop = PLAIN.with_step_limit(3)
    assert isinstance(loop, Loop)
    assert loop.max_iterations == 4
    assert run(loop, Script(*[think(ADD)] * 3, STOP)).stop is StopReason.FINISHED
    assert run(loop, Script(*[think(ADD)] * 4)).stop is StopReason.MAX_STEPS


@row("X-6")
def test_a_reply_that_cannot_be_read_ends_the_run() -> None:
    for bad in ("", "{}", "null", think().replace("confidence", "certainty"), section(reasoning="r", reasoning_output=[1])):
        assert run(PLAIN, Script(bad)).stop is StopReason.PARSE_FAILED
    both = think(ADD, final="3")
    assert run(PLAIN, Script(both)).answer == "3"


def test_a_query_with_a_schema_gets_a_value_and_without_one_text() -> None:
    tools = Toolbox()
    for schema, said, value in (
        ({"type": "number"}, "4.5", 4.5),
        ({"type": "object"}, '{"a": [1]}', {"a": [1]}),
        ({"type": "string"}, "4", "4"),
        ({"type": "number"}, "about 4", "about 4"),
        ({"type": "number"}, "NaN", "NaN"),
        (None, "4", "4"),
    ):
        model = Script(think(final=said))
        outcome = PLAIN.run_sync(Query("Q", "Passage.", schema), tools, model)
        assert outcome.answer == value
        asked = shown(model.requests[0], "user_query") + model.requests[0].messages[-1].content
        assert "Q\n\nContext:\nPassage." in asked
        assert ("must be JSON" in asked) is (schema is not None)


def test_every_request_shows_the_question() -> None:
    def long(n: int) -> str:
        """Long."""
        return "y" * n

    loop = Stateless(validate_output=True, max_history_length=1)

    def answer(request: Any) -> Any:
        return {
            Role.DECIDE: Act("t", (Call("long", {"n": 3000}), *[Call("long", {"n": 300})] * 20, Call("fail", {})))
            if "No previous interactions." in request.messages[-1].content
            else Act("t", (Call("add", {"a": 1, "b": 2}),))
            if "add: 3" not in request.messages[-1].content
            else Answer("t", "3", 0.9),
            Role.RECOVER: Recovery("skip"),
            Role.SUMMARIZE: Text("S."),
            Role.VALIDATE: Completion(True),
            Role.FORMAT: Text("3"),
        }[request.role]

    model = Script(then=answer)
    outcome = run_sync(loop.run(Query("What is it?"), Toolbox([long, *TOOLS]), model))
    assert outcome.stop is StopReason.FINISHED
    assert set(model.roles) == {Role.DECIDE, Role.RECOVER, Role.SUMMARIZE, Role.VALIDATE, Role.FORMAT}
    assert all("What is it?" in request.messages[-1].content for request in model.requests)


def test_one_configuration_runs_many_queries_at_once() -> None:
    loop = Stateless(response_style=None)

    async def one(number: int) -> Outcome:
        model = Script(think(("add", {"a": number, "b": 0})), lambda request: Answer("t", shown(request, "last_tool_results"), 0.9))
        return await loop.run(Query(f"Q{number}"), Toolbox([add]), model)

    async def many() -> list[Outcome]:
        return list(await asyncio.gather(*(one(number) for number in range(20))))

    assert [outcome.answer for outcome in asyncio.run(many())] == [f"add: {number}" for number in range(20)]
