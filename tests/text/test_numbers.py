"""Numbers as text."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from loopbench.metrics.statistics import Interval
from loopbench.text.numbers import interval

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
