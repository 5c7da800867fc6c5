"""Calculator tools: pure, quick, and the same result on every machine.

Arguments are read as the decimals that they are written as, so 0.1 + 0.2 is 0.3. An integral result is an int, any other a float
of at most 12 significant digits. Arguments and results lie within ±10^15, where every int is exact as a float; what leaves that
range raises OverflowError, and nothing here can hang.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

from whichloop.protocol import Tool

Number = int | float

LIMIT = 10**15
"""Largest magnitude of an argument or a result."""
MAX_EXPONENT = 64
MAX_DIGITS = 12

_EXACT = Context(prec=40, rounding=ROUND_HALF_UP)
_SIGNIFICANT = Context(prec=12, rounding=ROUND_HALF_UP)

_UNITS: dict[str, dict[str, str]] = {
    "length": {
        "mm": "1", "cm": "10", "m": "1000", "km": "1000000", "inch": "25.4", "foot": "304.8", "yard": "914.4", "mile": "1609344",
    },
    "mass": {"mg": "1", "g": "1000", "kg": "1000000", "tonne": "1000000000", "ounce": "28349.523125", "pound": "453592.37"},
    "time": {"second": "1", "minute": "60", "hour": "3600", "day": "86400", "week": "604800"},
    "volume": {
        "ml": "1", "cl": "10", "l": "1000",
        "cup": "236.5882365", "pint": "473.176473", "quart": "946.352946", "gallon": "3785.411784",
    },
}  # fmt: skip
"""Kind → unit → size in the kind's first unit, all exact: the international yard and pound of 1959, the US liquid gallon."""


def add(a: float, b: float) -> Number:
    """Add two numbers: a + b."""
    return result(_EXACT.add(exact(a), exact(b)))


def subtract(a: float, b: float) -> Number:
    """Subtract b from a: a - b."""
    return result(_EXACT.subtract(exact(a), exact(b)))


def multiply(a: float, b: float) -> Number:
    """Multiply two numbers: a * b."""
    return result(_EXACT.multiply(exact(a), exact(b)))


def divide(a: float, b: float) -> Number:
    """Divide a by b: a / b. Dividing by zero is an error."""
    divisor = exact(b)
    if not divisor:
        raise ZeroDivisionError(f"division by zero: {a:.12g} / 0 has no value")
    return result(_EXACT.divide(exact(a), divisor))


def power(base: float, exponent: float) -> Number:
    """Raise base to the exponent, which lies between -64 and 64."""
    if not abs(exponent) <= MAX_EXPONENT:
        raise ValueError(f"exponent {exponent:.12g} is beyond ±{MAX_EXPONENT}")
    ground, height = exact(base), exact(exponent)
    if not height:
        return 1
    if not ground and height < 0:
        raise ZeroDivisionError("division by zero: 0 has no negative power")
    if ground < 0 and height % 1:
        raise ValueError(f"{base:.12g} is negative: a power with the fractional exponent {exponent:.12g} is no real number")
    return result(_EXACT.power(ground, height))


def remainder(a: float, b: float) -> Number:
    """What is left when a is divided by b; it has the sign of b. Dividing by zero is an error."""
    divisor = exact(b)
    if not divisor:
        raise ZeroDivisionError(f"division by zero: {a:.12g} / 0 has no remainder")
    rest = Fraction(exact(a)) % Fraction(divisor)  # a Decimal's own % gives up where the quotient is long
    return result(_EXACT.divide(Decimal(rest.numerator), Decimal(rest.denominator)))


def round_to(number: float, digits: int) -> Number:
    """Round to `digits` decimals, between -12 and 12; halves are rounded away from zero."""
    if not abs(digits) <= MAX_DIGITS:
        raise ValueError(f"digits is {digits}, and must lie between -{MAX_DIGITS} and {MAX_DIGITS}")
    return result(exact(number).quantize(Decimal(1).scaleb(-digits), context=_EXACT))


def percent_of(percent: float, number: float) -> Number:
    """A percentage of a number: percent / 100 * number."""
    return result(_EXACT.divide(_EXACT.multiply(exact(percent), exact(number)), Decimal(100)))


def minimum(a: float, b: float) -> Number:
    """The smaller of two numbers."""
    return result(min(exact(a), exact(b)))


def maximum(a: float, b: float) -> Number:
    """The larger of two numbers."""
    return result(max(exact(a), exact(b)))


def convert_units(value: float, from_unit: str, to_unit: str) -> Number:
    """Convert a value to another unit of the same kind.

    Length: mm, cm, m, km, inch, foot, yard, mile. Mass: mg, g, kg, tonne, ounce, pound.
    Time: second, minute, hour, day, week. Volume: ml, cl, l, cup, pint, quart, gallon.
    """
    kinds = {unit: kind for kind, table in _UNITS.items() for unit in table}
    for unit in (from_unit, to_unit):
        if unit not in kinds:
            known = "; ".join(f"{kind}: {', '.join(table)}" for kind, table in _UNITS.items())
            raise ValueError(f"unknown unit {unit!r}; known are {known}")
    kind, table = kinds[from_unit], _UNITS[kinds[from_unit]]
    if to_unit not in table:
        raise ValueError(f"{from_unit!r} cannot become {to_unit!r}: {kind} has the units {', '.join(table)}")
    return result(_EXACT.divide(_EXACT.multiply(exact(value), Decimal(table[from_unit])), Decimal(table[to_unit])))


def exact(value: float) -> Decimal:
    """Return the decimal that a number is written as. Raises ValueError and OverflowError."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no finite number")
    if abs(value) > LIMIT:
        raise OverflowError(f"{value:.12g} is beyond ±{LIMIT:g}, the range of this calculator")
    return Decimal(repr(float(value)))


def result(value: Decimal) -> Number:
    """Return a result of at most 12 digits. Raises OverflowError."""
    if abs(value) > LIMIT:
        raise OverflowError(f"the result is beyond ±{LIMIT:g}, the range of this calculator")
    if value == value.to_integral_value():
        return int(value)
    rounded = float(_SIGNIFICANT.plus(value))
    return int(rounded) if rounded.is_integer() else rounded


TOOLS: tuple[Tool, ...] = tuple(
    Tool.from_function(function, blocking=False, read_only=True)
    for function in (
        add, subtract, multiply, divide, power, remainder, round_to, percent_of, minimum, maximum, convert_units,
    )
)  # fmt: skip


def tools(*names: str) -> tuple[Tool, ...]:
    """Return the tools of these names, in this order. Raises KeyError for an unknown one."""
    tools_by_name = {tool.name: tool for tool in TOOLS}
    return tuple(tools_by_name[name] for name in names)
