"""What the stories are about: a region drawn at random, plans in the sources' own verbs, and the truth as fractions.

`SeasonScript` writes the calls and inserts a conversion wherever a source reports in another unit; `Season` answers the same
questions from the drawn numbers without any tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

from whichloop.protocol import Ref

from ..generating import Draft, Draw, PlanWriter, distinct, part
from .region import STAGES, UNITS, Crop, CropField, Measure, Number, Region, Station

ANSWER_FORMAT = (
    "Answer with a number alone, in the unit that is asked for and not rounded to less than four significant digits. "
    'If it cannot be determined, the right answer is "not determined".'
)
TOLERANCE = 0.002
"""Relative tolerance of an answer: rounding the answer, and a factor or two on the way, to four significant digits costs less."""
DAYS = 7
FERTILIZERS = ("urea", "ammonium nitrate", "calcium nitrate")

_CROPS = ("maize", "wheat", "soybean", "sunflower", "potato", "sorghum", "barley", "cotton")
_SIDES = ("North", "South", "Upper", "Lower", "Long", "Far", "Old", "Stony")
_PLACES = ("Ridge", "Mill", "Meadow", "Acre", "Bottom", "Croft", "Terrace", "Hollow")
_PER_KG = {"kg": Fraction(1), "tonne": Fraction(1, 1000), "lb": 1 / Fraction("0.45359237")}
_PER_M3 = {"m3": Fraction(1), "1000 gallons": 1 / Fraction("3.785411784")}
_IN_HECTARES = {"hectare": Fraction(1), "acre": Fraction("0.40468564224")}


@dataclass(frozen=True, slots=True)
class Season:
    """A region, and what is true of it: exact, in °C, mm, m/s, hectares, kilograms and dollars."""

    region: Region

    @property
    def fields(self) -> list[str]:
        return list(self.region.fields)

    @property
    def stations(self) -> list[str]:
        return list(self.region.stations)

    def field(self, name: str) -> CropField:
        return self.region.fields[name]

    def crop(self, field: str) -> Crop:
        return self.region.crops[self.field(field).crop]

    def day(self, number: int) -> str:
        """Return a date; number 0 is the first day."""
        return (date.fromisoformat(self.region.first_day) + timedelta(days=number)).isoformat()

    def readings(self, station: str, measure: Measure, first: int, last: int) -> list[Fraction]:
        """Return the readings from day `first` to day `last`, both included."""
        facts = self.region.stations[station]
        values = [Fraction(str(value)) for value in facts.readings[measure][first : last + 1]]
        if facts.system == "metric":
            return values
        if measure in ("high", "low"):
            return [(value - 32) / Fraction("1.8") for value in values]
        return [value * Fraction("0.44704" if measure == "wind" else "25.4") for value in values]

    def hectares(self, field: str) -> Fraction:
        facts = self.field(field)
        return Fraction(str(facts.area)) * _IN_HECTARES[facts.area_unit]

    def stage(self, field: str) -> tuple[Fraction, Fraction]:
        """Return the crop coefficient, and the kilograms of nitrogen that a hectare needs."""
        coefficient, nitrogen = self.crop(field).stages[self.field(field).stage]
        return Fraction(str(coefficient)), Fraction(str(nitrogen))

    def price(self, product: str) -> Fraction:
        """Return dollars per kilogram, for water per cubic metre."""
        dollars, unit, *_ = self.region.prices[product]
        return Fraction(str(dollars)) * (_PER_M3 if product == "water" else _PER_KG)[unit]

    def rain(self, station: str, first: int, last: int) -> Fraction:
        return sum(self.readings(station, "rain", first, last), Fraction(0))

    def water(self, field: str, station: str, first: int, last: int) -> Fraction:
        """Return cubic metres of irrigation, negative after much rain: et0 of the field's own station, rain of `station`."""
        evaporated = sum(self.readings(self.field(field).station, "et0", first, last))
        return (self.stage(field)[0] * evaporated - self.rain(station, first, last) * Fraction(8, 10)) * self.hectares(field) * 10

    def fertilizer(self, field: str, product: str) -> Fraction:
        """Return kilograms of a fertilizer, negative where there is too much nitrogen."""
        lacking = self.stage(field)[1] - Fraction(str(self.region.soil[field][1]))
        return lacking / Fraction(self.region.prices[product][2], 100) * self.hectares(field)


