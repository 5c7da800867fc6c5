"""The sources of a farming region, and calculators to combine them: weather, fields, soil, crops, prices, units.

Weather stations report in US or in metric units, areas are in acres or hectares, prices per tonne, kilogram or pound; the
calculators want °C, millimetres and hectares. Nothing is ever changed: the tools only read. Results are decimals of at most 12
significant digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from typing import Any, Literal, get_args

from whichloop.datasets.task import InvalidRequest, Toolset, look_up

Measure = Literal["high", "low", "rain", "et0", "wind"]
Stage = Literal["emergence", "vegetative", "flowering", "ripening"]
Operation = Literal["sum", "difference", "product", "quotient", "minimum", "maximum", "mean"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
STAGES: tuple[Stage, ...] = get_args(Stage)
FIELD = ("crop", "stage", "area", "area_unit", "station", "backup_station")
SOIL = ("ph", "nitrogen_kg_ha", "phosphorus_ppm", "potassium_ppm")

MAX_DAYS = 10
MAX_NUMBERS = 20
MAX_MAGNITUDE = 10**12
"""Largest magnitude of an argument or a result."""
RAIN_COUNTS = Fraction(4, 5)
"""Share of the rain that reaches the roots."""

UNITS: Mapping[str, Mapping[Measure, str]] = {
    "us": {"high": "F", "low": "F", "rain": "inch", "et0": "inch", "wind": "mph"},
    "metric": {"high": "C", "low": "C", "rain": "mm", "et0": "mm", "wind": "m/s"},
}
"""A station's system → what its readings are in."""

_SIZES: Mapping[str, tuple[str, str]] = {
    "mm": ("length", "1"), "inch": ("length", "25.4"),
    "m/s": ("speed", "1"), "mph": ("speed", "0.44704"),
    "hectare": ("area", "1"), "acre": ("area", "0.40468564224"),
    "kg": ("mass", "1"), "tonne": ("mass", "1000"), "lb": ("mass", "0.45359237"),
    "m3": ("volume", "1"), "1000 gallons": ("volume", "3.785411784"),
}  # fmt: skip
"""Unit → kind, and size in the kind's first unit: the international yard and pound of 1959, the US liquid gallon."""


class NoReadings(LookupError):
    """The station has not measured this on one of the days."""


class NoSample(LookupError):
    """The field's soil was never sampled."""


class NotTraded(LookupError):
    """The market has no price for it."""


@dataclass(frozen=True, slots=True)
class Region:
    """What the tools read."""

    world: Mapping[str, Any]
    """It as JSON: `first_day`, and by name `stations` (us or metric, then for each measure the days' values, None for a day without
    one), `fields` (the values of `FIELD`), `soil` (those of `SOIL`), `crops` (base temperature in °C, kg/ha of seed, t/ha of yield,
    then for each stage crop coefficient and kg/ha of nitrogen), `prices` (dollars, the unit, a fertilizer's percent of nitrogen).
    """
    is_exact: bool = False
    """Whether results are fractions, not rounded."""

    def named(self, table: str, name: str) -> Any:
        return _value_named(self.world[table], name, table.removesuffix("s"))

    def number(self, value: Fraction) -> Any:
        """Return a calculator's result."""
        if self.is_exact:
            return value
        if abs(value) > MAX_MAGNITUDE:
            raise InvalidRequest(f"the result is beyond ±{MAX_MAGNITUDE:.0e}")
        return int(value) if value.denominator == 1 else float(f"{float(value):.12g}")


# Sources


def field_info(region: Region, field: str) -> dict[str, Any]:
    """A field's crop and its growth stage, its area with unit, the weather station next to it and the one to fall back on."""
    return {"field": field, **dict(zip(FIELD, region.named("fields", field), strict=True))}


