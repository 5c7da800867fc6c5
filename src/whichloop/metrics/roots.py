"""A root of a continuous function: `scipy.optimize`, which finds many more things, takes 0.13 s of CPU to import."""

from __future__ import annotations

import sys
from collections.abc import Callable


def root(function: Callable[[float], float], low: float, high: float, within: float = 2e-12) -> float:
    """Return a root between `low` and `high`, where the function has different signs, or a place `within` of one.

    Where the last three places look like those of a smooth inverse function, the next one is read off a parabola through them;
    elsewhere it halves the interval (Chandrupatla 1997, Advances in Engineering Software 28:145-149).
    Raises ValueError if the signs are equal.
    """
    newest, other = low, high
    at_newest, at_other = function(newest), function(other)
    if at_newest and at_other and (at_newest > 0) == (at_other > 0):
        raise ValueError(f"the function has the same sign at {low!r} and {high!r}")
    share = 0.5
    while True:
        place = newest + share * (other - newest)
        at_place = function(place)
        if (at_place > 0) == (at_newest > 0):
            oldest, at_oldest = newest, at_newest
        else:
            oldest, at_oldest, other, at_other = other, at_other, newest, at_newest
        newest, at_newest = place, at_place
        best, at_best = min(((newest, at_newest), (other, at_other)), key=lambda point: abs(point[1]))
        least = (within / 2 + 2 * sys.float_info.epsilon * abs(best)) / max(abs(other - newest), sys.float_info.min)
        if least > 0.5 or at_best == 0:
            return best
        share = min(max(_share((newest, other, oldest), (at_newest, at_other, at_oldest)), least), 1 - least)


def _share(places: tuple[float, float, float], values: tuple[float, float, float]) -> float:
    """Return the share of the way from the first place to the second at which the next one lies."""
    (a, b, c), (at_a, at_b, at_c) = places, values
    across, up = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
    if up**2 < across and (1 - up) ** 2 < 1 - across:
        straight = at_a / (at_b - at_a) * at_c / (at_b - at_c)
        return straight + (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
    return 0.5
