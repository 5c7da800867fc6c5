"""Roots of functions, held against SciPy's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from whichloop.metrics.roots import root

FUNCTIONS = {
    "cubic": lambda x: x**3,
    "line": lambda x: x,
    "exponential": lambda x: math.expm1(20 * x),
    "step": lambda x: -1.0 if x < 0 else 1.0,
    "flat": lambda x: math.copysign(math.exp(-1 / x**2), x) if x else 0.0,
    "hyperbolic": lambda x: math.tanh(50 * x),
}


@given(
    st.sampled_from(sorted(FUNCTIONS)),
    st.floats(-5, 5),
    st.floats(0.01, 4),
    st.floats(0.01, 4),
    st.sampled_from([1, -1]),
    st.sampled_from([1e-3, 1e-9, 2e-12]),
)
def test_a_root_is_as_close_as_asked_for(name, at, before, after, sign, within):
    calls = 0

    def function(x: float) -> float:
        nonlocal calls
        calls += 1
        return float(sign * FUNCTIONS[name](x - at))

    found = root(function, at - before, at + after, within)
    assert at - before <= found <= at + after
    assert abs(found - at) <= within + 1e-14 or function(found) == 0
    assert calls < 200


@given(st.floats(0.001, 0.999), st.integers(1, 40))
def test_it_finds_what_scipy_finds(share, power):
    def function(x: float) -> float:
        return float(x**power - share)

    assert root(function, 0.0, 1.0) == pytest.approx(optimize.brentq(function, 0.0, 1.0), abs=1e-11)
    assert root(function, 1.0, 0.0) == pytest.approx(optimize.brentq(function, 0.0, 1.0), abs=1e-11)


def test_a_root_at_an_end_is_found():
    assert root(lambda x: x - 1, 0.0, 1.0) == 1.0
    assert root(lambda x: x, 0.0, 1.0) == 0.0
    assert root(lambda x: x, 0.0, 0.0) == 0.0


def test_without_a_change_of_sign_there_is_an_error():
    with pytest.raises(ValueError, match=r"the same sign at 1\.0 and 2\.0"):
        root(lambda x: x, 1.0, 2.0)
