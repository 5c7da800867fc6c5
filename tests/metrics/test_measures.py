"""Measures: their table, a row that somebody adds, shares of calls, and what a loop does with its context."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics import summary
from whichloop.metrics.measures import (
    CACHE_READ,
    DISTANCES,
    Measure,
    distance_range,
    in_table_order,
    prefix_stability,
    retention,
    retention_at,
    tokens_with_cache,
)
from whichloop.metrics.record import Record
from whichloop.metrics.summary import GAINS, METRICS, SHARES, measures_of, summarize


def test_an_added_measure_has_a_mean_where_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    added = Measure(lambda record: record.repeated_calls, "Tool calls that were made before.", name="before", label="before")
    monkeypatch.setattr(summary, "METRICS", {**METRICS, "before": added})
    known, unknown = (record(repeated_calls=4, unknown=names) for names in ((), ("before",)))
    mean = summarize([known]).means["before"]
    assert mean is not None
    assert mean.value == 4
    assert summarize([unknown]).means["before"] is None


def record(repeated_calls: int, unknown: tuple[str, ...]) -> Record:
    return Record("a", "s", "d", "t1", 0, 0, "scored", repeated_calls=repeated_calls, unknown=unknown)


def test_measures_stand_in_tables_as_ever_and_money_last() -> None:
    ours = ["accuracy", "steps", "lm_calls", "tokens", "cost_usd", "nominal_usd", "seconds"]
    assert [name for name in METRICS if name in ours] == ours
    columns = [found.label for name, found in in_table_order(METRICS).items() if name in ours]
    assert columns == ["accuracy", "steps", "LM calls", "tokens", "seconds", "USD with cache", "USD uncached"]


NAMES = ("asked", "lost", "doubled", "paired", "mispaired", "early", "overlapped")


def counted(**counts: int) -> Record:
    return Record("a", "s", "d", "t", 0, 0, "scored", call_counts=counts)


@given(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9)))
def test_shares_stay_in_bounds_whatever_a_file_says(counts):
    one = counted(**counts)
    for name, whole in (("calls_lost", "asked"), ("calls_doubled", "asked"), ("results_mispaired", "paired")):
        share = METRICS[name](one)
        assert (share is None) is (not counts.get(whole))
        assert share is None or 0 <= share <= 1
    assert Record.from_json(one.to_json()) == one


def test_the_measures_of_calls_worked_out_by_hand():
    one = counted(asked=8, lost=2, doubled=1, paired=4, mispaired=1, early=2, overlapped=1)
    assert {name: METRICS[name](one) for name in measures_of("calls")} == {
        "calls_lost": 0.25,
        "calls_doubled": 0.125,
        "results_mispaired": 0.25,
        "calls_overlapped": 0.5,
    }
    assert [METRICS[name](counted()) for name in measures_of("calls")] == [None] * 4


def test_they_are_shares_of_which_less_is_better():
    assert set(measures_of("calls")) <= SHARES - GAINS


RANGES = st.dictionaries(st.sampled_from(DISTANCES), st.integers(0, 9))
SIZES = st.none() | st.integers(0, 10_000)


def one_of(task: str = "t", **fields: object) -> Record:
    return Record("a", "s", "d", task, 0, 0, "scored", **fields)  # type: ignore[arg-type]


@given(st.integers(1, 400))
def test_every_distance_lies_in_one_range(distance):
    name = distance_range(distance)
    low, _, high = name.rstrip("+").partition("-")
    assert int(low) <= distance <= (10**9 if name.endswith("+") else int(high or low))


@given(RANGES, RANGES, SIZES, SIZES, SIZES, st.integers(0, 10_000), st.integers(0, 10_000))
def test_shares_and_tokens_stay_in_bounds_whatever_a_file_says(needed, shown, later, repeated, cacheable, taken, made):
    one = one_of(
        results_needed=needed, results_shown=shown, later_bytes=later, repeated_bytes=repeated, cacheable_tokens=cacheable,
        input_tokens=taken, output_tokens=made,
    )  # fmt: skip
    for share in (retention(one), prefix_stability(one), *(retention_at(one, distance) for distance in DISTANCES)):
        assert share is None or 0 <= share <= 1
    tokens = tokens_with_cache(one)
    assert (tokens is None) is (cacheable is None)
    assert tokens is None or CACHE_READ * taken + made - 1e-9 <= tokens <= one.tokens
    assert Record.from_json(one.to_json()) == one


def test_the_measures_of_context_worked_out_by_hand():
    one = one_of(
        results_needed={"1": 4, "2": 4}, results_shown={"1": 4, "2": 1}, later_bytes=2_000, repeated_bytes=500,
        cacheable_tokens=1_000, input_tokens=3_000, output_tokens=100,
    )  # fmt: skip
    assert (retention(one), retention_at(one, "1"), retention_at(one, "2"), retention_at(one, "17+")) == (0.625, 1.0, 0.25, None)
    assert prefix_stability(one) == 0.25
    assert tokens_with_cache(one) == 3_100 - 0.9 * 1_000
    found = summarize([one, one_of("u")])
    assert {name: share.value for name, share in found.retention_at.items()} == {"1": 1.0, "2": 0.25}
    assert found.means["retention"] is not None
    assert found.means["retention"].n == 1


def test_what_was_not_measured_is_not_known():
    assert [METRICS[name](one_of()) for name in ("retention", "prefix_stability", "tokens_with_cache")] == [None] * 3


def test_which_measures_are_shares_and_of_which_more_is_better():
    assert sorted(GAINS) == ["accuracy", "prefix_stability", "retention", "utility_kept"]
    of_calls = ["calls_doubled", "calls_lost", "calls_overlapped"]
    of_injection = ["injection_attempted", "injection_executed", "injection_shown"]
    assert sorted(SHARES - GAINS) == ["answer_changed", *of_calls, "false_success_rate", *of_injection, "results_mispaired"]
