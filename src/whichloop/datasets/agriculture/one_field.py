"""Stories of one field: chains of sources and calculations, some of them with readings that are missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from whichloop.datasets.generating import Draft, Draw, draw_until, part
from whichloop.protocol import Ref

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


_TEMPERATURES: tuple[Measure, ...] = ("high", "low")


# Chains


def degree_days(draw: Draw) -> Draft:
    """Warmth needs the field's station, and the base temperature of its crop."""
    season, days = draw_season(draw), draw_days(draw)
    name = draw.choice(season.fields)
    station = season.field(name).station
    script = SeasonScript(season)
    field = script.field(name)
    crop = script.crop(name, field)
    highs = script.own_weather(name, field, "high", *days)
    lows = script.own_weather(name, field, "low", *days)
    answer = script.degree_days(name, highs, lows, crop)
    base = Fraction(season.crop(name).base_c)
    pairs = zip(season.readings(station, "high", *days), season.readings(station, "low", *days), strict=True)
    expected = sum((max(Fraction(0), (high + low) / 2 - base) for high, low in pairs), Fraction(0))
    wish = draw.pick(
        f"How many growing degree days, in °C, has the crop on {name} gathered {between(season, days)}?",
        f"What grows on {name} needs warmth: which sum of growing degree days (°C) came together {between(season, days)}?",
        f"Add up the growing degree days of {name} {between(season, days)}, in degrees Celsius.",
    )
    return draft(script, (who(draw), aside(draw), wish), answer, expected)


def _water(script: SeasonScript, name: str, days: tuple[int, int], field: Ref, rain: Ref) -> Ref:
    """Plan the calls for the cubic metres of water that a field lacks."""
    crop = script.crop(name, field)
    et0 = script.own_weather(name, field, "et0", *days)
    return script.irrigation(name, et0, crop, rain, script.hectares(name, field))


def irrigation(draw: Draw) -> Draft:
    """Water for one field: weather, crop coefficient and area."""
    days = draw_days(draw)
    season = season_where(draw, lambda s: s.water(s.fields[1], s.field(s.fields[1]).station, *days) > 80)
    name = season.fields[1]
    station = season.field(name).station
    script = SeasonScript(season)
    field = script.field(name)
    rain = script.own_weather(name, field, "rain", *days)
    answer = _water(script, name, days, field, rain)
    wish = draw.pick(
        f"How many cubic metres of irrigation does {name} lack for the days {between(season, days)}?",
        f"The crop on {name} used water {between(season, days)} and got some rain. How many m3 have to be irrigated?",
        f"{name} is to get back what it lost {between(season, days)}, rain considered: how many cubic metres of water is that?",
    )
    return draft(script, (who(draw), wish, aside(draw)), answer, season.water(name, station, *days))


def water_bill(draw: Draw) -> Draft:
    """The same, and then what it costs: the longest chain."""
    days = draw_days(draw)
    season = season_where(draw, lambda s: s.water(s.fields[0], s.field(s.fields[0]).station, *days) > 120)
    name = season.fields[0]
    station = season.field(name).station
    script = SeasonScript(season)
    field = script.field(name)
    rain = script.own_weather(name, field, "rain", *days)
    answer = script.cost("water", _water(script, name, days, field, rain), script.price("water", "water"))
    expected = season.water(name, station, *days) * season.price("water")
    wish = draw.pick(
        f"Water is bought for what {name} lacked {between(season, days)}. How many dollars will be on the bill?",
        f"What does it cost, in dollars, to irrigate {name} for the water missing {between(season, days)}?",
        f"{between(season, days).capitalize()} the crop on {name} took more water than rain brought; in dollars, what is it worth?",
    )
    return draft(script, (who(draw), wish, aside(draw)), answer, expected)


def fertilizer_bill(draw: Draw) -> Draft:
    """Soil, crop, area and price."""
    product = draw.choice(FERTILIZERS)
    season = season_where(draw, lambda s: s.fertilizer(s.fields[2], product) > 50)
    name = season.fields[2]
    script = SeasonScript(season)
    field, soil, price = script.field(name), script.soil(name), script.price(product, product)
    amount = script.fertilizer(name, script.crop(name, field), soil, price, script.hectares(name, field))
    answer = script.cost(product, amount, price)
    expected = season.fertilizer(name, product) * season.price(product)
    wish = draw.pick(
        f"{name} shall get the nitrogen that its crop needs now and its soil does not hold, as {product}. "
        "How many dollars is that?",
        f"For how many dollars of {product} does {name} lack nitrogen at this stage?",
        f"With {product} at today's price, what does it cost in dollars to bring {name} up to its crop's nitrogen need?",
    )
    return draft(script, (who(draw), aside(draw), wish), answer, expected)


def harvest_value(draw: Draw) -> Draft:
    """Area, usual yield and price, whose unit is another one."""
    season = draw_season(draw)
    name = draw.choice(season.fields)
    crop_name = season.field(name).crop
    script = SeasonScript(season)
    field = script.field(name)
    crop = script.crop(name, field)
    price = script.price(part(field, "crop"), f"the crop of {name}")
    yields = [script.hectares(name, field), part(crop, "yield_t_ha"), 1000]
    answer = script.cost(crop_name, script.calculate("the kilograms of the harvest", "product", yields), price)
    expected = season.hectares(name) * Fraction(str(season.crop(name).yield_t_ha)) * 1000 * season.price(crop_name)
    wish = draw.pick(
        f"What will the harvest of {name} bring in dollars, with a usual yield and at today's price?",
        f"At the price of today and the usual yield, how many dollars stand on {name}?",
        f"{name} is insured for the value of its harvest, as usual yield times price. How many dollars is that?",
    )
    return draft(script, (who(draw), wish, aside(draw)), answer, expected)


