"""A scorer or a metric that raises ends a search by a plain rule, and one that raises now and then does not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.optimize.compiling import Uncaught
from whichloop.experiments.optimize.raising import LEAST_ERRORS, BudgetSpent, Raising, watched_metric

OUTCOMES = st.lists(st.booleans(), max_size=40)
"""Of the calls, in their order: whether each raised."""


def counted(outcomes: list[bool]) -> Raising:
    found = Raising()
    for place, raised in enumerate(outcomes):
        if raised:
            found.failed(f"error {place}")
        else:
            found.returned()
    return found


@given(OUTCOMES)
def test_it_is_broken_once_three_errors_are_more_than_half_of_the_calls_and_stays_so(outcomes: list[bool]) -> None:
    begun = [outcomes[:n] for n in range(len(outcomes) + 1)]
    found = counted(outcomes)
    assert found.is_broken == any(sum(part) >= LEAST_ERRORS and sum(part) > len(part) / 2 for part in begun)
    assert found.is_hopeless == (found.is_broken or (any(outcomes) and all(outcomes)))
    assert (found.called, found.raised) == (len(outcomes), sum(outcomes))
    assert found.first == (f"error {outcomes.index(True)}" if any(outcomes) else "")


@given(st.integers(LEAST_ERRORS, 30))
def test_one_error_is_no_end_and_each_call_an_error_ends_at_the_third(calls: int) -> None:
    assert not counted([True, *[False] * calls]).is_hopeless
    assert not counted([True] * (LEAST_ERRORS - 1) + [False]).is_broken
    assert counted([True] * calls).is_broken


@given(OUTCOMES)
def test_a_watched_metric_raises_and_returns_as_before_until_it_is_broken(outcomes: list[bool]) -> None:
    left = iter(outcomes)

    def metric(example: object, prediction: object, trace: object = None) -> float:
        if next(left):
            raise KeyError("unit")
        return 0.5

    optimizer, told = SimpleNamespace(metric=metric, metric_fn="not a function"), list[str]()
    seen = list[bool]()

    def search() -> None:
        with watched_metric(optimizer, told.append):
            for _ in outcomes:
                try:
                    seen.append(optimizer.metric("example", "prediction") != 0.5)
                except KeyError:
                    seen.append(True)

    if counted(outcomes).is_hopeless:
        with pytest.raises(Uncaught, match="in the metric, which raised in "):
            search()
        assert told == []
    else:
        search()
        assert seen == outcomes
        assert len(told) == any(outcomes)
    assert vars(optimizer) == {"metric": metric, "metric_fn": "not a function"}


def test_what_is_told_names_the_place_and_the_number_of_calls() -> None:
    told: list[str] = []
    answers = iter([1.0, None, 1.0])

    def metric(example: float, prediction: float) -> float:
        answer = next(answers)
        assert answer is not None, "no answer"
        return answer

    optimizer = SimpleNamespace(metric=metric)
    with watched_metric(optimizer, told.append):
        optimizer.metric(1, 2)
        with pytest.raises(AssertionError):
            optimizer.metric(1, 2)
        optimizer.metric(1, 2)
    (line,) = told
    assert line.startswith("its metric raised in 1 of 3 calls, which count 0, first with AssertionError: no answer")
    assert "test_raising.py:" in line


def test_an_optimizer_without_attributes_is_left_alone() -> None:
    with watched_metric(object(), pytest.fail):
        pass


@given(st.lists(st.sampled_from([None, 0.0, False, 1.0]), max_size=12), st.booleans())
def test_a_metric_that_returns_none_in_every_call_fails_the_search_also_where_its_budget_ends_it(
    scores: list[float | None], ends_early: bool
) -> None:
    left, warned = iter(scores), list[str]()
    optimizer = SimpleNamespace(metric=lambda example, prediction, trace=None: next(left))

    def search() -> None:
        with watched_metric(optimizer, warned.append):
            assert [optimizer.metric("example", "prediction") for _ in scores] == scores
            if ends_early:
                raise BudgetSpent

    if scores and not any(score is not None for score in scores):
        said = rf"^in the metric, which gave no score in {len(scores)} of {len(scores)} calls?: it has to return a number or a bool"
        with pytest.raises(Uncaught, match=said):
            search()
    elif ends_early:
        with pytest.raises(BudgetSpent):
            search()
    else:
        search()
        none = scores.count(None)
        assert len(warned) == bool(none)
        assert all(f"gave no score in {none} of {len(scores)} calls" in line for line in warned)


def test_where_dspy_cannot_add_scores_up_the_error_says_what_a_metric_is_to_return() -> None:
    scores = iter([1.0, None])
    optimizer = SimpleNamespace(metric=lambda example, prediction: next(scores))
    with (
        pytest.raises(Uncaught, match=r"gave no score in 1 of 2 calls: .* return False or 0\.0 where an answer is wrong"),
        watched_metric(optimizer, pytest.fail),
    ):
        sum(optimizer.metric("example", "prediction") for _ in range(2))
    fine = SimpleNamespace(metric=lambda example, prediction: 1.0)
    with pytest.raises(TypeError, match="unsupported operand"), watched_metric(fine, pytest.fail):
        sum([fine.metric("example", "prediction"), "of its own"])
