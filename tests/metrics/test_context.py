"""Retention, prefix stability and tokens under a prompt cache, from records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.measures import (
    CACHE_READ,
    DISTANCES,
    distance_range,
    prefix_stability,
    retention,
    retention_at,
    tokens_with_cache,
)
from whichloop.metrics.record import Record
from whichloop.metrics.summary import GAINS, METRICS, SHARES, summarize

COUNTS = st.dictionaries(st.sampled_from(DISTANCES), st.integers(0, 9))
SIZES = st.none() | st.integers(0, 10_000)


def record(task: str = "t", **fields: object) -> Record:
    return Record("a", "s", "d", task, 0, 0, "scored", **fields)  # type: ignore[arg-type]


@given(st.integers(1, 400))
def test_every_distance_lies_in_one_range(distance):
    name = distance_range(distance)
    low, _, high = name.rstrip("+").partition("-")
    assert int(low) <= distance <= (10**9 if name.endswith("+") else int(high or low))


@given(COUNTS, COUNTS, SIZES, SIZES, SIZES, st.integers(0, 10_000), st.integers(0, 10_000))
def test_shares_and_tokens_stay_in_bounds_whatever_a_file_says(needed, shown, later, repeated, cacheable, taken, made):
    one = record(
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
    one = record(
        results_needed={"1": 4, "2": 4}, results_shown={"1": 4, "2": 1}, later_bytes=2_000, repeated_bytes=500,
        cacheable_tokens=1_000, input_tokens=3_000, output_tokens=100,
    )  # fmt: skip
    assert (retention(one), retention_at(one, "1"), retention_at(one, "2"), retention_at(one, "17+")) == (0.625, 1.0, 0.25, None)
    assert prefix_stability(one) == 0.25
    assert tokens_with_cache(one) == 3_100 - 0.9 * 1_000
    found = summarize([one, record("u")])
    assert {name: share.value for name, share in found.retention_at.items()} == {"1": 1.0, "2": 0.25}
    assert found.means["retention"] is not None
    assert found.means["retention"].n == 1


def test_what_was_not_measured_is_not_known():
    assert [METRICS[name](record()) for name in ("retention", "prefix_stability", "tokens_with_cache")] == [None] * 3


def test_which_measures_are_shares_and_of_which_more_is_better():
    assert sorted(GAINS) == ["accuracy", "prefix_stability", "retention", "utility_kept"]
    of_calls = ["calls_doubled", "calls_lost", "calls_overlapped"]
    of_injection = ["injection_attempted", "injection_executed", "injection_shown"]
    assert sorted(SHARES - GAINS) == ["answer_changed", *of_calls, "false_success_rate", *of_injection, "results_mispaired"]
