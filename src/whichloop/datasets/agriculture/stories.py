"""The stories: chains of sources and calculations, some of them with readings that are missing. Their wording: `wording.toml`."""

from __future__ import annotations

from fractions import Fraction

from whichloop.protocol import Ref

from ..generating import Draft, part
from .region import Measure
from .season import DAYS, FERTILIZERS, Days, SeasonStory

_TEMPERATURES: tuple[Measure, ...] = ("high", "low")


def _rain(s: SeasonStory, name: str, field: Ref, days: Days) -> Ref:
    return s.calculate(f"the rain on {name}", "sum", s.weather(name, field, "rain", days))


def _water(s: SeasonStory, name: str, days: Days, field: Ref, rain: Ref) -> Ref:
    """Plan the calls for the cubic metres of water that a field lacks."""
    crop, et0 = s.crop(name, field), s.weather(name, field, "et0", days)
    return s.irrigation(name, et0, crop, rain, s.hectares(name, field))


def _watered(s: SeasonStory, place: int, days: Days, least: int) -> tuple[str, Ref]:
    """Draw seasons until a field lacks more than so many cubic metres; return its name, and the reference to them."""
    for _ in s.seasons():
        name = s.fields[place]
        field = s.field(name)
        water = _water(s, name, days, field, s.weather(name, field, "rain", days))
        if s.seen(water) > least:
            break
    return name, water


def seed(s: SeasonStory) -> Draft:
    s.draw_season()
    names, crop_name = s.shuffled(s.fields), s.choice(list(s.region["crops"]))
    areas = [s.hectares(name, s.field(name)) for name in names]
    crop = s.crop_named(crop_name, "emergence")
    total = s.calculate("the hectares of all three", "sum", areas)
    answer = s.calculate("the kilograms of seed", "product", [total, part(crop, "seed_kg_ha")])
    return s.farm(answer, locals() | {"listed": f"{names[0]}, {names[1]} and {names[2]}"})


def rain_range(s: SeasonStory) -> Draft:
    days = s.days()
    for _ in s.seasons():
        refs, names = [s.field(name) for name in s.fields], s.fields
        sums = [_rain(s, name, field, days) for name, field in zip(names, refs, strict=True)]
        if max(s.seen(sums)) - min(s.seen(sums)) > 2:
            break
    most, least = s.calculate("the most rain", "maximum", sums), s.calculate("the least rain", "minimum", sums)
    return s.farm(s.calculate("how far apart they are", "difference", [most, least]), locals())


def better_crop(s: SeasonStory) -> Draft:
    for _ in s.seasons(fields=2):
        names, values = list(s.region["crops"])[:2], []
        for name in names:
            crop, price = s.crop_named(name, "ripening"), s.price(name, name)
            kilograms = s.calculate(f"the kilograms of {name}", "product", [part(crop, "yield_t_ha"), 1000])
            values.append(s.cost(name, kilograms, price))
        worth = s.seen(values)
        if abs(worth[0] - worth[1]) > 40:
            break
    best = worth.index(max(worth))
    return s.farm(s.calculate("how much better the one is", "difference", [values[best], values[1 - best]]), locals())


def drier_field(s: SeasonStory) -> Draft:
    """Which of two fields had less rain decides which one's fertilizer is asked for."""
    days, product = s.days(least=4), s.choice(FERTILIZERS)
    for _ in s.seasons():
        names = s.fields[:2]
        refs = [s.field(each) for each in names]
        fallen = [_rain(s, each, field, days) for each, field in zip(names, refs, strict=True)]
        first, second = s.seen(fallen)
        if abs(first - second) <= 3:
            continue
        drier = int(second < first)
        crop = s.crop("the drier field", refs[drier], after=fallen)
        soil, price = s.soil(names[drier]), s.price(product, product)
        answer = s.fertilizer("the drier field", crop, soil, price, s.hectares(names[drier], refs[drier]))
        if s.seen(answer) > 50:
            break
    return s.farm(answer, locals())


def calm_field(s: SeasonStory) -> Draft:
    day, dose = s.integer(0, DAYS - 1), s.integer(11, 49)
    for _ in s.seasons():
        names, refs = s.fields, [s.field(each) for each in s.fields]
        read = [part(s.weather(each, field, "wind", (day, day)), 0) for each, field in zip(names, refs, strict=True)]
        winds = [Fraction(str(wind)) for wind in s.seen(read)]
        slowest, second, _fastest = sorted(winds)
        if second - slowest > Fraction(1, 2):
            break
    calmest, rate, date = winds.index(slowest), dose / 10, s.day(day)
    least = s.calculate("the lightest wind", "minimum", read)
    area = s.hectares(names[calmest], refs[calmest])
    return s.farm(s.calculate("the litres of spray", "product", [area, rate], after=[least]), locals())


