"""Stories of several fields, stations or crops, whose branches join in one calculation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from whichloop.datasets.generating import Draft, Draw, draw_until, part

from .region import Measure
from .season import DAYS, FERTILIZERS, Season, SeasonScript, draft, draw_season


def season_where(draw: Draw, fits: Callable[[Season], bool], fields: int = 3, stations: int = 3) -> Season:
    """Draw seasons until one fits, and return it."""
    return draw_until(fits, lambda: draw_season(draw, fields, stations))


def draw_days(draw: Draw, least: int = 3) -> tuple[int, int]:
    """Draw the first and the last of `least` to 6 days."""
    length = draw.integer(least, 6)
    first = draw.integer(0, DAYS - length)
    return first, first + length - 1


def without_readings(season: Season, station: str, measure: Measure, day: int) -> Season:
    """Return the season with one reading of a station missing."""
    facts = season.region.stations[station]
    values = [None if number == day else value for number, value in enumerate(facts.readings[measure])]
    broken = replace(facts, readings={**facts.readings, measure: values})
    return Season(replace(season.region, stations={**season.region.stations, station: broken}))


def who(draw: Draw) -> str:
    name = draw.choice(("Ana", "Bohdan", "Chipo", "Dao", "Elif", "Farid", "Gita", "Hugo", "Isla", "Juma", "Karin", "Luis"))
    return draw.pick(
        f"{name} runs a farm and asks for advice.",
        f"A question from {name}, who has just taken over the farm:",
        f"You advise {name} on what to do this week.",
        f"{name} calls from the tractor.",
        f"For the meeting of the cooperative {name} needs one figure.",
        f"{name} is filling in the farm's log book.",
        f"The agronomist {name} wants to check an estimate.",
        f"{name} has been asked by the bank.",
        f"Before breakfast {name} sends this:",
        f"{name} and a neighbour disagree, so they turn to you.",
        f"At the weekly market {name} stops you.",
    )


def aside(draw: Draw) -> str:
    """Draw a sentence that does not matter."""
    return draw.pick(
        f"The neighbour has {draw.integer(12, 90)} sheep.",
        f"Last year it was {draw.integer(11, 39)} percent more.",
        "The hedges were cut in winter.",
        f"The old tractor has {draw.integer(40, 120)} horsepower.",
        "Nobody trusts the almanac any more.",
        f"The radio promises {draw.integer(1, 9)} mm of rain for next week.",
        f"The barn roof was mended for ${draw.integer(300, 900)}.",
        "The bees are doing well.",
        "A fence post is missing at the lane.",
        f"The well is {draw.integer(21, 64)} m deep.",
        "Two swallows have come back.",
        f"A lorry comes at {draw.integer(13, 17)}:00.",
        "The dog has chewed up the calendar.",
        f"The lane is {draw.integer(2, 9)} km long and full of holes.",
        "Somebody has left the gate open again.",
    )


def between(season: Season, days: tuple[int, int]) -> str:
    return f"from {season.day(days[0])} to {season.day(days[1])}"


def seed(draw: Draw) -> Draft:
    """Three fields at once: their areas together, in one unit, times the rate of a crop."""
    season = draw_season(draw)
    names, crop_name = draw.shuffled(season.fields), draw.choice(list(season.region.crops))
    script = SeasonScript(season)
    areas = [script.hectares(name, script.field(name)) for name in names]
    crop = script.crop_named(crop_name, "emergence")
    total = script.calculate("the hectares of all three", "sum", areas)
    answer = script.calculate("the kilograms of seed", "product", [total, part(crop, "seed_kg_ha")])
    expected = sum((season.hectares(name) for name in names), Fraction(0)) * Fraction(season.region.crops[crop_name].seed_kg_ha)
    listed = f"{names[0]}, {names[1]} and {names[2]}"
    wish = draw.pick(
        f"Next year {listed} will all be sown with {crop_name}. How many kilograms of seed are needed?",
        f"How many kilograms of {crop_name} seed must be ordered to sow {listed}?",
        f"{listed}: suppose all of it became {crop_name}; how many kg of seed would go into the ground?",
    )
    return draft(script, (who(draw), wish, aside(draw)), answer, expected)


def rain_range(draw: Draw) -> Draft:
    """The stations of three fields, in two systems of units, compared."""
    days = draw_days(draw)

    def apart(season: Season) -> Fraction:
        fell = [season.rain(season.field(name).station, *days) for name in season.fields]
        return max(fell) - min(fell)

    season = season_where(draw, lambda s: apart(s) > 2)
    names = season.fields
    script = SeasonScript(season)
    field_refs = [script.field(name) for name in names]
    sums = []
    for name, field in zip(names, field_refs, strict=True):
        rain = script.own_weather(name, field, "rain", *days)
        sums.append(script.calculate(f"the rain on {name}", "sum", rain))
    most = script.calculate("the most rain", "maximum", sums)
    least = script.calculate("the least rain", "minimum", sums)
    answer = script.calculate("how far apart they are", "difference", [most, least])
    wish = draw.pick(
        f"{', '.join(names)}: by how many mm of rain do the wettest and the driest of these fields differ {between(season, days)}?",
        f"Rain {between(season, days)} was uneven over {', '.join(names)}. How many millimetres lie between most and least?",
    )
    return draft(script, (who(draw), aside(draw), wish), answer, apart(season))


def better_crop(draw: Draw) -> Draft:
    """Two crops, each with a yield and a price in a unit of its own."""

    def worth(season: Season) -> list[Fraction]:
        return [Fraction(str(crop.yield_t_ha)) * 1000 * season.price(name) for name, crop in season.region.crops.items()][:2]

    season = season_where(draw, lambda s: abs(worth(s)[0] - worth(s)[1]) > 40, fields=2)
    names = list(season.region.crops)[:2]
    script = SeasonScript(season)
    values = []
    for name in names:
        crop, price = script.crop_named(name, "ripening"), script.price(name, name)
        kilograms = script.calculate(f"the kilograms of {name}", "product", [part(crop, "yield_t_ha"), 1000])
        values.append(script.cost(name, kilograms, price))
    best = worth(season).index(max(worth(season)))
    answer = script.calculate("how much better the one is", "difference", [values[best], values[1 - best]])
    wish = draw.pick(
        f"Of {names[0]} and {names[1]}, one brings more from a hectare with its usual yield at today's "
        "price. How many dollars more?",
        f"How many dollars lie between a hectare of {names[0]} and one of {names[1]}, usual yields and today's prices given?",
    )
    return draft(script, (who(draw), wish, aside(draw)), answer, max(worth(season)) - min(worth(season)))


def drier_field(draw: Draw) -> Draft:
    """Which of two fields had less rain decides which one's fertilizer is asked for."""
    days, product = draw_days(draw, least=4), draw.choice(FERTILIZERS)

    def rain(season: Season, name: str) -> Fraction:
        return season.rain(season.field(name).station, *days)

    def drier(season: Season) -> str:
        return min(season.fields[:2], key=lambda name: rain(season, name))

    season = season_where(
        draw,
        lambda s: abs(rain(s, s.fields[0]) - rain(s, s.fields[1])) > 3 and s.fertilizer(drier(s), product) > 50,
    )
    names, name = season.fields[:2], drier(season)
    script = SeasonScript(season)
    field_refs = [script.field(each) for each in names]
    fallen = []
    for each, field in zip(names, field_refs, strict=True):
        values = script.own_weather(each, field, "rain", *days)
        fallen.append(script.calculate(f"the rain on {each}", "sum", values))
    field = field_refs[names.index(name)]
    crop = script.crop("the drier field", field, after=fallen)
    soil, price = script.soil(name), script.price(product, product)
    answer = script.fertilizer("the drier field", crop, soil, price, script.hectares(name, field))
    wish = draw.pick(
        f"Of {names[0]} and {names[1]} only the one that had less rain {between(season, days)} gets "
        f"{product}, as much as its "
        "crop lacks nitrogen now. How many kilograms?",
        f"{product.capitalize()} goes on {names[0]} or {names[1]}, whichever was drier {between(season, days)}, to meet "
        "the present nitrogen need of the crop: how many kg are that?",
    )
    return draft(script, (who(draw), wish, aside(draw)), answer, season.fertilizer(name, product))


