"""A trial beyond a limit of its own is not solved; so a run under a limit gives what the records of a run without it foretell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.loops.bare import Bare
from whichloop.metrics.arm_info import exceeds
from whichloop.metrics.record import Record
from whichloop.metrics.summary import dollars_of_trial
from whichloop.metrics.views import Unit, to_be_typed, within_limit
from whichloop.models.fake import FakeModel
from whichloop.models.metering import Budget
from whichloop.models.prices import Price
from whichloop.protocol import Reply, Usage, run_sync
from whichloop.runs.config import CompareConfig
from whichloop.runs.lookup import resolve
from whichloop.runs.schedule import schedule
from whichloop.runs.trial.trial import TrialContext, run_trial
from whichloop.runs.trial_models import TrialModels

SEED = 2
PROFILES = ("clean", "flaky-format", "flaky-tools", "provider-trouble", "stubborn")
LOOPS = ("bare", "bare(decision_format=native)", "finish", "phased", "react_extract", "stateless")
SUITES = ("arithmetic(size=3)", "ecommerce(size=3)")
"""Tasks that are judged by an answer, and by an end state, which a trial may reach before its limit."""
PRICE = Price(3.0, 15.0, 0.3)
LIMITED: Mapping[str, Callable[[Record], float]] = {
    "tokens": lambda record: record.tokens,
    "calls": lambda record: record.lm_calls,
    "seconds": lambda record: record.seconds,
    "dollars": lambda record: dollars_of_trial(record) or 0.0,
}
"""Limit of a trial → what its record says of it."""
UNITS: Mapping[str, Unit] = {"tokens": "tokens", "dollars": "nominal_usd"}
"""Those that the table of equal budgets has, too."""


@cache
def trials(suite: str, profile: str) -> tuple[Any, Any]:
    config = CompareConfig(suite=suite, profiles=(profile,), loops=LOOPS)
    found, tasks, arms = resolve(config)
    return found, tuple(schedule(arms, tasks, 1, SEED))


def records(suite: str, profile: str, budget: Budget) -> list[Record]:
    found, planned = trials(suite, profile)
    setting = TrialContext(found, TrialModels(scripted_price=PRICE), trial_budget=budget)
    return [run_sync(run_trial(trial, setting)).record for trial in planned]


@cache
def unlimited(suite: str, profile: str) -> list[Record]:
    return records(suite, profile, Budget())


@settings(max_examples=cases(8))
@given(data=st.data(), suite=st.sampled_from(SUITES), profile=st.sampled_from(PROFILES), what=st.sampled_from(list(LIMITED)))
def test_a_run_under_a_limit_gives_trial_by_trial_what_a_run_without_it_foretells(data, suite, profile, what):
    spent = LIMITED[what]
    free = unlimited(suite, profile)
    limit = data.draw(st.sampled_from(sorted({spent(record) for record in free}))) or 1
    limit += data.draw(st.sampled_from([0, 0, 1, -1])) if limit > 1 else 0
    limit = to_be_typed(limit) if what == "dollars" else limit
    given: dict[str, Any] = {what: limit}
    held = records(suite, profile, Budget(**given))
    for before, after in zip(free, held, strict=True):
        is_beyond = exceeds(spent(before), limit)
        assert after.accuracy == (0.0 if is_beyond else before.accuracy), (before.name, what, limit)
        if what == "calls" and before.stop == "provider_error" and spent(before) == limit:
            assert after.stop in ("budget", "provider_error")  # the request that failed for good counts as no call: the limit ends
            continue  # the trial before it is sent, or it fails again
        assert (after.stop == "budget") == is_beyond or before.stop in ("crashed", "timeout"), (before.name, what, limit)
        if not is_beyond:
            assert (after.stop, after.answer, after.trace_digest) == (before.stop, before.answer, before.trace_digest)
    if what in UNITS:
        assert [record.accuracy for record in held] == list(map(within_limit(limit, UNITS[what]), free))


def priced(tokens: int, dollars: float | None = None, nominal: float | None = None) -> Reply:
    return Reply('{"final_answer": "42"}', usage=Usage(tokens, 0, cost_usd=dollars, nominal_usd=nominal))


@pytest.mark.parametrize(
    ("budget", "reply", "reason"),
    [
        (Budget(tokens=2000), priced(2001), "budget of 2,000 tokens exceeded: 2,001"),
        (Budget(dollars=0.02), priced(1, 0.03), "budget of 0.02 dollars exceeded: 0.03"),
        (Budget(dollars=0.02), priced(1, 0.0, 0.03), "budget of 0.02 dollars exceeded: 0.03"),
        (Budget(tokens=2000), priced(2000), ""),
        (Budget(dollars=0.02), priced(1, 0.03, 0.02), ""),
        (Budget(dollars=0.02), priced(1), ""),
    ],
    ids=["tokens", "dollars", "from a cache", "to the last token", "without a cache", "no price"],
)
def test_an_answer_beyond_a_limit_is_kept_and_solves_nothing(one_trial, tiny, budget, reply, reason):
    record = one_trial(Bare(), tiny(), models={"fake": FakeModel(reply)}, trial_budget=budget).record
    assert (record.status, record.answer, record.lm_calls) == ("scored", "42", 1)
    assert (record.stop, record.accuracy, record.reason) == (("budget", 0.0, reason) if reason else ("finished", 1.0, ""))
