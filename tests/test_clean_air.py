"""Under `clean` every design solves every task of every suite, except where a limit of its own forbids it: that one is named."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from whichloop.experiments.compare.run import prepare, run
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.registry import generated_suites
from whichloop.runs.store.trials import read_records

LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
WHOLE = "stateless(history_as=messages, max_history_length=none)"
BULKY = {"ecommerce", "long_haul"}
"""Suites where used values stand beyond the first 200 characters of a result, all that `stateless` keeps of it (row B0-28)."""
NAMES = sorted(generated_suites())


def solved(runs: Path, suite: str, loops: tuple[str, ...], **config: Any) -> dict[str, float]:
    """Design → accuracy, all tasks scored."""
    experiment = prepare(CompareConfig(suite=suite, loops=loops, runs=runs, mlflow=False, **config))
    assert run(experiment, Unwatched()) == ""
    solved = defaultdict[str, list[float]](list)
    for record in read_records(experiment.folder):
        assert record.status == "scored"
        solved[record.arm.partition("/")[0].partition("(")[0]].append(record.scores["accuracy"])
    return {loop: fmean(scores) for loop, scores in solved.items()}


def loops_for(suite: str) -> tuple[str, ...]:
    return tuple(WHOLE if loop == "stateless" and suite in BULKY else loop for loop in LOOPS)


@pytest.mark.thorough
@pytest.mark.parametrize("suite", NAMES)
def test_all_designs_solve_the_first_tasks(tmp_path: Path, suite: str) -> None:
    """Each of another template; fewer of those that take 20 to 60 calls. The slow tests take all tasks."""
    assert solved(tmp_path, suite, loops_for(suite), tasks=1 if suite == "long_haul" else 3) == dict.fromkeys(LOOPS, 1.0)


@pytest.mark.thorough
@pytest.mark.parametrize(("suite", "most"), [("ecommerce", 0.97), pytest.param("long_haul", 0.8, marks=pytest.mark.slow)])
def test_a_design_that_cuts_results_at_200_characters_does_not(tmp_path: Path, suite: str, most: float) -> None:
    assert solved(tmp_path, suite, ("stateless",), tasks=30)["stateless"] < most


@pytest.mark.thorough
def test_a_design_that_cuts_long_results_behind_what_it_needs_solves_all(tmp_path: Path) -> None:
    assert solved(tmp_path, "library", ("stateless",), tasks=24) == {"stateless": 1.0}


ABLATIONS = """
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
def test_an_ablation_solves_what_its_design_solves(tmp_path: Path) -> None:
    config = CompareConfig(loops=tuple(ABLATIONS), suite="arithmetic(size=2)", profiles=("clean",), runs=tmp_path, mlflow=False)
    experiment = prepare(config)
    run(experiment, Unwatched())
    records = read_records(experiment.folder)
    imperfect = {record.arm.removesuffix("/clean") for record in records if record.accuracy < 1}
    assert len(records) == 2 * len(ABLATIONS)
    assert {"bare(instructions=none)"} <= imperfect <= COSTS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("suite", NAMES)
def test_all_designs_solve_all_tasks(tmp_path: Path, suite: str) -> None:
    assert solved(tmp_path, suite, loops_for(suite)) == dict.fromkeys(LOOPS, 1.0)