def weather(region: Region, station: str, measure: Measure, first: str, last: str) -> dict[str, Any]:
    """A station's daily readings from the first to the last day, both included, at most ten.

    measure: high or low (temperature), rain, et0 (reference evapotranspiration) or wind (daily mean). first, last: dates as in
    2026-06-08. The unit differs between stations and is told.
    """
    system, *readings = region.named("stations", station)
    days, start = readings[MEASURES.index(measure)], region.world["first_day"]
    begin, end = _day(region, first), _day(region, last)
    if not 0 <= begin <= end < len(days):
        until = date.fromisoformat(start) + timedelta(days=len(days) - 1)
        raise InvalidRequest(f"{first} to {last} is no range of days between {start} and {until.isoformat()}")
    if end - begin >= MAX_DAYS:
        raise InvalidRequest(f"{first} to {last} are more than {MAX_DAYS} days")
    values = days[begin : end + 1]
    if None in values:
        raise NoReadings(f"station {station} has no {measure} readings for all days from {first} to {last}")
    return {"station": station, "measure": measure, "unit": UNITS[system][measure], "values": values}


def soil_sample(region: Region, field: str) -> dict[str, Any]:
    """The latest soil sample of a field: pH, nitrogen that is there in kg/ha, phosphorus and potassium in ppm."""
    region.named("fields", field)
    sample = look_up(region.world["soil"], field, f"no soil sample was ever taken on {field}", NoSample)
    return {"field": field, **dict(zip(SOIL, sample, strict=True))}


def crop_table(region: Region, crop: str, stage: Stage) -> dict[str, Any]:
    """What a crop needs: base temperature in °C, crop coefficient and nitrogen need at a stage, seed rate, usual yield."""
    base, seed, usual_yield, *stages = region.named("crops", crop)
    kc, nitrogen = stages[STAGES.index(stage)]
    told = {"crop": crop, "stage": stage, "base_c": base, "kc": kc, "nitrogen_kg_ha": nitrogen}
    return told | {"seed_kg_ha": seed, "yield_t_ha": usual_yield}


def market_price(region: Region, product: str) -> dict[str, Any]:
    """Today's price in dollars and the unit it is for; for a fertilizer also the percentage of nitrogen in it.

    product: a crop's name for its harvest, a fertilizer, or "water".
    """
    prices = region.world["prices"]
    problem = f"there is no price for {product!r}, only for {', '.join(sorted(prices))}"
    dollars, unit, *percent = look_up(prices, product, problem, NotTraded)
    row = {"product": product, "dollars": dollars, "per": unit}
    return row | {"nitrogen_percent": percent[0]} if percent else row


# Calculators


def convert_units(region: Region, values: list[float], from_unit: str, to_unit: str) -> dict[str, Any]:
    """Convert numbers between units of a kind: C, F; mm, inch; m/s, mph; hectare, acre; kg, tonne, lb; m3, 1000 gallons."""
    exact = _exact_all(values)
    if {from_unit, to_unit} == {"C", "F"}:
        to_celsius = [(value - 32) * 5 / 9 for value in exact]
        converted = to_celsius if to_unit == "C" else [value * 9 / 5 + 32 for value in exact]
    else:
        kind, size = _value_named(_SIZES, from_unit, "unit")
        other_kind, other_size = _value_named(_SIZES, to_unit, "unit")
        if kind != other_kind:
            raise InvalidRequest(f"{from_unit} is a {kind} and {to_unit} a {other_kind}: they cannot be converted")
        converted = [value * Fraction(size) / Fraction(other_size) for value in exact]
    return {"unit": to_unit, "values": [region.number(value) for value in converted]}


def growing_degree_days(region: Region, highs_c: list[float], lows_c: list[float], base_c: float) -> dict[str, Any]:
    """Sum over the days of (high + low) / 2 - base, days below the base counting 0; all in °C.

    Method 1 of McMaster and Wilhelm 1997, Agricultural and Forest Meteorology 87.
    """
    if len(highs_c) != len(lows_c):
        raise InvalidRequest(f"there are {len(highs_c)} highs and {len(lows_c)} lows: one of each is needed for a day")
    days, base = zip(_exact_all(highs_c), _exact_all(lows_c), strict=True), _exact(base_c)
    total = sum((max(Fraction(0), (high + low) / 2 - base) for high, low in days), Fraction(0))
    return {"growing_degree_days": region.number(total)}


