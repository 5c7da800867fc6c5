"""The generated word problems: reproducible, valid, and solved by their plans alone."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.prepared import ran_in_fork
from whichloop.checks.suite import task_problems
from whichloop.datasets import arithmetic
from whichloop.datasets.generating import template_of
from whichloop.datasets.task import Suite
from whichloop.datasets.validity import replay
from whichloop.protocol import Ref, refs, run_sync

NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def snapshot() -> Suite:
    return arithmetic.load()


@pytest.fixture(scope="module")
def many() -> Suite:
    return arithmetic.load(size=600, seed=7)


def test_plans_give_the_expected_answers(snapshot: Suite, many: Suite) -> None:
    assert task_problems(replace(snapshot, tasks=snapshot.tasks[:48])) == []
    assert task_problems(replace(many, tasks=many.tasks[: cases(80)])) == []


@settings(max_examples=cases(8), deadline=None)
@given(size=st.integers(1, 30), seed=st.integers(-(2**70), 2**70))
def test_any_size_and_seed_give_a_valid_suite(size: int, seed: int) -> None:
    suite = arithmetic.load(size=size, seed=seed)
    assert len(suite.tasks) == size
    assert task_problems(suite) == []


@settings(max_examples=cases(10), deadline=None)
@given(small=st.integers(1, 40), more=st.integers(1, 40), seed=st.integers(0, 99))
def test_a_task_is_the_same_for_any_size(small: int, more: int, seed: int) -> None:
    assert arithmetic.load(small, seed).tasks == arithmetic.load(small + more, seed).tasks[:small]


def test_seeds_differ_and_ids_do_not(snapshot: Suite) -> None:
    other = arithmetic.load(seed=1)
    assert [task.id for task in other.tasks] == [task.id for task in snapshot.tasks]
    assert not {task.query.text for task in other.tasks} & {task.query.text for task in snapshot.tasks}
    assert snapshot.tasks[0].id == "arithmetic-0001"


def test_the_global_generator_is_left_alone_and_hashing_plays_no_part(tmp_path: Path) -> None:
    """The hash seed of a fork was drawn."""
    random.seed(5)
    before = random.getstate()
    digest = arithmetic.load(size=40, seed=3).digest
    assert random.getstate() == before
    code = "from whichloop.datasets import arithmetic; print(arithmetic.load(size=40, seed=3).digest)"
    told = ran_in_fork(code, tmp_path)
    assert told.stdout.strip() == digest


def test_no_text_stands_in_two_tasks() -> None:
    tasks = arithmetic.load(size=1000).tasks
    assert len({task.query.text for task in tasks}) == 1000


@given(st.integers(1, 5000))
def test_at_most_one_task_in_ten_has_no_answer(size: int) -> None:
    unanswerable = sum(
        template_of(index, arithmetic.TEMPLATES, arithmetic.UNANSWERABLE) in arithmetic.UNANSWERABLE for index in range(size)
    )
    assert unanswerable <= size / 10


def test_labels_spread(snapshot: Suite, many: Suite) -> None:
    assert len({task.labels["template"] for task in snapshot.tasks}) >= 40
    for name, least in (
        ("difficulty", {"easy": 0.1, "medium": 0.1, "hard": 0.1}),
        ("split", {"train": 0.4, "dev": 0.1, "test": 0.2}),
    ):
        counts = Counter(task.labels[name] for task in many.tasks)
        assert counts.keys() == least.keys()
        assert all(counts[value] > share * len(many.tasks) for value, share in least.items()), counts
    assert all(task.labels.keys() == {"difficulty", "template", "split"} for task in many.tasks)


def test_difficulty_counts_the_calls_that_need_another(many: Suite) -> None:
    ranges = {"easy": range(3), "medium": range(3, 5), "hard": range(5, 9)}
    for task in many.tasks:
        assert task.plan is not None
        dependent = sum(any(True for _ in refs(call.arguments)) for call in task.plan.calls)
        assert dependent in ranges[task.labels["difficulty"]]


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
        assert task.query.text.endswith(arithmetic.ANSWER_FORMAT)
        assert task.query.schema is None


def test_results_have_few_decimals(many: Suite) -> None:
    for task in many.tasks:
        for result in run_sync(replay(task, many)):
            if not result.failed:
                exponent = Decimal(repr(result.value)).as_tuple().exponent
                assert isinstance(exponent, int)
                assert exponent >= -3, (task.id, result)


def test_the_toolbox_holds_tools_that_no_plan_needs(many: Suite) -> None:
    used = {call.tool for task in many.tasks if task.plan for call in task.plan.calls}
    offered = {tool.name for tool in many.open(many.tasks[0]).tools}
    assert used < offered
    assert offered - used == {"power", "round_to"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "arithmetic: size is 0, and must lie between 1 and 100000"),
        ({"size": 100_001}, "size is 100001"),
        ({"size": "many"}, "arithmetic: size is 'many', and must be a whole number"),
        ({"size": True}, "size is True"),
        ({"seed": 1.5}, "arithmetic: seed is 1.5, and must be a whole number"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        arithmetic.SUITE(**options)
