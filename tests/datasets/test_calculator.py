"""The calculator's tools: exact, bounded, and clear about what they refuse."""

from __future__ import annotations

import inspect
import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from whichloop.datasets import calculator
from whichloop.protocol import Observation, Toolbox, ToolCall, run_sync

cents = st.integers(-10_000_000, 10_000_000).map(lambda number: number / 100)
any_float = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(10**20), 10**20)


def fraction(number: float) -> Fraction:
    return Fraction(Decimal(repr(number)))


def call(tool: str, **arguments: object) -> Observation:
    return run_sync(Toolbox(calculator.TOOLS).call(ToolCall(tool, arguments)))


@given(cents, cents)
def test_sums_and_products_of_decimals_are_exact(a: float, b: float) -> None:
    assert fraction(calculator.add(a, b)) == fraction(a) + fraction(b)
    assert fraction(calculator.subtract(a, b)) == fraction(a) - fraction(b)
    product = fraction(a) * fraction(b)
    assert abs(fraction(calculator.multiply(a, b)) - product) <= abs(product) * Fraction(1, 10**11)


@given(cents, cents)
def test_quotients_have_twelve_digits(a: float, b: float) -> None:
    assume(b)
    quotient = fraction(a) / fraction(b)
    assert abs(fraction(calculator.divide(a, b)) - quotient) <= abs(quotient) * Fraction(1, 10**11)


@given(cents, cents)
def test_remainder_is_what_whole_multiples_leave(a: float, b: float) -> None:
    assume(b)
    rest = fraction(calculator.remainder(a, b))
    assert (fraction(a) - rest) % fraction(b) == 0
    assert 0 <= rest * (1 if b > 0 else -1) < abs(fraction(b))


@given(cents, cents)
def test_minimum_and_maximum_are_the_two_numbers_in_order(a: float, b: float) -> None:
    assert [calculator.minimum(a, b), calculator.maximum(a, b)] == sorted((a, b))


two_numbers = st.sampled_from([tool for tool in calculator.TOOLS if tool.name not in ("convert_units", "round_to")])


@given(two_numbers, any_float, any_float)
def test_any_numbers_give_a_number_in_range_or_a_plain_error(tool, a, b) -> None:
    names = list(tool.parameters["properties"])
    try:
        result = tool.function(**dict(zip(names, (a, b), strict=True)))
    except (ValueError, ArithmeticError) as error:
        assert str(error)  # noqa: PT017
        return
    assert abs(result) <= calculator.LIMIT
    assert isinstance(result, int) == float(result).is_integer()
    assert isinstance(result, int) or result == float(f"{result:.12g}")


@given(cents, st.sampled_from(list(calculator._UNITS.items())), st.data())
def test_a_unit_and_back_is_the_same_value(value, kind, data) -> None:
    one, other = data.draw(st.sampled_from(list(kind[1]))), data.draw(st.sampled_from(list(kind[1])))
    there = calculator.convert_units(value, one, other)
    assert math.isclose(calculator.convert_units(there, other, one), value, rel_tol=1e-11, abs_tol=1e-9)


@given(cents, st.integers(-12, 12))
def test_rounding_moves_by_half_a_unit_at_most(number: float, digits: int) -> None:
    unit = Fraction(10) ** -digits
    rounded = fraction(calculator.round_to(number, digits))
    assert abs(rounded - fraction(number)) <= unit / 2
    assert rounded % unit == 0


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (calculator.add(0.1, 0.2), 0.3),
        (calculator.subtract(1000000.1, 1000000), 0.1),
        (calculator.divide(1, 3), 0.333333333333),
        (calculator.divide(6, 3), 2),
        (calculator.power(2, 10), 1024),
        (calculator.power(0, 0), 1),
        (calculator.power(4, -0.5), 0.5),
        (calculator.remainder(-7, 3), 2),
        (calculator.remainder(10**15, 5e-324), 0),
        (calculator.round_to(2.675, 2), 2.68),
        (calculator.round_to(-2.5, 0), -3),
        (calculator.percent_of(12.5, 80), 10),
        (calculator.convert_units(1, "mile", "foot"), 5280),
        (calculator.convert_units(1, "gallon", "cup"), 16),
        (calculator.convert_units(1, "pound", "ounce"), 16),
    ],
)
def test_examples(result, expected) -> None:
    assert result == expected
    assert type(result) is type(expected)


def test_tools_run_in_place_and_take_whole_numbers() -> None:
    assert not any(tool.blocking for tool in calculator.TOOLS)
    assert call("add", a=2, b=3).data == "5"
    assert calculator.TOOLS[0].parameters["properties"]["a"] == {"type": "number"}


def test_the_description_of_convert_units_names_every_unit() -> None:
    text = inspect.getdoc(calculator.convert_units) or ""
    words = set(text.replace(",", " ").replace(".", " ").split())
    assert {unit for table in calculator._UNITS.values() for unit in table} <= words


def test_tools_are_picked_by_name() -> None:
    assert [tool.name for tool in calculator.tools("divide", "add")] == ["divide", "add"]
    with pytest.raises(KeyError):
        calculator.tools("integrate")
