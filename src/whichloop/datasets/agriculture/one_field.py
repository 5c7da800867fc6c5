"""Stories of one field: chains of sources and calculations, some of them with readings that are missing."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from whichloop.protocol import Ref

from ..generating import Draft, Draw, part
from .region import Measure
from .season import FERTILIZERS, Season, SeasonScript, draft, draw_season
from .several_fields import aside, between, draw_days, season_where, who, without_readings

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
