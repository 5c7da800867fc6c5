"""The sources of a farming region, and calculators to combine them: weather, fields, soil, crops, prices, units.

Weather stations report in US or in metric units, areas are in acres or hectares, prices per tonne, kilogram or pound; the
calculators want °C, millimetres and hectares. Nothing is ever changed: the tools only read. Results are decimals of at most 12
significant digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from datetime import date, timedelta
from fractions import Fraction
from typing import Any, Literal, Self, get_args

from whichloop.datasets.task import InvalidRequest, Toolset, UnknownName

Number = int | float
Measure = Literal["high", "low", "rain", "et0", "wind"]
Stage = Literal["emergence", "vegetative", "flowering", "ripening"]
Operation = Literal["sum", "difference", "product", "quotient", "minimum", "maximum", "mean"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
STAGES: tuple[Stage, ...] = get_args(Stage)

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

_SIZES: Mapping[str, tuple[str, Fraction]] = {
    "mm": ("length", Fraction(1)),
    "inch": ("length", Fraction("25.4")),
    "m/s": ("speed", Fraction(1)),
    "mph": ("speed", Fraction("0.44704")),
    "hectare": ("area", Fraction(1)),
    "acre": ("area", Fraction("0.40468564224")),
    "kg": ("mass", Fraction(1)),
    "tonne": ("mass", Fraction(1000)),
    "lb": ("mass", Fraction("0.45359237")),
    "m3": ("volume", Fraction(1)),
    "1000 gallons": ("volume", Fraction("3.785411784")),
}
"""Unit → kind, and size in the kind's first unit: the international yard and pound of 1959, the US liquid gallon."""


class NoReadings(LookupError):
    """The station has not measured this on one of the days."""


class NoSample(LookupError):
    """The field's soil was never sampled."""


class NotTraded(LookupError):
    """The market has no price for it."""


@dataclass(frozen=True, slots=True)
class Station:
    system: str
    """us or metric."""
    readings: Mapping[Measure, Sequence[Number | None]]
    """All measures, with one value per day; None for a day without a reading."""


@dataclass(frozen=True, slots=True)
class CropField:
    crop: str
    stage: Stage
    area: Number
    area_unit: str
    station: str
    backup_station: str


@dataclass(frozen=True, slots=True)
class Crop:
    base_c: Number
    seed_kg_ha: Number
    yield_t_ha: Number
    stages: Mapping[Stage, Sequence[Number]]
    """All stages → crop coefficient, and kg of nitrogen that a hectare needs."""


@dataclass(frozen=True, slots=True)
class Region:
    """The world that the tools read."""

    first_day: str
    stations: Mapping[str, Station]
    fields: Mapping[str, CropField]
    soil: Mapping[str, Sequence[Number]]
    """Field → pH, nitrogen in kg/ha, phosphorus and potassium in ppm."""
    crops: Mapping[str, Crop]
    prices: Mapping[str, Sequence[Any]]
    """What is traded → dollars, the unit they are for, and for a fertilizer its percentage of nitrogen."""

    is_exact: bool = False
    """Whether results are fractions, not rounded."""

    def number(self, value: Fraction) -> Any:
        """Return a calculator's result."""
        if self.is_exact:
            return value
        if abs(value) > MAX_MAGNITUDE:
            raise InvalidRequest(f"the result is beyond ±{MAX_MAGNITUDE:.0e}")
        return int(value) if value.denominator == 1 else float(f"{float(value):.12g}")

    @classmethod
    def of(cls, world: Mapping[str, Any]) -> Self:
        """Read what `as_world` returned."""
        return cls(
            world["first_day"],
            {name: Station(row[0], dict(zip(MEASURES, row[1:], strict=True))) for name, row in world["stations"].items()},
            {name: CropField(*row) for name, row in world["fields"].items()},
            world["soil"],
            {name: Crop(*[*row[:3], dict(zip(STAGES, row[3:], strict=True))]) for name, row in world["crops"].items()},
            world["prices"],
        )

    def as_world(self) -> dict[str, Any]:
        """Return compact JSON: rows in the order of the classes' fields, readings by measure and needs by stage."""
        return {
            "first_day": self.first_day,
            "stations": {name: [s.system, *s.readings.values()] for name, s in self.stations.items()},
            "fields": {name: list(astuple(field)) for name, field in self.fields.items()},
            "soil": dict(self.soil),
            "crops": {name: [c.base_c, c.seed_kg_ha, c.yield_t_ha, *c.stages.values()] for name, c in self.crops.items()},
            "prices": dict(self.prices),
        }


# Sources


def field_info(region: Region, field: str) -> dict[str, Any]:
    """A field's crop and its growth stage, its area with unit, the weather station next to it and the one to fall back on."""
    facts = _value_named(region.fields, field, "field")
    return {"field": field, **asdict(facts)}