# Chains


def degree_days(s: SeasonStory) -> Draft:
    """Warmth needs the field's station, and the base temperature of its crop."""
    s.draw_season()
    days, name = s.days(), s.choice(s.fields)
    field = s.field(name)
    crop = s.crop(name, field)
    highs, lows = (s.weather(name, field, measure, days) for measure in _TEMPERATURES)
    return s.farm(s.degree_days(name, highs, lows, crop), locals())


def irrigation(s: SeasonStory) -> Draft:
    days = s.days()
    name, answer = _watered(s, 1, days, 80)
    return s.farm(answer, locals())


def water_bill(s: SeasonStory) -> Draft:
    days = s.days()
    name, water = _watered(s, 0, days, 120)
    return s.farm(s.cost("water", water, s.price("water", "water")), locals())


def fertilizer_bill(s: SeasonStory) -> Draft:
    product = s.choice(FERTILIZERS)
    for _ in s.seasons():
        name = s.fields[2]
        field, soil, price = s.field(name), s.soil(name), s.price(product, product)
        amount = s.fertilizer(name, s.crop(name, field), soil, price, s.hectares(name, field))
        if s.seen(amount) > 50:
            break
    return s.farm(s.cost(product, amount, price), locals())


def harvest_value(s: SeasonStory) -> Draft:
    s.draw_season()
    name = s.choice(s.fields)
    field = s.field(name)
    crop = s.crop(name, field)
    price = s.price(part(field, "crop"), f"the crop of {name}")
    harvest = s.calculate("the kilograms of the harvest", "product", [s.hectares(name, field), part(crop, "yield_t_ha"), 1000])
    return s.farm(s.cost(s.fact(name, "crop"), harvest, price), locals())


def heat_margin(s: SeasonStory) -> Draft:
    days = s.days()
    for _ in s.seasons():
        name = s.fields[0]
        field = s.field(name)
        crop = s.crop(name, field)
        means = [s.calculate(f"the mean {measure}", "mean", s.weather(name, field, measure, days)) for measure in _TEMPERATURES]
        mean = s.calculate("the mean of both means", "mean", means)
        answer = s.calculate("how far it lies above the base", "difference", [mean, part(crop, "base_c")])
        if s.seen(answer) > 2:
            break
    return s.farm(answer, locals())


# Readings that are missing


def backup_station(s: SeasonStory) -> Draft:
    """The field's own station has missed a day of rain; the other one steps in."""
    days = s.days(least=4)

    def planned(missed: bool) -> Ref:
        field = s.field(name)
        failed = [s.weather(name, field, "rain", days, fails=True)] if missed else []
        return _water(s, name, days, field, s.weather(name, field, "rain", days, backup=True, after=failed))

    for _ in s.seasons():
        name = s.fields[0]
        if s.seen(planned(missed=False)) > 80:
            break
    s.lose_reading(s.fact(name, "station"), "rain", s.integer(*days))
    return s.farm(planned(missed=True), locals())


def no_readings(s: SeasonStory) -> Draft:
    """Both stations have missed the same day of rain."""
    s.draw_season()
    days, name = s.days(), s.choice(s.fields)
    missing = s.integer(*days)
    for station in ("station", "backup_station"):
        s.lose_reading(s.fact(name, station), "rain", missing)
    field = s.field(name)
    missed = s.weather(name, field, "rain", days, fails=True)
    s.weather(name, field, "rain", days, backup=True, after=[missed], fails=True)
    return s.farm(None, locals())


def no_sample(s: SeasonStory) -> Draft:
    """The soil of this field was never sampled; that of the others was."""
    s.draw_season()
    product, name = s.choice(FERTILIZERS), s.choice(s.fields)
    del s.region["soil"][name]
    s.crop(name, s.field(name))
    s.soil(name, fails=True)
    return s.farm(None, locals())


def not_traded(s: SeasonStory) -> Draft:
    s.draw_season()
    name = s.choice(s.fields)
    del s.region["prices"][s.fact(name, "crop")]
    field = s.field(name)
    s.crop(name, field)
    s.price(part(field, "crop"), f"the crop of {name}", fails=True)
    return s.farm(None, locals())


STORIES = (
    degree_days, seed, fertilizer_bill, irrigation, rain_range, harvest_value, backup_station, better_crop, water_bill,
    calm_field, heat_margin, drier_field,
)  # fmt: skip
UNANSWERABLE = (no_readings, no_sample, not_traded)
