"""What the stories are about: a region drawn at random, and the plan in the sources' own verbs, with a conversion wherever a source
reports in another unit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from whichloop.protocol import Ref

from ..generating import Draft, Draw, distinct, part
from ..story import Story, Wording
from ..task import Task, WorldEnvironment
from .region import FIELD, MEASURES, STAGES, TOOLS, UNITS, Measure, Region

SCORER = "numeric(tolerance=0.002)"
"""Rounding the answer, and a factor or two on the way, to four significant digits costs less than this tolerance."""
DAYS = 7
FERTILIZERS = ("urea", "ammonium nitrate", "calcium nitrate")
Days = tuple[int, int]
"""The first and the last day, both included; day 0 is the first one of the records."""

_CROPS = ("maize", "wheat", "soybean", "sunflower", "potato", "sorghum", "barley", "cotton")
_SIDES = ("North", "South", "Upper", "Lower", "Long", "Far", "Old", "Stony")
_PLACES = ("Ridge", "Mill", "Meadow", "Acre", "Bottom", "Croft", "Terrace", "Hollow")


def open_region(task: Task) -> WorldEnvironment[Region]:
    return TOOLS.over(Region(task.world))


class SeasonStory(Story):
    """A region, and what is looked up and calculated there: in °C, mm, m/s, hectares, kilograms and dollars, and exact."""

    wording = Wording(__file__)
    region: dict[str, Any]
    """See `Region.world`. Whoever changes it begins the plan anew, by `restart`."""

    def settle(self) -> None:
        self.begin(TOOLS.over(Region(self.region, is_exact=True)), self.region)

    @property
    def fields(self) -> list[str]:
        return list(self.region["fields"])

    def fact(self, name: str, about: str) -> Any:
        """Return what `field_info` tells about a field."""
        return self.region["fields"][name][FIELD.index(about)]

    def day(self, number: int) -> str:
        return (date.fromisoformat(self.region["first_day"]) + timedelta(days=number)).isoformat()

    def days(self, least: int = 3) -> Days:
        """Draw `least` to 6 days."""
        length = self.integer(least, 6)
        first = self.integer(0, DAYS - length)
        return first, first + length - 1

    def seasons(self, fields: int = 3) -> Iterator[None]:
        """Draw season after season; the plan begins anew with each."""
        while True:
            self.draw_season(fields)
            self.restart()
            yield

    def lose_reading(self, station: str, measure: Measure, day: int) -> None:
        self.region["stations"][station][1 + MEASURES.index(measure)][day] = None
        self.restart()

    def farm(self, answer: Any, names: Mapping[str, Any]) -> Draft:
        """Return the task."""
        span = f"from {self.day(names['days'][0])} to {self.day(names['days'][1])}" if "days" in names else ""
        known = {**names, "span": span}
        known["wish"] = self.say("wish", known)
        known["farmer"] = self.say("farmer", {})
        draft = self.draft(f"{self.say('question', known)} {self.wording.texts['answer_format']}", answer, SCORER)
        return draft if answer is None else replace(draft, expected=float(draft.expected))

    # Drawing

    def draw_season(self, fields: int = 3) -> None:
        """Draw two or three fields, each with a station, and crops, prices and soil for all."""
        crops, yields = self.sample(_CROPS, 3), distinct(3, lambda: self.integer(18, 95))
        names = [f"{letter}{self.integer(11, 29)}" for letter in self.sample("KLMRS", 3)]
        systems = self.shuffled(("us", "metric", self.choice(("us", "metric"))))
        sides, places = self.sample(_SIDES, 2), self.sample(_PLACES, 3)
        titles = self.sample([f"{side} {place}" for side in sides for place in places], fields)  # that look alike
        areas = distinct(fields, lambda: self.integer(31, 289))
        self.region = {
            "first_day": date(2026, self.integer(4, 8), self.integer(1, 20)).isoformat(),
            "stations": _stations(self, dict(zip(names, systems, strict=True))),
            "fields": {
                title: [self.choice(crops), self.choice(STAGES), area / 10, self.choice(("hectare", "acre")), name, backup]
                for title, area, name, backup in zip(titles, areas, names, [*names[1:], names[0]], strict=False)
            },
            "soil": {
                title: [self.integer(52, 78) / 10, self.integer(12, 55), self.integer(8, 60), self.integer(60, 320)]
                for title in titles
            },
            "crops": {name: _crop(self, tonnes / 10) for name, tonnes in zip(crops, yields, strict=True)},
            "prices": _prices(self, crops),
        }

    # Plans

    def field(self, name: str) -> Ref:
        return self.call(f"Look up the field {name}.", "field_info", {"field": name})

    def soil(self, name: str, *, fails: bool = False) -> Ref:
        return self.call(f"Get the soil sample of {name}.", "soil_sample", {"field": name}, fails=fails)

    def crop(self, name: str, field: Ref, after: Iterable[Ref] = ()) -> Ref:
        """Plan to look up the table for what grows on the field `name`, at its stage."""
        arguments = {"crop": part(field, "crop"), "stage": part(field, "stage")}
        return self.call(f"Look up what the crop of {name} needs now.", "crop_table", arguments, after=after)

    def crop_named(self, name: str, stage: str) -> Ref:
        return self.call(f"Look up the table of {name}.", "crop_table", {"crop": name, "stage": stage})

    def weather(
        self,
        name: str,
        field: Ref,
        measure: Measure,
        days: Days,
        *,
        backup: bool = False,
        after: Iterable[Ref] = (),
        fails: bool = False,
    ) -> Ref:
        """Plan to read, in metric units, the station of the field `name`, which `field` has looked up, or the backup station."""
        what, station = (f"{name}, from the other station,", "backup_station") if backup else (name, "station")
        arguments = {"station": part(field, station), "measure": measure, "first": self.day(days[0]), "last": self.day(days[1])}
        read = self.call(f"Read {measure} for {what}.", "weather", arguments, after=after, fails=fails)
        unit, to_unit = UNITS[self.region["stations"][self.fact(name, station)][0]][measure], UNITS["metric"][measure]
        values = part(read, "values")
        return read if fails else values if unit == to_unit else self.convert(f"{measure} of {what}", values, unit, to_unit)

    def convert(self, what: str, values: Any, from_unit: str, to_unit: str) -> Ref:
        """Plan a conversion, and return the reference to the converted list."""
        arguments = {"values": values, "from_unit": from_unit, "to_unit": to_unit}
        return part(self.call(f"Convert {what} from {from_unit} to {to_unit}.", "convert_units", arguments), "values")

    def hectares(self, name: str, field: Ref) -> Ref:
        area = part(field, "area")
        if self.fact(name, "area_unit") == "hectare":
            return area
        return part(self.convert(f"the area of {name}", [area], "acre", "hectare"), 0)

    def price(self, product: str | Ref, what: str, *, fails: bool = False) -> Ref:
        return self.call(f"Ask for the price of {what}.", "market_price", {"product": product}, fails=fails)

    def cost(self, product: str, amount: Ref, price: Ref) -> Ref:
        """Plan the calls for the dollars for kilograms, or cubic metres of water, at a price that may be per another unit."""
        unit, own = self.region["prices"][product][1], "m3" if product == "water" else "kg"
        counted = amount if unit == own else part(self.convert(f"the amount of {product}", [amount], own, unit), 0)
        return self.calculate(f"what the {product} comes to", "product", [counted, part(price, "dollars")])

    def degree_days(self, what: str, highs: Ref, lows: Ref, crop: Ref) -> Ref:
        arguments = {"highs_c": highs, "lows_c": lows, "base_c": part(crop, "base_c")}
        goal = f"Add up the growing degree days of {what}."
        return part(self.call(goal, "growing_degree_days", arguments), "growing_degree_days")

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


def _stations(draw: Draw, systems: Mapping[str, str]) -> dict[str, list[Any]]:
    """Rain and wind of a day differ between stations, and it rains once in three days: no call is planned twice."""
    rain = [distinct(len(systems), lambda: draw.integer(2, 29)) for _ in range(DAYS)]
    wind = [distinct(len(systems), lambda: draw.integer(3, 24)) for _ in range(DAYS)]
    stations = {}
    for place, (name, system) in enumerate(systems.items()):
        wet = draw.integer(0, 2)
        fallen = [amounts[place] if day % 3 == wet or draw.chance(0.3) else 0 for day, amounts in enumerate(rain)]
        stations[name] = [system, *_readings(draw, system == "us", fallen, [speeds[place] for speeds in wind])]
    return stations


def _readings(draw: Draw, us: bool, rain: Sequence[int], wind: Sequence[int]) -> list[list[float]]:
    """Draw readings in half degrees Celsius, which are tenths of a degree Fahrenheit: nothing is lost on the way."""
    lows = [draw.integer(16, 36) for _ in range(DAYS)]
    highs = [low + draw.integer(14, 32) for low in lows]
    water = [draw.integer(31, 85, 2) for _ in range(DAYS)]
    return [
        *([(320 + 9 * half) / 10 if us else half / 2 for half in halves] for halves in (highs, lows)),
        [amount / 50 if us else (4 * amount + 3) / 10 if amount else 0 for amount in rain],
        [(amount // 5 * 2 + 1) / 100 if us else amount / 10 for amount in water],
        [speed if us else (4 * speed + 3) / 10 for speed in wind],
    ]


def _crop(draw: Draw, yield_t_ha: float) -> list[Any]:
    stages = [[draw.integer(low, low + 20) / 100, draw.integer(65, 190)] for low in (60, 80, 105, 70)]
    return [draw.integer(4, 10), draw.integer(12, 180), yield_t_ha, *stages]


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
    return [{"tonne": per_tonne, "kg": per_tonne / 1000, "lb": round(per_tonne * 0.45) / 1000}[unit], unit]