def weather(region: Region, station: str, measure: Measure, first: str, last: str) -> dict[str, Any]:
    """A station's daily readings from the first to the last day, both included, at most ten.

    measure: high or low (temperature), rain, et0 (reference evapotranspiration) or wind (daily mean). first, last: dates as in
    2026-06-08. The unit differs between stations and is told.
    """
    weather_station = _value_named(region.stations, station, "station")
    begin = _day(region, first)
    end = _day(region, last)
    days = len(weather_station.readings[measure])
    if not 0 <= begin <= end < days:
        until = date.fromisoformat(region.first_day) + timedelta(days=days - 1)
        raise InvalidRequest(f"{first} to {last} is no range of days between {region.first_day} and {until.isoformat()}")
    if end - begin >= MAX_DAYS:
        raise InvalidRequest(f"{first} to {last} are more than {MAX_DAYS} days")
    values = weather_station.readings[measure][begin : end + 1]
    if None in values:
        raise NoReadings(f"station {station} has no {measure} readings for all days from {first} to {last}")
    return {"station": station, "measure": measure, "unit": UNITS[weather_station.system][measure], "values": list(values)}


def soil_sample(region: Region, field: str) -> dict[str, Any]:
    """The latest soil sample of a field: pH, nitrogen that is there in kg/ha, phosphorus and potassium in ppm."""
    _value_named(region.fields, field, "field")
    if field not in region.soil:
        raise NoSample(f"no soil sample was ever taken on {field}")
    names = ("ph", "nitrogen_kg_ha", "phosphorus_ppm", "potassium_ppm")
    return {"field": field, **dict(zip(names, region.soil[field], strict=True))}


def crop_table(region: Region, crop: str, stage: Stage) -> dict[str, Any]:
    """What a crop needs: base temperature in °C, crop coefficient and nitrogen need at a stage, seed rate, usual yield."""
    crop_facts = _value_named(region.crops, crop, "crop")
    coefficient, nitrogen = crop_facts.stages[stage]
    return {
        "crop": crop,
        "stage": stage,
        "base_c": crop_facts.base_c,
        "kc": coefficient,
        "nitrogen_kg_ha": nitrogen,
        "seed_kg_ha": crop_facts.seed_kg_ha,
        "yield_t_ha": crop_facts.yield_t_ha,
    }


def market_price(region: Region, product: str) -> dict[str, Any]:
    """Today's price in dollars and the unit it is for; for a fertilizer also the percentage of nitrogen in it.

    product: a crop's name for its harvest, a fertilizer, or "water".
    """
    if product not in region.prices:
        raise NotTraded(f"there is no price for {product!r}, only for {', '.join(sorted(region.prices))}")
    dollars, unit, *percent = region.prices[product]
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
        source = _value_named(_SIZES, from_unit, "unit")
        target = _value_named(_SIZES, to_unit, "unit")
        if source[0] != target[0]:
            raise InvalidRequest(f"{from_unit} is a {source[0]} and {to_unit} a {target[0]}: they cannot be converted")
        converted = [value * source[1] / target[1] for value in exact]
    return {"unit": to_unit, "values": [region.number(value) for value in converted]}


def growing_degree_days(region: Region, highs_c: list[float], lows_c: list[float], base_c: float) -> dict[str, Any]:
    """Sum over the days of (high + low) / 2 - base, days below the base counting 0; all in °C.

    Method 1 of McMaster and Wilhelm 1997, Agricultural and Forest Meteorology 87.
    """
    if len(highs_c) != len(lows_c):
        raise InvalidRequest(f"there are {len(highs_c)} highs and {len(lows_c)} lows: one of each is needed for a day")
    days = zip(_exact_all(highs_c), _exact_all(lows_c), strict=True)
    base = _exact(base_c)
    return {
        "growing_degree_days": region.number(sum((max(Fraction(0), (high + low) / 2 - base) for high, low in days), Fraction(0)))
    }


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
    first, *others = _exact_all(numbers)
    match operation:
        case "sum":
            result = first + sum(others)
        case "difference":
            result = first - sum(others)
        case "product":
            result = first * math.prod(others)
        case "quotient":
            if 0 in others:
                raise InvalidRequest("division by zero has no value")
            result = first / math.prod(others)
        case "minimum":
            result = min([first, *others])
        case "maximum":
            result = max([first, *others])
        case "mean":
            result = (first + sum(others)) / (1 + len(others))
    return {"result": region.number(result)}


# Names, days, numbers


def _value_named(by_name: Mapping[str, Any], name: str, kind: str) -> Any:
    if name not in by_name:
        raise UnknownName(f"there is no {kind} {name!r}, only {', '.join(by_name)}")
    return by_name[name]


def _day(region: Region, text: str) -> int:
    """Return the days since the first one."""
    try:
        return (date.fromisoformat(text) - date.fromisoformat(region.first_day)).days
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
