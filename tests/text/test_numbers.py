"""Numbers as text."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from whichloop.metrics.statistics import Interval
from whichloop.text.numbers import difference_text, interval

DIFFERENCES = st.floats(1e-6, 1)


@given(DIFFERENCES, DIFFERENCES, st.sampled_from([1, -1]))
def test_the_interval_of_a_difference_that_is_not_0_never_shows_0(one, other, sign):
    low, high = sorted((sign * one, sign * other))
    assume(low < high)
    shown = interval(Interval((low + high) / 2, low, high, 9), 3)
    ends = shown.partition("[")[2].rstrip("]").split(", ")
    assert all(end == (">0" if sign > 0 else "<0") or float(end) * sign > 0 for end in ends)


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0.000147, 0.126, "0.062 [0.0001, 0.126]"),
        (0.0004999, 0.126, "0.062 [0.0004, 0.126]"),
        (1e-12, 0.126, "0.062 [>0, 0.126]"),
        (0.01, 0.126, "0.062 [0.010, 0.126]"),
        (0.0, 0.126, "0.062 [0.000, 0.126]"),
        (-0.0001, 0.126, "0.062 [0.000, 0.126]"),
    ],
)
def test_a_bound_beside_0_is_shown_as_such(low, high, shown):
    assert interval(Interval(0.062, low, high, 9), 3) == shown


@given(st.floats(-1, 1), st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_difference_that_is_shown_never_has_an_end_that_looks_cut(value, below, above):
    """And of one that is not shown no end is written as 0 on the side that its mean lies on."""
    found = Interval(value, value - below, value + above, 100)
    text = difference_text(found, 3)
    if found.low > 0 or found.high < 0:
        assert text == interval(found, 3)
    elif found.low < found.high:
        ends = text.partition("[")[2].rstrip("]").split(", ")
        assert ends[0] != "0.000" or value <= 0
        assert ends[1] != "0.000" or value >= 0


def test_an_end_at_0_is_written_as_beyond_it():
    assert difference_text(Interval(0.092, 0.0, 0.177, 120), 3) == "0.092 [≤0, 0.177]"
    assert difference_text(Interval(-0.092, -0.177, 0.0, 120), 3) == "-0.092 [-0.177, ≥0]"
    assert difference_text(Interval(0.0, -0.05, 0.05, 120), 3) == "0.000 [-0.050, 0.050]"
    assert difference_text(None, 3) == "–"
