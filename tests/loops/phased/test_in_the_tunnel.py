"""The loop of phases: what it shows to models, and how it does in the tunnel."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.loops.helpers import python
from tests.loops.phased.helpers import (
    INCOMPLETE,
    Brain,
    box,
    limited,
    make_phased,
    run,
)
from whichloop.datasets.task import StatelessEnvironment, Suite
from whichloop.datasets.task import Task as BenchTask
from whichloop.loops.phased import (
    Phased,
)
from whichloop.models.profiles import load_profile
from whichloop.protocol import (
    Answer,
    Capabilities,
    Completion,
    Outcome,
    Plan,
    PlannedCall,
    PlanTask,
    Query,
    Ref,
    Role,
    Tasks,
    run_sync,
)
from whichloop.protocol.names import parse_spec
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import TrialContext, run_trial


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


def test_importing_the_design_needs_no_framework() -> None:
    code = "import sys, whichloop.loops.phased; print({'dspy', 'pydantic', 'langchain_core', 'mlflow'} & set(sys.modules))"
    done = python(code)
    assert (done.returncode, done.stdout.strip()) == (0, "set()"), done.stderr
