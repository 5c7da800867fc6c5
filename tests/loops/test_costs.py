"""What each design costs in clean air: model calls for k calls that wait for one another, by role."""

from __future__ import annotations

from collections import Counter

import pytest

from loopbench.datasets.task import StatelessEnvironment, Suite, Task
from loopbench.experiments.registry import make_loop, parse_spec
from loopbench.experiments.schedule import Arm, Trial
from loopbench.experiments.trial import Setting, run_trial
from loopbench.metrics.record import Record
from loopbench.models.profiles import load_profile
from loopbench.protocol import Plan, PlannedCall, Query, Ref, Tool, run_sync

DESIGNS = {
    "bare": {"decide": lambda k: k + 1},
    "finish": {"decide": lambda k: k + 1},
    "phased": {
        "understand": lambda k: 1,
        "plan": lambda k: 1,
        "select": lambda k: k,
        "reflect": lambda k: min(k, 1),
        "summarize": lambda k: min(k, 1),
        "answer": lambda k: 1,
    },
    "react_extract": {"decide": lambda k: k + 1, "answer": lambda k: 1},
    "stateless": {"decide": lambda k: k + 1, "format": lambda k: 1},
    "stateless(response_style=none, validate_output=true)": {"decide": lambda k: k + 1, "validate": lambda k: k + 1},
    "react_extract(extract=false)": {"decide": lambda k: k + 1},
    "phased(reflect=false, understand=false)": {
        "plan": lambda k: 1,
        "select": lambda k: k,
        "summarize": lambda k: min(k, 1),
        "answer": lambda k: 1,
    },
    "phased(tool_layout=agent)": {
        "understand": lambda k: 1,
        "plan": lambda k: 1,
        "select": lambda k: k,
        "reflect": lambda k: min(k, 1),
        "summarize": lambda k: k + min(k, 1),
        "answer": lambda k: 1,
    },
}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def chain(k: int) -> Task:
    calls = [
        PlannedCall(f"c{n}", "add", {"a": Ref(f"c{n - 1}") if n > 1 else 0, "b": n}, f"Add number {n}.") for n in range(1, k + 1)
    ]
    return Task(
        "chain",
        Query(f"The sum of the first {k} numbers?"),
        sum(range(k + 1)),
        "numeric",
        Plan(tuple(calls), Ref(f"c{k}") if k else 0),
    )


def solved(design: str, task: Task) -> Record:
    spec = parse_spec(design)
    suite = Suite("chains", "1", (task,), lambda _: StatelessEnvironment((Tool.from_function(add, blocking=False),)))
    arm = Arm(design, spec, make_loop(spec, 8), "scripted", load_profile("clean"))
    record = run_sync(run_trial(Trial(arm, task, 0, 0), Setting(suite))).record
    assert (record.accuracy, record.stop) == (1, "finished")
    return record


@pytest.mark.parametrize("k", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("design", DESIGNS)
def test_model_calls_by_role_for_k_calls_in_a_row(design: str, k: int) -> None:
    record = solved(design, chain(k))
    expected = Counter({role: count(k) for role, count in DESIGNS[design].items()})
    assert record.calls == dict(+expected)
    assert record.tool_calls == k
    assert record.steps == (k if design.startswith("phased") else k + 1)
