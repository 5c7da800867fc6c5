"""Budgets as they are typed."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from loopbench.experiments.optimize.budgets import budget_text, parse_budget
from loopbench.experiments.optimize.config import SearchConfig
from loopbench.runs.config import BudgetConfig

COUNTS = st.none() | st.integers(1, 10**15)
DOLLARS = st.none() | st.floats(1e-6, 1e15, allow_nan=False)


@given(COUNTS, COUNTS, DOLLARS)
def test_a_budget_comes_back_from_its_text(calls, tokens, dollars):
    assume((calls, tokens, dollars) != (None, None, None))
    budget = BudgetConfig(calls=calls, tokens=tokens, dollars=dollars)
    assert parse_budget(budget_text(budget)) == budget


@given(st.text() | st.text("0123456789.,e+-$ calstokendru", max_size=20))
def test_any_text_is_a_budget_or_refused_in_one_line(text):
    found, said = None, ""
    try:
        found = parse_budget(text)
    except ValueError as error:
        said = str(error)
    assert found != BudgetConfig()
    assert bool(said) == (found is None)
    assert "\n" not in said
    assert len(said) < 1500  # what was typed stands in it twice, 60 characters of it, escaped


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("2000", {"calls": 2000}),
        ("2000calls", {"calls": 2000}),
        (" 1 call ", {"calls": 1}),
        ("1.5e6tokens", {"tokens": 1_500_000}),
        ("500000 Tokens", {"tokens": 500_000}),
        ("$2.50", {"dollars": 2.5}),
        ("2.50usd", {"dollars": 2.5}),
        ("2.5dollars", {"dollars": 2.5}),
        ("2000calls, $1,300tokens", {"calls": 2000, "dollars": 1.0, "tokens": 300}),
    ],
)
def test_forms(text, budget):
    assert parse_budget(text) == BudgetConfig(**budget)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "write calls, tokens or dollars"),
        ("many", "write calls, tokens or dollars"),
        ("-5", "write calls, tokens or dollars"),
        ("5 minutes", "write calls, tokens or dollars"),
        ("$5calls", "write calls, tokens or dollars"),
        ("٣calls", "write calls, tokens or dollars"),
        ("0calls", "a whole number from 1"),
        ("1.5calls", "a whole number from 1"),
        ("$0", "a number from above 0"),
        ("1e99tokens", "to 10¹⁵"),
        ("5,6calls", "calls are given twice"),
        ("5,", "write calls, tokens or dollars"),
    ],
)
def test_refused(text, said):
    with pytest.raises(ValueError, match=said):
        parse_budget(text)


@pytest.mark.parametrize("given", ["60calls", "60", {"calls": 60}])
def test_a_setting_takes_a_text_or_a_table(given):
    assert SearchConfig(budget=given, proposer_budget=given) == SearchConfig(
        budget=BudgetConfig(calls=60), proposer_budget=BudgetConfig(calls=60)
    )
