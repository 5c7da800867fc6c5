"""The loop of phases: a test for every option."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import re
import threading
from typing import Any

import pytest

from tests.loops.looking import check_tool_max_chars, check_tool_threads, check_tool_timeout_s
from tests.loops.phased.helpers import FAIL, INCOMPLETE, Brain, adding, by_task, limited, make_phased, plan, run, statuses
from tests.rows import row
from whichloop.loops.phased import (
    Phase,
    Phased,
)
from whichloop.loops.phased.run import PhasedOptions
from whichloop.loops.shared.option_checks import ToolSettings
from whichloop.protocol import (
    Act,
    Outcome,
    Query,
    StopReason,
    Toolbox,
    ToolCall,
    run_sync,
)
from whichloop.runs.built_in import options_of


@row("phased.max_rounds")
def test_option_max_rounds_bounds_the_rounds() -> None:
    for rounds in (1, 2):
        assert run(Phased(max_rounds=rounds), Brain(reflect=INCOMPLETE)).details["rounds"] == rounds


@row("phased.max_tool_tasks")
def test_option_max_tool_tasks_bounds_the_tasks_that_use_tools() -> None:
    for limit, steps in ((None, 5), (2, 2), (0, 0)):
        assert run(Phased(max_tool_tasks=limit), Brain(reflect=INCOMPLETE)).steps == steps


@row("phased.understand")
def test_option_understand_off_asks_for_no_understanding() -> None:
    for understand in (True, False):
        model = Brain()
        outcome = run(Phased(understand=understand), model)
        assert ("understand" in model.roles) is understand
        assert ("understand" in outcome.details["phases"]) is understand


@row("phased.plan")
def test_option_plan_off_makes_the_question_the_only_task() -> None:
    model = Brain()
    outcome = run(Phased(plan=False), model)
    assert "plan" not in model.roles
    assert [task["description"] for task in outcome.details["tasks"]] == ["What is 1 + 2?"]


@row("phased.reflect")
def test_option_reflect_off_answers_after_the_first_round() -> None:
    model = Brain(reflect=INCOMPLETE)
    outcome = run(Phased(reflect=False), model)
    assert model.roles == ["understand", "plan", "select", "summarize", "answer"]
    assert (outcome.stop, outcome.answer) == (StopReason.FINISHED, "done")


@row("phased.failed_dependency")
def test_option_failed_dependency_runs_skips_or_fails_what_depends() -> None:
    tasks = plan(("a", "A."), ("b", "B.", ("a",)))
    made = {
        rule: run(Phased(failed_dependency=rule), Brain(plan=tasks, select=by_task(a=FAIL, b=adding(1, 2))))
        for rule in ("run", "skip", "fail")
    }
    assert [outcome.details["gathered"] for outcome in made.values()] == [1, 0, 0]
    assert statuses(made["fail"])["r1.b"] != statuses(made["skip"])["r1.b"]


@row("phased.tool_layout")
def test_option_tool_layout_agent_adds_a_summary_per_call() -> None:
    counts = {}
    for layout in ("executor", "agent"):
        model = Brain()
        run(make_phased(layout), model)
        counts[layout] = model.roles.count("summarize")
    assert counts == {"executor": 1, "agent": 2}


@pytest.mark.parametrize(("grace", "gathered"), [(20.0, 1), (0.0, 0)])
@row("phased.cancel_grace_s")
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
    source = inspect.getsource(PhasedOptions) + inspect.getsource(ToolSettings)
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
        ({"failed_dependency": "runn"}, "failed_dependency must be one of run, skip, fail, not 'runn'"),
        ({"tool_layout": "both"}, "tool_layout must be one of executor, agent, not 'both'"),
    ],
)
def test_bad_values_are_refused_by_name(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Phased(**wrong)


@row("S1-5")
def test_prompts_can_be_replaced_by_phase_and_the_format_stays() -> None:
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


@row("phased.tool_max_chars")
def test_option_tool_max_chars_cuts_what_the_model_reads_and_by_default_nothing_does() -> None:
    check_tool_max_chars(Phased)


@row("phased.tool_timeout_s")
def test_option_tool_timeout_s_limits_a_call_and_by_default_nothing_does(monkeypatch: pytest.MonkeyPatch) -> None:
    check_tool_timeout_s(Phased, monkeypatch)


@row("phased.tool_threads")
def test_option_tool_threads_puts_tools_on_threads_of_their_own_or_on_the_callers() -> None:
    check_tool_threads(Phased, here_by_default=False)
