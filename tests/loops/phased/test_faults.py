"""The loop of phases: the document's faults, and what we do instead."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loops.phased.helpers import BAD, FAIL, INCOMPLETE, Brain, adding, by_task, make_phased, plan, run, statuses
from tests.rows import row
from whichloop.loops.phased import (
    Phased,
)
from whichloop.loops.phased.prompts import NO_DATA
from whichloop.protocol import (
    Act,
    Completion,
    Role,
    StopReason,
    Tasks,
    Text,
    ToolCall,
)


@pytest.mark.parametrize("before", [True, False])
@row("B1-10", "X-16")
def test_an_empty_plan_is_answered_at_once(before: bool) -> None:
    model = Brain(plan=[Tasks(())] if before else [plan(("a", "A.")), Tasks(())], reflect=INCOMPLETE)
    outcome = run(Phased(), model)
    assert outcome.stop is StopReason.FINISHED
    assert (outcome.details["gathered"], NO_DATA in model.prompts("answer")[0]) == ((0, True) if before else (1, False))
    if before:
        assert model.roles == ["understand", "plan", "answer"]


@row("B1-10", "X-16")
def test_a_plan_that_cannot_be_read_is_the_question_as_one_task() -> None:
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
@row("B1-8", "X-16")
def test_dependents_of_a_failed_task(rule: Any, expected: Any, asked: bool) -> None:
    model = Brain(plan=plan(("a", "A."), ("b", "B.", ("a",))), select=by_task(a=FAIL, b=adding(1, 2)))
    outcome = run(Phased(failed_dependency=rule), model)
    assert statuses(outcome)["r1.b"] == expected
    prompts = {request.scope: request.messages[1].content for request in model.requests if request.role is Role.SELECT}
    assert ("b" in prompts) is asked
    if asked:
        assert "ValueError: broken" in prompts["b"]
    assert outcome.steps == (2 if asked else 1)


@row("B1-8")
def test_a_dependent_is_told_failed_to_gather_data() -> None:
    model = Brain(plan=plan(("a", "A."), ("b", "B.", ("a",))), select=by_task(a="{", b=()))
    run(Phased(), model)
    assert "Failed to gather data: The choice of tools" in model.prompts("select")[1]


@row("B1-7")
def test_failures_are_shown_to_every_later_request() -> None:
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