def calm_field(draw: Draw) -> Draft:
    """The wind of a day at three stations decides which field is sprayed."""
    day, dose = draw.integer(0, DAYS - 1), draw.integer(11, 49)

    def winds(season: Season) -> list[Fraction]:
        return [season.readings(season.field(name).station, "wind", day, day)[0] for name in season.fields]

    def is_clear(season: Season) -> bool:
        slowest, second, _ = sorted(winds(season))
        return second - slowest > Fraction(1, 2)

    season = season_where(draw, is_clear)
    names = season.fields
    calmest = winds(season).index(min(winds(season)))
    name = names[calmest]
    script = SeasonScript(season)
    field_refs = [script.field(each) for each in names]
    read = [script.own_weather(each, field, "wind", day, day) for each, field in zip(names, field_refs, strict=True)]
    least = script.calculate("the lightest wind", "minimum", [part(values, 0) for values in read])
    area = script.hectares(name, field_refs[calmest])
    answer = script.calculate("the litres of spray", "product", [area, dose / 10], after=[least])
    expected = season.hectares(name) * Fraction(dose, 10)
    wish = draw.pick(
        f"On {season.day(day)} the field with the lightest wind, {', '.join(names[:-1])} or {names[-1]}, was sprayed with "
        f"{dose / 10} litres per hectare. How many litres was that?",
        f"{', '.join(names[:-1])} or {names[-1]}: spray only where the wind was lightest on "
        f"{season.day(day)}, {dose / 10} l on a "
        "hectare. How many litres go into the tank?",
    )
    return draft(script, (who(draw), wish, aside(draw)), answer, expected)