def draft(script: SeasonScript, question: Sequence[str], answer: Any, expected: Fraction | None) -> Draft:
    """Return the task that a script solves."""
    return Draft(
        question=" ".join((*question, ANSWER_FORMAT)),
        plan=script.plan(answer),
        expected=None if expected is None else float(expected),
        scorer=f"numeric(tolerance={TOLERANCE})",
        world=script.season.region.as_world(),
    )


# Drawing


def draw_season(draw: Draw, fields: int = 3, stations: int = 3) -> Season:
    """Draw fields, each with a station as far as there are enough, and crops, prices and soil for all."""
    crops, yields = draw.sample(_CROPS, 3), distinct(3, lambda: draw.integer(18, 95))
    names = [f"{letter}{draw.integer(11, 29)}" for letter in draw.sample("KLMRS", stations)]
    systems = draw.shuffled(("us", "metric", draw.choice(("us", "metric"))))
    titles, areas = _field_names(draw, fields), distinct(fields, lambda: draw.integer(31, 289))
    region = Region(
        first_day=date(2026, draw.integer(4, 8), draw.integer(1, 20)).isoformat(),
        stations=_stations(draw, {name: systems[place % 3] for place, name in enumerate(names)}),
        fields={
            title: CropField(
                crop=draw.choice(crops),
                stage=draw.choice(STAGES),
                area=areas[place] / 10,
                area_unit=draw.choice(("hectare", "acre")),
                station=names[place % stations],
                backup_station=names[(place + 1) % stations],
            )
            for place, title in enumerate(titles)
        },
        soil={title: _soil(draw) for title in titles},
        crops={name: _crop(draw, yields[place] / 10) for place, name in enumerate(crops)},
        prices=_prices(draw, crops),
    )
    return Season(region)


def _field_names(draw: Draw, count: int) -> list[str]:
    """Draw names that look alike: each side and each place stands in several."""
    sides, places = draw.sample(_SIDES, 2), draw.sample(_PLACES, 3)
    return draw.sample([f"{side} {place}" for side in sides for place in places], count)


def _stations(draw: Draw, systems: Mapping[str, str]) -> dict[str, Station]:
    """Rain and wind of a day differ between stations, and it rains once in three days: no call is planned twice."""
    rain = [distinct(len(systems), lambda: draw.integer(2, 29)) for _ in range(DAYS)]
    wind = [distinct(len(systems), lambda: draw.integer(3, 24)) for _ in range(DAYS)]
    stations = {}
    for place, (name, system) in enumerate(systems.items()):
        wet = draw.integer(0, 2)
        fallen = [amounts[place] if day % 3 == wet or draw.chance(0.3) else 0 for day, amounts in enumerate(rain)]
        stations[name] = _station(draw, system, fallen, [speeds[place] for speeds in wind])
    return stations