def heat_margin(draw: Draw) -> Draft:
    """How far the mean temperature lies above the base temperature."""

    def margin(season: Season) -> Fraction:
        name = season.fields[0]
        both = [value for measure in _TEMPERATURES for value in season.readings(season.field(name).station, measure, *days)]
        return sum(both, Fraction(0)) / len(both) - Fraction(season.crop(name).base_c)

    days = draw_days(draw)
    season = season_where(draw, lambda s: margin(s) > 2)
    name, expected = season.fields[0], margin(season)
    script = SeasonScript(season)
    field = script.field(name)
    crop = script.crop(name, field)
    means = [
        script.calculate(f"the mean {measure}", "mean", script.own_weather(name, field, measure, *days))
        for measure in _TEMPERATURES
    ]
    mean = script.calculate("the mean of both means", "mean", means)
    answer = script.calculate("how far it lies above the base", "difference", [mean, part(crop, "base_c")])
    wish = draw.pick(
        f"By how many °C was the mean temperature at {name} {between(season, days)}, taken as the mean of "
        "mean high and mean "
        "low, above the base temperature of its crop?",
        f"Take the middle between mean high and mean low of the days {between(season, days)} at {name}: how many °C is it "
        "above the base temperature of what grows there?",
    )
    return draft(script, (who(draw), wish, aside(draw)), answer, expected)


# Readings that are missing


def backup_station(draw: Draw) -> Draft:
    """The field's own station has missed a day of rain; the other one steps in."""
    days = draw_days(draw, least=4)
    season = season_where(draw, lambda s: s.water(s.fields[0], s.field(s.fields[0]).backup_station, *days) > 80)
    name = season.fields[0]
    own, backup = season.field(name).station, season.field(name).backup_station
    expected = season.water(name, backup, *days)
    season = without_readings(season, own, "rain", draw.integer(*days))
    script = SeasonScript(season)
    field = script.field(name)
    missed = script.no_weather(name, part(field, "station"), "rain", *days)
    what = f"{name}, from the other station,"
    rain = script.weather(what, backup, part(field, "backup_station"), "rain", *days, after=[missed])
    answer = _water(script, name, days, field, rain)
    wish = draw.pick(
        f"How many cubic metres of irrigation does {name} lack {between(season, days)}? For anything that its own "
        "station has not measured on all days, take all days from its backup station.",
        f"Please work out the m3 of water that {name} is short of {between(season, days)}; where readings are incomplete, "
        "its backup station is to be used for that measure.",
    )
    return draft(script, (who(draw), wish, aside(draw)), answer, expected)


def no_readings(draw: Draw) -> Draft:
    """Both stations have missed the same day of rain."""
    season, days = draw_season(draw), draw_days(draw)
    name = draw.choice(season.fields)
    own, backup = season.field(name).station, season.field(name).backup_station
    missing = draw.integer(*days)
    for station in (own, backup):
        season = without_readings(season, station, "rain", missing)
    script = SeasonScript(season)
    field = script.field(name)
    missed = script.no_weather(name, part(field, "station"), "rain", *days)
    script.no_weather(f"{name}, from the other station,", part(field, "backup_station"), "rain", *days, after=[missed])
    wish = draw.pick(
        f"How many mm of rain fell on {name} {between(season, days)}, by its own station or else by its backup station?",
        f"The sum of rain in mm on {name} {between(season, days)} is wanted, measured on every day by one of its two stations.",
    )
    return draft(script, (who(draw), wish, aside(draw)), None, None)


def no_sample(draw: Draw) -> Draft:
    """The soil of this field was never sampled; that of the others was."""
    season, product = draw_season(draw), draw.choice(FERTILIZERS)
    name = draw.choice(season.fields)
    soil = {other: row for other, row in season.region.soil.items() if other != name}
    season = Season(replace(season.region, soil=soil))
    script = SeasonScript(season)
    script.crop(name, script.field(name))
    script.soil(name, missing=True)
    wish = draw.pick(
        f"How many kilograms of {product} does {name} need, going by its own soil, for its crop's nitrogen at this stage?",
        f"{name} must not get more {product} than its crop needs beyond what its own soil holds. How many kg may it be?",
    )
    return draft(script, (who(draw), aside(draw), wish), None, None)


def not_traded(draw: Draw) -> Draft:
    """There is no price for the crop of this field."""
    season = draw_season(draw)
    name = draw.choice(season.fields)
    prices = {product: row for product, row in season.region.prices.items() if product != season.field(name).crop}
    season = Season(replace(season.region, prices=prices))
    script = SeasonScript(season)
    field = script.field(name)
    script.crop(name, field)
    script.price(part(field, "crop"), f"the crop of {name}", missing=True)
    wish = draw.pick(
        f"How many dollars does the harvest of {name} bring today, at the usual yield and the market's price for that very crop?",
        f"What is the usual harvest of {name} worth in dollars at today's market price of its crop?",
    )
    return draft(script, (who(draw), wish, aside(draw)), None, None)