def irrigation_need(region: Region, et0_mm: list[float], kc: float, rain_mm: list[float], hectares: float) -> dict[str, Any]:
    """Water that rain does not bring: kc x et0 less four fifths of the rain, in mm, and in cubic metres for the area.

    FAO Irrigation and Drainage Paper 56 (Allen et al. 1998) for crop water; a millimetre on a hectare is 10 m3.
    """
    use = _exact(kc) * sum(_exact_all(et0_mm))
    net = max(Fraction(0), use - RAIN_COUNTS * sum(_exact_all(rain_mm)))
    return {"net_mm": region.number(net), "cubic_metres": region.number(net * 10 * _exact(hectares))}


def fertilizer_amount(
    region: Region, needed_kg_ha: float, present_kg_ha: float, nitrogen_percent: float, hectares: float
) -> dict[str, Any]:
    """Kilograms of a fertilizer that bring a field from the nitrogen that is present to what is needed."""
    percent = _exact(nitrogen_percent)
    if not 0 < percent <= 100:
        raise InvalidRequest(f"nitrogen_percent is {nitrogen_percent}, and must be above 0 and at most 100")
    lacking = max(Fraction(0), _exact(needed_kg_ha) - _exact(present_kg_ha))
    return {"kg": region.number(lacking * _exact(hectares) * 100 / percent)}


def calculate(region: Region, operation: Operation, numbers: list[float]) -> dict[str, Any]:
    """Combine numbers. difference: the first less the others; quotient: the first divided by the others."""
    exact = _exact_all(numbers)
    if operation == "quotient" and 0 in exact[1:]:
        raise InvalidRequest("division by zero has no value")
    return {"result": region.number(_OPERATIONS[operation](exact))}


_OPERATIONS: Mapping[Operation, Callable[[list[Fraction]], Fraction]] = {
    "sum": lambda numbers: sum(numbers, Fraction(0)),
    "difference": lambda numbers: numbers[0] - sum(numbers[1:]),
    "product": lambda numbers: numbers[0] * math.prod(numbers[1:]),
    "quotient": lambda numbers: numbers[0] / math.prod(numbers[1:]),
    "minimum": min,
    "maximum": max,
    "mean": lambda numbers: sum(numbers, Fraction(0)) / len(numbers),
}


# Names, days, numbers


def _value_named(by_name: Mapping[str, Any], name: str, kind: str) -> Any:
    return look_up(by_name, name, f"there is no {kind} {name!r}, only {', '.join(by_name)}")


def _day(region: Region, text: str) -> int:
    """Return the days since the first one."""
    try:
        return (date.fromisoformat(text) - date.fromisoformat(region.world["first_day"])).days
    except ValueError:
        raise InvalidRequest(f"{text!r} is no date as in 2026-06-08") from None


def _exact_all(values: Sequence[float]) -> list[Fraction]:
    if not 1 <= len(values) <= MAX_NUMBERS:
        raise InvalidRequest(f"there are {len(values)} numbers; between 1 and {MAX_NUMBERS} can be worked with")
    return [_exact(value) for value in values]


def _exact(value: float | Fraction) -> Fraction:
    """Return the decimal that a number is written as."""
    if isinstance(value, Fraction):
        return value
    if not abs(value) <= MAX_MAGNITUDE:
        raise InvalidRequest(f"{value} is beyond ±{MAX_MAGNITUDE:.0e}")
    return Fraction(repr(value))


TOOLS: Toolset[Region] = Toolset(
    field_info, weather, soil_sample, crop_table, market_price, convert_units, growing_degree_days, irrigation_need,
    fertilizer_amount, calculate,
    writes=(),
)  # fmt: skip