def _station(draw: Draw, system: str, rain: Sequence[int], wind: Sequence[int]) -> Station:
    """Draw readings in half degrees Celsius, which are tenths of a degree Fahrenheit: nothing is lost on the way."""
    lows = [draw.integer(16, 36) for _ in range(DAYS)]
    highs = [low + draw.integer(14, 32) for low in lows]
    water = [draw.integer(31, 85, 2) for _ in range(DAYS)]
    readings: dict[Measure, Sequence[Number | None]]
    if system == "us":
        readings = {"high": [_fahrenheit(half) for half in highs], "low": [_fahrenheit(half) for half in lows]}
        readings["rain"] = [amount / 50 for amount in rain]
        readings["et0"] = [(amount // 5 * 2 + 1) / 100 for amount in water]
        readings["wind"] = list(wind)
    else:
        readings = {"high": [half / 2 for half in highs], "low": [half / 2 for half in lows]}
        readings["rain"] = [(4 * amount + 3) / 10 if amount else 0 for amount in rain]
        readings["et0"] = [amount / 10 for amount in water]
        readings["wind"] = [(4 * speed + 3) / 10 for speed in wind]
    return Station(system, readings)


def _fahrenheit(half_degrees: int) -> float:
    return (320 + 9 * half_degrees) / 10


def _soil(draw: Draw) -> list[Number]:
    return [draw.integer(52, 78) / 10, draw.integer(12, 55), draw.integer(8, 60), draw.integer(60, 320)]


def _crop(draw: Draw, yield_t_ha: float) -> Crop:
    stages = {
        stage: [draw.integer(low, low + 20) / 100, draw.integer(65, 190)]
        for stage, low in zip(STAGES, (60, 80, 105, 70), strict=True)
    }
    return Crop(draw.integer(4, 10), draw.integer(12, 180), yield_t_ha, stages)


def _prices(draw: Draw, crops: Iterable[str]) -> dict[str, list[Any]]:
    products = {name: draw.integer(140, 620) for name in crops}  # dollars per tonne
    prices: dict[str, list[Any]] = {name: _price(draw, dollars) for name, dollars in products.items()}
    for name, percent in zip(FERTILIZERS, (46, 34, 15), strict=True):
        prices[name] = [*_price(draw, draw.integer(290, 780)), percent]
    unit = draw.choice(("m3", "1000 gallons"))
    prices["water"] = [draw.integer(9, 60) / 100 if unit == "m3" else draw.integer(40, 210) / 100, unit]
    return prices


def _price(draw: Draw, per_tonne: int) -> list[Any]:
    unit = draw.choice(("tonne", "kg", "lb"))
    per_unit: dict[str, Number] = {"tonne": per_tonne, "kg": per_tonne / 1000, "lb": round(per_tonne * 0.45) / 1000}
    return [per_unit[unit], unit]


# Plans


class SeasonScript(PlanWriter):
    """A plan in the sources' verbs; what the calculators get is in °C, mm, hectares and kilograms."""

    def __init__(self, season: Season) -> None:
        super().__init__()
        self.season = season

    def field(self, name: str) -> Ref:
        return self.call(f"Look up the field {name}.", "field_info", {"field": name})

    def soil(self, name: str, *, missing: bool = False) -> Ref:
        return self.call(f"Get the soil sample of {name}.", "soil_sample", {"field": name}, fails=missing)

    def crop(self, name: str, field: Ref, after: Iterable[Ref] = ()) -> Ref:
        """Plan to look up the table for what grows on the field `name`, at its stage."""
        arguments = {"crop": part(field, "crop"), "stage": part(field, "stage")}
        return self.call(f"Look up what the crop of {name} needs now.", "crop_table", arguments, after=after)

    def crop_named(self, name: str, stage: str) -> Ref:
        return self.call(f"Look up the table of {name}.", "crop_table", {"crop": name, "stage": stage})

    def weather(
        self, what: str, station: str, known_as: Ref, measure: Measure, first: int, last: int, *, after: Iterable[Ref] = ()
    ) -> Ref:
        """Plan to read the daily values in metric units. `known_as`: where the plan has the station's name from."""
        read = self._read_weather(what, measure, self._weather_arguments(known_as, measure, first, last), after, False)
        unit = UNITS[self.season.region.stations[station].system][measure]
        to_unit = UNITS["metric"][measure]
        return (
            part(read, "values") if unit == to_unit else self.convert(f"{measure} of {what}", part(read, "values"), unit, to_unit)
        )

    def own_weather(self, name: str, field: Ref, measure: Measure, first: int, last: int) -> Ref:
        """Plan to read the station of the field `name`, which `field` has looked up."""
        return self.weather(name, self.season.field(name).station, part(field, "station"), measure, first, last)

    def no_weather(self, what: str, known_as: Ref, measure: Measure, first: int, last: int, after: Iterable[Ref] = ()) -> Ref:
        """Plan to read a station that has not measured."""
        return self._read_weather(what, measure, self._weather_arguments(known_as, measure, first, last), after, True)

    def _weather_arguments(self, station: Ref, measure: Measure, first: int, last: int) -> dict[str, Any]:
        day = self.season.day
        return {"station": station, "measure": measure, "first": day(first), "last": day(last)}

    def _read_weather(self, what: str, measure: Measure, arguments: Mapping[str, Any], after: Iterable[Ref], fails: bool) -> Ref:
        return self.call(f"Read {measure} for {what}.", "weather", arguments, after=after, fails=fails)

    def convert(self, what: str, values: Any, from_unit: str, to_unit: str) -> Ref:
        """Plan a conversion, and return the reference to the converted list."""
        arguments = {"values": values, "from_unit": from_unit, "to_unit": to_unit}
        return part(self.call(f"Convert {what} from {from_unit} to {to_unit}.", "convert_units", arguments), "values")

    def hectares(self, name: str, field: Ref) -> Ref:
        area = part(field, "area")
        if self.season.field(name).area_unit == "hectare":
            return area
        return part(self.convert(f"the area of {name}", [area], "acre", "hectare"), 0)

    def price(self, product: str | Ref, what: str, *, missing: bool = False) -> Ref:
        return self.call(f"Ask for the price of {what}.", "market_price", {"product": product}, fails=missing)

    def cost(self, product: str, amount: Ref, price: Ref) -> Ref:
        """Plan the calls for the dollars for kilograms, or cubic metres of water, at a price that may be per another unit."""
        unit, own = self.season.region.prices[product][1], "m3" if product == "water" else "kg"
        counted = amount if unit == own else part(self.convert(f"the amount of {product}", [amount], own, unit), 0)
        return self.calculate(f"what the {product} comes to", "product", [counted, part(price, "dollars")])

    def degree_days(self, what: str, highs: Ref, lows: Ref, crop: Ref) -> Ref:
        arguments = {"highs_c": highs, "lows_c": lows, "base_c": part(crop, "base_c")}
        degree_days = self.call(f"Add up the growing degree days of {what}.", "growing_degree_days", arguments)
        return part(degree_days, "growing_degree_days")

    def irrigation(self, what: str, et0: Ref, crop: Ref, rain: Ref, hectares: Ref) -> Ref:
        """Plan the call, and return the reference to the cubic metres."""
        arguments = {"et0_mm": et0, "kc": part(crop, "kc"), "rain_mm": rain, "hectares": hectares}
        return part(self.call(f"Work out the irrigation of {what}.", "irrigation_need", arguments), "cubic_metres")

    def fertilizer(self, what: str, crop: Ref, soil: Ref, price: Ref, hectares: Ref) -> Ref:
        """Plan the call, and return the reference to the kilograms of the product with this price."""
        arguments = {
            "needed_kg_ha": part(crop, "nitrogen_kg_ha"),
            "present_kg_ha": part(soil, "nitrogen_kg_ha"),
            "nitrogen_percent": part(price, "nitrogen_percent"),
            "hectares": hectares,
        }
        return part(self.call(f"Work out the fertilizer for {what}.", "fertilizer_amount", arguments), "kg")

    def calculate(self, what: str, operation: str, numbers: Any, after: Iterable[Ref] = ()) -> Ref:
        """Plan a calculation, and return the reference to its result; `what`: the result's name."""
        arguments = {"operation": operation, "numbers": numbers}
        return part(self.call(f"Calculate {what}.", "calculate", arguments, after=after), "result")
