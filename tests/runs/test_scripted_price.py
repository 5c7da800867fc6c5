"""A price for the scripted model: what is typed, what a run keeps of it, and what costs and limits in dollars make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import prepare, run
from whichloop.metrics.record import Record
from whichloop.metrics.summary import dollars_of_trial
from whichloop.metrics.views import to_be_typed
from whichloop.models.prices import Price, read_tag
from whichloop.runs.config import BudgetConfig, CompareConfig, SettingError
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.trial_models import with_scripted_price

PRICE = "3/15/0.3"
AMOUNTS = st.floats(0, 1e6).map(lambda amount: float(f"{amount:.12g}"))


def made(folder: Path, price: str | None = PRICE, **settings: Any) -> Results:
    config = CompareConfig(
        loops=("bare", "phased"),
        profiles=("flaky-tools",),
        suite="arithmetic(size=8)",
        price=price,
        runs=folder,
        mlflow=False,
        **settings,
    )
    experiment = prepare(config)
    run(experiment, Unwatched())
    return results(experiment.folder)


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return made(tmp_path_factory.mktemp("runs"))


@given(AMOUNTS, AMOUNTS.filter(bool), st.none() | st.floats(0, 1), st.sampled_from(["", "openai/gpt-4o-mini", "a=b"]))
def test_a_tag_reads_back_as_it_is_written(given_, taken, cached, name):
    tag = Price(given_, taken, None if cached is None else float(f"{given_ * cached:.12g}"), name)
    assert read_tag(str(tag)) == tag
    assert read_tag("openai/gpt-4o-mini") is None


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("0.15", "write INPUT/OUTPUT or INPUT/OUTPUT/CACHED, in US dollars per million tokens"),
        ("nan/1", "input must be a number of US dollars per million tokens"),
        ("1/2/3", "cached_input must not exceed input: 3.0 > 1.0"),
        ("openai/nobody-knows-me", "'openai/nobody-knows-me' is not in the list of prices that DSPy ships; write INPUT/OUTPUT"),
    ],
)
def test_what_is_no_price_is_told_in_one_line(typed, problem):
    with pytest.raises(SettingError, match=f"^price: {problem}") as told:
        with_scripted_price(CompareConfig(price=typed))
    assert "\n" not in str(told.value)


def cost(record: Record) -> float:
    return (3 * record.input_tokens + 15 * record.output_tokens) / 1e6


def test_every_trial_costs_its_tokens_and_less_with_a_cache(priced):
    for record in priced.records:
        assert record.nominal_usd == pytest.approx(cost(record))
        assert record.cost_usd == pytest.approx(cost(record) - 2.7 * record.cached_tokens / 1e6)
        assert record.cached_tokens <= (record.cacheable_tokens or 0) <= 1.02 * record.cached_tokens  # whole tokens of each request
    assert any(record.cached_tokens for record in priced.records)
    assert priced.manifest.settings.price == PRICE
    told = "dollars are those of the scripted model's tokens at 3/15/0.3, in US dollars a million."
    assert told in " ".join(priced.comparison.remarks)
    assert priced.to_json()["answer"]["unit"] == "nominal_usd"


def test_a_price_changes_nothing_but_costs(priced, tmp_path):
    free = made(tmp_path, None)
    told = ("stop", "answer", "scores", "steps", "input_tokens", "output_tokens", "trace_digest")
    assert [[getattr(record, name) for name in told] for record in free.records] == [
        [getattr(record, name) for name in told] for record in priced.records
    ]
    assert {record.cost_usd for record in free.records} == {None}


def test_a_limit_in_dollars_holds_and_a_run_that_goes_on_has_its_price(priced, tmp_path):
    spent = {record.key: dollars_of_trial(record) or 0.0 for record in priced.records}
    limit = to_be_typed(sorted(spent.values())[len(spent) // 2])
    limited = made(tmp_path, trial_budget=BudgetConfig(dollars=limit))
    assert f"at most ${limit} uncached a trial" in limited.title
    beyond = {record.key for record in limited.records if record.stop == "budget"}
    assert beyond == {key for key, paid in spent.items() if paid > limit}
    assert reopen(limited.folder).trial_models.scripted_price == Price(3, 15, 0.3)
    with pytest.raises(ValueError, match=r"a budget in dollars needs one for the scripted model"):
        made(tmp_path, None, trial_budget=BudgetConfig(dollars=1))
