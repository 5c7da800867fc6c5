"""The loop of phases: a test for every option; of `failed_dependency`, `max_tool_tasks` and `tool_layout` elsewhere."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import re
import threading
from typing import Any

import pytest

from tests.loops.looking import check_tool_max_chars, check_tool_threads, check_tool_timeout_s
from tests.loops.phased.helpers import INCOMPLETE, Brain, finished, run
from tests.rows import row
from whichloop.loops.phased import Phase, Phased
from whichloop.loops.phased.run import PhasedOptions
from whichloop.loops.shared.option_checks import ToolSettings
from whichloop.protocol import Query, StopReason, Toolbox, ToolCall
from whichloop.protocol.moves import Act
from whichloop.runs.built_in import options_of


@row("phased.max_rounds")
def test_option_max_rounds_bounds_the_rounds() -> None:
    for rounds in (1, 2):
        assert run(Phased(max_rounds=rounds), Brain(reflect=INCOMPLETE)).details["rounds"] == rounds


@row("phased.understand", "phased.plan", "phased.reflect")
def test_options_understand_plan_and_reflect_off_leave_out_a_request() -> None:
    roles = ["understand", "plan", "select", "reflect", "summarize", "answer"]
    for option in ("understand", "plan", "reflect"):
        model = Brain(reflect=INCOMPLETE)
        options: dict[str, Any] = {option: False}
        outcome = run(Phased(max_rounds=1, **options), model)
        assert model.roles == [role for role in roles if role != option]
        assert option not in outcome.details["phases"]
        assert outcome.stop is (StopReason.FINISHED if option == "reflect" else StopReason.FORCED)
        assert [task["description"] == "What is 1 + 2?" for task in outcome.details["tasks"]] == [option == "plan"]


@pytest.mark.parametrize(("grace", "gathered"), [(20.0, 1), (0.0, 0)])
@row("phased.cancel_grace_s", "B1-12", "X-15")
def test_option_cancel_grace_s_is_how_long_a_thread_is_waited_for(grace: float, gathered: int) -> None:
    """Also beside a task that ends at once."""

    async def main() -> Any:
        begun, let_go, token = threading.Event(), threading.Event(), asyncio.Event()

        def work() -> str:
            """Works in its thread."""
            begun.set()
            let_go.wait(30)
            return "paid"

        async def hang() -> None:
            """Never ends by itself; lets the other go on, in time, once it is cancelled."""
            try:
                await asyncio.Event().wait()
            finally:
                if grace:
                    asyncio.get_running_loop().call_later(0.05, let_go.set)

        select = lambda request: Act("", (ToolCall("work" if request.scope == "b" else "hang", {}),))  # noqa: E731
        model = Brain(plan='{"tasks": [{"id": "a", "description": "A."}, {"id": "b", "description": "B."}]}', select=select)
        loop = Phased(cancel_grace_s=grace, cancellation_token=token)
        running = asyncio.create_task(loop.run(Query("Q"), Toolbox([work, hang]), model))
        await asyncio.to_thread(begun.wait, 20)
        token.set()
        outcome = await running
        let_go.set()
        return outcome

    outcome = finished(main())
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
    model, small = Brain(), Brain()
    run(Phased(prompts={Phase.PLAN: "Plan like a pirate.", Phase.EXECUTE: "Pick like one."}, select_model=small), model)
    (plan,) = (request.messages[0].content for request in model.requests if request.role.value == "plan")
    assert plan.startswith("Plan like a pirate.")
    assert '"dependsOn"' in plan
    assert small.requests[0].messages[0].content.startswith("Pick like one.")
    assert (small.roles, "select" in model.roles) == (["select"], False)


@row("phased.tool_max_chars")
def test_option_tool_max_chars_cuts_what_the_model_reads_and_by_default_nothing_does() -> None:
    check_tool_max_chars(Phased)


@row("phased.tool_timeout_s")
def test_option_tool_timeout_s_limits_a_call_and_by_default_nothing_does(monkeypatch: pytest.MonkeyPatch) -> None:
    check_tool_timeout_s(Phased, monkeypatch)


@row("phased.tool_threads")
def test_option_tool_threads_puts_tools_on_threads_of_their_own_or_on_the_callers() -> None:
    check_tool_threads(Phased, here_by_default=False)
