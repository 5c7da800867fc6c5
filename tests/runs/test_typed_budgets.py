"""Budgets as they are typed."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from whichloop.experiments.optimize.config import SearchConfig
from whichloop.runs.config import BudgetConfig, CompareConfig
from whichloop.runs.typed_budgets import budget_text, typed_limits

COUNTS = st.none() | st.integers(1, 10**15)
DOLLARS = st.none() | st.floats(1e-6, 1e15, allow_nan=False)


@given(COUNTS, COUNTS, DOLLARS)
def test_a_budget_comes_back_from_its_text(calls, tokens, dollars):
    assume((calls, tokens, dollars) != (None, None, None))
    budget = BudgetConfig(calls=calls, tokens=tokens, dollars=dollars)
    assert BudgetConfig(**typed_limits(budget_text(budget))) == budget


@given(st.text() | st.text("0123456789.,e+-$ calstokendru", max_size=20))
def test_any_text_is_a_budget_or_refused_in_one_line(text):
    found, said = None, ""
    try:
        found = BudgetConfig(**typed_limits(text))
    except ValueError as error:
        said = str(error)
    assert found != BudgetConfig()
    assert bool(said) == (found is None)
    assert "\n" not in said
    assert len(said) < 1500


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("2000", {"calls": 2000}),
        (" 1 call ", {"calls": 1}),
        ("1.5e6tokens", {"tokens": 1_500_000}),
        ("$2.50", {"dollars": 2.5}),
        ("2.5dollars", {"dollars": 2.5}),
        ("2000calls, $1,300tokens", {"calls": 2000, "dollars": 1.0, "tokens": 300}),
    ],
)
def test_each_form_of_a_budget_is_read(text, budget):
    assert typed_limits(text) == budget


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "write calls, tokens, dollars or seconds"),
        ("$5calls", "write calls, tokens, dollars or seconds"),
        ("٣calls", "write calls, tokens, dollars or seconds"),
        ("0calls", "greater than or equal to 1"),
        ("1.5calls", "a valid integer"),
        ("1e99tokens", "exceeded maximum size"),
    ],
)
def test_a_budget_of_any_other_form_is_refused_with_the_right_one(text, said):
    with pytest.raises(ValueError, match=said):
        BudgetConfig(**typed_limits(text))


@pytest.mark.parametrize("given", ["60calls", "60", 60, {"calls": 60}])
def test_every_setting_takes_a_text_a_number_of_calls_or_a_table(given):
    sixty = BudgetConfig(calls=60)
    assert SearchConfig(budget=given, proposer_budget=given) == SearchConfig(budget=sixty, proposer_budget=sixty)
    compared = CompareConfig(budget=given, trial_budget=given)
    assert (compared.budget, compared.trial_budget.calls) == (sixty, 60)
