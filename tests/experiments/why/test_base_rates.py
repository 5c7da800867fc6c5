"""Base rates of causes: what the rules name in solved trials, and which causes are therefore not shown to be one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.experiments.why import base_rates
from whichloop.experiments.why.base_rates import LOST_ONLY, BaseRate
from whichloop.experiments.why.doc import why_doc
from whichloop.experiments.why.losses import losses_explained
from whichloop.metrics.trajectory.divergence import explain
from whichloop.metrics.trajectory.traced_trial import TracedTrial
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.trials import Traces


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    config = CompareConfig(
        runs=tmp_path_factory.mktemp("rates"), mlflow=False, loops=("bare", "stateless"), profiles=("flaky-tools",), tasks=16
    )
    made = prepare(config)
    run(made, Unwatched())
    return results(made.folder)


def test_solved_trials_are_explained_by_the_same_rules(found: Results) -> None:
    traces, shown, solved = Traces(found.folder), Counter[tuple[str, str]](), Counter[str]()
    for record in found.records:
        if record.accuracy >= 1:
            solved[record.arm] += 1
            shown[record.arm, explain(TracedTrial(traces.read(record), record)).cause] += 1
    rated = 0
    for arm in losses_explained(found).arms:
        assert set(arm.base_rates) == set(arm.causes) - set(LOST_ONLY)
        for cause, rate in arm.base_rates.items():
            assert (rate.lost, rate.of_lost) == (arm.causes[cause], arm.lost)
            assert (rate.solved, rate.of_solved, rate.is_sample) == (shown[arm.arm, cause], solved[arm.arm], False)
            rated += 1
    assert rated > 1


def test_of_many_solved_trials_as_many_of_each_arm_are_looked_at(found: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_rates, "MAX_SOLVED", 10)
    monkeypatch.setattr(base_rates, "MIN_SOLVED", 3)
    rates = [rate for arm in losses_explained(found).arms for rate in arm.base_rates.values()]
    assert {(rate.of_solved, rate.is_sample) for rate in rates} == {(5, True)}


def test_without_traces_of_solved_trials_there_is_no_base_rate(tmp_path: Path) -> None:
    made = prepare(
        CompareConfig(runs=tmp_path, mlflow=False, loops=("bare",), profiles=("flaky-tools",), tasks=12, traces="failures")
    )
    run(made, Unwatched())
    (arm,) = losses_explained(results(made.folder)).arms
    assert arm.causes
    assert not arm.base_rates


def test_what_most_solved_trials_show_too_is_told_with_both_counts_and_stands_in_no_arm(tmp_path: Path) -> None:
    """What a forgetful model asks for again is a step more, which is no loss by itself."""
    made = prepare(
        CompareConfig(runs=tmp_path, mlflow=False, loops=("bare", "stateless"), suite="library", profiles=("forgetful",), tasks=12)
    )
    run(made, Unwatched())
    found = results(made.folder)
    why = losses_explained(found)
    (table,) = [each for each in why_doc(found, why).tables if each.title.startswith("Lost trials, and solved ones")]
    told = {(row[0], row[1]): row[table.columns.index("solved")] for row in table.texts}
    for arm in why.arms:
        rate = arm.base_rates["lost observation"]
        assert told[arm.arm, "lost observation"] == f"{rate.solved} of {rate.of_solved}"
        assert (rate.lost, rate.of_lost, rate.of_solved) == (arm.causes["lost observation"], arm.lost, arm.trials - arm.lost)
        assert 2 * rate.solved > rate.of_solved
        assert not arm.stands("lost observation")


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_a_cause_is_in_doubt_only_if_solved_trials_show_it_too(of_lost: int, of_solved: int, data: st.DataObject) -> None:
    lost, solved = data.draw(st.integers(1, of_lost)), data.draw(st.integers(0, of_solved))
    rate = BaseRate(lost, of_lost, solved, of_solved, is_sample=False)
    if solved == 0:
        assert not rate.is_doubtful
    if solved / of_solved >= lost / of_lost:
        assert rate.is_doubtful


def test_errors_that_cost_nothing_are_not_called_a_cause() -> None:
    assert BaseRate(7, 24, 26, 50, is_sample=False).is_doubtful
    assert not BaseRate(9, 24, 0, 50, is_sample=False).is_doubtful
