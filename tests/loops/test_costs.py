"""What each design costs in clean air, and that its ablations are other loops that solve what they should."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.run import run
from whichloop.metrics.record import Record
from whichloop.models.profiles import load_profile
from whichloop.protocol import Plan, PlannedCall, Query, Ref, Tool, run_sync
from whichloop.protocol.names import parse_spec
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.registry import make_loop
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.store.trials import read_records
from whichloop.runs.trial.trial import TrialContext, run_trial

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


def trial_of(design: str, task: Task) -> tuple[Trial, TrialContext]:
    spec, tools = parse_spec(design), (Tool.from_function(add, blocking=False),)
    suite = Suite("chains", "1", (task,), lambda _: StatelessEnvironment(tools))
    arm = Arm(design, spec, make_loop(spec, 8), "scripted", load_profile("clean"))
    return Trial(arm, task, 0, 0), TrialContext(suite)


def solved(design: str, task: Task) -> Record:
    record = run_sync(run_trial(*trial_of(design, task))).record
    assert (record.accuracy, record.stop) == (1, "finished")
    return record


@pytest.mark.parametrize("design", DESIGNS)
def test_model_calls_by_role_for_k_calls_in_a_row(design: str) -> None:
    for k in (0, 1, 4):
        record = solved(design, chain(k))
        expected = Counter({role: count(k) for role, count in DESIGNS[design].items()})
        assert (record.calls, record.tool_calls) == (dict(+expected), k)
        assert record.steps == (k if design.startswith("phased") else k + 1)


# --- ablations solve clean tasks where they should ---


LISTED = """
bare(decision_format=fields)
bare(decision_format=native)
bare(validate_arguments=false)
bare(instructions=none)
finish(forced_finish=off)
finish(typed_output=false)
finish(parallel_tools=true)
phased(reflect=false)
phased(plan=false)
phased(tool_layout=agent)
react_extract(extract=false)
stateless(response_style=none)
stateless(validate_output=true)
stateless(constrain_names=true)
stateless(history_as=messages)
stateless(execution_mode=parallel)
repeat_guard(loop="finish(parallel_tools=true)")
microcompact(keep=2, loop=finish)
guarded(loop=phased, tools=needed)
guarded(loop=finish, results=plain, writes=confirmed)
provider_retry(attempts=2, loop=finish)
""".strip().splitlines()
COSTS = {  # even in clean air
    "bare(instructions=none)": "the model is never told of the tools",
    "microcompact(keep=2, loop=finish)": "what was cleared has to be asked for again",
    "phased(plan=false)": "each round makes only the calls that wait for no other",
}


@pytest.mark.thorough
def test_in_clean_air_an_ablation_solves_what_its_preset_solves(tmp_path: Path) -> None:
    config = CompareConfig(loops=tuple(LISTED), suite="arithmetic(size=2)", profiles=("clean",), runs=tmp_path, mlflow=False)
    experiment = prepare(config)
    run(experiment, Unwatched())
    scores: dict[str, list[float]] = {}
    for record in read_records(experiment.folder):
        scores.setdefault(record.arm.removesuffix("/clean"), []).append(record.accuracy)
    imperfect = {arm for arm, found in scores.items() if sum(found) < len(found)}
    assert len(scores) == len(LISTED)
    assert imperfect <= COSTS.keys()
    assert "bare(instructions=none)" in imperfect
