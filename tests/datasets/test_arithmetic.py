"""The generated word problems: reproducible, valid, and solved by their plans alone."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.prepared import ran_in_fork
from whichloop.datasets import arithmetic
from whichloop.datasets.arithmetic import problem
from whichloop.datasets.task import Suite
from whichloop.protocol import Ref

NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def many() -> Suite:
    return arithmetic.load(size=600, seed=7)


def test_the_global_generator_is_left_alone_and_hashing_plays_no_part(tmp_path: Path) -> None:
    """The hash seed of a fork was drawn."""
    random.seed(5)
    before = random.getstate()
    digest = arithmetic.load(size=40, seed=3).digest
    assert random.getstate() == before
    code = "from whichloop.datasets import arithmetic; print(arithmetic.load(size=40, seed=3).digest)"
    told = ran_in_fork(code, tmp_path)
    assert told.stdout.strip() == digest


def test_answers_are_the_last_call_and_plans_have_two_to_eight_calls(many: Suite) -> None:
    for task in many.tasks:
        assert task.plan is not None
        if task.expected is None:
            assert len(task.plan.calls) <= 3
        else:
            assert 2 <= len(task.plan.calls) <= 8
            assert task.plan.answer == Ref(task.plan.calls[-1].id)


def test_a_division_by_zero_stands_in_some_plans_and_not_in_all_of_a_template(many: Suite) -> None:
    failing = Counter(
        any(call.fails for call in task.plan.calls) for task in many.tasks if task.plan and task.labels["template"] == "parcels"
    )
    assert min(failing[True], failing[False]) > 5
    assert all(task.expected is not None for task in many.tasks if task.labels["template"] == "parcels")


def numbers_in(value: Any) -> Iterator[float]:
    return (item for item in value.values() if isinstance(item, int | float))


def test_texts_hold_every_number_that_is_needed_and_others_that_are_not(many: Suite) -> None:
    for task in many.tasks:
        assert task.plan is not None
        told = Counter(float(number) for number in NUMBER.findall(task.query.text))
        needed = {float(number) for call in task.plan.calls for number in numbers_in(call.arguments)}
        halves = {2.0} if task.labels["template"] == "savings" else set()  # "half of", "doubles"
        assert needed <= told.keys() | halves, task.id
        assert told.keys() - needed, task.id
        assert task.query.text.endswith(problem.ProblemStory.wording.texts["answer_format"])
        assert task.query.schema is None
