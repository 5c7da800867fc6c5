"""What the stories share: seasons that fit a story, spans of days, and who asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..generating import Draw, draw_until
from .region import Measure
from .season import DAYS, Season, draw_season


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
