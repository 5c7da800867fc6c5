"""The loop of phases in the tunnel, and what importing it loads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loops.helpers import python
from tests.loops.phased.helpers import box
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.loops.phased import Phased
from whichloop.models.profiles import load_profile
from whichloop.protocol import Plan, PlannedCall, Query, Ref, run_sync
from whichloop.protocol.names import parse_spec
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import TrialContext, run_trial


@pytest.mark.parametrize("options", [{}, {"tool_layout": "agent"}, {"understand": False}, {"reflect": False}])
def test_in_the_tunnel_a_clean_run_is_right_and_asks_as_often_as_its_design_says(options: dict[str, Any]) -> None:
    calls = tuple(
        PlannedCall(f"c{i}", "add", {"a": Ref(f"c{i - 1}") if i else 1, "b": i}, f"Work out number {i}.") for i in range(4)
    )
    script = Plan((*calls, PlannedCall("f", "fail", {"text": "as planned"}, "See it fail.", fails=True)), Ref("c3"))
    task = Task("t", Query("How much is it?"), 7, plan=script)
    suite = Suite("s", "1", (task,), lambda _: StatelessEnvironment(tuple(box())))
    arm = Arm("phased/clean", parse_spec("phased"), Phased(**options).with_step_limit(8), "scripted", load_profile("clean"))
    done = run_sync(run_trial(Trial(arm, task, 0, 0), TrialContext(suite)))
    assert (done.record.answer, done.record.stop, done.record.steps) == ("7", "finished", 5)


def test_importing_the_design_needs_no_framework() -> None:
    code = "import sys, whichloop.loops.phased; print({'dspy', 'pydantic', 'langchain_core', 'mlflow'} & set(sys.modules))"
    done = python(code)
    assert (done.returncode, done.stdout.strip()) == (0, "set()"), done.stderr
