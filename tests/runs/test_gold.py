"""Plans whose answer is not the expected one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.experiments.compare.run import prepare
from whichloop.protocol import Plan, PlannedCall, Query
from whichloop.runs.config import CompareConfig
from whichloop.runs.lookup import contradiction


def price(item: str) -> float:
    """Price of an item in euros."""
    return {"lamp": 39.9, "chair": 120.0}[item]


def task(answer: Any, expected: Any, scorer: str = "numeric", name: str = "t1") -> Task:
    call = PlannedCall("a", "price", {"item": "lamp"}, "the price of a lamp")
    return Task(name, Query(f"What does a lamp cost, asks {name}?"), expected, scorer, plan=Plan((call,), answer))


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_numbers_contradict_each_other_if_they_differ(answer: int, expected: int) -> None:
    assert bool(contradiction(task(answer, expected), answer)) is (answer != expected)


def test_the_same_answer_in_another_form_is_none_and_an_own_scorer_is_not_asked() -> None:
    assert contradiction(task("12.0", 12), "12.0") == ""
    assert contradiction(task("The Lamp", "lamp", "normalized"), "The Lamp") == ""
    assert contradiction(task("red lamp", "red chair", "f1"), "red lamp") == ""  # in part right
    assert contradiction(task(None, None, "exact"), None) == ""
    assert contradiction(task(1, 2, "somebody.else:scorer"), 1) == ""
    assert contradiction(task(None, 12), None) == "task 't1': the plan's answer is None, expected is 12 (scorer numeric)"


def wrong() -> Suite:
    """Return a suite in which a plan states another answer than the expected one."""
    tasks = (task(39.9, 39.9, name="right"), task(7, 39.9, name="wrong"))
    return Suite("shop", "1", tasks, lambda task: StatelessEnvironment([price]))


def test_a_plan_that_states_another_answer_is_refused_before_the_run(tmp_path: Path) -> None:
    config = CompareConfig(loops=("bare",), suite=f"{__name__}:wrong", runs=tmp_path, mlflow=False)
    said = r"^suite shop, task 'wrong': the plan's answer is 7, expected is 39\.9 \(scorer numeric\); mend one"
    with pytest.raises(ValueError, match=said):
        prepare(config)
    assert not list(tmp_path.iterdir())
