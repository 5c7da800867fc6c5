"""Shares of calls that were lost, done twice, mixed up or run too early, from records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.record import Record
from whichloop.metrics.summary import GAINS, METRICS, SHARES, measures_of

NAMES = ("asked", "lost", "doubled", "paired", "mispaired", "early", "overlapped")


def record(**counts: int) -> Record:
    return Record("a", "s", "d", "t", 0, 0, "scored", call_counts=counts)


@given(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9)))
def test_shares_stay_in_bounds_whatever_a_file_says(counts):
    one = record(**counts)
    for name, whole in (("calls_lost", "asked"), ("calls_doubled", "asked"), ("results_mispaired", "paired")):
        share = METRICS[name](one)
        assert (share is None) is (not counts.get(whole))
        assert share is None or 0 <= share <= 1
    assert Record.from_json(one.to_json()) == one


def test_the_measures_of_calls_worked_out_by_hand():
    one = record(asked=8, lost=2, doubled=1, paired=4, mispaired=1, early=2, overlapped=1)
    assert {name: METRICS[name](one) for name in measures_of("calls")} == {
        "calls_lost": 0.25,
        "calls_doubled": 0.125,
        "results_mispaired": 0.25,
        "calls_overlapped": 0.5,
    }
    assert [METRICS[name](record()) for name in measures_of("calls")] == [None] * 4


def test_they_are_shares_of_which_less_is_better():
    assert set(measures_of("calls")) <= SHARES - GAINS
